"""The same CPU time for every learned model: counted, planned beforehand, and limited.

The cap itself and what follows where it is spent: `stationpde.evaluation.cap`. Time is CPU time of the process, which
other processes on the machine do not lengthen. The schedule of the learning rate needs the number of steps: a few real
steps are timed first and as many are planned as the cap allows.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fields import atomic
from stationpde.seeding import seed_everything
from stationpde.training import CALIBRATION_SHARE, LocalWorld, TrainingState

if TYPE_CHECKING:
    from stationpde.config import Config
    from stationpde.data import WindowSource
    from stationpde.training import Build

__all__ = ["BudgetSpent", "Ledger", "Pace", "has_flattened", "steps_that_fit", "validation_windows_that_fit"]

_TIMED_STEPS = 4
_WRITE_SECONDS = 5.0
# Steps take longer on a busy machine: training may take up to this multiple of the cap that it was planned for.
_SLACK = 1.25
# Share of the remaining training time that one validation may take.
_VALIDATION_SHARE = 1 / 3
# A curve is flat when the last quarter of its epochs gained less than this share of the score.
_FLAT = 0.005


class BudgetSpent(Exception):  # noqa: N818 - no fault: the best epoch so far is taken
    """The cap is reached in training, search or preparation; `stationpde.evaluation.fitting` says what follows."""


def _is_positive(value: object) -> bool:
    """Return whether a value of a file is a number that times and counts can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


class Ledger:
    """CPU seconds that a cell has used, saved in a file over restarts; a kill loses a few seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.spent = {name: float(s) for name, s in (atomic.read_table(path) or {}).items() if _is_positive(s)}
        self._what, self._since, self._written = "", 0.0, 0.0

    @contextmanager
    def charging(self, what: str) -> Iterator[None]:
        """Return a context whose CPU time is charged to ``what``."""
        self._what, self._since = what, time.process_time()
        try:
            yield
        finally:
            self.tick(force=True)
            self._what = ""

    def charge(self, what: str, seconds: float) -> None:
        """Set the seconds of a purpose that were used elsewhere; a later call for the same purpose replaces them."""
        self.spent[what] = seconds
        self._write()

    def tick(self, force: bool = False) -> float:
        """Charge the CPU time since the last call; return the sum of the present purpose."""
        now = time.process_time()
        self.spent[self._what] = self.spent.get(self._what, 0.0) + now - self._since
        self._since = now
        if force or now - self._written > _WRITE_SECONDS:
            self._written = now
            self._write()
        return self.spent[self._what]

    def _write(self) -> None:
        with atomic.machine_faults(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_file(self._path, json.dumps(self.spent).encode())

    def watcher(self, cap: float | None, further: Callable[[Any], None] | None) -> Callable[[Any], None]:
        """Return a watcher that counts CPU time, raises `BudgetSpent` at 1.25 times the cap, and passes events on."""

        def watch(event: Any) -> None:
            if self.tick() > (_SLACK * cap if cap is not None else float("inf")):
                raise BudgetSpent
            if further is not None:
                further(event)

        return watch


@dataclass(frozen=True, slots=True)
class Pace:
    """CPU seconds of a training step and of validating a window; steps of an epoch and validation windows."""

    step: float
    window: float
    steps_per_epoch: int
    validation_windows: int

    @classmethod
    def measure(cls, config: Config, source: WindowSource, build: Build) -> Pace:
        """Measure a few real steps whose result is discarded; of the last stage where a learner has several."""
        torch.set_num_threads(config.train.threads or 1)
        seed_everything(config.train.seed, "init")
        learner = build(config, source)
        if hasattr(learner, "to_last_stage"):  # the costly one, in which most of the time is spent
            learner.to_last_stage()
        state = TrainingState(learner, source, config, LocalWorld(), "cpu")
        step_seconds = [_cpu(partial(_step, state, number)) for number in range(_TIMED_STEPS)]
        starts = source.part("val")[: config.train.batch]
        state.learner.module.eval()
        with torch.no_grad():
            windows = [_cpu(lambda: state.learner.predict(source.batch(starts))) for _ in range(2)]
        # The first of each builds kernels and fills caches.
        step, window = sum(step_seconds[1:]) / len(step_seconds[1:]), windows[-1] / len(starts)
        if hasattr(learner, "calibrate"):
            window *= 1.0 + CALIBRATION_SHARE
        validation_windows = len(source.part("val", config.train.validate_windows))
        return cls(step, window, state.plan.end_of(0), validation_windows)

    @classmethod
    def read_or_measure(cls, path: Path, measure: Callable[[], Pace]) -> Pace:
        """Read the pace that an earlier start wrote, else measure and write it: a resumed run must plan the same."""
        saved = atomic.read_table(path)
        names = set(cls.__dataclass_fields__)
        if saved is not None and set(saved) == names and all(map(_is_positive, saved.values())):
            return cls(**saved)
        pace = measure()
        with atomic.machine_faults(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_file(path, json.dumps(asdict(pace)).encode())
        return pace


def validation_windows_that_fit(pace: Pace, seconds: float) -> int:
    """Return the number of validation windows: all, or as many as take a third of the time."""
    return max(1, min(pace.validation_windows, int(_VALIDATION_SHARE * seconds / pace.window)))


def steps_that_fit(pace: Pace, seconds: float, validation_windows: int | None = None) -> int:
    """Return the training steps for which CPU time suffices, validation after every epoch included; at least one."""
    windows = pace.validation_windows if validation_windows is None else validation_windows
    validation = windows * pace.window
    per_step = pace.step + validation / pace.steps_per_epoch
    return max(1, int((seconds - validation) / per_step))


def has_flattened(scores: list[float], stopped_early: bool) -> bool:
    """Return whether longer training would gain little: patience ran out, or < 0.5 % in the last quarter of epochs."""
    if stopped_early:
        return True
    if len(scores) < 4:
        return False
    late = max(1, len(scores) // 4)
    before, best = min(scores[:-late]), min(scores)
    return (before - best) / before < _FLAT


def _step(state: TrainingState, number: int) -> None:
    batch = state.source.batch(state.plan.whole_batch(number % max(1, state.plan.end_of(0))))
    state.learner.module.train()
    state.optimiser.zero_grad()
    state.learner.losses(batch, state.world.reducer).total.backward()
    state.optimiser.clip()
    state.optimiser.step(0)


def _cpu(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
