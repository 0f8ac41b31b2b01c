r"""Statistics of the training split: climatologies, scales, and the filling of gaps in a history.

Everything here is fitted to the steps that it is given; `Climatology.of` and `Statistics.of` give the training split
and nothing else. Sums are float64, stations are taken in blocks, and missing values are NaN.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from .series import StationSeries
from .time_features import annual_harmonics, month_of
from .variables import VARIABLES
from .windows import Split

__all__ = ["Climatology", "Statistics", "change_std", "channel_moments", "fill_history", "station_moments"]

Array = np.ndarray[Any, Any]
log = logging.getLogger(__name__)

_DAY = 86_400
_YEAR = 365.25 * _DAY
# Harmonics of a year that was not seen nearly whole are a trend, and a trend goes astray beyond the record.
_LEAST_YEARS = 0.8
_STATION_BLOCK = 64
# Rounds of the additive fit of station and hour; with gaps of a third it has converged to 1e-9 of the daily range.
_ROUNDS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Climatology:
    r"""What is usual at a station, at an hour, and in a season.

    .. math:: \bar x_{i}(t) = m_{i,h(t)[,\text{month}(t)]} + \sum_k b_{ik} f_k(t)

    with :math:`h` the time of day at the cadence (UTC) and :math:`f_k` annual harmonics (`annual_harmonics`).

    ``table`` is float32 ``[month or 1, hour, station, channel]``; ``waves`` float32 ``[k, station, channel]``;
    ``slot_seconds`` the length of an hour of the table and ``origin`` the time of day of the first.
    """

    table: Array
    waves: Array
    slot_seconds: int
    origin: int
    annual: int = 0
    daily: bool = False

    @classmethod
    def of(
        cls, series: StationSeries, split: Split, *, annual: int = 0, daily: bool = False, by_month: bool = False,
        shrink: float = 4.0, ridge_days: float = 3.0,
    ) -> Climatology:  # fmt: skip
        """Fit to the training split of a record; see `fit`."""
        steps = split.slice("train")
        return cls.fit(
            series.time[steps], series.values[steps], series.step_seconds, annual=annual, daily=daily,
            by_month=by_month, shrink=shrink, ridge_days=ridge_days,
        )  # fmt: skip

    @classmethod
    def fit(
        cls, time: Array, values: Array, step_seconds: int, *, annual: int = 0, daily: bool = False,
        by_month: bool = False, shrink: float = 4.0, ridge_days: float = 3.0,
    ) -> Climatology:  # fmt: skip
        raise NotImplementedError

    @property
    def slots(self) -> int:
        """Hours of the table."""
        return int(self.table.shape[1])

    def at(self, time: Array) -> Array:
        """The climatology ``[..., station, channel]`` at times (seconds since 1970, UTC) of any shape."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Scales of the training split, float64, SI; every standard deviation has a floor and none is NaN.

    ``mean``, ``std`` are ``[channel]`` over all stations and steps; ``station_mean``, ``station_std`` ``[station,
    channel]``; ``change_std`` ``[channel]`` of the change over one step; ``anomaly_std`` ``[channel]`` and
    ``station_anomaly_std`` of departures from the climatology; ``counts`` the values behind each station's.
    """

    mean: Array
    std: Array
    station_mean: Array
    station_std: Array
    change_std: Array
    anomaly_std: Array
    station_anomaly_std: Array
    counts: Array

    @classmethod
    def of(cls, series: StationSeries, split: Split, climatology: Climatology) -> Statistics:
        """Fit to the training split of a record."""
        raise NotImplementedError


def channel_moments(values: Array, floor: Array | None = None) -> tuple[Array, Array]:
    """Mean and standard deviation ``[channel]`` of values ``[..., channel]``, NaN-aware and floored."""
    raise NotImplementedError


def station_moments(values: Array, floor: Array | None = None, fewest: int = 30) -> tuple[Array, Array, Array]:
    """Mean, standard deviation and count ``[station, channel]`` of values ``[time, station, channel]``."""
    raise NotImplementedError


def change_std(values: Array, time: Array, step_seconds: int, floor: Array | None = None) -> Array:
    """Standard deviation ``[channel]`` of the change over one step of values ``[time, station, channel]``."""
    raise NotImplementedError


def fill_history(history: Array, climatology: Array) -> Array:
    """Fill gaps in histories ``[..., T, N, C]`` from within the window; ``climatology`` has the same shape."""
    raise NotImplementedError
