"""Whole records lifted: right, resumable after any kill, never half a store, whoever does the blocks."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from fields import store
from fields.errors import DataError, ResourceError, UsageError
from fields.lift.methods import LiftSettings, StationLift
from fields.lift.record import _BLOCK_BYTES, _block_length, lift_to_store
from station_records import make_stations

ROOT = Path(__file__).parents[3]
STEPS, BLOCK, HEIGHT = 600, 60, 14
SMALL = {"height": HEIGHT, "block_steps": BLOCK, "variables": ("t", "p")}


def record():
    ds = make_stations(STEPS, 25)
    draw = np.random.default_rng(0)
    for name in ds.data_vars:
        ds[name] = ds[name].where(draw.random(ds[name].shape) > 0.1)
    return ds


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return store.write_store(record(), tmp_path_factory.mktemp("source") / "in.zarr")


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory):
    """Lift the same store without a disturbance."""
    target = tmp_path_factory.mktemp("whole") / "out.zarr"
    return lift_to_store(source, target, **SMALL)


def test_a_field_store_holds_what_the_lift_gives(source, tmp_path):
    whole = lift_to_store(source, tmp_path / "out.zarr", height=HEIGHT, block_steps=300)
    ds = store.open_store(source).load()
    out = store.open_store(whole.path, verify="full").load()
    lift = StationLift.between(
        tuple(ds[name].values for name in ("lat", "lon", "alt")),
        (*whole.grid.cells(), out["alt"].values.ravel()),
        LiftSettings(),
        metric=whole.grid.metric,
    )
    expected = lift({name: ds[name].values for name in whole.variables})
    for name in ("u", "v", "p", "t", "rh"):
        assert out[name].dims == ("time", "lat", "lon") and out[name].dtype == np.float32
        np.testing.assert_allclose(out[name].values.reshape(STEPS, -1), expected.values[name], rtol=1e-6)
        np.testing.assert_allclose(
            out[f"{name}_coverage"].values.reshape(STEPS, -1), expected.coverage[name], atol=1e-6
        )
    np.testing.assert_allclose(out["t_slope"], expected.planes["t"].along_z[:, 0], rtol=1e-6)
    assert (np.diff(out["lat"]) > 0).all()
    assert out["t"].attrs["units"] == "K" and out.attrs["method"] == "detrended"
    np.testing.assert_array_equal(out["time"], ds["time"])
    assert 0.85 < float(out["t_coverage"].mean()) < 0.95


def test_blocks_do_not_show(source, whole, tmp_path):
    other = lift_to_store(source, tmp_path / "other.zarr", **{**SMALL, "block_steps": STEPS})
    for name in whole.variables:
        left, right = (store.open_store(path)[name].values for path in (whole.path, other.path))
        np.testing.assert_allclose(left, right, rtol=1e-6)


def test_progress_is_told_with_time_to_go(source, tmp_path):
    events = []
    lift_to_store(source, tmp_path / "o.zarr", **{**SMALL, "block_steps": 120}, watcher=events.append)
    assert (events[0].done, events[-1].done, events[-1].total) == (0, 5, 5)
    assert events[-1].is_last and events[-1].eta == 0


KILLED = """
import json, os, random, shutil, signal, sys, time
from pathlib import Path
import numpy as np
from fields.lift.record import lift_to_store
from fields.lift import kernels
from fields.lift import profiles  # loaded once, before the forks
source, target, kills, small = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
random.seed(0)
seen = {"killed": 0, "visible": 0, "finished": 0}
while seen["killed"] < kills:
    child = os.fork()
    if child == 0:
        lift_to_store(source, target, **small)
        os._exit(0)
    time.sleep(random.uniform(0.05, 1.0))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        seen["killed"] += 1
        seen["visible"] += target.exists()
    else:
        seen["finished"] += 1
    if target.exists():
        shutil.rmtree(target)
