"""Linear forecasts: every variable and lead at a station from its history, the calendar, and its neighbours.

Inputs of a station are its filled history of all variables in its standard deviations, the hour of issue (one-hot),
two annual harmonics and their products with the daily cycle, and of each neighbour the last state and its change over
six hours. λ is chosen for each variable on validation, by the squared error over all stations in their standard
deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.times import DAY
from fields.windows import Batch, annual_harmonics
from stationpde.baselines.inputs import StationInputs, horizon_of, neighbours_of, steps_of, window_batches
from stationpde.baselines.ridge_fit import masked_ridge
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.physics import clipped

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

    from fields.windows import SplitName

__all__ = ["PENALTIES", "Ridge", "RidgeInputs", "fit_ridge"]

Array = np.ndarray[Any, Any]

_YEAR = 365.25 * DAY
_HARMONICS = 2
# Harmonics fitted to less than nearly a whole year act as a trend, which diverges beyond the record.
_LEAST_YEARS = 0.8
_CHANGE_SECONDS = 6 * 3600
# λ that are tried; inputs and targets count in standard deviations.
PENALTIES = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
# Leads, evenly spaced, on which λ is chosen.
_TRIED_LEADS = 4
# Stations whose windows are in memory at once while fitting.
_STATION_BLOCK = 8


@dataclass(frozen=True, slots=True, eq=False)
class RidgeInputs:
    """Inputs of the regression of a station.

    Attributes
    ----------
    station_inputs : how histories of the stations are filled and scaled
    neighbours : numbers of the nearest stations, ``[station, k]``
    harmonics : number of harmonics of the year; 0 where the record is too short for a season
    """

    station_inputs: StationInputs
    neighbours: Tensor
    harmonics: int

    @classmethod
    def of(cls, source: WindowSource, neighbours: int) -> RidgeInputs:
        """Build the inputs for the stations of a record, with scales of its training split."""
        time, stop = source.series.time, source.windows.split.val
        years = (int(time[stop - 1]) - int(time[0])) / _YEAR
        near = torch.as_tensor(neighbours_of(source.series.stations, neighbours))
        return cls(StationInputs.of(source), near, _HARMONICS if years >= _LEAST_YEARS else 0)

    def calendar(self, issue_time: Int64[Tensor, " batch"]) -> Float[Tensor, "batch feature"]:
        """Encode the hour of issue, one-hot, and the season."""
        step = self.station_inputs.step_seconds
        hour = torch.nn.functional.one_hot(issue_time % DAY // step, max(1, -(-DAY // step)))
        season = annual_harmonics(issue_time, self.harmonics, True, torch)
        return torch.cat([hour.float(), *(wave.float()[:, None] for wave in season)], dim=1)

    def scaled(self, batch: Batch) -> Float[Tensor, "batch time station channel"]:
        """Return the histories of a batch, filled and in standard deviations."""
        return self.station_inputs.scaled(self.station_inputs.filled(batch.history, batch.issue_time))

    def recent(self, scaled: Float[Tensor, "batch time station channel"]) -> Float[Tensor, "batch station feature"]:
        """Return the features of a neighbour: its last state, and the change over six hours."""
        back = steps_of(_CHANGE_SECONDS, self.station_inputs.step_seconds, scaled.shape[1])
        last = scaled[:, -1]
        return torch.cat([last, last - scaled[:, -1 - back]], dim=-1)

    def joined(
        self, history: Float[Tensor, "batch time station channel"], calendar: Tensor, recent: Tensor, stations: slice
    ) -> Float[Tensor, "batch station feature"]:
        """Join all inputs of some stations: their scaled histories, the calendar, and features of their neighbours."""
        count = history.shape[2]
        parts = [history.transpose(1, 2).flatten(2), calendar[:, None].expand(-1, count, -1)]
        near = self.neighbours[stations]
        if near.shape[1]:
            parts.append(recent[:, near.to(recent.device)].flatten(2))
        return torch.cat(parts, dim=-1)

    def __call__(self, batch: Batch) -> Float[Tensor, "batch station feature"]:
        """Return the inputs of all stations."""
        scaled = self.scaled(batch)
        return self.joined(scaled, self.calendar(batch.issue_time), self.recent(scaled), slice(None))


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """Fitted weights ``[station, input, channel * lead]``, and λ of each channel."""

    config: Config
    inputs: RidgeInputs
    weights: Float[Tensor, "station feature target"]
    penalties: tuple[float, ...]

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the linear forecast of all leads, relative humidity within its range."""
        scaled = torch.einsum("bnf,nft->bnt", self.inputs(batch), self.weights)
        by_lead = scaled.unflatten(2, (len(self.penalties), -1)).permute(0, 3, 1, 2)
        return clipped(self.inputs.station_inputs.unscaled(by_lead[:, : horizon_of(batch, self.config)]))


