"""Start several ranks on this machine with torchrun, watch them, and return their outcome.

A rank that is killed makes torchrun start all of them again, at most three times; each attempt resumes from the newest
checkpoint. A rank that ends by itself, with a result or an error, writes an outcome file, so that an error that would
occur again is not retried, and its exit code and message reach the process that started the command.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from fields.errors import require_processes
from stationpde.errors import ResourceError

__all__ = ["MAX_RESTARTS", "Outcome", "launch", "launched_by", "report_outcome", "sign_in"]

MAX_RESTARTS = 3
_FOLDER, _LAUNCHER = "STATIONPDE_OUTCOME", "STATIONPDE_LAUNCHER"
# Seconds between an outcome and the end of ranks that have not ended by themselves.
_GRACE = 3.0

Outcome = dict[str, Any]


def launched_by() -> int | None:
    """Return the process id of the launcher of this rank, or None if this process is no rank."""
    return int(os.environ[_LAUNCHER]) if _LAUNCHER in os.environ else None


def sign_in() -> None:
    """Write the process id of this rank for the launcher."""
    folder = os.environ.get(_FOLDER)
    if folder:
        if not os.path.isdir(folder):
            raise ResourceError("the process that launched this rank is gone", code="SPDE-T072")
        Path(folder, f"rank-{os.environ.get('RANK', '0')}.pid").write_text(str(os.getpid()))


def report_outcome(outcome: Outcome) -> bool:
    """Write how the run ended: ``exit_code``, and ``result`` or ``error``; only the first report counts.

    Returns
    -------
    False if this process was not started by a launcher
    """
    folder = os.environ.get(_FOLDER)
    if not folder:
        return False
    scratch = Path(folder, f"outcome-{os.getpid()}")
    scratch.write_text(json.dumps(outcome))
    with suppress(FileExistsError):
        os.link(scratch, Path(folder, "outcome.json"))
    return True


def launch(arguments: Sequence[str], nproc: int, *, max_restarts: int = MAX_RESTARTS) -> Outcome:
    """Run ``python arguments`` as ``nproc`` ranks and wait for their end.

    SIGTERM, SIGUSR1 and Ctrl-C are passed on to the ranks, which save and stop together; a second Ctrl-C ends all at
    once.

    Raises
    ------
    UsageError
        If there are more ranks than the machine can run.
    ResourceError
        If the ranks died more often than they may be restarted.
    """
    require_processes(nproc, "--nproc")
    with tempfile.TemporaryDirectory(prefix="stationpde-ranks-") as name:
        folder = Path(name)
        environment = {**os.environ, _FOLDER: name, _LAUNCHER: str(os.getpid())}
        # One machine: ranks talk over the loop-back whatever the host's name resolves to.
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        environment.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // nproc)))
        # After `--` torchrun parses no option: it would take `--run` for an abbreviation of one of its options.
        first = 1 if arguments[0] == "--module" else 0
        command = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={nproc}",
            "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1",
            f"--max-restarts={max_restarts}", "--monitor-interval=0.1",
            *arguments[:first], "--", *arguments[first:],
        ]  # fmt: skip
        # A new session: a Ctrl-C at the terminal reaches this process alone, which passes it on.
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        return _Watch(process, folder, nproc).wait_for_outcome()


class _Watch:
    def __init__(self, process: subprocess.Popen[bytes], folder: Path, nproc: int) -> None:
        self.process, self.folder, self.nproc = process, folder, nproc
        self.interrupts = 0

    def wait_for_outcome(self) -> Outcome:
        numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
        before = {number: signal.signal(number, self._pass_on) for number in numbers}
        since: float | None = None
        try:
            while self.process.poll() is None:
                if since is None and self._outcome() is not None:
                    since = time.monotonic()
                if self.interrupts > 1 or (since is not None and time.monotonic() - since > _GRACE):
                    self._end_all()
                    break
                time.sleep(0.05)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._end_all()
        if self.interrupts > 1:
            raise KeyboardInterrupt
        outcome = self._outcome()
        if outcome is None:
            raise ResourceError(
                f"the {self.nproc} ranks ended without a result (torchrun: exit code {self.process.returncode})",
                code="SPDE-T072",
                do="read the messages above; the same command resumes from the last checkpoint",
            )
        return outcome

    def _outcome(self) -> Outcome | None:
        path = self.folder / "outcome.json"
        return dict(json.loads(path.read_text())) if path.exists() else None

    def _ranks(self) -> list[int]:
        pids = []
        for path in self.folder.glob("rank-*.pid"):
            text = path.read_text()
            if text and _is_rank(int(text), self.folder):
                pids.append(int(text))
        return pids

    def _pass_on(self, number: int, frame: Any) -> None:
        self.interrupts += number == signal.SIGINT
        for pid in self._ranks():
            _send(pid, number)

    def _end_all(self) -> None:
        """Stop torchrun first, so that it restarts nothing, then the remaining ranks, even suspended ones."""
        if self.process.poll() is None:
            self.process.kill()
        for pid in self._ranks():
            _send(pid, signal.SIGKILL)
        self.process.wait()


def _is_rank(pid: int, folder: Path) -> bool:
    """Return whether a process is still the rank that signed in: its number may belong to another process by now."""
    try:
        return psutil.Process(pid).environ().get(_FOLDER) == str(folder)
    except psutil.Error:
        return False


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
