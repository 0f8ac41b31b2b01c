"""Crashes, full disks, second writers: no half store is ever seen, and finished blocks are not done twice."""

import os
import pickle
import shutil
import signal
import subprocess
import textwrap
from contextlib import contextmanager

import pytest
import xarray as xr

from fields import store
from fields.errors import LockedError, ResourceError, UsageError
from station_records import make_stations

BEFORE = "import sys\nfrom fields import store\nfrom station_records import make_stations\n"


def run_writer(writers, code, *arguments):
    """Run a writer in a process of its own; it prints ``ready`` before it waits to be killed."""
    return writers.start(BEFORE + textwrap.dedent(code), *arguments)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def blocks_of(ds, staged):
    return [(ds[list(staged.layouts)].isel(region).drop_vars(list(ds.coords)), region) for region in staged.blocks()]


def write_pending(target, ds):
    """Write what a killed writer of the same content left undone."""
    with store.create(target, ds, time_block=24, resume=True) as staged:
        for region in staged.pending():
            staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)


WAITING = """
    import time
    ds = make_stations(96, 6)
    with store.create(sys.argv[1], ds, time_block=24, resume=True) as staged:
        for number, region in enumerate(staged.blocks()):
            if number == int(sys.argv[2]):
                print("ready", flush=True)
                time.sleep(60)
            staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)
"""


@pytest.mark.parametrize("finished", [0, 2])
def test_sigkill_leaves_nothing_that_opens_and_the_next_run_resumes(writers, tmp_path, finished):
    target = tmp_path / "x.zarr"
    process = run_writer(writers, WAITING, target, finished)
    assert process.stdout.readline() == "ready\n", process.err
    process.signal(signal.SIGKILL)
    process.wait()
    left = list(tmp_path.iterdir())
    assert not target.exists() and len(left) == 1
    with pytest.raises(UsageError):
        store.open_store(target)
    with pytest.raises((FileNotFoundError, ValueError)):
        xr.open_zarr(left[0] / "data", consolidated=False)

    ds = make_stations(96, 6)
    with store.create(target, ds, time_block=24, resume=True) as staged:
        assert staged.resumed == (finished >= 0)
        assert len(staged.blocks()) - len(staged.pending()) == finished
        for region in staged.pending():
            staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)
    xr.testing.assert_equal(store.open_store(target, verify="full").load(), ds)
    assert names(tmp_path) == ["x.zarr"]


def test_what_a_killed_run_left_is_not_mixed_with_other_data(writers, tmp_path):
    target = tmp_path / "x.zarr"
    process = run_writer(writers, WAITING, target, 2)
    assert process.stdout.readline() == "ready\n", process.err
    process.signal(signal.SIGKILL)
    process.wait()
    other = make_stations(96, 6, seed=5)
    with store.create(target, other, time_block=24, resume=True) as staged:
        assert not staged.resumed and len(staged.pending()) == 4
        for block, region in blocks_of(other, staged):
            staged.write(block, region)
    xr.testing.assert_equal(store.open_store(target).load(), other)
    assert names(tmp_path) == ["x.zarr"]


def write_some(target, ds, count, *, resume):
    """Write the first blocks and fail."""
    with store.create(target, ds, time_block=24, resume=resume) as staged:
        for block, region in blocks_of(ds, staged)[:count]:
            staged.write(block, region)
        raise RuntimeError("enough")


def test_a_journalled_block_that_was_damaged_meanwhile_is_done_again(tmp_path):
    ds = make_stations(96, 6)
    with pytest.raises(RuntimeError, match="enough"):
        write_some(tmp_path / "x.zarr", ds, 3, resume=True)
    (left,) = tmp_path.iterdir()
    torn = left / "data" / "t" / "c" / "1" / "0"
    torn.write_bytes(torn.read_bytes()[:-3])
    with store.create(tmp_path / "x.zarr", ds, time_block=24, resume=True) as staged:
        assert [region["time"].start for region in staged.pending()] == [24, 72]
        for region in staged.pending():
            staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)
    xr.testing.assert_equal(store.open_store(tmp_path / "x.zarr", verify="full").load(), ds)


KILLED_AFTER_PUBLISHING = """
    import os, signal
    from fields import atomic
    publish = atomic.publish
    def publish_and_die(*args, **options):
        publish(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    atomic.publish = publish_and_die
    ds = make_stations(96, 6)
    with store.create(sys.argv[1], ds, time_block=24, resume=True) as staged:
        for region in staged.pending():
            staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)
"""


