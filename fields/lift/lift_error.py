r"""Standard deviation of the error of a lift, at any place and moment: learned by hiding stations.

.. math:: \sigma(x, t) = f(t)\, \exp\tfrac12 (\beta_0 + \beta_1 r_1 + \beta_2 r_2 + \beta_3 r_3), \quad
          \beta_{1,2,3} \ge 0

:math:`r` are distance, difference of altitude and roughness of `fields.lift.remoteness`, with the coefficients of the
gamma likelihood of mean squared errors at hidden stations. :math:`f` follows how far the estimates of single stations
from the others are off at that moment. The error counts that of a sensor, as the truth here is what a station measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from fields.grid import LocalMetric
from fields.lift.methods import LiftSettings, StationLift
from fields.lift.remoteness import REMOTENESS, remoteness
from fields.places import Places

__all__ = ["HiddenErrors", "LiftError", "gaussian_crps", "hidden_errors", "mean_departure", "moment_factor"]

Array = NDArray[Any]

_FEWEST_REMAINING, _FEWEST_ERRORS, _FEWEST_STATIONS = 3, 10, 8
# Parts of the stations, and how many of them are hidden at a time: so that distances vary as those of cells do.
_PLANS = ((5, 1), (2, 1), (5, 4))
# A mean square beyond so many times the median is that of a broken sensor.
_GROSS = 25.0
_PRIOR_ROWS = 1.0
_PROBES = 40
# A moment's factor is drawn to one as by so many stations, whose errors at a moment are not independent.
_PRIOR_PROBES = 10.0
_CELLS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class HiddenErrors:
    """Mean squared errors of one variable at hidden stations.

    Attributes
    ----------
    columns : of `remoteness`, ``[row, 4]``
    squares : mean squared error of each row, SI
    station : number of the station of each row
    weight : share of each row; every way to hide has the same in all
    """

    columns: Array
    squares: Array
    station: Array
    weight: Array

    def coefficients(self, chosen: Array | slice = slice(None)) -> Array | None:
        """Fit the logarithm of the variance on chosen rows; None without any."""
        columns, squares, weight = self.columns[chosen], self.squares[chosen], self.weight[chosen]
        if not len(squares) or not squares.any():
            return None
        squares = np.clip(squares, 1e-6 * squares.mean(), _GROSS * np.median(squares[squares > 0]))
        weight = weight * len(weight) / weight.sum()
        fixed = len(np.unique(self.station[chosen])) < _FEWEST_STATIONS
        prior = np.array([0.0, *[_PRIOR_ROWS] * (columns.shape[1] - 1)])

        def loss(beta: Array) -> tuple[float, Array]:
            eta = columns @ beta
            ratio = squares * np.exp(-eta)
            slope = columns.T @ (weight * (1.0 - ratio)) + prior * beta
            return float((weight * (eta + ratio)).sum() + 0.5 * (prior * beta**2).sum()), slope

        bounds = [(None, None), *[(0.0, 0.0 if fixed else 10.0)] * (columns.shape[1] - 1)]
        start = np.array([np.log(np.average(squares, weights=weight)), *np.zeros(columns.shape[1] - 1)])
        fitted: Array = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return fitted


def hidden_errors(
    values: Mapping[str, Array], places: Places, settings: LiftSettings, *, metric: LocalMetric,
    station_pressure: bool = True,
) -> dict[str, HiddenErrors]:  # fmt: skip
    """Lift a sample of moments to stations that are hidden, in several ways.

    Parameters
    ----------
    values : by variable, ``[time, station]``, SI, NaN = missing
    """
    rows: dict[str, list[tuple[Array, Array, Array, Array]]] = {name: [] for name in values}
    for remaining, hidden in _plans(len(places)):
        near, far = places.take(remaining), places.take(hidden)
        columns = remoteness(far, near, metric=metric)
        lift = StationLift.between(near, far, replace(settings, k=min(settings.k, len(near))), metric=metric)
        means = lift({name: array[:, remaining] for name, array in values.items()}, station_pressure=station_pressure)
        for name, array in values.items():
            square = (means.values[name].astype(np.float64) - array[:, hidden]) ** 2
            count = np.isfinite(square).sum(axis=0)
            used = count >= min(_FEWEST_ERRORS, len(square))
            mean = np.nansum(square, axis=0)[used] / count[used]
            share = np.full(int(used.sum()), len(places) / max(len(hidden), 1))
            rows[name].append((columns[used], mean, hidden[used], share))
    joined = {
        name: [np.concatenate(part) for part in zip(*parts, strict=True)] for name, parts in rows.items() if parts
    }
    return {name: HiddenErrors(*parts) for name, parts in joined.items()}


def _plans(count: int) -> Iterator[tuple[Array, Array]]:
    """Yield numbers of stations that remain and that are hidden."""
    order = np.random.default_rng(0).permutation(count)
    for parts, hidden_parts in _PLANS:
        part = np.empty(count, np.int64)
        part[order] = np.arange(count) % parts
        for first in range(parts):
            is_hidden = (part - first) % parts < hidden_parts
            if (~is_hidden).sum() >= _FEWEST_REMAINING and is_hidden.any():
                yield np.flatnonzero(~is_hidden), np.flatnonzero(is_hidden)


@dataclass(frozen=True, slots=True, eq=False)
class LiftError:
    """Learned error of a lift.

    Attributes
    ----------
    coefficients : of the logarithm of the variance, by variable
    lift : from all stations to the probes, none of which sees itself
    probes : numbers of the stations whose estimates from the others tell how difficult a moment is
    typical : root mean square over moments of their mean departure in standard deviations, by variable
    deviations : standard deviation at each probe, by variable
    """

    coefficients: Mapping[str, Array]
    lift: StationLift
    probes: Array
    typical: Mapping[str, float]
    deviations: Mapping[str, Array]

    @classmethod
    def learn(
        cls, values: Mapping[str, Array], places: Places, settings: LiftSettings, *, metric: LocalMetric,
        station_pressure: bool = True, levels: Mapping[str, HiddenErrors] | None = None,
    ) -> LiftError | None:  # fmt: skip
        """Learn the error of a lift from a sample of moments; None where the stations are too few.

        Parameters
        ----------
        values : by variable, ``[time, station]``, SI, NaN = missing
        levels : errors of another lift of these variables: its level counts, with the slopes of this one
        """
        fitted = {}
        for name, hidden in hidden_errors(
            values, places, settings, metric=metric, station_pressure=station_pressure
        ).items():
            beta = hidden.coefficients()
            if beta is not None:
                other = None if levels is None else levels.get(name)
                fitted[name] = beta if other is None else _raised(beta, other)
        if not fitted:
            return None
        probes = np.unique(np.linspace(0, len(places) - 1, min(_PROBES, len(places))).round().astype(int))
        itself = np.zeros((len(probes), len(places)), bool)
        itself[np.arange(len(probes)), probes] = True
        fewer = replace(settings, k=min(settings.k, len(places)))
        lift = StationLift.between(places, places.take(probes), fewer, metric=metric, excluded=itself)
        columns = remoteness(places.take(probes), places, metric=metric, excluded=itself)
        deviations = {name: np.exp(0.5 * columns @ beta) for name, beta in fitted.items()}
        bare = cls(fitted, lift, probes, dict.fromkeys(fitted, 1.0), deviations)
        typical = {}
        for name, (departure, count) in bare.departures(values, station_pressure).items():
            several = count > 0
            mean = float(np.sqrt(np.mean(departure[several] ** 2))) if several.any() else 0.0
            typical[name] = mean if mean > 0.0 else 1.0
        return cls(fitted, lift, probes, typical, deviations)

    def at(self, name: str, places: tuple[Array, Array, Array], network: Places, metric: LocalMetric) -> Array:
        """Return the standard deviation of a variable at places, SI, in pieces of bounded memory."""
        pieces = [slice(i, i + _CELLS_AT_ONCE) for i in range(0, len(places[0]), _CELLS_AT_ONCE)]
        beta = self.coefficients[name]
        return np.concatenate(
            [
                np.exp(0.5 * remoteness(tuple(part[piece] for part in places), network, metric=metric) @ beta)  # type: ignore[arg-type]
                for piece in pieces
            ]
        )

    def departures(self, values: Mapping[str, Array], station_pressure: bool) -> dict[str, tuple[Array, Array]]:
        """Return the mean departure of the probes of each moment in standard deviations, and their number."""
        means = self.lift(values, station_pressure=station_pressure)
        return {
            name: mean_departure((means.values[name] - values[name][:, self.probes]) / deviation)
            for name, deviation in self.deviations.items()
        }

    def factors(self, values: Mapping[str, Array], station_pressure: bool) -> dict[str, Array]:
        """Return the factor of each moment by variable, 1 where no probe reports."""
        return {
            name: moment_factor(departure, count, self.typical[name]).astype(np.float32)
            for name, (departure, count) in self.departures(values, station_pressure).items()
        }


def mean_departure(standardised: Array) -> tuple[Array, Array]:
    """Return the mean size of standardised errors ``[time, station]`` at each moment, and their number."""
    size = np.abs(standardised.astype(np.float64))
    count = np.isfinite(size).sum(axis=1)
    mean: Array = np.nansum(size, axis=1) / np.maximum(count, 1)
    return mean, count


def moment_factor(departure: Array, count: Array, typical: float) -> Array:
    """Return the factor of each moment: its mean departure over the typical one, drawn to one by few stations."""
    factor: Array = (count * departure / typical + _PRIOR_PROBES) / (count + _PRIOR_PROBES)
    return factor


def gaussian_crps(error: Array, deviation: Array) -> Array:
    r"""Return the CRPS of normal distributions.

    .. math:: \sigma \left( z (2 \Phi(z) - 1) + 2 \varphi(z) - \pi^{-1/2} \right), \qquad z = e / \sigma

    (Gneiting et al. 2005, Eq. 5).
    """
    from scipy.special import ndtr

    z = error / deviation
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    score: Array = deviation * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))
    return score


def _raised(beta: Array, hidden: HiddenErrors) -> Array:
    """Return coefficients with the level of other errors."""
    if not len(hidden.squares):
        return beta
    squares = np.minimum(hidden.squares, _GROSS * np.median(hidden.squares))
    level = float(np.log(np.mean(squares * np.exp(-hidden.columns @ beta))))
    return beta + np.array([level, *np.zeros(len(REMOTENESS) - 1)])
