"""Wider distributions where no station stands, by the error of what is read from the field there.

Learned by hiding stations at inference: their forecasts are read from the field of the others, as at any new place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import nnls

from fields.lift import remoteness
from stationpde.model import ModelLearner
from stationpde.seeding import generator
from stationpde.uncertainty.marginal import Marginal
from stationpde.uncertainty.sample import outlook
from stationpde.uncertainty.signals import VARIABLES, shown, signals_of

if TYPE_CHECKING:
    from stationpde.data import WindowSource
    from stationpde.model import StationPDEModel
    from stationpde.uncertainty.signals import Signals

__all__ = ["Inflation", "learn_inflation"]

Array = np.ndarray[Any, Any]

_FOLDS = 5
_FEWEST = 8
_FEWEST_TARGETS = 20
_WINDOWS = 32
_BATCH = 16
# Levels at which the intervals of hidden stations are to cover what was observed.
_COVERED = (0.8, 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class Inflation:
    """Coefficients, none negative, of the logarithm of the factor of the scale of each variable at new places."""

    coefficients: Mapping[str, Array]

    def at(self, name: str, columns: Array) -> Array:
        """Return the factor at places, 1 at least; ``columns`` are those of `remoteness`."""
        if name not in self.coefficients:
            return np.ones(len(columns))
        return np.exp(columns @ self.coefficients[name])

    def to_dict(self) -> dict[str, list[float]]:
        """Return the numbers as JSON-ready values."""
        return {name: values.tolist() for name, values in self.coefficients.items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Inflation:
        """Read what `to_dict` returns.

        Raises
        ------
        ValueError, TypeError
            If there are other names or numbers than a calibration writes.
        """
        arrays = {str(name): np.asarray(values, np.float64) for name, values in content.items()}
        for name, values in arrays.items():
            if name not in VARIABLES or values.shape != (4,) or not (np.isfinite(values) & (values >= 0)).all():
                raise ValueError(f"the widening of {name[:40]} is none")
        return cls(arrays)


def learn_inflation(
    model: StationPDEModel, source: WindowSource, starts: Array, marginals: Mapping[str, Marginal]
) -> Inflation:
    """Hide a fifth of the stations at a time, and learn by how much their errors exceed those of the calibration."""
    stations = source.series.stations
    if len(stations) < _FEWEST:
        return Inflation({})
    chosen = starts[np.linspace(0, len(starts) - 1, min(_WINDOWS, len(starts))).round().astype(int)]
    fold = generator(0, "hidden-stations", len(stations)).permutation(len(stations)) % _FOLDS
    columns: list[Array] = []
    factors: dict[str, list[Array]] = {name: [] for name in marginals}
    for number in range(_FOLDS):
        hidden, reporting = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        columns += [remoteness(stations.take(hidden), stations.take(reporting))]
        for name, values in _needed_factors(model, source, chosen, marginals, reporting, hidden).items():
            factors[name] += values
    return Inflation({name: _coefficients(values, np.concatenate(columns)) for name, values in factors.items()})


def _needed_factors(
    model: StationPDEModel, source: WindowSource, starts: Array, marginals: Mapping[str, Marginal], reporting: Array,
    hidden: Array,
) -> dict[str, list[Array]]:  # fmt: skip
    """Return the factors that intervals need to hold the targets, ``[level of `_COVERED`, target]`` of each station."""
    order = np.concatenate([reporting, hidden])
    stations = source.series.stations.take(order)
    # Under another name, a station is a place that the model has never seen: no climatology of its own either.
    names = (*stations.id[: len(reporting)], *(f"{name} (hidden)" for name in stations.id[len(reporting) :]))
    learner = ModelLearner(model.at(replace(stations, id=names), reporters=len(reporting)).eval())
    rows = np.arange(len(reporting), len(order))
    parts: dict[str, list[Array]] = {name: [] for name in marginals}
    for first in range(0, len(starts), _BATCH):
        batch = source.batch(starts[first : first + _BATCH])
        history = batch.history[:, :, order]
        history[:, :, len(reporting) :] = torch.nan
        forecast, guesses = outlook(learner, replace(batch, history=history, future=batch.future[:, :, order]))
        signals = signals_of(
            history.numpy(), forecast, batch.issue_time.numpy(), batch.step_seconds, stations.lon, guesses
        ).take(rows)
        targets = shown(batch.future[:, :, hidden].numpy())
        for name, marginal in marginals.items():
            parts[name].append(_needed(marginal, signals, targets[..., VARIABLES.index(name)]))
    whole = {name: np.concatenate(values, axis=1) for name, values in parts.items()}
    return {
        name: [values[..., place].reshape(len(_COVERED), -1) for place in range(len(hidden))]
        for name, values in whole.items()
    }


def _needed(marginal: Marginal, signals: Signals, targets: Array) -> Array:
    """Return the factor at which each interval begins to hold its target, ``[level, batch, lead, place]``."""
    spread = marginal.spread(signals, np.full(targets.shape[-1], -1))
    levels = np.array([0.5 + side * covered / 2 for side in (-1, 1) for covered in _COVERED[::side]])
    ends = marginal.quantiles(spread, levels) - spread.centre[..., None]
    distance = (targets - spread.centre)[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = distance / np.minimum(ends[..., 1::-1], -1e-6), distance / np.maximum(ends[..., 2:], 1e-6)
    needed: Array = np.moveaxis(np.maximum(low, high), -1, 0)
    return needed


def _coefficients(factors: list[Array], columns: Array) -> Array:
    """Fit the logarithms of the factors that each station needs, then the level so that all together are covered."""

    def logarithm(values: Array) -> float:
        needs = [np.nanquantile(row, covered) for row, covered in zip(values, _COVERED, strict=True)]
        return float(np.mean(np.log(np.maximum(needs, 1e-3))))

    several = np.array([np.isfinite(values).sum() >= _FEWEST_TARGETS for values in factors])
    if several.sum() < _FEWEST:
        return np.zeros(columns.shape[1])
    chosen = [values for values, is_used in zip(factors, several, strict=True) if is_used]
    used = columns[several]
    coefficients, _ = nnls(used, np.array([logarithm(values) for values in chosen]))
    left = np.concatenate([values * np.exp(-row @ coefficients) for values, row in zip(chosen, used)], axis=1)
    coefficients[0] = max(0.0, coefficients[0] + logarithm(left))
    return coefficients
