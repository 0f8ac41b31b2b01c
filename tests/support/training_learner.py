"""A learner that costs a millisecond a step: a linear map of the history with dropout, on a small made-up record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.windows.series import Stations, StationSeries
from fields.windows.torch_data import Batch
from stationpde.config.tree import Config
from stationpde.data.window_source import WindowSource
from stationpde.model.learner import Reducer
from stationpde.training.optimiser import decayed_groups

STATIONS, HISTORY, HORIZON = 5, 6, 3


def small_series(steps: int = 200, seed: int = 0) -> StationSeries:
    """Waves with noise and gaps, hourly."""
    rng = np.random.default_rng(seed)
    hours = np.arange(steps)[:, None, None]
    level = np.array([2.0, -1.0, 1.0e5, 285.0, 0.6])
    size = np.array([3.0, 3.0, 500.0, 6.0, 0.2])
    phase = rng.uniform(0, 6, (1, STATIONS, 5))
    values = level + size * (np.sin(2 * np.pi * hours / 24 + phase) + 0.2 * rng.normal(size=(steps, STATIONS, 5)))
    values[rng.random(values.shape) < 0.05] = np.nan
    values[..., 4] = np.clip(values[..., 4], 0, 1)
    places = rng.uniform(0, 1, (3, STATIONS))
    stations = Stations(tuple("abcde"), 48 + places[0], 2 + places[1], 100 * places[2])
    return StationSeries(np.arange(steps, dtype=np.int64) * 3600, values.astype(np.float32), stations, 3600)


def small_config(*overrides: str) -> Config:
    """Three epochs of 13 steps of 8 windows."""
    shape = [f"data.history={HISTORY}", f"data.horizon={HORIZON}", "data.step=1h", "pde.dt=1800"]
    fast = ["train.batch=8", "train.epochs=3", "train.average=0.9", "train.checkpoint_every=4", "train.lr=0.01"]
    return Config.preset("tiny").with_overrides([*shape, *fast, *overrides])


@dataclass(frozen=True)
class SmallLosses:
    total: Tensor
    error: Tensor


class LinearLearner:
    """Departure from the last value, linear in the normalised history."""

    def __init__(self, series: StationSeries, dropout: float = 0.2) -> None:
        flat = series.values.reshape(-1, 5)
        self.module = nn.Module()
        self.module.register_buffer("mean", torch.tensor(np.nanmean(flat, axis=0)))
        self.module.register_buffer("std", torch.tensor(np.nanstd(flat, axis=0)))
        self.module.net = nn.Sequential(
            nn.Linear(HISTORY * 5, 16), nn.SiLU(), nn.Dropout(dropout), nn.Linear(16, HORIZON * 5)
        )

    def _normal(self, values: Tensor) -> Tensor:
        return (values - self.module.mean) / self.module.std

    def predict(self, batch: Batch) -> Tensor:
        history = torch.nan_to_num(self._normal(batch.history)).transpose(1, 2)
        made = self.module.net(history.flatten(2)).unflatten(2, (HORIZON, 5)).transpose(1, 2)
        return (history[:, :, -1].unsqueeze(1) + made) * self.module.std + self.module.mean

    def losses(self, batch: Batch, reducer: Reducer) -> SmallLosses:
        there = torch.isfinite(batch.future)
        target = torch.where(there, batch.future, torch.zeros_like(batch.future))
        error = torch.where(there, (self.predict(batch) - target) / self.module.std, torch.zeros_like(target)).abs()
        total = reducer.sum(error.sum()) / reducer.sum(there.sum().to(error.dtype))
        return SmallLosses(total, total.detach())

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        return decayed_groups(self.module, weight_decay)

    def describe(self) -> dict[str, Any]:
        return {"parameters": sum(p.numel() for p in self.module.parameters())}


class PoisonedLearner(LinearLearner):
    """Returns NaN for as long as ``poison(step)`` says so; counts its own calls."""

    def __init__(self, series: StationSeries, bad: Any) -> None:
        super().__init__(series)
        self.calls, self.bad = 0, bad

    def losses(self, batch: Batch, reducer: Reducer) -> SmallLosses:
        found = super().losses(batch, reducer)
        self.calls += 1
        if not self.bad(self.calls):
            return found
        broken = found.total + torch.log(-self.module.net[0].weight.abs().sum())
        return SmallLosses(broken, found.error)


def build_linear(config: Config, source: WindowSource) -> LinearLearner:
    return LinearLearner(source.series)
