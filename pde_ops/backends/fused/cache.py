"""The directory that generated kernels are kept in, and how a file gets there."""

from __future__ import annotations

import functools
import logging
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["cache_directory", "publish"]

log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Return the kernel cache, created for this user alone.

    ``$STATIONPDE_CACHE``, else ``$XDG_CACHE_HOME/pde_ops``, else ``~/.cache/pde_ops``. What lies there is loaded as
    code, so a directory that others may write to is not used; nor is one that cannot be written. A private
    temporary directory, which lasts as long as the process, takes its place.
    """
    return _prepared(_wanted())


def _wanted() -> Path:
    given = os.environ.get("STATIONPDE_CACHE")
    if given:
        return Path(given) / "pde_ops"
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
    status = directory.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return f"{directory} belongs to or can be written by somebody else"
    with tempfile.TemporaryFile(dir=directory):
        return None


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
