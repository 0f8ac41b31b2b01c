"""Load column maps: what the columns of a table mean, written as TOML.

A map says how the text is written (separator, decimal mark, encoding, missing codes), where times and stations
stand, and for each variable its column and unit. ``maps/inmet.toml`` and ``maps/tidy.toml`` are examples that ship.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from fields.errors import FieldsError, UsageError, printable
from fields.readers.safety import open_binary, shown
from fields.times import DATE_ORDERS, Zone, parse_span
from fields.units import COMPASS_UNITS, conversion
from fields.variables import VARIABLES, PressureKind, variable

__all__ = ["Column", "ColumnMap", "MapError", "StationColumns", "TextForm", "TimeForm", "load_map", "shipped_map"]

_LARGEST = 256 << 10
_DEEPEST = 16
_MOST_NAMES = 64
# Formats that have a name of their own, besides those written with % directives; `fields.readers.time_text` reads them.
NAMED_FORMATS = ("iso", "dates", "digits", "unix", "unix-ms", "excel")
_DAY_FOR_MONTH = str.maketrans({"d": "m", "m": "d"})


class MapError(FieldsError):
    """A column map that cannot be used: a configuration error."""

    code = "SPDE-D120"
    exit_code = 4


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a table is written; ``auto`` is detected in its first lines and reported."""

    separator: str = "auto"
    decimal: str = "auto"
    encoding: str = "auto"
    header_lines: int = 0
    comment: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeForm:
    """Columns that make up a time (joined by a blank), their formats (see `fields.readers.time_text`), clock, and step.

    ``order`` is that of dates of three numbers, a key of `fields.times.DATE_ORDERS`; None leaves it to the dates.
    """

    columns: tuple[tuple[str, ...], ...] = (("time",),)
    formats: tuple[str, ...] = ("iso",)
    zone: str | None = None
    step: int | None = None
    tolerance: int | None = None
    order: str | None = None


@dataclass(frozen=True, slots=True)
class StationColumns:
    """Columns, lines or files that give a station's id, position, name and WIGOS identifier.

    ``source`` is ``columns`` (of every row), ``header`` (lines before the column names, ``key<separator>value``),
    ``file`` (a table of stations; ``key`` is the column of the data that holds the id) or ``name`` (the id is the
    part of the file's name that ``pattern`` captures, the rest comes from ``file``).
    """

    source: Literal["columns", "header", "file", "name"] = "columns"
    id: tuple[str, ...] = ("station",)
    lat: tuple[str, ...] = ("lat",)
    lon: tuple[str, ...] = ("lon",)
    alt: tuple[str, ...] = ("alt",)
    name: tuple[str, ...] = ()
    wigos: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    file: str = ""
    pattern: str = ""
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a variable: its possible names, its unit, its codes for missing.

    ``split`` and ``part`` take one piece of a compound value such as ``+0123,1``; ``scale`` is a factor that the
    format documents (tenths of a degree). Both are declared here, so nothing is scaled silently. A table may lack an
    ``optional`` column; without any other it is refused.
    """

    names: tuple[str, ...]
    unit: str
    missing: tuple[str, ...] = ()
    split: str = ""
    part: int = 0
    scale: float = 1.0
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Complete description of a table: text form, times, stations, variables.

    ``folder`` is where the map lies, None for one that ships. Where ``needs_altitude`` is False, stations may do
    without: an elevation model gives theirs.
    """

    title: str
    text: TextForm
    time: TimeForm
    stations: StationColumns
    variables: Mapping[str, Column]
    pressure_kind: PressureKind = PressureKind.STATION
    label: str = "map"
    is_shipped: bool = False
    folder: Path | None = field(default=None, repr=False, compare=False)
    needs_altitude: bool = True

    def missing_from(self, columns: list[str]) -> list[str]:
        """List names that the map needs and a table does not have; of the variables, one is enough."""
        there = set(columns)
        needed = list(self.time.columns)
        if self.stations.source == "columns":
            needed += [self.stations.id, self.stations.lat, self.stations.lon]
            needed += [self.stations.alt] if self.needs_altitude else []
        elif self.stations.source == "file" and self.stations.key:
            needed.append(self.stations.key)
        absent = [names[0] for names in needed if not there.intersection(names)]
        if not any(there.intersection(column.names) for column in self.variables.values()):
            absent += [column.names[0] for column in self.variables.values()]
        return absent

    def variables_missing_from(self, columns: Sequence[str]) -> dict[str, Column]:
        """Return the variables whose columns a table lacks although the map does not call them optional."""
        there = set(columns)
        return {n: c for n, c in self.variables.items() if not c.optional and not there.intersection(c.names)}

    def advice(self, wrong: str, absent: str) -> str:
        """Return advice on what the map lacks: to mend it where it is the user's own, to write one where it shipped."""
        if self.is_shipped:
            return f"--map FILE.toml   {absent}; `stationpde data where table` shows a column map to begin with"
        return f"in the column map {self.label}, {wrong}"

    def with_units(self, units: Mapping[str, str]) -> ColumnMap:
        """Return the map with units that the user declares instead of its own."""
        columns = {name: replace(c, unit=units.get(name, c.unit)) for name, c in self.variables.items()}
        places = {**self.stations.units, **{k: v for k, v in units.items() if k in ("lat", "lon", "alt")}}
        return replace(self, variables=columns, stations=replace(self.stations, units=places))


