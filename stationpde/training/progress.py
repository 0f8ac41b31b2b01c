"""Progress events of training: steps, remaining time, loss, gradient norm, learning rate and Courant number."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fields.progress import ProgressEvent

if TYPE_CHECKING:
    from pathlib import Path

    from stationpde.training.signals import StopRequest

__all__ = ["Beginning", "StepReporter", "TrainEvent", "TrainWatcher"]

_LEAST_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class TrainEvent(ProgressEvent):
    """Progress of training with a ``note`` for people and the ``values`` of the step."""

    note: str
    values: Mapping[str, float]

    @property
    def is_last(self) -> bool:
        """Whether training is over."""
        return self.done >= self.total


TrainWatcher = Callable[[TrainEvent], None]


class StepReporter:
    """Turns steps into events, a few a second at most; the rate is that of this process, resumed steps excluded."""

    def __init__(self, watcher: TrainWatcher | None, total: int) -> None:
        self._watcher, self._total = watcher, total
        self._began = time.monotonic()
        self._last_event = 0.0
        # The first step also builds kernels: the rate is that of the steps after it.
        self._warm: tuple[float, int] | None = None

    def __call__(self, step: int, epoch: int, values: Mapping[str, float]) -> None:
        """Report that ``step`` steps are done."""
        now = time.monotonic()
        warm = self._warm = self._warm or (now, step)
        if self._watcher is None or (step < self._total and now - self._last_event < _LEAST_SECONDS):
            return
        self._last_event = now
        elapsed, steps_done = now - self._began, step - warm[1]
        eta = (now - warm[0]) * (self._total - step) / steps_done if steps_done > 0 else None
        shown = {"loss": "total", "grad": "grad_norm", "lr": "lr", "Courant": "courant"}
        parts = [f"{word} {values[key]:.3g}" for word, key in shown.items() if key in values]
        note = f"epoch {epoch + 1}  " + "  ".join(parts)
        self._watcher(TrainEvent("train", step, self._total, "steps", elapsed, eta, note, dict(values)))

    def validation(self, step: int, epoch: int, scores: Mapping[str, Any], best: bool) -> None:
        """Report the scores of an epoch."""
        if self._watcher is None:
            return
        parts = [f"{name} {s.mse:.3g} ({s.persistence_mse:.3g}) {_squared(s.unit)}" for name, s in scores.items()]
        note = f"epoch {epoch + 1}: MSE (persistence)  " + "  ".join(parts) + ("  best so far" if best else "")
        elapsed = time.monotonic() - self._began
        values = {name: s.mse for name, s in scores.items()}
        self._watcher(TrainEvent("validation", step, self._total, "steps", elapsed, None, note, values))


class Beginning:
    """Reports the fits before the first step, or those of a model without steps, and ends them when it is to stop."""

    def __init__(self, run: Path, stop: StopRequest, watcher: TrainWatcher | None, stage: str = "guide") -> None:
        self._run, self._stop, self._watcher, self._stage = run, stop, watcher, stage
        self._what, self._began, self._last_event = "", 0.0, 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` parts of ``what`` are fitted.

        Raises
        ------
        Interrupted
            If the run is to stop.
        """
        if self._stop.reason is not None:
            raise self._stop.error(str(self._run), None)
        now = time.monotonic()
        if what != self._what:
            self._what, self._began, self._last_event = what, now, 0.0
        if self._watcher is None or now - self._last_event < _LEAST_SECONDS:
            return
        self._last_event = now
        elapsed = now - self._began
        eta = elapsed * (total - done) / done if done else None
        self._watcher(TrainEvent(self._stage, done, total, "parts", elapsed, eta, what, {}))


def _squared(unit: str) -> str:
    return f"({unit})²" if "/" in unit else f"{unit}²"
