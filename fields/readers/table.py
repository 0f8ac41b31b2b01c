"""Read tables by column map: one CSV or parquet file for each station, or long ones, in folders and archives."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fields.errors import DataError, FieldsError, ProblemReport, UsageError, locate, printable
from fields.readers.archives import Member, members, tables_in
from fields.readers.assemble import AssembledBlock, assemble, conflict_error
from fields.readers.axis import Reports, find_axis
from fields.readers.column_choice import folded
from fields.readers.column_map import ColumnMap, load_map, shipped_map
from fields.readers.csv_text import examine
from fields.readers.fixed_lines import LineFormat
from fields.readers.gathering import GatheredTables, gather
from fields.readers.parquet import is_parquet, parquet_columns
from fields.readers.registry import Reader
from fields.readers.safety import file_kind
from fields.readers.source import EveryNthStep, ReadOptions, Source, Workspace
from fields.times import DAY, format_span, format_time, summer_time_jumps
from fields.variables import PressureKind

__all__ = ["READER", "TableSource", "choose_map", "draft_command", "without_absent_columns"]

# Tried in this order where the user names no map.
_TRIED = ("inmet", "tidy")
_HOUR = 3600
# A hole in one station's record is weather; in five stations' at once it is the clock.
_FEWEST_FOR_CLOCK = 5
_WRITE_HOURS = (
    "write date and hour in one column, as 2024-01-13T05:00; or name the columns of both, under [time] of a column map "
    "(--map FILE.toml): columns = ['date', 'hour'], format = '%Y-%m-%d %H'"
)


class TableSource(Source):
    """Spooled table on its regular axis."""

    reads_words = True

    def __init__(
        self, path: Path, column_map: ColumnMap, options: ReadOptions, work: Workspace, reader: str = "table",
        lines: LineFormat | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.reader, self.label = reader, printable(path.name)
        self._gathered: GatheredTables = gather(path, column_map, options, work, lines)
        self._command = work.command
        self._on_duplicate = options.on_duplicate
        self._named_off = False
        self.report.extend(self._gathered.report)
        self.zone = self._gathered.zone.name
        self.network = self._gathered.roster.network()
        self.about = column_map.title
        places = {name: column_map.stations.units.get(name, "m" if name == "alt" else "degrees")
                  for name in ("lat", "lon", "alt")}  # fmt: skip
        there = self._gathered.variables
        self.units = {**{name: column_map.variables[name].unit for name in there}, **places}
        self.pressure_kind = column_map.pressure_kind
        self._names = list(column_map.variables)
        step = options.step or column_map.time.step
        tolerance = options.tolerance if options.tolerance is not None else column_map.time.tolerance
        spool, count = self._gathered.spool, len(self.network)
        distinct, rows = spool.distinct_times()
        if distinct.size == 0 and self._gathered.report.warnings:
            raise DataError(
                f"{self.label}: every report is dated in the future", code="SPDE-D112",
                where=self._gathered.report.warnings[0].what,
                do="check the clock of this machine and that of the data (--time-zone), or give the time by --at TIME",
            )  # fmt: skip
        reports = Reports(rows, lambda step, phase: float((spool.rows_off(step, phase, count) > 0).mean()))
        self.axis = find_axis(distinct, step, tolerance, self.label, work.command.with_options(), reports)
        if step is None and self.axis.tolerance == 0:
            self._warn_of_rows_between(int(np.gcd.reduce(np.diff(distinct))) if distinct.size > 1 else 0)
        self._holes = self._clock_holes(distinct)
        self._doubles = self._off_axis = self._conflicts = 0

    def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Read the variables [time, station] of the steps ``start`` to ``stop``."""
        axis = self.axis
        begin = axis.start + start * axis.step
        reach = max(axis.tolerance, (axis.step - 1) // 2)
        rows = self._gathered.spool.read(begin - reach, begin + (stop - start - 1) * axis.step + reach + 1)
        block = assemble(rows, axis, start, stop, self._gathered.roster.ids, self._names, self._on_duplicate)
        if block.conflict:
            raise self._conflict(block, start)
        self._doubles += block.doubles
        self._off_axis += block.off_axis
        self._conflicts += block.conflicts
        return {name: table for name, table in zip(self._names, block.values) if name in self.units}

    def findings(self) -> ProblemReport:
        """Return the findings, with counts of doubles and of rows beside the axis, once everything has been read."""
        report = ProblemReport()
        report.extend(self.report)
        settled = {"first": "the first was kept", "mean": "their mean was taken"}.get(self._on_duplicate or "", "")
        if self._conflicts:
            what = f"{self._conflicts:,} rows contradicted each other: {settled}"
            report.warning("SPDE-D034", what, where=self.label)
        elif self._doubles:
            report.notice("SPDE-D034", f"{self._doubles:,} rows were there twice and were merged", where=self.label)
        if self._off_axis and self.axis.tolerance == 0 and not self._named_off:
            report.notice(
                "SPDE-D036", f"{self._off_axis:,} rows lie between the steps of the axis and were left out",
                where=self.label,
                do=f"{self._command.with_options(('--tolerance', '10min'))}   takes those within 10 minutes",
            )  # fmt: skip
        if self._holes.size and not self._gathered.zone_declared:
            # One absent hour on such a day may be chance, two are a rule.
            say = report.error if self._holes.size > 1 else report.warning
            say(
                "SPDE-D037", "times look like a clock with summer time, and no zone is declared", where=self.label,
                why=f"every station lacks an hour on {', '.join(map(str, self._holes[:3]))}", do=self._ask_zone(),
            )  # fmt: skip
        return report

    def _warn_of_rows_between(self, divisor: int) -> None:
        """Name the stations that report between the steps that the rest of the network keeps."""
        axis = self.axis
        off = self._gathered.spool.rows_off(axis.step, axis.start % axis.step, len(self.network))
        self._named_off = bool(off.any())
        if self._named_off:
            finer = format_span(divisor)
            self.report.warning(
                "SPDE-D036", f"{int(off.sum()):,} reports lie between the steps of {format_span(axis.step)} that most "
                "of the network keeps, and are left out",
                where=locate(self.label, stations=self.network.ids[off > 0], out_of=len(self.network)),
                do=f"{self._command.with_options(('--step', finer))}   takes them",
            )  # fmt: skip

    def _ask_zone(self) -> str:
        """Write the command that declares the clock."""
        command = self._command.with_options(("--time-zone", "Area/City"))
        return f"{command} (as Europe/Paris; UTC if the hours are right)"

    def _clock_holes(self, distinct: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Find days on which no station reports one of the small hours: a clock was put forward."""
        if len(self.network) < _FEWEST_FOR_CLOCK:
            return np.empty(0, "datetime64[D]")
        return summer_time_jumps(distinct.astype("datetime64[s]"))[0]

    def _conflict(self, block: AssembledBlock, start: int) -> DataError:
        crowd = block.slot_doubles
        step = self.axis.step
        if crowd is not None and not self._gathered.zone_declared and step <= _HOUR:
            twice = np.flatnonzero(crowd >= max(2, len(self.network)))
            days = np.unique((self.axis.start + (start + twice) * step) // DAY)
            # Clocks are put back once a year, by an hour.
            once_a_year = days.size <= 2 + self.axis.count * step // (180 * DAY)
            if once_a_year and 0 < twice.size <= days.size * (_HOUR // step):
                when = format_time(self.axis.start + (start + int(twice[0])) * step)
                return DataError(
                    f"times look like a clock with summer time, and no zone is declared: {when} is there twice",
                    code="SPDE-D037",
                    where=self.label,
                    do=self._ask_zone(),
                )
        first = self._command.with_options(("--on-duplicate", "first"))
        return conflict_error(block, self.label, first, self.axis, _WRITE_HOURS)


def choose_map(path: Path, options: ReadOptions) -> ColumnMap:
    """Choose the map that the user names, or the shipped one that fits the first table."""
    if options.column_map:
        return _declared(load_map(options.column_map), options)
    first = next(members(path, options.max_bytes), None)
    if first is None:
        raise DataError(f"{printable(path.name)} holds no table", code="SPDE-D025")
    for name in _TRIED:
        chosen = _declared(shipped_map(name), options)
        columns = _columns(first, chosen)
        if columns and not chosen.missing_from(columns):
            return chosen
    if not is_parquet(first):
        examine(first, shipped_map("tidy").text)  # says what is wrong, if it is no table at all
    there = ", ".join(printable(c)[:40] for c in _columns(first, shipped_map("tidy"))[:12])
    table = _first_table(path, options) if path.is_dir() else ""
    if table:
        raise DataError(
            f"{first.label} is no table of observations, as {table} is", code="SPDE-D124",
            where=f"its columns are {there}", do=f"move {first.label} out of the folder {printable(path.name)}",
        )  # fmt: skip
    raise DataError(
        f"no shipped column map ({', '.join(_TRIED)}) fits {first.label}",
        code="SPDE-D124",
        where=f"its columns are {there}",
        do=f"{draft_command(path)}   drafts one, for --map map.toml",
    )


def _declared(column_map: ColumnMap, options: ReadOptions) -> ColumnMap:
    """Return the map with what the user declares: units, and an elevation model for the altitudes."""
    return replace(column_map.with_units(options.units), needs_altitude=options.dem is None)


def _first_table(path: Path, options: ReadOptions) -> str:
    """Return the name of the first file of a folder that a shipped map fits; empty where there is none."""
    maps = [shipped_map(name) for name in _TRIED]
    for member in members(path, options.max_bytes):
        for chosen in maps:
            columns = _columns(member, chosen) if member.path is not None else []
            if columns and not chosen.missing_from(columns):
                return member.label
    return ""


def _columns(member: Member, column_map: ColumnMap) -> list[str]:
    if is_parquet(member):
        return parquet_columns(member)
    try:
        return list(examine(member, column_map.text).columns)
    except FieldsError:
        return []


def open_table(path: Path, options: ReadOptions, work: Workspace) -> Source:
    """Open tables as a source."""
    if options.start is not None:
        raise UsageError("--start would not count: it is for arrays without times, and a table has a time in each row",
                         code="SPDE-D001", do="leave out --start")  # fmt: skip
    chosen = without_absent_columns(choose_map(path, options), path)
    _refuse_unused_list(chosen, path, options)
    if options.pressure_kind == PressureKind.SEA_LEVEL and "p" in chosen.variables:
        chosen = _as_sea_level(chosen)
    source = TableSource(path, chosen, options, work)
    return EveryNthStep(source, options.every) if options.every > 1 else source


def _refuse_unused_list(column_map: ColumnMap, path: Path, options: ReadOptions) -> None:
    """Refuse a list of stations that the map would not read."""
    stations = column_map.stations
    if options.stations is None or stations.source in ("file", "name"):
        return
    places = "the columns of every row" if stations.source == "columns" else "the lines above the columns"
    key = stations.id[0] if stations.source == "columns" else "the column of the id"
    raise UsageError(
        f"a list of stations is given, and the map takes positions from {places}", code="SPDE-D134",
        where=f"{column_map.label} › [station] › from",
        do=f'write from = "file" and key = "{printable(key)[:60]}" there, with the names of the list\'s columns as id, '
        f"lat, lon and alt; {draft_command(path, options.stations)}   drafts it",
    )  # fmt: skip


def draft_command(path: Path, stations: str | None = None) -> str:
    """Write the command that drafts a column map for a table."""
    words = ["stationpde", "data", "map", str(path), *(["--station-list", stations] if stations else [])]
    return printable(shlex.join([*words, "-o", "map.toml"]))


def without_absent_columns(column_map: ColumnMap, path: Path) -> ColumnMap:
    """Leave out variables that a single long table has no column for, so that its rows take less room on disk."""
    if path.is_dir() or file_kind(path) not in ("text", "parquet"):
        return column_map
    columns = {folded(column) for column in _columns(next(members(path, 0)), column_map)}
    there = {
        name: column for name, column in column_map.variables.items()
        if not column.optional or columns.intersection(map(folded, column.names))
    }  # fmt: skip
    return replace(column_map, variables=there or column_map.variables)


def _as_sea_level(column_map: ColumnMap) -> ColumnMap:
    """Declare the column of p as pressure reduced to the sea."""
    moved = {("psl" if name == "p" else name): c for name, c in column_map.variables.items() if name != "psl"}
    return replace(column_map, variables=moved, pressure_kind=PressureKind.SEA_LEVEL)


def _recognises(path: Path) -> int:
    if path.is_dir():
        return int(bool(tables_in(path)))
    kind = file_kind(path)
    if kind == "parquet":
        return 3
    return int(kind in ("text", "gzip", "tar", "zip"))


READER = Reader("table", "CSV or parquet tables described by a column map", _recognises, open_table)