@dataclass(frozen=True, slots=True, eq=False)
class _SplitRows:
    """The windows of a split as rows of a regression, a few stations at a time."""

    source: WindowSource
    inputs: RidgeInputs
    starts: Array
    calendar: Tensor
    recent: Tensor

    @classmethod
    def of(cls, source: WindowSource, inputs: RidgeInputs, name: SplitName) -> _SplitRows:
        starts, spec = source.windows[name], source.windows.spec
        issue = torch.as_tensor(source.series.time[starts + spec.history - 1])
        recent = torch.zeros(0)
        if inputs.neighbours.shape[1]:
            recent = torch.cat([inputs.recent(inputs.scaled(batch)) for batch in window_batches(source, name)])
        return cls(source, inputs, starts, inputs.calendar(issue), recent)

    def rows(self, stations: slice) -> tuple[Array, Array]:
        """Return inputs ``[station, row, input]`` and targets ``[station, row, channel * lead]``, float64."""
        series, spec = self.source.series, self.source.windows.spec
        steps = self.starts[:, None] + np.arange(spec.length)
        values = torch.as_tensor(series.values[:, stations][steps])
        chosen = self.inputs.station_inputs.take(stations)
        issue = torch.as_tensor(series.time[steps[:, spec.history - 1]])
        history = chosen.scaled(chosen.filled(values[:, : spec.history], issue))
        features = self.inputs.joined(history, self.calendar, self.recent, stations)
        targets = chosen.scaled(values[:, spec.history :]).permute(2, 0, 3, 1).flatten(2)
        return features.transpose(0, 1).double().numpy(), targets.double().numpy()


def fit_ridge(config: Config, source: WindowSource, neighbours: int = 0) -> Ridge:
    """Fit weights to the training split of a record, and λ to its validation split."""
    inputs = RidgeInputs.of(source, neighbours)
    channels, leads = len(source.series.variables), source.windows.spec.horizon
    train = _SplitRows.of(source, inputs, "train")
    count = len(source.series.stations)
    blocks = [slice(first, min(first + _STATION_BLOCK, count)) for first in range(0, count, _STATION_BLOCK)]
    chosen = _chosen(train, _SplitRows.of(source, inputs, "val"), blocks, channels, leads)
    penalties = np.repeat(chosen, leads)[None]
    weights = [masked_ridge(x, y, penalties)[0].astype(np.float32)
               for block in blocks for x, y in zip(*train.rows(block))]  # fmt: skip
    return Ridge(config, inputs, torch.as_tensor(np.stack(weights)), tuple(chosen.tolist()))


def _chosen(train: _SplitRows, val: _SplitRows, blocks: list[slice], channels: int, leads: int) -> Array:
    """Choose λ of each channel: the one with the least squared error on validation."""
    tried = np.unique(np.linspace(0, leads - 1, _TRIED_LEADS).round().astype(int))
    columns = (np.arange(channels)[:, None] * leads + tried).ravel()
    trials = np.repeat(np.array(PENALTIES)[:, None], columns.size, axis=1)
    error = np.zeros((len(PENALTIES), channels))
    for block in blocks:
        for x, y, x_val, y_val in zip(*train.rows(block), *val.rows(block)):
            weights = masked_ridge(x, y[:, columns], trials)
            missed = np.nan_to_num(x_val @ weights - y_val[:, columns])
            error += (missed**2).sum(axis=1).reshape(len(PENALTIES), channels, -1).sum(axis=-1)
    return np.array(PENALTIES)[error.argmin(axis=0)]
