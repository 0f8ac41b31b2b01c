"""Choose the columns of a table that a column map names, and see where several could be meant.

Names are matched as they are written. A column whose name differs from one of several names in capitals, blanks or
underscores alone is never read in its place, as `U` may be humidity where `u` is wind; beside it, it counts as a second
candidate.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fields.errors import DataError, printable
from fields.readers.column_map import ColumnMap

__all__ = ["ColumnChoice", "choose_columns", "double_error", "folded", "near_column"]

_BLANKS = re.compile(r"[\s_\-]+")
_PLACES = ("lat", "lon", "alt")


@dataclass(slots=True)
class ColumnChoice:
    """Columns of a table by their number.

    ``positions`` gives the column of each variable and station entry (``@id``), ``times`` those of each part of a time.
    ``doubles`` lists further columns that an entry (``@time0`` for the first part of a time) names as well;
    ``resembling`` pairs columns that are not read with the name that they resemble.
    """

    times: list[int] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    doubles: dict[str, list[int]] = field(default_factory=dict)
    resembling: list[tuple[str, str]] = field(default_factory=list)


def choose_columns(column_map: ColumnMap, columns: Sequence[str]) -> ColumnChoice:
    """Choose the columns that a map names: for each entry the first of its names that the table has."""
    chosen = ColumnChoice()
    entries = _entries(column_map)
    near: dict[int, str] = {}
    for entry, names in entries.items():
        there = [i for name in names for i, column in enumerate(columns) if column == name]
        if len(names) > 1:
            # A name that stands alone was chosen by whoever wrote the map.
            alike = {folded(name): name for name in reversed(names)}
            variants = {i: alike[folded(c)] for i, c in enumerate(columns) if folded(c) in alike and i not in there}
        else:
            variants = {}
        if not there:
            near |= variants
            continue
        if entry.startswith("@time"):
            chosen.times.append(there[0])
        else:
            chosen.positions[entry] = there[0]
        rest = [*there[1:], *variants]
        if rest:
            chosen.doubles[entry] = rest
    read = {*chosen.times, *chosen.positions.values()}
    chosen.doubles = {
        entry: further for entry, rest in chosen.doubles.items() if (further := [i for i in rest if i not in read])
    }
    chosen.resembling = [(columns[i], name) for i, name in near.items() if i not in read]
    return chosen


def double_error(label: str, entry: str, names: tuple[str, str], seen: str = "") -> DataError:
    """Build the error for two columns that could both be meant and differ."""
    first, second = (printable(name)[:60] for name in names)
    what = "time" if entry.startswith("@time") else entry.lstrip("@")
    if first == second:
        do = "rename or remove one of them in the file"
    elif what == "time":
        do = f'--map FILE.toml   with the one that is meant in the column map, columns = ["{first}"]'
    elif entry.startswith("@"):
        do = f'--map FILE.toml   with the one that is meant in the column map, {what} = "{first}"'
    else:
        do = f'--map FILE.toml   with the one that is meant in the column map, column = "{first}"'
    return DataError(
        f"{label}: the columns '{first}' and '{second}' could both be {what}, and they differ",
        code="SPDE-D128",
        where=seen or None,
        do=do,
    )


def _entries(column_map: ColumnMap) -> dict[str, tuple[str, ...]]:
    stations = column_map.stations
    entries = {f"@time{i}": names for i, names in enumerate(column_map.time.columns)}
    entries |= {name: column.names for name, column in column_map.variables.items()}
    if stations.source == "columns":
        entries |= {f"@{key}": getattr(stations, key) for key in ("id", "name", "wigos", *_PLACES)}
    elif stations.source == "file":
        entries["@id"] = stations.key
    return entries


def folded(name: str) -> str:
    """Return a name without what writers differ in: capitals, blanks, underscores and hyphens."""
    return _BLANKS.sub("_", name.strip()).casefold()


def near_column(names: Sequence[str], columns: Sequence[str]) -> str:
    """Return the column whose name is most like one of several names; empty where none is."""
    alike = {folded(column): column for column in reversed(columns) if column}
    for name in names:
        near = difflib.get_close_matches(folded(name), alike, n=1, cutoff=0.6)
        if near:
            return alike[near[0]]
    return ""
