"""A perceptron that all stations share: all leads of all variables from a history, neighbours, place and time.

Inputs are the station's own normalised history, the last state of its nearest stations, the hour of the day and the
time of the year (sine and cosine) at every lead, and latitude, longitude and altitude. Two hidden layers of SiLU. With
16 steps, 8 leads and 8 neighbours it has 363,048 parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fields.geometry import LocalMetric
from fields.series import Stations
from stationpde.baselines.inputs import neighbours_of, valid_times
from stationpde.baselines.per_station import NetworkLearner
from stationpde.conditions import TIME_FEATURES, time_features
from stationpde.config import Config
from stationpde.training.source import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["StationMLP", "mlp_learner"]

_HIDDEN = 512


class StationMLP(nn.Module):
    """Normalised histories to normalised forecasts; ``neighbours`` is how many nearest stations are seen."""

    places: Tensor
    near: Tensor

    def __init__(self, config: Config, stations: Stations, step_seconds: int, channels: int, neighbours: int) -> None:
        super().__init__()
        self.leads, self.channels, self.step_seconds = config.data.horizon, channels, step_seconds
        self.register_buffer("places", torch.as_tensor(_places(stations), dtype=torch.float32))
        self.register_buffer("near", torch.as_tensor(neighbours_of(stations, neighbours)))
        # The width of the network does not depend on how many stations there happen to be.
        self.neighbours = neighbours
        inputs = channels * (config.data.history + neighbours) + TIME_FEATURES * self.leads + self.places.shape[1]
        self.layers = nn.Sequential(
            nn.Linear(inputs, _HIDDEN), nn.SiLU(), nn.Linear(_HIDDEN, _HIDDEN), nn.SiLU(),
            nn.Linear(_HIDDEN, self.leads * channels),
        )  # fmt: skip

    def forward(
        self, history: Float[Tensor, "batch time station channel"], issue_time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch lead station channel"]:
        """The forecast of all leads at once."""
        batch, _, stations, _ = history.shape
        when = time_features(valid_times(issue_time, self.leads, self.step_seconds), history.dtype)
        parts = [
            history.transpose(1, 2).flatten(2),
            self._around(history[:, -1]),
            when.flatten(1)[:, None].expand(-1, stations, -1),
            self.places.expand(batch, -1, -1),
        ]
        made: Tensor = self.layers(torch.cat(parts, dim=-1))
        return made.unflatten(2, (self.leads, self.channels)).transpose(1, 2)

    def _around(self, last: Float[Tensor, "batch station channel"]) -> Float[Tensor, "batch station feature"]:
        """The last state of the neighbours; zero, the mean, in place of those that a small network does not have."""
        found = last[:, self.near].flatten(2)
        return nn.functional.pad(found, (0, self.neighbours * self.channels - found.shape[-1]))


def _places(stations: Stations) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Position in the region and altitude ``[station, 3]``, each from -1 to 1; 0 where all are the same or unknown."""
    east_north = LocalMetric.around(stations.lat, stations.lon).xy(stations.lat, stations.lon)
    alt = np.where(np.isfinite(stations.alt), stations.alt, np.nan)
    raw = np.column_stack([east_north, np.nan_to_num(alt, nan=float(np.nanmean(alt)) if np.isfinite(alt).any() else 0)])
    low, high = raw.min(axis=0), raw.max(axis=0)
    return (2.0 * raw - (low + high)) / np.maximum(high - low, 1e-9)


def mlp_learner(config: Config, source: WindowSource, neighbours: int = 0) -> NetworkLearner:
    """The perceptron on the windows of a record, with its loss; weights from torch's global generator."""
    series = source.series
    network = StationMLP(config, series.stations, series.step_seconds, len(series.variables), neighbours)
    return NetworkLearner(config, source, network, kind="mse")
