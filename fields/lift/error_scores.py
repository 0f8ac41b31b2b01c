"""Scores of the standard deviation of a lift's error at stations that neither lift nor standard deviation have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fields.grid import LocalMetric
from fields.lift.folds import FOLDS, folds_of
from fields.lift.lift_error import HiddenErrors, gaussian_crps, hidden_errors, mean_departure, moment_factor
from fields.lift.methods import LiftSettings
from fields.lift.remoteness import remoteness
from fields.places import Places
from fields.variables import to_display

__all__ = ["ErrorScores", "score_errors"]

Array = NDArray[Any]

# Standard deviations of a normal distribution that hold 90 %.
_NINETY = 1.6448536
# Moments that coefficients are learned from.
_LEARNED = 128


@dataclass(frozen=True, slots=True)
class ErrorScores:
    """Scores of standard deviations, each as that of a normal distribution about the estimate.

    Attributes
    ----------
    within_one, within_90 : share of the errors within one and within 1.645 standard deviations; 68.3 and 90 % if normal
    crps : mean CRPS, display units
    crps_alone : the same of one standard deviation for all places and moments
    deviation : mean standard deviation, display units
    by_distance : share within 1.645 standard deviations in thirds of the distance to the nearest station
    """

    within_one: float
    within_90: float
    crps: float
    crps_alone: float
    deviation: float
    by_distance: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores for JSON."""
        return asdict(self)


def score_errors(
    values: Mapping[str, Array], estimates: Mapping[str, Array], stations: Places, settings: LiftSettings, *,
    fold: Array | None, block_m: float, is_guided: bool, station_pressure: bool,
) -> dict[str, ErrorScores]:  # fmt: skip
    """Compute scores of the standard deviations of estimates of left-out stations.

    The stations are five parts; what is learned for one has not seen the errors of its stations.

    Parameters
    ----------
    values, estimates : by variable, ``[time, station]``, SI
    fold : number of the fold of each station, where folds were left out; None for one station at a time
    block_m : metres around a station within which others were left out as well
    is_guided : learn from the errors of the estimates themselves, where hiding again would train networks
    """
    metric = LocalMetric.around(stations.lat, stations.lon)
    part = folds_of(len(stations), 0, FOLDS) if fold is None else fold
    if fold is None:
        xy = metric.xy(stations.lat, stations.lon)
        gaps = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
        excluded = (gaps <= block_m) | np.eye(len(stations), dtype=bool)
    else:
        excluded = fold[:, None] == fold[None]
    columns = remoteness(stations, stations, metric=metric, excluded=excluded)
    errors = {name: estimates[name].astype(np.float64) - array for name, array in values.items()}
    if is_guided:
        hidden = {name: _of_estimates(error, columns) for name, error in errors.items()}
    else:
        few = slice(None, None, max(1, len(next(iter(values.values()))) // _LEARNED))
        sample = {name: array[few] for name, array in values.items()}
        hidden = hidden_errors(sample, stations, settings, metric=metric, station_pressure=station_pressure)
    scores = {}
    for name in values:
        deviation = _deviations(errors[name], columns, hidden.get(name), part)
        one = _scores(name, errors[name], deviation, columns[:, 1])
        if one is not None:
            scores[name] = one
    return scores


def _of_estimates(error: Array, columns: Array) -> HiddenErrors:
    count = np.isfinite(error).sum(axis=0)
    used = count > 0
    mean = np.nansum(error**2, axis=0)[used] / count[used]
    return HiddenErrors(columns[used], mean, np.flatnonzero(used), np.ones(int(used.sum())))


def _deviations(error: Array, columns: Array, hidden: HiddenErrors | None, part: Array) -> Array:
    """Return the standard deviation of each estimate ``[time, station]``, without what was measured there."""
    deviation = np.full(error.shape, np.nan)
    if hidden is None:
        return deviation
    for number in range(int(part.max()) + 1):
        here = part == number
        beta = hidden.coefficients(~np.isin(hidden.station, np.flatnonzero(here)))
        if beta is None:
            continue
        ordinary = np.exp(0.5 * columns @ beta)
        departure, count = mean_departure(error[:, ~here] / ordinary[~here])
        typical = float(np.sqrt(np.mean(departure[count > 0] ** 2))) if count.any() else 1.0
        deviation[:, here] = ordinary[here] * moment_factor(departure, count, typical or 1.0)[:, None]
    return deviation


def _scores(name: str, error: Array, deviation: Array, distance: Array) -> ErrorScores | None:
    used = np.isfinite(error) & np.isfinite(deviation)
    if not used.any():
        return None
    z = np.abs(error[used] / deviation[used])
    far = np.broadcast_to(distance, error.shape)[used]
    ends = np.quantile(distance, [1 / 3, 2 / 3])
    band = np.searchsorted(ends, far)
    alone = np.full(z.shape, np.sqrt(np.mean(error[used] ** 2)))

    def display(value: Array) -> float:
        return float(to_display(name, np.mean(value), difference=True))

    return ErrorScores(
        float((z <= 1.0).mean()), float((z <= _NINETY).mean()), display(gaussian_crps(error[used], deviation[used])),
        display(gaussian_crps(error[used], alone)), display(deviation[used]),
        tuple(float((z[band == k] <= _NINETY).mean()) if (band == k).any() else float("nan") for k in range(3)),
    )  # fmt: skip
