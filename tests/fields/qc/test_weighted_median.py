"""Weighted medians against a plain loop, value by value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fields.qc.weighted_median import _BLOCK, NEIGHBOURS, weighted_medians


def plain(x, index, slope, weight, fewest):
    out = np.full(x.shape, np.nan, np.float32)
    for r, s in np.ndindex(*x.shape):
        pairs = [(slope[s, j] * x[r, index[s, j]], weight[s, j]) for j in range(NEIGHBOURS) if index[s, j] >= 0]
        pairs = [pair for pair in pairs if not np.isnan(pair[0])]
        total = np.float32(0.0)
        for _, share in pairs:
            total += share
        if len(pairs) >= fewest:
            below = np.float32(0.0)
            for value, share in sorted(pairs, key=lambda pair: pair[0]):
                out[r, s] = value
                below += share
                if below >= total / 2:
                    break
    return out


def network(seed: int, rows: int, stations: int):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, stations)).astype(np.float32)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[rng.random(x.shape) < 0.2] = 0.0  # ties, and both signs of zero
    index = rng.integers(-1, stations, (stations, NEIGHBOURS))
    slope, weight = (rng.uniform(0.1, 2.0, index.shape).astype(np.float32) for _ in range(2))
    return x, index, slope, weight


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 9))
def test_a_weighted_median_is_that_of_a_loop_to_the_last_bit(seed, rows, stations):
    x, index, slope, weight = network(seed, rows, stations)
    np.testing.assert_array_equal(weighted_medians(x, index, slope, weight, 3), plain(x, index, slope, weight, 3))


def test_blocks_leave_no_seam():
    x, index, slope, weight = network(1, 12, 7)
    long = np.tile(x, (_BLOCK // 7 // 12 + 2, 1))
    once = weighted_medians(x, index, slope, weight, 3)
    np.testing.assert_array_equal(weighted_medians(long, index, slope, weight, 3), np.tile(once, (len(long) // 12, 1)))


def test_another_number_of_neighbours_is_refused():
    x, index, slope, weight = network(1, 2, 3)
    with pytest.raises(ValueError, match="expected 8 neighbours a station, got 5"):
        weighted_medians(x, index[:, :5], slope[:, :5], weight[:, :5], 3)
