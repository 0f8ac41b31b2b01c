"""Find who reports and where: columns of the rows, lines above the columns, or a list of stations beside the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fields.errors import DataError, printable
from fields.readers.drafting.cells import Cells, look_at
from fields.readers.drafting.names import STATION, Name, named, rank_of
from fields.readers.drafting.sample import Sample
from fields.readers.drafting.units import altitude_unit

__all__ = ["PlaceGuess", "columns_of_places", "guess_places"]

_LONGEST_ID = 200
_NAME_AS_WELL = ("station", "estacao", "estacion", "site", "stat")


@dataclass(frozen=True, slots=True)
class PlaceGuess:
    """Entries of [station]: ``source`` as in a map, the names of columns or keys, units, and what is unsure."""

    source: str
    entries: dict[str, str]
    units: dict[str, str] = field(default_factory=dict)
    read: tuple[int, ...] = ()
    unsure: list[str] = field(default_factory=list)

    @property
    def needs_list(self) -> bool:
        """Whether positions come from a list of stations."""
        return self.source in ("file", "name")

    @property
    def lacks_altitude(self) -> bool:
        """Whether nothing gives the altitude."""
        return "alt" not in self.entries


def columns_of_places(names: Sequence[Name], cells: Sequence[Cells]) -> dict[str, int]:
    """Return the columns of id, name, lat, lon and alt by number, as far as names and contents fit."""
    columns: dict[str, int] = {}
    for entry, words in STATION.items():
        ranked = [(rank, i) for i, name in enumerate(names) if (rank := rank_of(name, words)) >= 0]
        for _, i in sorted(ranked):
            if i not in columns.values() and _fits(entry, cells[i]):
                columns[entry] = i
                break
    if "name" not in columns:
        rest = [i for i, name in enumerate(names) if name.joined in _NAME_AS_WELL and i not in columns.values()]
        columns |= {"name": rest[0]} if rest else {}
    return columns


def _fits(entry: str, cells: Cells) -> bool:
    """Return whether a column may hold latitudes, longitudes or altitudes; an id or a name may be anything."""
    if entry in ("id", "name", "wigos"):
        return cells.filled > 0
    if not cells.is_numeric:
        return entry == "alt" and cells.filled == 0
    low, high = float(cells.numbers.min()), float(cells.numbers.max())
    least, most = {"lat": (-90.0, 90.0), "lon": (-180.0, 360.0), "alt": (-1500.0, 30_000.0)}[entry]
    return least <= low and high <= most


def guess_places(
    sample: Sample, names: Sequence[Name], cells: Sequence[Cells], stations: Sample | None
) -> PlaceGuess:  # fmt: skip
    """Find the stations of a table; ``stations`` is the head of a list of them.

    Raises
    ------
    DataError
        If nothing says which station a row belongs to.
    """
    columns = columns_of_places(names, cells)
    if stations is None and {"lat", "lon"} <= columns.keys():
        if "id" not in columns and "name" in columns:
            columns["id"] = columns.pop("name")
        if "id" not in columns:
            raise DataError(f"{sample.label} has positions and no column that names the station", code="SPDE-D124",
                            where=f"its columns are {', '.join(printable(c)[:40] for c in sample.columns[:12])}",
                            do="write a column called station with the id of each row's station")  # fmt: skip
        _require_ids(sample, columns["id"])
        units = _units({entry: cells[i] for entry, i in columns.items()}, {e: names[i] for e, i in columns.items()})
        entries = {entry: sample.columns[i] for entry, i in columns.items()}
        return PlaceGuess("columns", entries, units, tuple(columns.values()))
    if stations is None and sample.above:
        header = _of_header(sample)
        if header is not None:
            return header
    return _of_list(sample, columns, stations)


def _require_ids(sample: Sample, column: int) -> None:
    """Refuse a table some of whose rows name no station, or name one that no service has."""
    cells = sample.cells[column]
    if "" in cells or max(map(len, cells)) > _LONGEST_ID:
        what = "rows without a station id" if "" in cells else f"a station id of {max(map(len, cells)):,} characters"
        raise DataError(f"{sample.label} has {what} in '{printable(sample.columns[column])[:40]}'", code="SPDE-D033",
                        do="fill in the ids, or remove these rows")  # fmt: skip


def _units(cells: Mapping[str, Cells], names: Mapping[str, Name]) -> dict[str, str]:
    units = {}
    if "alt" in names:
        units["alt"] = altitude_unit(names["alt"])
    if "lon" in cells and cells["lon"].numbers.size and float(cells["lon"].numbers.max()) > 180:
        units["lon"] = "0-360"
    return units


def _of_header(sample: Sample) -> PlaceGuess | None:
    """Find the station in the lines above the columns."""
    decimal = sample.layout.decimal if sample.layout is not None else "."
    keys = [key for key, value in sample.above if value]
    names = [named(key) for key in keys]
    cells = [look_at([value], decimal) for _, value in sample.above if value]
    columns = columns_of_places(names, cells)
    if not {"id", "lat", "lon"} <= columns.keys():
        return None
    units = _units({entry: cells[i] for entry, i in columns.items()}, {e: names[i] for e, i in columns.items()})
    return PlaceGuess("header", {entry: keys[i] for entry, i in columns.items()}, units)


def _of_list(sample: Sample, columns: dict[str, int], stations: Sample | None) -> PlaceGuess:
    """Take positions from a list: the rows name the station, or the name of the file does."""
    unsure: list[str] = []
    if stations is None:
        entries = {"id": "id", "lat": "lat", "lon": "lon", "alt": "alt"}
        unsure.append("the table has no positions: a list of stations with the columns id, lat, lon and alt gives them")
        units: dict[str, str] = {}
        ids: frozenset[str] = frozenset()
    else:
        entries, units, column = _columns_of_list(sample, columns, stations)
        ids = frozenset(stations.cells[column])
    key = columns.get("id", columns.get("name"))
    named_by = [columns[entry] for entry in ("id", "name") if entry in columns]
    shared = [(len(ids & frozenset(sample.cells[i])), i) for i in named_by]
    if ids and shared and max(shared)[0]:
        key = max(shared, key=lambda pair: pair[0])[1]
    elif ids and key is not None:
        unsure.append(f"no id of the list occurs in the first rows of '{printable(sample.columns[key])[:40]}'")
    if key is None:
        return PlaceGuess("name", entries, units, (), [
            *unsure, "no column names the station: the beginning of the file's name is taken as its id"
        ])  # fmt: skip
    _require_ids(sample, key)
    return PlaceGuess("file", {"key": sample.columns[key], **entries}, units, (key,), unsure)


def _columns_of_list(
    sample: Sample, columns: dict[str, int], stations: Sample
) -> tuple[dict[str, str], dict[str, str], int]:  # fmt: skip
    """Return the names of the columns of a list, their units, and the column of the id."""
    decimal = stations.layout.decimal if stations.layout is not None else "."
    names = [named(column) for column in stations.columns]
    cells = [look_at(column, decimal) for column in stations.cells]
    there = columns_of_places(names, cells)
    ids = {cell for entry in ("id", "name") if entry in columns for cell in sample.cells[columns[entry]]}
    shares = [len(ids.intersection(column)) for column in stations.cells]
    if max(shares, default=0) > 0 and there.get("id") != int(np.argmax(shares)):
        best = int(np.argmax(shares))
        there = {entry: i for entry, i in there.items() if i != best} | {"id": best}
    absent = [entry for entry in ("id", "lat", "lon") if entry not in there]
    if absent:
        raise DataError(
            f"{stations.label} is no list of stations: no column is {' or '.join(absent)}", code="SPDE-D133",
            where=f"its columns are {', '.join(printable(c)[:40] for c in stations.columns[:12])}",
            do="call its columns id, lat, lon and alt",
        )  # fmt: skip
    units = _units({e: cells[i] for e, i in there.items()}, {e: names[i] for e, i in there.items()})
    return {entry: stations.columns[i] for entry, i in there.items()}, units, there["id"]
