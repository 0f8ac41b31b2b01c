"""The constants are MetPy's to the last bit, carry units, and cannot be changed."""

import copy

import pint
import pytest

from pde_ops import constants
from pde_ops.constants import Constant

SAME_AS_METPY = {
    "R": "R",
    "M_d": "Md",
    "M_v": "Mw",
    "R_d": "Rd",
    "R_v": "Rv",
    "epsilon": "epsilon",
    "c_p": "Cp_d",
    "c_v": "Cv_d",
    "kappa": "kappa",
    "L_v0": "Lv",
    "c_pv": "Cp_v",
    "c_l": "Cp_l",
    "e_s0": "sat_pressure_0c",
    "T_triple": "T0",
    "Omega": "omega",
    "earth_radius": "Re",
    "g": "g",
    "p0": "P0",
}
DECLARED = {name: value for name, value in vars(constants).items() if isinstance(value, Constant)}


@pytest.mark.parametrize(("ours", "theirs"), SAME_AS_METPY.items())
def test_constant_equals_metpy_exactly_in_its_own_unit(ours, theirs):
    metpy_constants = pytest.importorskip("metpy.constants")
    value = DECLARED[ours]
    assert float(value) == getattr(metpy_constants, theirs).m_as(value.unit)


def test_standard_atmosphere_equals_metpy_but_for_the_temperature_it_rounds():
    basic = pytest.importorskip("metpy.calc.basic")
    assert constants.p_standard == basic.p0.m_as("Pa")
    assert constants.lapse_standard == basic.gamma.m_as("K/km") / 1e3  # pint's own K/m is off by an ulp
    assert constants.T_standard == 288.15
    assert basic.t0.m_as("K") == 288.0  # when MetPy takes the exact value, say so in `T_standard`


def test_zero_celsius_is_where_pint_puts_it():
    assert constants.T_zero_celsius == pint.get_application_registry().Quantity(0.0, "degC").m_as("K")


def test_every_constant_is_held_to_an_authority_by_a_test_above():
    elsewhere = {"T_zero_celsius", "p_standard", "T_standard", "lapse_standard"}
    assert set(DECLARED) == set(SAME_AS_METPY) | elsewhere


@pytest.mark.parametrize("name", DECLARED)
def test_constant_is_in_coherent_si_and_names_its_source(name):
    value = DECLARED[name]
    factor = pint.get_application_registry().Quantity(1.0, value.unit).to_base_units().magnitude
    assert factor == pytest.approx(1.0, abs=1e-12)
    assert len(value.source) > 10


def test_constant_is_a_float_and_arithmetic_gives_plain_floats():
    assert isinstance(constants.R_d, float)
    assert type(constants.R_d / constants.c_p) is float
    assert constants.R_d / constants.c_p == constants.kappa


def test_constant_cannot_be_changed_but_can_be_copied():
    with pytest.raises(AttributeError, match="fixed"):
        constants.g.unit = "ft/s**2"
    twin = copy.deepcopy(constants.g)
    assert (float(twin), twin.unit, twin.source) == (9.80665, "m/s**2", constants.g.source)
