"""The directory that generated kernels are kept in, and how a file gets there."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

__all__ = ["cache_directory", "foreign", "private_folder", "publish"]

log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Return the kernel cache, created for this user alone.

    ``$STATIONPDE_CACHE``, else ``$XDG_CACHE_HOME/pde_ops``, else ``~/.cache/pde_ops``. What lies there is loaded as
    code, so a directory that others may write to is not used; nor is one that cannot be written. A private
    temporary directory, which lasts as long as the process, takes its place. A directory may have become private
    after somebody put files into it: each file is asked for its owner before it is loaded, see :func:`foreign`.
    """
    return _prepared(_wanted())


def _wanted() -> Path:
    folder = os.environ.get("STATIONPDE_CACHE")
    if folder:
        return Path(folder) / "pde_ops"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "pde_ops"


@functools.cache
def _prepared(directory: Path) -> Path:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _fault(directory)
    except OSError as error:
        problem = str(error)
    if problem is None:
        return directory
    log.warning("kernels are not kept: %s; set STATIONPDE_CACHE to a directory of your own", problem)
    return Path(_temporary().name)


def _fault(directory: Path) -> str | None:
    if _is_of_others(directory.stat()):
        return f"{directory} belongs to or can be written by somebody else"
    with tempfile.TemporaryFile(dir=directory):
        return None


def foreign(path: Path, *, owners_alone: bool = False) -> str | None:
    """Say what speaks against loading a stored file or folder and all in it; None for what is absent or sound.

    ``owners_alone`` is for a folder that another library fills, with files that an open umask lets the group write:
    the folder itself must be closed, what is in it must be this user's.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return f"{path} is no regular file"
    if _is_of_others(status):
        return f"{path} belongs to or can be written by somebody else"
    if not stat.S_ISDIR(status.st_mode):
        return None
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        return str(error)
    for entry in entries:
        problem = foreign(entry) if not owners_alone else _stranger(entry)
        if problem is not None:
            return problem
    return None


def _stranger(path: Path) -> str | None:
    for place in (path, *path.rglob("*")):
        try:
            if hasattr(os, "getuid") and place.lstat().st_uid != os.getuid():
                return f"{place} belongs to somebody else"
        except FileNotFoundError:
            continue  # another process has replaced it
    return None


def private_folder(name: str, *, owners_alone: bool = False) -> Path:
    """Return a folder of the cache in which nothing is somebody else's; what is, is dropped with the whole folder."""
    folder = cache_directory() / name
    problem = foreign(folder, owners_alone=owners_alone)
    if problem is not None:
        log.warning("%s is dropped from the kernel cache: %s", folder.name, problem)
        shutil.rmtree(folder, ignore_errors=True)
        if foreign(folder, owners_alone=owners_alone) is not None:  # a link, or full of what only its owner may delete
            folder = Path(_temporary().name) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _is_of_others(status: os.stat_result) -> bool:
    writable = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return hasattr(os, "getuid") and (status.st_uid != os.getuid() or writable)


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pde_ops-")


def publish(path: Path, content: bytes) -> None:
    """Write a file so that it is either there in full or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
