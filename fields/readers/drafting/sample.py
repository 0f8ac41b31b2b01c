"""Read the head of a table for a draft: dialect, column names, some rows; nothing beyond the first bytes is read.

The head passes the same gate as an ingest: what is no table, or a damaged one, is refused and not guessed at.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path

from fields.errors import DataError, UsageError, printable
from fields.readers.archives import Member, members
from fields.readers.column_map import TextForm
from fields.readers.csv_text import TextLayout, examine, stray_quote
from fields.readers.parquet import is_parquet, parquet_head
from fields.readers.registry import detect
from fields.readers.safety import DEFAULT_MAX_BYTES

__all__ = ["Sample", "read_sample"]

_HEAD = 1 << 19
_MOST_ROWS = 5000
_MOST_LINES_ABOVE = 60
_FEWEST_SHARE = 0.9
# In this order a separator is preferred to those behind it; a comma may be the decimal mark between others.
_SEPARATORS = ("\t", ";", "|", ",")
_NUMERIC = frozenset("0123456789+-.,:/ TZe")


@dataclass(frozen=True, slots=True)
class Sample:
    """Head of a table: names and cells of its columns as text, and how it is written (None for parquet).

    ``above`` holds the lines above the column names as key and value; ``head`` the bytes of the rows.
    """

    label: str
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    rows: int
    form: TextForm
    layout: TextLayout | None
    above: tuple[tuple[str, str], ...] = ()
    head: bytes = b""
    path: Path | None = None


def read_sample(path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> Sample:
    """Read the head of a table, of the first one in a folder or an archive.

    Raises
    ------
    UsageError
        If another reader reads the source, which needs no map.
    DataError
        If this is no table, or one with a damaged row; the line is named.
    """
    if not path.exists():
        raise UsageError(f"there is no file {printable(path)}", code="SPDE-D100", do="check the path")
    reader = detect(path)
    if reader.name not in ("table", "meteonet"):
        raise UsageError(
            f"{printable(path.name)} needs no column map: the reader {reader.name} reads it", code="SPDE-D108",
            do=f"stationpde data ingest {printable(path)} -o OUT.zarr",
        )  # fmt: skip
    for member in members(path, max_bytes):
        return _of_parquet(member) if is_parquet(member) else _of_text(member)
    raise DataError(f"{printable(path.name)} holds no table", code="SPDE-D025")


def _of_parquet(member: Member) -> Sample:
    columns, table = parquet_head(member, _MOST_ROWS)
    cells = tuple(tuple(_shown(value) for value in table.column(i).to_pylist()) for i in range(table.num_columns))
    return Sample(member.label, columns, cells, table.num_rows, TextForm(), None, path=member.path)


def _shown(value: object) -> str:
    return "" if value is None or value != value else str(value)


def _of_text(member: Member) -> Sample:
    if member.kind != "text":
        examine(member, TextForm())  # says what it is
    member.head = _longer_head(member)
    whole = len(member.head) >= member.size > 0
    text = member.head.decode("utf-8", errors="replace").removeprefix("\ufeff")
    lines = text.splitlines()
    if not whole and len(lines) > 1:
        lines = lines[:-1]
    comment = "#" if _has_comments(lines) else ""
    counted = [line for line in lines if not (comment and line.startswith(comment))]
    separator, width = _separator([line for line in counted if line.strip()])
    if not separator:
        examine(member, TextForm())  # raises where there is no separator at all
        raise DataError(f"{member.label} has no columns: its lines differ in what separates them", code="SPDE-D122",
                        do="save the table as CSV, one row a line")  # fmt: skip
    above = next(i for i, line in enumerate(counted) if _width(line, separator) >= width)
    if above > _MOST_LINES_ABOVE:
        raise DataError(f"{member.label} has {above:,} lines above its columns", code="SPDE-D122",
                        do="leave them out: a table begins with the names of its columns")  # fmt: skip
    form = TextForm(separator, "auto", "auto", above, comment)
    layout = examine(member, form)
    _require_names(layout, above + 1)
    rows, body = _rows(member, layout, whole)
    form = replace(form, decimal=layout.decimal, encoding=layout.encoding)
    columns = tuple(tuple(row[i] for row in rows) for i in range(len(layout.columns)))
    return Sample(member.label, layout.columns, columns, len(rows), form, layout, layout.header, body, member.path)


def _longer_head(member: Member) -> bytes:
    """Read more of a table than tells its kind: a month of rows decides the order of dates."""
    pieces, left = [], _HEAD
    while left > 0 and (piece := member.stream.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _has_comments(lines: list[str]) -> bool:
    """Return whether lines that begin with # stand above the names; a single one may be the names themselves."""
    marked = [line.startswith("#") for line in lines]
    if not any(marked):
        return False
    following = [line for line in lines if not line.startswith("#")][:2]
    if sum(marked) > 1 or not following:
        return True
    first = lines[marked.index(True)]
    return all(_width(first, mark) != _width(following[0], mark) or mark not in first for mark in _SEPARATORS)


