"""Columns of a table that could both be meant: refused if they differ, told if they do not, never chosen in silence."""

from __future__ import annotations

import numpy as np
import pytest

from fields.errors import DataError
from reader_files import Weather, open_source, read_all, write_rows

WEATHER = Weather(3, 24)


def with_column(path, name, cell):
    rows = [{**row, name: cell(row)} for row in WEATHER.rows()]
    return write_rows(path / "obs.csv", rows)


@pytest.mark.parametrize(
    ("name", "cell", "entry"),
    [
        ("temperature", lambda row: row["t"] + 273.15, "'t' and 'temperature' could both be t"),
        ("T", lambda row: row["rh"], "'t' and 'T' could both be t"),
        ("rh ", lambda row: 0.5, "'rh' and 'rh' could both be rh"),
        ("Wind_Speed", lambda row: 3.0, None),
        ("station_id", lambda row: "X" + row["station"], "'station' and 'station_id' could both be id"),
        ("latitude", lambda row: -row["lat"], "'lat' and 'latitude' could both be lat"),
        ("date", lambda row: row["time"][:10], "'time' and 'date' could both be time"),
    ],
)
def test_columns_of_one_meaning_that_differ_are_refused_with_both_names(tmp_path, name, cell, entry):
    path = with_column(tmp_path, name, cell)
    if entry is None:  # nothing else is called so
        assert "D128" not in str(open_source(path, tmp_path).report.codes())
        return
    with pytest.raises(DataError, match="and they differ") as caught:
        open_source(path, tmp_path)
    assert entry in caught.value.message and caught.value.code == "SPDE-D128"
    assert "column map" in caught.value.do or "rename" in caught.value.do


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("temperature", lambda row: f"{row['t']:.3f}"), ("T", lambda row: row["t"]), ("rh", lambda row: row["rh"]),
        ("stid", lambda row: row["station"]), ("timestamp", lambda row: str(np.datetime64(row["time"]).astype(int))),
        ("Latitude", lambda row: row["lat"]),
    ],
)  # fmt: skip
def test_columns_that_hold_the_same_are_a_notice(tmp_path, name, cell):
    lines = write_rows(tmp_path / "obs.csv", WEATHER.rows()).read_text().splitlines()
    cells = [name, *(str(cell(row)) for row in WEATHER.rows())]
    (tmp_path / "obs.csv").write_text("".join(f"{line},{more}\n" for line, more in zip(lines, cells, strict=True)))
    source = open_source(tmp_path / "obs.csv", tmp_path)
    assert np.allclose(read_all(source)["t"], WEATHER.t, atol=1e-4)
    assert any(notice.code == "SPDE-D128" and f"'{name}'" in notice.what for notice in source.report.notices)


def test_a_gap_in_one_of_two_columns_is_a_difference(tmp_path):
    path = with_column(tmp_path, "temperature", lambda row: np.nan if row["station"] == "S001" else row["t"])
    with pytest.raises(DataError, match="'t' and 'temperature'"):
        open_source(path, tmp_path)


def test_a_map_that_names_one_of_two_columns_chooses_it(tmp_path):
    path = with_column(tmp_path, "temperature", lambda row: row["t"] + 1)
    (tmp_path / "map.toml").write_text('[variables]\nt = { column = "temperature", unit = "degC" }\n')
    source = open_source(path, tmp_path, "table", column_map=str(tmp_path / "map.toml"))
    assert np.allclose(read_all(source)["t"], WEATHER.t + 1, atol=1e-4)


def test_a_column_in_other_capitals_is_not_read_and_told(tmp_path):
    rows = [{("RH" if key == "rh" else key): value for key, value in row.items()} for row in WEATHER.rows()]
    source = open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
    assert "rh" not in source.variables
    assert [w.what for w in source.report.warnings] == ["the column 'RH' is not read, though it resembles 'rh'"]


def test_parquet_tables_are_held_to_the_same(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(WEATHER.rows())
    frame.assign(temperature=frame["t"] + 5).to_parquet(tmp_path / "obs.parquet")
    with pytest.raises(DataError, match="'t' and 'temperature'"):
        open_source(tmp_path / "obs.parquet", tmp_path)
    frame.assign(temperature=frame["t"]).to_parquet(tmp_path / "same.parquet")
    assert "SPDE-D128" in open_source(tmp_path / "same.parquet", tmp_path / "other").report.codes()


def test_a_station_list_is_held_to_the_same(tmp_path):
    (tmp_path / "map.toml").write_text(
        '[station]\nfrom = "file"\nkey = "station"\nid = "station"\nlat = ["lat", "latitude"]\n'
        '[variables]\nt = { column = "t", unit = "degC" }\n'
    )
    path = write_rows(tmp_path / "obs.csv", WEATHER.rows())
    lines = [f"{name},{lat},{lat + moved},{lon},{alt}" for name, lat, moved, lon, alt in
             zip(WEATHER.ids, WEATHER.lat, (0.0, 0.0, 1.0), WEATHER.lon, WEATHER.alt)]  # fmt: skip
    (tmp_path / "list.csv").write_text("\n".join(["station,lat,latitude,lon,alt", *lines]) + "\n")
    with pytest.raises(DataError, match="'lat' and 'latitude'"):
        open_source(path, tmp_path, "table", column_map=str(tmp_path / "map.toml"), stations=str(tmp_path / "list.csv"))
