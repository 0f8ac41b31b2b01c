"""Find the regular time axis in UTC that holds the times at which a file has observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.errors import DataError, UsageError
from fields.times import format_span, format_time

__all__ = ["Axis", "find_axis"]

MOST_STEPS = 20_000_000
# Steps that an advice proposes for irregular times, and the share of times that must lie near them.
_ROUND_STEPS = (86_400, 21_600, 10_800, 3_600, 1_800, 600, 300, 60)
_NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True)
class Axis:
    """Regular axis: ``start + step * arange(count)`` in s UTC; values up to ``tolerance`` away count as on it."""

    start: int
    step: int
    count: int
    tolerance: int = 0

    def __post_init__(self) -> None:
        if self.step <= 0 or self.count < 0 or self.tolerance < 0:
            raise UsageError(f"no time axis has step {self.step} s and tolerance {self.tolerance} s", code="SPDE-D110")
        if 2 * self.tolerance > self.step:
            raise UsageError(
                f"a tolerance of {format_span(self.tolerance)} is more than half the step {format_span(self.step)}",
                code="SPDE-D110",
                do=f"--tolerance {format_span(self.step // 2)}",
            )

    @property
    def seconds(self) -> np.ndarray[Any, Any]:
        """All times of the axis, seconds since 1970 UTC."""
        return self.start + self.step * np.arange(self.count, dtype=np.int64)

    def slots(self, seconds: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the index of the nearest axis time (ties to the earlier) and the distance to it in seconds."""
        half = (self.step - 1) // 2
        index = (seconds - self.start + half) // self.step
        return index, np.abs(seconds - self.start - index * self.step)


def find_axis(
    distinct: np.ndarray[Any, Any], step: int | None, tolerance: int | None, where: str, command: str
) -> Axis:
    """Find the regular axis that holds the observed times.

    Parameters
    ----------
    distinct : the times at which anything was observed, sorted, each once
    step, tolerance : declared values in seconds; with None the step is taken from the times, which must all lie on it
    where : name of the file, for messages
    command : the command to which messages add options

    Raises
    ------
    DataError
        If the times are irregular and no step was declared, or if they span far more than they fill.
    """
    if distinct.size == 0:
        raise DataError(f"{where} holds no time at all", code="SPDE-D025")
    if step is None:
        step = _common_step(distinct)
        off = np.flatnonzero((distinct - distinct[0]) % step)
        if off.size:
            anchor = _common_phase(distinct, step)
            stray = np.flatnonzero((distinct - anchor) % step)
            first = ", ".join(format_time(t) for t in distinct[stray[:3]])
            raise DataError(
                f"times are irregular: {stray.size:,} of {distinct.size:,} are not a multiple of "
                f"{format_span(step)} apart from the rest (first: {first})",
                code="SPDE-D036",
                where=where,
                do=_advice(distinct, step, command),
            )
    # With a tolerance the axis is the round one (full hours); without, the one on which most values lie.
    anchor = 0 if tolerance is not None else _common_phase(distinct, step)
    axis = Axis(0, step, 0, tolerance or 0)
    index, distance = Axis(anchor, step, 0, tolerance or 0).slots(distinct)
    index = index[distance <= axis.tolerance]
    if index.size == 0:
        raise DataError(
            f"no time of {where} lies within {format_span(axis.tolerance)} of a multiple of {format_span(step)}",
            code="SPDE-D036",
            do=f"{command} --step {format_span(step)} --tolerance {format_span(step // 2)}",
        )
    count = int(index[-1] - index[0]) + 1
    _require_filled(count, index, anchor, step, where)
    return Axis(int(anchor + index[0] * step), step, count, axis.tolerance)


def _advice(distinct: np.ndarray[Any, Any], step: int, command: str) -> str:
    """Advise the longest round step near whose multiples nearly all times lie, else the most common one."""
    for span in (*_ROUND_STEPS, step):
        tolerance = _advised_tolerance(span)
        away = distinct % span
        if np.mean(np.minimum(away, span - away) <= tolerance) >= _NEARLY_ALL:
            break
    return f"{command} --step {format_span(span)} --tolerance {format_span(tolerance)}"


def _advised_tolerance(step: int) -> int:
    return max(1, min(step // 2, 600 if step >= 3600 else step // 4))


def _common_step(distinct: np.ndarray[Any, Any]) -> int:
    """Return the common divisor of the distances between times if it fills an axis well, else the most common one."""
    if distinct.size < 2:
        return 3600
    gaps = np.diff(distinct)
    divisor = int(np.gcd.reduce(gaps))
    span = int(distinct[-1] - distinct[0])
    if divisor >= 60 and span // divisor + 1 <= 4 * distinct.size:
        return divisor
    values, counts = np.unique(gaps, return_counts=True)
    return int(values[np.argmax(counts)])


def _common_phase(distinct: np.ndarray[Any, Any], step: int) -> int:
    values, counts = np.unique(distinct % step, return_counts=True)
    return int(values[np.argmax(counts)])


def _require_filled(count: int, index: np.ndarray[Any, Any], anchor: int, step: int, where: str) -> None:
    filled = np.unique(index).size
    if count > MOST_STEPS or (count > 100_000 and filled < count // 100):
        ends = f"{format_time(anchor + int(index[0]) * step)} .. {format_time(anchor + int(index[-1]) * step)}"
        raise DataError(
            f"times span {ends}, {count:,} steps of {format_span(step)}, of which {filled:,} are observed: "
            "one of them is probably mistyped",
            code="SPDE-D036",
            where=where,
            do="correct the stray times in the source",
        )
