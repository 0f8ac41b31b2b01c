"""Decode blocks of a table to numbers: columns by the map, missing codes recognised, faults named by line.

Numbers are parsed by pyarrow. A column that holds a code such as ``M`` or ``VRB`` is read as text instead, its
distinct values are looked up once, and the codes are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from fields.errors import DataError, printable
from fields.readers.column_choice import ColumnChoice, choose_columns, double_error, near_column
from fields.readers.column_map import Column, ColumnMap
from fields.readers.compass import NO_DIRECTION, advised_unit, is_compass, point_of
from fields.readers.csv_text import Block, TextLayout, line_of, stray_quote
from fields.readers.time_columns import TimeColumns, as_text
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
    """Rows of a block: seconds UTC (and the later reading where a clock showed an hour twice), stations, values.

    ``clocks`` (whether naive and aware times occur) and ``counted`` (times that are counts since 1970) are those of
    `fields.readers.time_columns.BlockTimes`; ``codes`` counts the codes for missing by variable; ``padded``
    are ids that are written both with blanks around them and without.
    """

    time: Array
    later: Array | None
    ids: list[str]
    station: Array
    values: Array
    places: tuple[Array, Array, Array] | None
    names: list[str] | None
    codes: Mapping[str, int]
    rows: int
    clocks: tuple[bool, bool] = (False, False)
    counted: int = 0
    padded: frozenset[str] = frozenset()
    wigos: list[str] | None = None


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
    choice: ColumnChoice = field(init=False)
    positions: dict[str, int] = field(init=False)
    times: list[int] = field(init=False)
    as_text: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.choice = choose_columns(self.column_map, self.columns)
        self.times, self.positions = self.choice.times, self.choice.positions
        absent = self.column_map.missing_from(list(self.columns))
        if absent:
            is_one = len(self.columns) == 1 and len(absent) > 1
            raise DataError(
                f"{self.label} has no column {', '.join(repr(printable(a)) for a in absent[:4])}",
                code="SPDE-D124",
                where=f"its columns are {_listed(self.columns)}",
                do=self.column_map.advice(
                    f"correct {'`separator` under [file]' if is_one else 'the names of the columns'}",
                    f"with the {'separator and the ' if is_one else ''}names of the columns",
                ),
            )
        self._require_variables()
        self.as_text = {
            name
            for name, column in self.column_map.variables.items()
            if column.split or column.scale != 1.0 or column.missing or _are_words(name, column)
        }

    def _require_variables(self) -> None:
        """Refuse a table that lacks a column of a variable: it would become a store without that variable."""
        lost = self.column_map.variables_missing_from(self.columns)
        if not lost:
            return
        entry, column = next(iter(lost.items()))
        absent = ", ".join(f"'{printable(c.names[0])[:60]}' ({name})" for name, c in list(lost.items())[:4])
        near = near_column(column.names, self.columns)
        meant = f'column = "{printable(near)}"' if near else "correct the name of the column"
        raise DataError(
            f"{self.label} has no column {absent}", code="SPDE-D124",
            where=f"its columns are {_listed(self.columns)}",
            do=self.column_map.advice(f"{meant} for {entry}; or write optional = true where a table may lack it",
                                      "with the names of the columns"),
        )  # fmt: skip

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
                name = next((n for n, i in self._number_columns() if bad and i == int(bad[1])), None)
                if name is None or name in self.as_text:
                    raise self._fault(block, str(problem)) from None
                self.as_text = self.as_text | {name}
            else:
                return self.rows(table, block.offset)

    def _table(self, block: Block, only: dict[str, pa.DataType] | None = None) -> pa.Table:
        layout = self.layout
        assert layout is not None  # set for every text table
        types = only or self._types()
        if self._is_plain(block):
            from fields.readers.csv_kernel import read_plain

            numbered = {int(name[1:]): kind for name, kind in types.items()}
            table = read_plain(block.content, layout.separator, layout.decimal, numbered, len(layout.columns))
            if table is not None:
                return table
        names = [f"c{i}" for i in range(len(layout.columns))]
        content = bytes(block.content)
        open_quote = stray_quote(content, layout.separator)
        if open_quote >= 0:
            line = self.place(block.offset, content.count(b"\n", 0, open_quote))
            raise DataError(f"{self.label} {line}: a quote is opened and not closed in its cell", code="SPDE-D123",
                            do="correct that line: what follows would be read as part of the cell")  # fmt: skip
        return csv.read_csv(
            pa.BufferReader(pa.py_buffer(content)),
            read_options=csv.ReadOptions(
                column_names=names, use_threads=False, encoding=layout.encoding, block_size=1 << 20
            ),
            parse_options=csv.ParseOptions(delimiter=layout.separator, newlines_in_values=b'"' in content),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=["", *self.column_map.text.missing],
                strings_can_be_null=False,
                decimal_point=layout.decimal,
            ),
        )

    def _number_columns(self) -> Iterator[tuple[str, int]]:
        """Yield the columns of each entry but time, those that could be meant as well behind the one that is read."""
        for name, i in self.positions.items():
            yield name, i
            yield from ((name, other) for other in self.choice.doubles.get(name, ()))

    def double_names(self) -> Iterator[tuple[str, str]]:
        """Yield the names of columns that are read, each with another that could be meant as well."""
        for entry, others in self.choice.doubles.items():
            is_time = entry.startswith("@time")
            chosen = self.times[int(entry.removeprefix("@time"))] if is_time else self.positions[entry]
            yield from ((self.columns[chosen], self.columns[other]) for other in others)

    def needed(self) -> list[int]:
        """Return the numbers of all columns to be read."""
        others = (i for columns in self.choice.doubles.values() for i in columns)
        return sorted({*self.times, *self.positions.values(), *others})

    def _types(self) -> dict[str, pa.DataType]:
        """Choose the types of the columns to be read."""
        types: dict[str, pa.DataType] = {f"c{i}": pa.string() for i in self.times}
        for entry, columns in self.choice.doubles.items():
            types |= {f"c{i}": pa.string() for i in columns if entry.startswith("@time")}
        for name, i in self._number_columns():
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
        """Decode a table whose columns are called ``c<position>``; rows without any content at its end are none."""
        table = _without_empty_end(table)
        total = table.num_rows
        times = self._clock.read(table, offset)
        time, later, keep = times.seconds, times.later, times.keep
        self._compare_doubles(table, offset)
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
            lat, lon, alt = (
                self._numbers(table, f"@{key}", unit_column, offset, codes)
                if f"@{key}" in self.positions else np.full(table.num_rows, np.nan) for key in _PLACES
            )  # fmt: skip
            places = (lat, lon, alt)
        names, wigos = (self._labels(table, entry, station, ids) for entry in ("@name", "@wigos"))
        return ParsedBlock(
            time, later, ids, station, values, places, names, codes, total, (times.has_naive, times.has_aware),
            times.epoch_counts, _double(ids), wigos
        )  # fmt: skip

    @property
    def _clock(self) -> TimeColumns:
        return TimeColumns(self.column_map, self.label, self.zone, self.keep, self.place, self.times)

    def time_texts(self, table: pa.Table) -> pa.Array | None:
        """Return the distinct times of a table as they are written; None where they are no text."""
        return self._clock.texts(table)

    def time_texts_of(self, block: Block) -> pa.Array | None:
        """Return the distinct times of a block of text as they are written."""
        try:
            return self.time_texts(self._table(block, {f"c{i}": pa.string() for i in self.times}))
        except pa.ArrowInvalid as problem:
            raise self._fault(block, str(problem)) from None

    # ---- columns that could both be meant -------------------------------------------------------------------------

    def _compare_doubles(self, table: pa.Table, offset: int) -> None:
        """Refuse columns that name the same thing and differ."""
        for entry, others in self.choice.doubles.items() if table.num_rows else ():
            is_time = entry.startswith("@time")
            chosen = self.times[int(entry.removeprefix("@time"))] if is_time else self.positions[entry]
            for other in others:
                names = (self.columns[chosen], self.columns[other])
                twin = pa.table({f"c{chosen}": table[f"c{other}"]})
                row = self._first_difference(table, twin, entry, chosen, offset)
                if row is not None:
                    cells = [_shown(table[f"c{i}"][row].as_py()) for i in (chosen, other)]
                    seen = f"{self.place(offset, row)}: {cells[0]} and {cells[1]}"
                    raise double_error(self.label, entry, names, seen)

    def _first_difference(
        self, table: pa.Table, twin: pa.Table, entry: str, chosen: int, offset: int
    ) -> int | None:  # fmt: skip
        """Return the first row at which a column and its twin differ, as this entry reads them."""
        if entry in self.column_map.variables or entry.removeprefix("@") in _PLACES:
            column = self.column_map.variables.get(entry, Column((), "1"))
            try:
                first, second = (self._numbers(t, entry, column, offset, {}) for t in (table, twin))
            except DataError:
                return 0
            differs = ~((first == second) | (np.isnan(first) & np.isnan(second)))
        else:
            texts = [pc.fill_null(pc.utf8_trim_whitespace(as_text(t[f"c{chosen}"])), "") for t in (table, twin)]
            differs = np.asarray(pc.not_equal(*texts))
            if differs.any() and entry.startswith("@time") and len(self.times) == 1:
                try:
                    first, second = (self._clock.read(t, offset).seconds for t in (table, twin))
                except DataError:
                    return int(np.flatnonzero(differs)[0])
                differs = first != second
        return int(np.flatnonzero(differs)[0]) if differs.any() else None

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

    def _labels(self, table: pa.Table, entry: str, station: Array, ids: list[str]) -> list[str] | None:
        if entry not in self.positions:
            return None
        texts, index = self._strings(table, entry)
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
        if re.match(r"[^\w]*\d", text) and not _are_words(name, column):  # 1,013.2 or 12 °C would be lost as missing
            do = "write it with a decimal point, without separators of thousands and without its unit"
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


def _without_empty_end(table: pa.Table) -> pa.Table:
    """Cut off rows at the end whose cells are all empty: a spreadsheet saves such as ``,,,,``."""
    left = table.num_rows
    while left and all(_is_empty(column[left - 1].as_py()) for column in table.columns):
        left -= 1
    return table.slice(0, left) if left < table.num_rows else table


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell != cell


def _listed(columns: Sequence[str]) -> str:
    there = ", ".join(printable(c)[:40] for c in columns[:12] if c)
    return f"{there}{', …' if len(columns) > 12 else ''}"


def _double(ids: list[str]) -> frozenset[str]:
    """Return ids that stand for two different cells: such as differ in the blanks around them alone."""
    return frozenset(name for name, count in Counter(ids).items() if count > 1)


def _shown(cell: Any) -> str:
    return f"{cell:g}" if isinstance(cell, float) else printable(cell)[:40]


def _are_words(name: str, column: Column) -> bool:
    return name == "dd" and is_compass(column.unit)


def _are_numbers(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))
