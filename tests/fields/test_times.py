"""Times and spans: read as people write them, written for people, files and machines."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fields import times
from fields.errors import FieldsError, UsageError
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
