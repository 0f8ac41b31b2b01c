"""Tests of quality control on tables ``[time, station]``: range, step, persistence, buddy, drift.

``fails_…`` return a boolean table of values that fail, ``…_ratio`` the departure over its limit (above 1 it fails).
Limits follow the spread of the record itself (robustly, so that the errors sought do not set them) and never fall below
a multiple of a good sensor's noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fields.qc.robust import SIGMA, medians, rolling_median, spread
from fields.variables import Variable

__all__ = [
    "block_means",
    "drift_ratio",
    "exchanged",
    "fails_buddy",
    "fails_leap",
    "fails_persistence",
    "fails_range",
    "fails_step",
    "scale_ratio",
]

Array = np.ndarray[Any, Any]

# Robust standard deviations that a value may depart by. Chosen on two years of 103 stations: each test alone flags
# some 0.1 to 0.3 % of what was observed.
STEP_SPREADS = 7.5
BUDDY_SPREADS = 7.0
DRIFT_SPREADS = 6.0
# Multiples of a good sensor's noise below which nothing is flagged.
STEP_NOISES = 5.0
BUDDY_NOISES = 8.0
# Windows in hours over which a departure must last, with the multiple of the noise it must reach.
DRIFT_WINDOWS = ((36, 6.0), (180, 4.0))
# The logarithm of wind speed: windows in hours, spreads allowed upwards (a unit slip) and downwards (a worn bearing).
SCALE_WINDOWS = (36, 180, 350)
SCALE_SPREADS = 3.2
LOSS_SPREADS = 12.0
SCALE_FLOOR = 0.08
# Two stations are taken for exchanged when both exceed the drift limit this many times, and agree to this share.
_FAR = 3.0
_ALIKE = 0.15
_BLOCK_HOURS = 12
_CHANCE = 1e-7  # of a natural run as long as the limit
_CALM_FACTOR = 14.0  # calm air and fog may last this much longer than other values


def fails_range(values: Array, row: Variable) -> Array:
    """Return where values are physically impossible."""
    with np.errstate(invalid="ignore"):
        return (values < row.hard[0]) | (values > row.hard[1])


def fails_step(values: Array, row: Variable, phases: int, step_hours: float) -> Array:
    """Return spikes of one step: values that leap away from the one before and back to the one after.

    The smaller of the two leaps counts, so that a front, which leaps and stays, passes. A gap beside the value leaves
    it to the other tests.
    """
    failed = np.zeros(values.shape, bool)
    if values.shape[0] < 3:
        return failed
    before, after = values[1:-1] - values[:-2], values[1:-1] - values[2:]
    with np.errstate(invalid="ignore"):
        leap = np.where(before * after > 0, np.minimum(np.abs(before), np.abs(after)), 0.0)
        curve = (before + after) / 2
        full = np.full_like(values, np.nan)
        full[1:-1] = curve
        limit = np.maximum(STEP_SPREADS * spread(full, phases, row.noise / 2), STEP_NOISES * row.noise)
        failed[1:-1] = leap > limit[1:-1]
        # Beyond what the atmosphere does in that time, however variable the station is.
        failed[1:-1] |= leap > row.step * max(1.0, np.sqrt(step_hours))
    return failed


def fails_leap(values: Array, row: Variable, step_hours: float) -> Array:
    """Return values that leap away from both neighbours in time by more than the variable can change.

    Showers, gusts and clouds do come and go within a step: the spread of the record is no limit here.
    """
    failed = np.zeros(values.shape, bool)
    if values.shape[0] > 2:
        before, after = values[1:-1] - values[:-2], values[1:-1] - values[2:]
        with np.errstate(invalid="ignore"):
            leap = np.where(before * after > 0, np.minimum(np.abs(before), np.abs(after)), 0.0)
            failed[1:-1] = leap > row.step * max(1.0, np.sqrt(step_hours))
    return failed


def fails_buddy(residual: Array, row: Variable, phases: int) -> Array:
    """Return departures from the neighbours' estimate far beyond the spread of this station and hour."""
    limit = np.maximum(BUDDY_SPREADS * spread(residual, phases, row.noise), BUDDY_NOISES * row.noise)
    with np.errstate(invalid="ignore"):
        return np.abs(residual) > limit


def drift_ratio(residual: Array, noise: float, step_hours: float) -> Array:
    """Return lasting departures from the neighbours over what is allowed: above 1 they fail.

    Medians of twelve hours are joined by rolling medians over a day and a half and over a week, which follow a jump at
    once and a spike not at all. The longer a departure lasts, the lower its limit.
    """
    size = rows_of_block(step_hours)
    blocks = medians(_in_blocks(residual, size))
    ratio = np.zeros(blocks.shape, np.float32)
    for hours, noises in DRIFT_WINDOWS:
        rolled = _rolled(blocks, hours, size * step_hours)
        if rolled is not None:
            limit = np.maximum(DRIFT_SPREADS * _network_spread(rolled), noises * noise)
            with np.errstate(invalid="ignore"):
                ratio = np.fmax(ratio, np.abs(rolled) / limit)
    return np.repeat(ratio, size, axis=0)[: residual.shape[0]]


