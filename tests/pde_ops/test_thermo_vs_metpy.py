"""MetPy is the oracle: every formula equals its MetPy twin to 1e-10 in float64 over the physical envelope.

Arrays are drawn rather than scalars, so that a hypothesis example costs one call into MetPy.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pde_ops import thermo

mpcalc = pytest.importorskip("metpy.calc")
units = pytest.importorskip("metpy.units").units

RTOL = 1e-10  # the project's tolerance for MetPy in float64; round-off alone is about 1e-14
CORNERS = np.array(np.meshgrid([180.0, 273.16, 340.0], [300e2, 1e5, 1100e2], [1e-4, 1.0, 1.2])).reshape(3, -1)

examples = settings(max_examples=20, deadline=None, derandomize=True)


@st.composite
def envelope(draw, size=40):
    """Draw T [K], p [Pa], r [1] over the envelope, its corners always included; e stays below 0.9 p."""
    drawn = [
        draw(arrays(np.float64, size, elements=st.floats(low, high)))
        for low, high in [(180.0, 340.0), (300e2, 1100e2), (1e-4, 1.2)]
    ]
    T, p, r = np.concatenate([np.stack(drawn), CORNERS], axis=1)
    # Near e = p MetPy's detour through the mixing ratio loses digits, and no air is like that.
    r = np.minimum(r, 0.9 * p / saturation(T))
    keep = saturation(T) < 0.9 * p
    return T[keep], p[keep], r[keep]


def saturation(T):
    return mpcalc.saturation_vapor_pressure(units.Quantity(T, "K")).m_as("Pa")


def K(x):
    return units.Quantity(x, "K")


def Pa(x):
    return units.Quantity(x, "Pa")


def one(x):
    return units.Quantity(x, "dimensionless")


def ours(function, *arguments):
    return function(*(torch.as_tensor(x) for x in arguments)).numpy()


def humidity(T, p, r):
    w = mpcalc.mixing_ratio_from_relative_humidity(Pa(p), K(T), one(r))
    return mpcalc.specific_humidity_from_mixing_ratio(w).m_as("")


# Name of our function -> MetPy's value and our value, from one draw of the envelope.
TWINS = {
    "exner": lambda T, p, r: (mpcalc.exner_function(Pa(p)).m_as(""), ours(thermo.exner, p)),
    "potential_temperature": lambda T, p, r: (
        mpcalc.potential_temperature(Pa(p), K(T)).m_as("K"),
        ours(thermo.potential_temperature, T, p),
    ),
    "temperature": lambda T, p, r: (
        mpcalc.temperature_from_potential_temperature(Pa(p), K(T)).m_as("K"),
        ours(thermo.temperature, T, p),
    ),
    "latent_heat_vaporisation": lambda T, p, r: (
        mpcalc.water_latent_heat_vaporization(K(T)).m_as("J/kg"),
        ours(thermo.latent_heat_vaporisation, T),
    ),
    "saturation_vapour_pressure": lambda T, p, r: (saturation(T), ours(thermo.saturation_vapour_pressure, T)),
    "vapour_pressure": lambda T, p, r: (
        mpcalc.vapor_pressure(Pa(p), mpcalc.mixing_ratio_from_specific_humidity(one(humidity(T, p, r)))).m_as("Pa"),
        ours(thermo.vapour_pressure, humidity(T, p, r), p),
    ),
    "specific_humidity_from_vapour_pressure": lambda T, p, r: (
        mpcalc.specific_humidity_from_mixing_ratio(mpcalc.mixing_ratio(Pa(r * saturation(T)), Pa(p))).m,
        ours(thermo.specific_humidity_from_vapour_pressure, r * saturation(T), p),
    ),
    "saturation_humidity": lambda T, p, r: (
        mpcalc.specific_humidity_from_dewpoint(Pa(p), K(T)).m_as(""),
        ours(thermo.saturation_humidity, T, p),
    ),
    "relative_humidity": lambda T, p, r: (
        mpcalc.relative_humidity_from_specific_humidity(Pa(p), K(T), one(humidity(T, p, r))).m_as(""),
        ours(thermo.relative_humidity, T, p, humidity(T, p, r)),
    ),
    "specific_humidity": lambda T, p, r: (humidity(T, p, r), ours(thermo.specific_humidity, T, p, r)),
    "dew_point": lambda T, p, r: (
        mpcalc.dewpoint(Pa(r * saturation(T))).m_as("K"),
        ours(thermo.dew_point, r * saturation(T)),
    ),
    "dew_point_from_relative_humidity": lambda T, p, r: (
        mpcalc.dewpoint_from_relative_humidity(K(T), one(r)).m_as("K"),
        ours(thermo.dew_point_from_relative_humidity, T, r),
    ),
    "virtual_temperature": lambda T, p, r: (
        mpcalc.virtual_temperature(K(T), mpcalc.mixing_ratio_from_specific_humidity(one(humidity(T, p, r)))).m_as("K"),
        ours(thermo.virtual_temperature, T, humidity(T, p, r)),
    ),
    "air_density": lambda T, p, r: (
        mpcalc.density(Pa(p), K(T), mpcalc.mixing_ratio_from_specific_humidity(one(humidity(T, p, r)))).m_as("kg/m**3"),
        ours(thermo.air_density, T, p, humidity(T, p, r)),
    ),
    "mixing_ratio_from_specific_humidity": lambda T, p, r: (
        mpcalc.mixing_ratio_from_specific_humidity(one(humidity(T, p, r))).m_as(""),
        ours(thermo.mixing_ratio_from_specific_humidity, humidity(T, p, r)),
    ),
    "specific_humidity_from_mixing_ratio": lambda T, p, r: (
        mpcalc.specific_humidity_from_mixing_ratio(one(humidity(T, p, r))).m_as(""),
        ours(thermo.specific_humidity_from_mixing_ratio, humidity(T, p, r)),
    ),
}


@pytest.mark.parametrize("name", TWINS)
@examples
@given(air=envelope())
def test_formula_equals_metpy_over_the_physical_envelope(name, air):
    theirs, mine = TWINS[name](*air)
    assert np.isfinite(theirs).all()
    np.testing.assert_allclose(mine, theirs, rtol=RTOL, atol=0)


def test_every_formula_has_a_metpy_twin_but_bolton_which_metpy_no_longer_has():
    assert set(thermo.__all__) - set(TWINS) == {"saturation_vapour_pressure_bolton"}


@examples
@given(air=envelope())
def test_bolton_is_the_formula_that_metpy_inverts_for_the_dew_point(air):
    T, _, _ = air
    e = ours(thermo.saturation_vapour_pressure_bolton, T)
    np.testing.assert_allclose(mpcalc.dewpoint(Pa(e)).m_as("K"), T, rtol=RTOL, atol=0)


def test_bolton_differs_from_ambaum_by_at_most_four_per_mille_over_its_range_of_fit():
    T = np.linspace(238.15, 308.15, 701)  # -35 to 35 degC, Bolton (1980)
    difference = np.abs(ours(thermo.saturation_vapour_pressure_bolton, T) / saturation(T) - 1.0)
    assert 0.0035 < difference.max() < 0.004


def test_dew_point_of_dry_air_is_finite_where_metpy_has_none():
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.isnan(mpcalc.dewpoint(Pa(np.array([0.0]))).m_as("K")).all()
    assert ours(thermo.dew_point, np.array([0.0, -1.0])) == pytest.approx([120.98, 120.98], abs=0.01)
