"""Parse, print and compare times and spans of time: the one module that does so, for all packages.

Inside the packages a time is a whole number of seconds since 1970 UTC (int64). A `Zone` turns the clock of a file into
that; clocks that are set forward and back for summer time are resolved by the name of the place, never guessed.

| to read | to write |
|---|---|
| `parse_time`: ``2017-01-01T06:00`` | `format_time`: ``2017-01-01 06:00:00``; `format_iso`; `file_stamp` |
| `parse_span`: ``3h``, ``1h30min``, whole seconds | `format_span`: ``3h`` |
| `parse_duration`: the same, fractions too | `format_duration`: ``7.3 min``; `format_elapsed`: ``7 min 18 s`` |
| `utc_seconds`: the times of a dataset or of pandas, with or without a zone | `to_datetime64` |

Whole columns of text are parsed by `fields.readers.time_text`: it works on Arrow arrays in formats that a column map
declares, and so belongs to the readers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

import numpy as np

from fields.errors import DataError, UsageError, printable

__all__ = [
    "DATE_ORDERS",
    "DAY",
    "ERA",
    "Zone",
    "file_stamp",
    "format_duration",
    "format_elapsed",
    "format_iso",
    "format_span",
    "format_time",
    "most_common_step",
    "parse_duration",
    "parse_span",
    "parse_time",
    "require_era",
    "summer_time_jumps",
    "to_datetime64",
    "to_seconds",
    "utc_seconds",
    "with_utc_times",
]

Array = np.ndarray[Any, Any]
Time = int | np.integer[Any] | np.datetime64
"""Seconds since 1970 UTC, or datetime64."""

DAY = 86_400
_HOUR = 3600
# datetime64[ns] reaches from 1677 to 2262 and wraps round beyond without an error.
_FIRST_SECOND, _LAST_SECOND = -9_223_372_036, 9_223_372_036
ERA = (np.datetime64("1850-01-01"), np.datetime64("2101-01-01"))
"""Times at which stations report: from the first on, before the second."""
DATE_ORDERS = {"dmy": "day/month/year", "mdy": "month/day/year", "ymd": "year/month/day"}
"""Orders of the numbers of a date such as 01/02/2024, as declared and as shown."""
_SUNDAY = 6
# Months in which the clocks of the world are changed.
_CLOCK_MONTHS = (2, 3, 4, 9, 10, 11)
_UNITS = {
    "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hour": 3600, "hours": 3600, "d": DAY, "day": DAY, "days": DAY,
}  # fmt: skip
_PART = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([A-Za-z]+)\s*")
# Digits of a text of digits alone: a year, or year, month and day. Other numbers are counts of who knows what.
_DIGITS_OF_DATES = (4, 8)
_OUR_CALENDARS = ("standard", "gregorian", "proleptic_gregorian")
# Files of the zone database that are no clock, or that of the machine at hand: another machine reads other times.
_NO_PLACES = ("localtime", "posixrules", "factory")
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)

# The place of a problem for a message, or a function that determines it.
Where = str | Callable[[], str]


def _described(where: Where) -> str:
    return where if isinstance(where, str) else where()


# ---- spans ----------------------------------------------------------------------------------------------------------


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``30min``, ``1.5h``, ``1h30min``, ``5 min`` or ``2 days``; ``h`` is one hour.

    Raises
    ------
    UsageError
        If the text is anything else.
    """
    seconds, position = 0.0, 0
    plain = f"1{text.strip()}" if text.strip().lower() in _UNITS else text
    while part := _PART.match(plain, position):
        if part[2].lower() not in _UNITS:
            break
        seconds, position = seconds + float(part[1]) * _UNITS[part[2].lower()], part.end()
    if position == 0 or position < len(plain):
        raise _not_a_span(text)
    return seconds


