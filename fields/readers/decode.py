"""Decode blocks of a table to numbers: columns by the map, missing codes recognised, faults named by line.

Numbers are parsed by pyarrow. A column that holds a code such as ``M`` or ``VRB`` is read as text instead, its
distinct values are looked up once, and the codes are counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from fields.errors import DataError, printable
from fields.readers.column_map import Column, ColumnMap
from fields.readers.compass import NO_DIRECTION, advised_unit, is_compass, point_of
from fields.readers.csv_text import Block, TextLayout, line_of
from fields.readers.time_text import parse_times
from fields.times import Zone
from fields.variables import TEXT_SENTINELS

__all__ = ["Decoder", "ParsedBlock"]

Array = np.ndarray[Any, Any]
_BAD_COLUMN = re.compile(r"In CSV column #(\d+)")
_BAD_ROW = re.compile(r"Row #(\d+)")
_PLACES = ("lat", "lon", "alt")
# Bytes from which the compiled reader's start-up pays.
LONG = 64 << 20


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """Rows of a block: seconds UTC (and the later reading where a clock showed an hour twice), stations, values."""

    time: Array
    later: Array | None
    ids: list[str]
    station: Array
    values: Array
    places: tuple[Array, Array, Array] | None
    names: list[str] | None
    codes: Mapping[str, int]
    rows: int


@dataclass(slots=True)
class Decoder:
    """Decoder of the blocks of one table; several threads may use it at once.

    ``keep`` is (step, tolerance) in seconds where only rows near a multiple of the step are kept; ``size`` is the bytes
    of the table, 0 where unknown. ``positions`` gives the column of each variable and station entry (``@id``).
    """

    column_map: ColumnMap
    columns: Sequence[str]
    label: str
    zone: Zone
    keep: tuple[int, int] | None = None
    layout: TextLayout | None = None
    path: Path | None = None
    size: int = 0
    positions: dict[str, int] = field(init=False)
    times: list[int] = field(init=False)
    as_text: set[str] = field(init=False)

    def __post_init__(self) -> None:
        place = {name: i for i, name in reversed(list(enumerate(self.columns)))}

        def find(names: Sequence[str]) -> int | None:
            return next((place[name] for name in names if name in place), None)

        stations = self.column_map.stations
        self.times = [i for names in self.column_map.time.columns if (i := find(names)) is not None]
        positions = {name: find(column.names) for name, column in self.column_map.variables.items()}
        if stations.source == "columns":
            positions |= {f"@{key}": find(getattr(stations, key)) for key in ("id", "name", *_PLACES)}
        elif stations.source == "file":
            positions["@id"] = find(stations.key)
        self.positions = {name: i for name, i in positions.items() if i is not None}
        absent = self.column_map.missing_from(list(self.columns))
        if absent:
            there = ", ".join(printable(c)[:40] for c in self.columns[:12] if c)
            is_one = len(self.columns) == 1 and len(absent) > 1
            raise DataError(
                f"{self.label} has no column {', '.join(repr(printable(a)) for a in absent[:4])}",
                code="SPDE-D124",
                where=f"its columns are {there}{', …' if len(self.columns) > 12 else ''}",
                do=self.column_map.advice(
                    f"correct {'`separator` under [file]' if is_one else 'the names of the columns'}",
                    f"with the {'separator and the ' if is_one else ''}names of the columns",
                ),
            )
        self.as_text = {
            name
            for name, column in self.column_map.variables.items()
            if column.split or column.scale != 1.0 or column.missing or _are_words(name, column)
        }

    @property
    def variables(self) -> list[str]:
        """Variables of the map, in its order; those without a column stay missing."""
        return list(self.column_map.variables)

    # ---- text ---------------------------------------------------------------------------------------------------

    def parse(self, block: Block) -> ParsedBlock:
        """Decode a block of text."""
        while True:
            try:
                table = self._table(block)
            except pa.ArrowInvalid as problem:
                bad = _BAD_COLUMN.search(str(problem))
                name = next((n for n, i in self.positions.items() if bad and i == int(bad[1])), None)
                if name is None or name in self.as_text:
                    raise self._fault(block, str(problem)) from None
                self.as_text = self.as_text | {name}
            else:
                return self.rows(table, block.offset)

    def _table(self, block: Block) -> pa.Table:
        layout = self.layout
        assert layout is not None  # set for every text table
        types = self._types()
        if self._is_plain(block):
            from fields.readers.csv_kernel import read_plain

            numbered = {int(name[1:]): kind for name, kind in types.items()}
            table = read_plain(block.content, layout.separator, layout.decimal, numbered, len(layout.columns))
            if table is not None:
                return table
        names = [f"c{i}" for i in range(len(layout.columns))]
        return csv.read_csv(
            pa.BufferReader(pa.py_buffer(block.content)),
            read_options=csv.ReadOptions(
                column_names=names, use_threads=False, encoding=layout.encoding, block_size=1 << 20
            ),
            parse_options=csv.ParseOptions(delimiter=layout.separator, newlines_in_values=False),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=["", *self.column_map.text.missing],
                strings_can_be_null=False,
                decimal_point=layout.decimal,
            ),
        )

    def _types(self) -> dict[str, pa.DataType]:
        """Choose the types of the columns to be read."""
        types: dict[str, pa.DataType] = {f"c{i}": pa.string() for i in self.times}
        for name, i in self.positions.items():
            if name in ("@id", "@name") or name in self.as_text:
                types[f"c{i}"] = pa.string()
            else:
                types.setdefault(f"c{i}", pa.float64() if name.startswith("@") else pa.float32())
        return types

    def _is_plain(self, block: Block) -> bool:
        """Return whether the compiled reader is worth its start-up and can read all that the map declares."""
        is_long = max(self.size, block.offset) >= LONG
        return is_long and not self.as_text and not self.column_map.text.missing

    def _fault(self, block: Block, message: str) -> DataError:
        row = _BAD_ROW.search(message)
        where = self.place(block.offset, int(row[1]) - 1 if row else 0)
        tail = message.split("error: ", 1)[-1].split("Row #", 1)[-1].split(": ", 1)[-1]
        return DataError(f"{self.label} {where}: {printable(tail)[:160]}", code="SPDE-D123", do="correct that line")

    def place(self, offset: int, row: int) -> str:
        """Write a row's place in the file, for a message."""
        if self.layout is None:
            return f"row {offset + row + 1:,}"
        return line_of(self.path, offset, row)

    # ---- tables ---------------------------------------------------------------------------------------------------

    def rows(self, table: pa.Table, offset: int) -> ParsedBlock:
        """Decode a table whose columns are called ``c<position>``."""
        total = table.num_rows
        time, later, keep = self._time(table, offset)
        if keep is not None:
            table = table.filter(pa.array(keep))
            time = time[keep]
            later = later[keep] if later is not None else None
        ids, station = self._strings(table, "@id")
        codes: dict[str, int] = {}
        values = np.full((len(self.column_map.variables), table.num_rows), np.nan, np.float32)
        for i, (name, column) in enumerate(self.column_map.variables.items()):
            if name in self.positions:
                values[i] = self._numbers(table, name, column, offset, codes)
        places = None
        if "@lat" in self.positions:
            unit_column = Column((), "1")
            lat, lon, alt = (self._numbers(table, f"@{key}", unit_column, offset, codes) for key in _PLACES)
            places = (lat, lon, alt)
        return ParsedBlock(time, later, ids, station, values, places, self._names(table, station, ids), codes, total)

    def _time(self, table: pa.Table, offset: int) -> tuple[Array, Array | None, Array | None]:
        parts = [table[f"c{i}"] for i in self.times]
        if len(parts) == 1 and pa.types.is_timestamp(parts[0].type):
            aware = parts[0].type.tz is not None
            seconds = np.asarray(parts[0].cast(pa.timestamp("s"), safe=False).cast(pa.int64()), np.int64)
            self._require_times(parts[0], offset)
            distinct, index = seconds, None
            named = np.full(seconds.shape, aware)
        else:
            texts = [part.cast(pa.string()) for part in parts]
            joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, " ")
            coded = joined.combine_chunks().dictionary_encode() if len(joined) else pa.array([], pa.string())
            if len(joined) == 0:
                return np.empty(0, np.int64), None, None
            self._require_times(coded, offset)
            index = np.asarray(coded.indices)
            distinct, named, bad = parse_times(coded.dictionary, self.column_map.time.formats)
            if bad >= 0:
                row = int(np.flatnonzero(index == bad)[0])
                text = printable(coded.dictionary[bad].as_py())[:40]
                raise DataError(
                    f"{self.label} {self.place(offset, row)}: '{text}' is not a time",
                    code="SPDE-D010",
                    where=f"format {' or '.join(self.column_map.time.formats)}",
                    do=self.column_map.advice("correct `format` under [time]", "with the format of the times"),
                )
        first, last = self._utc(distinct, named, offset)
        keep = None
        if self.keep is not None:
            step, tolerance = self.keep
            away = first % step
            near = np.minimum(away, step - away) <= tolerance
            keep = near if index is None else near[index]
        later = None if np.array_equal(first, last) else last
        if index is None:
            return first, later, keep
        return first[index], None if later is None else later[index], keep

    def _require_times(self, column: Any, offset: int) -> None:
        if column.null_count:
            empty = np.flatnonzero(np.asarray(column.is_null()))
            raise DataError(f"{self.label} {self.place(offset, int(empty[0]))}: there is no time", code="SPDE-D010")

    def _utc(self, seconds: Array, aware: Array, offset: int) -> tuple[Array, Array]:
        if aware.all():
            return seconds, seconds
        # Finding the line means reading the file again: only if it is needed.
        first, last = self.zone.to_utc(seconds, lambda: f"{self.label}, after {self.place(offset, 0)}")
        return np.where(aware, seconds, first), np.where(aware, seconds, last)

    def _strings(self, table: pa.Table, name: str) -> tuple[list[str], Array]:
        if name not in self.positions:
            return [""], np.zeros(table.num_rows, np.int32)
        column = table[f"c{self.positions[name]}"]
        if table.num_rows == 0:
            return [], np.zeros(0, np.int32)
        if not pa.types.is_string(column.type):
            column = column.cast(pa.string())
        coded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
        texts = [text.strip() for text in coded.dictionary.to_pylist()]
        return texts, np.asarray(coded.indices, np.int32)

    def _names(self, table: pa.Table, station: Array, ids: list[str]) -> list[str] | None:
        if "@name" not in self.positions:
            return None
        texts, index = self._strings(table, "@name")
        _, first = np.unique(station, return_index=True)
        by_station = {int(station[row]): texts[int(index[row])] for row in first}
        return [by_station.get(i, "") for i in range(len(ids))]

    def _numbers(self, table: pa.Table, name: str, column: Column, offset: int, codes: dict[str, int]) -> Array:
        cells = table[f"c{self.positions[name]}"]
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if not _are_words(name, column) and _are_numbers(cells.type):
            wide = cells.cast(pa.float64()) if not pa.types.is_floating(cells.type) else cells
            numbers = np.asarray(wide.to_numpy())
            return numbers * column.scale if column.scale != 1.0 else numbers
        if _are_numbers(cells.type):
            raise DataError(f"{self.label} › {name}: numbers, where {column.unit} says words", code="SPDE-D126",
                            do="--unit dd=degrees")  # fmt: skip
        if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
            raise DataError(f"{self.label} › {name}: a column of {cells.type} is no number", code="SPDE-D126")
        if len(cells) == 0:
            return np.empty(0)
        coded = pc.fill_null(cells.cast(pa.string()), "").combine_chunks().dictionary_encode()
        distinct, missing, bad = self._lookup(coded.dictionary.to_pylist(), name, column)
        index = np.asarray(coded.indices)
        if bad >= 0:
            row = int(np.flatnonzero(index == bad)[0])
            raise self._no_value(coded.dictionary.to_pylist(), bad, name, column, self.place(offset, row))
        counted = int(missing[index].sum())
        if counted:
            key = name.lstrip("@")
            codes[key] = codes.get(key, 0) + counted
        return distinct[index]

    def _no_value(self, texts: list[str], bad: int, name: str, column: Column, place: str) -> DataError:
        """Return the error for a cell that is neither a value nor a code for missing."""
        text = printable(texts[bad])[:40]
        what = "no point of the compass in English" if _are_words(name, column) else "not a number"
        do = self.column_map.advice(
            f'set missing = ["{text}"] under [file], if it means missing',
            f'with missing = ["{text}"] under [file], if it means missing',
        )
        if name == "dd":
            do = advised_unit(texts, texts[bad], column.unit) or do
        return DataError(
            f"{self.label} {place}: '{text}' is {what}",
            code="SPDE-D126",
            where=f"{self.label} › {name.lstrip('@')}",
            do=do,
        )

    def _lookup(self, texts: list[str], name: str, column: Column) -> tuple[Array, Array, int]:
        """Convert distinct texts: values, which are (non-empty) codes for missing, and the first that is neither."""
        declared = {code.strip() for code in (*column.missing, *self.column_map.text.missing)}
        sentinels = TEXT_SENTINELS | NO_DIRECTION if name == "dd" else TEXT_SENTINELS
        decimal = self.layout.decimal if self.layout is not None else "."
        values = np.full(len(texts), np.nan)
        missing = np.zeros(len(texts), bool)
        for i, text in enumerate(texts):
            cell = text.strip()
            if column.split:
                pieces = cell.split(column.split)
                cell = pieces[column.part].strip() if column.part < len(pieces) else ""
            if cell in declared or cell.lower() in sentinels:
                missing[i] = bool(cell)
                continue
            if _are_words(name, column):
                point = point_of(cell)
                if point is None:
                    return values, missing, i
                values[i] = point
                continue
            try:
                values[i] = float(cell.replace(decimal, ".") if decimal != "." else cell) * column.scale
            except ValueError:
                return values, missing, i
            if "_" in cell:  # Python reads 1_000 as a number, no table means it
                return values, missing, i
        return values, missing, -1


def _are_words(name: str, column: Column) -> bool:
    return name == "dd" and is_compass(column.unit)


def _are_numbers(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))
