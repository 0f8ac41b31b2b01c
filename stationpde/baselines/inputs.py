"""Inputs of the baselines: histories without gaps, in the scale of each station, fitted to training alone.

Gaps are filled from within the window (linear between observed values, else the last one, else the climatology of
the station at that hour). Means and standard deviations are those of each station in the training split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.grid import LocalMetric
from fields.lift import nearest
from fields.windows import (
    Batch,
    Climatology,
    ClimatologyTable,
    SplitName,
    Stations,
    fill_history,
    floors,
    station_moments,
)
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float, Int64

__all__ = ["StationInputs", "horizon_of", "neighbours_of", "steps_of", "window_batches"]

# Values of a batch of windows, history and future, that are in memory at once.
_VALUES = 8_000_000


class StationInputs(nn.Module):
    """Filling and scales of the stations of a record; buffers, so that a checkpoint holds them."""

    mean: Tensor
    std: Tensor

    def __init__(self, climatology: Climatology, mean: Tensor, std: Tensor, step_seconds: int) -> None:
        super().__init__()
        self.step_seconds = step_seconds
        self._climatology = climatology
        self.climatology = ClimatologyTable(climatology)
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    @classmethod
    def of(cls, source: WindowSource) -> StationInputs:
        """Fit filling and scales to the training split of a record."""
        series, split = source.series, source.windows.split
        mean, std, _ = station_moments(series.values[split.slice("train")], floors(series.variables))
        return cls(
            Climatology.of(series, split),
            torch.as_tensor(mean, dtype=torch.float32),
            torch.as_tensor(std, dtype=torch.float32),
            series.step_seconds,
        )

    def take(self, stations: slice) -> StationInputs:
        """Select some of the stations."""
        climatology = self._climatology.take(stations)
        return StationInputs(climatology, self.mean[stations], self.std[stations], self.step_seconds)

    def filled(
        self, history: Float[Tensor, "batch time station channel"], issue_time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch time station channel"]:
        """Fill the gaps of histories, SI."""
        back = torch.arange(1 - history.shape[1], 1, device=history.device) * self.step_seconds
        return fill_history(history, self.climatology(issue_time[:, None] + back).to(history.dtype))

    def scaled(self, values: Float[Tensor, "*batch station channel"]) -> Float[Tensor, "*batch station channel"]:
        """Convert SI to departures from a station's mean in its standard deviations."""
        return (values - self.mean) / self.std

    def unscaled(self, values: Float[Tensor, "*batch station channel"]) -> Float[Tensor, "*batch station channel"]:
        """Convert scaled values back to SI."""
        return values * self.std + self.mean

    def climatology_at(
        self, issue_time: Int64[Tensor, " batch"], leads: int
    ) -> Float[Tensor, "batch lead station channel"]:
        """Return the climatology at the leads, SI."""
        values: Tensor = self.climatology(valid_times(issue_time, leads, self.step_seconds))
        return values


def valid_times(issue_time: Int64[Tensor, " batch"], leads: int, step_seconds: int) -> Int64[Tensor, "batch lead"]:
    """Return the times at which the leads of a forecast are valid, seconds since 1970 UTC."""
    ahead = torch.arange(1, leads + 1, device=issue_time.device) * step_seconds
    return issue_time[:, None] + ahead


def horizon_of(batch: Batch, config: Config) -> int:
    """Return the number of leads: those of the window, or the configured number if the window has no future."""
    return int(batch.future.shape[1]) or config.data.horizon


def steps_of(seconds: int, step_seconds: int, history: int) -> int:
    """Convert a span to whole steps, at least one, within a history; 0 in a history of one step."""
    return min(max(1, seconds // step_seconds), history - 1)


def neighbours_of(stations: Stations, k: int) -> np.ndarray[Any, Any]:
    """Return indices ``[station, k]`` of the nearest other stations, nearest first; fewer in a small network."""
    count = len(stations)
    if count < 2 or k < 1:
        return np.zeros((count, 0), np.int64)
    places = LocalMetric.around(stations.lat, stations.lon).xy(stations.lat, stations.lon)
    indices = nearest(places, places, min(k, count - 1), excluded=np.eye(count, dtype=bool))
    return indices.astype(np.int64)


def window_batches(source: WindowSource, part: SplitName) -> Iterator[Batch]:
    """Yield all windows of a split, as many at a time as memory allows."""
    starts, series = source.windows[part], source.series
    one = source.windows.spec.length * len(series.stations) * len(series.variables)
    size = max(1, _VALUES // one)
    for first in range(0, len(starts), size):
        yield source.batch(starts[first : first + size])
