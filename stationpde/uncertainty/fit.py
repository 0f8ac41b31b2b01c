"""Fit the distribution of a variable on a sample: regressions, effects of stations, and quantiles out of sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stationpde.uncertainty.design import Design, LeadGroups
from stationpde.uncertainty.levels import LEVELS, empirical
from stationpde.uncertainty.marginal import Marginal
from stationpde.uncertainty.regression import linear, log_scale, shrunk_effects
from stationpde.uncertainty.sample import Sample

__all__ = ["effective_count", "fit_marginal"]

Array = np.ndarray[Any, Any]

FEWEST_TARGETS = 100
_FOLDS = 3
_BLOCK_DAYS = 7
_MOST_ROWS = 30_000
_BINS = 5
# A cell of the table is drawn to the coarser one as by so many days of it.
_PRIOR_DAYS = 10.0
_LEAST_SCALE = 1e-3
# A season is seen in errors of training that span a year, all but.
_YEAR_DAYS = 330


def fit_marginal(sample: Sample, name: str, horizon: int, seen: Sample | None = None) -> Marginal | None:
    """Fit a variable; None where it has too few targets.

    Parameters
    ----------
    sample : windows that nothing was trained on: they alone decide on means, levels and quantiles
    horizon : leads of a forecast
    seen : windows of training, whose errors are too small, but depend on season and weather as those of others do: they
        have a share in the slopes of the scale, beside a level of their own
    """
    errors = sample.errors(name)
    rows = np.isfinite(errors)
    if rows.sum() < FEWEST_TARGETS:
        return None
    has_season = seen is not None and len(np.unique(seen.day)) > 1 and int(np.ptp(seen.day)) >= _YEAR_DAYS
    design = Design.of(name, LeadGroups(horizon), sample.signals, rows, has_season)
    located, scaled = design.location(sample.signals)[rows], design.scale(sample.signals)[rows]
    window, lead, place = np.nonzero(rows)
    table = _Rows(located, scaled, errors[rows], sample.station[window, place], sample.day[window], sample.stations)
    training = None if seen is None else _training_rows(design, seen)
    fold = _folds(table.day)
    standardised = np.empty(len(window))
    for number in range(_FOLDS):
        part = fold == number
        fitted = table.take(~part).fit(training, has_season)
        centre, scale = fitted.at(table.take(part))
        standardised[part] = (table.error[part] - centre) / scale
    fitted = table.fit(training, has_season)
    centres, quantiles = _table(
        standardised, design.groups.of(rows.shape[1])[lead], design.groups.count, design.level(sample.signals)[rows],
        table.day,
    )  # fmt: skip
    typical = max(float(np.median(np.exp(scaled @ fitted.scale))), _LEAST_SCALE)
    return Marginal(design, fitted.location, fitted.scale, typical, fitted.bias, fitted.factor, centres, quantiles)


@dataclass(frozen=True, slots=True, eq=False)
class _Training:
    """Rows of windows of training: columns of the scale, the last of which is 1 for them alone, and sizes of errors."""

    columns: Array
    sizes: Array
    days: int


def _training_rows(design: Design, seen: Sample) -> _Training | None:
    errors = seen.errors(design.name)
    rows = np.isfinite(errors)
    if rows.sum() < FEWEST_TARGETS:
        return None
    values = errors[rows]
    few = _thinned(len(values))
    columns = design.scale(seen.signals)[rows][few]
    sizes = np.maximum(np.abs(values[few] - values.mean()), _LEAST_SCALE)
    return _Training(np.c_[columns, np.ones(len(few))], sizes, len(np.unique(seen.day)))


def _thinned(count: int) -> Array:
    """Return at most `_MOST_ROWS` numbers of rows, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(_MOST_ROWS, count)).round().astype(int))


class _Fitted:
    """Coefficients and effects of one fit."""

    def __init__(self, location: Array, scale: Array, bias: Array, factor: Array) -> None:
        self.location, self.scale, self.bias, self.factor = location, scale, bias, factor

    def at(self, rows: _Rows) -> tuple[Array, Array]:
        """Return mean error and scale of rows."""
        centre = rows.located @ self.location + self.bias[rows.station]
        scale = np.exp(rows.scaled @ self.scale + self.factor[rows.station])
        return centre, np.maximum(scale, _LEAST_SCALE)


