"""A model of Weather2K's shape without its data: 1,866 made-up stations over China, 3-hourly, 16 steps to 8, K = 6."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from fields import Places
from fields.windows import Split, StationSeries
from stationpde.config import Config
from stationpde.model import StateStatistics, StationPDEModel

__all__ = ["STATIONS", "national_config", "national_model", "national_window"]

STATIONS, STEPS, STEP = 1866, 160, 10800


@cache
def _record() -> StationSeries:
    draw = np.random.default_rng(0)
    lat, lon = draw.uniform(20.0, 50.0, STATIONS), draw.uniform(80.0, 130.0, STATIONS)
    stations = Places(tuple(f"{i:05d}" for i in range(STATIONS)), lat, lon, 3000.0 * draw.random(STATIONS) ** 2)
    time = 1_672_531_200 + STEP * np.arange(STEPS, dtype=np.int64)
    angle = 0.1 * (lon + 0.3 * lat) - 2 * np.pi * np.arange(STEPS)[:, None] / 40
    day = np.cos(2 * np.pi * np.arange(STEPS) / 8)[:, None]
    pressure = (101300.0 - 500.0 * np.sin(angle)) * np.exp(-stations.alt / 8300.0)
    t = 288.0 - 0.0065 * stations.alt + 4.0 * np.cos(angle) + 4.0 * day
    columns = [4.0 + 3.0 * np.cos(angle), 3.0 * np.sin(angle), pressure, t, 0.6 + 0.1 * np.sin(angle) - 0.1 * day]
    values = np.stack(np.broadcast_arrays(*columns), axis=-1)
    values = values + draw.normal(size=values.shape) * [0.5, 0.5, 30.0, 0.5, 0.02]
    values[draw.random(values.shape) < 0.03] = np.nan
    return StationSeries(time, values.astype(np.float32), stations, STEP)


def national_config(*overrides: str) -> Config:
    """Return the preset ``weather2k`` with overrides."""
    return Config.preset("weather2k").with_overrides(list(overrides))


def national_model(config: Config) -> StationPDEModel:
    """Build a model with weights from one seed, moved away from the zeros that its last layers start with."""
    series = _record()
    torch.manual_seed(0)
    model = StationPDEModel.build(config, StateStatistics.of(series, Split.of(len(series)), config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def national_window(config: Config, batch: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Return history, future and issue times of a batch of windows."""
    series, data = _record(), config.data
    values = torch.as_tensor(series.values)
    starts = range(8, 8 + batch)
    history = torch.stack([values[s : s + data.history] for s in starts])
    future = torch.stack([values[s + data.history : s + data.history + data.horizon] for s in starts])
    issue = torch.tensor([int(series.time[s + data.history - 1]) for s in starts])
    return history, future, issue
