"""Decode lines whose fields stand at fixed places: whole blocks at once, faults named by line and field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fields.errors import DataError, printable
from fields.readers.archives import Member
from fields.readers.column_map import ColumnMap
from fields.readers.csv_text import Block, TextLayout, line_of
from fields.readers.date_order import calendar_seconds
from fields.readers.decode import ParsedBlock

__all__ = ["Field", "FixedLines", "LineDecoder", "LineFormat", "plain_layout"]

Array = np.ndarray[Any, Any]


class LineDecoder(Protocol):
    """Decoder of blocks of lines of one file."""

    def parse(self, block: Block) -> ParsedBlock:
        """Decode a block of whole lines."""
        ...


class LineFormat(Protocol):
    """Format whose files have no line of names: it decodes each of them by itself."""

    def decoder(self, member: Member, column_map: ColumnMap) -> LineDecoder:
        """Return the decoder of one file."""
        ...


@dataclass(frozen=True, slots=True)
class Field:
    """Place of a number in a line, from ``start`` to before ``stop``, its factor and its code for missing.

    ``quality`` is the place of its quality code, 0 without one; values that it calls erroneous are missing.
    """

    start: int
    stop: int
    scale: float = 1.0
    missing: int | None = None
    quality: int = 0


# Quality codes of NOAA's surface hourly data: erroneous, of two kinds of check.
_ERRONEOUS = (ord("3"), ord("7"))


def plain_layout(member: Member) -> TextLayout:
    """Return the layout under which a file without names is cut into blocks; what is no text is refused."""
    if member.kind != "text":
        raise DataError(f"{member.label} is not text, but {member.kind}", code="SPDE-D121")
    return TextLayout(member.label, ",", ".", "latin-1", (), 0, ())


@dataclass(slots=True)
class FixedLines:
    """Decoder of lines of fixed fields.

    ``width`` is the fewest characters of a line; ``clock`` the fields of year, month, day, hour and, if there are five,
    minute. The id stands in the line (``id_field``), or is that of the file (``station``). ``places`` are the fields of
    lat, lon and alt where lines have them.
    """

    label: str
    path: Path | None
    width: int
    clock: tuple[Field, ...]
    fields: Mapping[str, Field]
    station: str = ""
    id_field: tuple[int, int] | None = None
    places: Mapping[str, Field] = field(default_factory=dict)

    def parse(self, block: Block) -> ParsedBlock:
        """Decode a block of whole lines; empty ones are passed over."""
        content = bytes(block.content)
        lines = content.replace(b"\r\n", b"\n").split(b"\n")
        filled = [i for i, line in enumerate(lines) if line.strip()]
        short = next((i for i in filled if len(lines[i]) < self.width), None)
        if short is not None:
            raise DataError(
                f"{self.label} {self._place(block, short)} has {len(lines[short])} characters, expected {self.width}",
                code="SPDE-D123", do="correct that line, or fetch the file again",
            )  # fmt: skip
        table = np.array([lines[i][: self.width] for i in filled], f"S{self.width}")
        letters = np.frombuffer(table.tobytes(), np.uint8).reshape(len(filled), self.width)
        places = np.asarray(filled, np.int64)
        codes: dict[str, int] = {}
        time = self._times(letters, block, places)
        values = np.stack([self._values(letters, n, f, block, places, codes) for n, f in self.fields.items()])
        where = tuple(self._values(letters, n, f, block, places, codes) for n, f in self.places.items())
        ids, station = self._stations(letters)
        return ParsedBlock(time, None, ids, station, values.astype(np.float32), where or None, None,  # type: ignore[arg-type]
                           codes, len(filled))  # fmt: skip

    def _place(self, block: Block, row: int) -> str:
        return line_of(self.path, block.offset, row)

    def _stations(self, letters: Array) -> tuple[list[str], Array]:
        if self.id_field is None:
            return [self.station], np.zeros(len(letters), np.int32)
        start, stop = self.id_field
        cells = np.ascontiguousarray(letters[:, start:stop]).view(f"S{stop - start}").ravel()
        ids, station = np.unique(cells, return_inverse=True)
        return [name.decode("latin-1").strip() for name in ids.tolist()], station.astype(np.int32)

    def _integers(self, letters: Array, name: str, place: Field, block: Block, rows: Array) -> Array:
        cells = np.ascontiguousarray(letters[:, place.start : place.stop]).view(f"S{place.stop - place.start}").ravel()
        try:
            return cells.astype(np.int64)
        except ValueError:
            row = next(i for i, cell in enumerate(cells.tolist()) if not _is_integer(cell))
            text = printable(cells[row].decode("latin-1"))
            raise DataError(
                f"{self.label} {self._place(block, int(rows[row]))}: '{text}' is not a number", code="SPDE-D126",
                where=f"{self.label} › {name}, characters {place.start + 1} to {place.stop}",
                do="correct that line, or fetch the file again",
            ) from None  # fmt: skip

    def _times(self, letters: Array, block: Block, rows: Array) -> Array:
        numbers = [self._integers(letters, "time", place, block, rows) for place in self.clock]
        year, month, day, hour = numbers[:4]
        minute = numbers[4] if len(numbers) > 4 else np.zeros_like(hour)
        days, real = calendar_seconds(year, month, day)
        real &= (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (year >= 1850) & (year < 2100)
        if not real.all():
            row = int(np.flatnonzero(~real)[0])
            text = " ".join(str(int(part[row])) for part in numbers)
            raise DataError(f"{self.label} {self._place(block, int(rows[row]))}: '{text}' is not a time",
                            code="SPDE-D010", do="correct that line, or fetch the file again")  # fmt: skip
        return np.asarray(days + hour * 3600 + minute * 60, np.int64)

    def _values(
        self, letters: Array, name: str, place: Field, block: Block, rows: Array, codes: dict[str, int]
    ) -> Array:  # fmt: skip
        numbers = self._integers(letters, name, place, block, rows)
        lost = numbers == place.missing if place.missing is not None else np.zeros(numbers.shape, bool)
        if place.quality:
            lost |= np.isin(letters[:, place.quality], _ERRONEOUS)
        if lost.any():
            codes[name] = codes.get(name, 0) + int(lost.sum())
        return np.where(lost, np.nan, numbers * place.scale)


def _is_integer(cell: bytes) -> bool:
    try:
        int(cell)
    except ValueError:
        return False
    return True
