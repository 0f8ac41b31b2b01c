r"""Plain ways to put a distribution about a forecast, as references: past errors, Gaussian or counted, and EMOS.

EMOS (Gneiting et al. 2005) is, for each variable and lead, a normal distribution

.. math:: \mathcal N(a + b \hat y, \; c^2 + d^2 s^2)

with the least mean CRPS on validation; :math:`s` is the spread of the guesses that a forecast mixes, or the change from
day to day where it mixes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from fields.times import DAY
from fields.windows import Stations
from stationpde.uncertainty.dressed import SampledDistributions
from stationpde.uncertainty.levels import LEVELS
from stationpde.uncertainty.marginal import BOUNDS
from stationpde.uncertainty.sample import Forecaster, outlook
from stationpde.uncertainty.signals import NOISE, VARIABLES, Signals, shown, signals_of

if TYPE_CHECKING:
    from fields.windows import Batch

__all__ = ["REFERENCES", "Reference", "ReferenceDressing", "fit_reference"]

Array = np.ndarray[Any, Any]
Reference = Literal["gaussian", "conformal", "emos"]
REFERENCES: tuple[Reference, ...] = get_args(Reference)
# Below so many errors of a station, hour of issue and lead, those of all stations count, then those of all hours.
_FEWEST = 60
_MOST_ROWS = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceDressing:
    """A forecaster with distributions of a plain kind.

    Attributes
    ----------
    tables : by variable, quantiles of errors ``[hour of issue, lead, station or 1, LEVELS]``; for ``emos`` coefficients
        ``[lead, 4]``
    """

    forecaster: Forecaster
    stations: Stations
    kind: Reference
    tables: Mapping[str, Array]

    def distributions(self, batch: Batch) -> SampledDistributions:
        """Return the distributions of a batch; nothing of its future is read but the number of leads."""
        forecast, guesses = outlook(self.forecaster, batch)
        values = {}
        signals = None
        if self.kind == "emos":
            signals = signals_of(
                batch.history.numpy(),
                forecast,
                batch.issue_time.numpy(),
                batch.step_seconds,
                self.stations.lon,
                guesses,
            )
        best = shown(forecast)
        slot = batch.issue_time.numpy() % DAY // batch.step_seconds
        for name, table in self.tables.items():
            centre = best[..., VARIABLES.index(name)]
            if signals is None:
                quantiles = centre[..., None] + table[slot, : centre.shape[1]]
            else:
                mean, deviation = _normal(table[: centre.shape[1]], centre, _spread(signals, name))
                quantiles = mean[..., None] + deviation[..., None] * ndtri(LEVELS)
            values[name] = np.clip(quantiles, *BOUNDS.get(name, (-np.inf, np.inf)))
        return SampledDistributions(values)


def fit_reference(
    forecaster: Forecaster, stations: Stations, kind: Reference, errors: Mapping[str, Array],
    slot: Array, *, pool: bool = False, forecasts: Mapping[str, Array] | None = None,
    spreads: Mapping[str, Array] | None = None,
) -> ReferenceDressing:  # fmt: skip
    """Fit distributions of a plain kind on errors out of sample.

    Parameters
    ----------
    errors : target minus forecast of each variable, ``[window, lead, station]``, display units, NaN without a target
    slot : step of the day that each window was issued at
    pool : take the errors of all stations together, for places that have none of their own
    forecasts, spreads : of the same shape, for ``emos``
    """
    tables = {}
    for name, error in errors.items():
        if kind == "emos":
            assert forecasts is not None and spreads is not None
            tables[name] = np.stack(
                [
                    _emos(
                        forecasts[name][:, lead], error[:, lead], spreads[name][:, lead], NOISE[VARIABLES.index(name)]
                    )
                    for lead in range(error.shape[1])
                ]
            )
        else:
            tables[name] = _past_errors(error, slot, kind, pool)
    return ReferenceDressing(forecaster, stations, kind, tables)


def _past_errors(error: Array, slot: Array, kind: Reference, pool: bool) -> Array:
    """Return quantiles ``[hour of issue, lead, station or 1, LEVELS]`` of errors ``[window, lead, station]``."""
    slots, (_, leads, stations) = int(slot.max()) + 1, error.shape
    table = np.empty((slots, leads, 1 if pool else stations, len(LEVELS)))
    for lead in range(leads):
        whole = _quantiles(error[:, lead], kind)
        for hour in range(slots):
            part = error[slot == hour, lead]
            of_hour = _quantiles(part, kind) if np.isfinite(part).sum() >= _FEWEST else whole
            several = np.isfinite(part).sum(axis=0) >= _FEWEST
            table[hour, lead] = of_hour
            for station in () if pool else np.flatnonzero(several):
                table[hour, lead, station] = _quantiles(part[:, station], kind)
    return table


def _quantiles(error: Array, kind: Reference) -> Array:
    values = error[np.isfinite(error)]
    if not len(values):
        return np.zeros(len(LEVELS))
    if kind == "gaussian":
        return np.asarray(values.mean() + max(values.std(), 1e-6) * ndtri(LEVELS))
    # Split-conformal: outwards by what so few values may hide.
    count = len(values)
    outer = np.where(LEVELS > 0.5, LEVELS * (count + 1) / count, 1 - (1 - LEVELS) * (count + 1) / count)
    return np.asarray(np.quantile(values, np.clip(outer, 0.0, 1.0)))


def _spread(signals: Signals, name: str) -> Array:
    """Return what a forecast says of its own spread, ``[batch, lead, station]``."""
    c = VARIABLES.index(name)
    if signals.spread is not None:
        return signals.spread[..., c]
    return np.broadcast_to(signals.change[:, None, :, c], signals.forecast.shape[:-1])


def _emos(forecast: Array, error: Array, spread: Array, least: float) -> Array:
    """Fit the coefficients (a, b, ln c, ln d) of one variable and lead."""
    used = np.flatnonzero(np.isfinite(error.ravel()))
    used = used[np.unique(np.linspace(0, len(used) - 1, min(_MOST_ROWS, len(used))).round().astype(int))]
    x, s = forecast.ravel()[used], spread.ravel()[used]
    y = x + error.ravel()[used]
    size = max(float(np.std(error.ravel()[used])), least)
    centre, width = float(x.mean()), max(float(x.std()), 1e-6)
    z, typical = (x - centre) / width, max(float(np.sqrt(np.mean(s**2))), 1e-6)

    def loss(beta: Array) -> float:
        mean = beta[0] + beta[1] * z
        deviation = np.sqrt(np.exp(2 * beta[2]) + np.exp(2 * beta[3]) * (s / typical) ** 2)
        e = (y - mean) / deviation
        density = np.exp(-0.5 * e**2) / np.sqrt(2 * np.pi)
        return float(np.mean(deviation * (e * (2 * ndtr(e) - 1) + 2 * density - 1 / np.sqrt(np.pi))))

    start = np.array([y.mean(), width, np.log(0.8 * size), np.log(0.4 * size)])
    a, b, c, d = minimize(loss, start, method="L-BFGS-B", options={"maxiter": 60}).x
    return np.array([a - b * centre / width, b / width, c, d - np.log(typical)])


def _normal(table: Array, forecast: Array, spread: Array) -> tuple[Array, Array]:
    a, b, c, d = (table[None, :, None, k] for k in range(4))
    return a + b * forecast, np.sqrt(np.exp(2 * c) + np.exp(2 * d) * spread**2)
