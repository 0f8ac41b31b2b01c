"""Read station metadata outside the rows: in lines above the columns, or in a separate list."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from fields.errors import DataError, UsageError, printable
from fields.readers.archives import Member
from fields.readers.column_choice import double_error
from fields.readers.column_map import ColumnMap, StationColumns
from fields.readers.csv_text import TextLayout, examine
from fields.readers.safety import open_binary, shown

__all__ = ["header_station", "listed_stations", "name_id"]

StationList = dict[str, tuple[float, float, float, str, str]]
_LABELS = ("name", "wigos")
_LARGEST = 64 << 20
_PLACES = ("lat", "lon", "alt")


def _number(text: str, decimal: str, what: str, label: str) -> float:
    cell = text.strip()
    if not cell:
        return float(np.nan)
    try:
        return float(cell.replace(decimal, ".") if decimal != "." else cell)
    except ValueError:
        raise DataError(f"{label}: {what} '{printable(cell)[:40]}' is not a number", code="SPDE-D133") from None


def header_station(layout: TextLayout, column_map: ColumnMap) -> StationList:
    """Read the station that the lines above the column names describe."""
    lines = dict(reversed(layout.header))
    stations = column_map.stations
    keys = {name for key in ("id", "lat", "lon", "alt", *_LABELS) for name in getattr(stations, key)}
    for key, value in layout.header:
        if key in keys and lines[key] != value:
            raise DataError(f"{layout.label}: '{printable(key)[:60]}' stands twice above the columns: "
                            f"{printable(lines[key])[:40]} and {printable(value)[:40]}", code="SPDE-D128",
                            do="remove one of the lines")  # fmt: skip

    def find(names: tuple[str, ...]) -> str:
        return next((lines[name] for name in names if name in lines), "")

    name = find(stations.id)
    if not name:
        raise DataError(
            f"{layout.label}: no line above the columns begins with {' or '.join(map(repr, stations.id))}",
            code="SPDE-D133",
            do="correct `header_lines` or the names under [station] in the column map",
        )
    lat, lon, alt = (
        _number(find(getattr(stations, key)), layout.decimal, key, layout.label) for key in ("lat", "lon", "alt")
    )
    return {name: (lat, lon, alt, find(stations.name)[:200], find(stations.wigos)[:200])}


def name_id(label: str, pattern: str) -> str:
    """Extract the station id from a file's name."""
    name = label.rpartition(" › ")[2]
    match = re.search(pattern, name)
    if match is None or not match[1]:
        raise DataError(
            f"the name '{printable(name)}' does not match the pattern {pattern!r}",
            code="SPDE-D133",
            do="correct `pattern` under [station] in the column map",
        )
    return match[1]


def listed_stations(source: Path, column_map: ColumnMap, stations: str | None) -> StationList:
    """Read the list of stations named on the command line, or the file that the map names: by the source or the map."""
    if not stations and not column_map.stations.file:
        raise UsageError(
            "the map takes positions from a list of stations, and none is named",
            code="SPDE-D134",
            do="--station-list FILE.csv   with the columns that the map names under [station]",
        )
    path = Path(stations) if stations else _file_of_map(source, column_map)
    with open_binary(path) as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise DataError(f"{shown(path)} is larger than {_LARGEST:,} bytes", code="SPDE-D105")
    return _parse_list(Member(shown(path), None, content, len(content), path), column_map)  # type: ignore[arg-type]


def _file_of_map(source: Path, column_map: ColumnMap) -> Path:
    """Return the path of the list that a map names: beside the source, or beside the map."""
    folder = source if source.is_dir() else source.parent
    folders = [folder, *([column_map.folder] if column_map.folder is not None else [])]
    paths = [where / column_map.stations.file for where in folders]
    return next((path for path in paths if path.exists()), paths[-1])


def _parse_list(member: Member, column_map: ColumnMap) -> StationList:
    import csv
    import io

    from fields.readers.column_map import TextForm

    layout = examine(member, TextForm())
    places, doubles = _columns(layout, column_map.stations, column_map.needs_altitude)
    text = member.head[layout.body :].decode(layout.encoding, errors="replace")
    listed: StationList = {}
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text), delimiter=layout.separator), 2):
            if not row:
                continue
            if len(row) < len(layout.columns):
                raise DataError(
                    f"{member.label} line {number} has {len(row)} columns, expected {len(layout.columns)}",
                    code="SPDE-D123",
                )
            name = row[places["id"]].strip()
            if name in listed:
                raise DataError(f"{member.label} line {number}: station '{printable(name)}' is listed twice",
                                code="SPDE-D033")  # fmt: skip
            label = f"{member.label} line {number}"
            for key, pair in doubles:
                if row[pair[0]].strip() != row[pair[1]].strip():
                    names = (layout.columns[pair[0]], layout.columns[pair[1]])
                    raise double_error(member.label, f"@{key}", names, f"line {number}")
            lat, lon, alt = (_number(row[places[k]] if k in places else "", layout.decimal, k, label) for k in _PLACES)
            title, wigos = (row[places[key]].strip()[:200] if key in places else "" for key in _LABELS)
            listed[name] = (lat, lon, alt, title, wigos)
    except csv.Error as problem:
        raise DataError(f"{member.label} is not a table: {printable(problem)}", code="SPDE-D123") from None
    return listed


def _columns(
    layout: TextLayout, stations: StationColumns, needs_altitude: bool
) -> tuple[dict[str, int], list[tuple[str, tuple[int, int]]]]:
    """Return the column of each entry, and pairs of columns that could both be meant."""
    places: dict[str, int] = {}
    doubles: list[tuple[str, tuple[int, int]]] = []
    for key in ("id", "lat", "lon", "alt", *_LABELS):
        names = getattr(stations, key)
        there = [i for name in names for i, column in enumerate(layout.columns) if column == name]
        doubles += [(key, (there[0], other)) for other in there[1:]]
        if there:
            places[key] = there[0]
        elif key not in _LABELS and (needs_altitude or key != "alt"):
            raise DataError(
                f"{layout.label} has no column {' or '.join(map(repr, names))}",
                code="SPDE-D124",
                where=f"its columns are {', '.join(printable(c) for c in layout.columns[:12])}",
                do="name them under [station] in the column map"
                + (", or take altitudes from an elevation model: --dem FILE" if key == "alt" else ""),
            )
    return places, doubles
