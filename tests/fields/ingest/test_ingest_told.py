"""What an ingest must not pass over in silence: places, times, ids and precision that cannot be meant as they stand."""

import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from cli.main import app
from fields import store
from fields.errors import DataError
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import ReadOptions
from reader_files import Weather, write_npz, write_rows

WEATHER = Weather(8, 96)


def changed(change):
    """Return the rows of a small network, each changed by a function of its number."""
    rows = WEATHER.rows()
    for i, row in enumerate(rows):
        change(i, row)
    return rows


def ingested(tmp_path, change=lambda i, row: None, **options):
    """Ingest rows that a function changed, and return the outcome."""
    path = write_rows(tmp_path / "obs.csv", changed(change))
    return ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=ReadOptions(**options)))


def refused(tmp_path, change=lambda i, row: None, **options):
    with pytest.raises(DataError) as caught:
        ingested(tmp_path, change, **options)
    return caught.value


def follow(problem):
    """Type the command that an error advises; return its exit code."""
    line = problem.do[problem.do.index("stationpde ") :].partition("   ")[0]
    return CliRunner().invoke(app, shlex.split(line)[1:]).exit_code


def told(result, code):
    """Return the one finding of a code."""
    return next(f"{p.what}; {p.where}; {p.do}" for p in result.report if p.code == code)


def test_times_in_the_future_are_told(tmp_path):
    result = ingested(tmp_path, lambda i, row: row.update(time=row["time"].replace("2021", "2098")))
    assert "every time lies in the future, up to 2098-03-04" in told(result, "SPDE-D112")


def test_ids_that_differ_in_case_alone_are_told_by_name(tmp_path):
    result = ingested(tmp_path, lambda i, row: row.update(station="s003") if i < 90 and row["station"] == "S003" else 0)
    assert "s003 and S003" in told(result, "SPDE-D033")


def test_ids_with_blanks_around_them_are_the_same_station_and_told(tmp_path):
    result = ingested(tmp_path, lambda i, row: row.update(station=row["station"] + " ") if i < 90 else None)
    assert result.stations == 8 and "one station: S000, S001" in told(result, "SPDE-D033")


def test_blanks_round_ids_of_arrays_are_stripped(tmp_path):
    path = write_npz(tmp_path / "o.npz", WEATHER, station_id=np.array([f" {name} " for name in WEATHER.ids]))
    result = ingest_files(path, tmp_path / "o.zarr", IngestOptions())
    assert store.open_store(result.path)["station"].values.tolist() == WEATHER.ids


def test_a_network_in_a_single_point_is_told(tmp_path):
    result = ingested(tmp_path, lambda i, row: row.update(lat=45.0, lon=6.0))
    assert "all 8 stations stand at one place" in told(result, "SPDE-D024")


def test_places_in_radians_are_refused_and_the_advice_mends_it(tmp_path):
    problem = refused(tmp_path, lambda i, row: row.update(lat=np.radians(row["lat"]), lon=np.radians(row["lon"])))
    assert problem.code == "SPDE-D014" and "radians" in problem.message
    assert follow(problem) == 0
    assert np.allclose(np.sort(store.open_store(tmp_path / "o.zarr")["lat"].values), np.sort(WEATHER.lat))


def test_one_latitude_beyond_the_pole_is_no_exchange_of_coordinates(tmp_path):
    problem = refused(tmp_path, lambda i, row: row.update(lat=90.00001) if row["station"] == "S003" else None)
    assert problem.code == "SPDE-D013" and "exchange" not in problem.do
    assert follow(problem) == 0
    assert store.open_store(tmp_path / "o.zarr").sizes["station"] == 7


