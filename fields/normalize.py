"""Scales of the training split, and the filling of gaps in a history.

Functions take what they are given; `Statistics.of` and `Climatology.of` give the training split and nothing else.
Moments are float64, missing values are NaN, and no standard deviation is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .climatology import Climatology
from .series import StationSeries
from .variables import VARIABLES
from .windows import Split

__all__ = ["Climatology", "Statistics", "change_std", "channel_moments", "fill_history", "floors", "station_moments"]

Array = np.ndarray[Any, Any]

_STATION_BLOCK = 64
# With fewer values a station's own spread is not trusted.
_FEWEST = 30
# A sensor with less of the network's median spread does not move: in its own scale it would be all of the weather on
# the day when it is mended.
_LEAST_OF_MEDIAN = 0.2
# The least spread, in parts of the error of a good sensor; any real record has more.
_PART_OF_NOISE = 0.1


def floors(variables: tuple[str, ...]) -> Array:
    """The least standard deviation of each variable, SI: a tenth of a good sensor's error, 1 for an unknown one."""
    return np.array([_PART_OF_NOISE * VARIABLES[name].noise if name in VARIABLES else 1.0 for name in variables])


def _floored(std: Array, floor: Array | float | None) -> Array:
    # Without a floor of its own a constant channel gets scale 1: it becomes zero rather than noise blown up.
    least = np.where(std > 0, 0.0, 1.0) if floor is None else floor
    return np.maximum(std, least)


def station_moments(
    values: Array, floor: Array | float | None = None, fewest: int = _FEWEST
) -> tuple[Array, Array, Array]:
    """Mean, standard deviation and count, each ``[station, channel]``, of values ``[time, station, channel]``.

    A station with fewer than ``fewest`` values takes the network's median spread, one without any its mean; none has
    less than a fifth of that median.
    """
    shape = values.shape[1:]
    mean, square, count = (np.zeros(shape) for _ in range(3))
    for first in range(0, shape[0], _STATION_BLOCK):
        part = slice(first, first + _STATION_BLOCK)
        block = values[:, part].astype(np.float64)
        there = np.isfinite(block)
        count[part] = there.sum(axis=0)
        share = 1.0 / np.maximum(count[part], 1.0)
        mean[part] = np.where(there, block, 0.0).sum(axis=0) * share
        square[part] = np.where(there, (block - mean[part]) ** 2, 0.0).sum(axis=0) * share
    std, enough = np.sqrt(square), count >= fewest
    for c in range(shape[1]):
        if enough[:, c].any():
            usual = np.median(std[enough[:, c], c])
            std[:, c] = np.where(enough[:, c], np.maximum(std[:, c], _LEAST_OF_MEDIAN * usual), usual)
        seen = count[:, c] > 0
        if seen.any():
            mean[~seen, c] = mean[seen, c].mean()
    return mean, _floored(std, floor), count


def channel_moments(values: Array, floor: Array | float | None = None) -> tuple[Array, Array]:
    """Mean and standard deviation, each ``[channel]``, over all stations and steps of ``[time, station, channel]``."""
    mean, _, count = station_moments(values, floor=0.0, fewest=0)
    weight = count / np.maximum(count.sum(axis=0), 1.0)
    centre = (weight * mean).sum(axis=0)
    spread = np.zeros_like(centre)
    for first in range(0, values.shape[1], _STATION_BLOCK):
        block = values[:, first : first + _STATION_BLOCK].astype(np.float64) - centre
        spread += np.where(np.isfinite(block), block**2, 0.0).sum(axis=(0, 1))
    return centre, _floored(np.sqrt(spread / np.maximum(count.sum(axis=0), 1.0)), floor)


def change_std(values: Array, time: Array, step_seconds: int, floor: Array | float | None = None) -> Array:
    """Root mean square ``[channel]`` of the change over one step of values ``[time, station, channel]``."""
    next_to = np.flatnonzero(np.diff(time) == step_seconds)
    square, count = np.zeros(values.shape[2]), np.zeros(values.shape[2])
    for first in range(0, values.shape[1], _STATION_BLOCK):
        block = values[:, first : first + _STATION_BLOCK].astype(np.float64)
        change = block[next_to + 1] - block[next_to]
        there = np.isfinite(change)
        square += np.where(there, change**2, 0.0).sum(axis=(0, 1))
        count += there.sum(axis=(0, 1))
    return _floored(np.sqrt(square / np.maximum(count, 1.0)), floor)


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Scales of the training split, float64 in SI; every standard deviation has a floor and none is NaN.

    ``mean``, ``std`` are ``[channel]`` over all stations and steps; ``station_mean``, ``station_std``, ``counts`` are
    ``[station, channel]``; ``change_std`` ``[channel]`` is of the change over one step; ``anomaly_std`` ``[channel]``
    and ``station_anomaly_std`` ``[station, channel]`` are of departures from the climatology.
    """

    mean: Array
    std: Array
    station_mean: Array
    station_std: Array
    counts: Array
    change_std: Array
    anomaly_std: Array
    station_anomaly_std: Array

    @classmethod
    def of(cls, series: StationSeries, split: Split, climatology: Climatology) -> Statistics:
        """Fit to the training split of a record."""
        steps = split.slice("train")
        return cls.fit(series.time[steps], series.values[steps], series.step_seconds, climatology,
                       floors(series.variables))  # fmt: skip

    @classmethod
    def fit(
        cls, time: Array, values: Array, step_seconds: int, climatology: Climatology, floor: Array | float | None = None
    ) -> Statistics:
        """Fit to values ``[time, station, channel]`` of any channels."""
        anomaly = np.empty_like(values)
        for first in range(0, values.shape[1], _STATION_BLOCK):
            part = slice(first, first + _STATION_BLOCK)
            anomaly[:, part] = values[:, part] - climatology.take(part).at(time)
        return cls(
            *channel_moments(values, floor), *station_moments(values, floor),
            change_std(values, time, step_seconds, floor), channel_moments(anomaly, floor)[1],
            station_moments(anomaly, floor)[1],
        )  # fmt: skip


def fill_history(history: Array, climatology: Array) -> Array:
    """Fill the gaps of histories from within the window.

    Linear in time between two observed values; the last observed value after it; the climatology before the first.

    Parameters
    ----------
    history : ``[..., time, station, channel]``, NaN where missing
    climatology : of the same shape, finite

    Returns
    -------
    The histories without gaps; what was observed is unchanged.
    """
    there = np.isfinite(history)
    length = history.shape[-3]
    step = np.arange(length)[:, None, None]
    before = np.maximum.accumulate(np.where(there, step, -1), axis=-3)
    after = np.flip(np.minimum.accumulate(np.flip(np.where(there, step, length), -3), axis=-3), -3)
    known = np.where(there, history, 0)
    low = np.take_along_axis(known, np.maximum(before, 0), axis=-3)
    high = np.take_along_axis(known, np.minimum(after, length - 1), axis=-3)
    weight = ((step - before) / np.maximum(after - before, 1)).astype(history.dtype)
    inside = np.where(after < length, low + weight * (high - low), low)
    return np.where(before >= 0, inside, climatology).astype(history.dtype, copy=False)
