"""Times in tables: dates whose order is open, counts since 1970, days that no calendar has, clocks that differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from fields.errors import DataError, UsageError
from fields.readers.column_map import MapError, parse_map
from fields.readers.time_text import parse_times
from reader_files import Weather, open_source, read_all, write_rows

SHORT, LONG = Weather(3, 240), Weather(3, 480)
"""Ten days that all end before the 13th of the month, and twenty."""


def written(path, weather, form, **columns):
    """Write a tidy table whose times are written by a function of a datetime."""
    rows = [{**row, "time": form(datetime.fromisoformat(row["time"])), **columns} for row in weather.rows()]
    return write_rows(path / "obs.csv", rows)


def by(form):
    return lambda time: time.strftime(form)


def span(source):
    seconds = source.axis.seconds
    return str(np.datetime64(int(seconds[0]), "s")), source.axis.step, source.axis.count


US, EUROPEAN = by("%m/%d/%Y %H:%M"), by("%d/%m/%Y %H:%M")
RIGHT = ("2021-03-01T00:00:00", 3600, 240)
RIGHT_LONG = ("2021-03-01T00:00:00", 3600, 480)


@pytest.mark.parametrize(
    ("form", "order", "other"),
    [
        (US, "mdy", "dmy"), (EUROPEAN, "dmy", "mdy"), (by("%d.%m.%Y %H:%M:%S"), "dmy", "mdy"),
        (by("%m-%d-%Y %I:%M %p"), "mdy", "dmy"),
    ],
)  # fmt: skip
def test_dates_that_fit_two_orders_are_refused_with_both_readings_the_denser_first(tmp_path, form, order, other):
    with pytest.raises(DataError, match="can be read in 2 ways") as caught:
        open_source(written(tmp_path, SHORT, form), tmp_path)
    assert caught.value.code == "SPDE-D125"
    assert "2021-01-03 to 2021-10-03" in caught.value.where and "2021-03-01 to 2021-03-10" in caught.value.where
    assert f"--date-order {order}" in caught.value.do and f"(or {other}" in caught.value.do


@pytest.mark.parametrize(("form", "order"), [(US, "mdy"), (EUROPEAN, "dmy"), (by("%y/%m/%d %H:%M"), "ymd")])
def test_a_declared_order_is_taken(tmp_path, form, order):
    source = open_source(written(tmp_path, SHORT, form), tmp_path, date_order=order)
    assert span(source) == RIGHT
    assert np.allclose(read_all(source)["t"], SHORT.t, atol=1e-4)


def test_a_map_may_declare_the_order(tmp_path):
    text = """
    [time]
    format = "dates"
    date_order = "mdy"
    [variables]
    t = { column = "t", unit = "degC" }
    """
    (tmp_path / "map.toml").write_text(text)
    source = open_source(written(tmp_path, SHORT, US), tmp_path, "table", column_map=str(tmp_path / "map.toml"))
    assert span(source) == RIGHT


@pytest.mark.parametrize("form", [US, EUROPEAN, by("%m/%d/%y %I:%M %p"), by("%d.%m.%Y %H:%M")])
def test_a_thirteenth_day_decides_the_order(tmp_path, form):
    assert span(open_source(written(tmp_path, LONG, form), tmp_path)) == RIGHT_LONG


def test_dates_of_two_orders_contradict_each_other(tmp_path):
    mixed = written(tmp_path, LONG, lambda time: (US if time.day % 2 else EUROPEAN)(time))
    with pytest.raises(DataError, match="no order of day, month and year fits") as caught:
        open_source(mixed, tmp_path)
    assert "'03/13/2021 00:00' is not day/month/year" in caught.value.where


def test_a_date_against_the_declared_order_is_named_with_the_one_it_fits(tmp_path):
    with pytest.raises(DataError, match="'03/13/2021 00:00' is not a time") as caught:
        open_source(written(tmp_path, LONG, US), tmp_path, date_order="dmy")
    assert "--date-order mdy" in caught.value.do


def test_dates_that_are_the_same_in_every_order_ask_nothing(tmp_path):
    rows = Weather(3, 24).rows()
    path = write_rows(tmp_path / "obs.csv", [{**row, "time": f"03/03/2021 {row['time'][11:]}"} for row in rows])
    assert span(open_source(path, tmp_path))[0] == "2021-03-03T00:00:00"


def test_files_of_one_source_are_read_in_one_order(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for name, weather in (("a.csv", SHORT), ("b.csv", LONG)):
        rows = [{**row, "station": name, "time": US(datetime.fromisoformat(row["time"]))} for row in weather.rows()]
        write_rows(folder / name, [row for row in rows if row["lat"] == weather.lat[0]])
    assert span(open_source(folder, tmp_path)) == RIGHT_LONG


def test_dates_that_appear_after_iso_times_are_still_asked_about(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    write_rows(folder / "a.csv", SHORT.rows())
    rows = [{**row, "station": f"B{row['station']}", "time": US(datetime.fromisoformat(row["time"]))}
            for row in SHORT.rows()]  # fmt: skip
    write_rows(folder / "b.csv", rows)
    with pytest.raises(DataError, match="can be read in 2 ways"):
        open_source(folder, tmp_path)
    assert span(open_source(folder, tmp_path, date_order="mdy")) == RIGHT


@pytest.mark.parametrize("form", [by("%Y-%m-%dT%H:%M"), by("%Y/%m/%d %H:%M"), by("%Y%m%d %H:%M"), by("%Y%m%d%H%M"),
                                  by("%Y%m%d%H%M%S"), by("%Y-%m-%d %H:%M UTC")])  # fmt: skip
def test_a_year_of_four_digits_in_front_leaves_nothing_open(tmp_path, form):
    assert span(open_source(written(tmp_path, SHORT, form), tmp_path)) == RIGHT


@pytest.mark.parametrize("per_second", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("steps", [1, 48])
def test_counts_since_1970_are_recognised_by_their_length(tmp_path, per_second, steps):
    def form(time):
        return int(time.replace(tzinfo=UTC).timestamp()) * per_second

    source = open_source(written(tmp_path, Weather(3, steps), form), tmp_path)
    assert span(source) == ("2021-03-01T00:00:00", 3600, steps)
    assert any("counts since 1970" in notice.what for notice in source.report.notices)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2024010100", "2024-01-01 00:00 as year, month, day, hour; 2034-02-20 01:01 as seconds since 1970"),
        ("820454400", "unix-ms"), ("45292.5", "excel"), ("45292", "excel"), ("12.5", "unix"), ("202413010000", "unix"),
    ],
)  # fmt: skip
def test_numbers_that_leave_the_unit_open_ask_for_it(tmp_path, text, says):
    with pytest.raises(DataError, match="is not a time") as caught:
        open_source(written(tmp_path, Weather(3, 1), lambda _: text), tmp_path)
    assert says in f"{caught.value.where} {caught.value.do}"


@pytest.mark.parametrize(
    ("form", "text"),
    [("unix", "1704067200"), ("unix-ms", "1704067200000"), ("excel", "45292"), ("%Y%m%d%H", "2024010100")],
)
def test_a_declared_unit_of_numbers_is_taken(tmp_path, form, text):
    (tmp_path / "map.toml").write_text(
        f'[time]\nformat = "{form}"\n[variables]\nt = {{ column = "t", unit = "degC" }}\n'
    )
    path = written(tmp_path, Weather(3, 1), lambda _: text)
    assert span(open_source(path, tmp_path, "table", column_map=str(tmp_path / "map.toml")))[0] == "2024-01-01T00:00:00"


@pytest.mark.parametrize("form", ["%Y-%m-%d 24:00", "%Y-%m-%dT24:00:00Z", "%Y%m%d2400", "%Y/%m/%d 24:00"])
def test_midnight_at_the_end_of_a_day_begins_the_next(tmp_path, form):
    path = written(tmp_path, Weather(3, 1), by(form))
    assert span(open_source(path, tmp_path))[0] == "2021-03-02T00:00:00"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%Y-%m-%d %H", "2021-03-01 24"), ("%Y %m %d %H", "2021 3 1 24"), ("%Y %m %d %H %M", "2021 3 1 24 0"),
        ("%Y%m%d%H", "2021030124"), ("%Y-%m-%d %Hh", "2021-03-01 24h"), ("%Y%m%d %H UTC", "20210301 24 UTC"),
    ],
)  # fmt: skip
def test_the_hour_24_of_a_declared_format_begins_the_next_day(form, text):
    parsed = parse_times(pa.array([text]), (form,))
    assert parsed.bad == -1
    assert str(np.datetime64(int(parsed.seconds[0]), "s")) == "2021-03-02T00:00:00"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%Y-%m-%d %H", "2021-03-01 25"), ("%Y-%m-%d %H:%M", "2021-03-01 24:30"), ("%Y-%m-%d %H:%M", "2021-03-01 24"),
        ("digits", "2021030124"), ("%Y %m %d", "2021 2 30"), ("%d %m %y", "31 02 24"), ("iso", "2021-03-01 24"),
    ],
)  # fmt: skip
def test_no_other_24_is_taken_for_midnight(form, text):
    assert parse_times(pa.array([text]), (form,)).bad == 0


@pytest.mark.parametrize("text", ["2021-02-31T10:00", "2021-03-01T24:30", "2021-03-01T23:59:60Z", "2021-03-01 00:60"])
def test_a_time_that_no_calendar_has_is_to_be_corrected_in_its_line(tmp_path, text):
    rows = SHORT.rows()
    rows[4]["time"] = text
    with pytest.raises(DataError, match=r"line 6: .* is not a time") as caught:
        open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
    assert caught.value.do.startswith("correct the time in line 6 of the file")


@pytest.mark.parametrize("text", ["31/02/2021 10:00", "2021-02-30 10:00", "20210230 10:00", "29/02/2021", "00/01/2021"])
def test_a_day_that_no_calendar_has_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="is not a time"):
        open_source(written(tmp_path, Weather(3, 1), lambda _: text), tmp_path)


def test_a_declared_format_does_not_roll_february_over(tmp_path):
    (tmp_path / "map.toml").write_text(
        '[time]\nformat = "%d/%m/%Y %H:%M"\n[variables]\nt = { column = "t", unit = "degC" }\n'
    )
    for text, valid in (("31/02/2021 10:00", False), ("28/02/2021 10:00", True)):
        path = written(tmp_path, Weather(3, 1), lambda _, text=text: text)
        if valid:
            open_source(path, tmp_path, "table", column_map=str(tmp_path / "map.toml"))
        else:
            with pytest.raises(DataError, match="is not a time"):
                open_source(path, tmp_path, "table", column_map=str(tmp_path / "map.toml"))


def test_a_year_before_there_were_stations_is_refused_with_its_line(tmp_path):
    rows = SHORT.rows()
    rows[4]["time"] = "1704-03-01T01:00:00"
    with pytest.raises(DataError, match="line 6: 1704-03-01 01:00:00 is outside the era"):
        open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)


def test_times_with_and_without_an_offset_ask_for_the_clock(tmp_path):
    rows = [{**row, "time": row["time"] + ("+02:00" if i % 2 else "")} for i, row in enumerate(SHORT.rows())]
    path = write_rows(tmp_path / "obs.csv", rows)
    with pytest.raises(DataError, match="some times name an offset") as caught:
        open_source(path, tmp_path)
    assert "--time-zone UTC" in caught.value.do
    open_source(path, tmp_path, zone="UTC", on_duplicate="first")


def test_an_offset_of_a_declared_format_is_applied_once(tmp_path):
    (tmp_path / "map.toml").write_text(
        '[time]\nformat = "%Y-%m-%dT%H:%M:%S%z"\nzone = "UTC+8"\n[variables]\nt = { column = "t", unit = "degC" }\n'
    )
    path = written(tmp_path, Weather(3, 1), by("%Y-%m-%dT%H:%M:%S+0200"))
    source = open_source(path, tmp_path, "table", column_map=str(tmp_path / "map.toml"))
    assert span(source)[0] == "2021-02-28T22:00:00"


@pytest.mark.parametrize(
    ("formats", "says"),
    [
        ('["%d/%m/%Y", "%m/%d/%Y"]', "order of day and month"), ('"%Y-%m-%d %H:%M %Z"', "%Z"), ('"epoch"', "unix"),
    ],
)  # fmt: skip
def test_a_map_whose_formats_would_be_guessed_from_is_refused(formats, says):
    text = f'[time]\nformat = {formats}\n[variables]\nt = {{ column = "t", unit = "degC" }}\n'
    with pytest.raises(MapError) as caught:
        parse_map(text.encode(), "m.toml")
    assert says in str(caught.value)


def test_an_order_against_the_format_of_a_map_is_refused(tmp_path):
    (tmp_path / "map.toml").write_text(
        '[time]\nformat = "%d/%m/%Y %H:%M"\n[variables]\nt = { column = "t", unit = "degC" }\n'
    )
    path = written(tmp_path, SHORT, EUROPEAN)
    with pytest.raises(UsageError, match="contradicts the format"):
        open_source(path, tmp_path, "table", column_map=str(tmp_path / "map.toml"), date_order="mdy")


def test_times_of_parquet_are_read_in_every_type(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(SHORT.rows())
    times = pd.to_datetime(frame["time"])
    local = times.dt.tz_localize("UTC").dt.tz_convert("America/Denver")
    seconds = times.astype("datetime64[s]").astype("int64")
    columns = {"zone": local, "whole": seconds, "float": seconds.astype(float), "text": frame["time"]}
    for name, column in columns.items():
        frame.assign(time=column).to_parquet(tmp_path / f"{name}.parquet")
        assert span(open_source(tmp_path / f"{name}.parquet", tmp_path / name)) == RIGHT, name
    frame.assign(time=times.dt.strftime("%m/%d/%Y %H:%M")).to_parquet(tmp_path / "us.parquet")
    with pytest.raises(DataError, match="can be read in 2 ways"):
        open_source(tmp_path / "us.parquet", tmp_path / "us")
    assert span(open_source(tmp_path / "us.parquet", tmp_path / "us", date_order="mdy")) == RIGHT


def test_the_day_of_the_year_is_not_read_as_month_and_day(tmp_path):
    # 13 January as 2021013, which a lenient parser takes for month 01 and day 3.
    path = written(tmp_path, SHORT, lambda time: (time - timedelta(days=47)).strftime("%Y%j %H:%M"))
    with pytest.raises(DataError, match="is not a time") as caught:
        open_source(path, tmp_path)
    assert caught.value.code == "SPDE-D010"
