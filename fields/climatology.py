r"""What is usual at a station, at an hour, and in a season: the reference that anomalies and baselines start from.

.. math:: \bar x_i(t) = m_{i,h(t)} + \sum_k b_{ik} f_k(t)

with :math:`h` the time of day at the cadence (UTC) and :math:`f_k` annual harmonics, or :math:`m` by month as well. Few
values say little, so that each estimate is drawn towards what the network says: a cell towards the station's mean plus
the network's cycle, a station's harmonics towards those of the network. Statistics are of the steps that are given.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np

from .errors import DataError, UsageError
from .series import StationSeries
from .time_features import annual_harmonics, month_of
from .windows import Split

__all__ = ["Climatology"]

Array = np.ndarray[Any, Any]
log = logging.getLogger(__name__)

_DAY = 86_400
_YEAR = 365.25 * _DAY
# Harmonics of a year that was not seen nearly whole are a trend, and a trend goes astray beyond the record.
_LEAST_YEARS = 0.8
_STATION_BLOCK = 64
# Rounds of the additive fit of station and hour: exact after one without gaps, 1e-6 of the daily range with a third.
_ROUNDS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Climatology:
    """Tables and harmonics; look-up with `at`.

    ``table`` is float32 ``[12 months or 1, hour, station, channel]``; ``waves`` float32 ``[k, station, channel]``, the
    factors of `annual_harmonics`; ``slot_seconds`` the length of an hour of the table, ``origin`` the seconds after
    midnight UTC at which the first begins.
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
        """Fit to the training split of a record; see `fit`."""
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
        time, step_seconds : seconds since 1970 UTC, and the cadence
        annual : harmonics of the year, 0 to 2; none are fitted to less than 0.8 years, whatever is asked for
        daily : with the products of these and the daily cycle
        by_month : a table for each month instead
        shrink : values that the network's cycle counts for in each cell
        ridge_days : days of values that the network's harmonics count for at each station
        """
        if len(time) == 0 or not np.isfinite(values).any():
            raise DataError("a climatology needs at least one value to be fitted to", code="SPDE-D154")
        if by_month and annual:
            raise UsageError("a climatology has a table for each month or annual harmonics, not both", code="SPDE-D154")
        covered = (int(time[-1]) - int(time[0])) / _YEAR
        if annual and covered < _LEAST_YEARS:
            log.info("training covers %.2f years: no annual harmonics are fitted", covered)
            annual = 0
        slot_seconds = gcd(step_seconds, _DAY)
        slots, months = _DAY // slot_seconds, 12 if by_month else 1
        made = cls(np.empty((months, slots, 0, 0), np.float32), np.empty((0, 0, 0), np.float32), slot_seconds,
                   int(time[0]) % slot_seconds, annual, daily and annual > 0)  # fmt: skip
        basis = made.basis(time)
        rows = made.rows(time)
        sums = [_Sums.of(block, rows, basis, months * slots) for block in _blocks(values)]
        total = _Sums.joined(sums)
        waves = total.waves(ridge_days * _DAY / step_seconds) if annual else np.zeros((0, *total.offset.shape))
        table = total.cells(waves, shrink, slots)
        shape = (months, slots, *total.offset.shape)
        return replace(made, table=table.reshape(shape).astype(np.float32), waves=waves.astype(np.float32))

    @property
    def slots(self) -> int:
        """Hours of the table."""
        return int(self.table.shape[1])

    def rows(self, time: Array) -> Array:
        """The row of the flattened table to which times belong."""
        slot = (time - self.origin) // self.slot_seconds % self.slots
        found: Array = slot if self.table.shape[0] == 1 else (month_of(time) - 1) * self.slots + slot
        return found

    def basis(self, time: Array) -> Array:
        """The harmonics ``[..., k]`` at times."""
        found = annual_harmonics(time, self.annual, self.daily, np)
        return np.stack(found, axis=-1) if found else np.zeros((*np.shape(time), 0))

    def at(self, time: Array) -> Array:
        """The climatology, float32 ``[..., station, channel]``, at times (seconds since 1970, UTC) of any shape."""
        time = np.asarray(time, np.int64)
        flat = self.table.reshape(-1, *self.table.shape[2:])
        found = flat[self.rows(time)]
        if self.waves.shape[0]:
            found += np.tensordot(self.basis(time).astype(np.float32), self.waves, axes=1)
        return found

    def take(self, stations: Array | Sequence[int] | slice) -> Climatology:
        """The climatology of some of the stations, by number or mask."""
        return replace(self, table=self.table[:, :, stations], waves=self.waves[:, stations])


def _blocks(values: Array) -> Iterator[Array]:
    """Blocks of stations in float64: a copy of a whole national record would not fit beside it."""
    for first in range(0, values.shape[1], _STATION_BLOCK):
        yield values[:, first : first + _STATION_BLOCK].astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sufficient statistics: ``n`` and ``s`` count and sum values less ``offset`` ``[station, channel]`` by row of the
    table; ``fd``, ``ff``, ``fy`` are the products of the harmonics with rows, with each other and with the values.
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
        known = np.where(there, flat, 0.0)
        seen = there.astype(np.float64)
        offset = known.sum(axis=0) / np.maximum(seen.sum(axis=0), 1.0)
        known -= offset * seen  # small numbers, so that nothing is lost in sums of squares of 1e5 Pa
        waves = basis.shape[1]
        n, s = (np.zeros((count, flat.shape[1])) for _ in range(2))
        fd = np.zeros((count, waves, flat.shape[1]))
        for row in np.unique(rows):
            inside = rows == row
            n[row], s[row] = seen[inside].sum(axis=0), known[inside].sum(axis=0)
            fd[row] = basis[inside].T @ seen[inside]
        pairs = (basis[:, :, None] * basis[:, None, :]).reshape(steps, -1)
        parts = (offset, n, s, fd, (pairs.T @ seen).reshape(waves, waves, flat.shape[1]), basis.T @ known)
        return cls(*(part.reshape(*part.shape[:-1], stations, channels) for part in parts))

    @classmethod
    def joined(cls, parts: Sequence[_Sums]) -> _Sums:
        names = ("offset", "n", "s", "fd", "ff", "fy")
        return cls(*(np.concatenate([getattr(part, name) for part in parts], axis=-2) for name in names))

    def waves(self, ridge: float) -> Array:
        r"""Factors of the harmonics ``[k, station, channel]``, the table being free.

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
        found = np.linalg.solve(a + unit, (r + ridge * network)[..., None])[..., 0]
        return found.transpose(2, 0, 1)

    def cells(self, waves: Array, shrink: float, slots: int) -> Array:
        """The table ``[row, station, channel]`` once the harmonics are taken out."""
        s = self.s - np.einsum("rksc,ksc->rsc", self.fd, waves) if len(waves) else self.s
        station, cycle = _additive(self.n, s, slots)
        seen = self.n.sum(axis=0) > 0
        level = self.offset + station
        weight = seen.sum(axis=0)
        mean = np.where(seen, level, 0.0).sum(axis=0) / np.maximum(weight, 1)
        usual = np.where(seen, level, mean) + cycle[:, None]
        return usual + (s - self.n * (usual - self.offset)) / np.maximum(self.n + shrink, 1e-9)


def _additive(n: Array, s: Array, slots: int) -> tuple[Array, Array]:
    """Least-squares ``station[station, channel] + cycle[row, channel]`` of sums ``s`` of ``n`` values."""
    cycle = np.zeros((n.shape[0], n.shape[2]))
    by_station, by_row = n.sum(axis=0), n.sum(axis=1)
    for _ in range(_ROUNDS):
        station = (s - n * cycle[:, None]).sum(axis=0) / np.maximum(by_station, 1.0)
        cycle = (s - n * station).sum(axis=1) / np.maximum(by_row, 1.0)
    # A month that nobody saw takes the hour's mean over the other months.
    seen = (by_row > 0).reshape(-1, slots, n.shape[2])
    tables = cycle.reshape(seen.shape)
    instead = tables.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return station, np.where(seen, tables, instead).reshape(cycle.shape)
