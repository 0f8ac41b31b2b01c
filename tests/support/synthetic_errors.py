"""A record whose forecaster knows the mean of every value and errs by noise of a known size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fields.windows.series import StationSeries
from fields.windows.windows import Split, Windows, WindowSpec
from small_network import places
from stationpde.data.window_source import WindowSource

STEP = 21600
# Noise of u, v [m/s], p [Pa], t [K], rh [1].
NOISE = np.array([1.5, 1.5, 200.0, 2.0, 0.05])


@dataclass(frozen=True)
class KnownMean:
    """Forecasts the mean of every value; `source` is the record of mean and noise."""

    mean: np.ndarray
    source: WindowSource

    def predict(self, batch):
        history, leads = batch.history.shape[1], batch.future.shape[1]
        rows = batch.index.numpy()[:, None] + history + np.arange(leads)
        return torch.from_numpy(self.mean[rows])


def known_mean(steps: int = 480, stations: int = 10, seed: int = 0, loud: float = 1.0) -> KnownMean:
    """Make a record of some days; at the first station the noise is ``loud`` times that of the others."""
    rng = np.random.default_rng(seed)
    where = places(stations)
    time = 1_672_531_200 + STEP * np.arange(steps, dtype=np.int64)
    wave = np.cumsum(rng.normal(size=(steps, 1, 5)), axis=0) / 6.0
    mean = np.array([3.0, 1.0, 95000.0, 285.0, 0.6]) + np.array([1.0, 1.0, 300.0, 3.0, 0.03]) * np.tanh(wave)
    mean = np.broadcast_to(mean, (steps, stations, 5)).copy()
    size = np.ones(stations)
    size[0] = loud
    values = mean + NOISE * size[:, None] * rng.normal(size=mean.shape)
    series = StationSeries(time, values.astype(np.float32), where, STEP)
    split = Split.of(steps, (0.4, 0.3, 0.3))
    windows = Windows.of(series, WindowSpec(8, 3), split, require=("train", "val"))
    return KnownMean(mean, WindowSource(series, windows))
