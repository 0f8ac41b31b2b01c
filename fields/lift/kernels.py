"""Compiled loops of the lift: weighted means over neighbours, with missing values.

Why not scipy.sparse: two sparse products (values and weights) take 4.0 times as long for 2,214 stations on 120 x 250
cells and 3.2 times for 103 stations on 18 x 21 cells, k = 10 (`benchmarks/lift.py`); this is the inner loop of
``field lift``.

The loops see no names and no units: rows of values ``x[row, source]`` with NaN for missing, neighbours
``index[target, k]`` and their ``weight[target, k]``. They release the interpreter lock, so that threads run them
side by side.

`weighted_means` takes `ROWS` rows at a time and turns them, so that what a target needs from one neighbour is one
run of memory instead of `ROWS` gathers, and the turned block stays in the cache while all targets pass over it.
Results are gathered in a tile and turned back. The constants are fixed at compile time because the compiler then
vectorises the innermost loops; loops of eight are unrolled, which is the fastest way to turn an array here.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

__all__ = ["FEWEST_NEIGHBOURS", "ROWS", "weighted_means", "weighted_means_by_row"]

ROWS = 64
FEWEST_NEIGHBOURS = 8
_TILE = 64

# No "nnan": a missing value is recognised by not being equal to itself. No "reassoc": it invites the compiler to
# vectorise over the few neighbours instead of over the many rows.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
    "boundscheck": False,
}
_compiled: Any = numba.njit(**_OPTIONS)
# A real call would pass each array as seven numbers: for 64 rows that costs a third of the work itself.
_inlined: Any = numba.njit(**_OPTIONS, forceinline=True)


@_inlined
def _start(block, total, share, c, index, weight, m, j):
    """Begin target ``m`` with its first four neighbours."""
    zero = total.dtype.type(0.0)
    a, b, d, e = (
        np.uint64(index[m, j]),
        np.uint64(index[m, j + 1]),
        np.uint64(index[m, j + 2]),
        np.uint64(index[m, j + 3]),
    )
    p, q, s, t = weight[m, j], weight[m, j + 1], weight[m, j + 2], weight[m, j + 3]
    for r in range(ROWS):
        x, y, z, w = block[a, r], block[b, r], block[d, r], block[e, r]
        total[c, r] = (
            p * (x if x == x else zero)
            + q * (y if y == y else zero)
            + s * (z if z == z else zero)
            + t * (w if w == w else zero)
        )
        share[c, r] = (
            (p if x == x else zero) + (q if y == y else zero) + (s if z == z else zero) + (t if w == w else zero)
        )


@_inlined
def _add(block, total, share, c, index, weight, m, j):
    """Add two neighbours."""
    zero = total.dtype.type(0.0)
    a, b = np.uint64(index[m, j]), np.uint64(index[m, j + 1])
    p, q = weight[m, j], weight[m, j + 1]
    for r in range(ROWS):
        x, y = block[a, r], block[b, r]
        total[c, r] += p * (x if x == x else zero) + q * (y if y == y else zero)
        share[c, r] += (p if x == x else zero) + (q if y == y else zero)


@_inlined
def _finish(block, total, share, c, index, weight, m, j):
    """Add the last four neighbours and divide by the weight that is there."""
    zero = total.dtype.type(0.0)
    a, b, d, e = (
        np.uint64(index[m, j]),
        np.uint64(index[m, j + 1]),
        np.uint64(index[m, j + 2]),
        np.uint64(index[m, j + 3]),
    )
    p, q, s, t = weight[m, j], weight[m, j + 1], weight[m, j + 2], weight[m, j + 3]
    for r in range(ROWS):
        x, y, z, w = block[a, r], block[b, r], block[d, r], block[e, r]
        whole = total[c, r] + (
            p * (x if x == x else zero)
            + q * (y if y == y else zero)
            + s * (z if z == z else zero)
            + t * (w if w == w else zero)
        )
        part = share[c, r] + (
            (p if x == x else zero) + (q if y == y else zero) + (s if z == z else zero) + (t if w == w else zero)
        )
        total[c, r] = whole / part
        share[c, r] = part


@_inlined
def _turn_in(x, start, count, block):
    """Copy rows ``start`` to ``start + count`` of ``x`` into ``block[source, row]``; spare rows repeat the last."""
    sources = x.shape[1]
    whole = count // 8 * 8
    for first in range(0, whole, 8):
        for s in range(sources):
            for r in range(first, first + 8):
                block[s, r] = x[start + r, s]
    for r in range(whole, ROWS):
        row = start + min(r, count - 1)
        for s in range(sources):
            block[s, r] = x[row, s]


@_inlined
def _turn_out(tile, used, out, start, count, target):
    """Copy ``tile[target, row]`` to where it belongs in ``out[row, target]``."""
    # Places in a slice are plainly not negative: else each store would first look whether to count from the end.
    there = out[start : start + count, target : target + used]
    if count == ROWS:  # nearly always, and a tenth faster with the bound known to the compiler
        for first in range(0, ROWS, 8):
            for c in range(used):
                for r in range(first, first + 8):
                    there[r, c] = tile[c, r]
        return
    for r in range(count):
        for c in range(used):
            there[r, c] = tile[c, r]


@_inlined
def _has_zero(tile, used):
    # As wide as a float32, so that the loop fills vectors evenly.
    has_zero = np.int32(0)
    for c in range(used):
        for r in range(ROWS):
            has_zero |= np.int32(1) if tile[c, r] == 0.0 else np.int32(0)
    return has_zero


@_compiled
def weighted_means(x, index, weight, out, cover):
    """Write the mean of the neighbours with a value, and their share of the weight.

    ``out[r, m] = Σ w x / Σ w`` and ``cover[r, m] = Σ w`` over the neighbours of ``m`` whose value in row ``r`` is not
    NaN; where all are NaN, NaN and 0. An empty ``cover`` is not written. The number of neighbours is even and at
    least `FEWEST_NEIGHBOURS`: the caller pads with weight 0.

    Returns
    -------
    Whether any target has no neighbour with a value.
    """
    rows, sources = x.shape
    targets, k = index.shape
    block = np.empty((sources, ROWS), x.dtype)
    total = np.empty((_TILE, ROWS), x.dtype)
    share = np.empty((_TILE, ROWS), x.dtype)
    empty = np.int32(0)
    for start in range(0, rows, ROWS):
        count = min(ROWS, rows - start)
        _turn_in(x, start, count, block)
        for target in range(0, targets, _TILE):
            used = min(_TILE, targets - target)
            for c in range(used):
                m = target + c
                _start(block, total, share, c, index, weight, m, 0)
                for j in range(4, k - 4, 2):
                    _add(block, total, share, c, index, weight, m, j)
                _finish(block, total, share, c, index, weight, m, k - 4)
            _turn_out(total, used, out, start, count, target)
            if cover.size:
                _turn_out(share, used, cover, start, count, target)
            empty |= _has_zero(share, used)
    return empty != 0


@_compiled
def weighted_means_by_row(x, index, weight, out, cover):
    """Do the same as `weighted_means` row by row: for a few rows, and for any number of neighbours."""
    rows = x.shape[0]
    targets, k = index.shape
    zeros = 0
    for r in range(rows):
        for m in range(targets):
            total = x.dtype.type(0.0)
            share = x.dtype.type(0.0)
            for j in range(k):
                value = x[r, index[m, j]]
                if value == value:
                    total += weight[m, j] * value
                    share += weight[m, j]
            out[r, m] = total / share
            if cover.size:
                cover[r, m] = share
            zeros += share == 0.0
    return zeros > 0
