"""Settings of the proving ground: parts of the shared records, cut by place, time, cadence and what is missing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.section import ROOT
from fields.ingest import IngestOptions
from fields.readers import ReadOptions
from stationpde.data import open_observations
from stationpde.evaluation import CAP_SECONDS, BenchmarkPlan

__all__ = ["CELLS", "COMMAND", "Network", "Shape", "every", "nearest", "prepared_record", "record_path", "whole"]

Array = np.ndarray[Any, Any]
Choice = Callable[[Array, Array], Array]

CELLS = ROOT / "benchmarks" / "cells" / "networks"
COMMAND = "python -m benchmarks.other_networks"
_LENGTHS_H = {"w2k-like": 3, "meteonet-like": 1}
# Values of a variable, stations times steps, from which on a learned model has the whole cap; smaller settings have
# less in proportion, but never less than the floor, which a few stations over a few weeks do not use up.
_WHOLE_CAP_VALUES, _LEAST_CAP = 150_000, 120.0
# Zero and unit of each variable of that layout, in SI.
_UNITS = {"u": (0.0, 1.0), "v": (0.0, 1.0), "p": (0.0, 100.0), "t": (273.15, 1.0), "rh": (0.0, 0.01)}
# How the records of the shared data are read: the file, and options beyond those of the layout.
_RECORDS: dict[str, tuple[str, IngestOptions]] = {
    "inmet_south": ("observations.npz", IngestOptions()),
    "us_isd": ("observations.npz", IngestOptions(read=ReadOptions(pressure="sea-level"))),
    "metar_conus": ("observations.npz", IngestOptions()),
    "meteonet_layout": ("NW2014_01_from_RADOME.csv", IngestOptions()),
}


def record_path(name: str) -> Path:
    """Return the path of a record of the shared data."""
    shared = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared"))
    return shared / "data" / name / _RECORDS[name][0]


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a setting at its cadence: stations, steps and days."""

    stations: int
    steps: int
    days: float

    @property
    def values(self) -> int:
        """Stations times steps."""
        return self.stations * self.steps


@dataclass(frozen=True, slots=True)
class Network:
    """A setting: a part of a record, and how forecasts of it are scored.

    Attributes
    ----------
    title : what it is, for tables
    chosen : gives the numbers of its stations from latitudes and longitudes
    first, last : times between which it is cut, both included
    record : name of the folder in the shared data
    protocol : gives the cadence: ``w2k-like`` every 3 h, ``meteonet-like`` hourly
    is_trial : whether choices of the recipe may be made on it: it lies in the training period of the other settings
    missing : share of the values that are taken out, drawn at random
    without : variables that are taken out
    overrides : settings for all models alike
    cap : CPU seconds of a learned model; None follows the rule of `cap_seconds`
    cells : folder of its cells; one of its name by default
    """

    title: str
    chosen: Choice
    first: str
    last: str
    record: str = "inmet_south"
    protocol: str = "w2k-like"
    is_trial: bool = False
    missing: float = 0.0
    without: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    cap: float | None = None
    cells: Path | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the record is taken as it is."""
        return self.chosen is whole and not (self.missing or self.without or self.first)

    def shape(self, record: Path) -> Shape:
        """Count stations and steps from the head of a record in the layout of ``inmet_south``."""
        with np.load(record, allow_pickle=False) as archive:
            lat, lon, time = (archive[name] for name in ("lat", "lon", "time"))
        times = time[self._within(time)]
        hours = (times[-1] - times[0]) / np.timedelta64(1, "h") + 1
        steps = int(hours // _LENGTHS_H[self.protocol])
        return Shape(len(self.chosen(lat, lon)), steps, hours / 24)

    def cap_seconds(self, shape: Shape) -> float:
        """Return the CPU seconds of a learned model: 900 from 150,000 values on, in proportion below, at least 120."""
        if self.cap is not None:
            return self.cap
        return float(round(max(_LEAST_CAP, CAP_SECONDS * min(1.0, shape.values / _WHOLE_CAP_VALUES)), -1))

    def cut(self, record: Path, target: Path) -> Path:
        """Write the part in the layout of ``inmet_south``."""
        with np.load(record, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive}
        rows, times = self.chosen(arrays["lat"], arrays["lon"]), self._within(arrays["time"])
        columns = ~np.isin(arrays["variables"], self.without)
        obs = arrays["obs"][times][:, rows][..., columns]
        if self.missing:
            obs[np.random.default_rng(0).random(obs.shape) < self.missing] = np.nan
        target.parent.mkdir(parents=True, exist_ok=True)
        of_station = {name: arrays[name][rows] for name in ("station_id", "lat", "lon", "alt_m")}
        np.savez(target, obs=obs, variables=arrays["variables"][columns], time=arrays["time"][times], **of_station)
        return target

    def plan(self, name: str, models: tuple[str, ...], out: Path, cells: Path, record: Path) -> BenchmarkPlan:
        """Return the benchmark of the setting; ``record`` is in the layout of ``inmet_south``."""
        folder = out / name
        return BenchmarkPlan(
            store=str(record if self.is_whole else folder / "observations.npz"), protocol=self.protocol,
            models=models, out=folder, cells=self.cells or cells / name, overrides=self.overrides,
            horizons=(24,), cap=self.cap_seconds(self.shape(record)), command=COMMAND,
        )  # fmt: skip

    def reading(self) -> IngestOptions:
        """Return the options by which the part is read."""
        return _RECORDS[self.record][1]

    def _within(self, time: Array) -> Array:
        if not self.first:
            return np.ones(len(time), bool)
        return (time >= np.datetime64(self.first)) & (time <= np.datetime64(self.last))


def prepared_record(name: str, out: Path) -> Path:
    """Return a record in the layout of ``inmet_south``: its own file, or one that is converted into ``out`` once."""
    path = record_path(name)
    if path.suffix == ".npz":
        return path
    target = out / "records" / f"{name}.npz"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_observations(path, quality="gross", need_state=False, command="benchmark") as opened:
            ds = opened.dataset
            values = [(ds[v].to_numpy() - zero) / unit for v, (zero, unit) in _UNITS.items()]
            np.savez(
                target, obs=np.stack(values, axis=-1).astype(np.float32), variables=np.array(list(_UNITS)),
                time=ds.time.to_numpy().astype("datetime64[s]"), station_id=ds.station.to_numpy().astype(str),
                lat=ds.lat.to_numpy(), lon=ds.lon.to_numpy(), alt_m=ds.alt.to_numpy(),
            )  # fmt: skip
    return target


def whole(lat: Array, _lon: Array) -> Array:
    """Select all stations."""
    return np.arange(len(lat))


def every(step: int, first: int = 0) -> Choice:
    """Return a function that selects every ``step``-th station."""
    return lambda lat, _lon: np.arange(first, len(lat), step)


def nearest(count: int, lat: float, lon: float) -> Choice:
    """Return a function that selects the stations nearest to a place, in the order of the record."""

    def chosen(lats: Array, lons: Array) -> Array:
        east = (lons - lon) * np.cos(np.radians(lat))
        return np.sort(np.argsort(np.hypot(lats - lat, east), kind="stable")[:count])

    return chosen
