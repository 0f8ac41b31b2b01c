"""Gather tables of any number and length in a spool: blocks decoded on two threads, rows in the order of the source.

The state behind every run says which file and which byte come next, so that a killed ingest resumes there.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fields.errors import DataError, ProblemReport, counted, locate, printable
from fields.readers.archives import Member, members, others_in, size_of
from fields.readers.column_map import ColumnMap
from fields.readers.csv_text import TextLayout, blocks, examine
from fields.readers.date_order import UndecidedOrder
from fields.readers.decode import Decoder, ParsedBlock
from fields.readers.fixed_lines import LineDecoder, LineFormat, plain_layout
from fields.readers.order_scan import with_date_order
from fields.readers.parquet import half_columns, is_parquet, parquet_batches
from fields.readers.roster import Roster
from fields.readers.rows import warn_of_half_precision
from fields.readers.safety import open_binary
from fields.readers.source import ReadOptions, Workspace
from fields.readers.spool import Records, Spool
from fields.readers.station_list import StationList, header_station, listed_stations, name_id
from fields.times import Zone, format_time

__all__ = ["GatheredTables", "gather", "identity_of"]

_THREADS = 2
Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class GatheredTables:
    """Rows and stations of a source in a spool, with what was noticed on the way."""

    spool: Spool
    roster: Roster
    report: ProblemReport
    zone: Zone
    zone_declared: bool
    variables: tuple[str, ...]


@dataclass(slots=True)
class _Tally:
    """Counts of codes, dialects, rows and repeated hours, kept in the spool's state.

    ``clocks`` says whether times without an offset, times with one, and counts since 1970 occur; ``doubles`` names
    columns that hold the same values, ``resembling`` those that are not read although they resemble a name of the map;
    ``late`` has the stations with rows after the last second to be read, and the last time of each; ``halves`` columns
    of 16 bits, ``padded`` ids that are written both with blanks around them and without; ``latest`` has the last row's
    time of each station, where the clock shows hours twice.
    """

    codes: dict[str, int] = field(default_factory=dict)
    dialects: dict[str, int] = field(default_factory=dict)
    twice: set[tuple[int, int]] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    rows: int = 0
    folds: int = 0
    clocks: list[bool] = field(default_factory=lambda: [False, False, False])
    doubles: set[tuple[str, str]] = field(default_factory=set)
    resembling: set[tuple[str, str]] = field(default_factory=set)
    late: dict[str, int] = field(default_factory=dict)
    halves: set[str] = field(default_factory=set)
    padded: set[str] = field(default_factory=set)
    latest: dict[int, int] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        return {
            "codes": self.codes, "dialects": self.dialects, "twice": sorted(self.twice), "rows": self.rows,
            "folds": self.folds, "seen": sorted(self.seen), "clocks": self.clocks, "doubles": sorted(self.doubles),
            "resembling": sorted(self.resembling), "late": self.late, "halves": sorted(self.halves),
            "padded": sorted(self.padded), "latest": sorted(self.latest.items()),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self.codes, self.dialects = dict(state["codes"]), dict(state["dialects"])
        self.rows, self.folds = int(state["rows"]), int(state["folds"])
        self.seen, self.clocks, self.late = set(state["seen"]), list(state["clocks"]), dict(state["late"])
        self.doubles, self.resembling = ({(str(a), str(b)) for a, b in state[key]} for key in ("doubles", "resembling"))
        self.halves, self.padded = (set(state.get(key, ())) for key in ("halves", "padded"))
        self.twice = {(int(a), int(b)) for a, b in state["twice"]}
        self.latest = {int(a): int(b) for a, b in state.get("latest", ())}


def identity_of(path: Path, *what: object) -> str:
    """Fingerprint a source by names, sizes and times of change of its files, and by how it is read (``what``)."""
    digest = hashlib.sha256(repr(what).encode())
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        about = file.stat() if file.exists() else file.lstat()  # a link to nothing is none of the tables
        digest.update(f"{file.name};{about.st_size};{about.st_mtime_ns}".encode())
    return digest.hexdigest()


def gather(
    path: Path, column_map: ColumnMap, options: ReadOptions, work: Workspace, lines: LineFormat | None = None
) -> GatheredTables:
    """Read every table of a source into a spool, resuming where a killed run stopped.

    ``lines`` decodes files that have no line of names.
    """
    decided = with_date_order(path, column_map, options, work.command)
    try:
        return _gather(path, decided, options, work, lines)
    except UndecidedOrder:  # the first rows had no such dates
        decided = with_date_order(path, column_map, options, work.command, throughout=True)
        return _gather(path, decided, options, work, lines)


def _gather(
    path: Path, column_map: ColumnMap, options: ReadOptions, work: Workspace, lines: LineFormat | None
) -> GatheredTables:
    declared = options.zone or column_map.time.zone
    zone = Zone.parse(declared or "UTC")
    step = options.step or column_map.time.step
    tolerance = options.tolerance if options.tolerance is not None else column_map.time.tolerance
    keep = (step, tolerance) if step and tolerance is not None else None
    identity = identity_of(path, column_map, zone, keep, options.on_move, options.until)
    spool = Spool(work.folder / "rows", len(column_map.variables), identity)
    roster = Roster(printable(path.name), options.on_move, command=work.command.with_options())
    tally = _Tally()
    if spool.state:
        roster.restore(spool.state["roster"])
        tally.restore(spool.state["tally"])
    if not spool.is_complete:
        _Reading(path, column_map, options, work, zone, keep, spool, roster, tally, lines).run()
    _require_one_clock(path, tally, declared, work)
    there = tuple(name for name in column_map.variables if name in tally.seen)
    return GatheredTables(spool, roster, _report(path, tally, roster), zone, declared is not None, there)


@dataclass(slots=True)
class _Reading:
    """One pass over a source."""

    path: Path
    column_map: ColumnMap
    options: ReadOptions
    work: Workspace
    zone: Zone
    keep: tuple[int, int] | None
    spool: Spool
    roster: Roster
    tally: _Tally
    lines: LineFormat | None = None
    listed: StationList | None = None

    def run(self) -> None:
        """Decode all members that are not in the spool yet."""
        first, offset = self.spool.state.get("position", (0, 0))
        total = size_of(self.path)
        if self.column_map.stations.source in ("file", "name"):
            self.listed = listed_stations(self.path, self.column_map, self.options.stations)
        index = -1
        with ThreadPoolExecutor(_THREADS) as pool:
            for index, member in enumerate(members(self.path, self.options.max_bytes)):
                if index < first:
                    continue
                for end, parsed in self._decoded(member, offset if index == first else 0, pool):
                    if self.spool.add(self._rows(parsed, member)):
                        self._flush(index, end)
                    # A plain file is read through a handle of its own.
                    done = member.consumed() if member.path is None else member.before + min(end, member.size)
                    self.work.progress("read", done, total, "bytes")
        if self.tally.rows == 0:
            raise DataError(f"{printable(self.path.name)} holds no rows", code="SPDE-D025", do="fetch the file again")
        self._flush(index + 1, 0, complete=True)

    def _flush(self, index: int, offset: int, complete: bool = False) -> None:
        state = {"position": [index, offset], "roster": self.roster.state(), "tally": self.tally.state()}
        self.spool.flush(state, complete=complete)

    def _decoded(self, member: Member, offset: int, pool: ThreadPoolExecutor) -> Iterator[tuple[int, ParsedBlock]]:
        """Yield parsed blocks in order, with the byte (of a parquet file, the row) that follows each."""
        if is_parquet(member):
            self.tally.halves |= set(half_columns(member)) if member.path is not None else set()
            yield from parquet_batches(member, offset, self.options.max_bytes, self._decoder)
            return
        decoder: LineDecoder
        if self.lines is not None:
            layout, decoder = plain_layout(member), self.lines.decoder(member, self.column_map)
            self.tally.seen |= self.column_map.variables.keys()
        else:
            layout = self._examined(member)
            decoder = self._decoder(layout.columns, member, layout)
        if self.column_map.stations.source == "header":
            self.listed = header_station(layout, self.column_map)
        if layout.detected and offset == 0:
            dialect = layout.dialect()
            self.tally.dialects[dialect] = self.tally.dialects.get(dialect, 0) + 1
        begin = max(offset, layout.body)
        stream = member.stream
        if member.path is not None:
            stream = open_binary(member.path)
            stream.seek(begin)
        else:
            _skip(stream, begin)
        try:
            yield from _in_order(pool, decoder.parse, blocks(stream, layout, begin))
        finally:
            if member.path is not None:
                stream.close()

    def _examined(self, member: Member) -> TextLayout:
        try:
            return examine(member, self.column_map.text)
        except DataError as problem:
            if self.path.is_dir() and problem.code in ("SPDE-D121", "SPDE-D122"):
                folder, other = printable(self.path.name), problem.do
                problem.do = f"move {member.label} out of the folder {folder}, if it is no table of observations"
                problem.do += f"; else {other}" if other else ""
            raise

    def _decoder(self, columns: Any, member: Member, layout: TextLayout | None = None) -> Decoder:
        try:
            decoder = Decoder(
                self.column_map, columns, member.label, self.zone, self.keep, layout, member.path, member.size
            )
        except DataError as problem:
            if self.tally.rows and self.path.is_dir():  # other files of the folder have these columns
                folder = printable(self.path.name)
                problem.do = f"move {member.label} out of the folder {folder}, or give it the columns of the others"
            raise
        self.tally.seen |= {name for name in decoder.positions if not name.startswith("@")}
        self.tally.doubles |= set(decoder.double_names())
        self.tally.resembling |= set(decoder.choice.resembling)
        return decoder

    # ---- rows -------------------------------------------------------------------------------------------------

    def _rows(self, parsed: ParsedBlock, member: Member) -> Records:
        tally = self.tally
        tally.rows += parsed.rows
        tally.padded |= parsed.padded
        for name, count in parsed.codes.items():
            tally.codes[name] = tally.codes.get(name, 0) + count
        tally.clocks = [a or b for a, b in zip(tally.clocks, (*parsed.clocks, parsed.counted > 0))]
        if len(parsed.time) == 0:
            return Records.joined([], self.spool.variables)
        codes = self._stations(parsed, member)
        time = parsed.time
        if parsed.later is not None:
            time = self._unfold(time, parsed.later, codes)
        return self._until(Records(time, codes, parsed.values))

    def _until(self, rows: Records) -> Records:
        """Leave out rows after the last second to be read, and note whose they are."""
        late = rows.time > self.options.until if self.options.until is not None else np.zeros(len(rows), bool)
        if not late.any():
            return rows
        for code in np.unique(rows.station[late]).tolist():
            last, name = int(rows.time[late & (rows.station == code)].max()), self.roster.ids[code]
            self.tally.late[name] = max(last, self.tally.late.get(name, last))
        return Records(rows.time[~late], rows.station[~late], rows.values[:, ~late])

    def _stations(self, parsed: ParsedBlock, member: Member) -> Array:
        source = self.column_map.stations.source
        ids = parsed.ids
        if source == "header":
            ids = list(self.listed or {})
        elif source == "name":
            ids = [name_id(member.label, self.column_map.stations.pattern)]
        if "" in ids:
            raise DataError(f"{member.label} has rows without a station id", code="SPDE-D033",
                            do="fill in the ids, or remove these rows")  # fmt: skip
        before = len(self.roster.ids)
        codes = self.roster.codes(ids)[parsed.station]
        if self.listed is not None:
            lat, lon, alt = self._listed_places(ids, member)
            return self.roster.place(codes, lat[parsed.station], lon[parsed.station], alt[parsed.station])
        for texts, entered in ((parsed.names, self.roster.names), (parsed.wigos, self.roster.wigos)):
            if texts is not None and len(self.roster.ids) > before:
                for code, text in zip(self.roster.codes(ids).tolist(), texts):
                    entered[code] = entered[code] or text[:200]
        if parsed.places is None:
            return codes
        return self.roster.place(codes, *parsed.places)

    def _listed_places(self, ids: list[str], member: Member) -> tuple[Array, Array, Array]:
        listed = self.listed or {}
        absent = [name for name in ids if name not in listed]
        if absent:
            raise DataError(
                f"{len(absent)} stations are not in the list of stations",
                code="SPDE-D133",
                where=locate(member.label, stations=absent),
                do=f"complete the list of stations {self.options.stations or self.column_map.stations.file}",
            )
        for code, name in zip(self.roster.codes(ids).tolist(), ids):
            self.roster.names[code] = self.roster.names[code] or listed[name][3]
            self.roster.wigos[code] = self.roster.wigos[code] or listed[name][4]
        lat, lon, alt = (np.asarray([listed[name][i] for name in ids], np.float64) for i in range(3))
        return lat, lon, alt

    def _unfold(self, time: Array, later: Array, codes: Array) -> Array:
        """Assign hours that a clock showed twice, in the order of time that the rows of a station have."""
        unfolded = time.copy()
        twice = later != time
        for row in np.flatnonzero(twice).tolist():
            key = (int(codes[row]), int(time[row]))
            second = key in self.tally.twice
            # Rows from the newest to the oldest tell the later of the two hours first.
            if second != self._runs_backwards(row, time, twice, codes):
                unfolded[row] = later[row]
            if second:
                self.tally.folds += 1
            else:
                self.tally.twice.add(key)
        once = np.flatnonzero(~twice)[::-1]
        stations, last = np.unique(codes[once], return_index=True)
        self.tally.latest.update(zip(stations.tolist(), time[once][last].tolist()))
        return unfolded

    def _runs_backwards(self, row: int, time: Array, twice: Array, codes: Array) -> bool:
        """Return whether the rows of a station come from the newest to the oldest where one of its hours is repeated.

        The nearest report of the station outside the repeated hour tells: of this block before the row, of the
        blocks before, or of this block after the row.
        """
        near = np.flatnonzero((codes == codes[row]) & ~twice)
        before = near[near < row]
        if before.size:
            return bool(time[before[-1]] > time[row])
        if int(codes[row]) in self.tally.latest:
            return self.tally.latest[int(codes[row])] > int(time[row])
        return bool(near.size and time[near[0]] < time[row])


def _skip(stream: Any, count: int) -> None:
    while count > 0:
        piece = stream.read(min(count, 1 << 22))
        if not piece:
            return
        count -= len(piece)


def _in_order(
    pool: ThreadPoolExecutor, parse: Callable[[Any], ParsedBlock], pieces: Iterator[Any]
) -> Iterator[tuple[int, ParsedBlock]]:
    """Decode on the pool with a few blocks under way, handing results over in order."""
    under_way: deque[tuple[int, Future[ParsedBlock]]] = deque()
    try:
        for piece in pieces:
            under_way.append((piece.end, pool.submit(partial(parse, piece))))
            if len(under_way) > _THREADS:
                end, future = under_way.popleft()
                yield end, future.result()
        while under_way:
            end, future = under_way.popleft()
            yield end, future.result()
    finally:
        for _, future in under_way:
            future.cancel()


def _require_one_clock(path: Path, tally: _Tally, declared: str | None, work: Workspace) -> None:
    """Refuse a source in which some times name their offset and others leave the clock open."""
    if tally.clocks[0] and tally.clocks[1] and declared is None:
        raise DataError(
            f"{printable(path.name)}: some times name an offset from UTC and others do not", code="SPDE-D037",
            do=f"{work.command.with_options(('--time-zone', 'UTC'))} (or the zone of those without one)",
        )  # fmt: skip


def _report(path: Path, tally: _Tally, roster: Roster) -> ProblemReport:
    report = ProblemReport()
    label = printable(path.name)
    others = others_in(path) if path.is_dir() else []
    if others:
        shown = ", ".join(map(printable, others[:5])) + (", …" if len(others) > 5 else "")
        report.notice("SPDE-D107", f"not read: {shown}", where=label,
                      do="give a folder inside by itself; unpack what is packed in another way")  # fmt: skip
    if tally.late:
        last = format_time(max(tally.late.values()))
        report.warning("SPDE-D112", f"reports dated in the future are ignored, up to {last} UTC",
                       where=locate(label, stations=sorted(tally.late), out_of=len(roster.ids)))  # fmt: skip
    if tally.halves:
        warn_of_half_precision(report, label, ", ".join(map(printable, sorted(tally.halves)[:6])))
    if tally.padded:
        report.notice("SPDE-D033", "ids with and without blanks around them are one station: "
                      f"{', '.join(map(printable, sorted(tally.padded)[:5]))}", where=label)  # fmt: skip
    if tally.clocks[2]:
        report.notice("SPDE-D127", "times of digits alone are read as counts since 1970", where=label)
    for first, second in sorted(tally.doubles):
        report.notice("SPDE-D128", f"the columns '{first}' and '{second}' hold the same; '{first}' is read",
                      where=label)  # fmt: skip
    for column, name in sorted(tally.resembling):
        report.warning(
            "SPDE-D129", f"the column '{column}' is not read, though it resembles '{name}'", where=label,
            do=f"rename it to {name} if that is meant, or name it in a column map (--map FILE.toml)",
        )  # fmt: skip
    for dialect, files in tally.dialects.items():
        who = f"{files} files" if files > 1 else "the file"
        report.notice("SPDE-D127", f"{who} read as {dialect}", where=label)
    for name, count in sorted(tally.codes.items()):
        report.notice("SPDE-D018", f"{count:,} values of {name} are codes for missing", where=locate(label, name))
    if tally.folds:
        report.notice("SPDE-D037", f"{tally.folds:,} rows in hours that the clock showed twice", where=label)
    alone = len(tally.twice) - tally.folds
    if alone > 0:
        report.warning(
            "SPDE-D037", f"{counted(alone, 'report')} of an hour that the clock showed twice, without the other one",
            where=label, do="it is open which of the two hours is meant: give times in UTC or with their offset",
        )  # fmt: skip
    if roster.moved and roster.on_move == "split":
        report.notice("SPDE-D023", "stations that moved were split", where=locate(label, stations=roster.split()))
    elif roster.moved:
        report.warning("SPDE-D023", f"{roster.moved:,} rows stand at another place; the first was kept", where=label)
    return report
