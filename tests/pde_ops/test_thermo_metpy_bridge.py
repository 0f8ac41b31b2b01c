"""The doorway through MetPy: any unit in, SI out, nothing implausible or misaligned let through."""

import sys

import numpy as np
import pint
import pytest
import torch

from pde_ops import thermo, thermo_metpy
from pde_ops.errors import PlausibilityError, ShapeError, UnitError
from pde_ops.units import registry

pytest.importorskip("metpy")
xr = pytest.importorskip("xarray")
Q = registry.Quantity

GOOD = {
    "u": Q(np.array([3.0, -2.0, 0.0]), "m/s"),
    "v": Q(np.array([0.0, 18.0, -36.0]), "km/hour"),
    "p": Q(np.array([1013.25, 870.0, 655.0]), "hPa"),
    "T": Q(np.array([15.0, 31.0, -22.0]), "degC"),
    "RH": Q(np.array([55.0, 100.0, 0.0]), "percent"),
}


def arrays(**changed):
    """Return the good example as xarray data arrays with CF attributes."""
    names = {"u": "eastward_wind", "v": "northward_wind", "p": "surface_air_pressure"}
    names |= {"T": "air_temperature", "RH": "relative_humidity"}
    stations = {"station": ["a", "b", "c"]}
    made = {
        key: xr.DataArray(
            q.magnitude, stations, ["station"], attrs={"units": f"{q.units}", "standard_name": names[key]}
        )
        for key, q in GOOD.items()
    }
    return made | changed


def test_state_is_the_si_state_of_the_torch_formulas():
    state = thermo_metpy.to_state(**GOOD)
    T, p, r = torch.tensor(
        [[288.15, 304.15, 251.15], [101325.0, 87000.0, 65500.0], [0.55, 1.0, 0.0]], dtype=torch.float64
    )
    np.testing.assert_allclose(state.u, [3.0, -2.0, 0.0])
    np.testing.assert_allclose(state.v, [0.0, 5.0, -10.0], rtol=1e-14)
    np.testing.assert_allclose(state.p, p, rtol=1e-14)
    np.testing.assert_allclose(state.theta, thermo.potential_temperature(T, p), rtol=1e-10)
    np.testing.assert_allclose(state.q, thermo.specific_humidity(T, p, r), rtol=1e-10)
    assert all(x.dtype == np.float64 and x.shape == (3,) for x in state)


def test_from_state_undoes_to_state():
    back = thermo_metpy.from_state(*thermo_metpy.to_state(**GOOD))
    for name, quantity in GOOD.items():
        unit = quantity.units
        np.testing.assert_allclose(getattr(back, name).m_as(unit), quantity.magnitude, rtol=0, atol=1e-9)
    assert [f"{q.units:~}" for q in back] == ["m / s", "m / s", "Pa", "K", "%"]


def test_from_state_takes_tensors_that_carry_gradients():
    state = [torch.tensor(x, requires_grad=True) for x in thermo_metpy.to_state(**GOOD)]
    assert thermo_metpy.from_state(*state).RH.m_as("percent") == pytest.approx([55.0, 100.0, 0.0], abs=1e-9)


def test_data_arrays_give_the_state_of_quantities():
    for mine, plain in zip(thermo_metpy.to_state(**arrays()), thermo_metpy.to_state(**GOOD)):
        np.testing.assert_array_equal(mine, plain)


def test_data_array_with_pint_data_needs_no_unit_attribute():
    quantified = arrays()["T"].copy(data=GOOD["T"])
    quantified.attrs.clear()
    state = thermo_metpy.to_state(**arrays(T=quantified))
    np.testing.assert_array_equal(state.theta, thermo_metpy.to_state(**GOOD).theta)


def test_quantities_of_another_registry_are_understood():
    other = pint.UnitRegistry()
    foreign = {name: other.Quantity(q.magnitude, str(q.units)) for name, q in GOOD.items()}
    np.testing.assert_array_equal(thermo_metpy.to_state(**foreign).q, thermo_metpy.to_state(**GOOD).q)


def test_scalars_broadcast_and_missing_values_stay_missing():
    T = Q(np.array([15.0, np.nan, -22.0]), "degC")
    state = thermo_metpy.to_state(**GOOD | {"p": Q(1000.0, "hPa"), "T": T})
    assert state.p.tolist() == [1e5] * 3
    assert np.isnan(state.theta).tolist() == np.isnan(state.q).tolist() == [False, True, False]
    state.p[0] = 9e4  # the arrays are the caller's own


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("p", Q(np.full(3, 101325.0), "hPa"), r"`p`.*101325 hPa.*look like \[Pa\]"),
        ("T", Q(np.full(3, 288.0), "degC"), r"`T`.*288 °C.*look like \[K\]"),
        ("RH", Q(np.full(3, 55.0), ""), r"`RH`.*55,.*look like \[%\]"),
    ],
)
def test_mislabelled_unit_is_refused_naming_value_and_likely_unit(name, value, message):
    with pytest.raises(PlausibilityError, match=message):
        thermo_metpy.to_state(**GOOD | {name: value})


