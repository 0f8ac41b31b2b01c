"""One writer for each run directory.

The lock itself is the operating system's and ends with the process that holds it. ``lock.json`` beside it names that
process (number, host, boot, start), for the error message of a second process, and so that a lock left by a power cut
or a lost node is recognised.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from filelock import FileLock, Timeout

from fields import atomic
from stationpde.errors import LockedError

__all__ = ["RunLock"]

log = logging.getLogger(__name__)


class RunLock:
    """Context manager that holds ``folder/lock``.

    Raises
    ------
    LockedError
        If another living process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lock"
        self.owner_path = folder / "lock.json"
        self._lock = FileLock(self.path)

    def __enter__(self) -> RunLock:
        previous = atomic.read_json(self.owner_path)
        try:
            with atomic.machine_faults(self.path):
                self._lock.acquire(timeout=0)
        except Timeout:
            raise self._locked_error(previous) from None
        if isinstance(previous, dict) and previous.get("pid") is not None:
            if _is_alive(previous):
                # A file system without locks granted the lock although the recorded process still runs.
                self._lock.release()
                raise self._locked_error(previous)
            log.warning(
                "the lock of process %s on %s was left behind; taking it over",
                previous.get("pid"),
                previous.get("host"),
            )
        with atomic.machine_faults(self.owner_path):
            atomic.write_file(self.owner_path, json.dumps(_owner()).encode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self.owner_path.unlink(missing_ok=True)
        self._lock.release()

    def _locked_error(self, owner: Any) -> LockedError:
        holder = owner if isinstance(owner, dict) else {}
        return LockedError(
            f"another process is training this run: pid {holder.get('pid', '?')} on {holder.get('host', '?')}",
            code="SPDE-T080",
            where=str(self.path.parent),
            do="wait for it to end, or choose another directory for the run",
        )


def _owner() -> dict[str, Any]:
    return {**atomic.owner(), "started": _started(os.getpid())}


def _is_alive(owner: dict[str, Any]) -> bool:
    """Return whether the recorded process certainly lives: same host, same boot, same start of the process."""
    here = atomic.owner()
    if (owner.get("host"), owner.get("boot")) != (here["host"], here["boot"]) or owner.get("pid") == here["pid"]:
        return False
    started = _started(owner.get("pid"))
    return started is not None and started == owner.get("started")


def _started(pid: Any) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it does not exist or is a zombie.

    Ticks since boot do not change when the system clock is set; locks in the field hold them.
    """
    try:
        process = psutil.Process(int(pid))
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        seconds = process.create_time() - psutil.boot_time()
    except (psutil.Error, TypeError, ValueError, OverflowError):
        return None
    return round(seconds * os.sysconf("SC_CLK_TCK"))