class _Rows:
    """Rows of a regression: columns, errors, stations and days."""

    def __init__(self, located: Array, scaled: Array, error: Array, station: Array, day: Array, stations: int) -> None:
        self.located, self.scaled, self.error = located, scaled, error
        self.station, self.day, self.stations = station, day, stations

    def take(self, chosen: Array) -> _Rows:
        return _Rows(
            self.located[chosen], self.scaled[chosen], self.error[chosen], self.station[chosen], self.day[chosen],
            self.stations,
        )  # fmt: skip

    def fit(self, training: _Training | None, has_season: bool) -> _Fitted:
        """Fit mean error, scale and effects of stations; ``training`` has a share in the slopes of the scale."""
        days, few = len(np.unique(self.day)), _thinned(len(self.error))
        location = linear(self.located[few], self.error[few], days)
        left = self.error - self.located @ location
        bias = shrunk_effects(self._daily(left))
        size = np.abs(left - bias[self.station])
        size = np.maximum(size, _LEAST_SCALE)
        columns, sizes = self.scaled[few], size[few]
        season = slice(columns.shape[1] - 2, columns.shape[1]) if has_season else None
        if training is not None:
            columns = np.concatenate([np.c_[columns, np.zeros(len(few))], training.columns])
            sizes, days = np.concatenate([sizes, training.sizes]), days + training.days
        scale = log_scale(columns, sizes, days, season)[: self.scaled.shape[1]]
        ratio = size / np.exp(self.scaled @ scale)
        factor = np.log1p(np.maximum(shrunk_effects(self._daily(ratio - 1.0)), -0.75))
        return _Fitted(location, scale, bias, factor)

    def _daily(self, values: Array) -> Array:
        """Return means ``[day, station]``, NaN where there is nothing."""
        number, day = np.unique(self.day, return_inverse=True)
        cell = day * self.stations + self.station
        size = len(number) * self.stations
        count = np.bincount(cell, minlength=size)
        with np.errstate(invalid="ignore"):
            mean: Array = np.bincount(cell, values, minlength=size) / count
        return mean.reshape(len(number), self.stations)


def _folds(day: Array) -> Array:
    """Return the fold of each row: blocks of a week in turn, shorter ones where there are few days."""
    span = int(day.max() - day.min()) + 1
    block = max(1, min(_BLOCK_DAYS, span // (2 * _FOLDS)))
    fold: Array = (day - day.min()) // block % _FOLDS
    return fold


def _table(values: Array, group: Array, groups: int, level: Array, day: Array) -> tuple[Array, Array]:
    """Return the centres of the bins of best estimates, and quantiles ``[group, bin, LEVELS]``."""
    count = effective_count(values, day)
    edges = np.unique(np.quantile(level, np.arange(1, _BINS) / _BINS))
    place = np.searchsorted(edges, level)
    _, place = np.unique(place, return_inverse=True)
    bins = int(place.max()) + 1
    centres = np.array([np.median(level[place == number]) for number in range(bins)])
    whole = empirical(values, count)
    table = np.empty((groups, bins, len(LEVELS)))
    for number in range(bins):
        inside = place == number
        pooled = _drawn(values[inside], day[inside], whole, count)
        for lead in range(groups):
            cell = inside & (group == lead)
            table[lead, number] = _drawn(values[cell], day[cell], pooled, count)
    return centres, np.maximum.accumulate(table, axis=-1)


def _drawn(values: Array, day: Array, coarser: Array, count: float) -> Array:
    """Return quantiles drawn to coarser ones by the number of days."""
    if not len(values):
        return coarser
    days = len(np.unique(day))
    return (days * empirical(values, count) + _PRIOR_DAYS * coarser) / (days + _PRIOR_DAYS)


def effective_count(values: Array, day: Array) -> float:
    r"""Return the number of independent values of which the coverage is as sure as that of a sample.

    .. math:: n = \tau (1 - \tau) / \operatorname{Var}(\bar c)

    :math:`\bar c` is the share below the quantile of level :math:`\tau`, its variance that of a mean over days; the
    smaller number of both tails, at least that of days / 2.
    """
    number, row = np.unique(day, return_inverse=True)
    counts = np.bincount(row)
    least = max(2.0, 0.5 * len(number))
    result = np.inf
    for level in (0.1, 0.9):
        below = (values <= np.quantile(values, level)).astype(float)
        departures = np.bincount(row, below - level)
        variance = float((departures**2).sum()) / counts.sum() ** 2
        result = min(result, level * (1.0 - level) / max(variance, 1e-12))
    return float(np.clip(result, least, len(values)))
