"""Put sources whose rows are times in any order on a regular axis: sorted, doubles settled, gaps left empty."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from fields.errors import DataError, ProblemReport, locate
from fields.readers.assemble import assemble, conflict_error
from fields.readers.axis import find_axis
from fields.readers.source import Network, ReadOptions, Source, SourceView, Workspace
from fields.readers.spool import Records
from fields.times import format_span, format_time, require_era

__all__ = ["RowSource", "warn_of_half_precision", "with_unique_stations"]

Array = np.ndarray[Any, Any]
# Rows of the future that are looked through for the stations that report in them.
_MOST_LATE = 512
_CHECK_CLOCKS = "check the clock of this machine and that of the data (--time-zone), or give the time by --at TIME"


class RowSource(Source):
    """Base of sources that can read any rows of an array [time, station]."""

    def __init__(
        self, seconds: Array, network: Network, units: Mapping[str, str], options: ReadOptions, work: Workspace
    ) -> None:
        self.report = ProblemReport()
        self.network, self.units = network, units
        self._seconds = seconds
        self._on_duplicate = options.on_duplicate
        self._command = work.command
        command = work.command.with_options()
        require_era(seconds)
        past = np.ones(seconds.size, bool) if options.until is None else seconds <= options.until
        self._warn_of_future(np.flatnonzero(~past))
        self.axis = find_axis(np.unique(seconds[past]), options.step, options.tolerance, self.label, command)
        if np.any(np.diff(seconds) < 0):
            at = int(np.flatnonzero(np.diff(seconds) < 0)[0])
            self.report.notice("SPDE-D035", "times were not in order and have been sorted", where=self.label,
                               why=f"first at {format_time(int(seconds[at + 1]))}")  # fmt: skip
        slot, distance = self.axis.slots(seconds)
        near = past & (distance <= self.axis.tolerance) & (slot >= 0) & (slot < self.axis.count)
        between = np.flatnonzero(past & ~near)
        if between.size:
            # A step that the user declares leaves out what he knows of.
            say = self.report.warning if options.step is None else self.report.notice
            first = ", ".join(format_time(int(t)) for t in seconds[between[:3]])
            say("SPDE-D036", f"{between.size:,} times lie between the steps of the axis and were left out",
                where=self.label, why=f"first {first}, steps of {format_span(self.axis.step)}")  # fmt: skip
        order = np.flatnonzero(near)
        order = order[np.argsort(slot[order], kind="stable")]
        self._row, self._slot = order, slot[order]
        twice = self._row.size - np.unique(self._slot).size
        if twice:
            self.report.notice("SPDE-D034", f"{twice:,} times are there more than once", where=self.label)

    def _warn_of_future(self, late: Array) -> None:
        """Name the stations that report in rows after the last second to be read; such rows are left out."""
        if late.size == 0:
            return
        tables = self.rows(late[:_MOST_LATE]).values()
        reporting = np.any([np.isfinite(table).any(axis=0) for table in tables], axis=0)
        last = format_time(int(self._seconds[late].max()))
        if reporting.any():
            self.report.warning(
                "SPDE-D112", f"reports dated in the future are ignored, up to {last} UTC",
                where=locate(self.label, stations=self.network.ids[reporting], out_of=len(self.network)),
            )  # fmt: skip
        if late.size == self._seconds.size:
            raise DataError(f"{self.label}: every time is in the future, up to {last} UTC", code="SPDE-D112",
                            do=_CHECK_CLOCKS)  # fmt: skip

    @abstractmethod
    def rows(self, index: Array) -> dict[str, Array]:
        """Read the variables [row, station] of the rows at these positions."""

    def read(self, start: int, stop: int) -> dict[str, Array]:
        """Read the variables [time, station] of the steps ``start`` to ``stop``."""
        low, high = np.searchsorted(self._slot, [start, stop])
        picked, slot = self._row[low:high], self._slot[low:high]
        tables = self.rows(picked)
        if slot.size == stop - start and slot.size == np.unique(slot).size:
            return tables
        return self._placed(tables, picked, slot, start, stop)

    def _placed(self, tables: dict[str, Array], picked: Array, slot: Array, start: int, stop: int) -> dict[str, Array]:
        """Put rows on their steps: gaps become NaN, rows that share a step are settled value by value."""
        count = len(self.network)
        placed = {name: np.full((stop - start, count), np.nan, np.float32) for name in tables}
        values, times = np.unique(slot, return_counts=True)
        single = np.isin(slot, values[times == 1])
        for name, table in tables.items():
            placed[name][slot[single] - start] = table[single]
        if single.all():
            return placed
        names = list(tables)
        rest = np.flatnonzero(~single)
        station = np.tile(np.arange(count, dtype=np.int32), rest.size)
        time = np.repeat(self._seconds[picked[rest]], count)
        stacked = np.stack([tables[name][rest].reshape(-1) for name in names])
        ids = [str(name) for name in self.network.ids]
        settled = assemble(Records(time, station, stacked), self.axis, start, stop, ids, names, self._on_duplicate)
        if settled.conflict:
            first = self._command.with_options(("--on-duplicate", "first"))
            hours = "save the times with their hours, to the second"
            raise conflict_error(settled, self.label, first, self.axis, hours)
        shared = np.unique(slot[rest]) - start
        for name, table in zip(names, settled.values):
            placed[name][shared] = table[shared]
        return placed


def warn_of_half_precision(report: ProblemReport, label: str, what: str) -> None:
    """Tell that values were rounded to three digits before they were stored."""
    report.warning(
        "SPDE-D145", f"{what} is stored in 16 bits, which hold three digits", where=label,
        why="pressure to 0.5 hPa, temperature in kelvin to 0.25 K",
        do="write the file again from the source of the values, as float32",
    )  # fmt: skip


def with_unique_stations(source: Source, options: ReadOptions, work: Workspace) -> Source:
    """Refuse station ids that occur twice; with ``--fix`` columns that agree are merged while reading."""
    ids, counts = np.unique(source.network.ids, return_counts=True)
    if np.all(counts == 1):
        return source
    double = ids[counts > 1].tolist()
    if not options.fix:
        raise DataError(
            f"{len(double)} station ids occur more than once",
            code="SPDE-D033",
            where=locate(source.label, stations=double, out_of=len(ids)),
            do=work.command.with_options(("--fix", "")) + "   merges them if they agree",
        )
    return _Merged(source)


class _Merged(SourceView):
    """Source with stations of one id merged, if they stand at one place and agree."""

    def __init__(self, inner: Source) -> None:
        super().__init__(inner)
        network = inner.network
        ids, first, group = np.unique(network.ids, return_index=True, return_inverse=True)
        self._place = np.argsort(np.argsort(first))[group]  # column -> merged column, in order of first occurrence
        self.network = network.take(np.sort(first))
        for name in ("lat", "lon", "alt"):
            if not np.array_equal(getattr(network, name), getattr(self.network, name)[self._place], equal_nan=True):
                raise DataError("stations with one id stand at different places, so --fix cannot merge them",
                                code="SPDE-D033", where=inner.label)  # fmt: skip
        self.report.notice("SPDE-D033", f"{len(network) - len(ids)} stations that occurred twice were merged",
                           where=inner.label)  # fmt: skip

    def read(self, start: int, stop: int) -> dict[str, Array]:
        """Read the variables with one column for each id."""
        return {name: self._merge(name, table) for name, table in self._inner.read(start, stop).items()}

    def _merge(self, name: str, table: Array) -> Array:
        joined = np.full((table.shape[0], len(self.network)), np.nan, table.dtype)
        for column, target in enumerate(self._place):
            here, there = table[:, column], joined[:, target]
            both = ~np.isnan(here) & ~np.isnan(there)
            if np.any(here[both] != there[both]):
                who = [self._inner.network.ids[column]]
                raise DataError("stations with one id report different values, so --fix cannot merge them",
                                code="SPDE-D033", where=locate(self.label, name, stations=who))  # fmt: skip
            joined[:, target] = np.where(np.isnan(there), here, there)
        return joined
