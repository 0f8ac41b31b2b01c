"""Times of files: steps, zones, and a regular axis in UTC found among what was observed.

Inside, a time is a whole number of seconds since 1970 UTC (int64). A file's own clock is turned into that by a
`Zone`; clocks that jump for summer time are resolved by name of the place, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DataError, UsageError, printable

__all__ = ["Axis", "Zone", "find_axis", "parse_instant", "parse_step", "render_step", "to_datetime64"]

# datetime64[ns] ends in 2262; no station reported before 1677 either.
EARLIEST, LATEST = -9_223_372_036, 9_223_372_036
DAY = 86_400
MOST_STEPS = 20_000_000
_UNITS = {
    "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hour": 3600, "hours": 3600, "d": DAY, "day": DAY, "days": DAY,
}  # fmt: skip
_STEP = re.compile(r"(\d{1,9})?\s*([A-Za-z]+)")
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)


# A place for a message, or how to find it.
Where = str | Callable[[], str]


def _said(where: Where) -> str:
    return where if isinstance(where, str) else where()


def parse_step(text: str) -> int:
    """Seconds of ``3h``, ``10min``, ``1d``; ``UsageError`` for anything else."""
    found = _STEP.fullmatch(text.strip())
    unit = _UNITS.get(found[2].lower()) if found else None
    seconds = int(found[1] or 1) * unit if found and unit else -1
    if seconds < 0:
        raise UsageError(f"'{printable(text)[:40]}' is not a step", code="SPDE-D110", do="write it as 1h, 10min or 1d")
    return seconds


def render_step(seconds: int) -> str:
    """The inverse of `parse_step`, in the largest unit that fits."""
    for unit, size in (("d", DAY), ("h", 3600), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def parse_instant(text: str) -> int:
    """Seconds since 1970 of ``2017-01-01`` or ``2017-01-01T06:00``, on whatever clock it was meant."""
    try:
        if not text.strip() or text.strip().lower() in ("nat", "now", "today"):
            raise ValueError
        instant = np.datetime64(text.strip().removesuffix("Z"), "s").astype(np.int64)
    except ValueError:
        raise UsageError(
            f"'{printable(text)[:40]}' is not a time", code="SPDE-D110", do="write it as 2017-01-01T00:00"
        ) from None
    _require_range(np.asarray([instant]), "the time given")
    return int(instant)


def to_datetime64(seconds: Any) -> np.ndarray[Any, Any]:
    """Seconds since 1970 as datetime64[ns]."""
    return np.asarray(seconds, np.int64).astype("datetime64[s]").astype("datetime64[ns]")


def shown_time(seconds: int) -> str:
    """A time for people."""
    return str(np.datetime64(int(seconds), "s")).replace("T", " ")


def _require_range(seconds: np.ndarray[Any, Any], where: Where) -> None:
    if seconds.size and (seconds.min() < EARLIEST or seconds.max() > LATEST):
        raise DataError(
            f"{_said(where)}: times before 1677-09-22 or after 2262-04-11 cannot be kept",
            code="SPDE-D010",
            do="correct these times, or declare their format in a column map",
        )


@dataclass(frozen=True, slots=True)
class Zone:
    """A clock: a fixed distance from UTC, or the legal time of a place."""

    name: str
    offset: int | None

    @classmethod
    def parse(cls, text: str) -> Zone:
        """Read ``UTC``, ``UTC+8``, ``+05:30`` or a name such as ``America/Sao_Paulo``."""
        plain = text.strip()
        if plain.upper() in ("UTC", "Z", "GMT", "UT"):
            return cls("UTC", 0)
        fixed = _OFFSET.fullmatch(plain)
        if fixed:
            seconds = int(fixed[2]) * 3600 + int(fixed[3] or 0) * 60
            if seconds <= 14 * 3600:
                sign = -1 if fixed[1] == "-" else 1
                hours = f"{int(fixed[2])}" + (f":{fixed[3]}" if fixed[3] and fixed[3] != "00" else "")
                return cls(f"UTC{fixed[1]}{hours}", sign * seconds)
        else:
            from zoneinfo import ZoneInfo

            try:
                ZoneInfo(plain)
            except (KeyError, ValueError, OSError):
                pass
            else:
                return cls(plain, None)
        raise UsageError(
            f"'{printable(text)[:60]}' is not a time zone",
            code="SPDE-D110",
            do="write it as UTC, UTC+8, +05:30 or America/Sao_Paulo",
        )

    def to_utc(self, local: np.ndarray[Any, Any], where: Where) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Seconds on this clock to UTC, twice: where the clock showed an hour twice, the earlier and the later.

        Raises
        ------
        DataError
            For an hour that this clock never showed.
        """
        _require_range(local, where)
        if self.offset is not None:
            return local - self.offset, local - self.offset
        import pyarrow as pa
        import pyarrow.compute as pc

        naive = pa.array(local.astype("datetime64[s]"))
        try:
            earliest = pc.assume_timezone(naive, self.name, ambiguous="earliest", nonexistent="raise")
        except pa.ArrowInvalid as problem:
            raise DataError(
                f"{_said(where)}: {printable(str(problem).splitlines()[0])[:160]}",
                code="SPDE-D037",
                do="give the zone whose clock wrote these times, e.g. --time-zone UTC",
            ) from None
        latest = pc.assume_timezone(naive, self.name, ambiguous="latest", nonexistent="raise")
        first, last = (np.asarray(x.cast(pa.int64())) for x in (earliest, latest))
        return first, last


