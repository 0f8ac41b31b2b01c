"""Find the regular time axis in UTC that holds the times at which a file has observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.errors import DataError, UsageError
from fields.times import DAY, format_span, format_time

__all__ = ["Axis", "Reports", "find_axis", "step_of_most"]

MOST_STEPS = 20_000_000
# A step is that of a network if at least this share of all reports lies on it, and either few stations report anything
# between, or hardly any report lies there.
_MOST_REPORTS = 0.75
_FEW_STATIONS = 1 / 3
_HARDLY_ANY = 0.01
# Seconds; indices that are taken for seconds are one apart.
_SHORTEST_STEP = 60
# Multiples of the common divisor that are tried: from minutes to hours, and from hours to a day.
_LARGEST_MULTIPLE = 60
# Share of the times that a declared step must meet unless it is a multiple of theirs.
_MOST_TIMES = 0.75
# Steps that an advice proposes for irregular times, and the share of times that must lie near them.
_ROUND_STEPS = (DAY, 21_600, 10_800, 3_600, 1_800, 600, 300, 60)
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


@dataclass(frozen=True, slots=True)
class Reports:
    """How many reports there are at each of the distinct times, and who reports off a step.

    ``stations_off`` takes a step and a phase in seconds and returns the share of stations with a report elsewhere.
    """

    counts: np.ndarray[Any, Any]
    stations_off: Callable[[int, int], float] = lambda step, phase: 1.0


def find_axis(
    distinct: np.ndarray[Any, Any], step: int | None, tolerance: int | None, where: str, command: str,
    reports: Reports | None = None,
) -> Axis:  # fmt: skip
    """Find the regular axis that holds the observed times.

    Parameters
    ----------
    distinct : the times at which anything was observed, sorted, each once
    step, tolerance : declared values in seconds; with None the step is taken from the times, which must all lie on it
    where : name of the file, for messages
    command : the command to which messages add options
    reports : who reports when, if that is known: then a step that most of the network keeps is the step, and the
        reports of a few stations between are off the axis

    Raises
    ------
    DataError
        If the times are irregular and no step was declared, or if they span far more than they fill.
    """
    if distinct.size == 0:
        raise DataError(f"{where} holds no time at all", code="SPDE-D025")
    is_declared = step is not None
    if step is None:
        step, divisor = _common_step(distinct, reports)
        if step < _SHORTEST_STEP:
            raise DataError(
                f"times are {format_span(step)} apart, which no network keeps", code="SPDE-D036",
                where=f"{where}, from {format_time(int(distinct[0]))} to {format_time(int(distinct[-1]))}",
                do=f"check the unit of the times; if they are right: {command} --step {format_span(step)}",
            )  # fmt: skip
        off = np.flatnonzero((distinct - distinct[0]) % (divisor or step))
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
    counts = None if reports is None else reports.counts
    anchor = 0 if tolerance is not None else _common_phase(distinct, step, counts)
    axis = Axis(0, step, 0, tolerance or 0)
    index, distance = Axis(anchor, step, 0, tolerance or 0).slots(distinct)
    index = index[distance <= axis.tolerance]
    if index.size == 0:
        raise DataError(
            f"no time of {where} lies within {format_span(axis.tolerance)} of a multiple of {format_span(step)}",
            code="SPDE-D036",
            do=f"{command} --step {format_span(step)} --tolerance {format_span(step // 2)}",
        )
    if is_declared and not axis.tolerance:  # with a tolerance the nearest is taken, whatever the times
        _require_step_of_times(distinct, index.size, step, where, command)
    count = int(index[-1] - index[0]) + 1
    _require_filled(count, index, anchor, step, where)
    return Axis(int(anchor + index[0] * step), step, count, axis.tolerance)


def _require_step_of_times(
    distinct: np.ndarray[Any, Any], count: int, step: int, where: str, command: str
) -> None:  # fmt: skip
    """Refuse a declared step that meets few of the times and is no multiple of theirs: 45 minutes of hourly ones."""
    if distinct.size < 3 or count >= distinct.size * _MOST_TIMES:
        return
    spacing, divisor = _common_step(distinct, None)
    if not divisor or step % spacing == 0 or spacing % step == 0:
        return
    raise DataError(
        f"times are {format_span(spacing)} apart: steps of {format_span(step)} meet {count:,} of {distinct.size:,}",
        code="SPDE-D036", where=where, do=f"{command} --step {format_span(spacing)}",
    )  # fmt: skip


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


def _common_step(distinct: np.ndarray[Any, Any], reports: Reports | None) -> tuple[int, int]:
    """Return the step of the times, and the common divisor of their distances where that fills an axis well, else 0.

    The step is a multiple of the divisor that most of the network keeps, the divisor, or the most common distance.
    """
    if distinct.size < 2:
        return 3600, 0
    gaps = np.diff(distinct)
    divisor = int(np.gcd.reduce(gaps))
    span = int(distinct[-1] - distinct[0])
    if divisor >= 60 and span // divisor + 1 <= 4 * distinct.size:
        return step_of_most(distinct, divisor, reports or Reports(np.ones(distinct.size, np.int64))), divisor
    values, counts = np.unique(gaps, return_counts=True)
    return int(values[np.argmax(counts)]), 0


def step_of_most(distinct: np.ndarray[Any, Any], divisor: int, reports: Reports) -> int:
    """Return the longest multiple of ``divisor`` that most of the network keeps, or ``divisor``."""
    total = int(reports.counts.sum())
    longest = min(_LARGEST_MULTIPLE, int(distinct[-1] - distinct[0]) // divisor)
    for multiple in range(longest, 1, -1):
        step = multiple * divisor
        if DAY % step and step % DAY:
            continue
        phase = _common_phase(distinct, step, reports.counts)
        off = total - int(reports.counts[distinct % step == phase].sum())
        if off <= _HARDLY_ANY * total:
            return step
        if off <= (1 - _MOST_REPORTS) * total and reports.stations_off(step, phase) <= _FEW_STATIONS:
            return step
    return divisor


def _common_phase(distinct: np.ndarray[Any, Any], step: int, counts: np.ndarray[Any, Any] | None = None) -> int:
    values, index = np.unique(distinct % step, return_inverse=True)
    return int(values[np.argmax(np.bincount(index, weights=counts))])


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
