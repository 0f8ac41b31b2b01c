"""Values that cannot be what their unit says are refused, and the message names the unit they look like."""

import numpy as np
import pytest

from pde_ops.errors import PlausibilityError, UnitError
from pde_ops.plausibility import KINDS, checked
from pde_ops.units import parse_unit


@pytest.mark.parametrize(
    ("name", "value", "declared", "looks_like"),
    [
        ("p", 101325.0, "hPa", "Pa"),
        ("p", 1013.25, "Pa", "hPa"),
        ("p", 101.3, "hPa", "kPa"),
        ("p", 29.92, "hPa", "inHg"),
        ("T", 288.15, "degC", "K"),
        ("T", 15.0, "K", "°C"),
        ("T", 95.0, "degC", "°F"),
        ("theta", 25.0, "K", "°C"),
        ("RH", 55.0, "1", "%"),
        ("RH", 0.55, "percent", "1"),
        ("q", 8.0, "kg/kg", "g/kg"),
        ("u", 155.0, "m/s", "km/h"),
    ],
)
def test_mislabelled_value_is_refused_and_the_likely_unit_named(name, value, declared, looks_like):
    with pytest.raises(PlausibilityError) as caught:
        checked("reader", name, [value], declared)
    message = str(caught.value)
    assert f"reader: `{name}`" in message
    assert f"{value:g}" in message
    assert f"[{looks_like}]" in caught.value.do
    assert caught.value.code == "SPDE-U002"


def test_message_gives_worst_value_allowed_range_and_count():
    with pytest.raises(
        PlausibilityError, match=r"101400 hPa is 1\.014e\+07 Pa, allowed 30000 to 110000 Pa \(2 of 3 values\)"
    ):
        checked("reader", "p", [101325.0, 101400.0, np.nan], "hPa")


def test_sentinel_that_fits_no_unit_asks_for_nan():
    with pytest.raises(PlausibilityError, match=r"-9999.*NaN"):
        checked("reader", "T", [288.0, -9999.0], "K")


@pytest.mark.parametrize("broken", [np.inf, -np.inf])
def test_infinite_value_is_refused(broken):
    with pytest.raises(PlausibilityError, match="inf"):
        checked("reader", "T", [288.0, broken], "K")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("p", "K"),
        ("T", "C"),
        ("T", "m/s"),
        ("u", "m"),
        ("RH", "degree"),
        ("RH", "g/kg"),
        ("q", "radian"),
        ("q", "percent"),
    ],
)
def test_unit_of_another_quantity_is_refused_with_the_units_that_fit(name, unit):
    with pytest.raises(UnitError, match=rf"reader: `{name}` needs .* one of \["):
        checked("reader", name, [1.0], unit)


@pytest.mark.parametrize(
    ("name", "value", "unit", "si"),
    [
        ("p", 1013.25, "hPa", 101325.0),
        ("p", 29.92, "inHg", 101320.75),
        ("T", 15.0, "degC", 288.15),
        ("T", 59.0, "degF", 288.15),
        ("RH", 55.0, "%", 0.55),
        ("q", 8.0, "g kg-1", 0.008),
        ("u", -36.0, "km/h", -10.0),
    ],
)
def test_good_value_comes_back_in_si(name, value, unit, si):
    assert checked("reader", name, value, unit) == pytest.approx(si, rel=1e-6)  # inHg is known to 7 digits


def test_missing_values_pass_as_nan():
    masked = np.ma.masked_array([288.0, -9999.0], mask=[False, True])
    np.testing.assert_array_equal(checked("reader", "T", masked, "K"), [288.0, np.nan])
    assert np.isnan(checked("reader", "RH", [np.nan, np.nan], "%")).all()
    assert checked("reader", "T", [], "K").shape == (0,)


def test_round_off_beyond_a_bound_passes_but_no_more():
    assert checked("model", "q", [-1e-9], "kg/kg") == [-1e-9]
    with pytest.raises(PlausibilityError):
        checked("model", "q", [-1e-5], "kg/kg")


def test_perfectly_dry_air_is_not_taken_for_a_wrong_label():
    assert checked("reader", "RH", [0.0, 0.0], "%").tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", KINDS)
def test_kind_lists_its_si_unit_first_and_knows_every_spelling(name):
    kind = KINDS[name]
    assert parse_unit(kind.spellings[0]) == parse_unit(kind.unit)
    assert len({parse_unit(spelling) for spelling in kind.spellings}) == len(kind.spellings)
    assert kind.standard_names
