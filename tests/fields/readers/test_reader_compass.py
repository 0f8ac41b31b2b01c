"""Wind directions written as words: points of the compass, and wind or air without a direction."""

import gzip

import numpy as np
import pytest

from fields import store
from fields.derive import wind_components
from fields.errors import DataError
from fields.ingest import IngestOptions, ingest_files
from fields.readers import ReadOptions
from fields.readers.compass import point_of
from reader_files import Weather, write_npz, write_rows

SIXTEEN = ["N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW"]
THIRTY_TWO = (
    "N", "NbE", "NNE", "NEbN", "NE", "NEbE", "ENE", "EbN", "E", "EbS", "ESE", "SEbE", "SE", "SEbS", "SSE", "SbE",
    "S", "SbW", "SSW", "SWbS", "SW", "SWbW", "WSW", "WbS", "W", "WbN", "WNW", "NWbW", "NW", "NWbN", "NNW", "NbW",
)  # fmt: skip


@pytest.mark.parametrize("points", [SIXTEEN, THIRTY_TWO], ids=len)
def test_points_of_the_compass_go_round_clockwise_from_north(points):
    assert [point_of(point) for point in points] == [n * 360 / len(points) for n in range(len(points))]


@pytest.mark.parametrize(
    ("text", "degrees"),
    [("nnw", 337.5), (" N ", 0.0), ("north-northwest", 337.5), ("North North West", 337.5),
     ("northeast by east", 56.25), ("West by North", 281.25),
     ("south-westerly", 225.0), ("easterly", 90.0), ("N.N.E.", 22.5)],
)  # fmt: skip
def test_points_may_be_written_out(text, degrees):
    assert point_of(text) == degrees


@pytest.mark.parametrize("text", ["", "O", "NO", "ZW", "NNNW", "NS", "EW", "340", "norden", "n" * 60, "by"])
def test_what_is_no_english_point_is_none(text):
    assert point_of(text) is None


def winds(path, directions, speeds):
    """Write a table whose rows have these directions and speeds in turn; return the path."""
    rows = []
    for n, row in enumerate(Weather(4, 24).rows()):
        kept = {name: value for name, value in row.items() if name not in ("u", "v")}
        rows.append({**kept, "ff": speeds[n % len(speeds)], "dd": directions[n % len(directions)]})
    return write_rows(path, rows)


def components(path, tmp_path, unit):
    result = ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=ReadOptions(units={"dd": unit}), quality=False))
    ds = store.open_store(tmp_path / "o.zarr", masked=False)
    return ds["u"].values.ravel(), ds["v"].values.ravel(), result


@pytest.mark.parametrize(("unit", "turn"), [("compass", 0), ("compass-towards", 180)])
def test_words_become_the_wind_that_their_degrees_give(tmp_path, unit, turn):
    path = winds(tmp_path / "o.csv", ["N", "ESE", "southwest", "NWbN"], [2.0])
    u, v, _ = components(path, tmp_path, unit)
    expected = wind_components(np.full(4, 2.0), (np.array([0.0, 112.5, 225.0, 326.25]) + turn) % 360)
    assert np.allclose(u[:4], expected[0], atol=1e-6) and np.allclose(v[:4], expected[1], atol=1e-6)


@pytest.mark.parametrize("unit", ["compass", "degrees"])
def test_wind_without_a_direction_is_missing_and_still_air_is_zero_only_where_the_speed_says_so(tmp_path, unit):
    directions = ["calm", "CALM", "VRB", "variable", "S" if unit == "compass" else "180"]
    u, v, result = components(winds(tmp_path / "o.csv", directions, [0.0, 3.0, 2.0, "", 4.0]), tmp_path, unit)
    assert u[0] == v[0] == 0.0
    assert np.isnan(u[1:4]).all() and np.isnan(v[1:4]).all()
    assert v[4] == pytest.approx(4.0)
    assert any(problem.code == "SPDE-D018" and "dd" in problem.what for problem in result.report)


def test_a_map_declares_the_compass(tmp_path):
    winds(tmp_path / "o.csv", ["NE", "VRB"], [2.0])
    (tmp_path / "map.toml").write_text(
        '[variables]\nff = { column = "ff", unit = "m/s" }\ndd = { column = "dd", unit = "compass" }\n'
        't = { column = "t", unit = "degC" }\n'
    )
    options = IngestOptions(read=ReadOptions(column_map=str(tmp_path / "map.toml")))
    assert "u" in ingest_files(tmp_path / "o.csv", tmp_path / "o.zarr", options).variables


def test_packed_and_parquet_tables_hold_words_too(tmp_path):
    from pyarrow import csv, parquet

    path = winds(tmp_path / "o.csv", ["SSE", "W"], [2.0])
    (tmp_path / "o.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    parquet.write_table(csv.read_csv(path), tmp_path / "o.parquet")
    outcomes = []
    for name in ("o.csv", "o.csv.gz", "o.parquet"):
        folder = tmp_path / f"of_{name}"
        folder.mkdir()
        outcomes.append(components(tmp_path / name, folder, "compass")[0])
    assert np.array_equal(outcomes[0], outcomes[1], equal_nan=True)
    assert np.array_equal(outcomes[0], outcomes[2], equal_nan=True)


@pytest.mark.parametrize(
    ("directions", "unit", "advice"),
    [
        (["NNW", "S"], "degrees", "--unit dd=compass"),
        (["NNW", "S"], "towards", "--unit dd=compass-towards"),
        (["10", "350"], "compass", "--unit dd=degrees"),
        (["10", "350"], "compass-towards", "--unit dd=towards"),
        (["10", "NNW"], "degrees", "write all directions as points of the compass, or all in degrees"),
        (["10", "NNW"], "compass", "write all directions as points of the compass, or all in degrees"),
    ],
)
def test_the_unit_that_fits_is_advised(tmp_path, directions, unit, advice):
    path = winds(tmp_path / "o.csv", directions, [2.0])
    with pytest.raises(DataError) as caught:
        ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=ReadOptions(units={"dd": unit})))
    assert caught.value.code == "SPDE-D126" and caught.value.do.endswith(advice)


def test_numbers_are_no_words(tmp_path):
    from pyarrow import csv, parquet

    path = winds(tmp_path / "o.csv", ["10", "350"], [2.0])
    parquet.write_table(csv.read_csv(path), tmp_path / "o.parquet")
    options = IngestOptions(read=ReadOptions(units={"dd": "compass"}))
    with pytest.raises(DataError, match="numbers, where compass says words") as caught:
        ingest_files(tmp_path / "o.parquet", tmp_path / "o.zarr", options)
    assert caught.value.do.endswith("--unit dd=degrees")
    weather = Weather(4, 24)
    array = write_npz(tmp_path / "o.npz", weather, variables=np.array(["ff", "dd", "p", "t", "rh"]))
    with pytest.raises(DataError, match="the data hold numbers"):
        ingest_files(array, tmp_path / "o.zarr", options)