def shipped_maps() -> list[str]:
    """List the names of the maps that come with the package."""
    folder = resources.files(__package__).joinpath("maps")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def shipped_map(name: str) -> ColumnMap:
    """Load a map that comes with the package, by name."""
    text = resources.files(__package__).joinpath("maps", f"{name}.toml").read_bytes()
    return replace(parse_map(text, f"{name}.toml"), is_shipped=True)


def load_map(name: str | Path) -> ColumnMap:
    """Load a map from a file, or a shipped one by its name."""
    path = Path(name)
    if not path.suffix and not path.is_file() and str(name) in shipped_maps():
        return shipped_map(str(name))
    try:
        with open_binary(path) as file:
            return replace(parse_map(file.read(_LARGEST + 1), shown(path)), folder=path.parent)
    except UsageError as problem:
        shipped = ", ".join(shipped_maps())
        raise UsageError(problem.message, code=problem.code, do=f"give a TOML file, or one of {shipped}") from None


def parse_map(raw: bytes, label: str) -> ColumnMap:
    """Read a map from the bytes of a TOML file.

    Raises
    ------
    MapError
        With the line for broken TOML; with the key, and what was probably meant, for an invalid entry.
    """
    if len(raw) > _LARGEST:
        raise MapError(f"{label} is larger than {_LARGEST:,} bytes: no column map is")
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        raise MapError(f"{label} is not a text in UTF-8: line {line}") from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise MapError(f"{label} is not TOML: {printable(problem)}", do="correct that line") from None
    except RecursionError:
        raise MapError(f"{label} is nested too deeply: line {_deepest_line(text)}") from None
    return _MapParser(label).column_map(content)


def _deepest_line(text: str) -> int:
    depths = [line.count("[") + line.count("{") for line in text.splitlines()]
    return depths.index(max(depths)) + 1


