"""A perceptron that all stations share: all leads of all variables from a history, neighbours, place and time.

Inputs are the normalised history of the station, the last state of its nearest stations, the hour of the day and the
time of the year (sine and cosine) at every lead, latitude, longitude and altitude, and the mean and the standard
deviation of each variable at the station in training: normalised histories of a windy and of a calm place are alike.
Two hidden layers of SiLU with dropout. With 16 steps, 8 leads and 8 neighbours it has 368,168 parameters.

The time of the year is a switch that validation decides: a record of little more than a year shows the weather of each
season once, and the network then learns the weather of those weeks as if it were that of the season.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.grid import LocalMetric
from fields.windows import Stations
from stationpde.baselines.inputs import StationInputs, neighbours_of, valid_times
from stationpde.baselines.per_station import NetworkLearner
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.physics import TIME_FEATURES, time_features

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["MIXED_ROWS", "SEASON", "StationMLP", "mlp_learner", "place_features"]

# Some stations of many windows in a step; 40 epochs of a seventh of the stations show every window six times.
MIXED_ROWS: Mapping[str, Any] = {"batch": 64, "station_dropout": 0.85, "epochs": 40, "patience": 12}
# Whether the time of the year is an input.
SEASON: Mapping[str, tuple[bool, ...]] = {"season": (True, False)}
_HIDDEN, _DROPOUT = 512, 0.2
# The time features of the hour come before those of the year.
_HOUR_FEATURES = 2


class StationMLP(nn.Module):
    """Network from normalised histories to normalised forecasts.

    Parameters
    ----------
    config, stations, scales : steps of a window, places of the stations, and their scales in training
    neighbours : number of nearest stations whose last state is an input
    season : whether the time of the year is an input
    """

    places: Tensor
    near: Tensor
    takes_rows = True

    def __init__(
        self, config: Config, stations: Stations, scales: StationInputs, neighbours: int, season: bool = True
    ) -> None:  # fmt: skip
        super().__init__()
        channels = scales.mean.shape[1]
        self.leads, self.channels, self.step_seconds = config.data.horizon, channels, scales.step_seconds
        self.register_buffer("places", torch.as_tensor(place_features(stations, scales), dtype=torch.float32))
        self.register_buffer("near", torch.as_tensor(neighbours_of(stations, neighbours)))
        # The width of the network does not depend on how many stations there happen to be.
        self.neighbours = neighbours
        self.time_features = TIME_FEATURES if season else _HOUR_FEATURES
        inputs = channels * (config.data.history + neighbours) + self.time_features * self.leads + self.places.shape[1]
        self.layers = nn.Sequential(
            nn.Linear(inputs, _HIDDEN), nn.SiLU(), nn.Dropout(_DROPOUT),
            nn.Linear(_HIDDEN, _HIDDEN), nn.SiLU(), nn.Dropout(_DROPOUT),
            nn.Linear(_HIDDEN, self.leads * channels),
        )  # fmt: skip

    def forward(
        self, history: Float[Tensor, "batch time station channel"], issue_time: Int64[Tensor, " batch"],
        chosen: Int64[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "batch lead station channel"]:  # fmt: skip
        """Return the forecast of all leads at once; of ``chosen`` rows ``[rows, lead, channel]`` if they are passed."""
        batch, _, stations, _ = history.shape
        when = time_features(valid_times(issue_time, self.leads, self.step_seconds), history.dtype)
        parts = [
            history.transpose(1, 2).flatten(2),
            self._around(history[:, -1]),
            when[..., : self.time_features].flatten(1)[:, None].expand(-1, stations, -1),
            self.places.expand(batch, -1, -1),
        ]
        inputs = torch.cat(parts, dim=-1)
        forecast: Tensor = self.layers(inputs if chosen is None else inputs.flatten(0, 1)[chosen])
        forecast = forecast.unflatten(-1, (self.leads, self.channels))
        return forecast.transpose(1, 2) if chosen is None else forecast

    def _around(self, last: Float[Tensor, "batch station channel"]) -> Float[Tensor, "batch station feature"]:
        """Return the last state of the neighbours; zero, the mean, for those that a small network lacks."""
        states = last[:, self.near].flatten(2)
        return nn.functional.pad(states, (0, self.neighbours * self.channels - states.shape[-1]))


def place_features(stations: Stations, scales: StationInputs) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return position, altitude, means and deviations of each station ``[station, 3 + 2 channel]``.

    Each in standard deviations over the stations; 0 where all are the same or unknown.
    """
    east_north = LocalMetric.around(stations.lat, stations.lon).xy(stations.lat, stations.lon)
    alt = np.where(np.isfinite(stations.alt), stations.alt, np.nan)
    mean_alt = float(np.nanmean(alt)) if np.isfinite(alt).any() else 0.0
    raw = np.column_stack([east_north, np.nan_to_num(alt, nan=mean_alt), scales.mean.double(), scales.std.double()])
    away, spread = raw - raw.mean(axis=0), raw.std(axis=0)
    # Scales are float32: differences below their last digits are rounding.
    same = spread <= 1e-6 * np.abs(raw).max(axis=0)
    return np.where(same, 0.0, away / np.where(same, 1.0, spread))


def mlp_learner(
    config: Config, source: WindowSource, neighbours: int = 0, season: bool = True
) -> NetworkLearner:  # fmt: skip
    """Build the perceptron on the windows of a record, with its loss; weights from torch's global generator."""
    network = StationMLP(config, source.series.stations, StationInputs.of(source), neighbours, season)
    return NetworkLearner(config, source, network, kind="mse")
