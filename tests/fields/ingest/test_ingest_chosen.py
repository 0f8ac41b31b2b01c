"""Which stations a store holds: a box, ids to take or to leave out, and altitudes from an elevation model."""

import numpy as np
import pytest

from fields import store
from fields.errors import DataError, UsageError
from fields.ingest import parse_bbox
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import ReadOptions
from reader_files import Weather, write_rows

WEATHER = Weather(8, 48)


def ingested(tmp_path, rows=None, **options):
    source = write_rows(tmp_path / "obs.csv", rows or WEATHER.rows())
    return ingest_files(source, tmp_path / "o.zarr", IngestOptions(read=ReadOptions(**options)))


def ids(result):
    return store.open(result.path)["station"].values.tolist()


def test_a_box_takes_the_stations_within_it(tmp_path):
    west, east = float(np.sort(WEATHER.lon)[2]), float(np.sort(WEATHER.lon)[5])
    result = ingested(tmp_path, bbox=(west, 40.0, east, 50.0))
    assert ids(result) == [name for name, lon in zip(WEATHER.ids, WEATHER.lon) if west <= lon <= east]
    assert len(ids(result)) == 4


def test_a_box_may_lie_across_the_180th_meridian(tmp_path):
    rows = WEATHER.rows()
    for row in rows:
        row["lon"] = 179.0 if row["station"] in WEATHER.ids[:3] else -179.0
        row["lon"] = 170.0 if row["station"] == "S007" else row["lon"] + 0.01 * WEATHER.ids.index(row["station"])
    assert ids(ingested(tmp_path, rows, bbox=(178.0, 40.0, -178.0, 50.0))) == WEATHER.ids[:7]


@pytest.mark.parametrize("text", ["1,2,3", "a,b,c,d", "5,49,8,43", "5,43,5,49", "nan,43,8,49", "", "5,43,8,inf"])
def test_what_is_no_box_is_refused(text):
    with pytest.raises(UsageError, match="no box"):
        parse_bbox(text)


def test_a_box_of_the_command_line_is_read_in_degrees():
    assert parse_bbox("-5.5,43,8,49") == (-5.5, 43.0, 8.0, 49.0)


def test_a_box_without_stations_says_where_they_are(tmp_path):
    with pytest.raises(UsageError, match="no station is left") as caught:
        ingested(tmp_path, bbox=(100.0, 0.0, 110.0, 10.0))
    assert f"{WEATHER.lon.min():.2f},{WEATHER.lat.min():.2f}" in caught.value.do


def test_only_the_stations_that_are_named_are_taken(tmp_path):
    assert ids(ingested(tmp_path, only=("S004", "S002"))) == ["S002", "S004"]


@pytest.mark.parametrize("option", ["drop", "only"])
def test_an_id_that_is_not_there_warns_with_the_nearest(tmp_path, option):
    result = ingested(tmp_path, **{option: ("S002", "S02")})
    assert ids(result) == (["S002"] if option == "only" else [name for name in WEATHER.ids if name != "S002"])
    warning = next(problem for problem in result.report.warnings if problem.code == "SPDE-D109")
    assert "no station S02" in warning.what
    assert "did you mean S002?" in warning.do


def test_no_station_that_is_named_is_there(tmp_path):
    with pytest.raises(UsageError, match="no station is left"):
        ingested(tmp_path, only=("X",))


def model(tmp_path, **changes):
    lat, lon = np.linspace(43.0, 49.0, 25), np.linspace(-5.0, 8.0, 53)
    parts = {"lat": lat, "lon": lon, "elev_m": 100 * (lat[:, None] - 43) + 10 * (lon + 5)}
    np.savez(tmp_path / "relief.npz", **{**parts, **changes})
    return str(tmp_path / "relief.npz")


def without_altitudes(blank=lambda row: True):
    return [{n: ("" if n == "alt" and blank(row) else v) for n, v in row.items()} for row in WEATHER.rows()]


def test_stations_without_an_altitude_take_that_of_the_terrain(tmp_path):
    rows = without_altitudes(lambda row: row["station"] in ("S001", "S005"))
    result = ingested(tmp_path, rows, dem=model(tmp_path))
    alt = store.open(result.path)["alt"].values
    for s, height in enumerate(alt):
        relief = 100 * (WEATHER.lat[s] - 43) + 10 * (WEATHER.lon[s] + 5)
        assert height == pytest.approx(relief if s in (1, 5) else WEATHER.alt[s], abs=0.01)
    assert any("relief.npz is taken" in problem.what for problem in result.report)


def test_a_table_without_a_column_of_altitudes_is_read_with_a_model(tmp_path):
    rows = [{n: v for n, v in row.items() if n != "alt"} for row in WEATHER.rows()]
    for row in rows:
        row["p"] = 950.0
    with pytest.raises(DataError, match=r"no column 'alt'|no shipped column map"):
        ingested(tmp_path, rows)
    result = ingest_files(tmp_path / "obs.csv", tmp_path / "o.zarr",
                          IngestOptions(read=ReadOptions(dem=model(tmp_path)), trust=("p",)))  # fmt: skip
    assert np.isfinite(store.open(result.path)["alt"].values).all()


def test_without_a_model_the_command_that_takes_one_is_advised(tmp_path):
    with pytest.raises(DataError, match="no altitude") as caught:
        ingested(tmp_path, without_altitudes())
    assert "--dem FILE" in str(caught.value)


def test_a_station_beyond_the_model_is_named(tmp_path):
    west = {"lon": np.linspace(-5.0, 0.0, 53)}
    with pytest.raises(DataError, match="does not reach") as caught:
        ingested(tmp_path, without_altitudes(), dem=model(tmp_path, **west))
    assert caught.value.code == "SPDE-D082"
