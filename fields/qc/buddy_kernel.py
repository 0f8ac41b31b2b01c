"""Compiled loop of the buddy check; imported on first use, because numba takes a second to import."""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["weighted_medians"]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def weighted_medians(x, index, slope, weight, fewest, out):
    """Write the weighted median of ``slope * x`` over the neighbours that are there; NaN if they are too few.

    ``x[row, station]``, ``index[station, k]`` (-1: none), ``slope`` and ``weight`` alike, ``out[row, station]``.
    """
    rows, stations = x.shape
    k = index.shape[1]
    value = np.empty(k, np.float32)
    share = np.empty(k, np.float32)
    for r in range(rows):
        for s in range(stations):
            n = 0
            total = np.float32(0.0)
            for j in range(k):
                if index[s, j] < 0:
                    continue
                v = slope[s, j] * x[r, index[s, j]]
                if v == v:
                    w = weight[s, j]
                    total += w
                    i = n
                    while i > 0 and value[i - 1] > v:
                        value[i] = value[i - 1]
                        share[i] = share[i - 1]
                        i -= 1
                    value[i] = v
                    share[i] = w
                    n += 1
            if n < fewest:
                out[r, s] = np.nan
                continue
            half = total / 2
            below = np.float32(0.0)
            i = 0
            while i < n - 1 and below + share[i] < half:
                below += share[i]
                i += 1
            out[r, s] = value[i]
