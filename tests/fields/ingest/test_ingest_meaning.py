"""Numbers that are plausible and mean something else: nothing wrong is derived from them, nobody is sent astray."""

import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from cli.main import app
from fields import store
from fields.errors import DataError, UsageError
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import ReadOptions
from reader_files import Weather, write_rows

WEATHER = Weather(8, 96)


def with_speed(change=lambda i, row: None):
    """Return rows with speed and direction for components, each changed by a function of its number."""
    rows = WEATHER.rows()
    for i, row in enumerate(rows):
        u, v = row.pop("u"), row.pop("v")
        row["ff"], row["dd"] = round(float(np.hypot(u, v)), 2), round(float(np.degrees(np.arctan2(-u, -v)) % 360), 0)
        change(i, row)
    return rows


def ingested(tmp_path, rows, **options):
    """Ingest rows and return the stored values and flags, and the report."""
    path = write_rows(tmp_path / "obs.csv", rows)
    result = ingest_files(path, tmp_path / "o.zarr", IngestOptions(**options))
    return store.open_store(result.path), " ".join(f"{p.what}; {p.do}" for p in result.report)


@pytest.mark.parametrize("bad", [{"ff": -9.0, "dd": -9.0}, {"ff": -2.3}, {"dd": 361.0}])
def test_no_wind_is_derived_from_an_impossible_speed_or_direction(tmp_path, bad):
    ds, report = ingested(tmp_path, with_speed(lambda i, row: row.update(bad) if i % 101 == 7 else None))
    picked = np.zeros(WEATHER.t.size, bool)
    picked[7::101] = True
    picked = picked.reshape(WEATHER.t.shape)
    assert "outside the physical range" in report
    for name, true in (("u", WEATHER.u), ("v", WEATHER.v)):
        assert np.isnan(ds[name].values[picked]).all() and (ds[f"{name}_flag"].values[picked] > 0).all()
        assert np.isfinite(ds[name].values[~picked]).mean() > 0.99
        assert np.nanmax(np.abs(ds[name].values - true)) < 0.1


def test_no_humidity_is_derived_from_an_impossible_dew_point(tmp_path):
    rows = WEATHER.rows()
    for i, row in enumerate(rows):
        humidity = row.pop("rh")
        row["td"] = row["t"] - humidity / 30 if i % 101 != 7 else 55.0
    ds, _ = ingested(tmp_path, rows)
    assert np.isnan(ds["rh"].values.ravel()[7::101]).all()


def test_directions_that_the_user_vouches_for_are_kept(tmp_path):
    def half_turns(i, row):
        row["dd"] -= 360 * (row["dd"] > 180)

    ds, _ = ingested(tmp_path, with_speed(half_turns), trust=("dd",))
    wind = ds["u"].values
    assert np.isfinite(wind).mean() > 0.99 and np.nanmax(np.abs(wind - WEATHER.u)) < 0.1


@pytest.mark.parametrize(
    ("scale", "digits", "words"), [(0.1, 0, "tens of degrees"), (np.pi / 180, 3, "radians")], ids=["tens", "radians"]
)
def test_directions_in_tens_or_radians_are_refused(tmp_path, scale, digits, words):
    rows = with_speed(lambda i, row: row.update(dd=round(i * 37 % 360 * scale, digits)))
    with pytest.raises(DataError, match=words):
        ingested(tmp_path, rows)
    ingested(tmp_path, rows, trust=("dd",))


def test_a_dew_point_above_the_temperature_is_refused(tmp_path):
    rows = WEATHER.rows()
    for row in rows:
        del row["rh"]
        row["t"], row["td"] = row["t"] - 3, row["t"]
    with pytest.raises(DataError, match="dew point is above the temperature") as caught:
        ingested(tmp_path, rows)
    assert caught.value.code == "SPDE-D012" and "--trust td" in caught.value.do


def test_two_winds_of_one_source_that_differ_are_told(tmp_path):
    rows = with_speed(lambda i, row: row.update(u=6.0, v=-1.0))
    _, report = ingested(tmp_path, rows)
    assert "u and v are another wind than ff and dd" in report


def test_a_network_without_any_wind_in_its_unit_is_refused(tmp_path):
    with pytest.raises(DataError, match="declared m/h") as caught:
        ingested(tmp_path, with_speed(), read=ReadOptions(units={"ff": "m/h"}))
    assert "--unit ff=m/s" in caught.value.do


def test_of_several_units_that_fit_none_is_advised_alone(tmp_path):
    with pytest.raises(DataError, match="looks like km/h or mph") as caught:
        ingested(tmp_path, with_speed(lambda i, row: row.update(ff=14.0 + i % 7)))
    assert "or mph, ft/s, whichever is true" in caught.value.do


def test_stations_in_two_units_are_not_sent_from_one_to_the_other(tmp_path):
    rows = WEATHER.rows()
    for row in rows:
        row["t"] += 273.15 * (row["station"] < "S004")
    with pytest.raises(DataError, match="looks like K") as caught:
        ingested(tmp_path, rows)
    assert "--unit" not in caught.value.do
    command = caught.value.do[caught.value.do.index("stationpde") :]
    assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 0
    assert store.open_store(tmp_path / "o.zarr").sizes["station"] == 4


def test_tenths_of_a_degree_are_not_read_as_fahrenheit_unasked(tmp_path):
    rows = WEATHER.rows()
    for row in rows:
        row["t"] = float(round(row["t"] * 10))
    with pytest.raises(DataError) as caught:
        ingested(tmp_path, rows)
    assert "--unit" not in caught.value.do or "tenths of a degree" in caught.value.do


def test_a_station_that_does_not_fit_may_be_left_out_and_no_flag_is_promised(tmp_path):
    rows = WEATHER.rows()
    for row in rows:
        row["rh"] /= 100 if row["station"] == "S003" else 1
    ds, report = ingested(tmp_path, rows)
    assert not np.any(ds["rh_flag"].values[:, 3])
    assert "--drop S003" in report and "flag" not in report


def test_stations_without_any_place_are_not_all_left_out(tmp_path):
    rows = [{**row, "alt": ""} for row in WEATHER.rows()]
    with pytest.raises(DataError) as caught:
        ingested(tmp_path, rows)
    assert caught.value.code == "SPDE-D008" and "--drop" not in caught.value.do


def test_every_nth_step_of_a_table_is_taken(tmp_path):
    ds, _ = ingested(tmp_path, WEATHER.rows(), read=ReadOptions(every=3))
    assert ds.sizes["time"] == 32
    assert np.allclose(ds["t"].values, WEATHER.t[::3] + 273.15, atol=0.01)


def test_reports_a_few_minutes_off_the_hour_are_advised_a_tolerance(tmp_path):
    rows = [
        {**row, "time": row["time"][:14] + f"{i * 7 % 5:02d}" + row["time"][16:]}
        for i, row in enumerate(WEATHER.rows())
    ]
    with pytest.raises(DataError) as caught:
        ingested(tmp_path, rows)
    assert "--step 1h --tolerance 10min" in caught.value.do
    command = caught.value.do.partition("   ")[0]
    assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 0


def test_a_store_is_never_ingested_onto_itself(tmp_path):
    ds, _ = ingested(tmp_path, WEATHER.rows())
    for target in (tmp_path / "o.zarr", tmp_path / "o.zarr" / "x.zarr", tmp_path / "." / "o.zarr"):
        with pytest.raises(UsageError, match="does not replace it"):
            ingest_files(tmp_path / "o.zarr", target, IngestOptions(force=True))
    assert np.allclose(store.open_store(tmp_path / "o.zarr")["t"].values, ds["t"].values)
