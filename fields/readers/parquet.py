"""Read parquet tables in batches; the footer is checked against the file before a row is decoded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from fields.errors import DataError, printable
from fields.readers.archives import Member
from fields.readers.decode import Decoder, ParsedBlock
from fields.readers.safety import check_ratio, open_binary

__all__ = ["half_columns", "is_parquet", "parquet_batches", "parquet_columns", "parquet_head", "parquet_times"]

_MAGIC = b"PAR1"
_ROWS = 262_144
_LARGEST_FOOTER = 64 << 20
_MOST_COLUMNS = 5_000
# A name or a text in a damaged file need not be UTF-8.
_FAULTS = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    OSError,
    UnicodeDecodeError,
)


def is_parquet(member: Member) -> bool:
    """Return whether a member is a parquet table."""
    return member.head.startswith(_MAGIC)


def parquet_columns(member: Member) -> list[str]:
    """Read the names of a table's columns."""
    from pyarrow import parquet

    _check_footer(member)
    try:
        return list(parquet.read_schema(member.path).names)
    except _FAULTS as problem:
        raise _damaged(member, problem) from None


def parquet_head(member: Member, rows: int) -> tuple[tuple[str, ...], pa.Table]:
    """Read the names of a table's columns and its first rows."""
    from pyarrow import parquet

    _check_footer(member)
    try:
        file = parquet.ParquetFile(
            member.path, memory_map=True, thrift_string_size_limit=_LARGEST_FOOTER, thrift_container_size_limit=10**6
        )
        about, names = file.metadata, file.schema_arrow.names
        if about.num_columns > _MOST_COLUMNS or about.num_columns != len(names):
            raise DataError(f"{member.label} has {about.num_columns:,} columns, or nested ones", code="SPDE-D122")
        check_ratio(max(0, about.num_rows) * about.num_columns * 8, member.size, member.label)
        batch = next(file.iter_batches(rows), None)
        if batch is None:
            raise DataError(f"{member.label} holds no rows", code="SPDE-D025", do="fetch the file again")
        return tuple(names), pa.Table.from_batches([batch])
    except _FAULTS as problem:
        raise _damaged(member, problem) from None


def half_columns(member: Member) -> list[str]:
    """Read the names of the columns whose numbers have 16 bits."""
    from pyarrow import parquet

    try:
        return [column.name for column in parquet.read_schema(member.path) if pa.types.is_float16(column.type)]
    except _FAULTS as problem:
        raise _damaged(member, problem) from None


def _damaged(member: Member, problem: BaseException) -> DataError:
    what = printable(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)[:160]
    return DataError(f"{member.label} is a damaged parquet table: {what}", code="SPDE-D103")


def _check_footer(member: Member) -> None:
    if member.path is None:
        raise DataError(
            f"{member.label}: a parquet table inside an archive cannot be streamed", code="SPDE-D121",
            do="unpack it and ingest the files",
        )  # fmt: skip
    with open_binary(member.path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if size < 12 or tail[4:] != _MAGIC or length > min(size - 12, _LARGEST_FOOTER):
        raise DataError(f"{member.label} is truncated: it does not end in a parquet footer", code="SPDE-D103")


def parquet_batches(
    member: Member, skip: int, max_bytes: int, make: Callable[[Any, Member], Decoder]
) -> Iterator[tuple[int, ParsedBlock]]:
    """Yield decoded batches, each with the number of rows up to its end."""
    from pyarrow import parquet

    _check_footer(member)
    try:
        file = parquet.ParquetFile(
            member.path, memory_map=True, thrift_string_size_limit=_LARGEST_FOOTER, thrift_container_size_limit=10**6
        )
        about, names = file.metadata, file.schema_arrow.names
        if about.num_columns > _MOST_COLUMNS:
            raise DataError(f"{member.label} has {about.num_columns:,} columns", code="SPDE-D122")
        if about.num_columns != len(names):
            raise DataError(f"{member.label} has nested columns, a table has none", code="SPDE-D122")
        # Encoded runs of one value cost nothing on disk: eight bytes a cell is what they become.
        check_ratio(max(0, about.num_rows) * about.num_columns * 8, member.size, member.label)
        decoder = make(tuple(names), member)
        needed = decoder.needed()
        for i in needed:
            if names.count(names[i]) > 1:
                raise DataError(f"{member.label} has the column '{printable(names[i])[:60]}' twice", code="SPDE-D128",
                                do="rename or remove one of them in the file")  # fmt: skip
        seen = 0
        for batch in file.iter_batches(_ROWS, columns=[names[i] for i in needed], use_threads=True):
            if seen + batch.num_rows > skip:
                table = pa.Table.from_batches([batch])
                order = {name: f"c{names.index(name)}" for name in table.column_names}
                yield seen + batch.num_rows, decoder.rows(table.rename_columns(list(order.values())), seen)
            seen += batch.num_rows
    except _FAULTS as problem:
        raise _damaged(member, problem) from None


def parquet_times(member: Member, make: Callable[[Any, Member], Decoder]) -> Iterator[pa.Array]:
    """Yield the distinct times of each batch as they are written, where they are text."""
    from pyarrow import parquet

    _check_footer(member)
    try:
        file = parquet.ParquetFile(
            member.path, memory_map=True, thrift_string_size_limit=_LARGEST_FOOTER, thrift_container_size_limit=10**6
        )
        names = file.schema_arrow.names
        decoder = make(tuple(names), member)
        if any(names.count(names[i]) > 1 for i in decoder.times):
            return  # refused when the table is read
        for batch in file.iter_batches(_ROWS, columns=[names[i] for i in decoder.times]):
            table = pa.Table.from_batches([batch])
            texts = decoder.time_texts(table.rename_columns([f"c{names.index(n)}" for n in table.column_names]))
            if texts is not None:
                yield texts
    except _FAULTS as problem:
        raise _damaged(member, problem) from None
