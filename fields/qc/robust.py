"""Robust statistics along time, with missing values: medians by hour of day, rolling medians, spreads.

Medians are taken by sorting, NaN last: on tables of stations this is many times faster than numpy's ``nanmedian``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fields.times import DAY

__all__ = ["SIGMA", "by_phase", "medians", "phases_of_day", "rolling_median", "spread"]

Array = np.ndarray[Any, Any]

SIGMA = 1.4826  # standard deviation of a normal distribution over its median absolute deviation


def medians(values: Array) -> Array:
    """Return medians along the first axis, NaN left out; NaN where all values are missing."""
    if values.shape[0] == 0:
        return np.full(values.shape[1:], np.nan, values.dtype)
    ordered = np.sort(values, axis=0)
    count = np.isfinite(values).sum(axis=0)
    low = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0)[None], axis=0)[0]
    high = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[0] - 1)[None], axis=0)[0]
    return np.where(count > 0, (low + high) / 2, np.nan).astype(values.dtype)


def phases_of_day(step: float, rows: int) -> int:
    """Return the number of steps in a day if the record holds at least ten days; else 1: no daily cycle is removed."""
    count = round(DAY / step) if step and step <= DAY / 2 else 1
    return count if count > 1 and abs(count * step - DAY) < 1 and rows >= 10 * count else 1


def by_phase(values: Array, phases: int) -> Array:
    """View ``[time, station]`` as ``[day, phase, station]``, the last day filled up with NaN."""
    rows, stations = values.shape
    absent = -rows % phases
    if absent:
        values = np.concatenate([values, np.full((absent, stations), np.nan, values.dtype)])
    return values.reshape(-1, phases, stations)


def without_cycle(values: Array, phases: int) -> Array:
    """Return departures from each station's median at that hour of day."""
    table = by_phase(values, phases)
    return (table - medians(table)).reshape(-1, values.shape[1])[: values.shape[0]]


def spread(values: Array, phases: int, floor: float) -> Array:
    """Return the robust standard deviation of each station at each hour of day, as ``[time, station]``.

    Half of its square is that of all hours together, so that an hour with little data borrows from the others. None is
    below ``floor``.
    """
    size = np.abs(values)
    table = by_phase(size, phases)
    hourly, whole = medians(table) * SIGMA, medians(size) * SIGMA
    network = np.nanmedian(whole) if np.isfinite(whole).any() else floor
    whole = np.where(np.isfinite(whole), whole, network)
    mixed = np.sqrt((np.where(np.isfinite(hourly), hourly, whole) ** 2 + whole**2) / 2)
    mixed = np.maximum(mixed, floor).astype(values.dtype)
    return np.broadcast_to(mixed, table.shape).reshape(-1, values.shape[1])[: values.shape[0]]


def rolling_median(values: Array, width: int) -> Array:
    """Return the centred median over ``width`` rows (odd); NaN where fewer than a third of them are present."""
    reach = width // 2
    padding = np.full((reach, values.shape[1]), np.nan, values.dtype)
    padded = np.concatenate([padding, values, padding])
    windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=0)
    out = np.empty_like(values)
    for start in range(0, values.shape[0], 512):  # bounded memory
        block = np.moveaxis(windows[start : start + 512], -1, 0)
        middle = medians(block)
        out[start : start + 512] = np.where(np.isfinite(block).sum(axis=0) * 3 >= width, middle, np.nan)
    return out
