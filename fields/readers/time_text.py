"""Parse times written as text by whole columns: ISO 8601, a declared format, or seconds since 1970."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["parse_times"]

_MICRO = 1_000_000
_UNPARSED = np.iinfo(np.int64).min


def parse_times(texts: pa.Array, formats: tuple[str, ...]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """Convert distinct texts to seconds since 1970.

    Returns
    -------
    seconds : on the clock of the text, or UTC where the text names an offset
    aware : whether the text names an offset
    bad : position of the first text that no format fits, or -1
    """
    texts = pc.utf8_trim_whitespace(texts)
    seconds = np.full(len(texts), _UNPARSED, np.int64)
    aware = np.zeros(len(texts), bool)
    for form in formats:
        open_ = np.flatnonzero(seconds == _UNPARSED)
        if open_.size == 0:
            break
        part = texts if open_.size == len(texts) else texts.take(pa.array(open_))
        seconds[open_], aware[open_] = _by_form(part, form)
    missing = np.flatnonzero(seconds == _UNPARSED)
    return seconds, aware, int(missing[0]) if missing.size else -1


def _by_form(texts: pa.Array, form: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if form == "iso":
        return _iso(texts)
    aware = np.zeros(len(texts), bool)
    if form == "unix":
        return _numbers(texts), ~aware
    try:
        parsed = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.full(len(texts), _UNPARSED, np.int64), aware
    return _filled(parsed.cast(pa.int64())), aware


def _numbers(texts: pa.Array) -> np.ndarray[Any, Any]:
    try:
        return _filled(texts.cast(pa.int64()))
    except pa.ArrowInvalid:
        return np.full(len(texts), _UNPARSED, np.int64)


def _iso(texts: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    for zone in (None, "UTC"):
        try:
            parsed = texts.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
        return _filled(parsed.cast(pa.int64()), _MICRO), np.full(len(texts), zone is not None)
    # A mixture, or something else among them: sort out one by one.
    seconds = np.full(len(texts), _UNPARSED, np.int64)
    aware = np.zeros(len(texts), bool)
    if len(texts) > 1:
        half = len(texts) // 2
        for part in (slice(0, half), slice(half, len(texts))):
            seconds[part], aware[part] = _iso(texts[part])
    return seconds, aware


def _filled(numbers: pa.Array, divisor: int = 1) -> np.ndarray[Any, Any]:
    plain = np.asarray(pc.fill_null(numbers, _UNPARSED).to_numpy(zero_copy_only=False), np.int64)
    return plain if divisor == 1 else np.where(plain == _UNPARSED, plain, plain // divisor)
