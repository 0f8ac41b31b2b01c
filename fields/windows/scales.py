"""Scales of the training split: means and standard deviations by channel and by station.

The functions use all values they get; `Statistics.of` passes the training split alone. Moments are float64, missing
values are NaN, and no standard deviation is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.variables import VARIABLES
from fields.windows.climatology import Climatology
from fields.windows.series import StationSeries
from fields.windows.windows import Split

__all__ = ["Climatology", "Statistics", "change_std", "channel_moments", "floors", "station_moments"]

Array = np.ndarray[Any, Any]

_STATION_BLOCK = 64
# With fewer values the spread of a single station is not reliable.
_FEWEST = 30
# A sensor with less than this part of the network's median spread is stuck: divided by its tiny spread, its values
# would be enormous on the day when it is repaired.
_LEAST_OF_MEDIAN = 0.2
# The least spread, in parts of the error of a good sensor; any real record has more.
_PART_OF_NOISE = 0.1


def floors(variables: tuple[str, ...]) -> Array:
    """Return the least standard deviation of each variable, SI: a tenth of a good sensor's error, 1 if unknown."""
    return np.array([_PART_OF_NOISE * VARIABLES[name].noise if name in VARIABLES else 1.0 for name in variables])


def _floored(std: Array, floor: Array | float | None) -> Array:
    # Without a floor a constant channel gets scale 1: it becomes zero rather than amplified noise.
    least = np.where(std > 0, 0.0, 1.0) if floor is None else floor
    return np.maximum(std, least)


def station_moments(
    values: Array, floor: Array | float | None = None, fewest: int = _FEWEST
) -> tuple[Array, Array, Array]:
    """Compute mean, standard deviation and count of each station, each ``[station, channel]``.

    A station with fewer than ``fewest`` values gets the network's median spread, one without any value the network's
    mean; no spread is less than a fifth of that median.

    Parameters
    ----------
    values : ``[time, station, channel]``, NaN = missing
    floor : least standard deviation, one or ``[channel]``; None replaces zero by 1
    fewest : number of values from which on the spread of a station is used
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
            median = np.median(std[enough[:, c], c])
            std[:, c] = np.where(enough[:, c], np.maximum(std[:, c], _LEAST_OF_MEDIAN * median), median)
        seen = count[:, c] > 0
        if seen.any():
            mean[~seen, c] = mean[seen, c].mean()
    return mean, _floored(std, floor), count


def channel_moments(values: Array, floor: Array | float | None = None) -> tuple[Array, Array]:
    """Compute mean and standard deviation ``[channel]`` over all stations and steps.

    ``values`` is ``[time, station, channel]``, NaN = missing; ``floor`` is as in `station_moments`.
    """
    mean, _, count = station_moments(values, floor=0.0, fewest=0)
    weight = count / np.maximum(count.sum(axis=0), 1.0)
    centre = (weight * mean).sum(axis=0)
    spread = np.zeros_like(centre)
    for first in range(0, values.shape[1], _STATION_BLOCK):
        block = values[:, first : first + _STATION_BLOCK].astype(np.float64) - centre
        spread += np.where(np.isfinite(block), block**2, 0.0).sum(axis=(0, 1))
    return centre, _floored(np.sqrt(spread / np.maximum(count.sum(axis=0), 1.0)), floor)


def change_std(values: Array, time: Array, step_seconds: int, floor: Array | float | None = None) -> Array:
    """Compute the root mean square ``[channel]`` of the change over one step.

    Parameters
    ----------
    values : ``[time, station, channel]``, NaN = missing
    time : seconds since 1970 UTC ``[time]``; steps longer than ``step_seconds`` are not counted
    step_seconds : length of a step
    floor : least standard deviation, as in `station_moments`
    """
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
        """Fit to values ``[time, station, channel]`` of any channels; arguments as in `change_std`."""
        anomaly = np.empty_like(values)
        for first in range(0, values.shape[1], _STATION_BLOCK):
            part = slice(first, first + _STATION_BLOCK)
            anomaly[:, part] = values[:, part] - climatology.take(part).at(time)
        return cls(
            *channel_moments(values, floor), *station_moments(values, floor),
            change_std(values, time, step_seconds, floor), channel_moments(anomaly, floor)[1],
            station_moments(anomaly, floor)[1],
        )  # fmt: skip
