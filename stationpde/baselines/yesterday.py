"""Same hour yesterday: the last day is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fields.times import DAY
from fields.windows import Batch
from stationpde.baselines.inputs import StationInputs, horizon_of
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["BASELINE", "Yesterday", "same_hour"]



def same_hour(leads: int, history: int, steps_per_day: int) -> Tensor:
    """Return for each lead the latest step of the history with its time of day; negative: before the history.

    >>> same_hour(5, history=6, steps_per_day=4)
    tensor([2, 3, 4, 5, 2])
    """
    ahead = torch.arange(leads) % steps_per_day + 1
    return history - 1 + ahead - steps_per_day


@dataclass(frozen=True, slots=True, eq=False)
class Yesterday:
    """The observation at the same time of day, on the latest day that has it.

    Gaps of the history are filled; a time of day that lies before the history takes its climatology.
    """

    config: Config
    inputs: StationInputs

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Repeat the history of one day."""
        leads = horizon_of(batch, self.config)
        filled = self.inputs.filled(batch.history, batch.issue_time)
        steps = same_hour(leads, filled.shape[1], max(1, DAY // batch.step_seconds)).to(filled.device)
        then = filled[:, steps.clamp(min=0)]
        within = (steps >= 0)[:, None, None]
        return torch.where(within, then, self.inputs.climatology_at(batch.issue_time, leads))


def make(config: Config, source: WindowSource) -> Yesterday:
    """Build the rule on the windows of a record."""
    return Yesterday(config, StationInputs.of(source))


BASELINE = Baseline("yesterday", "Same hour yesterday", "the observation of a day before", "rule", make)
