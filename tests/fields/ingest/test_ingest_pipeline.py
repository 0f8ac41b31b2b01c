"""Ingest from end to end: what is stored, what is derived, who is left out, and what is refused before any work."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from filelock import FileLock

import fields.ingest.pipeline as pipeline
from fields import store
from fields.checks import schema
from fields.derive import standard_pressure
from fields.errors import DataError, LockedError, ResourceError, UsageError
from fields.ingest.pipeline import IngestOptions, block_rows, ingest_files
from fields.readers import ReadOptions
from fields.times import parse_time
from reader_files import Weather, write_npz, write_rows


@pytest.fixture
def weather() -> Weather:
    return Weather(8, 200)


@pytest.fixture
def archive(tmp_path, weather):
    return write_npz(tmp_path / "obs.npz", weather)


def test_a_store_holds_si_with_attributes_and_validates(tmp_path, weather, archive):
    result = ingest_files(archive, tmp_path / "o.zarr")
    stored = store.open_store(tmp_path / "o.zarr", verify="full")
    assert result.variables == ("u", "v", "p", "t", "rh")
    assert np.allclose(stored["p"].values, weather.p * 100, rtol=1e-6, equal_nan=True)
    assert np.allclose(stored["rh"].values, weather.rh / 100, rtol=1e-5, equal_nan=True)
    assert stored["t"].attrs["units"] == "K"
    assert stored["t"].attrs["standard_name"] == "air_temperature"
    assert stored.attrs["step_seconds"] == 3600
    assert stored.attrs["pressure_kind"] == "station"
    assert schema.validate(stored).ok


def test_the_same_source_gives_the_same_fingerprint_through_every_reader(tmp_path, weather, archive):
    table = write_rows(tmp_path / "obs.csv", weather.rows())
    one = ingest_files(archive, tmp_path / "a.zarr").fingerprint
    again = ingest_files(archive, tmp_path / "b.zarr").fingerprint
    assert one == again
    first, second = (
        store.open_store(ingest_files(path, tmp_path / f"{path.stem}{i}.zarr").path)
        for i, path in enumerate((archive, table))
    )
    for name in ("u", "v", "p", "t", "rh"):
        assert np.allclose(first[name].values, second[name].values, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("rows", [24, 37, 64])
def test_the_length_of_a_block_does_not_change_what_is_stored(tmp_path, archive, monkeypatch, rows):
    whole = store.open_store(ingest_files(archive, tmp_path / "a.zarr", IngestOptions(quality=False)).path)
    monkeypatch.setattr(pipeline, "block_rows", lambda stations, count: rows)
    parts = store.open_store(ingest_files(archive, tmp_path / "b.zarr", IngestOptions(quality=False)).path)
    for name in ("u", "v", "p", "t", "rh"):
        assert np.array_equal(whole[name].values, parts[name].values, equal_nan=True)


def test_quality_control_sees_across_the_border_of_a_block(tmp_path, weather, monkeypatch):
    # A sensor that sticks for 30 h around a border at 100 h sticks too short on either side alone.
    weather.t[85:115, 3] = weather.t[85, 3]
    monkeypatch.setattr(pipeline, "block_rows", lambda stations, count: 100)
    ingest_files(write_npz(tmp_path / "o.npz", weather), tmp_path / "o.zarr")
    flags = store.open_store(tmp_path / "o.zarr")["t_flag"].values[86:115, 3]
    assert (flags & 4).all()


def test_without_quality_control_there_are_no_flags(tmp_path, archive):
    ingest_files(archive, tmp_path / "o.zarr", IngestOptions(quality=False))
    assert not [name for name in store.open_store(tmp_path / "o.zarr").data_vars if str(name).endswith("_flag")]


@pytest.mark.parametrize(("stations", "count"), [(1, 10), (4, 8760), (1866, 13_632), (10_000, 9000), (1_000_000, 100)])
def test_a_block_is_bounded_and_never_empty(stations, count):
    rows = block_rows(stations, count)
    assert 1 <= rows <= count
    assert rows == 1 or rows * stations <= 4_000_000


# ---- derived and missing ------------------------------------------------------------------------------------------


def polar_rows(weather: Weather, humid: bool = True):
    rows = []
    for row in weather.rows():
        u, v = row.pop("u"), row.pop("v")
        row["ff"], row["dd"] = float(np.hypot(u, v)), float(np.rad2deg(np.arctan2(-u, -v)) % 360)
        if not humid:
            row["td"] = row["t"] - (100 - row.pop("rh")) / 5
        rows.append(row)
    return rows


def test_speed_and_direction_become_components(tmp_path, weather):
    rows = polar_rows(weather)
    rows[0]["ff"], rows[0]["dd"] = 0.0, float("nan")
    rows[1]["ff"], rows[1]["dd"] = 5.0, 360.0
    ingest_files(write_rows(tmp_path / "o.csv", rows), tmp_path / "o.zarr", IngestOptions(quality=False))
    stored = store.open_store(tmp_path / "o.zarr")
    assert np.allclose(stored["u"].values[1:], weather.u[1:], atol=1e-4)
    assert (stored["u"].values[0, 0], stored["v"].values[0, 0]) == (0.0, 0.0)
    assert stored["v"].values[0, 1] == pytest.approx(-5.0, abs=1e-5)
    assert "ff" not in stored


def test_humidity_comes_from_the_dew_point_where_it_is_missing(tmp_path, weather):
    ingest_files(write_rows(tmp_path / "o.csv", polar_rows(weather, humid=False)), tmp_path / "o.zarr")
    stored = store.open_store(tmp_path / "o.zarr")
    assert 0.1 < float(np.nanmedian(stored["rh"].values)) < 1
    assert "dew point" in stored["rh"].attrs["comment"]


def test_a_variable_that_is_missing_everywhere_is_refused_or_replaced(tmp_path, weather):
    weather.p[:] = np.nan
    archive = write_npz(tmp_path / "o.npz", weather)
    with pytest.raises(DataError, match="p is missing everywhere") as caught:
        ingest_files(archive, tmp_path / "o.zarr")
    assert "--missing p=standard-atmosphere" in caught.value.do
    ingest_files(archive, tmp_path / "o.zarr", IngestOptions(missing={"p": "standard-atmosphere"}))
    stored = store.open_store(tmp_path / "o.zarr")
    assert stored.attrs["pressure_kind"] == "standard_atmosphere"
    assert np.allclose(stored["p"].values[7], standard_pressure(weather.alt), rtol=1e-6)
    assert not stored["p_flag"].values.any()


def test_another_substitute_is_refused(tmp_path, archive):
    with pytest.raises(UsageError, match="no substitute"):
        ingest_files(archive, tmp_path / "o.zarr", IngestOptions(missing={"t": "standard-atmosphere"}))


# ---- stations ------------------------------------------------------------------------------------------------------


def test_a_station_that_never_reports_is_left_out_with_a_notice(tmp_path, weather):
    for name in ("u", "v", "p", "t", "rh"):
        getattr(weather, name)[:, 2] = np.nan
    result = ingest_files(write_npz(tmp_path / "o.npz", weather), tmp_path / "o.zarr")
    assert result.dropped == ("S002",)
    assert "SPDE-D020" in result.report.codes()
    assert store.open_store(tmp_path / "o.zarr").sizes["station"] == 7


def test_the_station_filter_looks_at_the_training_period_only(tmp_path, weather):
    weather.t[:120, 1] = np.nan  # silent in training (the first 60 %)
    weather.t[120:, 4] = np.nan  # silent afterwards
    archive = write_npz(tmp_path / "o.npz", weather)
    result = ingest_files(archive, tmp_path / "o.zarr", IngestOptions(max_missing=0.3))
    assert result.dropped == ("S001",)
    assert ingest_files(archive, tmp_path / "p.zarr").dropped == ()


def test_a_variable_that_most_of_the_network_lacks_does_not_cost_its_stations(tmp_path, weather):
    weather.p[:, 2:] = np.nan
    result = ingest_files(write_npz(tmp_path / "o.npz", weather), tmp_path / "o.zarr", IngestOptions(max_missing=0.3))
    assert result.dropped == ()


def test_stations_can_be_left_out_by_name(tmp_path, weather, archive):
    result = ingest_files(archive, tmp_path / "o.zarr", IngestOptions(read=ReadOptions(drop=("S001", "S005"))))
    assert result.stations == 6
    assert np.allclose(store.open_store(tmp_path / "o.zarr")["alt"].values, np.delete(weather.alt, [1, 5]))
    with pytest.raises(UsageError, match="no station is left"):
        ingest_files(archive, tmp_path / "p.zarr", IngestOptions(read=ReadOptions(only=("X",))))


def test_stations_without_a_position_are_named_in_the_command_that_leaves_them_out(tmp_path, weather):
    weather.alt[3] = np.nan
    archive = write_npz(tmp_path / "o.npz", weather)
    with pytest.raises(DataError, match="no altitude") as caught:
        ingest_files(archive, tmp_path / "o.zarr")
    assert caught.value.do.endswith("--drop S003")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_handful_of_stations_is_enough(tmp_path, count):
    assert ingest_files(write_npz(tmp_path / "o.npz", Weather(count, 60)), tmp_path / "o.zarr").stations == count


# ---- the output ----------------------------------------------------------------------------------------------------


def test_an_existing_output_is_refused_before_any_work_and_replaced_with_force(tmp_path, archive):
    ingest_files(archive, tmp_path / "o.zarr")
    with pytest.raises(UsageError, match="exists") as caught:
        ingest_files(tmp_path / "nothing.npz" if False else archive, tmp_path / "o.zarr")
    assert "--force" in caught.value.do
    assert ingest_files(archive, tmp_path / "o.zarr", IngestOptions(force=True)).steps == 200


def test_force_does_not_replace_what_is_no_store(tmp_path, archive):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("ten years of work")
    with pytest.raises(UsageError, match="not a store"):
        ingest_files(archive, tmp_path / "home", IngestOptions(force=True))
    assert (tmp_path / "home" / "thesis.tex").exists()


def test_a_source_that_is_not_there_is_a_matter_of_usage(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        ingest_files(tmp_path / "absent.csv", tmp_path / "o.zarr")


def test_nothing_is_left_behind_by_success_or_by_bad_data(tmp_path, weather, archive):
    ingest_files(archive, tmp_path / "o.zarr")
    weather.t += 273.15
    with pytest.raises(DataError):
        ingest_files(write_npz(tmp_path / "bad.npz", weather), tmp_path / "p.zarr")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.npz", "o.zarr", "obs.npz"]


def test_two_processes_do_not_ingest_into_the_same_output(tmp_path, archive):
    folder = tmp_path / ".o.zarr.gather"
    folder.mkdir()
    lock = FileLock(folder / "lock")
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    try:
        with pytest.raises(LockedError):
            ingest_files(archive, tmp_path / "o.zarr")
    finally:
        done.set()
        other.join()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_without_permission_is_refused_before_any_work(tmp_path, archive):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(ResourceError):
        ingest_files(archive, tmp_path / "locked" / "o.zarr")


FULL = """
import resource, signal, sys
from fields.errors import ResourceError
from fields.ingest.pipeline import ingest_files
# A file may grow to 100 kB, as on a disk that is full.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    ingest_files(sys.argv[1], sys.argv[2])
except ResourceError as problem:
    sys.exit(problem.exit_code)
