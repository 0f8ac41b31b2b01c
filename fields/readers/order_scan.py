"""Look through the dates of a source for those that decide the order of day and month."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from fields.errors import UsageError, printable
from fields.readers.archives import Member, members
from fields.readers.column_map import ColumnMap
from fields.readers.csv_text import blocks, examine
from fields.readers.date_order import DateOrders
from fields.readers.decode import Decoder
from fields.readers.parquet import is_parquet, parquet_times
from fields.readers.source import Command, ReadOptions
from fields.times import Zone

__all__ = ["with_date_order"]


def with_date_order(
    path: Path, column_map: ColumnMap, options: ReadOptions, command: Command, *, throughout: bool = False
) -> ColumnMap:
    """Return the map with the order of dates that the user, the map or the dates decide.

    A source whose first rows have no dates of three numbers is not looked through, unless ``throughout``.

    Raises
    ------
    DataError
        If no order fits all dates, or several do and give different times.
    """
    order = options.date_order or column_map.time.order
    if options.date_order is not None:
        _refuse_contradiction(column_map, options.date_order)
    if order is None and "dates" in column_map.time.formats:
        orders = DateOrders()
        for texts in _time_texts(path, column_map, options):
            orders.add(texts)
            if len(orders.open) == 1 or not (orders.first or throughout):
                break
        order = orders.decided(printable(path.name), command)
    return replace(column_map, time=replace(column_map.time, order=order))


def _refuse_contradiction(column_map: ColumnMap, order: str) -> None:
    for form in column_map.time.formats if "dates" not in column_map.time.formats else ():
        if _order_of(form) not in ("", "ymd", order):
            raise UsageError(
                f"--date-order {order} contradicts the format {form} of the column map", code="SPDE-D110",
                do=f'leave it out, or write format = "dates" in {column_map.label}',
            )  # fmt: skip


def _order_of(form: str) -> str:
    places = {letter: form.find(f"%{letter}") for letter in "dmYy"}
    places["Y"] = max(places["Y"], places.pop("y"))
    return "".join(sorted(places, key=lambda letter: places[letter])).lower() if min(places.values()) >= 0 else ""


def _time_texts(path: Path, column_map: ColumnMap, options: ReadOptions) -> Iterator[pa.Array]:
    """Yield the distinct times of block after block as they are written."""

    def decoder(columns: tuple[str, ...], member: Member) -> Decoder:
        return Decoder(column_map, columns, member.label, Zone("UTC", 0), path=member.path)

    for member in members(path, options.max_bytes):
        if is_parquet(member):
            yield from parquet_times(member, decoder)
            continue
        layout = examine(member, column_map.text)
        reading = Decoder(column_map, layout.columns, member.label, Zone("UTC", 0), layout=layout, path=member.path)
        _skip(member, layout.body)
        for block in blocks(member.stream, layout, layout.body):
            texts = reading.time_texts_of(block)
            if texts is not None:
                yield texts


def _skip(member: Member, count: int) -> None:
    while count > 0 and (piece := member.stream.read(min(count, 1 << 22))):
        count -= len(piece)
