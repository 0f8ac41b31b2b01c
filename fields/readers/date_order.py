"""Read dates written as three numbers: 01/02/2024 is a day in February or in January, and only the table can tell.

The order of day, month and year is declared, or decided by dates that fit one order only (a 13th day). Where all dates
of a source fit several orders that give different times, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fields.errors import DataError, printable
from fields.times import DATE_ORDERS, DAY, format_time

__all__ = ["UNPARSED", "DateOrders", "UndecidedOrder", "calendar_seconds",
           "needs_order", "numeric_dates"]  # fmt: skip

Array = np.ndarray[Any, Any]
UNPARSED = np.iinfo(np.int64).min
# Years of two digits: 69 to 99 are of the last century, as POSIX has it.
_PIVOT = 69
_DATE = (
    r"^(?P<a>\d{1,4})(?P<s>[/.\-])(?P<b>\d{1,2})(?P<r>[/.\-])(?P<c>\d{1,4})"
    r"(?:[ T,]+(?P<hour>\d{1,2}):?(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?)?$"
)


class UndecidedOrder(Exception):  # noqa: N818 - a signal inside the readers
    """Dates whose order nobody has decided yet: the whole source is to be looked through."""


@dataclass(slots=True)
class DateOrders:
    """Orders that the dates of a source leave open, with the text that ruled each of the others out."""

    ruled_out: dict[str, str] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    differ: bool = False
    first: str = ""

    @property
    def open(self) -> list[str]:
        """Orders that fit every date so far."""
        return [order for order in DATE_ORDERS if order not in self.ruled_out] if self.first else []

    def add(self, texts: pa.Array) -> None:
        """Look at more texts; those that are no dates of three numbers are left to other formats."""
        readings, _ = numeric_dates(texts)
        if not needs_order(texts, readings):
            return
        fit = np.stack([readings[order] for order in DATE_ORDERS]) != UNPARSED
        for row in np.flatnonzero(fit.any(axis=0) & ~fit.all(axis=0)).tolist():
            for order, fits in zip(DATE_ORDERS, fit[:, row]):
                if not fits:
                    self.ruled_out.setdefault(order, texts[row].as_py())
        dates = fit.any(axis=0)
        if not dates.any():
            return
        self.first = self.first or texts[int(np.flatnonzero(dates)[0])].as_py()
        for order in self.open:
            times = readings[order][dates]
            low, high = self.spans.get(order, (int(times[0]), int(times[0])))
            self.spans[order] = min(low, int(times.min())), max(high, int(times.max()))
            self.differ |= not np.array_equal(times, readings[self.open[0]][dates])

    def decided(self, label: str, command: Any) -> str | None:
        """Return the order that fits all dates; None where there are no such dates.

        Raises
        ------
        DataError
            If no order fits all of them, or several do and give different times.
        """
        if not self.first:
            return None
        if not self.open:
            texts = dict.fromkeys(self.ruled_out.values())
            named = {t: [DATE_ORDERS[o] for o, other in self.ruled_out.items() if other == t] for t in texts}
            seen = "; ".join(f"'{printable(t)[:40]}' is not {' or '.join(orders)}" for t, orders in named.items())
            raise DataError(
                f"{label}: no order of day, month and year fits all dates", code="SPDE-D125", where=seen,
                do="correct the dates that are written otherwise than the rest",
            )  # fmt: skip
        if len(self.open) > 1 and self.differ:
            # The reading under which the record is shortest comes first: a wrong order scatters dates over the year.
            first, *others = sorted(self.open, key=lambda order: self.spans[order][1] - self.spans[order][0])
            seen = "; ".join(f"{DATE_ORDERS[o]} from {_day(a)} to {_day(b)}" for o, (a, b) in self._open_spans())
            raise DataError(
                f"{label}: dates such as '{printable(self.first)[:40]}' can be read in {len(self.open)} ways",
                code="SPDE-D125",
                where=f"as {seen}",
                do=f"{command.with_options(('--date-order', first))} (or {', '.join(others)}, whichever is true)",
            )
        return self.open[0]

    def _open_spans(self) -> Iterable[tuple[str, tuple[int, int]]]:
        return ((order, self.spans[order]) for order in self.open)


def _day(seconds: int) -> str:
    return format_time(seconds, "day")


def numeric_dates(texts: pa.Array) -> tuple[dict[str, Array], Array]:
    """Read dates of three numbers in every order.

    Returns
    -------
    seconds : for each order, on the clock of the text or UTC where it names a zone; `UNPARSED` where it does not fit
    aware : whether the text names a zone
    """
    parts = pc.extract_regex(texts, _DATE)
    matched = np.asarray(parts.is_valid())
    names = ("a", "b", "c", "hour", "minute", "second")
    numbers = {name: _integers(pc.struct_field(parts, name)) for name in names}
    digits = {name: np.asarray(pc.fill_null(pc.utf8_length(pc.struct_field(parts, name)), 0)) for name in "abc"}
    matched &= np.asarray(pc.fill_null(pc.equal(pc.struct_field(parts, "s"), pc.struct_field(parts, "r")), False))
    clock, possible = _clock(numbers, _words(parts, "half"))
    offset, aware = _offsets(_words(parts, "zone"))
    readings: dict[str, Array] = {}
    for order in reversed(DATE_ORDERS):
        year, month, day = ("abc"[order.index(part)] for part in "ymd")
        years, fits = numbers[year], matched & possible & (digits[year] % 2 == 0) & (digits[day] < 3)
        two = digits[year] == 2
        years = np.where(two, years + np.where(years < _PIVOT, 2000, 1900), years)
        days, real = calendar_seconds(years, numbers[month], numbers[day])
        seconds = np.where(fits & real & (digits[month] < 3), days + clock - offset, UNPARSED)
        # A year of four digits in front leaves one reading only, whatever the order of other dates.
        readings[order] = np.where(digits["a"] == 4, readings["ymd"], seconds) if order != "ymd" else seconds
    return readings, aware


def needs_order(texts: pa.Array, readings: dict[str, Array]) -> bool:
    """Return whether there are dates that more than one order may fit."""
    year_first = np.asarray(pc.match_substring_regex(texts, r"^\s*\d{4}"))
    fit = np.stack(list(readings.values())) != UNPARSED
    return bool((fit.any(axis=0) & ~year_first).any())


def calendar_seconds(year: Array, month: Array, day: Array) -> tuple[Array, Array]:
    """Return midnight of dates in seconds since 1970, and which of them the calendar has."""
    real = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = (np.where(real, year, 1970) - 1970) * 12 + np.where(real, month, 1) - 1
    first = months.astype("datetime64[M]")
    dates = first.astype("datetime64[D]") + (np.where(real, day, 1) - 1)
    real &= dates.astype("datetime64[M]") == first  # not 30 February
    return dates.astype(np.int64) * DAY, real


def _integers(texts: pa.Array) -> Array:
    whole = pc.if_else(pc.equal(texts, ""), "0", texts)
    return np.asarray(pc.fill_null(whole.cast(pa.int64()), 0), np.int64)


def _words(parts: pa.Array, name: str) -> list[str]:
    return [text or "" for text in pc.struct_field(parts, name).to_pylist()]


def _clock(numbers: dict[str, Array], halves: list[str]) -> tuple[Array, Array]:
    """Return seconds since midnight, and which of them a clock shows; 24:00 ends the day."""
    hour, minute, second = (numbers[name] for name in ("hour", "minute", "second"))
    half = np.array([text[:1].lower() for text in halves], "U1")
    possible = np.where(half == "", (hour < 24) | ((hour == 24) & (minute == 0) & (second == 0)),
                        (hour >= 1) & (hour <= 12))  # fmt: skip
    hour = np.where(half == "", hour, hour % 12 + np.where(half == "p", 12, 0))
    return hour * 3600 + minute * 60 + second, possible & (minute < 60) & (second < 60)


def _offsets(zones: list[str]) -> tuple[Array, Array]:
    seconds = np.zeros(len(zones), np.int64)
    for i, zone in enumerate(zones):
        if zone[:1] in ("+", "-"):
            plain = zone.replace(":", "")
            seconds[i] = (int(plain[1:3]) * 3600 + int(plain[3:5]) * 60) * (-1 if zone[0] == "-" else 1)
    return seconds, np.array([bool(zone) for zone in zones])
