"""Quality control: every test's outcome kept as a flag, nothing deleted.

The tests run from the crude to the fine, and what fails one does not take part in the next: range, step,
persistence, then the neighbours: single values (buddy), and departures that last (drift). A station whose pressure
and another variable leave its neighbours together stands somewhere else than it says, and so do two stations whose
pressures leave theirs by equal and opposite amounts; all that they report in that time is flagged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from .buddy import Neighbours, estimate, find_neighbours, residual
from .errors import ProblemReport, UsageError, counted, locate
from .quality_flags import MASKING, Flag, flag_attributes
from .quality_tests import (
    block_means,
    drift_ratio,
    exchanged,
    fails_buddy,
    fails_persistence,
    fails_range,
    fails_step,
    scale_ratio,
)
from .robust import by_phase, medians, phases_of_day
from .variables import STATE_VARIABLES, VARIABLES

__all__ = ["apply", "check", "check_blocks", "count_flags", "keep_stations"]

Array = np.ndarray[Any, Any]

_SATURATED = 0.93  # relative humidity above which many sensors stay for a whole foggy night
_CALM = 0.25  # m/s, below the start of most anemometers
_WIND_OFFSET = 0.3  # m/s, added to mean speeds before the logarithm is taken
# Share of the limit at which a second variable confirms that a station stands somewhere else.
_CONFIRMS = 0.6
_SHORTEST = 24  # steps; shorter records have no spread to judge by
_BLOCK = 8760
_OVERLAP = 400


@dataclass(frozen=True, slots=True)
class _Setting:
    neighbours: Neighbours
    phases: int
    hours: float


def check(ds: xr.Dataset) -> xr.Dataset:
    """Test a dataset that fits in memory.

    Parameters
    ----------
    ds : the in-memory form, SI, on a regular step; flags that it has already are kept

    Returns
    -------
    ``<name>_flag`` (uint8, see `Flag`) for every state variable of ``ds``.
    """
    step = float(ds.attrs.get("step_seconds") or _step_of(ds))
    setting = _Setting(
        find_neighbours(*(np.asarray(ds[c].values, np.float64) for c in ("lat", "lon", "alt"))),
        phases_of_day(step, ds.sizes["time"]),
        step / 3600,
    )
    names = [n for n in STATE_VARIABLES if n in ds]
    flags = {name: _earlier(ds, name) for name in names}
    clean = {name: np.array(ds[name].transpose("time", "station").values, np.float32) for name in names}
    calm = _calm(clean)
    for name in names:
        _crude(name, clean[name], flags[name])
    for name in names:
        _alone(name, clean, flags[name], calm.get(name), setting)
    if "u" in clean and "v" in clean:
        # One instrument: where one component sticks or leaps, the other is no better.
        shared = (flags["u"] | flags["v"]) & np.uint8(int(Flag.PERSISTENCE | Flag.STEP))
        for name in ("u", "v"):
            flags[name] |= np.where(np.isfinite(ds[name].values), shared, np.uint8(0))
    if ds.sizes["station"] > 3 and ds.sizes["time"] >= _SHORTEST:
        _together(clean, flags, setting)
    dims = ("time", "station")
    return xr.Dataset({f"{name}_flag": (dims, flags[name], flag_attributes(name)) for name in names}, coords=ds.coords)


def check_blocks(ds: xr.Dataset, rows: int = _BLOCK) -> Iterator[tuple[slice, xr.Dataset]]:
    """Test a record of any length in bounded memory: blocks along time with enough on either side to judge by."""
    count = ds.sizes["time"]
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        low, high = max(0, start - _OVERLAP), min(count, stop + _OVERLAP)
        if stop == count:  # a short last block borrows from the one before
            low = max(0, min(low, stop - rows))
        flags = check(ds.isel(time=slice(low, high)).load())
        yield slice(start, stop), flags.isel(time=slice(start - low, stop - low))


def apply(ds: xr.Dataset, flags: xr.Dataset | None = None) -> xr.Dataset:
    """The dataset with its flags beside it and failed values as NaN."""
    joined = ds if flags is None else ds.assign({n: flags[n] for n in flags.data_vars})
    made = joined.copy()
    for name in ds.data_vars:
        flag = f"{name}_flag"
        if flag in joined:
            good = (joined[flag] & np.uint8(int(MASKING))) == 0
            made[name] = joined[name].where(good).assign_attrs(joined[name].attrs)
    return made


def count_flags(ds: xr.Dataset) -> dict[str, dict[str, int]]:
    """How many values failed which test, for every flag in the dataset."""
    counts = {}
    for name in [str(n) for n in ds.data_vars if str(n).endswith("_flag")]:
        table = np.bincount(np.asarray(ds[name].values).ravel(), minlength=256)
        each = {flag: int(table[np.arange(256) & int(flag) > 0].sum()) for flag in Flag}
        counts[name.removesuffix("_flag")] = {str(flag.name).lower(): n for flag, n in each.items()}
    return counts


def keep_stations(
    ds: xr.Dataset, *, most_missing: float, training: slice, names: tuple[str, ...] = STATE_VARIABLES
) -> tuple[xr.Dataset, ProblemReport]:
    """Leave out stations with too many gaps in the training period; what comes later is not looked at.

    Parameters
    ----------
    most_missing : largest share of missing values, of any of ``names``, that a station may have
    training : the period, a slice of times as for ``ds.sel(time=…)``
    names : variables that count; those not in ``ds`` or missing everywhere are passed over
    """
    if not 0 <= most_missing <= 1:
        raise UsageError(f"the largest share of missing values is {most_missing}, expected 0 to 1")
    part = ds.sel(time=training)
    if part.sizes["time"] == 0:
        raise UsageError(f"the training period {training.start} to {training.stop} holds no times")
    worst = np.zeros(ds.sizes["station"])
    for name in names:
        if name in part:
            missing = np.asarray(part[name].isnull().mean("time").values)
            if missing.min() < 1:
                worst = np.maximum(worst, missing)
    keep = worst <= most_missing
    report = ProblemReport()
    if not keep.all():
        gone = ds["station"].values[~keep]
        report.notice(
            "SPDE-D041", f"{counted(gone.size, 'station')} left out: too many gaps in the training period",
            where=locate(ds.attrs.get("source", ""), stations=gone, out_of=int(keep.size)),
            why=f"up to {worst[~keep].max():.0%} missing, allowed {most_missing:.0%}",
        )  # fmt: skip
    return ds.isel(station=np.flatnonzero(keep)), report


def _step_of(ds: xr.Dataset) -> float:
    times = ds["time"].values
    return float(np.median(np.diff(times)) / np.timedelta64(1, "s")) if times.size > 1 else 3600.0


def _earlier(ds: xr.Dataset, name: str) -> Array:
    flag = f"{name}_flag"
    if flag in ds:
        # What the source and the clock said stays; the tests are done anew.
        kept = int(Flag.TIME | Flag.CODE)
        return np.asarray(ds[flag].transpose("time", "station").values, np.uint8) & np.uint8(kept)
    return np.zeros((ds.sizes["time"], ds.sizes["station"]), np.uint8)


def _calm(clean: dict[str, Array]) -> dict[str, Array]:
    found = {}
    with np.errstate(invalid="ignore"):
        if "u" in clean and "v" in clean:
            found["u"] = found["v"] = np.hypot(clean["u"], clean["v"]) < _CALM
        if "rh" in clean:
            found["rh"] = clean["rh"] >= _SATURATED
    return found


def _mark(flags: Array, clean: Array, failed: Array, flag: Flag) -> None:
    """Flag what failed and was there, and take it out of the tests that follow."""
    failed = failed & np.isfinite(clean)
    flags[failed] |= np.uint8(int(flag))
    clean[failed] = np.nan


def _crude(name: str, clean: Array, flags: Array) -> None:
    row = VARIABLES[name]
    infinite = np.isinf(clean)
    flags[infinite] |= np.uint8(int(Flag.CODE))
    clean[infinite] = np.nan
    _mark(flags, clean, fails_range(clean, row), Flag.RANGE)
    if name == "rh":
        with np.errstate(invalid="ignore"):
            flags[clean > 1.0] |= np.uint8(int(Flag.DOUBTFUL))


def _alone(name: str, clean: dict[str, Array], flags: Array, calm: Array | None, setting: _Setting) -> None:
    """Tests that need the station's own record only."""
    row, values = VARIABLES[name], clean[name]
    stuck = fails_persistence(values, row, setting.hours, is_calm=calm)
    spike = fails_step(values, row, setting.phases, setting.hours)
    _mark(flags, values, stuck, Flag.PERSISTENCE)
    _mark(flags, values, spike, Flag.STEP)


