"""Forecasters that give distributions: any forecaster of stations with its calibration, and the climatology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fields.times import DAY
from fields.windows import Stations, month_of
from stationpde.uncertainty.calibration import Calibration
from stationpde.uncertainty.distributions import Distributions
from stationpde.uncertainty.levels import LEVELS, at_levels, level_of
from stationpde.uncertainty.marginal import BOUNDS
from stationpde.uncertainty.sample import Forecaster, outlook
from stationpde.uncertainty.signals import VARIABLES, shown, signals_of

if TYPE_CHECKING:
    from fields.windows import Batch
    from stationpde.data import WindowSource

__all__ = ["ClimatologyForecaster", "Dressed", "Probabilistic", "SampledDistributions"]

Array = np.ndarray[Any, Any]
# Below so many values of a month and hour, those of the hour in all months are taken.
_FEWEST = 10


class Probabilistic(Protocol):
    """Distributions of a batch of forecasts, in display units."""

    @property
    def names(self) -> tuple[str, ...]:
        """Variables that have a distribution."""

    def quantiles(self, name: str, levels: Sequence[float] | Array) -> Array:
        """Return quantiles ``[batch, lead, station, level]``."""

    def probability_below(self, name: str, threshold: float | Array) -> Array:
        """Return probabilities ``[batch, lead, station]`` of values below a threshold."""


@dataclass(frozen=True, slots=True, eq=False)
class Dressed:
    """A forecaster of stations with the distributions that its calibration puts around its forecasts."""

    forecaster: Forecaster
    calibration: Calibration
    stations: Stations

    def distributions(self, batch: Batch) -> Distributions:
        """Return the distributions of a batch; nothing of its future is read but the number of leads."""
        forecast, guesses = outlook(self.forecaster, batch)
        signals = signals_of(
            batch.history.numpy(), forecast, batch.issue_time.numpy(), batch.step_seconds, self.stations.lon, guesses
        )
        return self.calibration.distributions(signals, self.stations)


@dataclass(frozen=True, slots=True, eq=False)
class SampledDistributions:
    """Distributions as quantiles at `LEVELS`, ``[batch, lead, station, LEVELS]`` of each variable."""

    values: dict[str, Array]

    @property
    def names(self) -> tuple[str, ...]:
        """Variables that have a distribution."""
        return tuple(self.values)

    def quantiles(self, name: str, levels: Sequence[float] | Array) -> Array:
        """Return quantiles ``[batch, lead, station, level]``."""
        low, high = BOUNDS.get(name, (-np.inf, np.inf))
        return np.clip(at_levels(self.values[name], np.asarray(levels, np.float64)), low, high)

    def probability_below(self, name: str, threshold: float | Array) -> Array:
        """Return probabilities ``[batch, lead, station]`` of values below a threshold."""
        values = self.values[name]
        return level_of(values, np.broadcast_to(np.asarray(threshold, np.float64), values.shape[:-1]))


class ClimatologyForecaster:
    """Quantiles of what was observed in training at a station, at the hour and in the month of the forecast."""

    def __init__(self, source: WindowSource, names: Sequence[str]) -> None:
        series = source.series
        self.names = tuple(names)
        end = source.windows.split.val
        self._values, self._step = series.values[:end], series.step_seconds
        self._month = np.asarray(month_of(series.time[:end]))
        self._slot = series.time[:end] % DAY
        self._tables: dict[tuple[int, int], Array] = {}

    def distributions(self, batch: Batch) -> SampledDistributions:
        """Return the distributions for the valid times of a batch."""
        leads = batch.future.shape[1]
        valid = batch.issue_time.numpy()[:, None] + self._step * np.arange(1, leads + 1)
        months = np.asarray(month_of(valid))
        cells = [
            [self._table(int(month), int(second)) for month, second in zip(row, times % DAY, strict=True)]
            for row, times in zip(months, valid, strict=True)
        ]
        whole: Array = np.array(cells)
        return SampledDistributions({name: whole[..., VARIABLES.index(name), :] for name in self.names})

    def _table(self, month: int, second: int) -> Array:
        """Return quantiles ``[station, variable, LEVELS]`` of a month and time of day."""
        key = (month, second)
        if key not in self._tables:
            rows = (self._slot == second) & (self._month == month)
            if rows.sum() < _FEWEST:
                rows = self._slot == second
            if not rows.any():
                rows = np.ones_like(rows)
            values = shown(self._values[rows])
            filled = np.where(np.isfinite(values).any(axis=0), values, np.nanmean(values, axis=1, keepdims=True))
            filled = np.where(np.isfinite(filled).any(axis=0), filled, 0.0)
            self._tables[key] = np.moveaxis(np.nanquantile(filled, LEVELS, axis=0), 0, -1)
        return self._tables[key]
