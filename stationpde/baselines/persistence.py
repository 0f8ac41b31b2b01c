"""Persistence: the last observation is the forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from fields.windows import Batch
from stationpde.baselines.inputs import StationInputs, horizon_of
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["BASELINE", "Persistence"]


@dataclass(frozen=True, slots=True, eq=False)
class Persistence:
    """The last observed value of each station and variable; its climatology where the history has none."""

    config: Config
    inputs: StationInputs

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the last observation for every lead."""
        last = self.inputs.filled(batch.history, batch.issue_time)[:, -1:]
        return last.expand(-1, horizon_of(batch, self.config), -1, -1)


def make(config: Config, source: WindowSource) -> Persistence:
    """Build persistence on the windows of a record."""
    return Persistence(config, StationInputs.of(source))


BASELINE = Baseline("persistence", "Persistence", "the last observation", "rule", make)
