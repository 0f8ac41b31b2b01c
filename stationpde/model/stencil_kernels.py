"""Compiled loops of the stencils: a field and the fields of its nine neighbours, borders replicated.

``taps[channel, 3, 3, batch, y, x]`` holds, or receives, the value of the neighbour above, beside and below each cell of
``fields[batch, channel, y, x]``. A border cell is its own neighbour outwards. `gather` and `spread` write every tap,
`scatter` and `total` add the nine up; `scatter` is the transpose of `gather`, and `spread` of `total`. A grid has two
columns at least.

Why not torch: nine sums over shifted slices take three times as long, a strided sum fifteen times, and joining and
folding borders as long again (8 x 5 channels of 18 x 21 cells: 33 microseconds here).
"""

from __future__ import annotations

from typing import Any

import numba

__all__ = ["gather", "scatter", "spread", "total"]

_compiled: Any = numba.njit(nogil=True, cache=True, error_model="numpy", boundscheck=False)
_inlined: Any = numba.njit(nogil=True, cache=True, error_model="numpy", boundscheck=False, forceinline=True)


@_inlined
def _neighbour(row, step, rows):
    """Return the row one ``step`` (0 back, 1 the same, 2 on) from ``row``, within the grid."""
    return min(max(row + step - 1, 0), rows - 1)


@_compiled
def gather(fields, taps):
    """Write ``taps[c, i, j, b, y, x] = fields[b, c, y + i - 1, x + j - 1]``."""
    batch, channels, rows, columns = fields.shape
    last = columns - 1
    for c in range(channels):
        for i in range(3):
            left, middle, right = taps[c, i, 0], taps[c, i, 1], taps[c, i, 2]
            for b in range(batch):
                for y in range(rows):
                    source = fields[b, c, _neighbour(y, i, rows)]
                    to_left, to_middle, to_right = left[b, y], middle[b, y], right[b, y]
                    to_left[0] = source[0]
                    for x in range(last):
                        to_left[x + 1] = source[x]
                    for x in range(columns):
                        to_middle[x] = source[x]
                    for x in range(last):
                        to_right[x] = source[x + 1]
                    to_right[last] = source[last]


@_compiled
def scatter(taps, fields):
    """Write ``fields`` as the sum of all taps that `gather` would have filled from each cell."""
    batch, channels, rows, columns = fields.shape
    last = columns - 1
    for b in range(batch):
        for c in range(channels):
            field = fields[b, c]
            field[:] = 0.0
            for y in range(rows):
                for i in range(3):
                    target = field[_neighbour(y, i, rows)]
                    left, middle, right = taps[c, i, 0, b, y], taps[c, i, 1, b, y], taps[c, i, 2, b, y]
                    for x in range(columns):
                        target[x] += middle[x]
                    for x in range(last):
                        target[x] += left[x + 1]
                    for x in range(last):
                        target[x + 1] += right[x]
                    target[0] += left[0]
                    target[last] += right[last]


@_compiled
def total(taps, fields):
    """Write ``fields[b, c, y, x]`` as the sum of ``taps[c, i, j, b, y + i - 1, x + j - 1]`` over the nine."""
    batch, channels, rows, columns = fields.shape
    last = columns - 1
    for b in range(batch):
        for c in range(channels):
            field = fields[b, c]
            field[:] = 0.0
            for y in range(rows):
                target = field[y]
                for i in range(3):
                    row = _neighbour(y, i, rows)
                    left, middle, right = taps[c, i, 0, b, row], taps[c, i, 1, b, row], taps[c, i, 2, b, row]
                    for x in range(1, last):
                        target[x] += left[x - 1] + middle[x] + right[x + 1]
                    target[0] += left[0] + middle[0] + right[1]
                    target[last] += left[last - 1] + middle[last] + right[last]


@_compiled
def spread(fields, taps):
    """Write every tap as the sum of the cells that `total` would have added it to."""
    batch, channels, rows, columns = fields.shape
    last = columns - 1
    for c in range(channels):
        for i in range(3):
            for b in range(batch):
                taps[c, i, :, b] = 0.0
                for y in range(rows):
                    source, row = fields[b, c, y], _neighbour(y, i, rows)
                    left, middle, right = taps[c, i, 0, b, row], taps[c, i, 1, b, row], taps[c, i, 2, b, row]
                    for x in range(columns):
                        middle[x] += source[x]
                    for x in range(last):
                        left[x] += source[x + 1]
                    for x in range(last):
                        right[x + 1] += source[x]
                    left[0] += source[0]
                    right[last] += source[last]
