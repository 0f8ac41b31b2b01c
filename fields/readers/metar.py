"""Read METAR and SPECI reports as text, parsed by MetPy.

One report a line, with or without ``METAR`` or ``SPECI`` in front; lines that begin with blanks go on with the report
above them. A report names the day of its month alone: year and month come from a date in front of the report
(``202307051200 METAR …``) or from ``--start``, the first day of a file of at most four weeks. Positions come from a
list (``--station-list``). Temperatures in tenths are taken from the remarks where these have them; pressure at the
station is computed from the altimeter setting and the station's altitude, pressure at the sea is that of the remarks.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from fields.errors import DataError, UsageError, printable
from fields.readers.archives import Member, tables_in
from fields.readers.column_map import Column, ColumnMap, StationColumns, TextForm, TimeForm
from fields.readers.csv_text import Block, line_of
from fields.readers.decode import ParsedBlock
from fields.readers.registry import Reader
from fields.readers.safety import file_kind, open_binary
from fields.readers.source import EveryNthStep, ReadOptions, Source, Workspace
from fields.readers.station_list import listed_stations
from fields.readers.table import TableSource
from fields.units import to_si

__all__ = ["READER"]

_UNITS = {"t": "degC", "td": "degC", "dd": "degrees", "ff": "kt", "p": "hPa", "psl": "hPa"}
_REPORT = re.compile(r"(?:(?P<date>(?:19|20)\d{10})\s+)?(?P<body>(?:(?:METAR|SPECI)\s+)?(?:COR\s+)?"
                     r"(?P<id>[A-Z][A-Z0-9]{3})\s+(?P<day>\d\d)(?P<hour>\d\d)(?P<minute>\d\d)Z\b.*)")  # fmt: skip
_MARK = re.compile(
    rb"^(?:(?:19|20)\d{10}\s+)?(?:(?:METAR|SPECI)\s+)?(?:COR\s+)?[A-Z][A-Z0-9]{3}\s+\d{6}Z\s", re.MULTILINE
)
# Headings of bulletins, and lines that hold nothing but a type or a number.
_HEADING = re.compile(r"[A-Z]{4}\d\d\s+[A-Z]{4}\s+\d{6}.*|METAR|SPECI|\d{3}")
_AIR = re.compile(r"(?<=\s)(M?\d\d)/(M?\d\d)?(?=\s|$)")
_SETTING = re.compile(r"(?<=\s)([AQ])(\d{4})(?=\s|$)")
_TENTHS = re.compile(r"\bT([01])(\d{3})([01])(\d{3})\b")
_SEA_LEVEL = re.compile(r"\bSLP(\d{3})\b")
_LONGEST = 2000
_REACH = 28  # days from --start in which a day of the month occurs once
_HEAD = 4096
_MAP = ColumnMap(
    "METAR and SPECI reports", TextForm(), TimeForm(zone="UTC", step=3600, tolerance=600),
    StationColumns("file", id=("id", "station", "icao"), lat=("lat", "latitude"), lon=("lon", "longitude"),
                   alt=("alt", "alt_m", "elev", "elevation"), name=("name", "station_name"),
                   wigos=("wigos", "wigos_id"), key=("id",), units={"alt": "m"}),
    {name: Column((name,), unit, optional=True) for name, unit in _UNITS.items()},
    label="METAR", is_shipped=True,
)  # fmt: skip


class _Reports:
    """Reports of one source, with the altitudes of its stations and the first day that the user gives."""

    def __init__(self, altitudes: dict[str, float], start: int | None) -> None:
        self.altitudes, self.start = altitudes, start

    def decoder(self, member: Member, column_map: ColumnMap) -> _Decoder:
        """Return the decoder of one file."""
        return _Decoder(member.label, member.path, self.altitudes, self.start)


class _Decoder:
    """Decoder of the reports of one file."""

    def __init__(self, label: str, path: Path | None, altitudes: dict[str, float], start: int | None) -> None:
        self.label, self.path, self.altitudes, self.start = label, path, altitudes, start

    def parse(self, block: Block) -> ParsedBlock:
        """Decode a block of lines; a report that says nothing (NIL) is passed over."""
        ids: dict[str, int] = {}
        station, time, rows = [], [], []
        for line, text in _joined(bytes(block.content).decode("latin-1")):
            match = _REPORT.fullmatch(text)
            if match is None or len(text) > _LONGEST:
                if _HEADING.fullmatch(text):
                    continue
                raise self._fault(block, line, f"'{printable(text)[:40]}' is no METAR or SPECI", "report")
            if " NIL" in text:
                continue
            time.append(self._time(match, block, line))
            station.append(ids.setdefault(match["id"], len(ids)))
            rows.append(self._values(match, block, line))
        values = np.asarray(rows, np.float64).reshape(-1, len(_UNITS)).T
        codes = np.asarray(station, np.int32)
        altitude = np.asarray([self.altitudes.get(name, np.nan) for name in ids], np.float64)
        if rows:
            values[4] = _station_pressure(values[4], altitude[codes])
        numbers = values.astype(np.float32)
        return ParsedBlock(np.asarray(time, np.int64), None, list(ids), codes, numbers, None, None, {}, len(rows))

    def _fault(self, block: Block, line: int, what: str, part: str) -> DataError:
        return DataError(f"{self.label} {line_of(self.path, block.offset, line)}: {what}", code="SPDE-D126",
                         where=f"{self.label} › {part}", do="correct that report, or leave it out")  # fmt: skip

    def _time(self, match: re.Match[str], block: Block, line: int) -> int:
        day, hour, minute = (int(match[name]) for name in ("day", "hour", "minute"))
        if match["date"]:
            filed = _date(match["date"][:8])
            # A report of the last minutes of a day may have been filed on the next.
            days = [] if filed is None else [filed + timedelta(days=n) for n in (0, -1, 1)]
        elif self.start is not None:
            begin = datetime.fromtimestamp(self.start, UTC)
            days = [begin + timedelta(days=n) for n in range(_REACH)]
        else:
            place = line_of(self.path, block.offset, line)
            raise DataError(
                f"{self.label} {place}: the report names the day of its month alone", code="SPDE-D110",
                where=f"{self.label} › time", do="--start 2023-07-01   with the first day of the file",
            )  # fmt: skip
        fitting = next((one for one in days if one.day == day), None)
        if fitting is None or hour > 23 or minute > 59:
            raise self._fault(
                block, line, f"'{match['day']}{match['hour']}{match['minute']}Z' is no time of this file", "time"
            )
        return int(datetime(fitting.year, fitting.month, day, hour, minute, tzinfo=UTC).timestamp())

    def _values(self, match: re.Match[str], block: Block, line: int) -> list[float]:
        """Return t, td, dd, ff, altimeter setting [hPa] and pressure at the sea of a report."""
        from metpy.io.metar import ParseError, parse_metar

        body = match["body"].rstrip("= ")
        try:
            report: Any = parse_metar(body, 2000, 1, station_metadata={})
        except (ParseError, ValueError, AttributeError, IndexError, KeyError, TypeError, ArithmeticError) as problem:
            reason = printable(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)[:80]
            raise self._fault(block, line, f"'{printable(body)[:40]}' is not read: {reason}", "report") from None
        t, td = float(report.temperature), float(report.dewpoint)
        tenths = _TENTHS.search(body)
        if tenths is not None:
            t, td = (float(tenths[i + 1]) / 10 * (-1 if tenths[i] == "1" else 1) for i in (1, 3))
        sea = _SEA_LEVEL.search(body)
        level = np.nan if sea is None else float(sea[1]) / 10 + (900 if int(sea[1]) >= 500 else 1000)
        setting = float(report.altimeter) * 33.8638866667  # inches of mercury
        if np.isnan([t, td, setting]).all():  # a group that MetPy does not know ends its reading: P6SM, 27018KMH
            t, td, setting = _after_unknown_group(body.partition(" RMK")[0])
        return [t, td, float(report.wind_direction), float(report.wind_speed), setting, level]


def _joined(text: str) -> list[tuple[int, str]]:
    """Return the reports with the number of their first line."""
    reports: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines()):
        if not line.strip():
            continue
        if line[0] in " \t" and reports:
            reports[-1] = reports[-1][0], f"{reports[-1][1]} {line.strip()}"
        else:
            reports.append((number, line.strip()))
    return reports


def _after_unknown_group(body: str) -> tuple[float, float, float]:
    """Return temperature, dew point [°C] and altimeter setting [hPa] of their own groups; NaN where there is none."""
    air, setting = _AIR.search(body), _SETTING.search(body)
    t, td = (np.nan, np.nan) if air is None else (_signed(air[1]), _signed(air[2]))
    if setting is None:
        return t, td, np.nan
    return t, td, float(setting[2]) * (0.338638866667 if setting[1] == "A" else 1.0)


def _signed(group: str | None) -> float:
    return float(group.replace("M", "-")) if group else np.nan


def _date(digits: str) -> datetime | None:
    try:
        return datetime.strptime(digits, "%Y%m%d").replace(tzinfo=UTC)
    except ValueError:
        return None


def _station_pressure(setting: np.ndarray[Any, Any], altitude: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Compute pressure at the station [hPa] from the altimeter setting [hPa] and the altitude [m]."""
    from metpy.calc import altimeter_to_station_pressure
    from metpy.units import units

    pressure = altimeter_to_station_pressure(setting * units.hPa, altitude * units.m)
    return np.asarray(pressure.m_as("hPa"), np.float64)


def open_metar(path: Path, options: ReadOptions, work: Workspace) -> Source:
    """Open files of reports as a source."""
    if options.stations is None:
        raise UsageError("reports have no positions, and no list of stations is named", code="SPDE-D134",
                         do="--station-list FILE.csv   with the columns id, lat, lon and alt")  # fmt: skip
    column_map = _MAP.with_units(options.units)
    unit = column_map.stations.units["alt"]
    listed = listed_stations(path, column_map, options.stations)
    altitudes = {name: float(to_si("alt", np.float64(place[2]), unit)) for name, place in listed.items()}
    source = TableSource(path, column_map, options, work, "metar", _Reports(altitudes, options.start))
    return EveryNthStep(source, options.every) if options.every > 1 else source


def _recognises(path: Path) -> int:
    files = tables_in(path) if path.is_dir() else [path]
    if not files or file_kind(files[0]) != "text":
        return 0
    with open_binary(files[0]) as file:
        return 3 if _MARK.search(file.read(_HEAD)) else 0


READER = Reader("metar", "METAR and SPECI reports as text, parsed by MetPy", _recognises, open_metar)