def test_killed_between_publishing_and_clearing_up_the_store_is_whole_and_can_be_made_again(writers, tmp_path):
    target, ds = tmp_path / "x.zarr", make_stations(96, 6)
    process = run_writer(writers, KILLED_AFTER_PUBLISHING, target)
    assert process.wait() == -signal.SIGKILL
    assert len(names(tmp_path)) == 2  # the store, and a scratch folder without its data
    xr.testing.assert_equal(store.open_store(target, verify="full").load(), ds)
    target.rename(tmp_path / "kept.zarr")
    write_pending(target, ds)
    xr.testing.assert_equal(store.open_store(target, verify="full").load(), ds)
    assert names(tmp_path) == ["kept.zarr", "x.zarr"]


def test_an_error_without_resume_leaves_nothing_behind(tmp_path, stations):
    with pytest.raises(RuntimeError, match="enough"):
        write_some(tmp_path / "x.zarr", stations, 2, resume=False)
    assert names(tmp_path) == []


def test_an_unfinished_store_is_not_published(tmp_path, stations):
    def write_one() -> None:
        with store.create(tmp_path / "x.zarr", stations, time_block=24) as staged:
            block, region = blocks_of(stations, staged)[0]
            staged.write(block, region)

    with pytest.raises(UsageError, match="is unfinished: 2 of 3 blocks"):
        write_one()
    assert names(tmp_path) == []


def test_a_second_writer_is_told_who_writes(writers, tmp_path, stations):
    target = tmp_path / "x.zarr"
    process = run_writer(writers, WAITING, target, 1)
    try:
        assert process.stdout.readline() == "ready\n", process.err
        with pytest.raises(LockedError, match=f"pid {process.pid} on ") as caught:
            store.write_store(stations, target)
        assert caught.value.exit_code == 8
    finally:
        process.signal(signal.SIGKILL)
        process.wait()
    # The dead writer's lock is gone with it.
    store.write_store(stations, target)
    assert names(tmp_path) == ["x.zarr"]


LIMITED = """
    import resource
    from fields.errors import ResourceError
    ds = make_stations(4000, 40)
    # Files may not grow beyond this: the same answer from the system as a full disk, at once.
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    try:
        store.write_store(ds, sys.argv[1])
    except ResourceError as problem:
        print(problem.exit_code, problem)
"""


def test_a_file_limit_ends_in_a_resource_error_and_no_store(writers, tmp_path):
    process = run_writer(writers, LIMITED, tmp_path / "x.zarr")
    out = process.output()
    assert out.startswith("7 no room to write"), process.err
    assert "bytes are needed" in out
    assert names(tmp_path) == []


