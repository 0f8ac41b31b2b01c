"""Requests to stop and faults of the machine: what is saved, what is said, and the exit code."""

import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from stationpde.errors import Interrupted, ResourceError
from stationpde.runs import checkpoint_files
from stationpde.runs.metrics_log import read_metrics
from stationpde.training.resources import process_faults
from stationpde.training.session import train
from stationpde.training.signals import StopRequest
from training_learner import build_linear, small_config, small_series
from training_processes import wait_until


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return train(small_config(), small_series(), tmp_path_factory.mktemp("u") / "run", build=build_linear)


def started(processes, run: Path, steps: int = 3, **job):
    training = processes.start(run, **{"sleep": 0.05, **job})
    wait_until(lambda: len(read_metrics(run / "metrics.jsonl")) >= steps)
    return training


def goes_on_exactly(processes, run: Path, undisturbed) -> None:
    code, training = processes.finish(run)
    assert code == 0, training.err
    assert training.result["weights_sha256"] == undisturbed.weights_sha256


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_batch_system_s_signal_saves_exits_75_and_is_resumed_exactly(processes, tmp_path, undisturbed, name):
    run = tmp_path / "run"
    training = started(processes, run, steps=6)
    training.signal(getattr(signal, name))
    assert training.wait() == 75
    assert f"stopped by {name} after step" in training.err
    newest = checkpoint_files.step_of(checkpoint_files.newest_valid(run / "checkpoints"))
    assert newest == read_metrics(run / "metrics.jsonl", "step")[-1]["step"]  # nothing is lost
    goes_on_exactly(processes, run, undisturbed)


def test_ctrl_c_saves_and_exits_130(processes, tmp_path, undisturbed):
    run = tmp_path / "run"
    training = started(processes, run, steps=6)
    training.signal(signal.SIGINT)
    assert training.wait() == 130
    newest = checkpoint_files.step_of(checkpoint_files.newest_valid(run / "checkpoints"))
    assert newest == read_metrics(run / "metrics.jsonl", "step")[-1]["step"]
    goes_on_exactly(processes, run, undisturbed)


def test_ctrl_c_twice_exits_at_once_and_leaves_the_checkpoint_before(processes, tmp_path, undisturbed):
    run = tmp_path / "run"
    training = started(processes, run, steps=1, sleep=2.0)  # a step that would outlast the test's patience
    before = checkpoint_files.newest_valid(run / "checkpoints")
    training.signal(signal.SIGINT)
    wait_until(lambda: _caught(training.pid))
    training.signal(signal.SIGINT)
    assert training.wait() == 130
    assert checkpoint_files.newest_valid(run / "checkpoints") == before
    goes_on_exactly(processes, run, undisturbed)


def _caught(pid: int) -> bool:
    """Whether no signal is waiting to be delivered to a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return not any(pending)


def test_the_time_limit_saves_exits_75_and_is_resumed_exactly(processes, tmp_path, undisturbed):
    run = tmp_path / "run"
    code, training = processes.finish(run, sleep=0.05, options={"max_seconds": 0.5})
    assert code == 75 and "stopped by the time limit" in training.err
    goes_on_exactly(processes, run, undisturbed)


def test_a_run_whose_launcher_is_gone_stops_in_order(processes, tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    code, training = processes.finish(tmp_path / "run", options={"guardian": gone.pid})
    assert code == 75 and "launching process" in training.err


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with StopRequest() as stop:
        assert stop.reason is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.reason == "SIGTERM" and stop.error("run", 3).exit_code == 75
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


# ---- the machine -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
def test_what_came_before_training_began_ends_it_as_well(name, tmp_path):
    """A benchmark listens from its first cell on; a signal between two cells must not wait for a whole training."""
    with StopRequest() as wider:
        os.kill(os.getpid(), getattr(signal, name))
        with pytest.raises(Interrupted) as caught:
            train(small_config(), small_series(), tmp_path / "run", build=build_linear)
        assert wider.reason == name
    assert caught.value.exit_code == (130 if name == "SIGINT" else 75)


def test_a_disk_that_fills_up_keeps_the_old_checkpoint_and_says_how_much_is_needed(processes, tmp_path, undisturbed):
    run = tmp_path / "run"
    training = started(processes, run, steps=6)
    training.signal(signal.SIGTERM)
    training.wait()
    before = checkpoint_files.newest_valid(run / "checkpoints")
    # No file may grow beyond this: writing a checkpoint fails in the middle, as on a full disk.
    code, training = processes.finish(run, limits={"RLIMIT_FSIZE": 4000})
    assert code == 7, training.err
    assert "no room to write" in training.err and "bytes are needed" in training.err
    assert not list((run / "checkpoints").glob("*.tmp-*")) and not (run / "result.json").exists()
    assert checkpoint_files.newest_valid(run / "checkpoints") == before
    goes_on_exactly(processes, run, undisturbed)


def test_a_full_file_system_is_met_the_same_way(processes, tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no right to mount a small file system")
    try:
        code, training = processes.finish(place / "run")
        assert code == 7 and "No space left on device" in training.err
        assert not list((place / "run" / "checkpoints").glob("*.tmp-*"))
        assert not (place / "run" / "result.json").exists()
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_place_that_cannot_be_written_to_is_refused_before_training(processes, tmp_path):
    place = tmp_path / "mine"
    place.mkdir(mode=0o555)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005 and folder.owner() == tmp_path.owner():
            folder.chmod(0o755)
    code, training = processes.finish(place / "run", user=65534)
    assert code == 7 and f"cannot write to {place / 'run'}" in training.err, training.err
    assert list(place.iterdir()) == []


def test_a_place_that_cannot_even_be_looked_into_is_refused_the_same_way(processes, tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005 and folder.owner() == tmp_path.owner():
            folder.chmod(0o755)
    closed = tmp_path / "closed"
    (closed / "run").mkdir(parents=True)
    closed.chmod(0o000)
    try:
        code, training = processes.finish(closed / "run", user=65534)
        assert code == 7 and f"cannot write to {closed / 'run'}" in training.err, training.err
    finally:
        closed.chmod(0o755)


def test_memory_that_runs_out_is_told_with_what_to_make_smaller(processes, tmp_path):
    kept = tmp_path / "run"
    training = started(processes, kept, steps=6)
    training.signal(signal.SIGTERM)
    training.wait()
    before = checkpoint_files.newest_valid(kept / "checkpoints")
    code, training = processes.finish(kept, hungry=True, limits={"RLIMIT_AS": 64 << 30})
    assert code == 7, training.err
    assert "out of memory with batches of 8" in training.err and "train.batch=4" in training.err
    assert checkpoint_files.newest_valid(kept / "checkpoints") == before


def test_an_error_that_is_not_about_memory_stays_what_it_is():
    with pytest.raises(RuntimeError, match="shapes"), process_faults(small_config()):
        raise RuntimeError("shapes do not fit")
    with pytest.raises(ResourceError, match="out of memory"), process_faults(small_config()):
        raise MemoryError


def test_limits_of_these_tests_do_not_reach_the_test_process():
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
