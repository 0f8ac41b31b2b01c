"""Times and spans: read as people write them, written for people, files and machines."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from fields import times
from fields.errors import DataError, FieldsError, UsageError
from fields.times import format_duration, format_elapsed, format_span, parse_duration, parse_span, parse_time

NOON = 1_688_558_400  # 2023-07-05T12:00


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3h", 10800), ("10min", 600), ("1d", 86400), ("30 s", 30), ("h", 3600), ("5 min", 300), ("1h30min", 5400),
        ("1h30m", 5400), ("1d 6h", 108_000), ("2 days", 172_800), ("3 Hours", 10800), ("1.5h", 5400), ("0s", 0),
    ],
)  # fmt: skip
def test_a_span_is_read_as_people_write_it(text, expected):
    assert parse_span(text) == expected == parse_duration(text)


@pytest.mark.parametrize(("text", "expected"), [("0.5s", 0.5), ("1.5min", 90.0), ("0.25 h", 900.0)])
def test_a_duration_may_have_fractions(text, expected):
    assert parse_duration(text) == expected


@given(st.integers(1, 10**8))
def test_a_written_span_is_read_back(length):
    assert parse_span(format_span(length)) == length == parse_span(format_span(length, " "))


@pytest.mark.parametrize("text", ["", "3 parsecs", "-1h", "0.5s", "h3", "1h30", "3", "1h,5min", "9" * 40 + "h"])
def test_what_is_no_span_of_whole_seconds_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="is not a span of time") as refused:
        parse_span(text)
    assert "1h" in refused.value.do and refused.value.code == "SPDE-D110"


@pytest.mark.parametrize(
    "time",
    [
        NOON, np.int64(NOON), np.datetime64(NOON, "s"), np.datetime64(NOON * 10**9, "ns"), "2023-07-05T12:00",
        " 2023-07-05 12:00:00 ", "2023-07-05T12:00Z", "2023-07-05T14:00+02:00", "20230705T1200",
        datetime(2023, 7, 5, 12), datetime(2023, 7, 5, 12, tzinfo=UTC),
        datetime(2023, 7, 5, 6, tzinfo=timezone(timedelta(hours=-6))),
    ],
    ids=str,
)  # fmt: skip
def test_one_time_is_read_from_every_spelling(time):
    assert parse_time(time) == NOON


@pytest.mark.parametrize(("text", "same"), [("2017", "2017-01-01"), ("2017-03", "2017-03-01T00:00")])
def test_a_year_or_a_month_begins_with_its_first_second(text, same):
    assert parse_time(text) == parse_time(same)


@pytest.mark.parametrize("text", ["now", "NaT", "", "2017-13-01", "yesterday", "0001-01-01", "9999-01-01"])
def test_what_is_no_time_of_this_era_is_refused(text):
    with pytest.raises(FieldsError):
        parse_time(text)


def test_a_time_is_written_for_people_files_and_machines():
    assert times.format_time(NOON) == "2023-07-05 12:00:00"
    assert times.format_time(np.datetime64("2023-07-05T12:00:59.9"), "minute") == "2023-07-05 12:00"
    assert times.format_time(NOON, "day") == "2023-07-05"
    assert times.format_iso(NOON) == "2023-07-05T12:00:00Z"
    assert times.file_stamp(np.datetime64(NOON, "s")) == "20230705T1200Z"


@given(st.integers(int(times.to_seconds(times.ERA[0])), int(times.to_seconds(times.ERA[1])) - 1))
def test_a_written_time_is_read_back(seconds):
    assert parse_time(times.format_time(seconds)) == seconds == parse_time(times.format_iso(seconds))


@pytest.mark.parametrize(
    ("seconds", "text"), [(45.2, "45 s"), (438, "7.3 min"), (9000, "2.5 h"), (30 * 86400, "30 days")]
)
def test_a_duration_is_written_in_one_unit(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(3.2, "3 s"), (75, "1 min 15 s"), (7260, "2 h 01 min")])
def test_a_running_duration_is_written_in_two_units(seconds, text):
    assert format_elapsed(seconds) == text


@pytest.mark.parametrize("text", ["1704067200", "2024010100", "24", "202401", "1704067200000"])
def test_digits_that_are_no_date_are_refused_and_not_taken_for_a_year(text):
    with pytest.raises(UsageError, match="is not a time"):
        parse_time(text)


@pytest.mark.parametrize(
    "time", [None, True, float("nan"), np.datetime64("NaT"), [NOON], object()], ids=lambda time: type(time).__name__
)
def test_what_is_no_time_at_all_is_refused_with_an_example(time):
    with pytest.raises(UsageError, match="is not a time"):
        parse_time(time)


def coordinates(unit, zone):
    """Return noon and two hours more, with a zone, in every form in which a notebook may have them."""
    index = pd.DatetimeIndex(np.array([NOON, NOON + 3600, NOON + 7200]).astype("datetime64[s]")).as_unit(unit)
    index = index if zone is None else index.tz_localize("UTC").tz_convert(zone)
    return {
        "index": index,
        "series": pd.Series(index),
        "objects": np.array(list(index), dtype=object),
        "coordinate": xr.Dataset(coords={"time": index})["time"],
        "coordinate of objects": xr.Dataset(coords={"time": list(index)})["time"],
        "coordinate without an index": xr.Dataset(coords={"time": ("row", index)})["time"],
        "frame": pd.DataFrame({"t": [1.0, 2.0, 3.0]}, index=index.rename("time")).to_xarray()["time"],
    }


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris", "Asia/Kolkata"])
def test_times_with_a_zone_are_converted_to_utc(unit, zone):
    for form, values in coordinates(unit, zone).items():
        assert times.utc_seconds(values).tolist() == [NOON, NOON + 3600, NOON + 7200], form


def test_a_dataset_gets_times_in_utc_and_keeps_those_that_are():
    ds = xr.Dataset({"t": ("time", [1.0, 2.0, 3.0])}, coords={"time": coordinates("ns", "Europe/Paris")["index"]})
    converted = times.with_utc_times(ds)
    assert converted["time"].values[0] == np.datetime64(NOON, "s") and converted["t"].values.tolist() == [1.0, 2.0, 3.0]
    assert times.with_utc_times(converted) is converted


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3), np.arange(3.0), np.array(["2024-01-01"]), np.array([None], dtype=object),
        np.array(["NaT"], "datetime64[s]"), np.array([pd.NaT], dtype=object),
        np.array([datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)], dtype=object),
    ],
    ids=repr,
)  # fmt: skip
def test_a_coordinate_that_is_not_of_times_is_refused(values):
    with pytest.raises(DataError):
        times.utc_seconds(values)


def test_calendars_other_than_ours_are_refused_by_name():
    cftime = pytest.importorskip("cftime")
    assert times.utc_seconds(np.array([cftime.DatetimeGregorian(2023, 7, 5, 12)], dtype=object)).tolist() == [NOON]
    with pytest.raises(DataError, match="360_day"):
        times.utc_seconds(np.array([cftime.Datetime360Day(2023, 7, 5, 12)], dtype=object))


def test_a_day_of_python_is_its_first_moment():
    assert parse_time(date(2023, 7, 5)) == NOON - 12 * 3600
