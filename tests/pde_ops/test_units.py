"""The unit gate: CF spellings, coherent SI, unit variables, and conversions."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pde_ops.errors import UnitError
from pde_ops.units import UnitSignature, coherent_unit, from_si, parse_unit, same_dimension, show, to_si


@pytest.mark.parametrize(
    ("cf", "pint_spelling"),
    [("m2 s-1", "m**2/s"), ("kg kg-1", "kg/kg"), ("W m-2", "W/m**2"), ("m s-1", "m/s"), ("Pa s-1", "Pa/s"), ("1", "")],
)
def test_cf_and_pint_spellings_are_the_same_unit(cf, pint_spelling):
    assert parse_unit(cf) == parse_unit(pint_spelling)


@pytest.mark.parametrize(
    "order", ["import metpy.units; import pde_ops.units", "import pde_ops.units; import metpy.units"]
)
def test_cf_spellings_work_in_either_import_order_with_metpy(order):
    code = (
        f"{order}\nfrom pde_ops.units import parse_unit\nfrom metpy.units import units\n"
        "assert parse_unit('m2 s-1') == units.Unit('m**2/s') == units('m2 s-1').units, 'not one registry'\n"
        "assert abs(units('1e-3 m').to('mm').magnitude - 1) < 1e-12\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", ["m/s", "Pa", "K", "kg/kg", "1/s", "rad", "W/m**2", "N/m2"])
def test_coherent_units_are_accepted_for_fields(unit):
    assert coherent_unit(unit, owner="x") == parse_unit(unit)


@pytest.mark.parametrize(
    ("unit", "instead"),
    [("hPa", "Pa"), ("degC", "K"), ("%", "1"), ("km/hour", "m/s"), ("degree", "rad"), ("degF", "K")],
)
def test_other_units_are_refused_with_the_si_unit_to_declare(unit, instead):
    with pytest.raises(UnitError, match=rf"not coherent SI; declare \[{instead}\]"):
        coherent_unit(unit, owner="Field('x')")


@pytest.mark.parametrize("unit", ["foo", "m/", "m**s", "3", "==A"])
def test_what_is_no_unit_is_a_unit_error(unit):
    with pytest.raises(UnitError):
        coherent_unit(unit, owner="x")


def test_a_signature_resolves_its_variables():
    bound = {"A": parse_unit("K"), "B": parse_unit("m")}
    assert same_dimension(UnitSignature("=A / s").resolve(bound), parse_unit("K/s"))
    assert same_dimension(UnitSignature("=A**2 * =B / s").resolve(bound), parse_unit("K**2*m/s"))
    assert UnitSignature("=A").binds == "A"
    assert UnitSignature("=A / s").binds is None
    assert UnitSignature("m/s").binds is None


@pytest.mark.parametrize("text", ["2 * m", "hPa", "=A / hour"])
def test_a_signature_is_a_pure_coherent_unit(text):
    with pytest.raises(UnitError):
        UnitSignature(text)


@given(st.floats(1e-6, 1e6), st.sampled_from(["km**2/hour", "1/day", "hPa", "kt", "m/s"]))
def test_conversion_to_si_and_back_is_the_identity(value, unit):
    # two float64 multiplications: a few ulp
    assert from_si(to_si(value, unit), unit).magnitude == pytest.approx(value, rel=1e-14)


def test_dimensionless_shows_as_one():
    assert show(parse_unit("kg/kg")) == "1"
