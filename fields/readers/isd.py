"""Read NOAA's surface hourly data as text: ISD with its fixed control and mandatory sections, and ISD-Lite.

ISD lines have station, position, time and values in tenths, each with a quality code; values that it calls erroneous
are missing. ISD-Lite files hold one station each, whose id is the beginning of their name (``722020-12839-2017.gz``);
positions come from a list (``--station-list``). Pressure is reduced to the sea in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from fields.errors import DataError, printable
from fields.readers.archives import Member, members, tables_in
from fields.readers.column_map import Column, ColumnMap, StationColumns, TextForm, TimeForm
from fields.readers.fixed_lines import Field, FixedLines, LineFormat
from fields.readers.registry import Reader
from fields.readers.safety import file_kind, open_binary
from fields.readers.source import EveryNthStep, ReadOptions, Source, Workspace
from fields.readers.table import TableSource
from fields.variables import PressureKind

__all__ = ["FULL", "LITE"]

_UNITS = {"t": "degC", "td": "degC", "psl": "hPa", "dd": "degrees", "ff": "m/s"}
_LITE_LINE = re.compile(rb"\d{4} \d\d \d\d \d\d(?: +-?\d+){8}\s*")
_FULL_LINE = re.compile(rb"\d{4}[0-9A-Z]{6}\d{5}\d{12}.[+-]\d{5}[+-]\d{6}.{5}[+-]\d{4}.{9}\d{3}.{42}")
_LITE_NAME = re.compile(r"^([0-9A-Z]{6}-\d{5})(?:-\d{4})?\b")
_HEAD = 4096
_LITE = {"t": Field(13, 19, 0.1, -9999), "td": Field(19, 25, 0.1, -9999), "psl": Field(25, 31, 0.1, -9999),
         "dd": Field(31, 37, 1.0, -9999), "ff": Field(37, 43, 0.1, -9999)}  # fmt: skip
_FULL = {"t": Field(87, 92, 0.1, 9999, 92), "td": Field(93, 98, 0.1, 9999, 98), "psl": Field(99, 104, 0.1, 99999, 104),
         "dd": Field(60, 63, 1.0, 999, 63), "ff": Field(65, 69, 0.1, 9999, 69)}  # fmt: skip
_FULL_PLACES = {
    "lat": Field(28, 34, 0.001, 99999),
    "lon": Field(34, 41, 0.001, 999999),
    "alt": Field(46, 51, 1.0, 9999),
}


class _Lite:
    """Lines of ISD-Lite."""

    def decoder(self, member: Member, column_map: ColumnMap) -> FixedLines:
        """Return the decoder of one file, whose name begins with the station's id."""
        name = member.label.rpartition(" › ")[2]
        match = _LITE_NAME.match(name)
        if match is None:
            raise DataError(f"the name '{printable(name)}' does not begin with a station's id, as in 722020-12839-2017",
                            code="SPDE-D133", do="give the file the name under which NOAA publishes it")  # fmt: skip
        clock = (Field(0, 4), Field(5, 7), Field(8, 10), Field(11, 13))
        return FixedLines(member.label, member.path, 43, clock, _LITE, station=match[1])


class _Full:
    """Lines of ISD."""

    def decoder(self, member: Member, column_map: ColumnMap) -> FixedLines:
        """Return the decoder of one file."""
        clock = (Field(15, 19), Field(19, 21), Field(21, 23), Field(23, 25), Field(25, 27))
        return FixedLines(member.label, member.path, 105, clock, _FULL, id_field=(4, 15), places=_FULL_PLACES)


def _map(title: str, source: str, step: int, tolerance: int) -> ColumnMap:
    columns = {name: Column((name,), unit, optional=True) for name, unit in _UNITS.items()}
    stations = StationColumns(
        source, id=("id", "station", "station_id"), lat=("lat", "latitude"), lon=("lon", "longitude"),  # type: ignore[arg-type]
        alt=("alt", "alt_m", "elev", "elevation"), name=("name", "station_name"), wigos=("wigos", "wigos_id"),
        key=("id",), units={"alt": "m"},
    )  # fmt: skip
    time = TimeForm(zone="UTC", step=step, tolerance=tolerance)
    return ColumnMap(title, TextForm(), time, stations, columns, PressureKind.SEA_LEVEL, title, is_shipped=True)


_OPENED: dict[str, tuple[ColumnMap, LineFormat]] = {
    "isd_lite": (_map("NOAA ISD-Lite", "file", 3600, 0), _Lite()),
    "isd": (_map("NOAA Integrated Surface Database", "columns", 3600, 600), _Full()),
}


def _opener(name: str) -> Callable[[Path, ReadOptions, Workspace], Source]:
    def opened(path: Path, options: ReadOptions, work: Workspace) -> Source:
        column_map, lines = _OPENED[name]
        source = TableSource(path, column_map.with_units(options.units), options, work, name, lines)
        return EveryNthStep(source, options.every) if options.every > 1 else source

    return opened


def _recogniser(line: re.Pattern[bytes], named: re.Pattern[str]) -> Callable[[Path], int]:
    def recognises(path: Path) -> int:
        files = tables_in(path) if path.is_dir() else [path]
        if not files:
            return 0
        kind = file_kind(files[0])
        if kind == "gzip" and named.match(files[0].name):
            head = next((member.head[:_HEAD] for member in members(files[0], 0)), b"")
        elif kind == "text":
            with open_binary(files[0]) as file:
                head = file.read(_HEAD)
        else:
            return 0
        return 3 if line.fullmatch(head.split(b"\n")[0].rstrip(b"\r")[: 105 if line is _FULL_LINE else None]) else 0

    return recognises


LITE = Reader("isd_lite", "NOAA ISD-Lite (fixed columns, one file for each station and year)",
              _recogniser(_LITE_LINE, _LITE_NAME), _opener("isd_lite"))  # fmt: skip
FULL = Reader("isd", "NOAA ISD (fixed columns)", _recogniser(_FULL_LINE, re.compile(r"^[0-9A-Z]{6}-\d{5}-\d{4}")),
              _opener("isd"))  # fmt: skip
