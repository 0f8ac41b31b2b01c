"""The time axis of an ingest: the step that most of the network keeps, and a question where most steps are empty."""

from __future__ import annotations

import numpy as np
import pytest

from fields import store
from fields.errors import DataError, UsageError
from fields.ingest import IngestOptions, ingest
from fields.readers import ReadOptions
from reader_files import Weather, open_source, write_npz, write_rows

HOURLY, HALF_HOURLY = Weather(8, 240), Weather(8, 480, hours=0.5)


def ingested(path, folder, accept=(), **options):
    settings = IngestOptions(read=ReadOptions(**options), accept=accept, quality=False)
    return ingest(path, folder / "o.zarr", settings)


def one_at_half_hours(path, first=0, every=1):
    """Write an hourly network of which one station reports at half hours, too or only."""
    rows = [row for row in HOURLY.rows() if row["station"] != "S003"]
    return write_rows(path / "obs.csv", [*rows, *(HALF_HOURLY.columns(t, 3) for t in range(first, 480, every))])


@pytest.mark.parametrize(("first", "every"), [(0, 1), (1, 2)])
def test_one_station_at_half_hours_does_not_halve_the_step(tmp_path, first, every):
    result = ingested(one_at_half_hours(tmp_path, first, every), tmp_path)
    assert store.open_store(result.path).attrs["step_seconds"] == 3600 and result.steps == 240
    warning = next(w for w in result.report.warnings if w.code == "SPDE-D036")
    assert "240 reports" in warning.what and "station S003" in warning.where and "--step 30min" in warning.do


def test_the_step_of_that_station_can_be_insisted_on(tmp_path):
    result = ingested(one_at_half_hours(tmp_path), tmp_path, step=1800)
    assert result.steps == 480 and result.report.warnings == ()


def test_one_report_at_a_half_hour_does_not_halve_the_step(tmp_path):
    rows = HOURLY.rows()
    path = write_rows(tmp_path / "obs.csv", [*rows, {**rows[5], "time": "2021-03-05T10:30:00"}])
    result = ingested(path, tmp_path)
    assert result.steps == 240 and "station S005" in result.report.warnings[0].where


def test_a_network_half_of_which_reports_at_half_hours_keeps_them(tmp_path):
    rows = [row for row in HOURLY.rows() if row["station"] < "S004"]
    rows += [HALF_HOURLY.columns(t, s) for t in range(480) for s in range(4, 8)]
    assert open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path).axis.step == 1800


def test_main_and_intermediate_hours_of_all_stations_are_kept(tmp_path):
    rows = [row for row in HOURLY.rows() if row["time"][11:13] in ("00", "06", "12", "15", "18")]
    assert open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path).axis.step == 3 * 3600


def test_an_array_that_one_station_makes_finer_is_told(tmp_path):
    hours = np.arange(480)[:, None] % 2 == 0
    names = ("u", "v", "p", "t", "rh")
    values = [np.where(hours | (np.arange(8) == 3), getattr(HALF_HOURLY, name), np.nan) for name in names]
    path = write_npz(tmp_path / "obs.npz", HALF_HOURLY, obs=np.stack(values, axis=-1).astype(np.float32))
    warning = next(w for w in ingested(path, tmp_path).report.warnings if w.code == "SPDE-D036")
    assert "station S003" in warning.where and "--step 1h" in warning.do


def test_an_axis_that_is_mostly_empty_is_a_question(tmp_path):
    rows = HOURLY.rows()
    path = write_rows(tmp_path / "obs.csv", [*rows, {**rows[5], "time": "2021-04-05T10:00:00"}])
    with pytest.raises(DataError, match="most steps of the time axis are empty") as caught:
        ingested(path, tmp_path)
    assert caught.value.code == "SPDE-D111" and "--accept sparse-axis" in caught.value.do
    assert "241 of 851 steps of 1h" in caught.value.where and "after 2021-03-10 23:00:00" in caught.value.where
    result = ingested(path, tmp_path, accept=("sparse-axis",))
    assert result.steps == 851 and "SPDE-D111" in {w.code for w in result.report.warnings}


def test_a_step_that_is_too_fine_is_answered_with_the_right_one(tmp_path):
    path = write_rows(tmp_path / "obs.csv", HOURLY.rows())
    with pytest.raises(DataError, match="most steps") as caught:
        ingested(path, tmp_path, step=600)
    assert "--step 1h" in caught.value.do


def test_gaps_of_less_than_half_the_record_ask_nothing(tmp_path):
    rows = [row for row in HOURLY.rows() if not "2021-03-03" <= row["time"] < "2021-03-07"]
    assert ingested(write_rows(tmp_path / "obs.csv", rows), tmp_path).steps == 240


def test_there_is_nothing_else_to_accept():
    with pytest.raises(UsageError, match="sparse-axs"):
        IngestOptions(accept=("sparse-axs",))


def test_rows_after_the_last_second_to_be_read_are_named_and_left_out(tmp_path):
    rows = HOURLY.rows()
    late = [*rows, {**rows[5], "time": "2099-08-05T10:00:00"}]
    until = int(np.datetime64("2021-03-12", "s").astype(int))
    parts = {"obs.csv": write_rows(tmp_path / "obs.csv", late)}
    times = HOURLY.time.copy()
    times[-1] = np.datetime64("2099-08-05T10:00:00")
    parts["obs.npz"] = write_npz(tmp_path / "obs.npz", HOURLY, time=times)
    for name, path in parts.items():
        source = open_source(path, tmp_path / f"{name}-work", until=until)
        assert source.axis.count == (240 if name == "obs.csv" else 239)
        warning = next(w for w in source.report.warnings if w.code == "SPDE-D112")
        assert "2099-08-05 10:00:00" in warning.what
        assert ("station S005" if name == "obs.csv" else "8 of 8 stations") in warning.where
        with pytest.raises(DataError, match="in the future"):
            open_source(path, tmp_path / f"{name}-0", until=0)
