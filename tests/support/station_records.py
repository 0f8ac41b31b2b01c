"""A small, plausible network for the tests of `fields`."""

from __future__ import annotations

import numpy as np
import xarray as xr

from fields.variables import cf_attributes


def make_stations(steps: int = 72, stations: int = 12, *, seed: int = 0, step_hours: float = 1.0) -> xr.Dataset:
    """Make a plausible network over relief: hydrostatic pressure, a daily cycle, weather shared by all stations."""
    rng = np.random.default_rng(seed)
    lat, lon = rng.uniform(44.0, 49.0, stations), rng.uniform(0.0, 7.0, stations)
    alt = rng.uniform(0.0, 1500.0, stations)
    hours = np.arange(steps) * step_hours
    start = np.datetime64("2021-06-01T00", "ns")
    times = start + (hours * 3600e9).astype("timedelta64[ns]")
    solar = np.cos(2 * np.pi * (hours[:, None] + lon / 15 - 14) / 24)
    synoptic = np.sin(2 * np.pi * hours / 120)[:, None] + 0.5 * np.sin(2 * np.pi * hours / 77 + 1)[:, None]

    def noise(size: float) -> np.ndarray:
        return size * rng.standard_normal((steps, stations))

    t = 291.0 - 0.0065 * alt + 5 * solar + 3 * synoptic + noise(0.3)
    p = 101500.0 * (1 - 0.0065 * alt / 288.15) ** 5.2559 * (1 + 0.004 * synoptic) + noise(15)
    rh = np.clip(0.65 - 0.18 * solar + 0.05 * synoptic + noise(0.02), 0.05, 0.99)
    u = 3 * synoptic + 1.5 + noise(0.8)
    v = 2 * np.cos(2 * np.pi * hours / 90)[:, None] + noise(0.8)
    values = {"u": u, "v": v, "p": p, "t": t, "rh": rh}
    return xr.Dataset(
        {n: (("time", "station"), x.astype(np.float32), cf_attributes(n)) for n, x in values.items()},
        coords={
            "time": times,
            "station": [f"S{i:03d}" for i in range(stations)],
            "lat": ("station", lat, cf_attributes("lat")),
            "lon": ("station", lon, cf_attributes("lon")),
            "alt": ("station", alt, cf_attributes("alt")),
        },
        attrs={
            "source": "obs.csv",
            "reader": "table",
            "step_seconds": int(step_hours * 3600),
            "time_zone": "UTC",
            "pressure_kind": "station",
            "history": "made for a test",
        },
    )
