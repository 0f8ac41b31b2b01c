"""One writer for each run directory.

The lock itself is the operating system's and dies with its holder. Beside it stands who holds it (process, host,
boot), for the message to whoever comes second, and so that a lock left by a power cut or a lost node is recognised.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from fields import atomic
from stationpde.errors import LockedError

__all__ = ["RunLock", "let_go_in_child"]

log = logging.getLogger(__name__)


class RunLock:
    """A context that holds ``folder/lock``.

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
        before = atomic.read_json(self.owner_path)
        try:
            with atomic.machine_faults(self.path):
                self._lock.acquire(timeout=0)
        except Timeout:
            raise self._held(before) from None
        if isinstance(before, dict) and before.get("pid") is not None:
            if _lives(before):
                # A file system without locks let us through; the record knows better.
                self._lock.release()
                raise self._held(before)
            log.warning(
                "the lock of process %s on %s was left behind; taking it over", before.get("pid"), before.get("host")
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

    def _held(self, owner: Any) -> LockedError:
        who = owner if isinstance(owner, dict) else {}
        return LockedError(
            f"another process is training this run: pid {who.get('pid', '?')} on {who.get('host', '?')}",
            where=str(self.path.parent),
            do="wait for it to end, or choose another --run",
        )


def _owner() -> dict[str, Any]:
    return {**atomic.owner(), "started": _started(os.getpid())}


def _lives(owner: dict[str, Any]) -> bool:
    """Whether the process of a record certainly lives: same host, same boot, and the number is not a later one's."""
    here = atomic.owner()
    if (owner.get("host"), owner.get("boot")) != (here["host"], here["boot"]) or owner.get("pid") == here["pid"]:
        return False
    started = _started(owner.get("pid"))
    return started is not None and started == owner.get("started")


def _started(pid: Any) -> int | None:
    """When a process started, in ticks since boot; None if it is not there or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()
    except (OSError, TypeError, ValueError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def let_go_in_child(path: Path) -> None:
    """Close what a forked process inherited of a lock, which would outlive the process that holds it otherwise."""
    try:
        held = path.stat()
    except OSError:
        return
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        with suppress(OSError):
            found = os.fstat(int(name))
            if (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino):
                os.close(int(name))