@dataclass(frozen=True, slots=True)
class Axis:
    """A regular axis: ``start + step * arange(count)`` in s UTC; values up to ``tolerance`` away count as on it."""

    start: int
    step: int
    count: int
    tolerance: int = 0

    def __post_init__(self) -> None:
        if self.step <= 0 or self.count < 0 or self.tolerance < 0:
            raise UsageError(f"no time axis has step {self.step} s and tolerance {self.tolerance} s", code="SPDE-D110")
        if 2 * self.tolerance > self.step:
            raise UsageError(
                f"a tolerance of {render_step(self.tolerance)} is more than half the step {render_step(self.step)}",
                code="SPDE-D110",
                do=f"--tolerance {render_step(self.step // 2)}",
            )

    @property
    def seconds(self) -> np.ndarray[Any, Any]:
        """All times."""
        return self.start + self.step * np.arange(self.count, dtype=np.int64)

    def slots(self, seconds: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Index of the nearest axis time (ties to the earlier) and the distance to it in seconds."""
        half = (self.step - 1) // 2
        index = (seconds - self.start + half) // self.step
        return index, np.abs(seconds - self.start - index * self.step)


def find_axis(
    distinct: np.ndarray[Any, Any], step: int | None, tolerance: int | None, where: str, command: str
) -> Axis:
    """The regular axis that holds the observed times.

    Parameters
    ----------
    distinct : the times at which anything was observed, sorted, each once
    step, tolerance : as declared, in seconds; None: found among the times, which must then all lie on it
    where, command : for messages: the file, and the command to which options are added

    Raises
    ------
    DataError
        If the times are irregular and no step was declared, or if they span far more than they fill.
    """
    if distinct.size == 0:
        raise DataError(f"{where} holds no time at all", code="SPDE-D025")
    if step is None:
        step = _usual_step(distinct)
        off = np.flatnonzero((distinct - distinct[0]) % step)
        if off.size:
            anchor = _usual_phase(distinct, step)
            stray = np.flatnonzero((distinct - anchor) % step)
            first = ", ".join(shown_time(t) for t in distinct[stray[:3]])
            raise DataError(
                f"times are irregular: {stray.size:,} of {distinct.size:,} are not a multiple of "
                f"{render_step(step)} apart from the rest (first: {first})",
                code="SPDE-D036",
                where=where,
                do=f"{command} --step {render_step(step)} --tolerance {render_step(_some_tolerance(step))}",
            )
    # With a tolerance the axis is the round one (full hours); without, the one on which most values lie.
    anchor = 0 if tolerance is not None else _usual_phase(distinct, step)
    axis = Axis(0, step, 0, tolerance or 0)
    index, distance = Axis(anchor, step, 0, tolerance or 0).slots(distinct)
    index = index[distance <= axis.tolerance]
    if index.size == 0:
        raise DataError(
            f"no time of {where} lies within {render_step(axis.tolerance)} of a multiple of {render_step(step)}",
            code="SPDE-D036",
            do=f"{command} --step {render_step(step)} --tolerance {render_step(step // 2)}",
        )
    count = int(index[-1] - index[0]) + 1
    _require_filled(count, index, anchor, step, where)
    return Axis(int(anchor + index[0] * step), step, count, axis.tolerance)


def _some_tolerance(step: int) -> int:
    return max(1, min(step // 2, 600 if step >= 3600 else step // 4))


def _usual_step(distinct: np.ndarray[Any, Any]) -> int:
    """The most common distance between neighbouring times, or their common divisor if the axis stays well filled."""
    if distinct.size < 2:
        return 3600
    gaps = np.diff(distinct)
    divisor = int(np.gcd.reduce(gaps))
    span = int(distinct[-1] - distinct[0])
    if divisor >= 60 and span // divisor + 1 <= 4 * distinct.size:
        return divisor
    values, counts = np.unique(gaps, return_counts=True)
    return int(values[np.argmax(counts)])


def _usual_phase(distinct: np.ndarray[Any, Any], step: int) -> int:
    values, counts = np.unique(distinct % step, return_counts=True)
    return int(values[np.argmax(counts)])


def _require_filled(count: int, index: np.ndarray[Any, Any], anchor: int, step: int, where: str) -> None:
    filled = np.unique(index).size
    if count > MOST_STEPS or (count > 100_000 and filled < count // 100):
        ends = f"{shown_time(anchor + int(index[0]) * step)} .. {shown_time(anchor + int(index[-1]) * step)}"
        raise DataError(
            f"times span {ends}, {count:,} steps of {render_step(step)}, of which {filled:,} are observed: "
            "one of them is probably mistyped",
            code="SPDE-D036",
            where=where,
            do="correct the stray times, or declare a longer --step",
        )
