"""Time axes: order, duplicates, gaps, irregular steps, summer time."""

import numpy as np
import pytest

from fields.checks.time_axis import check_times
from fields.times import most_common_step, summer_time_jumps


def hours(start, count, step=1):
    return np.datetime64(start, "s") + np.arange(count) * np.timedelta64(step, "h")


def codes(times, **options):
    return check_times(times, "obs.csv", "stationpde data ingest obs.csv", **options).codes()


def local_clock(zone, start, count):
    """Return what a clock that follows summer time shows, hour after hour."""
    from zoneinfo import ZoneInfo

    utc = hours(start, count).astype("datetime64[s]").astype(object)
    from datetime import UTC

    shown = [t.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for t in utc]
    return np.array(shown, dtype="datetime64[s]")


def test_a_regular_axis_passes_in_silence_through_leap_days():
    assert codes(hours("2020-02-27", 24 * 5)) == set()
    assert codes(hours("2019-12-30", 24 * 5)) == set()


@pytest.mark.parametrize(
    ("times", "code"),
    [
        (hours("2021-05-03", 10)[::-1], "SPDE-D035"),
        (np.repeat(hours("2021-05-03", 10), 2), "SPDE-D034"),
        (np.delete(hours("2021-05-03", 50), [7, 8, 30]), "SPDE-D027"),
        (np.append(hours("2021-05-03", 10), np.datetime64("2021-05-03T10:20", "s")), "SPDE-D036"),
        (np.append(hours("2021-05-03", 10), np.datetime64("NaT")), "SPDE-D010"),
        (hours("1700-05-03", 10), "SPDE-D010"),
        (hours("2250-05-03", 10), "SPDE-D010"),
    ],
    ids=["unsorted", "duplicate", "gap", "irregular", "not a time", "too early", "too late"],
)
def test_each_fault_has_its_code(times, code):
    assert code in codes(times)


def test_mixed_steps_are_gaps_of_the_shorter_one():
    mixed = np.concatenate([hours("2021-05-03", 100), hours("2021-05-07T06", 20, step=3)])
    assert codes(mixed) == {"SPDE-D027"}
    assert most_common_step(mixed) == 3600


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "America/Sao_Paulo"])
def test_a_clock_with_summer_time_is_found(zone):
    year = "2017-01-01" if "Sao" in zone else "2021-01-01"  # Brazil gave it up in 2019
    times = local_clock(zone, year, 365 * 24)
    forward, back = summer_time_jumps(times)
    assert forward.size >= 1 and back.size >= 1
    report = check_times(times, "obs.csv", "stationpde data ingest obs.csv")
    clock = next(problem for problem in report.errors if problem.code == "SPDE-D037")
    assert "--time-zone" in clock.do


def test_many_stations_on_one_clock_do_not_hide_the_jump():
    times = np.repeat(local_clock("Europe/Paris", "2021-09-01", 90 * 24), 5)  # rows of a long table
    assert summer_time_jumps(times)[1].tolist() == [np.datetime64("2021-10-31").astype(object)]


def test_gaps_and_duplicates_on_other_days_are_no_summer_time():
    times = np.delete(hours("2021-03-01", 24 * 60), [50, 300, 700])
    times = np.sort(np.append(times, times[[20, 444]]))
    assert "SPDE-D037" not in codes(times)


# ---- the mend --------------------------------------------------------------------------------------------------