@contextmanager
def small_disk(folder, options):
    """Mount a small file system; only root may do so."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_in_a_resource_error_and_no_store(tmp_path):
    with small_disk(tmp_path / "small", "size=1m") as small:
        with pytest.raises(ResourceError, match="no room to write") as caught:
            store.write_store(make_stations(4000, 40), small / "x.zarr")
        assert caught.value.exit_code == 7 and "bytes are needed" in caught.value.message
        assert names(small) == []


def test_a_full_disk_keeps_finished_blocks_where_that_was_asked_for(tmp_path):
    ds = make_stations(4000, 40)
    with small_disk(tmp_path / "small", "size=1m") as small:
        with pytest.raises(ResourceError):
            write_all(small / "x.zarr", ds)
        assert not (small / "x.zarr").exists()
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
        with store.create(small / "x.zarr", ds, time_block=500, resume=True) as staged:
            assert 0 < len(staged.pending()) < len(staged.blocks())
            for region in staged.pending():
                staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)
        xr.testing.assert_equal(store.open_store(small / "x.zarr").load(), ds)


def write_all(target, ds):
    with store.create(target, ds, time_block=500, resume=True) as staged:
        for region in staged.blocks():
            staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)


def test_a_read_only_place_is_refused_before_any_work(tmp_path, stations):
    if os.getuid() == 0:
        with small_disk(tmp_path / "closed", "ro,size=1m") as closed:
            _refuses(closed / "x.zarr", stations)
    else:
        (tmp_path / "closed").mkdir(mode=0o555)
        _refuses(tmp_path / "closed" / "x.zarr", stations)


def _refuses(target, ds):
    with pytest.raises(ResourceError, match="cannot write to") as caught:
        store.create(target, ds)
    assert caught.value.exit_code == 7


def test_an_existing_output_is_never_overwritten_without_force(tmp_path, stations):
    path = store.write_store(stations, tmp_path / "x.zarr")
    warmer = stations.copy(deep=True)
    warmer["t"] += 1
    with pytest.raises(UsageError, match="exists") as caught:
        store.write_store(warmer, path)
    assert caught.value.exit_code == 2 and "--force" in caught.value.do
    xr.testing.assert_equal(store.open_store(path).load(), stations)
    store.write_store(warmer, path, force=True)
    xr.testing.assert_equal(store.open_store(path).load(), warmer)
    assert names(tmp_path) == ["x.zarr"]


def test_force_does_not_replace_what_is_no_store(tmp_path, stations):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(UsageError, match="is not a store"):
        store.write_store(stations, tmp_path / "thesis", force=True)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_an_error_while_replacing_keeps_the_old_store(tmp_path, stations):
    path = store.write_store(stations, tmp_path / "x.zarr")
    with pytest.raises(RuntimeError), store.create(path, stations, force=True):
        raise RuntimeError
    xr.testing.assert_equal(store.open_store(path).load(), stations)
    assert names(tmp_path) == ["x.zarr"]


def test_blocks_may_come_by_station_and_in_any_order(tmp_path):
    ds = make_stations(30, 300)
    with store.create(tmp_path / "x.zarr", ds) as staged:
        regions = staged.blocks("station")
        assert [r["station"] for r in regions] == [slice(0, 256), slice(256, 300)]
        for region in reversed(regions):
            staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)
    xr.testing.assert_equal(store.open_store(tmp_path / "x.zarr").load(), ds)


def test_a_block_that_would_tear_a_shard_is_refused(tmp_path, stations):
    with (
        pytest.raises(UsageError, match="multiples of 24"),
        store.create(tmp_path / "x.zarr", stations, time_block=24) as s,
    ):
        s.write({"t": stations["t"][5:29]}, {"time": slice(5, 29)})


def test_the_writer_of_blocks_may_be_sent_to_other_processes(tmp_path, stations):
    with store.create(tmp_path / "x.zarr", stations, time_block=24) as staged:
        sent = pickle.loads(pickle.dumps(staged.writer))
        for block, region in blocks_of(stations, staged):
            sent.write(block, region)
    xr.testing.assert_equal(store.open_store(tmp_path / "x.zarr").load(), stations)


def test_lazy_arrays_and_errors_may_be_sent_to_other_processes(tmp_path, stations):
    path = store.write_store(stations, tmp_path / "x.zarr")
    sent = pickle.loads(pickle.dumps(store.open_store(path)))
    xr.testing.assert_equal(sent.load(), stations)
    problem = pickle.loads(pickle.dumps(ResourceError("full", code="SPDE-D060", do="free space")))
    assert (problem.code, problem.do, problem.exit_code) == ("SPDE-D060", "free space", 7)


KILLING = """
    # One process imports everything and forks a writer for each kill, before any thread has been started.
    import os, random, signal, time
    import zarr, zarr.codecs, dask.array
    chance = random.Random(0)
    target = sys.argv[1]
    ds = make_stations(96, 6)
    # Killed until fifty were caught at work: one that finished first makes the longest wait shorter, one that did not
    # longer, so that a machine of any speed is killed at all moments of a write.
    killed, longest = 0, 0.5
    for number in range(500):
        child = os.fork()
        if child == 0:
            with store.create(target, ds, time_block=24, resume=True) as staged:
                for region in staged.pending():
                    staged.write(ds.isel(region).drop_vars(list(ds.coords)), region)
            os._exit(0)
        time.sleep(chance.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        caught = os.waitpid(child, 0)[1] == signal.SIGKILL
        killed, longest = killed + caught, longest * (1.1 if caught else 0.8)
        if os.path.exists(target):
            os.rename(target, f"{target}.{number}")
        if killed == 50:
            break
    print(killed, flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_kills_at_random_moments_leave_no_half_store(writers, tmp_path):
    target, ds = tmp_path / "x.zarr", make_stations(96, 6)
    process = run_writer(writers, KILLING, target)
    assert int(process.output()) == 50, process.err
    for finished in tmp_path.glob("x.zarr.[0-9]*"):
        xr.testing.assert_equal(store.open_store(finished, verify="full").load(), ds)
        shutil.rmtree(finished)
    write_pending(target, ds)
    xr.testing.assert_equal(store.open_store(target).load(), ds)
    assert names(tmp_path) == ["x.zarr"]
