r"""Climatology of each station by time of day and season: the reference of anomalies and baselines.

.. math:: \bar x_i(t) = m_{i,h(t)} + \sum_k b_{ik} f_k(t)

with :math:`h` the time of day at the cadence (UTC) and :math:`f_k` annual harmonics, or :math:`m` by month as well. An
estimate from few values is uncertain, so each is drawn towards that of the network: a cell of the table towards the
station's mean plus the network's daily cycle, a station's harmonics towards those of the network.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np

from fields.errors import DataError, UsageError
from fields.times import DAY
from fields.windows.series import StationSeries
from fields.windows.time_features import annual_harmonics, month_of
from fields.windows.windows import Split

__all__ = ["Climatology"]

Array = np.ndarray[Any, Any]
log = logging.getLogger(__name__)

_YEAR = 365.25 * DAY
# Annual harmonics fitted to less of a year are a trend, and extrapolating a trend beyond the record gives large errors.
_LEAST_YEARS = 0.8
_STATION_BLOCK = 64
# Rounds of the additive fit of station and hour: exact after one without gaps, 1e-6 of the daily range with a third.
_ROUNDS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Climatology:
    """Tables and harmonics of a climatology; `at` evaluates it.

    Parameters
    ----------
    table : float32 ``[12 months or 1, slot, station, channel]``, by time of day
    waves : float32 ``[k, station, channel]``, the factors of `annual_harmonics`
    slot_seconds : length of a slot of the table
    origin : seconds after midnight UTC at which the first slot begins
    annual, daily : number of annual harmonics, and whether their products with the daily cycle are included
    """

    table: Array
    waves: Array
    slot_seconds: int
    origin: int = 0
    annual: int = 0
    daily: bool = False

    @classmethod
    def of(
        cls, series: StationSeries, split: Split, *, annual: int = 0, daily: bool = False, by_month: bool = False,
        shrink: float = 4.0, ridge_days: float = 10.0,
    ) -> Climatology:  # fmt: skip
        """Fit to the training split of a record; further arguments as in `fit`."""
        steps = split.slice("train")
        return cls.fit(
            series.time[steps], series.values[steps], series.step_seconds, annual=annual, daily=daily,
            by_month=by_month, shrink=shrink, ridge_days=ridge_days,
        )  # fmt: skip

    @classmethod
    def fit(
        cls, time: Array, values: Array, step_seconds: int, *, annual: int = 0, daily: bool = False,
        by_month: bool = False, shrink: float = 4.0, ridge_days: float = 10.0,
    ) -> Climatology:  # fmt: skip
        """Fit to values ``[time, station, channel]``, NaN where missing.

        Parameters
        ----------
        time : seconds since 1970 UTC ``[time]``
        values : ``[time, station, channel]``
        step_seconds : the cadence
        annual : number of annual harmonics, 0 to 2; none are fitted to less than 0.8 years of data
        daily : whether to add the products of the annual harmonics with the daily cycle
        by_month : whether to fit a table for each month instead of harmonics
        shrink : weight of the network's cycle in each cell of the table, as a number of values
        ridge_days : weight of the network's harmonics at each station, as days of values
        """
        if len(time) == 0 or not np.isfinite(values).any():
            raise DataError("a climatology needs at least one value to be fitted to", code="SPDE-D154")
        if by_month and annual:
            raise UsageError("a climatology has a table for each month or annual harmonics, not both", code="SPDE-D154")
        covered = (int(time[-1]) - int(time[0])) / _YEAR
        if annual and covered < _LEAST_YEARS:
            log.info("training covers %.2f years: no annual harmonics are fitted", covered)
            annual = 0
        slot_seconds = gcd(step_seconds, DAY)
        slots, months = DAY // slot_seconds, 12 if by_month else 1
        empty = cls(np.empty((months, slots, 0, 0), np.float32), np.empty((0, 0, 0), np.float32), slot_seconds,
                    int(time[0]) % slot_seconds, annual, daily and annual > 0)  # fmt: skip
        basis = empty.basis(time)
        rows = empty.rows(time)
        sums = [_Sums.of(block, rows, basis, months * slots) for block in _blocks(values)]
        total = _Sums.joined(sums)
        waves = total.waves(ridge_days * DAY / step_seconds) if annual else np.zeros((0, *total.offset.shape))
        table = total.cells(waves, shrink, slots)
        shape = (months, slots, *total.offset.shape)
        return replace(empty, table=table.reshape(shape).astype(np.float32), waves=waves.astype(np.float32))

    @property
    def slots(self) -> int:
        """Number of times of day in the table."""
        return int(self.table.shape[1])

    def rows(self, time: Array) -> Array:
        """Return the row of the flattened table to which each time belongs."""
        slot = (time - self.origin) // self.slot_seconds % self.slots
        row: Array = slot if self.table.shape[0] == 1 else (month_of(time) - 1) * self.slots + slot
        return row

    def basis(self, time: Array) -> Array:
        """Evaluate the harmonics ``[..., k]`` at times."""
        harmonics = annual_harmonics(time, self.annual, self.daily, np)
        return np.stack(harmonics, axis=-1) if harmonics else np.zeros((*np.shape(time), 0))

    def at(self, time: Array) -> Array:
        """Evaluate at times of any shape (seconds since 1970 UTC): float32 ``[..., station, channel]``."""
        time = np.asarray(time, np.int64)
        flat = self.table.reshape(-1, *self.table.shape[2:])
        values = flat[self.rows(time)]
        if self.waves.shape[0]:
            values += np.tensordot(self.basis(time).astype(np.float32), self.waves, axes=1)
        return values

    def take(self, stations: Array | Sequence[int] | slice) -> Climatology:
        """Return the climatology of the stations chosen by number, mask or slice."""
        return replace(self, table=self.table[:, :, stations], waves=self.waves[:, stations])


def _blocks(values: Array) -> Iterator[Array]:
    """Yield blocks of stations in float64: a copy of a whole national record would not fit into memory beside it."""
    for first in range(0, values.shape[1], _STATION_BLOCK):
        yield values[:, first : first + _STATION_BLOCK].astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sufficient statistics of the fit.

    ``n`` and ``s`` are count and sum of the values less ``offset`` ``[station, channel]`` by row of the table; ``fd``,
    ``ff``, ``fy`` are the products of the harmonics with rows, with each other and with the values.
    """

    offset: Array  # [station, channel]
    n: Array  # [row, station, channel]
    s: Array
    fd: Array  # [row, k, station, channel]
    ff: Array  # [k, k, station, channel]
    fy: Array  # [k, station, channel]

    @classmethod
    def of(cls, values: Array, rows: Array, basis: Array, count: int) -> _Sums:
        steps, (stations, channels) = len(values), values.shape[1:]
        flat = values.reshape(steps, -1)
        there = np.isfinite(flat)
        filled = np.where(there, flat, 0.0)
        seen = there.astype(np.float64)
        offset = filled.sum(axis=0) / np.maximum(seen.sum(axis=0), 1.0)
        filled -= offset * seen  # small numbers, so that no digits are lost in sums of squares of 1e5 Pa
        waves = basis.shape[1]
        n, s = (np.zeros((count, flat.shape[1])) for _ in range(2))
        fd = np.zeros((count, waves, flat.shape[1]))
        for row in np.unique(rows):
            inside = rows == row
            n[row], s[row] = seen[inside].sum(axis=0), filled[inside].sum(axis=0)
            fd[row] = basis[inside].T @ seen[inside]
        pairs = (basis[:, :, None] * basis[:, None, :]).reshape(steps, -1)
        parts = (offset, n, s, fd, (pairs.T @ seen).reshape(waves, waves, flat.shape[1]), basis.T @ filled)
        return cls(*(part.reshape(*part.shape[:-1], stations, channels) for part in parts))

    @classmethod
    def joined(cls, parts: Sequence[_Sums]) -> _Sums:
        names = ("offset", "n", "s", "fd", "ff", "fy")
        return cls(*(np.concatenate([getattr(part, name) for part in parts], axis=-2) for name in names))

    def waves(self, ridge: float) -> Array:
        r"""Solve for the factors of the harmonics ``[k, station, channel]``, the table being free.

        Eliminating the table leaves :math:`A_i b_i = r_i` for each station and channel. The network's factors solve
        :math:`\sum_i A_i b = \sum_i r_i`; a station's are drawn to them,
        :math:`(A_i + \lambda) b_i = r_i + \lambda b`.
        """
        share = 1.0 / np.maximum(self.n, 1.0)
        a = self.ff - np.einsum("rksc,rlsc,rsc->klsc", self.fd, self.fd, share, optimize=True)
        r = self.fy - np.einsum("rksc,rsc,rsc->ksc", self.fd, self.s, share, optimize=True)
        a, r = a.transpose(2, 3, 0, 1), r.transpose(1, 2, 0)  # [station, channel, k(, k)]
        unit = ridge * np.eye(a.shape[-1])
        network = np.linalg.solve(a.sum(axis=0) + unit, r.sum(axis=0)[..., None])[..., 0]
        factors = np.linalg.solve(a + unit, (r + ridge * network)[..., None])[..., 0]
        return factors.transpose(2, 0, 1)

    def cells(self, waves: Array, shrink: float, slots: int) -> Array:
        """Compute the table ``[row, station, channel]`` of the values less the harmonics."""
        s = self.s - np.einsum("rksc,ksc->rsc", self.fd, waves) if len(waves) else self.s
        station, cycle = _additive(self.n, s, slots)
        seen = self.n.sum(axis=0) > 0
        level = self.offset + station
        weight = seen.sum(axis=0)
        mean = np.where(seen, level, 0.0).sum(axis=0) / np.maximum(weight, 1)
        prior = np.where(seen, level, mean) + cycle[:, None]
        return prior + (s - self.n * (prior - self.offset)) / np.maximum(self.n + shrink, 1e-9)


def _additive(n: Array, s: Array, slots: int) -> tuple[Array, Array]:
    """Fit ``station[station, channel] + cycle[row, channel]`` by least squares to sums ``s`` of ``n`` values."""
    cycle = np.zeros((n.shape[0], n.shape[2]))
    by_station, by_row = n.sum(axis=0), n.sum(axis=1)
    for _ in range(_ROUNDS):
        station = (s - n * cycle[:, None]).sum(axis=0) / np.maximum(by_station, 1.0)
        cycle = (s - n * station).sum(axis=1) / np.maximum(by_row, 1.0)
    # A month without any value gets the hour's mean over the other months.
    seen = (by_row > 0).reshape(-1, slots, n.shape[2])
    tables = cycle.reshape(seen.shape)
    instead = tables.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return station, np.where(seen, tables, instead).reshape(cycle.shape)
