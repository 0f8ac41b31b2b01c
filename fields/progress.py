"""Report the progress of long jobs: how much is done and when the rest will be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ProgressEvent", "Tracker", "Watcher"]

_LEAST_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """``done`` of ``total`` (0: unknown) in ``unit``; ``eta`` is the estimate of seconds left, None while unknown."""

    stage: str
    done: int
    total: int
    unit: str
    elapsed: float
    eta: float | None

    @property
    def fraction(self) -> float | None:
        """Share of the work that is done."""
        return min(1.0, self.done / self.total) if self.total > 0 else None

    @property
    def is_last(self) -> bool:
        """Whether the stage is over."""
        return self.total > 0 and self.done >= self.total


Watcher = Callable[[ProgressEvent], None]


class Tracker:
    """Turns counts into events for a watcher: five a second at most, and always the last of a stage.

    The rate is that of the present stage and run: blocks that an earlier run finished do not count.
    """

    def __init__(self, watcher: Watcher | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._watcher = watcher
        self._clock = clock
        self._stage = ""
        self._began = self._reported = 0.0
        self._first = 0

    def __call__(self, stage: str, done: int, total: int, unit: str) -> None:
        """Report that ``done`` of ``total`` is finished."""
        if self._watcher is None:
            return
        now = self._clock()
        if stage != self._stage:
            self._stage, self._began, self._reported, self._first = stage, now, -_LEAST_SECONDS, done
        is_last = total > 0 and done >= total
        if not is_last and now - self._reported < _LEAST_SECONDS:
            return
        self._reported = now
        elapsed, finished = now - self._began, done - self._first
        eta = elapsed * max(0, total - done) / finished if finished > 0 and total > 0 else None
        self._watcher(ProgressEvent(stage, done, total, unit, elapsed, eta))
