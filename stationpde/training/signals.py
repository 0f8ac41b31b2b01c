"""Requests to stop: SIGTERM, Ctrl-C, a time limit. Each is recorded until the current step is done and saved."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

from stationpde.errors import Interrupted

__all__ = ["StopRequest"]

_STOP_SIGNALS = ("SIGTERM", "SIGUSR1")


class StopRequest:
    """Context manager that records reasons to stop; a second Ctrl-C ends the process at once.

    SIGUSR1 counts as SIGTERM: batch systems send it ahead of the end of a job. Contexts may be nested: an inner
    one takes over the reason of the outer one.

    Parameters
    ----------
    max_seconds : seconds after which to stop, counted from entering the context
    guardian : id of the process that waits for the result; its end is a reason to stop
    """

    def __init__(self, max_seconds: float | None = None, guardian: int | None = None) -> None:
        self._max_seconds = max_seconds
        self._guardian = guardian
        self._deadline: float | None = None
        self._reason: str | None = None
        self._before: dict[int, Any] = {}
        self._guardian_checked = 0.0

    def __enter__(self) -> StopRequest:
        if self._max_seconds is not None:
            self._deadline = time.monotonic() + self._max_seconds
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            for name in _STOP_SIGNALS:
                number = getattr(signal, name)
                self._before[number] = signal.signal(number, self._record_signal)
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupted)
            # A request that reached the outer context before this one was entered holds here too.
            outer = getattr(self._before[signal.SIGTERM], "__self__", None)
            if isinstance(outer, StopRequest):
                self._reason = outer._reason
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _record_signal(self, number: int, frame: FrameType | None) -> None:
        self._reason = self._reason or signal.Signals(number).name

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._reason == "SIGINT":
            raise KeyboardInterrupt
        self._reason = "SIGINT"

    @property
    def reason(self) -> str | None:
        """Why to stop, or None: the name of a signal, ``time`` or ``orphaned``."""
        if self._reason is None:
            now = time.monotonic()
            if self._deadline is not None and now >= self._deadline:
                self._reason = "time"
            elif self._guardian is not None and now - self._guardian_checked > 1.0:
                self._guardian_checked = now
                try:
                    os.kill(self._guardian, 0)
                except ProcessLookupError:
                    self._reason = "orphaned"
        return self._reason

    def error(self, run: str, step: int | None, reason: str | None = None) -> Interrupted:
        """Build the error to raise once the checkpoint is written; ``reason`` may come from another rank.

        ``step`` is None while there is none yet.
        """
        why = {"time": "the time limit", "orphaned": "the end of the launching process", "SIGINT": "Ctrl-C"}
        reason = reason or self.reason or "SIGTERM"
        resumes = "begins anew" if step is None else "resumes where it stopped"
        do = f"type the same command again: it {resumes}"
        saved = "before the first step; nothing is saved yet"
        when = saved if step is None else f"after step {step:,}; a checkpoint was saved"
        text = f"stopped by {why.get(reason, reason)} {when}"
        if reason == "SIGINT":
            return Interrupted.by_user(text, where=run, do=do)
        return Interrupted(text, where=run, do=do)
