"""Windows of a small made-up network for the neural baselines, and the same learner again and again."""

from __future__ import annotations

import importlib.util
from functools import lru_cache

import numpy as np
import pytest
import torch

from fields.windows.series import Stations, StationSeries
from stationpde.baselines import baseline
from stationpde.baselines.per_station import NetworkLearner
from stationpde.config.tree import Config
from stationpde.data.window_source import WindowSource

OWN = ("timefilter", "multipatchformer", "corrformer", "cdpnet", "dgformer", "mastergnn", "weathergft")
PACKAGED = ("itransformer", "timemixer", "timexer", "autoformer", "stemgnn")
WINDOWS = {"16 to 8": (16, 8), "48 to 24": (48, 24)}
STEP = 10800
SILENT = 2

_without_package = pytest.mark.skipif(
    importlib.util.find_spec("neuralforecast") is None,
    reason="neuralforecast is not installed: pip install 'stationpde[baselines]'",
)


def packaged(*names: str, slow: bool = False) -> list[object]:
    """Parameters for tests of models from neuralforecast, whose import alone takes ten seconds."""
    marks = [_without_package, pytest.mark.timeout(600), *([pytest.mark.slow] if slow else [])]
    return [pytest.param(name, marks=marks) for name in names]


@lru_cache(maxsize=4)
def network(count: int = 7, steps: int = 720, seed: int = 0) -> StationSeries:
    """A daily cycle with noise, gaps, and one station that never spoke."""
    rng = np.random.default_rng(seed)
    hours = np.arange(steps)[:, None, None] * STEP / 3600
    phase = rng.uniform(0, 2, (1, count, 5))
    values = np.sin(2 * np.pi * hours / 24 + phase) + 0.3 * rng.normal(size=(steps, count, 5))
    values = values * [2.0, 2.0, 300.0, 4.0, 0.1] + [1.0, 0.0, 1e5, 285.0, 0.6]
    values[rng.random(values.shape) < 0.05] = np.nan
    if count > SILENT:
        values[:, SILENT] = np.nan
    places = rng.random((3, count))
    stations = Stations(tuple(f"S{i}" for i in range(count)), 44 + 3 * places[0], 5 + 4 * places[1], 900 * places[2])
    return StationSeries(np.arange(steps) * STEP, values.astype(np.float32), stations, STEP)


def config(window: str = "16 to 8", *overrides: str) -> Config:
    history, horizon = WINDOWS[window]
    shape = [f"data.history={history}", f"data.horizon={horizon}", "data.step=3h", "grid.height=6", "grid.width=9"]
    return Config.preset("tiny").with_overrides([*shape, *overrides])


def source(window: str = "16 to 8", count: int = 7) -> WindowSource:
    return WindowSource.of(network(count), config(window))


def made(name: str, window: str = "16 to 8", seed: int = 0, count: int = 7, **switches: object) -> NetworkLearner:
    """A new learner, weights from ``seed``; one of several stages is in its last."""
    given = source(window, count)
    torch.manual_seed(seed)
    learner = baseline(name).make(config(window), given, **switches)
    if name == "cdpnet":
        learner.to_last_stage()
    return learner


def on_the_equator(*lon: float) -> Stations:
    """Stations whose distances are those of their longitudes."""
    count = len(lon)
    return Stations(tuple(map(str, range(count))), np.zeros(count), np.array(lon), np.arange(count) * 100.0)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    """The same normal numbers again and again."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
