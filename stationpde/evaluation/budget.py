"""The same CPU time for every learned model: counted, planned for beforehand, and kept.

Time is that of the process's CPU, which others on the machine do not lengthen. The schedule of the learning rate has to
know its end, so that a few real steps are timed first and as many are planned as the cap allows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fields import atomic
from stationpde.training.distributed import LocalWorld
from stationpde.training.loop import CALIBRATION_SHARE
from stationpde.training.seeding import seed_everything
from stationpde.training.state import TrainingState

if TYPE_CHECKING:
    from stationpde.config import Config
    from stationpde.training.session import Build
    from stationpde.training.source import WindowSource

__all__ = ["BudgetSpent", "Ledger", "Pace", "has_flattened", "steps_that_fit", "validation_windows_that_fit"]

_TIMED_STEPS = 4
_WRITE_SECONDS = 5.0
# A busy machine slows caches as well as clocks: what was planned for the cap may take so much of it and no more.
_SLACK = 1.25
# Of the time that is left for training, what one validation may take.
_VALIDATION_SHARE = 1 / 3
# A curve is flat when the last quarter of its epochs gained less than this share of the score.
_FLAT = 0.005


class BudgetSpent(Exception):  # noqa: N818 - no fault: the best epoch so far is taken
    """The cap is reached while training."""


class Ledger:
    """CPU seconds that a cell has used, kept in a file over restarts; what a kill loses is a few seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.spent: dict[str, float] = dict(atomic.read_json(path) or {})
        self._what, self._since, self._written = "", 0.0, 0.0

    @contextmanager
    def charging(self, what: str) -> Iterator[None]:
        """A context whose CPU time is charged to ``what``."""
        self._what, self._since = what, time.process_time()
        try:
            yield
        finally:
            self.tick(force=True)
            self._what = ""

    def charge(self, what: str, seconds: float) -> None:
        """Put down what was used elsewhere, once: a later call for the same purpose replaces it."""
        self.spent[what] = seconds
        self._write()

    def tick(self, force: bool = False) -> float:
        """Charge what has been used since the last call; the sum of the present purpose."""
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
        """A watcher of training that counts, raises `BudgetSpent` well beyond the cap, and passes events on."""

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
    def measured(cls, config: Config, source: WindowSource, build: Build) -> Pace:
        """From a few real steps that leave nothing behind; of the last stage where a learner has several."""
        torch.set_num_threads(config.train.threads or 1)
        seed_everything(config.train.seed, "init")
        learner = build(config, source)
        if hasattr(learner, "to_last_stage"):  # the costly one, in which most of the time is spent
            learner.to_last_stage()
        state = TrainingState(learner, source, config, LocalWorld(), "cpu")
        took = [_cpu(partial(_step, state, number)) for number in range(_TIMED_STEPS)]
        starts = source.part("val")[: config.train.batch]
        state.learner.module.eval()
        with torch.no_grad():
            windows = [_cpu(lambda: state.learner.predict(source.batch(starts))) for _ in range(2)]
        # The first of each builds kernels and fills caches.
        step, window = sum(took[1:]) / len(took[1:]), windows[-1] / len(starts)
        if hasattr(learner, "calibrate"):
            window *= 1.0 + CALIBRATION_SHARE
        many = len(source.part("val", config.train.validate_windows))
        return cls(step, window, state.plan.end_of(0), many)

    @classmethod
    def kept(cls, path: Path, measure: Callable[[], Pace]) -> Pace:
        """As an earlier start found it, else measured now and written down: a resumed run must plan the same."""
        found = atomic.read_json(path)
        if isinstance(found, dict) and set(found) == set(cls.__dataclass_fields__):
            return cls(**found)
        made = measure()
        with atomic.machine_faults(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_file(path, json.dumps(asdict(made)).encode())
        return made


def validation_windows_that_fit(pace: Pace, seconds: float) -> int:
    """All validation windows, or as many as take a third of the time: long forecasts take longer than steps."""
    return max(1, min(pace.validation_windows, int(_VALIDATION_SHARE * seconds / pace.window)))


def steps_that_fit(pace: Pace, seconds: float, validation_windows: int | None = None) -> int:
    """Training steps for which CPU time suffices, validation after every epoch included; at least one."""
    windows = pace.validation_windows if validation_windows is None else validation_windows
    validation = windows * pace.window
    per_step = pace.step + validation / pace.steps_per_epoch
    return max(1, int((seconds - validation) / per_step))


def has_flattened(scores: list[float], stopped_early: bool) -> bool:
    """Whether longer training promises little: patience ran out, or the last quarter of the epochs gained nothing."""
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
