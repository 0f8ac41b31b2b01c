"""Series at places from a field store, and maps of it."""

import csv

import numpy as np
import pytest

from fields import store
from fields.constants import R_d, g
from fields.errors import CorruptStoreError, DataError, UsageError
from fields.lift.record import lift_to_store
from fields.lift.sampling import FieldStore, read_points, refuse_existing, write_series
from fields.places import Places
from station_records import make_stations


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """Three moments of an atmosphere linear in altitude, lifted."""
    folder = tmp_path_factory.mktemp("linear")
    ds = make_stations(3, 20)
    alt = ds["alt"].values
    t = 290.0 - 0.007 * alt
    ds["t"][:] = t
    ds["p"][:] = 101000.0 * (t / 290.0) ** (g / (R_d * 0.007))
    ds["rh"][:] = 0.5
    ds["u"][:], ds["v"][:] = 3.0, -2.0
    summary = lift_to_store(store.write_store(ds, folder / "in.zarr"), folder / "out.zarr", height=10)
    return FieldStore(summary.path), ds


def at(ds, alt):
    return Places(tuple(ds["station"].values), ds["lat"].values, ds["lon"].values, np.asarray(alt, float))


@pytest.mark.parametrize("raised", [0.0, 500.0])
def test_a_linear_atmosphere_is_read_at_any_altitude(linear, raised):
    fields, ds = linear
    alt = ds["alt"].values + raised
    series = fields.read(fields.readout(at(ds, alt)), slice(0, 3))
    # The store keeps float32: 3e-5 K and 0.008 Pa apart at best.
    np.testing.assert_allclose(series["t"], np.tile(290.0 - 0.007 * alt, (3, 1)), atol=2e-3)
    np.testing.assert_allclose(
        series["p"], np.tile(101000.0 * (1 - 0.007 * alt / 290.0) ** (g / (R_d * 0.007)), (3, 1)), atol=2.0
    )
    np.testing.assert_allclose(series["u"], 3.0, rtol=1e-6)


def test_pressure_alone_still_knows_the_temperature_of_its_column(linear):
    fields, ds = linear
    readout = fields.readout(at(ds, ds["alt"].values + 700.0))
    alone = fields.read(readout, slice(0, 3), ("p",))
    assert list(alone) == ["p"]
    np.testing.assert_array_equal(alone["p"], fields.read(readout, slice(0, 3))["p"])


def test_a_place_without_altitude_has_that_of_the_grid(linear):
    fields, ds = linear
    readout = fields.readout(at(ds, np.full(20, np.nan)))
    assert np.isfinite(readout.places.z).all()
    assert readout.places.z.min() >= fields.altitude.min() and readout.places.z.max() <= fields.altitude.max()


def test_series_are_written_with_units_and_flags(linear, tmp_path):
    fields, _ = linear
    (tmp_path / "p.csv").write_text("name,lat,lon,alt\nhere,46,3,200\nfar,10,100,0\n")
    answer = write_series(fields, read_points(tmp_path / "p.csv"), tmp_path / "s.csv")
    rows = list(csv.DictReader((tmp_path / "s.csv").open()))
    assert len(rows) == 6
    assert rows[0]["time"] == "2021-06-01T00:00:00Z" and rows[0]["name"] == "here"
    assert float(rows[0]["t[degC]"]) == pytest.approx(290.0 - 273.15 - 1.4, abs=0.01)
    assert [row["inside"] for row in rows[:2]] == ["1", "0"]
    assert [place["inside"] for place in answer["points"]] == [True, False]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.csv", "s.csv"]


def test_series_for_machines_are_by_variable_and_place(linear):
    fields, ds = linear
    answer = write_series(fields, at(ds, ds["alt"].values), None)
    assert answer["units"]["p"] == "hPa" and len(answer["time"]) == 3
    assert np.array(answer["series"]["rh"]).shape == (20, 3)
    np.testing.assert_allclose(answer["series"]["rh"], 50.0, atol=0.01)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b\n1,2\n", "no column lat, lon"),
        ("lat,lon\n", "no places"),
        ("lat,lon\n45,north\n", "line 2: lon"),
        ("lat,lon\n45,7\n95,7\n", "line 3: lat is '95'"),
        ("lat,lon,alt\n45,7,\x1b[31m\n", r"\\x1b"),
        ("lat,lon\nnan,7\n", "line 2: lat"),
    ],
)
def test_bad_places_are_refused_with_their_line(text, match, tmp_path):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(DataError, match=match):
        read_points(tmp_path / "p.csv")


