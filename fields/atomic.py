"""Writing so that a crash, a full disk or a second writer never leaves something that looks finished.

Everything is built beside its target, made durable with fsync, and renamed into place; the directory entry is made
durable last. A directory that must replace another is exchanged with it in one system call where the system can.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import FieldsError, ResourceError, UsageError

__all__ = [
    "exchange",
    "fsync_directory",
    "fsync_tree",
    "machine_faults",
    "publish",
    "scratch_beside",
    "scratches_of",
    "write_file",
    "write_probe",
]

# One file name may have 255 bytes on common file systems.
_LONGEST_NAME = 255
_MARK = ".tmp-"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_ACCESS = {errno.EACCES, errno.EPERM, errno.EROFS}


def fsync_file(path: Path) -> None:
    """Make a file's content durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the file system can."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(handle)


def fsync_tree(root: Path) -> None:
    """Make every file and directory below ``root`` durable."""
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            fsync_file(Path(folder, name))
        fsync_directory(Path(folder))


def write_file(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all."""
    scratch = path.with_name(f".{uuid.uuid4().hex[:12]}.partial")
    try:
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def scratch_beside(target: Path) -> Path:
    """A new name beside ``target`` to build it under, never longer than a file system allows."""
    ending = f"{_MARK}{uuid.uuid4().hex}"
    return target.with_name(_shortened(target.name) + ending)


def scratches_of(target: Path) -> list[Path]:
    """What earlier writers of ``target`` left behind, or present ones still use."""
    start = _shortened(target.name) + _MARK
    if not target.parent.is_dir():
        return []
    return sorted(p for p in target.parent.iterdir() if p.name.startswith(start) and p.is_dir())


def _shortened(name: str) -> str:
    room = _LONGEST_NAME - len(_MARK) - len(uuid.uuid4().hex)
    return name.encode()[:room].decode(errors="ignore")


def exchange(left: Path, right: Path) -> bool:
    """Exchange two directory entries in one step; False where the system cannot."""
    if not hasattr(os, "uname") or os.uname().sysname != "Linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    here, both_ways = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of <linux/fs.h>
    status = library.renameat2(here, os.fsencode(left), here, os.fsencode(right), both_ways)
    return bool(status == 0)


def publish(made: Path, target: Path, *, replace: bool) -> None:
    """Rename a finished directory into place; with ``replace`` an older one gives way to it in one step.

    Where the system has no exchange, the older one is first renamed aside, so that at every moment one of the two
    is whole.
    """
    if target.exists():
        if not replace:
            raise UsageError(f"{target} exists", code="SPDE-D003", do="add --force to replace it")
        if exchange(made, target):
            fsync_directory(target.parent)
            return
        aside = scratch_beside(target)
        os.rename(target, aside)
        os.rename(made, target)
        fsync_directory(target.parent)
        shutil.rmtree(aside)
        return
    os.rename(made, target)
    fsync_directory(target.parent)


def write_probe(folder: Path) -> None:
    """Fail now, not after hours of work, where nothing can be written."""
    with machine_faults(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{uuid.uuid4().hex[:12]}.probe"
        probe.write_bytes(b"probe")
        probe.unlink()


@contextmanager
def machine_faults(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turn a full disk, a read-only place or a name too long into an error that says what to do."""
    try:
        yield
    except FieldsError:
        raise
    except OSError as problem:
        if problem.errno in _NO_ROOM:
            raise _no_room(path, needed, problem) from problem
        if problem.errno in _NO_ACCESS:
            raise ResourceError(
                f"cannot write to {path}: {problem.strerror}",
                code="SPDE-D061",
                do="choose a directory that you may write to",
            ) from problem
        if problem.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
            raise UsageError(
                f"cannot write to {path}: {problem.strerror}", code="SPDE-D004", do="choose another path"
            ) from problem
        raise


def _no_room(path: Path, needed: int | None, problem: OSError) -> ResourceError:
    folder = next((p for p in (path, *path.parents) if p.is_dir()), Path("."))
    free = shutil.disk_usage(folder).free
    wants = f", about {needed:,} bytes are needed" if needed else ""
    return ResourceError(
        f"no room to write {path}: {problem.strerror}; {free:,} bytes are free there{wants}",
        code="SPDE-D060",
        do="free space or choose another disk, then run the same command again",
    )


def owner() -> dict[str, Any]:
    """Who writes: process, host and boot, for a message to whoever comes second."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "boot": boot.read_text().strip() if boot.exists() else "",
    }


def read_json(path: Path) -> Any:
    """A small JSON file of ours, or None if it is absent or torn."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
