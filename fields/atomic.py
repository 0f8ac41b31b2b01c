"""Write files and directories whole or not at all, whatever crashes, disk faults or second writers do.

Everything is built beside its target, made durable with fsync, and renamed into place; the directory entry is made
durable last. One file goes through `staged_file` (a path that any library writes to) or `write_file` (bytes at hand);
a directory through `scratch_beside` and `publish`, which exchanges it with an older one in a single system call where
the system can.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import socket
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from fields.errors import DataError, FieldsError, ResourceError, UsageError, printable

__all__ = [
    "NotRegularFileError",
    "as_path",
    "exchange",
    "fsync_directory",
    "fsync_file",
    "fsync_tree",
    "machine_faults",
    "open_regular",
    "owner",
    "publish",
    "read_json",
    "read_regular",
    "read_table",
    "refuse_input",
    "refuse_special",
    "scratch_beside",
    "scratches_of",
    "staged_file",
    "write_file",
    "write_probe",
]

# One file name may have 255 bytes on common file systems.
_LONGEST_NAME = 255
_MARK = ".tmp-"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_ACCESS = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_PLACE = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EEXIST}


def as_path(value: object) -> Path:
    """Return a path that was given as text or as a path.

    Raises
    ------
    UsageError
        If it is something else, or text that no file system takes.
    """
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str) and text and "\0" not in text and _can_be_encoded(text):
            return Path(text)
    raise UsageError(
        f"a path is needed, not {type(value).__name__} {printable(repr(value)[:80])}", do="give the path as text"
    )


def _can_be_encoded(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


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


@contextmanager
def staged_file(target: Path) -> Iterator[Path]:
    """Yield a path beside ``target`` to write to; rename it to ``target`` when the block ends without an error.

    The file is made durable before it is renamed, its directory entry afterwards. An error in the block leaves an older
    ``target`` as it was and no scratch file behind.

    Raises
    ------
    UsageError
        If the target is a device, a pipe or a socket.
    """
    refuse_special(target)
    # A random name: as short for a long target as for a short one, and different for every writer.
    scratch = target.with_name(f".{uuid.uuid4().hex[:12]}.partial")
    try:
        yield scratch
        fsync_file(scratch)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)
    fsync_directory(target.parent)


def write_file(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all."""
    with staged_file(path) as scratch:
        scratch.write_bytes(content)


def scratch_beside(target: Path) -> Path:
    """Return a new name beside ``target`` to build a directory under, never longer than a file system allows."""
    ending = f"{_MARK}{uuid.uuid4().hex}"
    return target.with_name(_shortened(target.name) + ending)


def scratches_of(target: Path) -> list[Path]:
    """List the scratch directories of ``target``: left behind by earlier writers, or in use by present ones."""
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


def publish(finished: Path, target: Path, *, replace: bool) -> None:
    """Rename a finished directory to ``target``; with ``replace`` it takes the place of an older one in one step.

    Where the system has no exchange, the older one is first renamed aside, so that at every moment one of the two
    is whole.
    """
    refuse_special(target)
    if target.exists():
        if not replace:
            raise UsageError(
                f"{target} exists", code="SPDE-D003", do="add --force (in Python: force=True) to replace it"
            )
        if exchange(finished, target):
            fsync_directory(target.parent)
            return
        aside = scratch_beside(target)
        os.rename(target, aside)
        os.rename(finished, target)
        fsync_directory(target.parent)
        shutil.rmtree(aside)
        return
    os.rename(finished, target)
    fsync_directory(target.parent)


def refuse_special(target: Path) -> None:
    """Refuse an output at a device, a pipe or a socket: renaming a file to ``/dev/null`` would replace the device.

    A link is followed; a file, a folder and nothing at all may be written to or are refused elsewhere.

    Raises
    ------
    UsageError
    """
    with machine_faults(target):
        if target.exists() and not (target.is_file() or target.is_dir()):
            raise UsageError(
                f"{printable(target)} is a device, a pipe or a socket, which a file does not replace", code="SPDE-D004",
                do="choose another path",
            )  # fmt: skip


def refuse_input(target: str | os.PathLike[str] | None, *sources: object) -> None:
    """Refuse an output that would replace, or lie within, what the same command reads; ``--force`` does not change it.

    Raises
    ------
    UsageError
        If the output is an input, holds one, lies inside a store that is one, or is a device, a pipe or a socket.
    """
    if target is None:
        return
    refuse_special(Path(target))
    with machine_faults(Path(target)):
        place = Path(target).resolve()
        for source in sources:
            read = Path(source).resolve() if isinstance(source, str | os.PathLike) and str(source) else None
            if read is None or not read.exists():
                continue
            is_store = any((read / name).exists() for name in ("zarr.json", ".zgroup", ".zmetadata"))
            inside = is_store and read in place.parents
            if place == read or place in read.parents or inside:
                raise UsageError(
                    f"{target} is read by this command, which does not replace it", code="SPDE-D003", where=str(read),
                    do="choose another output",
                )  # fmt: skip


def write_probe(folder: Path) -> None:
    """Write a trial file, so that an unwritable folder is refused before hours of work, not after.

    It has no name where the system can do without one: a killed process leaves nothing behind.
    """
    with machine_faults(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            probe.write(b"probe")


@contextmanager
def machine_faults(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turn an `OSError` of a full disk, a read-only place or too long a name into an error that says what to do.

    Parameters
    ----------
    path : what is being written, for the message
    needed : bytes that it will take, if that can be said
    """
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
        # A folder of the kernel, such as /proc, takes no file and says that there is no such one.
        is_refused = problem.errno == errno.ENOENT and not path.exists() and path.parent.is_dir()
        if problem.errno in _NO_PLACE or is_refused:
            raise UsageError(
                f"cannot write to {path}: {problem.strerror}", code="SPDE-D004", do="choose another path"
            ) from problem
        raise
    except RuntimeError as problem:  # `Path.resolve` of a link to itself
        if "Symlink loop" not in str(problem):
            raise
        raise UsageError(
            f"cannot write to {path}: it is a link to itself", code="SPDE-D004", do="choose another path"
        ) from problem


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
    """Describe the writing process (pid, host, boot), so that the error of a second writer can name it."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "boot": boot.read_text().strip() if boot.exists() else "",
    }


class NotRegularFileError(DataError):
    """Raised for a pipe, a device or a directory where a file is expected."""

    code = "SPDE-D106"


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, and nothing else: opening a pipe would wait for its writer, signals or not.

    Raises
    ------
    NotRegularFileError, OSError
    """
    # Without O_NONBLOCK the call itself would wait; reading a regular file is not changed by it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegularFileError(
            f"{printable(path.name)} is a pipe, a device or a directory, no regular file",
            where=str(path), do="put the file itself there",
        )  # fmt: skip
    return os.fdopen(handle, "rb")


def read_regular(path: Path) -> bytes:
    """Read a regular file whole."""
    with open_regular(path) as file:
        return file.read()


def read_json(path: Path) -> Any:
    """Read a small JSON file; None if it is absent or torn."""
    try:
        return json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError, NotRegularFileError):
        return None


def read_table(path: Path) -> dict[str, Any] | None:
    """Read a small JSON file that holds a table; None if it is absent, torn or something else."""
    content = read_json(path)
    return content if isinstance(content, dict) else None
