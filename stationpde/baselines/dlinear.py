"""DLinear: the moving average of a history and the rest of it, each mapped to the leads by one linear layer.

Reference: Zeng et al., "Are Transformers Effective for Time Series Forecasting?", AAAI 2023.

What differs from the original: called per station with weights that all stations share; the moving average takes 25
steps, or the longest odd number that a shorter history holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from stationpde.baselines.per_station import NetworkLearner, per_station
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["BASELINE", "DLinear"]

_AVERAGE = 25


class DLinear(nn.Module):
    """``[rows, history, channel]`` to ``[rows, lead, channel]``; all variables share the two layers."""

    def __init__(self, history: int, leads: int, average: int = _AVERAGE) -> None:
        super().__init__()
        self.average = min(average, history - 1 + history % 2)
        self.trend, self.rest = nn.Linear(history, leads), nn.Linear(history, leads)
        for layer in (self.trend, self.rest):
            # The start of the original: every lead is the mean of the history.
            nn.init.constant_(layer.weight, 1.0 / history)

    def forward(self, history: Float[Tensor, "rows time channel"]) -> Float[Tensor, "rows lead channel"]:
        """Return the sum of both linear maps."""
        series = history.transpose(1, 2)
        trend = self._smooth(series)
        forecast: Tensor = self.trend(trend) + self.rest(series - trend)
        return forecast.transpose(1, 2)

    def _smooth(self, series: Float[Tensor, "rows channel time"]) -> Float[Tensor, "rows channel time"]:
        """Compute the moving average; the first and the last value are repeated beyond the ends."""
        half = (self.average - 1) // 2
        ends = [series[..., :1].expand(-1, -1, half), series, series[..., -1:].expand(-1, -1, half)]
        return nn.functional.avg_pool1d(torch.cat(ends, dim=-1), self.average, stride=1)


def _make(config: Config, source: WindowSource, instance_norm: bool = False) -> NetworkLearner:
    network = DLinear(config.data.history, config.data.horizon)
    return per_station(config, source, network, instance_norm=instance_norm)


BASELINE = Baseline(
    name="dlinear",
    title="DLinear",
    reference="Zeng et al. (2023)",
    kind="trained",
    make=_make,
    rates=(1e-3, 1e-2),
    train={"batch": 16, "epochs": 4, "schedule": "one_cycle", "patience": 2},
)
