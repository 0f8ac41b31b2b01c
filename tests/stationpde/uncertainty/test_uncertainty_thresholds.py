"""Thresholds in words and levels of quantiles: read, or refused with what can be typed."""

import pytest

from stationpde.errors import UsageError
from stationpde.uncertainty.exceedance import Threshold, checked_levels


@pytest.mark.parametrize(("text", "name", "is_above", "value"), [
    ("wind_speed>15 m/s", "ff", True, 15.0),
    ("ff >= 36 km/h", "ff", True, 10.0),
    ("t < 0 degC", "t", False, 0.0),
    ("air temperature<273.15K", "t", False, 0.0),
    ("relative_humidity > 0.9 1", "rh", True, 90.0),
    ("p<90 kPa", "p", False, 900.0),
])  # fmt: skip
def test_a_threshold_is_read_with_its_unit(text, name, is_above, value):
    threshold = Threshold.parse(text)
    assert (threshold.name, threshold.is_above) == (name, is_above)
    assert threshold.value == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(("text", "message"), [
    ("wind_speed>15", "no unit"), ("wind_speed>15 K", "does not measure"), ("wind_speed>15 parsec", "does not measure"),
    ("gust>15 m/s", "no distribution"), ("windy", "is no threshold"), ("t << 4 K", "is no threshold"), ("", "is no"),
    ("t>__import__('os') K", "is no threshold"), ("t>" + "9" * 400 + " K", "is no threshold"),
    ("t>5e400 K", "is too large"), ("p<-1e999 hPa", "is too large"),
])  # fmt: skip
def test_what_is_no_threshold_is_refused(text, message):
    with pytest.raises(UsageError, match=message) as problem:
        Threshold.parse(text)
    assert problem.value.code == "SPDE-Q011" and problem.value.do


def test_names_of_probabilities_differ_by_variable_side_number_and_unit():
    texts = ("t<0 degC", "t>0 degC", "t<-2.5 degC", "t<0 K", "rh<30 %", "ff>15 m/s")
    keys = [Threshold.parse(text).key for text in texts]
    assert len(set(keys)) == len(keys) and all(key.isidentifier() for key in keys)
    assert keys[2] == "t_below_minus_2p5_degC"


@pytest.mark.parametrize("levels", [[0.0], [1.2], [0.5, "x"], [float("nan")], [], [1.0], [-0.1]])
def test_a_level_outside_0_and_1_is_refused(levels):
    with pytest.raises(UsageError, match="quantile") as problem:
        checked_levels(levels)
    assert problem.value.code == "SPDE-Q010"


@pytest.mark.parametrize("levels", [[0.1, 0.10000001], [0.99999999]])
def test_levels_of_one_name_are_refused(levels):
    with pytest.raises(UsageError, match="six digits"):
        checked_levels(levels)


def test_levels_are_in_order_and_each_once():
    assert checked_levels(["0.9", 0.1, 0.9]) == (0.1, 0.9)
