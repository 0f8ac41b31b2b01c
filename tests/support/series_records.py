"""Small records for the tests of windows, statistics and batches."""

from __future__ import annotations

import numpy as np

from fields.places import Places
from fields.windows.series import StationSeries

START = int(np.datetime64("2023-01-01T00", "s").astype(np.int64))
LEVEL = np.array([1.0, -1.0, 95_000.0, 288.0, 0.7])
SPREAD = np.array([2.0, 2.0, 400.0, 4.0, 0.1])


def make_record(
    steps: int = 400, stations: int = 4, *, step: int = 10_800, start: int = START, missing: float = 0.0, seed: int = 0
) -> StationSeries:
    """Make a record of noise around each station's level, of the size of real data, with gaps at random."""
    rng = np.random.default_rng(seed)
    values = LEVEL + SPREAD * (rng.standard_normal((1, stations, 5)) + 0.5 * rng.standard_normal((steps, stations, 5)))
    values[rng.random(values.shape) < missing] = np.nan
    coordinates = rng.uniform(-30, -20, stations), rng.uniform(-55, -45, stations), rng.uniform(0, 900, stations)
    network = Places(tuple(f"S{i}" for i in range(stations)), *coordinates)
    return StationSeries(start + step * np.arange(steps), values, network, step)