def test_directions_of_990_are_winds_that_change_and_missing(tmp_path):
    def variable(i, row):
        u, v = row.pop("u"), row.pop("v")
        row["ff"], row["dd"] = round(float(np.hypot(u, v)), 2), round(float(np.degrees(np.arctan2(-u, -v)) % 360))
        row["dd"] = 990 if i % 7 == 0 else row["dd"]

    result = ingested(tmp_path, variable)
    assert "codes for missing" in told(result, "SPDE-D018")
    assert np.isnan(store.open_store(result.path)["u"].values.ravel()[::7]).all()


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_step_that_the_times_do_not_have_is_refused_with_theirs(tmp_path, kind):
    path = write_npz(tmp_path / "o.npz", WEATHER)
    if kind == "csv":
        path = write_rows(tmp_path / "o.csv", WEATHER.rows())
    with pytest.raises(DataError, match="times are 1h apart") as caught:
        ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=ReadOptions(step=45 * 60)))
    assert caught.value.do.endswith("--step 1h") and "45min" not in caught.value.do
    assert follow(caught.value) == 0


def test_with_a_tolerance_any_step_may_be_declared(tmp_path):
    assert ingested(tmp_path, step=45 * 60, tolerance=15 * 60).steps > 90


def test_a_step_of_several_hours_takes_every_third_time(tmp_path):
    assert ingested(tmp_path, step=3 * 3600).steps == 32


def test_dates_without_an_hour_are_refused_with_where_the_hour_belongs(tmp_path):
    rows = changed(lambda i, row: row.update(hour=row["time"][11:13], time=row["time"][:10]))
    path = write_rows(tmp_path / "obs.csv", rows)
    with pytest.raises(DataError, match="dates without an hour") as caught:
        ingest_files(path, tmp_path / "o.zarr", IngestOptions())
    assert caught.value.code == "SPDE-D034" and "--on-duplicate" not in caught.value.do
    assert "columns = ['date', 'hour'], format = '%Y-%m-%d %H'" in caught.value.do
    values = "".join(f'[variables.{n}]\ncolumn = "{n}"\nunit = "{u}"\n' for n, u in (("t", "degC"), ("p", "hPa")))
    station = '[station]\nid = "station"\nlat = "lat"\nlon = "lon"\nalt = "alt"\n'
    time = "[time]\ncolumns = ['time', 'hour']\nformat = '%Y-%m-%d %H'\n"
    (tmp_path / "map.toml").write_text(f"{time}{station}{values}")
    read = ReadOptions(column_map=str(tmp_path / "map.toml"))
    assert ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=read)).steps == 96


def test_dates_without_an_hour_in_arrays_are_refused_alike(tmp_path):
    path = write_npz(tmp_path / "o.npz", WEATHER, time=WEATHER.time.astype("datetime64[D]"))
    with pytest.raises(DataError, match="dates without an hour") as caught:
        ingest_files(path, tmp_path / "o.zarr", IngestOptions())
    assert "with their hours" in caught.value.do


@pytest.mark.parametrize("name", ["README.txt", "zz-notes.txt"])
def test_a_file_in_the_folder_that_is_no_table_is_named(tmp_path, name):
    folder = tmp_path / "in"
    folder.mkdir()
    write_rows(folder / "obs.csv", WEATHER.rows())
    (folder / name).write_text("read me, please\nthese are, observations\n")
    with pytest.raises(DataError) as caught:
        ingest_files(folder, tmp_path / "o.zarr", IngestOptions())
    assert f"move {name} out of the folder in" in caught.value.do


def test_observations_of_16_bits_are_told(tmp_path):
    obs = np.stack([WEATHER.u, WEATHER.v, WEATHER.p, WEATHER.t, WEATHER.rh], axis=-1).astype(np.float16)
    result = ingest_files(write_npz(tmp_path / "o.npz", WEATHER, obs=obs), tmp_path / "o.zarr", IngestOptions())
    assert "16 bits" in told(result, "SPDE-D145")


def test_columns_of_16_bits_are_told(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(WEATHER.rows())
    frame["time"] = pd.to_datetime(frame["time"])
    frame.astype({"p": np.float16}).to_parquet(tmp_path / "o.parquet")
    result = ingest_files(tmp_path / "o.parquet", tmp_path / "o.zarr", IngestOptions())
    assert "p is stored in 16 bits" in told(result, "SPDE-D145")