def test_wrong_dimension_is_refused_naming_both_units():
    with pytest.raises(UnitError, match=r"to_state: `T` needs air temperature \[K\] but came in \[hPa\]"):
        thermo_metpy.to_state(**GOOD | {"T": GOOD["p"]})


@pytest.mark.parametrize("bare", [288.0, np.full(3, 288.0), torch.full((3,), 288.0), xr.DataArray([1.0])])
def test_bare_numbers_are_refused_with_the_way_to_attach_a_unit(bare):
    with pytest.raises(UnitError, match=r"`T`.*with a unit.*Quantity\(T, 'K'\)"):
        thermo_metpy.potential_temperature(bare, GOOD["p"])


@pytest.mark.parametrize(
    ("name", "standard_name"),
    [("RH", "specific_humidity"), ("u", "wind_from_direction"), ("p", "air_pressure_at_mean_sea_level")],
)
def test_data_array_of_another_standard_name_is_refused(name, standard_name):
    wrong = arrays()[name].assign_attrs(standard_name=standard_name)
    with pytest.raises(UnitError, match=f"`{name}`.*`{standard_name}`"):
        thermo_metpy.to_state(**arrays(**{name: wrong}))


def test_shapes_that_do_not_fit_are_refused_together():
    with pytest.raises(ShapeError, match=r"`T` \(2,\)"):
        thermo_metpy.to_state(**GOOD | {"T": Q(np.array([280.0, 281.0]), "K")})


def test_data_arrays_of_other_stations_are_refused():
    moved = arrays()["T"].assign_coords(station=["a", "b", "d"])
    with pytest.raises(ShapeError, match="`T`"):
        thermo_metpy.to_state(**arrays(T=moved))


def test_data_arrays_of_other_dimension_order_are_refused_even_if_square():
    def square(key, dims):
        return xr.DataArray(np.full((3, 3), GOOD[key].magnitude[0]), dims=dims, attrs={"units": str(GOOD[key].units)})

    given = {key: square(key, ("time", "station")) for key in GOOD}
    assert thermo_metpy.to_state(**given).q.shape == (3, 3)
    with pytest.raises(ShapeError, match="`RH`"):
        thermo_metpy.to_state(**given | {"RH": square("RH", ("station", "time"))})


def test_combination_that_no_air_has_is_refused():
    boiling = {"p": Q(305.0, "hPa"), "T": Q(339.0, "K"), "RH": Q(1.2, "")}
    with pytest.raises(PlausibilityError, match="together"):
        thermo_metpy.to_state(**GOOD | boiling)


SCALARS = {
    "T": (Q(77.0, "degF"), 298.15),
    "theta": (Q(25.0, "degC"), 298.15),
    "p": (Q(900.0, "hPa"), 9e4),
    "RH": (Q(40.0, "percent"), 0.4),
    "q": (Q(8.0, "g/kg"), 0.008),
    "e": (Q(12.0, "hPa"), 1200.0),
}
WRAPPERS = {
    "potential_temperature": (("T", "p"), "K"),
    "temperature": (("theta", "p"), "K"),
    "saturation_vapour_pressure": (("T",), "Pa"),
    "saturation_humidity": (("T", "p"), ""),
    "specific_humidity": (("T", "p", "RH"), ""),
    "relative_humidity": (("T", "p", "q"), ""),
    "dew_point": (("e",), "K"),
    "dew_point_from_relative_humidity": (("T", "RH"), "K"),
    "virtual_temperature": (("T", "q"), "K"),
    "air_density": (("T", "p", "q"), "kg/m**3"),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapper_gives_the_torch_value_in_si(name):
    keys, unit = WRAPPERS[name]
    result = getattr(thermo_metpy, name)(*(SCALARS[key][0] for key in keys))
    assert result.units == registry.parse_units(unit or "dimensionless")
    expected = getattr(thermo, name)(*(SCALARS[key][1] for key in keys))
    assert result.magnitude == pytest.approx(expected, rel=1e-10)  # the project's tolerance for MetPy


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapper_keeps_the_labels_of_data_arrays(name):
    keys, unit = WRAPPERS[name]
    given = [
        xr.DataArray(
            np.full(2, SCALARS[key][0].m), {"station": ["a", "b"]}, attrs={"units": str(SCALARS[key][0].units)}
        )
        for key in keys
    ]
    result = getattr(thermo_metpy, name)(*given)
    assert result.station.values.tolist() == ["a", "b"]
    assert result.metpy.units == registry.parse_units(unit or "dimensionless")
    expected = getattr(thermo, name)(*(SCALARS[key][1] for key in keys))
    np.testing.assert_allclose(np.asarray(result.metpy.unit_array.magnitude), expected, rtol=1e-10)


def test_every_public_wrapper_is_tested():
    others = {"Observation", "State", "from_state", "to_state"}
    assert set(thermo_metpy.__all__) == set(WRAPPERS) | others


def test_without_metpy_a_call_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "metpy.calc", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'metpy>=1\.7'"):
        thermo_metpy.potential_temperature(GOOD["T"], GOOD["p"])
