"""Read tables as text: detect and report the dialect, cut the body into blocks of whole lines, name faults by line.

Nothing is guessed that the map declares. What is ``auto`` is detected in the first lines, and the dialect that was
used is reported; text that fits none is refused with the first line that does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fields.errors import DataError, printable
from fields.readers.archives import Member
from fields.readers.column_map import TextForm
from fields.readers.safety import kind_in_words

__all__ = ["BLOCK_BYTES", "Block", "TextLayout", "blocks", "examine", "line_of", "stray_quote"]

BLOCK_BYTES = 8 << 20
MOST_COLUMNS = 5_000
_BOM = b"\xef\xbb\xbf"
_SEPARATORS = (",", ";", "\t", "|")
_DECIMAL_COMMA = re.compile(r"^[+-]?\d*,\d+$")
_SPACES = re.compile(rb"[ \t]+")
_EDGES = re.compile(rb"(?m)^ | (?=\r?$)")


@dataclass(frozen=True, slots=True)
class TextLayout:
    """How one table is written: where its body begins, its columns in order, and the lines above them."""

    label: str
    separator: str
    decimal: str
    encoding: str
    columns: tuple[str, ...]
    body: int
    header: tuple[tuple[str, str], ...]
    squeeze: bool = False
    detected: bool = False

    def dialect(self) -> str:
        """Describe the dialect in words."""
        names = {",": "comma", ";": "semicolon", "\t": "tab", " ": "blank", "|": "bar"}
        mark = {".": "point", ",": "comma"}[self.decimal]
        return f"{self.encoding}, {names.get(self.separator, self.separator)} separated, decimal {mark}"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a table; ``offset`` is where they begin in the stream, ``end`` where the next block does."""

    offset: int
    end: int
    content: bytes | memoryview


def examine(member: Member, form: TextForm) -> TextLayout:
    """Detect dialect and columns of a table in its first bytes.

    Raises
    ------
    DataError
        If this is no text, or text that is written otherwise than declared; the line is named.
    """
    head = member.head
    if member.kind != "text":
        raise DataError(f"{member.label} is not a table: it is {kind_in_words(member.kind)}", code="SPDE-D121")
    start = len(_BOM) if head.startswith(_BOM) else 0
    _refuse_nul(head, 0, member.label)
    whole = len(head) >= member.size > 0
    lines, offset = _head_lines(head, start, form, member.label, whole)
    encoding = _encoding(head, form, start, member.label, whole)
    text = [_decode(line, encoding, member.label, number + 1) for number, line in enumerate(lines)]
    columns_line = text[-1]
    if text[0].lstrip().startswith(("<", "{", "[{")):
        what = "XML or HTML" if text[0].lstrip().startswith("<") else "JSON"
        raise DataError(f"{member.label} is not a table: it is {what}", code="SPDE-D121",
                        do="save the table as CSV; unpack what holds anything but tables")  # fmt: skip
    squeeze = form.separator == "whitespace"
    separator = " " if squeeze else form.separator
    if separator == "auto":
        separator = max(_SEPARATORS, key=columns_line.count)
        if separator not in columns_line:
            raise DataError(
                f"{member.label} line {len(text)}: no comma, semicolon, tab or bar separates column names",
                code="SPDE-D122",
                where=printable(columns_line)[:80],
                do="--map FILE.toml   with the `separator` under [file]",
            )
    if squeeze:
        columns_line = " ".join(columns_line.split())
    columns = tuple(name.strip().strip('"').strip() for name in columns_line.split(separator))
    if len(columns) > MOST_COLUMNS:
        raise DataError(
            f"{member.label} line {len(text)} has {len(columns):,} columns, at most {MOST_COLUMNS:,} are read",
            code="SPDE-D122",
        )
    header = tuple(_key_value(line, separator) for line in text[:-1])
    sample = head[offset:].decode(encoding, errors="replace").splitlines()[:200]
    decimal = form.decimal if form.decimal != "auto" else _decimal(sample, separator)
    is_auto = "auto" in (form.separator, form.encoding, form.decimal)
    return TextLayout(
        member.label, separator, decimal, encoding, columns, offset, header, squeeze,
        detected=is_auto and (separator, decimal, encoding) != (",", ".", "utf-8"),
    )  # fmt: skip


def _head_lines(head: bytes, start: int, form: TextForm, label: str, whole: bool) -> tuple[list[bytes], int]:
    """Split off the lines up to and including the column names, and the offset of the body."""
    lines: list[bytes] = []
    offset = start
    skipped = 0
    while True:
        end = head.find(b"\n", offset)
        if end < 0 and not (whole and offset < len(head)):
            number = len(lines) + skipped + 1
            _refuse_bare_cr(head[offset:], label, number)
            columns = max(head.count(mark.encode(), offset) for mark in _SEPARATORS) + 1
            where = "the file ends" if whole else f"longer than {len(head):,} bytes, {columns:,} columns and more"
            raise DataError(
                f"{label} line {number}: {where} before the column names are complete", code="SPDE-D122",
                do="fetch the file again or leave it out; a column map says how many `header_lines` there are",
            )  # fmt: skip
        stop = len(head) if end < 0 else end
        line = head[offset:stop].rstrip(b"\r")
        _refuse_bare_cr(line, label, len(lines) + skipped + 1)
        offset = stop + 1
        if form.comment and line.startswith(form.comment.encode()):
            skipped += 1
            continue
        lines.append(line)
        if len(lines) > form.header_lines:
            return lines, min(offset, len(head))