"""


def test_a_disk_that_fills_up_leaves_no_store_and_says_so(tmp_path):
    archive = write_npz(tmp_path / "o.npz", Weather(60, 2000))
    done = subprocess.run([sys.executable, "-c", FULL, str(archive), str(tmp_path / "o.zarr")], check=False)
    assert done.returncode == 7
    assert not (tmp_path / "o.zarr").exists()
    assert ingest_files(archive, tmp_path / "o.zarr").steps == 2000


def test_odd_paths_work(tmp_path, weather):
    folder = tmp_path / "a b" / "ünï–📡"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    ingest_files(write_npz(folder / "o b.npz", weather), tmp_path / "link" / ("x" * 200 + ".zarr"))
    assert store.is_store(folder / ("x" * 200 + ".zarr"))


def test_progress_is_told_with_the_time_to_go(tmp_path, weather, monkeypatch):
    monkeypatch.setattr(pipeline, "block_rows", lambda stations, count: 50)
    events = []
    ingest_files(write_rows(tmp_path / "o.csv", weather.rows()), tmp_path / "o.zarr", watcher=events.append)
    assert [e.stage for e in events if e.is_last] == ["read", "check", "write"]
    assert all(e.eta is None or e.eta >= 0 for e in events)


# ---- real data -----------------------------------------------------------------------------------------------------


def test_real_inmet_files_go_through_the_whole_pipeline(shared_data, tmp_path):
    result = ingest_files(shared_data / "inmet_raw_sample", tmp_path / "o.zarr")
    stored = store.open_store(tmp_path / "o.zarr")
    prepared = np.load(shared_data / "inmet_south" / "observations.npz")
    there = list(prepared["station_id"]).index("A801")
    unmasked = store.open_store(tmp_path / "o.zarr", masked=False).sel(station="A801")
    assert (result.stations, result.steps) == (4, 8760)
    for place, name, factor, offset in ((0, "u", 1, 0), (1, "v", 1, 0), (2, "p", 100, 0), (3, "t", 1, 273.15)):
        expected = prepared["obs"][:8760, there, place] * factor + offset
        assert np.allclose(unmasked[name].values, expected, rtol=1e-6, atol=1e-5, equal_nan=True)
    flagged = {n: float((np.isnan(stored[n]) & np.isfinite(unmasked[n])).mean()) for n in ("t",)}
    assert flagged["t"] < 0.01


def test_the_real_meteonet_layout_gives_station_pressure_where_there_is_one(shared_data, tmp_path):
    result = ingest_files(shared_data / "meteonet_layout", tmp_path / "o.zarr")
    stored = store.open_store(tmp_path / "o.zarr", masked=False)
    present = np.isfinite(stored["p"].values)
    assert present.mean() == pytest.approx(0.32, abs=0.02)
    assert np.all(present == (np.isfinite(stored["psl"].values) & np.isfinite(stored["t"].values)))
    assert np.all((stored["psl"].values - stored["p"].values)[present & (stored["alt"].values > 1)[None, :]] > 0)
    assert any("missing at 68%" in w.what for w in result.report.warnings)


def test_the_real_weather2k_layout_is_ingested_with_its_times(shared_data, tmp_path):
    read = ReadOptions(start=parse_time("2023-01-01"), step=10_800, zone="UTC")
    path = shared_data / "weather2k_layout" / "inmet_south_2023_2024_3h.npy"
    result = ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=read, quality=False))
    assert (result.stations, result.steps) == (103, 5848)
    prepared = np.load(shared_data / "inmet_south" / "observations.npz")["obs"][::3, :, 0]
    stored = store.open_store(tmp_path / "o.zarr")["u"].values
    both = np.isfinite(stored) & np.isfinite(prepared)
    assert np.abs(stored - prepared)[both].max() < 1e-4
    assert both.mean() > 0.95


def test_the_real_metar_network_is_refused_for_its_sea_level_pressure(shared_data, tmp_path):
    path = shared_data / "metar_1993" / "observations.npz"
    with pytest.raises(DataError) as caught:
        ingest_files(path, tmp_path / "o.zarr")
    assert {"SPDE-D008", "SPDE-D016"} <= {p.code for p in caught.value.problems}
    read = ReadOptions(pressure="sea-level", drop=("BLM", "HBR"))
    assert ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=read)).stations == 1078
