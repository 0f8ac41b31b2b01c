"""Parse times written as text by whole columns.

| format | reads |
|---|---|
| ``iso`` | 2024-01-31T06:00, with or without an offset |
| ``dates`` | 31/01/2024 6:00, day, month and year in the order that the map or the source decides |
| ``digits`` | digits alone: 20240131, 202401310600, or a count since 1970 whose length tells its unit |
| ``unix``, ``unix-ms`` | seconds, milliseconds since 1970 |
| ``excel`` | days since 30 December 1899, as spreadsheets count them |
| ``%d.%m.%Y %H:%M`` | a declared format |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fields.readers.date_order import UNPARSED, UndecidedOrder, calendar_seconds, needs_order, numeric_dates
from fields.times import DAY, ERA, format_time, to_seconds

__all__ = ["ParsedTimes", "parse_times", "two_readings"]

Array = np.ndarray[Any, Any]
_MICRO = 1_000_000
# Digits of a count since 1970 that has been reached since 2001, and how many of it make a second. Counts of other
# lengths are asked for, and so are ten digits that begin like a year.
_COUNTS = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}
_LIKE_YEARS = r"^(?:19|20|21)\d{8}$"
_CALENDARS = {8: "ymd", 12: "ymdHM", 14: "ymdHMS"}
_FIRST, _END = (int(t) for t in to_seconds(np.asarray(ERA)))
# Midnight at the end of a day, as some networks write it; in a format without minutes, hours that run from 1 to 24.
_MIDNIGHT = r"([ T]|^\d{8})24(:?00(?::?00(?:\.0+)?)?| 00?)(\D.*)?$"
_HOUR_24 = r"([ T]|^\d{8})24()(\D.*)?$"
# 1 January 1970 in days of a spreadsheet.
_EXCEL = 25_569
_WIDTHS = {"Y": r"\d{4}", "y": r"\d{2}", "d": r"(?P<day>\d{1,2})"}


@dataclass(frozen=True, slots=True)
class ParsedTimes:
    """Times of distinct texts.

    ``seconds`` are on the clock of the text, or UTC where ``aware``: the text names an offset, or counts from 1970.
    ``counted`` marks counts whose unit was told by their length. ``bad`` is the position of the first text that no
    format fits, or -1.
    """

    seconds: Array
    aware: Array
    counted: Array
    bad: int


def parse_times(texts: pa.Array, formats: tuple[str, ...], order: str | None = None) -> ParsedTimes:
    """Convert distinct texts to seconds since 1970, each by the first format that fits.

    Parameters
    ----------
    order : order of dates of three numbers, a key of `fields.times.DATE_ORDERS`

    Raises
    ------
    UndecidedOrder
        If there are dates of three numbers that more than one order fits, and none is given.
    """
    texts = pc.utf8_trim_whitespace(texts)
    seconds, aware, counted = _by_formats(texts, formats, order)
    left = np.flatnonzero(seconds == UNPARSED)
    if left.size:
        _end_of_day(texts, left, seconds, aware, formats, order)
        left = np.flatnonzero(seconds == UNPARSED)
    return ParsedTimes(seconds, aware, counted, int(left[0]) if left.size else -1)


def two_readings(text: str) -> str:
    """Write both readings of ten digits, which may be seconds since 1970 or year, month, day and hour; else nothing."""
    if not re.fullmatch(_LIKE_YEARS, text):
        return ""
    hour = int(_compact(pa.array([text]), "ymdH")[0])
    calendar = f"{format_time(hour, 'minute')} as year, month, day, hour; " if hour != UNPARSED else ""
    return f"{calendar}{format_time(int(text), 'minute')} as seconds since 1970"


def _by_formats(texts: pa.Array, formats: tuple[str, ...], order: str | None) -> tuple[Array, Array, Array]:
    seconds = np.full(len(texts), UNPARSED, np.int64)
    aware, counted = np.zeros(len(texts), bool), np.zeros(len(texts), bool)
    for form in formats:
        open_ = np.flatnonzero(seconds == UNPARSED)
        if open_.size == 0:
            break
        part = texts if open_.size == len(texts) else texts.take(pa.array(open_))
        seconds[open_], aware[open_] = _by_form(part, form, order)
        if form == "digits":
            counted[open_] = aware[open_]
    return seconds, aware, counted


def _by_form(texts: pa.Array, form: str, order: str | None) -> tuple[Array, Array]:
    if form == "iso":
        return _iso(texts)
    if form == "dates":
        return _dates(texts, order)
    if form == "digits":
        return _digits(texts)
    if form in ("unix", "unix-ms", "excel"):
        return _numbers(texts, form), np.ones(len(texts), bool) & (form != "excel")
    aware = np.full(len(texts), "%z" in form)
    try:
        parsed = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.full(len(texts), UNPARSED, np.int64), aware
    seconds = _filled(parsed.cast(pa.int64()))
    wrong = _is_another_day(texts, form, parsed) | _lacks_digits(texts, form)
    return np.where(wrong, UNPARSED, seconds), aware


def _is_another_day(texts: pa.Array, form: str, parsed: pa.Array) -> Array:
    """Mark times of another day than was written: the parser takes 31 February for 2 March."""
    pattern = _day_pattern(form)
    if not pattern:
        return np.zeros(len(texts), bool)
    day = pc.struct_field(pc.extract_regex(texts, pattern), "day").cast(pa.int64())
    naive = parsed.cast(pa.timestamp("s")) if parsed.type.tz is None else None
    if naive is None:
        return np.zeros(len(texts), bool)  # the offset may move it to another day
    return np.asarray(pc.fill_null(pc.not_equal(day, pc.day(naive)), False))


def _lacks_digits(texts: pa.Array, form: str) -> Array:
    """Mark texts with too few digits where numbers stand side by side: day 32 of a year, 2024032, is no 2 March."""
    joined = re.search(r"(?:%[YymdHMSI]){2,}", form)
    if joined is None:
        return np.zeros(len(texts), bool)
    digits = 2 * joined[0].count("%") + 2 * joined[0].count("%Y")
    whole = rf"(?:^|\D)\d{{{digits}}}(?:\D|$)"
    return np.asarray(pc.fill_null(pc.invert(pc.match_substring_regex(texts, whole)), False))


@lru_cache(maxsize=64)
def _day_pattern(form: str) -> str:
    """Return a regular expression that finds the day of the month in a text of a format; empty without one."""
    if "%d" not in form or form.count("%d") > 1:
        return ""
    pieces = re.split(r"%(.)", form)
    words = [re.escape(piece) if i % 2 == 0 else _WIDTHS.get(piece, r"\w{1,2}") for i, piece in enumerate(pieces)]
    simple = all(piece in "YymdHMSI" for piece in pieces[1::2])
    return f"^{''.join(words)}$" if simple else ""


def _dates(texts: pa.Array, order: str | None) -> tuple[Array, Array]:
    readings, aware = numeric_dates(texts)
    if order is None and needs_order(texts, readings):
        raise UndecidedOrder
    return readings[order or "ymd"], aware


def _digits(texts: pa.Array) -> tuple[Array, Array]:
    """Read texts of digits alone: a calendar where it has one, else a count since 1970."""
    plain = pc.replace_substring_regex(texts, r"^(\d+)\.0*$", r"\1")
    lengths = np.where(np.asarray(pc.match_substring_regex(plain, r"^\d{8,19}$")),
                       np.asarray(pc.utf8_length(plain)), 0)  # fmt: skip
    seconds = np.full(len(texts), UNPARSED, np.int64)
    counted = np.zeros(len(texts), bool)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        part = plain.take(pa.array(rows))
        if length in _CALENDARS:
            seconds[rows] = _compact(part, _CALENDARS[length])
        rest = rows[seconds[rows] == UNPARSED]
        if length in _COUNTS and rest.size:
            count = np.asarray(plain.take(pa.array(rest)).cast(pa.int64()), np.int64) // _COUNTS[length]
            undecided = np.asarray(pc.match_substring_regex(plain.take(pa.array(rest)), _LIKE_YEARS))
            good = (count >= _FIRST) & (count < _END) & ~undecided
            seconds[rest], counted[rest] = np.where(good, count, UNPARSED), good
    return seconds, counted


def _compact(texts: pa.Array, fields: str) -> Array:
    """Read year, month, day and so on that stand side by side; `UNPARSED` outside the era of stations."""
    starts = {"y": (0, 4), **{name: (2 + 2 * i, 4 + 2 * i) for i, name in enumerate("ymdHMS") if i}}
    part = {
        name: np.asarray(pc.utf8_slice_codeunits(texts, *starts[name]).cast(pa.int64()), np.int64)
        if name in fields else np.zeros(len(texts), np.int64)
        for name in "ymdHMS"
    }  # fmt: skip
    days, real = calendar_seconds(part["y"], part["m"], part["d"])
    real &= (part["H"] < 24) & (part["M"] < 60) & (part["S"] < 60)
    seconds = days + part["H"] * 3600 + part["M"] * 60 + part["S"]
    return np.where(real & (seconds >= _FIRST) & (seconds < _END), seconds, UNPARSED)


def _numbers(texts: pa.Array, form: str) -> Array:
    """Read numbers that count from a known moment, by a declared unit."""
    try:
        numbers = np.asarray(pc.fill_null(texts.cast(pa.float64()), np.nan), np.float64)
    except pa.ArrowInvalid:
        return np.full(len(texts), UNPARSED, np.int64)
    seconds = {"unix": numbers, "unix-ms": numbers / 1e3, "excel": (numbers - _EXCEL) * DAY}[form]
    good = (seconds >= _FIRST) & (seconds < _END)
    # A spreadsheet's fraction of a day is a second only when rounded.
    whole = np.round(seconds) if form == "excel" else np.floor(seconds)
    return np.where(good, np.where(good, whole, 0).astype(np.int64), UNPARSED)


def _iso(texts: pa.Array) -> tuple[Array, Array]:
    for zone in (None, "UTC"):
        try:
            parsed = texts.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
        return _filled(parsed.cast(pa.int64()), _MICRO), np.full(len(texts), zone is not None)
    # A mixture, or something else among them: sort out one by one.
    seconds = np.full(len(texts), UNPARSED, np.int64)
    aware = np.zeros(len(texts), bool)
    if len(texts) > 1:
        half = len(texts) // 2
        for part in (slice(0, half), slice(half, len(texts))):
            seconds[part], aware[part] = _iso(texts[part])
    return seconds, aware


def _end_of_day(
    texts: pa.Array, left: Array, seconds: Array, aware: Array, formats: tuple[str, ...], order: str | None
) -> None:
    """Read 24:00, which ends a day, as the first moment of the next; ``seconds`` and ``aware`` are filled in."""
    of_hours = tuple(form for form in formats if "%H" in form and "%M" not in form)
    for pattern, fitting in ((_MIDNIGHT, formats), (_HOUR_24, of_hours)):
        rest = texts.take(pa.array(left))
        ends = left[np.asarray(pc.match_substring_regex(rest, pattern))]
        if ends.size == 0 or not fitting:
            continue
        morning = pc.replace_substring_regex(texts.take(pa.array(ends)), pattern, r"\100\2\3")
        begins, zoned, _ = _by_formats(morning, fitting, order)
        seconds[ends] = np.where(begins == UNPARSED, UNPARSED, begins + DAY)
        aware[ends] = zoned


def _filled(numbers: pa.Array, divisor: int = 1) -> Array:
    plain = np.asarray(pc.fill_null(numbers, UNPARSED).to_numpy(zero_copy_only=False), np.int64)
    return plain if divisor == 1 else np.where(plain == UNPARSED, plain, plain // divisor)