def _refuse_bare_cr(line: bytes, label: str, number: int) -> None:
    if b"\r" in line:
        raise DataError(f"{label} line {number}: lines end in a bare CR", code="SPDE-D122",
                        do="save the table with LF or CRLF line ends")  # fmt: skip


def _encoding(head: bytes, form: TextForm, start: int, label: str, whole: bool) -> str:
    if start:
        return "utf-8"
    if form.encoding != "auto":
        return form.encoding
    try:
        # The head may end inside a character.
        head[: len(head) if whole else -4].decode("utf-8")
    except UnicodeDecodeError as problem:
        return "utf-8" if not whole and problem.end >= len(head) - 4 else "latin-1"
    return "utf-8"


def _decode(line: bytes, encoding: str, label: str, number: int) -> str:
    try:
        return line.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        raise DataError(
            f"{label} line {number} is not text in {encoding}",
            code="SPDE-D122",
            do='set encoding = "latin-1", or what else it is, under [file] in the column map',
        ) from None


def _key_value(line: str, separator: str) -> tuple[str, str]:
    key, _, value = line.partition(separator)
    return key.strip(), value.strip().strip(separator).strip()


def _decimal(sample: list[str], separator: str) -> str:
    if separator == ",":
        return "."
    cells = [cell.strip().strip('"') for line in sample for cell in line.split(separator)]
    return "," if any(_DECIMAL_COMMA.match(cell) for cell in cells) else "."


def blocks(stream: IO[bytes], layout: TextLayout, begin: int, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Cut a stream that stands at ``begin`` into blocks of whole lines; a line longer than a block is refused."""
    offset, carry = begin, b""
    while True:
        # One buffer a block, filled in place: blocks outlive the loop, in the threads that decode them.
        buffer = bytearray(len(carry) + block_bytes)
        buffer[: len(carry)] = carry
        size = len(carry) + _fill(stream, memoryview(buffer)[len(carry) :])
        if size == 0:
            return
        _refuse_nul(buffer, offset, layout.label, len(carry), size)
        is_last = size < len(buffer)
        cut = size if is_last else buffer.rfind(b"\n", 0, size) + 1
        if not is_last and buffer.count(b'"', 0, cut) % 2:  # perhaps inside a cell of several lines: cut before it
            inside = stray_quote(memoryview(buffer)[:cut], layout.separator)
            cut = buffer.rfind(b"\n", 0, inside) + 1 if inside >= 0 else cut
        if cut == 0:
            raise DataError(
                f"{layout.label}: a line after byte {offset:,} is longer than {block_bytes:,} bytes",
                code="SPDE-D123",
            )
        content: bytes | memoryview = memoryview(buffer)[:cut]
        yield Block(offset, offset + cut, _squeezed(bytes(content)) if layout.squeeze else content)
        if is_last:
            return
        offset, carry = offset + cut, bytes(memoryview(buffer)[cut:size])


def _fill(stream: IO[bytes], room: memoryview) -> int:
    """Read until the room is full or the stream ends."""
    done = 0
    while done < len(room):
        piece = stream.read(min(len(room) - done, 1 << 20))
        if not piece:
            break
        room[done : done + len(piece)] = piece
        done += len(piece)
    return done


def _squeezed(content: bytes) -> bytes:
    return _EDGES.sub(b"", _SPACES.sub(b" ", content))


def _refuse_nul(content: bytes | bytearray, offset: int, label: str, start: int = 0, stop: int | None = None) -> None:
    at = content.find(b"\0", start, len(content) if stop is None else stop)
    if at >= 0:
        lines = content.count(b"\n", 0, at)
        line = f"line {lines + 1}" if offset == 0 else f"byte {offset + at:,}"
        raise DataError(
            f"{label} {line}: a NUL byte, which no table holds", code="SPDE-D123",
            do="this is not a text file, or it was damaged on the way: fetch it again, or save it as UTF-8 text",
        )  # fmt: skip


def stray_quote(content: bytes | memoryview, separator: str) -> int:
    """Find a quoted cell that never closes, or runs over line ends and closes in mid-cell; -1 without one.

    A quote that somebody forgot to close would swallow all rows up to the next quote in the table.
    """
    text = bytes(content)
    if b'"' not in text:
        return -1
    mark = re.escape(separator.encode())
    cell = rb'(?:^|(?<=%b))"((?:[^"]|"")*+)("?) *(%b|\r?\n|\Z)?' % (mark, mark)
    for quoted in re.finditer(cell, text, re.MULTILINE):
        if not quoted[2] or (b"\n" in quoted[1] and quoted[3] is None):
            return quoted.start()
    return -1


def line_of(path: Path | None, offset: int, row: int, skipped: int = 0) -> str:
    """Write the place of a row that was counted from ``offset``: a line number where the file can be read again."""
    if path is None:
        return f"row {row + 1} after byte {offset:,}"
    lines = skipped
    left = offset
    with path.open("rb") as file:
        while left > 0:
            piece = file.read(min(left, 1 << 22))
            if not piece:
                break
            lines += piece.count(b"\n")
            left -= len(piece)
    return f"line {lines + row + 1:,}"