def scale_ratio(residual: Array, rows: int, step_hours: float) -> Array:
    """Return the same ratio for the logarithm of wind speed, from departures of twelve-hour means.

    A unit slip (knots, km/h) raises wind speeds; a worn anemometer lowers them slowly and is common, so that only a
    large loss counts.
    """
    size = rows_of_block(step_hours)
    ratio = np.zeros(residual.shape, np.float32)
    for hours in SCALE_WINDOWS:
        rolled = _rolled(residual, hours, size * step_hours)
        if rolled is not None:
            scale = np.maximum(_network_spread(rolled), SCALE_FLOOR)
            with np.errstate(invalid="ignore"):
                ratio = np.fmax(ratio, rolled / (SCALE_SPREADS * scale))
                ratio = np.fmax(ratio, -rolled / (LOSS_SPREADS * scale))
    return np.repeat(ratio, size, axis=0)[:rows]


def exchanged(residual: Array, ratio: Array, step_hours: float) -> Array:
    """Return where the pressures of two stations depart by equal and opposite amounts, far beyond the limit.

    Two records under each other's name differ by the weight of the air between their altitudes, one up, one down.
    """
    size = rows_of_block(step_hours)
    blocks = medians(_in_blocks(residual, size))
    far = _in_blocks(ratio, size).max(axis=0, initial=0.0, where=np.isfinite(_in_blocks(ratio, size))) > _FAR
    paired = np.zeros(blocks.shape, bool)
    for row in np.flatnonzero(far.sum(axis=1) > 1):
        stations = np.flatnonzero(far[row] & np.isfinite(blocks[row]))
        value = blocks[row, stations]
        alike = np.abs(value[:, None] + value) < _ALIKE * np.abs(value)
        paired[row, stations] = alike.any(axis=1)
    return np.repeat(paired, size, axis=0)[: residual.shape[0]]


def rows_of_block(step_hours: float) -> int:
    """Return the number of rows in twelve hours."""
    return max(1, round(_BLOCK_HOURS / step_hours))


def _in_blocks(values: Array, size: int) -> Array:
    """Reshape ``[time, station]`` to ``[row of block, block, station]``, the last block filled up with NaN."""
    absent = -values.shape[0] % size
    padded = np.concatenate([values, np.full((absent, values.shape[1]), np.nan, values.dtype)])
    return padded.reshape(-1, size, values.shape[1]).swapaxes(0, 1)


def block_means(values: Array, step_hours: float) -> Array:
    """Return means of twelve hours, NaN left out; NaN where less than half of the values are present."""
    table = _in_blocks(values, rows_of_block(step_hours))
    there = np.isfinite(table)
    count = there.sum(axis=0)
    total = np.where(there, table, 0.0).sum(axis=0)
    return np.where(2 * count >= table.shape[0], total / np.maximum(count, 1), np.nan).astype(np.float32)


def _rolled(blocks: Array, hours: float, block_hours: float) -> Array | None:
    width = max(3, round(hours / block_hours) // 2 * 2 + 1)
    return rolling_median(blocks, width) if blocks.shape[0] >= 2 * width else None


def _network_spread(rolled: Array) -> Array:
    """Return the spread of each station, between one and two times the network's median.

    A sensor that drifts must not widen its own limit.
    """
    station = SIGMA * medians(np.abs(rolled))
    network = float(np.nanmedian(station)) if np.isfinite(station).any() else 0.0
    return np.clip(np.where(np.isfinite(station), station, network), network, 2 * network)


def fails_persistence(values: Array, row: Variable, step_hours: float, *, is_calm: Array | None = None) -> Array:
    """Return runs of one value, longer than the rounding of the record makes likely.

    Missing values inside a run do not end it. ``is_calm`` marks values that nature repeats (no wind, saturated air).
    """
    failed = np.zeros(values.shape, bool)
    calm = np.zeros(values.shape, bool) if is_calm is None else is_calm
    limit = _repeat_limit(values, calm, row.stuck_hours / step_hours)
    for s in range(values.shape[1]):
        there = np.flatnonzero(np.isfinite(values[:, s]))
        if there.size < 2:
            continue
        series, quiet = values[there, s], calm[there, s]
        starts = np.flatnonzero(np.concatenate([[True], series[1:] != series[:-1]]))
        stops = np.append(starts[1:], series.size)
        length = stops - starts
        # A run is timed by its clock too: three values in three days are not a stuck sensor.
        long = length >= np.where(quiet[starts], limit * _CALM_FACTOR, limit)
        for start, stop in zip(starts[long], stops[long]):
            failed[there[start:stop], s] = True
    return failed


def _repeat_limit(values: Array, calm: Array, least: float) -> float:
    """Return the length of a run that rounding alone does not make: coarse records repeat themselves more often."""
    if values.shape[0] < 3:
        return least
    same = (values[1:] == values[:-1]) & ~calm[1:]
    both = np.isfinite(values[1:]) & np.isfinite(values[:-1]) & ~calm[1:]
    count = both.sum(axis=0)
    share = same.sum(axis=0)[count > 50] / count[count > 50]
    if share.size == 0:
        return least
    chance = float(np.clip(np.median(share), 1e-6, 0.95))
    return float(max(least, np.ceil(np.log(_CHANCE) / np.log(chance)) + 1))