def _together(clean: dict[str, Array], flags: dict[str, Array], setting: _Setting) -> None:
    """Tests against the neighbours."""
    ratios, pressure = {}, None
    for name, values in clean.items():
        left = residual(values, setting.neighbours, setting.phases)
        _mark(flags[name], values, fails_buddy(left, VARIABLES[name], setting.phases), Flag.BUDDY)
        ratios[name] = drift_ratio(left, VARIABLES[name].noise, setting.hours)
        if name == "p":
            pressure = left
    if "u" in clean and "v" in clean:
        ratios["ff"] = _speed_ratio(np.hypot(clean["u"], clean["v"]), setting)
        for name in ("u", "v"):
            _mark(flags[name], clean[name], ratios["ff"] > 1, Flag.DRIFT)
    for name, values in clean.items():
        _mark(flags[name], values, ratios[name] > 1, Flag.DRIFT)
    others = [ratio for name, ratio in ratios.items() if name != "p"]
    if pressure is not None and others:
        moved = (ratios["p"] > 1) & (np.max(others, axis=0) > _CONFIRMS)
        moved |= exchanged(pressure, ratios["p"], setting.hours)
        for name, values in clean.items():
            _mark(flags[name], values, moved, Flag.DRIFT)


def _speed_ratio(speed: Array, setting: _Setting) -> Array:
    """How far the level of wind speed, in means of twelve hours, leaves what the neighbours make of it."""
    table = by_phase(speed, setting.phases)
    there = np.isfinite(table)
    usual = np.where(there, table, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    usual = np.broadcast_to(usual, table.shape).reshape(-1, speed.shape[1])[: speed.shape[0]]
    expected = block_means(np.where(np.isfinite(speed), usual, np.nan), setting.hours)
    level = np.log((block_means(speed, setting.hours) + _WIND_OFFSET) / (expected + _WIND_OFFSET))
    level = level - medians(level)
    left = level - estimate(level, setting.neighbours)
    return scale_ratio(left - medians(left), speed.shape[0], setting.hours)