class _MapParser:
    """Converter of parsed TOML to a map, key by key."""

    def __init__(self, label: str) -> None:
        self.label = label

    def fail(self, what: str, do: str = "") -> MapError:
        return MapError(f"{self.label}: {what}", do=do or None)

    def table(self, content: Any, place: str, allowed: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(content, dict):
            raise self.fail(f"[{place}] must be a table")
        for key in content:
            if key not in allowed:
                near = difflib.get_close_matches(str(key), allowed, n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(allowed)}"
                raise self.fail(f"[{place}] has the unknown key '{printable(key)[:60]}'", hint)
        return content

    def text(self, table: dict[str, Any], key: str, default: str = "", longest: int = 400) -> str:
        value = table.get(key, default)
        if not isinstance(value, str) or len(value) > longest:
            raise self.fail(f"`{key}` must be a text of at most {longest} characters")
        return value

    def names(self, value: Any, key: str) -> tuple[str, ...]:
        listed = [value] if isinstance(value, str) else value
        good = isinstance(listed, list) and 0 < len(listed) <= _MOST_NAMES
        if not good or not all(isinstance(item, str) and len(item) <= 400 for item in listed):
            raise self.fail(f"`{key}` must be a text or a list of texts")
        return tuple(item.strip() for item in listed)

    def choice(self, table: dict[str, Any], key: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self.text(table, key, default)
        if value not in allowed:
            raise self.fail(f"`{key}` is '{printable(value)[:40]}'", f"choose one of {', '.join(allowed)}")
        return value

    def switch(self, table: dict[str, Any], key: str, default: bool) -> bool:
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(f"`{key}` must be true or false")
        return value

    def column_map(self, content: dict[str, Any]) -> ColumnMap:
        keys = ("title", "description", "pressure_kind", "optional", "file", "time", "station", "variables")
        self.table(content, "top level", keys)
        kinds = (PressureKind.STATION, PressureKind.SEA_LEVEL)
        stations = self.stations(content.get("station", {}))
        return ColumnMap(
            title=self.text(content, "title", self.label),
            text=self.text_form(content.get("file", {})),
            time=self.time_form(content.get("time", {})),
            stations=stations,
            variables=self.variables(content.get("variables", {}), self.switch(content, "optional", False)),
            pressure_kind=PressureKind(self.choice(content, "pressure_kind", PressureKind.STATION, kinds)),
            label=self.label,
        )

    def text_form(self, content: Any) -> TextForm:
        keys = ("separator", "decimal", "encoding", "header_lines", "comment", "missing")
        table = self.table(content, "file", keys)
        separator = self.text(table, "separator", "auto")
        separator = {"tab": "\t", "comma": ",", "semicolon": ";"}.get(separator, separator)
        if separator not in ("auto", "whitespace") and (len(separator) != 1 or not separator.isascii()):
            raise self.fail("`separator` must be one ASCII character, 'tab', 'whitespace' or 'auto'")
        encoding = self.text(table, "encoding", "auto")
        if encoding != "auto":
            try:
                b"0123456789,;\n".decode(encoding)
            except (LookupError, UnicodeError, ValueError):
                raise self.fail(f"`encoding` '{printable(encoding)[:40]}' is not one that tables use") from None
        lines = table.get("header_lines", 0)
        if not isinstance(lines, int) or isinstance(lines, bool) or not 0 <= lines <= 1000:
            raise self.fail("`header_lines` must be a number from 0 to 1000")
        missing = self.names(table["missing"], "missing") if table.get("missing") else ()
        decimal = self.choice(table, "decimal", "auto", ("auto", ".", ","))
        if decimal == "," and separator == ",":
            raise self.fail("`separator` and `decimal` are both a comma")
        return TextForm(separator, decimal, encoding, lines, self.text(table, "comment", longest=8), missing)

    def time_form(self, content: Any) -> TimeForm:
        table = self.table(content, "time", ("columns", "format", "date_order", "zone", "step", "tolerance"))
        columns = table.get("columns", ["time"])
        if not isinstance(columns, list) or not 0 < len(columns) <= 8:
            raise self.fail("`columns` of [time] must be a list of one to eight columns")
        formats = self.names(table.get("format", "iso"), "format")
        self._formats(formats)
        order = self.choice(table, "date_order", "", ("", *DATE_ORDERS)) or None
        zone = self.text(table, "zone") or None
        try:
            name = Zone.parse(zone).name if zone else None
            steps = {key: parse_span(self.text(table, key)) for key in ("step", "tolerance") if key in table}
        except UsageError as problem:
            raise self.fail(problem.message, problem.do or "") from None
        listed = tuple(self.names(column, "columns") for column in columns)
        return TimeForm(listed, formats, name, steps.get("step"), steps.get("tolerance"), order)

    def _formats(self, formats: tuple[str, ...]) -> None:
        for form in formats:
            if form not in NAMED_FORMATS and "%" not in form:
                raise self.fail(f"time format '{printable(form)[:40]}' has no % directive",
                                f"as in '%Y-%m-%d %H:%M', or one of {', '.join(NAMED_FORMATS)}")  # fmt: skip
            if "%Z" in form:
                raise self.fail("%Z in a time format names a zone that is not read",
                                "write `zone` under [time], or %z for offsets such as +0200")  # fmt: skip
        swapped = {form.translate(_DAY_FOR_MONTH) for form in formats if "%d" in form and "%m" in form}
        if swapped & set(formats):
            raise self.fail("time formats differ in the order of day and month alone",
                            'write format = "dates" and date_order = "dmy" or "mdy"')  # fmt: skip

    def stations(self, content: Any) -> StationColumns:
        places = ("id", "lat", "lon", "alt", "name", "wigos", "key")
        table = self.table(content, "station", ("from", *places, "file", "pattern", "units"))
        source: Any = self.choice(table, "from", "columns", ("columns", "header", "file", "name"))
        columns = {key: self.names(table[key], key) for key in places if key in table}
        units = self.table(table.get("units", {}), "station.units", ("lat", "lon", "alt"))
        for name, unit in units.items():
            self._unit(name, unit)
        pattern = self.text(table, "pattern", longest=100)
        if source == "name":
            self._pattern(pattern)
        if source == "file" and not columns.get("key"):
            columns["key"] = columns.get("id", ("station",))
        return StationColumns(source=source, file=self.text(table, "file"), pattern=pattern, units=units, **columns)

    def _pattern(self, pattern: str) -> None:
        try:
            groups = re.compile(pattern).groups
        except (re.error, RecursionError, OverflowError):
            groups = 0
        # Nested repetition can take for ever on a hostile name; ids never need it.
        if groups != 1 or re.search(r"[*+}]\)[*+{]", pattern):
            raise self.fail("`pattern` must be a regular expression with one group, as in '^([A-Z0-9]+)_'")

    def _unit(self, name: str, unit: Any) -> None:
        try:
            conversion(name, unit if isinstance(unit, str) else "")
        except FieldsError as problem:
            words = COMPASS_UNITS[:1] if name == "dd" else ()
            choices = ", ".join((*variable(name).file_units, *words))
            raise self.fail(problem.message, f"declare one of {choices}") from None

    def variables(self, content: Any, optional: bool) -> dict[str, Column]:
        if not isinstance(content, dict) or not content:
            raise self.fail("[variables] names no column", 'as in: t = { column = "temperature", unit = "degC" }')
        columns = {}
        for name, about in self.table(content, "variables", tuple(VARIABLES)).items():
            keys = ("column", "unit", "missing", "split", "part", "scale", "optional")
            table = self.table(about, f"variables.{name}", keys)
            if "column" not in table or "unit" not in table:
                raise self.fail(f"[variables.{name}] needs `column` and `unit`")
            self._unit(name, table["unit"])
            part, scale = table.get("part", 0), table.get("scale", 1.0)
            if not isinstance(part, int) or not 0 <= part < 100:
                raise self.fail(f"`part` of {name} must be a number from 0 to 99")
            if not isinstance(scale, int | float) or not 1e-9 < abs(scale) < 1e9:
                raise self.fail(f"`scale` of {name} must be a factor other than 0")
            missing = self.names(table["missing"], "missing") if table.get("missing") else ()
            split = self.text(table, "split", longest=1)
            columns[name] = Column(
                self.names(table["column"], "column"), table["unit"], missing, split, part, float(scale),
                self.switch(table, "optional", optional),
            )  # fmt: skip
        return columns
