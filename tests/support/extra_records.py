"""A small network that also reports gust, rain and radiation, which follow its weather, and a run trained on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fields.windows import StationSeries
from small_network import STEP, places, small_config, weather
from stationpde.config.tree import Config
from stationpde.physics.conditions import cos_zenith
from stationpde.runs.loading import LoadedRun, load_run
from stationpde.training.session import train

NAMES = ("gust", "precip", "radiation")


def extra_series(stations: int = 8, steps: int = 400) -> StationSeries:
    """Return a record whose gusts follow the wind, whose rain follows humidity, and whose radiation dry air and sun."""
    series = weather(places(stations), steps, gaps=0.0)
    rng = np.random.default_rng(5)
    u, v, _, _, rh = (series.values[..., c] for c in range(5))
    gust = 1.6 * np.hypot(u, v) + 0.5 * rng.random(u.shape)
    rain = np.where(rh > 0.7, 20.0 * (rh - 0.7), 0.0)
    lat, lon = (torch.as_tensor(np.deg2rad(x)) for x in (series.stations.lat, series.stations.lon))
    times = [torch.as_tensor(series.time - 60 * minutes) for minutes in (0, 30, 60)]
    heights = [cos_zenith(time, lat, lon).clamp(min=0.0) for time in times]
    sun = 1361.0 * torch.stack(heights).mean(dim=0).numpy()
    values = np.stack([gust, rain, sun * np.clip(1.2 - rh, 0.1, 0.9)], axis=-1)
    values[rng.random(values.shape) < 0.03] = np.nan
    extras = StationSeries(series.time, values, series.stations, STEP, variables=NAMES)
    return replace(series, extras=extras, fingerprint="")


def extra_config() -> Config:
    return small_config(
        "default", (f"data.extra={list(NAMES)}", "train.max_steps=1", "train.batch=2", "train.validate_windows=2")
    )


def extra_run(folder: Path, series: StationSeries) -> LoadedRun:
    train(extra_config(), series, folder)
    return load_run(folder)
