"""Put rows into a block of a regular array: nearest in time, duplicates merged, conflicts refused or settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.derive import wind_components, wind_speed_direction
from fields.errors import DataError, locate
from fields.readers.axis import Axis
from fields.readers.spool import Records
from fields.times import DAY, format_time

__all__ = ["AssembledBlock", "assemble", "conflict_error"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class AssembledBlock:
    """Block of a regular array: ``values[variable, time, station]``, and what became of its rows.

    ``off_axis``, ``doubles`` and ``conflicts`` count rows beside the axis, rows of an instant that has another one, and
    instants whose rows contradict each other; ``conflict`` names the place of the first of them. ``slot_doubles``
    counts for every step the rows that share a station with another.
    """

    values: Array
    off_axis: int
    doubles: int
    conflicts: int
    conflict: str = ""
    slot_doubles: Array | None = None


def assemble(
    records: Records, axis: Axis, start: int, stop: int, stations: Sequence[str], names: Sequence[str],
    on_duplicate: str | None,
) -> AssembledBlock:  # fmt: skip
    """Put rows on the steps ``start`` to ``stop`` of an axis.

    A value is taken from the row nearest in time, no further than the axis's tolerance; where that row lacks a
    variable, from the next nearest. Rows of the same station and instant are merged if they agree or complete each
    other; otherwise ``on_duplicate`` decides: ``first`` in the file, or ``mean`` (of wind, the vector's).
    """
    steps, count = stop - start, len(stations)
    grid = np.full((len(names), steps, count), np.nan, np.float32)
    slot, distance = axis.slots(records.time)
    inside = (slot >= start) & (slot < stop)
    near = inside & (distance <= axis.tolerance)
    off_axis = int(inside.sum() - near.sum())
    if not near.all():
        records = Records(records.time[near], records.station[near], records.values[:, near])
        slot, distance = slot[near], distance[near]
    cell = (slot - start) * count + records.station
    hits = np.bincount(cell, minlength=steps * count)
    flat = grid.reshape(len(names), -1)
    if hits.max(initial=0) <= 1:
        flat[:, cell] = records.values
        return AssembledBlock(grid, off_axis, 0, 0)
    crowded = hits[cell] > 1
    single = ~crowded
    flat[:, cell[single]] = records.values[:, single]
    rest = Records(records.time[crowded], records.station[crowded], records.values[:, crowded])
    doubles, conflicts, conflict = _settle(flat, rest, cell[crowded], distance[crowded], names, on_duplicate, stations)
    per_slot = np.bincount((slot - start)[crowded], minlength=steps)
    return AssembledBlock(grid, off_axis, doubles, conflicts, conflict, per_slot)


def _settle(
    flat: Array, rows: Records, cell: Array, distance: Array, names: Sequence[str], on_duplicate: str | None,
    stations: Sequence[str],
) -> tuple[int, int, str]:  # fmt: skip
    """Fill cells that several rows claim; returns doubles, conflicts, and the place of the first conflict."""
    # Rows of one instant belong together; groups are numbered by cell and time, in the order of the file inside.
    order = np.lexsort((np.arange(len(cell)), rows.time, cell))
    cell, distance = cell[order], distance[order]
    time, station, values = rows.time[order], rows.station[order], rows.values[:, order]
    begins = np.concatenate([[True], (cell[1:] != cell[:-1]) | (time[1:] != time[:-1])])
    group = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    doubles = len(cell) - first.size
    merged, clash = _merge(values, group, first, names, on_duplicate)
    if clash.any() and on_duplicate is None:
        row = int(first[np.flatnonzero(clash)[0]])
        where = f"station {stations[int(station[row])]} at {format_time(int(time[row]))}"
        return doubles, int(clash.sum()), where
    # From far to near, so that the nearest row that has the variable is written last; of two, the earlier.
    far_first = np.lexsort((-time[first], -distance[first]))
    target = cell[first][far_first]
    for column, candidates in zip(flat, merged[:, far_first]):
        present = ~np.isnan(candidates)
        column[target[present]] = candidates[present]
    return doubles, int(clash.sum()), ""


def _merge(
    values: Array, group: Array, first: Array, names: Sequence[str], on_duplicate: str | None
) -> tuple[Array, Array]:
    """Merge each group of rows of the same instant into one value, and mark groups that contradict themselves."""
    merged = np.full((len(names), first.size), np.nan, np.float32)
    clash = np.zeros(first.size, bool)
    for first_values, column in zip(merged, values):
        present = np.flatnonzero(~np.isnan(column))
        # The first value of each group: written backwards, the first is written last.
        first_values[group[present][::-1]] = column[present][::-1]
        clash[group[present][column[present] != first_values[group[present]]]] = True
    if on_duplicate == "mean" and clash.any():
        _average(merged, values, group, names, clash)
    return merged, clash


def _average(merged: Array, values: Array, group: Array, names: Sequence[str], clash: Array) -> None:
    """Replace the values of groups that contradict themselves by their means."""
    columns = {name: values[i].astype(np.float64) for i, name in enumerate(names)}
    if "dd" in columns and "ff" in columns:
        # 350° and 10° make north, not south: directions are averaged as vectors.
        columns["dd"], columns["ff"] = wind_components(columns["ff"], columns["dd"])
    means = {}
    for name, column in columns.items():
        present = ~np.isnan(column)
        total = np.bincount(group[present], weights=column[present], minlength=clash.size)
        number = np.bincount(group[present], minlength=clash.size)
        means[name] = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    if "dd" in means and "ff" in means:
        means["ff"], means["dd"] = wind_speed_direction(means["dd"], means["ff"])
    for i, name in enumerate(names):
        merged[i, clash] = means[name][clash]


def conflict_error(block: AssembledBlock, label: str, command: str, axis: Axis, write_hours: str) -> DataError:
    """Build the error for rows that contradict each other; ``write_hours`` says what to do where times are dates."""
    if axis.step % DAY == 0 and axis.start % DAY == 0:
        return DataError(
            f"times are dates without an hour: {block.conflicts:,} stations and days are there more than once (first: "
            f"{block.conflict})",
            code="SPDE-D034", where=locate(label), do=write_hours,
        )  # fmt: skip
    return DataError(
        f"{block.conflicts:,} stations and times are there twice and contradict themselves (first: {block.conflict})",
        code="SPDE-D034",
        where=locate(label),
        do=f"{command}   or mean",
    )
