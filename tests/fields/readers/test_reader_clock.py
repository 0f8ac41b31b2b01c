"""Clocks: zones as people write them, summer time by name of the place, a regular axis among the times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fields.errors import DataError, UsageError
from fields.readers import ReadOptions
from fields.readers.axis import Axis, find_axis
from fields.times import Zone

HOUR = 3600


def seconds(text: str) -> int:
    return int(np.datetime64(text, "s").astype(np.int64))


@pytest.mark.parametrize(
    ("name", "offset"), [("UTC", 0), ("z", 0), ("UTC+8", 28800), ("+05:30", 19800), ("GMT-3", -10800)]
)
def test_fixed_zones_are_read_in_every_spelling(name, offset):
    assert Zone.parse(name).offset == offset


@pytest.mark.parametrize("name", [
    "UTC+99", "Mars/Olympus", "../../etc/passwd", "", "/etc/localtime", "+8h", "localtime", "posixrules", "Factory",
    "right/UTC", "posix/Europe/Paris",
])  # fmt: skip
def test_a_zone_that_does_not_exist_is_refused(name):
    with pytest.raises(UsageError, match="is not a time zone"):
        Zone.parse(name)


def test_an_empty_zone_is_no_zone():
    with pytest.raises(UsageError, match="is not a time zone"):
        ReadOptions(zone="")


def test_the_zone_of_a_place_follows_its_summer_time():
    local = np.array([seconds("2021-01-01T12:00"), seconds("2021-07-01T12:00")])
    first, last = Zone.parse("Europe/Paris").to_utc(local, "x")
    assert (local - first).tolist() == [HOUR, 2 * HOUR]
    assert np.array_equal(first, last)


def test_an_hour_that_a_clock_shows_twice_has_two_readings():
    local = np.array([seconds("2021-10-31T02:30")])
    first, last = Zone.parse("Europe/Paris").to_utc(local, "x")
    assert (last - first).tolist() == [HOUR]


def test_an_hour_that_a_clock_never_shows_is_refused():
    with pytest.raises(DataError) as caught:
        Zone.parse("Europe/Paris").to_utc(np.array([seconds("2021-03-28T02:30")]), "obs.csv")
    assert caught.value.code == "SPDE-D037"


def test_times_beyond_what_can_be_kept_are_refused():
    with pytest.raises(DataError, match="2262"):
        Zone.parse("UTC").to_utc(np.array([10**11]), "obs.csv")


def axis_of(times, step=None, tolerance=None) -> Axis:
    return find_axis(np.unique(np.asarray(times, np.int64)), step, tolerance, "obs.csv", "stationpde data ingest x")


@given(st.integers(-(10**9), 10**9), st.sampled_from([60, 600, 3600, 10800, 86400]), st.integers(2, 300))
def test_a_regular_axis_is_found_wherever_it_begins(start, step, count):
    axis = axis_of(start + step * np.arange(count))
    assert (axis.start, axis.step, axis.count) == (start, step, count)


def test_gaps_are_left_in_the_axis():
    times = HOUR * np.delete(np.arange(100), [7, 8, 50])
    assert axis_of(times).count == 100


def test_a_network_that_mixes_hourly_and_three_hourly_stations_gets_hours():
    assert axis_of([*(HOUR * np.arange(48)), *(3 * HOUR * np.arange(40))]).step == HOUR


def test_one_time_in_a_hundred_between_the_steps_does_not_halve_them():
    times = HOUR * np.arange(200)
    axis = axis_of([*times, HOUR * 50 + 1800])
    assert (axis.step, axis.count) == (HOUR, 200)
    assert axis_of([*times[:50], *(times[:50] + 1800)]).step == 1800


def test_times_a_second_apart_ask_for_the_unit():
    with pytest.raises(DataError, match="1s apart"):
        axis_of(np.arange(240))
    assert axis_of(np.arange(240), step=1).step == 1


def test_irregular_times_ask_for_a_step_and_say_which():
    times = HOUR * np.arange(100) + np.where(np.arange(100) == 40, 420, 0)
    with pytest.raises(DataError, match="irregular") as caught:
        axis_of(times)
    assert "--step 1h --tolerance 10min" in caught.value.do


def test_a_declared_tolerance_takes_reports_before_the_hour():
    axis = axis_of(HOUR * np.arange(1, 100) - 420, step=HOUR, tolerance=600)
    assert (axis.start, axis.count) == (HOUR, 99)


def test_a_tolerance_of_more_than_half_a_step_is_refused():
    with pytest.raises(UsageError, match="half the step"):
        Axis(0, HOUR, 10, 2000)


def test_one_mistyped_year_does_not_make_a_century_of_gaps():
    with pytest.raises(DataError, match="mistyped"):
        axis_of([*(HOUR * np.arange(1000)), seconds("2199-01-01")], step=HOUR)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.integers(1, 5000))
def test_every_time_goes_to_the_nearest_step(times, step):
    axis = Axis(0, step, 10**9)
    slot, distance = axis.slots(np.asarray(times, np.int64))
    assert np.all(distance <= step // 2)
    assert np.array_equal(np.abs(np.asarray(times) - slot * step), distance)


@pytest.mark.parametrize(
    ("jitter", "step", "advice"),
    [(7, HOUR, "--step 1h --tolerance 10min"), (90, 600, "--step 10min --tolerance 150s"),
     (500, 3 * HOUR, "--step 3h --tolerance 10min")],
)  # fmt: skip
def test_times_that_jitter_are_advised_the_round_step_that_takes_them(jitter, step, advice):
    times = np.arange(300) * step
    both = np.unique(np.concatenate([times, times[::3] + jitter]))
    with pytest.raises(DataError, match="irregular") as caught:
        axis_of(both)
    assert caught.value.do.endswith(advice)
    axis = axis_of(both, step, [600, 150][step == 600])
    assert axis.step == step and axis.count == 300