def parse_span(text: str) -> int:
    """Return the whole seconds of a span such as ``3h`` or ``1h30min``; the spelling is that of `parse_duration`.

    Raises
    ------
    UsageError
        If the text is no span, or one with a fraction of a second.
    """
    seconds = parse_duration(text)
    if seconds != int(seconds):
        raise _not_a_span(text)
    return int(seconds)


def _not_a_span(text: str) -> UsageError:
    return UsageError(
        f"'{printable(text)[:40]}' is not a span of time", code="SPDE-D110", do="write it as 10min, 1h, 1h30min or 1d"
    )


def format_span(seconds: int, separator: str = "") -> str:
    """Write a span in the largest unit that divides it, such as ``3h``: the inverse of `parse_span`."""
    for unit, size in (("d", DAY), ("h", _HOUR), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{separator}{unit}"
    return f"{seconds}{separator}s"


def format_duration(seconds: float) -> str:
    """Write a measured or estimated duration in one unit: ``45 s``, ``7.3 min``, ``6.2 h``, ``30 days``."""
    for size, unit in ((DAY, "days"), (_HOUR, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"


def format_elapsed(seconds: float) -> str:
    """Write a running duration in two units: ``45 s``, ``1 min 15 s``, ``2 h 01 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // _HOUR} h {whole % _HOUR // 60:02d} min"


# ---- times ----------------------------------------------------------------------------------------------------------


def parse_time(time: str | datetime | Time) -> int:
    """Return seconds since 1970 of ``2017-01-01``, ``2017-01-01T06:00``, a datetime, a datetime64, or seconds.

    A text or datetime with an offset (``2017-01-01T06:00+02:00``) is converted to UTC. Without one it stays on the
    clock that the caller means: UTC, unless a `Zone` is applied to it.

    Raises
    ------
    UsageError
        If the text is no time.
    DataError
        If the time is before 1677 or after 2262, the range of datetime64[ns].
    """
    if isinstance(time, str):
        time = _parse_text(time)
    if type(time) is date:
        time = datetime(time.year, time.month, time.day)
    if time is None or isinstance(time, bool) or time != time:  # neither NaN nor NaT equals itself
        raise _not_a_time(time)
    if isinstance(time, datetime):  # a pandas Timestamp is one
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        seconds = math.floor(aware.timestamp())
    else:
        try:
            seconds = int(_whole_second(time).astype(np.int64))
        except (TypeError, ValueError, OverflowError):
            raise _not_a_time(time) from None
    _require_range(np.asarray([seconds]), "the time given")
    return seconds


def _parse_text(text: str) -> datetime | np.datetime64:
    plain = text.strip()
    try:
        return datetime.fromisoformat(plain)
    except ValueError:
        pass
    try:
        is_count = plain.lstrip("+-").isdigit() and len(plain) not in _DIGITS_OF_DATES
        if not plain or is_count or plain.lower() in ("nat", "now", "today"):
            raise ValueError
        return np.datetime64(plain.removesuffix("Z").strip(), "s")  # a year or a month alone
    except ValueError:
        raise _not_a_time(text) from None


def _not_a_time(time: object) -> UsageError:
    return UsageError(f"'{printable(time)[:40]}' is not a time", code="SPDE-D110", do="write it as 2017-01-01T00:00")


def _whole_second(time: Time) -> np.datetime64:
    return time.astype("datetime64[s]") if isinstance(time, np.datetime64) else np.datetime64(int(time), "s")


def format_time(time: Time, to: Literal["day", "minute", "second"] = "second") -> str:
    """Write a time for people: ``2023-07-05 12:00:00``, shortened to the minute or day with ``to``."""
    return str(_whole_second(time))[: {"day": 10, "minute": 16, "second": 19}[to]].replace("T", " ")


def format_iso(time: Time) -> str:
    """Write a time for files and machines: ``2023-07-05T12:00:00Z``."""
    return str(_whole_second(time)) + "Z"


def file_stamp(time: Time) -> str:
    """Write a time as part of a file name: ``20230705T1200Z``."""
    return str(_whole_second(time))[:16].replace("-", "").replace(":", "") + "Z"


def to_datetime64(seconds: Any) -> Array:
    """Convert seconds since 1970 to datetime64[ns]."""
    return np.asarray(seconds, np.int64).astype("datetime64[s]").astype("datetime64[ns]")


def to_seconds(times: Array) -> Array:
    """Convert datetime64 times to whole seconds since 1970 UTC (int64)."""
    return np.asarray(times).astype("datetime64[s]").astype(np.int64)


def utc_seconds(times: Any, where: str = "time") -> Array:
    """Convert the times of a dataset or of pandas to whole seconds since 1970 UTC (int64).

    Times that know their zone are converted to UTC; times without one are UTC.

    Parameters
    ----------
    times : a coordinate of xarray, an index or a series of pandas, or an array of datetime64 or of datetimes
    where : name of the data, for messages

    Raises
    ------
    DataError
        If these are no times, some are empty, they are of another calendar, or only some of them have a zone.
    """
    if not _is_plain(times):
        # An array made of times with a zone holds bare numbers, or datetimes that have lost it: the index has it.
        index = times.to_index() if getattr(times, "ndim", 0) == 1 and hasattr(times, "to_index") else times
        index = getattr(index, "dt", index)  # of a series
        times = index.tz_convert(None) if getattr(index, "tz", None) is not None else times
    values = np.asarray(getattr(times, "values", times))
    if values.dtype.kind == "O":
        values = _of_objects(values, where)
    if values.dtype.kind != "M":
        raise DataError(
            f"{where} is {values.dtype}, not a time", code="SPDE-D010",
            do="give datetime64, or CF units such as 'seconds since 1970-01-01' and the standard calendar",
        )  # fmt: skip
    if np.isnat(values).any():
        raise DataError(f"{where} has {int(np.isnat(values).sum()):,} empty entries", code="SPDE-D010",
                        do="fill them in, or leave these rows out")  # fmt: skip
    return to_seconds(values)


def with_utc_times(ds: Any) -> Any:
    """Return a dataset with its coordinate ``time`` as datetime64 in UTC, the same one if it is so already."""
    if "time" not in ds.coords or _is_plain(ds["time"]):
        return ds
    name = str(ds.attrs.get("source", "")) or "the dataset"
    seconds = utc_seconds(ds["time"], f"{name} › time")
    return ds.assign_coords(time=(ds["time"].dims, to_datetime64(seconds), ds["time"].attrs))


def _is_plain(times: Any) -> bool:
    dtype = getattr(times, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "M"


def _of_objects(values: Array, where: str) -> Array:
    """Convert datetimes, and those of a calendar that is ours, to datetime64 in UTC."""
    seconds = np.empty(values.shape, np.int64)
    zoned = set()
    for place, time in np.ndenumerate(values):
        calendar = str(getattr(time, "calendar", ""))
        if calendar in _OUR_CALENDARS:
            time = datetime(time.year, time.month, time.day, time.hour, time.minute, time.second)
        if not isinstance(time, datetime) or time != time:
            what = f"a time of the calendar {printable(calendar)}" if calendar else f"a {type(time).__name__}"
            raise DataError(
                f"{where} holds {what}, not times of the ordinary calendar", code="SPDE-D010",
                do="give datetime64, or CF units such as 'seconds since 1970-01-01' and the standard calendar",
            )  # fmt: skip
        zoned.add(time.tzinfo is not None)
        seconds[place] = parse_time(time)
    if len(zoned) > 1:
        raise DataError(f"{where}: some times name a zone and others do not", code="SPDE-D037",
                        do="give all of them a zone, as pandas does: index.tz_localize('UTC')")  # fmt: skip
    return seconds.astype("datetime64[s]")


def require_era(seconds: Array) -> None:
    """Raise `DataError` unless all times lie in `ERA`, 1850 to 2100."""
    seconds = np.asarray(seconds)
    earliest, latest = to_seconds(np.asarray(ERA))
    strange = seconds[(seconds < earliest) | (seconds >= latest)]
    if strange.size:
        first = np.int64(strange[0]).astype("datetime64[s]")
        raise DataError(
            f"{strange.size:,} times are outside the era of stations", code="SPDE-D010",
            where=f"{first}, allowed 1850 to 2100", do="check the unit and the reference of time",
        )  # fmt: skip


def _require_range(seconds: Array, where: Where) -> None:
    if seconds.size and (seconds.min() < _FIRST_SECOND or seconds.max() > _LAST_SECOND):
        raise DataError(
            f"{_described(where)}: times before 1677-09-22 or after 2262-04-11 cannot be kept",
            code="SPDE-D010",
            do="correct these times, or declare their format in a column map",
        )


# ---- clocks ---------------------------------------------------------------------------------------------------------


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
                if plain.lower() not in _NO_PLACES and plain.split("/")[0] not in ("posix", "right"):
                    return cls(plain, None)
        raise UsageError(
            f"'{printable(text)[:60]}' is not a time zone",
            code="SPDE-D110",
            do="write it as UTC, UTC+8, +05:30 or America/Sao_Paulo",
        )

    def to_utc(self, local: Array, where: Where) -> tuple[Array, Array]:
        """Convert seconds on this clock to UTC, in two versions: the earlier and the later reading of a repeated hour.

        Both are equal wherever the clock showed a time only once.

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
                f"{_described(where)}: {printable(str(problem).splitlines()[0])[:160]}",
                code="SPDE-D037",
                do="give the zone whose clock wrote these times: --time-zone Area/City",
            ) from None
        latest = pc.assume_timezone(naive, self.name, ambiguous="latest", nonexistent="raise")
        first, last = (np.asarray(x.cast(pa.int64())) for x in (earliest, latest))
        return first, last


def most_common_step(times: Array) -> int:
    """Return the most common positive distance between neighbouring times, in seconds; 0 for a single time."""
    gaps = np.diff(np.unique(to_seconds(times)))
    if gaps.size == 0:
        return 0
    values, counts = np.unique(gaps, return_counts=True)
    return int(values[np.argmax(counts)])


def summer_time_jumps(times: Array) -> tuple[Array, Array]:
    """Find the days on which a clock seems to be set forward (an hour absent) and back (an hour repeated).

    ``times`` are those of all rows in order, repeated times included. Clocks are changed in the night before a Sunday
    in spring and autumn; an hour absent on any other day is a gap, an hour repeated there a duplicate.
    """
    seconds = to_seconds(np.asarray(times))
    step = most_common_step(np.asarray(times))
    if step == 0 or _HOUR % step:
        return np.empty(0, "datetime64[D]"), np.empty(0, "datetime64[D]")
    distinct, counts = np.unique(seconds, return_counts=True)
    gaps = np.diff(distinct)
    forward = distinct[:-1][gaps == step + _HOUR] + step
    # Once an hour is repeated, so are all its steps and nothing else on that day.
    typical = np.median(counts)
    doubled = distinct[counts >= 2 * typical]
    hours, inside = np.unique(doubled // _HOUR, return_counts=True)
    back = hours[inside * step == _HOUR] * _HOUR
    return _clock_days(forward), _clock_days(back)


def _clock_days(seconds: Array) -> Array:
    night = seconds + 2 * _HOUR  # some clocks are set at midnight, so that the last hour of Saturday is repeated
    days = night.astype("datetime64[s]").astype("datetime64[D]")
    weekday = (days.astype(np.int64) + 3) % 7  # 1 January 1970 was a Thursday
    month = days.astype("datetime64[M]").astype(np.int64) % 12 + 1
    return days[(weekday == _SUNDAY) & np.isin(month, _CLOCK_MONTHS) & (night % 86_400 < 6 * _HOUR)]


# Names of before.
parse_step, render_step, parse_instant, shown_time = parse_span, format_span, parse_time, format_time
