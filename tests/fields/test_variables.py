"""The table of variables and the unit gate: conversions are pint's, and only declared units are converted."""

import json

import hypothesis.strategies as st
import numpy as np
import pint
import pytest
from hypothesis import given

from fields.errors import DataError
from fields.readers import ReadOptions
from fields.units import conversion, to_si
from fields.variables import (
    COORDINATES,
    STATE_VARIABLES,
    VARIABLES,
    PressureKind,
    cf_attributes,
    display_unit,
    from_display,
    to_display,
    variable,
)

EVERYTHING = {**VARIABLES, **COORDINATES}


@pytest.mark.parametrize("name", EVERYTHING)
def test_ranges_are_nested_and_in_order(name):
    row = EVERYTHING[name]
    assert row.hard[0] <= row.typical[0] < row.typical[1] <= row.hard[1]
    assert row.hard[0] <= row.tail[0] < row.tail[1] <= row.hard[1]
    assert row.noise >= 0 and row.step > 0


@pytest.mark.parametrize("name", EVERYTHING)
def test_the_display_unit_agrees_with_pint(name):
    row = EVERYTHING[name]
    shown = {"%": "%", "degrees": "degrees"}.get(row.display, row.display)
    how = conversion(name, shown)
    for value in (0.0, 1.0, 37.5):
        # Both are sums and products of a few doubles: equal but for the last digits.
        assert from_display(name, value) == pytest.approx(how.to_si(value), rel=1e-14, abs=1e-14)
        assert to_display(name, from_display(name, value)) == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_differences_of_temperature_have_no_offset():
    assert to_display("t", 2.5, difference=True) == 2.5
    assert (display_unit("t"), display_unit("t", difference=True)) == ("degC", "K")


@pytest.mark.parametrize(
    ("name", "unit", "value", "si"),
    [
        ("p", "hPa", 1013.25, 101325.0), ("p", "mb", 1013.25, 101325.0), ("p", "inHg", 29.92, 101320.748),
        ("p", "mmHg", 760.0, 101325.0), ("p", "Pa", 90000.0, 90000.0), ("t", "degC", 20.0, 293.15),
        ("t", "C", -40.0, 233.15), ("t", "°F", 212.0, 373.15), ("t", "F", -40.0, 233.15), ("t", "K", 300.0, 300.0),
        ("rh", "%", 55.0, 0.55), ("rh", "1", 0.55, 0.55), ("ff", "kt", 10.0, 5.14444444), ("ff", "mph", 10.0, 4.4704),
        ("ff", "km h-1", 36.0, 10.0), ("ff", "m s-1", 7.0, 7.0), ("alt", "ft", 1000.0, 304.8),
        ("dd", "degrees", 90.0, 90.0), ("precip", "mm", 3.0, 3.0), ("precip", "inch", 1.0, 25.4),
        ("lon", "0-360", 350.0, -10.0),
    ],
)  # fmt: skip
def test_known_conversions(name, unit, value, si):
    # 1e-6: the literature gives these factors to seven digits.
    assert float(to_si(name, np.array([value]), unit)[0]) == pytest.approx(si, rel=1e-6)


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_unit_that_is_offered_can_be_read_and_undone(name):
    for unit in EVERYTHING[name].file_units:
        how = conversion(name, unit)
        values = np.linspace(*EVERYTHING[name].hard, 7)
        np.testing.assert_allclose(how.to_si(how.from_si(values)), values, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("importing", [False, True])
def test_units_read_the_same_whether_metpy_was_imported_or_not(importing):
    if importing:
        pytest.importorskip("metpy.units")
    conversion.cache_clear()
    assert conversion("ff", "m s-1").factor == 1.0
    assert conversion("t", "degF").offset == pytest.approx(459.67 * 5 / 9, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("t", "m/s"),
        ("p", "K"),
        ("rh", "degrees"),
        ("dd", "%"),
        ("t", "hPaa"),
        ("t", "9**9**9**9"),
        ("t", "("),
        ("t", ""),
    ],
)
def test_a_wrong_unit_is_refused_with_those_that_fit(name, unit):
    with pytest.raises(DataError) as caught:
        conversion(name, unit)
    assert caught.value.code == "SPDE-D007" and caught.value.exit_code == 3
    assert variable(name).file_units[0] in caught.value.do


@given(st.text(max_size=60))
def test_any_text_is_a_unit_or_a_typed_error(text):
    how = refused = None
    try:
        how = conversion("t", text)
    except DataError as problem:
        refused = problem
    if how is None:
        assert refused is not None and (refused.code, refused.exit_code) == ("SPDE-D007", 3)
    else:
        assert np.isfinite([how.factor, how.offset]).all() and how.factor != 0.0


def test_the_gate_leaves_pints_registry_as_it_was():
    before = list(pint.get_application_registry().preprocessors)
    conversion("ff", "km h-1")
    assert list(pint.get_application_registry().preprocessors) == before


def test_cf_attributes_name_unit_and_quantity():
    assert cf_attributes("u") == {
        "units": "m s-1",
        "standard_name": "eastward_wind",
        "long_name": "Wind towards the east",
    }
    assert cf_attributes("lat")["units"] == "degrees_north"


def test_an_unknown_variable_names_the_known_ones():
    with pytest.raises(KeyError, match="known: u, v, p, t, rh"):
        variable("temp")
    assert set(STATE_VARIABLES) <= set(VARIABLES)


@pytest.mark.parametrize("kind", PressureKind)
def test_a_kind_of_pressure_is_its_text_in_a_store(kind):
    assert PressureKind.of({"pressure_kind": kind.value}) is kind
    assert json.dumps(kind) == f'"{kind.value}"'
    assert ReadOptions(pressure=kind.option).pressure_kind is kind


def test_pressure_without_a_kind_is_at_the_station():
    assert PressureKind.of({}) is PressureKind.STATION
    assert ReadOptions().pressure_kind is None


def test_an_unknown_kind_of_pressure_is_refused_with_the_kinds_there_are():
    with pytest.raises(DataError, match=r"pressure_kind.*'qnh'") as caught:
        PressureKind.of({"pressure_kind": "qnh"})
    assert all(kind in caught.value.do for kind in ("station", "sea_level", "standard_atmosphere"))
