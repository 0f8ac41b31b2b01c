"""Locks name the process that holds them, by a start time that survives a change of the clock."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fields import atomic
from stationpde.errors import LockedError
from stationpde.runs.lock import RunLock

needs_procfs = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="compares with Linux' procfs")


@pytest.fixture
def other_process():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate(b"\n")


def ticks_of(pid: int) -> int:
    """Start of a process in clock ticks since boot, as locks of earlier versions hold it."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def left_by(folder: Path, pid: int, started: int) -> None:
    (folder / "lock.json").write_text(json.dumps({**atomic.owner(), "pid": pid, "started": started}))


@needs_procfs
def test_a_lock_of_an_earlier_version_is_respected_while_its_process_lives(tmp_path, other_process):
    left_by(tmp_path, other_process.pid, ticks_of(other_process.pid))
    with pytest.raises(LockedError, match=f"pid {other_process.pid} on") as caught, RunLock(tmp_path):
        pass
    assert (caught.value.code, caught.value.exit_code) == ("SPDE-T080", 8)


@needs_procfs
def test_a_later_process_of_the_same_number_does_not_hold_the_lock(tmp_path, other_process, caplog):
    left_by(tmp_path, other_process.pid, ticks_of(other_process.pid) - 100)
    with RunLock(tmp_path):
        assert "was left behind" in caplog.text


@needs_procfs
def test_the_record_of_a_lock_is_the_one_that_earlier_versions_wrote(tmp_path):
    with RunLock(tmp_path):
        record = json.loads((tmp_path / "lock.json").read_text())
    assert record == {**atomic.owner(), "started": ticks_of(os.getpid())}


@pytest.mark.parametrize("pid", [None, "a", -1, 10**30])
def test_a_record_without_a_process_is_taken_over(tmp_path, pid):
    (tmp_path / "lock.json").write_text(json.dumps({**atomic.owner(), "pid": pid, "started": 1}))
    with RunLock(tmp_path) as lock:
        assert lock.path.exists()