print(json.dumps(seen))
"""


def run_killed(source, target, kills):
    return subprocess.run(
        [sys.executable, "-c", KILLED, str(source), str(target), str(kills), json.dumps(SMALL)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_killed_at_any_moment_no_store_is_seen_and_the_rerun_ends_the_same(source, whole, tmp_path, kills):
    target = tmp_path / "out.zarr"
    outcome = run_killed(source, target, kills)
    assert outcome.returncode == 0, outcome.stderr
    seen = json.loads(outcome.stdout)
    # A child may be killed in the instant after its last rename: then the store is whole, and that is checked below.
    assert seen["killed"] == kills and seen["visible"] <= 1
    summary = lift_to_store(source, target, **SMALL)
    assert store.fingerprint(target) == store.fingerprint(whole.path)
    assert store.verify_store(target).ok
    assert [p.name for p in tmp_path.iterdir()] == ["out.zarr"]
    assert summary.blocks == whole.blocks


def test_a_rerun_goes_on_where_a_failed_run_stopped(source, whole, tmp_path):
    target = tmp_path / "out.zarr"

    def stop(event):
        if event.done >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lift_to_store(source, target, **SMALL, watcher=stop)
    assert not target.exists()
    summary = lift_to_store(source, target, **SMALL)
    assert summary.resumed_blocks >= 5
    assert store.fingerprint(target) == store.fingerprint(whole.path)


def test_another_lift_does_not_take_over_what_a_failed_one_left(source, tmp_path):
    target = tmp_path / "out.zarr"

    def stop(event):
        if event.done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lift_to_store(source, target, **SMALL, watcher=stop)
    summary = lift_to_store(source, target, **SMALL, settings=LiftSettings("idw"))
    assert summary.resumed_blocks == 0


def command_of(process):
    with contextlib.suppress(psutil.Error):  # it may end while it is looked at
        return " ".join(process.cmdline())
    return ""


@pytest.mark.timeout(300)
def test_a_killed_dask_worker_costs_nothing(source, whole, tmp_path):
    killed = []

    def kill_one(event):
        workers = [p for p in psutil.Process().children(recursive=True) if "spawn_main" in command_of(p)]
        if event.done >= 2 and not killed and workers:
            killed.append(workers[0].pid)
            os.kill(workers[0].pid, signal.SIGKILL)

    summary = lift_to_store(source, tmp_path / "out.zarr", **SMALL, workers=2, watcher=kill_one)
    assert killed
    assert summary.blocks == whole.blocks
    assert store.fingerprint(summary.path) == store.fingerprint(whole.path)


@pytest.mark.timeout(300)
def test_a_running_scheduler_is_joined_and_left_running(source, whole, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, processes=False, protocol="tcp"
    ) as cluster:
        summary = lift_to_store(source, tmp_path / "out.zarr", **SMALL, scheduler=cluster.scheduler_address)
        assert cluster.scheduler.status.name == "running"
    assert store.fingerprint(summary.path) == store.fingerprint(whole.path)


def test_a_scheduler_that_cannot_be_meant_is_a_resource_error(source, tmp_path):
    with pytest.raises(ResourceError, match="no dask scheduler answers") as caught:
        lift_to_store(source, tmp_path / "out.zarr", **SMALL, scheduler="nonsense://127.0.0.1:1")
    assert "--workers" in caught.value.do
    assert list(tmp_path.iterdir()) == []


LIMITED = """
import resource, sys
from fields.errors import FieldsError
from fields.lift.record import lift_to_store
# Files may not grow beyond this: the same answer from the system as a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    lift_to_store(sys.argv[1], sys.argv[2], height=14)
except FieldsError as problem:
    print(problem.exit_code, problem)
"""


def test_a_full_disk_ends_in_a_resource_error_and_no_store(source, tmp_path):
    outcome = subprocess.run(
        [sys.executable, "-c", LIMITED, str(source), str(tmp_path / "out.zarr")],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert outcome.stdout.startswith("7 no room"), outcome.stdout + outcome.stderr
    assert not (tmp_path / "out.zarr").exists()


def test_an_existing_output_stays_unless_forced(source, tmp_path):
    summary = lift_to_store(source, tmp_path / "o.zarr", height=HEIGHT, variables=["t"])
    with pytest.raises(UsageError) as caught:
        lift_to_store(source, tmp_path / "o.zarr", height=HEIGHT, variables=["t"])
    assert caught.value.exit_code == 2
    assert lift_to_store(source, tmp_path / "o.zarr", height=HEIGHT, variables=["t"], force=True).path == summary.path


def test_a_store_is_never_lifted_onto_itself(source):
    before = store.fingerprint(source)
    for target in (source, source / "x.zarr", source / ".." / source.name):
        with pytest.raises(UsageError, match="does not replace it") as caught:
            lift_to_store(source, target, force=True, **SMALL)
        assert caught.value.code == "SPDE-D003" and "--force" not in caught.value.do
    assert store.fingerprint(source) == before and not (source / "x.zarr").exists()


@pytest.mark.parametrize("names", [(), []])
def test_no_variable_at_all_is_a_usage_error(source, tmp_path, names):
    with pytest.raises(UsageError, match="no variable is named") as caught:
        lift_to_store(source, tmp_path / "out.zarr", variables=names)
    assert caught.value.code == "SPDE-D087"


def relief(tmp_path, metres):
    """Write an elevation model of the stations' region."""
    lat, lon = np.linspace(40, 52, 25), np.linspace(-6, 14, 41)
    np.savez(tmp_path / "relief.npz", lat=lat, lon=lon, elev_m=np.full((25, 41), metres))
    return tmp_path / "relief.npz"


def test_relief_that_is_not_where_the_stations_stand_is_told(source, tmp_path, caplog):
    lift_to_store(source, tmp_path / "out.zarr", dem=relief(tmp_path, 4000.0), **SMALL)
    assert "m from the altitudes of the stations" in caplog.text