def _width(line: str, separator: str) -> int:
    if separator == "whitespace":
        return len(line.split())
    if '"' not in line:
        return line.count(separator) + 1
    try:
        return len(next(csv.reader([line], delimiter=separator), []))
    except csv.Error:
        return 0


def _separator(lines: list[str]) -> tuple[str, int]:
    """Return what separates most lines into equally many cells, and how many; nothing where nothing does."""
    tail = lines[len(lines) // 5 :][:400] or lines
    best: tuple[float, str, int] = (0.0, "", 0)
    for separator in (*_SEPARATORS, "whitespace"):
        widths = [_width(line, separator) for line in tail]
        common = max(set(widths), key=widths.count) if widths else 0
        share = widths.count(common) / len(widths) if widths else 0.0
        if common > 1 and share >= _FEWEST_SHARE:
            return separator, common
        if common > 1 and share > best[0] and separator != "whitespace":
            best = share, separator, common
    return best[1], best[2]


def _require_names(layout: TextLayout, line: int) -> None:
    """Refuse a first line that holds values: without names nothing says what the columns are."""
    names = [name for name in layout.columns if name]
    numeric = sum(set(name) <= _NUMERIC and any(c.isdigit() for c in name) for name in names)
    if not names or numeric * 2 > len(names):
        raise DataError(
            f"{layout.label} line {line} holds values, and no line above it names the columns", code="SPDE-D122",
            where=printable(layout.separator.join(layout.columns))[:80],
            do="write a line with the names of the columns above the first row",
        )  # fmt: skip


def _rows(member: Member, layout: TextLayout, whole: bool) -> tuple[list[list[str]], bytes]:
    """Split the rows of the head into cells; each has as many as there are names."""
    body = member.head[layout.body :]
    if not whole:
        body = body[: body.rfind(b"\n") + 1]
    if not body.strip():
        raise DataError(f"{layout.label} holds no rows", code="SPDE-D025", do="fetch the file again")
    above = member.head[: layout.body].count(b"\n")
    stray = stray_quote(body, layout.separator)
    if stray >= 0:
        line = above + body.count(b"\n", 0, stray) + 1
        raise DataError(f"{layout.label} line {line:,}: a quote is opened and not closed in its cell",
                        code="SPDE-D123", do="correct that line")  # fmt: skip
    text = body.decode(layout.encoding, errors="replace")
    rows: list[list[str]] = []
    table = csv.reader(io.StringIO(text, newline=""), delimiter=layout.separator, skipinitialspace=layout.squeeze)
    try:
        for row in table:
            cells = [cell for cell in row if cell] if layout.squeeze else row
            if not cells:
                continue
            if len(cells) != len(layout.columns):
                raise DataError(
                    f"{layout.label} line {above + table.line_num:,} has {len(cells)} cells, the names are "
                    f"{len(layout.columns)}", code="SPDE-D123", do="correct that line",
                )  # fmt: skip
            rows.append([cell.strip() for cell in cells])
            if len(rows) == _MOST_ROWS:
                break
    except csv.Error as problem:
        raise DataError(f"{layout.label} line {above + table.line_num:,}: {printable(problem)}",
                        code="SPDE-D123") from None  # fmt: skip
    return rows, body