def test_a_table_of_places_that_is_not_there_is_a_usage_error(tmp_path):
    for path in (tmp_path / "nowhere.csv", tmp_path):
        with pytest.raises(UsageError) as caught:
            read_points(path)
        assert caught.value.code == "SPDE-D100"


def test_a_field_store_is_no_station_store(tmp_path):
    stations = store.write_store(make_stations(2, 6), tmp_path / "in.zarr")
    lift_to_store(stations, tmp_path / "fields.zarr", height=8)
    with pytest.raises(DataError, match="holds fields") as caught:
        lift_to_store(tmp_path / "fields.zarr", tmp_path / "again.zarr", height=8)
    assert caught.value.code == "SPDE-D070"
    assert store.open_stations(stations).sizes["station"] == 6


def test_a_forecast_is_no_record_of_observations(tmp_path):
    path = store.write_store(make_stations(2, 6), tmp_path / "forecast.zarr", kind="forecast")
    with pytest.raises(DataError, match="holds a forecast, and observations are needed"):
        store.open_stations(path)
    assert store.open_store(path).sizes["station"] == 6


def test_force_replaces_a_store_with_one_of_its_kind_alone(tmp_path):
    path = store.write_store(make_stations(2, 6), tmp_path / "observed.zarr")
    with pytest.raises(UsageError, match="is a store of stations, --force does not replace it with forecast"):
        store.write_store(make_stations(2, 4), path, kind="forecast", force=True)
    assert store.open_stations(path).sizes["station"] == 6
    store.write_store(make_stations(2, 4), path, force=True)
    assert store.open_stations(path).sizes["station"] == 4


def test_a_line_of_places_with_more_cells_than_the_heading_is_refused(tmp_path):
    # 49,5 for 49.5: the longitude would be read as 5, and the rest fall away.
    table = tmp_path / "places.csv"
    table.write_text("name,lat,lon,alt\nhere,49,5,-123,4,10\n")
    with pytest.raises(DataError, match="line 2 has 6 cells and the heading 4"):
        read_points(table)


def test_a_station_store_is_no_field_store(tmp_path):
    path = store.write_store(make_stations(2, 4), tmp_path / "in.zarr")
    with pytest.raises(CorruptStoreError) as caught:
        FieldStore(path)
    assert caught.value.do.startswith("stationpde field lift")


def test_moments_are_found_by_their_time(linear):
    fields, _ = linear
    assert fields.moment(None) == 2
    assert fields.moment("2021-06-01T01:00Z") == 1
    assert fields.moment("2021-06-01 00:20") == 0
    for wrong in ("yesterday", "1999-01-01"):
        with pytest.raises(DataError):
            fields.moment(wrong)


def test_files_are_not_replaced_unasked(tmp_path):
    (tmp_path / "x").write_text("mine")
    with pytest.raises(UsageError):
        refuse_existing(tmp_path / "x", force=False)
    refuse_existing(tmp_path / "x", force=True)
    refuse_existing(None, force=False)


@pytest.mark.parametrize(
    ("columns", "words"),
    [("name,lat,lon,elevation", "elevation"), ("name,lat,lon,alt_m", "alt_m"), ("lat,lon,alt,lat", "twice")],
)
def test_an_altitude_under_another_name_and_a_column_that_is_there_twice_are_refused(tmp_path, columns, words):
    (tmp_path / "p.csv").write_text(f"{columns}\n45,5,900,45\n")
    with pytest.raises(DataError, match=words) as caught:
        read_points(tmp_path / "p.csv")
    assert caught.value.code == "SPDE-D090"
