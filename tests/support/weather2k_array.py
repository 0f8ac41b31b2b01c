"""A synthetic network as an array in the layout of Weather2K."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fields.synthetic import network as synthetic


def write_weather2k(path: Path, channels: int = 13, days: int = 10) -> Path:
    """Write a synthetic network in the layout of Weather2K: hourly with 23 channels, 3-hourly with 13."""
    ds = synthetic.make_network(6, days, seed=1, faults=False).isel(time=slice(None, None, 3 if channels == 13 else 1))
    u, v = ds["u"].values, ds["v"].values
    array = np.full((6, channels, ds.sizes["time"]), np.nan, np.float32)
    array[:, :3] = np.stack([ds["lat"], ds["lon"], ds["alt"]], axis=1)[:, :, None]
    places = (3, 4, 7, 9, 10) if channels == 13 else (3, 4, 8, 15, 16)
    values = (
        ds["p"].values / 100, ds["t"].values - 273.15, ds["rh"].values * 100,
        np.rad2deg(np.arctan2(-u, -v)) % 360, np.hypot(u, v),
    )  # fmt: skip
    for place, value in zip(places, values):
        array[:, place] = value.T
    np.save(path, array)
    return path
