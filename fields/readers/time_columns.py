"""Decode the times of a table: one column or several that are joined, as text, as numbers or as timestamps, to UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fields.errors import DataError, printable
from fields.readers.column_map import ColumnMap
from fields.readers.date_order import UNPARSED, numeric_dates
from fields.readers.time_text import ParsedTimes, parse_times, two_readings
from fields.times import DATE_ORDERS, ERA, Zone, format_time, to_seconds

__all__ = ["BlockTimes", "TimeColumns", "as_text"]

Array = np.ndarray[Any, Any]
_FIRST, _END = (int(t) for t in to_seconds(np.asarray(ERA)))
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
# Written as ISO times are; what cannot be read is then out of range, as 31 February, 24:30 or a leap second.
_ISO_SHAPE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?")


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """Times of the rows of a block in seconds UTC.

    ``later`` is the other reading where a clock showed an hour twice, ``keep`` marks the rows near a step where only
    those are kept. ``has_naive`` and ``has_aware`` say whether times without an offset and times with one occur,
    ``epoch_counts`` how many distinct times are counts since 1970 whose unit was told by their length.
    """

    seconds: Array
    later: Array | None = None
    keep: Array | None = None
    has_naive: bool = False
    has_aware: bool = False
    epoch_counts: int = 0


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """Columns ``c<position>`` that make up the times of one table.

    ``keep`` is (step, tolerance) in seconds where only rows near a multiple of the step are kept; ``place`` writes the
    place of a row in the file, counted from an offset.
    """

    column_map: ColumnMap
    label: str
    zone: Zone
    keep: tuple[int, int] | None
    place: Callable[[int, int], str]
    positions: list[int] = field(default_factory=list)

    def texts(self, table: pa.Table) -> pa.Array | None:
        """Return the distinct times of a table as they are written; None where they are no text."""
        parts = [table[f"c{i}"] for i in self.positions]
        if table.num_rows == 0 or any(pa.types.is_primitive(part.type) for part in parts):
            return None
        joined = self._joined([as_text(part) for part in parts])
        return pc.utf8_trim_whitespace(pc.unique(joined.combine_chunks()).drop_null())

    def read(self, table: pa.Table, offset: int) -> BlockTimes:
        """Decode the times of a table whose first row stands at ``offset``."""
        parts = [table[f"c{i}"] for i in self.positions]
        if table.num_rows == 0:
            return BlockTimes(np.empty(0, np.int64))
        if len(parts) == 1 and pa.types.is_timestamp(parts[0].type):
            self._require_times(parts[0], offset)
            seconds = np.asarray(parts[0].cast(pa.timestamp("s"), safe=False).cast(pa.int64()), np.int64)
            named = np.full(seconds.shape, parts[0].type.tz is not None)
            index, parsed = np.arange(seconds.size), ParsedTimes(seconds, named, np.zeros(seconds.shape, bool), -1)
        else:
            index, parsed = self._of_texts(parts, offset)
        first, last = self._utc(parsed.seconds, parsed.aware, offset)
        self._require_era(first, index, offset)
        return BlockTimes(
            first[index],
            None if np.array_equal(first, last) else last[index],
            self._near(first)[index] if self.keep is not None else None,
            not parsed.aware.all(),
            bool(parsed.aware.any()),
            int(parsed.counted.sum()),
        )

    def _joined(self, parts: list[Any]) -> Any:
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, " ")

    def _of_texts(self, parts: list[Any], offset: int) -> tuple[Array, ParsedTimes]:
        coded = self._joined([as_text(part) for part in parts]).combine_chunks().dictionary_encode()
        self._require_times(coded, offset)
        index = np.asarray(coded.indices)
        form = self.column_map.time
        parsed = parse_times(coded.dictionary, form.formats, form.order)
        if parsed.bad >= 0:
            row = int(np.flatnonzero(index == parsed.bad)[0])
            raise self._no_time(coded.dictionary[parsed.bad].as_py().strip(), self.place(offset, row))
        return index, parsed

    def _near(self, seconds: Array) -> Array:
        assert self.keep is not None
        step, tolerance = self.keep
        away = seconds % step
        near: Array = np.minimum(away, step - away) <= tolerance
        return near

    def _no_time(self, text: str, place: str) -> DataError:
        """Build the error for a text that no format fits."""
        form = self.column_map.time
        where = f"format {' or '.join(form.formats)}"
        if form.order is not None:
            where += f", dates as {DATE_ORDERS[form.order]}"
        do = self.column_map.advice("correct `format` under [time]", "with the format of the times")
        fitting = [o for o, times in numeric_dates(pa.array([text]))[0].items() if times[0] != UNPARSED]
        if form.order is not None and fitting:
            where += f"; it fits {' or '.join(DATE_ORDERS[o] for o in fitting)}"
            do = f"correct this date, or the order of dates: --date-order {fitting[0]}"
        elif "iso" in form.formats and _ISO_SHAPE.fullmatch(text):
            do = f"correct the time in {place} of the file, or remove that row: no calendar and clock show it"
        elif readings := two_readings(text):
            where, do = readings, f'{do}: format = "unix" or "%Y%m%d%H"'
        elif _NUMBER.fullmatch(text):
            do += ': format = "unix" (seconds since 1970), "unix-ms" or "excel" (days of a spreadsheet)'
        # The texts of several columns are joined by a blank, and so are their names.
        if not text:
            do = f"fill in the time in {place} of the file, or remove that row"
        headings = {" ".join(names).casefold() for names in product(*form.columns)}
        if text.strip().casefold() in headings:
            do = f"remove the repeated heading in {place} from the file, and type the same command again"
        what = f"{self.label} {place}: '{printable(text)[:40]}' is not a time"
        return DataError(what, code="SPDE-D010", where=where, do=do)

    def _require_times(self, column: Any, offset: int) -> None:
        if column.null_count:
            empty = np.flatnonzero(np.asarray(column.is_null()))
            raise DataError(f"{self.label} {self.place(offset, int(empty[0]))}: there is no time", code="SPDE-D010",
                            do="fill in the time, or remove that row from the file")  # fmt: skip

    def _utc(self, seconds: Array, aware: Array, offset: int) -> tuple[Array, Array]:
        if aware.all():
            return seconds, seconds
        # Finding the line means reading the file again: only if it is needed.
        first, last = self.zone.to_utc(seconds, lambda: f"{self.label}, after {self.place(offset, 0)}")
        return np.where(aware, seconds, first), np.where(aware, seconds, last)

    def _require_era(self, seconds: Array, index: Array, offset: int) -> None:
        strange = np.flatnonzero((seconds < _FIRST) | (seconds >= _END))
        if strange.size:
            row = int(np.flatnonzero(index == strange[0])[0])
            raise DataError(
                f"{self.label} {self.place(offset, row)}: {format_time(int(seconds[strange[0]]))} is outside the era "
                "of stations, 1850 to 2100",
                code="SPDE-D010",
                do="correct this time; or "
                + self.column_map.advice("correct `format` under [time]", "with the format of the times"),
            )


def as_text(column: Any) -> Any:
    """Return a column as text; whole numbers without the ``.0`` and ``e+09`` of numbers with a fraction."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        with suppress(pa.ArrowInvalid):  # fractions, or too large: the text says so
            column = column.cast(pa.int64())
    return column.cast(pa.string())