def test_relief_without_any_elevation_is_refused(source, tmp_path):
    with pytest.raises(DataError, match="no elevation at all") as caught:
        lift_to_store(source, tmp_path / "out.zarr", dem=relief(tmp_path, np.nan), **SMALL)
    assert caught.value.code == "SPDE-D080"


def lifted(ds, tmp_path, **options):
    summary = lift_to_store(store.write_store(ds, tmp_path / "in.zarr"), tmp_path / "out.zarr", height=8, **options)
    return summary, store.open_store(summary.path).load()


def test_a_station_that_never_reports_is_left_out_with_a_notice(tmp_path, caplog):
    ds = make_stations(60, 10)
    for name in ds.data_vars:
        ds[name][:, 4] = np.nan
    summary, out = lifted(ds, tmp_path)
    assert summary.dropped_stations == ("S004",)
    assert out.sizes["station"] == 9
    assert "S004" in caplog.text


def test_moments_without_any_station_are_counted_and_missing(tmp_path, caplog):
    ds = make_stations(60, 10)
    for name in ds.data_vars:
        ds[name][7:9] = np.nan
    summary, out = lifted(ds, tmp_path)
    assert summary.empty_moments == 2
    assert np.isnan(out["t"][7:9]).all() and np.isfinite(out["t"][6]).all()
    assert "2 of 60 moments" in caplog.text


def test_infinite_values_count_as_missing(tmp_path):
    ds = make_stations(20, 10)
    ds["u"][3, 2] = np.inf
    _, out = lifted(ds, tmp_path)
    assert np.isfinite(out["u"]).all()


def test_a_store_without_anything_reporting_is_a_data_error(tmp_path):
    ds = make_stations(20, 4)
    for name in ds.data_vars:
        ds[name][:] = np.nan
    with pytest.raises(DataError) as caught:
        lifted(ds, tmp_path)
    assert caught.value.exit_code == 3


def test_a_station_without_altitude_takes_that_of_the_relief(tmp_path, caplog):
    ds = make_stations(20, 10)
    ds = ds.assign_coords(alt=ds["alt"].where(ds["station"] != "S003"))
    np.savez(
        tmp_path / "dem.npz", lat=np.arange(40.0, 54.0), lon=np.arange(-4.0, 12.0), elev_m=np.full((14, 16), 321.0)
    )
    _, out = lifted(ds, tmp_path, dem=tmp_path / "dem.npz")
    assert out["station_alt"].values[3] == 321.0
    np.testing.assert_allclose(out["alt"], 321.0)
    assert out.attrs["terrain"] == "dem.npz"


def test_an_unknown_variable_is_answered_with_those_there(source, tmp_path):
    with pytest.raises(UsageError) as caught:
        lift_to_store(source, tmp_path / "o.zarr", variables=["snow"])
    assert caught.value.do == "--variables u,v,p,t,rh"


@pytest.mark.parametrize(
    ("stations", "cells", "variables"), [(103, 1184, 5), (1866, 1472, 5), (10_000, 10**6, 5), (5, 64, 1)]
)
def test_a_block_is_bounded_in_bytes_and_even_with_chunks(stations, cells, variables):
    length = _block_length(stations, cells, variables)
    assert length * 4 * variables * (stations + 2 * cells) <= max(_BLOCK_BYTES, 4 * variables * (stations + 2 * cells))
    assert length % 512 == 0 or 512 % length == 0


def test_a_grid_that_memory_cannot_hold_is_refused_with_one_that_it_can(source, tmp_path):
    with pytest.raises(ResourceError, match="GB of memory") as caught:
        lift_to_store(source, tmp_path / "out.zarr", height=200_000, variables=("t",))
    assert caught.value.code == "SPDE-D067" and 4 <= int(caught.value.do.removeprefix("--height ")) < 50_000
    assert list(tmp_path.iterdir()) == []


def test_a_grid_that_takes_long_is_told_with_its_size(tmp_path, caplog):
    from fields.grid import GridSpec
    from fields.lift.capacity import require_capacity

    assert require_capacity(tmp_path / "out.zarr", GridSpec(44.0, 46.0, 5.0, 7.0, 1500, 1500), 10, (1, 1, 25))
    assert "2,250,000 cells take about 1.8 GB of memory" in caplog.text
    assert not require_capacity(tmp_path / "out.zarr", GridSpec(44.0, 46.0, 5.0, 7.0, 64, 64), 10, (9000, 5, 25))


def test_a_disk_that_cannot_hold_the_fields_is_told_before_they_are_computed(tmp_path):
    from fields.grid import GridSpec
    from fields.lift.capacity import require_capacity

    with pytest.raises(ResourceError, match="GB of disk") as caught:
        require_capacity(tmp_path / "no" / "out.zarr", GridSpec(44.0, 46.0, 5.0, 7.0, 400, 400), 4, (10**9, 5, 25))
    assert caught.value.do.startswith("--height ")
