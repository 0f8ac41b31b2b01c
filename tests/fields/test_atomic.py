"""Files that appear whole or not at all, whatever goes wrong while they are written."""

import errno
import os
from pathlib import Path

import pytest

from fields import atomic
from fields.errors import ResourceError, UsageError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_as_a_whole(tmp_path):
    atomic.write_file(tmp_path / "results.json", b"old")
    atomic.write_file(tmp_path / "results.json", b"new")
    assert (tmp_path / "results.json").read_bytes() == b"new"
    assert names(tmp_path) == ["results.json"]


def test_a_path_written_by_a_library_appears_when_the_block_ends(tmp_path):
    with atomic.staged_file(tmp_path / "map.png") as scratch:
        scratch.write_bytes(b"half")
        assert not (tmp_path / "map.png").exists()
    assert (tmp_path / "map.png").read_bytes() == b"half"


def _write_half_and_raise(scratch, fault):
    scratch.write_bytes(b"half")
    raise fault


@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_the_older_file_and_nothing_else(tmp_path, fault):
    target = tmp_path / "map.png"
    target.write_bytes(b"older")
    with pytest.raises(fault), atomic.staged_file(target) as scratch:
        _write_half_and_raise(scratch, fault)
    assert target.read_bytes() == b"older" and names(tmp_path) == ["map.png"]


def test_content_is_durable_before_it_gets_its_name(tmp_path, monkeypatch):
    events, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), fsync(handle))[1])
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("rename"), replace(*paths))[1])
    atomic.write_file(tmp_path / "x", b"content")
    assert events == ["fsync", "rename", "fsync"]  # the file, its name, the directory


def test_the_longest_name_of_a_file_system_can_be_written(tmp_path):
    target = tmp_path / ("n" * 251 + ".png")
    atomic.write_file(target, b"content")
    assert target.read_bytes() == b"content"


def _write_through_a_fault(target, fault):
    with atomic.staged_file(target):
        raise fault


def test_a_full_disk_is_reported_with_what_to_do(tmp_path):
    target = tmp_path / "x"
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ResourceError, match="no room") as refused, atomic.machine_faults(target):
        _write_through_a_fault(target, full)
    assert refused.value.code == "SPDE-D060" and names(tmp_path) == []


def test_a_pipe_is_not_replaced_by_what_is_written_to_its_name(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "link.csv").symlink_to("pipe.csv")
    (tmp_path / "built").mkdir()
    for name in ("pipe.csv", "link.csv"):
        for write in (
            lambda target: atomic.write_file(target, b"new"),
            lambda target: atomic.publish(tmp_path / "built", target, replace=True),
            lambda target: atomic.refuse_input(target),
        ):
            with pytest.raises(UsageError, match="a device, a pipe or a socket, which a file does not replace"):
                write(tmp_path / name)
    assert (tmp_path / "pipe.csv").is_fifo() and (tmp_path / "link.csv").is_symlink()
    assert names(tmp_path) == ["built", "link.csv", "pipe.csv"]


def test_a_device_is_not_replaced():
    with pytest.raises(UsageError, match="a device"):
        atomic.write_file(Path("/dev/null"), b"new")
    assert Path("/dev/null").is_char_device()


def test_an_empty_text_is_no_path():
    with pytest.raises(UsageError, match="a path is needed"):
        atomic.as_path("")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder of the kernel here")
def test_a_folder_of_the_kernel_takes_no_file():
    with pytest.raises(UsageError, match="cannot write to /proc/nothing") as problem:
        atomic.write_probe(Path("/proc/nothing"))
    assert problem.value.code == "SPDE-D004"


def test_a_link_to_itself_is_no_output(tmp_path):
    (tmp_path / "loop.nc").symlink_to("loop.nc")
    with pytest.raises(UsageError, match="link to itself"):
        atomic.refuse_input(tmp_path / "loop.nc", tmp_path)
