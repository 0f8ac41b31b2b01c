"""Two short runs of the smallest model, and what they forecast from, as a dataset, a store and a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from fields import store
from fields.variables import STATE_VARIABLES, cf_attributes
from small_network import STEP, small_config, small_series
from stationpde.training.session import train


@dataclass(frozen=True)
class SmallRuns:
    """Run directories that differ in their seed, and a store."""

    first: Path
    second: Path
    store: Path


def dataset(steps: slice = slice(None)) -> xr.Dataset:
    """`small_series` as `fields` lays it out."""
    series = small_series()
    values, places = series.values[steps], series.stations
    found = {
        name: (("time", "station"), values[..., c].astype(np.float32), cf_attributes(name))
        for c, name in enumerate(STATE_VARIABLES)
    }
    coords = {
        "time": series.time[steps].astype("datetime64[s]").astype("datetime64[ns]"),
        "station": list(places.id),
        **{name: ("station", getattr(places, name), cf_attributes(name)) for name in ("lat", "lon", "alt")},
    }
    return xr.Dataset(found, coords)


def table(steps: slice, path: Path) -> Path:
    """The same as a tidy CSV in the units that tables have."""
    ds = dataset(steps)
    lines = ["station,time,lat,lon,alt,u,v,p,t,rh"]
    for t, moment in enumerate(ds["time"].values):
        for s, name in enumerate(ds["station"].values):
            place = ",".join(f"{float(ds[c][s]):.4f}" for c in ("lat", "lon", "alt"))
            u, v, p, temperature, rh = (float(ds[c][t, s]) for c in STATE_VARIABLES)
            cells = (u, v, p / 100, temperature - 273.15, 100 * rh)
            told = ",".join("" if np.isnan(cell) else f"{cell:.3f}" for cell in cells)
            lines.append(f"{name},{str(moment)[:19]},{place},{told}")
    path.write_text("\n".join(lines) + "\n")
    return path


def small_runs(folder: Path, variant: str = "default") -> SmallRuns:
    """Two seeds, two steps each."""
    config = small_config(variant, ("train.max_steps=2", "train.validate_windows=2", "train.batch=2"))
    made = []
    for seed in (0, 1):
        run = folder / f"seed-{seed}"
        train(config.with_overrides([f"train.seed={seed}"]), small_series(), run)
        made.append(run)
    return SmallRuns(*made, store.write_store(dataset(), folder / "obs.zarr"))


LAST = int(small_series().time[-1])
HOURS = STEP // 3600
