"""Windows of each training step: a pure function of (seed, epoch, step, rank).

Each epoch shuffles its windows and cuts them into batches; a rank takes every ``world``-th window of a batch. To resume
in mid-epoch, one asks for the batches from that step on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from stationpde.seeding import generator

if TYPE_CHECKING:
    from stationpde.config import TrainSection
    from stationpde.data import WindowSource

__all__ = ["Plan", "epochs_for"]

Array = np.ndarray[Any, Any]
# Passes of `train.epochs = "auto"`: one for so many days of training, within these bounds.
_DAYS_OF_A_PASS, _FEWEST, _MOST = 55.0, 2, 8


def epochs_for(settings: TrainSection, days: float) -> int:
    """Return the epochs of a training period of ``days``: those set, or under ``auto`` as many as it supports."""
    if settings.epochs != "auto":
        return settings.epochs
    return min(_MOST, max(_FEWEST, round(days / _DAYS_OF_A_PASS)))


@dataclass(frozen=True, eq=False)
class Plan:
    """Order of the windows of a whole training run.

    Parameters
    ----------
    starts : function that returns the windows of an epoch by its number
    epochs, batch, seed : the keys of the ``train`` section
    rank, world : number of this process and count of processes, which share each batch
    max_steps : largest number of steps; None for no limit
    """

    starts: Callable[[int], Array]
    epochs: int
    batch: int
    seed: int
    rank: int = 0
    world: int = 1
    max_steps: int | None = None

    @classmethod
    def of(cls, source: WindowSource, settings: TrainSection, rank: int = 0, world: int = 1) -> Plan:
        """Plan the training of a record as the ``train`` section says."""
        epochs = epochs_for(settings, source.training_days)
        return cls(source.epoch, epochs, settings.batch, settings.seed, rank, world, settings.max_steps)

    def __post_init__(self) -> None:
        counts = [len(self.starts(epoch)) for epoch in range(self.epochs)]
        # A last batch with fewer windows than ranks would leave a rank without work: its windows come in other epochs.
        steps = [-(-n // self.batch) - (1 if 0 < n % self.batch < self.world else 0) for n in counts]
        object.__setattr__(self, "_ends", tuple(accumulate(steps)))
        object.__setattr__(self, "_order", lru_cache(maxsize=2)(self._shuffled))

    @property
    def total(self) -> int:
        """Steps of the run."""
        whole: int = self._ends[-1]  # type: ignore[attr-defined]
        return whole if self.max_steps is None else min(whole, self.max_steps)

    def locate(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step, and its place in the epoch."""
        ends: tuple[int, ...] = self._ends  # type: ignore[attr-defined]
        epoch = int(np.searchsorted(ends, step, side="right"))
        return epoch, step - (ends[epoch - 1] if epoch else 0)

    def end_of(self, epoch: int) -> int:
        """Return the first step after an epoch."""
        ends: tuple[int, ...] = self._ends  # type: ignore[attr-defined]
        return min(ends[epoch], self.total)

    def epochs_done(self, step: int) -> int:
        """Count the epochs that are complete before a step; ``max_steps`` ends the last epoch of a run early."""
        ends: tuple[int, ...] = self._ends  # type: ignore[attr-defined]
        whole = int(np.searchsorted(ends, step, side="right"))
        return whole if step < self.total else int(np.searchsorted(ends, step, side="left")) + 1

    def windows(self, step: int) -> Array:
        """Return the first steps of this rank's windows of a training step."""
        return self.whole_batch(step)[self.rank :: self.world]

    def whole_batch(self, step: int) -> Array:
        """Return the first steps of all windows of a training step, over all ranks."""
        epoch, place = self.locate(step)
        order: Array = self._order(epoch)  # type: ignore[attr-defined]
        return order[place * self.batch : (place + 1) * self.batch]

    def _shuffled(self, epoch: int) -> Array:
        return generator(self.seed, "order", epoch).permutation(self.starts(epoch))
