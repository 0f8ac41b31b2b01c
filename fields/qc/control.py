"""Run quality control: the outcome of every test is kept as a flag, nothing is deleted.

The tests run from coarse to fine, and a value that fails one does not take part in the next: range; persistence and
step on each station's own record; then comparison with the neighbours, of single values (buddy) and of departures that
last (drift). A station whose pressure and another variable depart from its neighbours together is not where its
coordinates say; neither are two stations whose pressures depart from theirs by equal and opposite amounts (exchanged
records). All that they report in that time is flagged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from fields.qc.buddy import Neighbours, estimate, find_neighbours, residual
from fields.qc.flags import Flag, flag_attributes
from fields.qc.quality_tests import (
    block_means,
    drift_ratio,
    exchanged,
    fails_buddy,
    fails_leap,
    fails_persistence,
    fails_range,
    fails_step,
    scale_ratio,
)
from fields.qc.robust import by_phase, medians, phases_of_day
from fields.times import with_utc_times
from fields.variables import STATE_VARIABLES, VARIABLES

__all__ = ["check_extra", "check_quality"]

Array = np.ndarray[Any, Any]

_SATURATED = 0.93  # relative humidity above which many sensors stay for a whole foggy night
_CALM = 0.25  # m/s, below the start of most anemometers
_WIND_OFFSET = 0.3  # m/s, added to mean speeds before the logarithm is taken
# Share of the limit at which a second variable confirms that a station stands somewhere else.
_CONFIRMS = 0.6
_SHORTEST = 24  # steps; shorter records have no spread to judge by


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the tests need besides values: neighbours, steps in a day (1: no daily cycle), hours of a step."""

    neighbours: Neighbours
    phases: int
    hours: float


def check_quality(ds: xr.Dataset) -> xr.Dataset:
    """Test a dataset that fits in memory.

    Parameters
    ----------
    ds : the in-memory form, SI, on a regular step. Of flags that it has already, those of the source (`Flag.CODE`)
        and of the clock (`Flag.TIME`) stay; the tests are done anew

    Returns
    -------
    ``<name>_flag`` (uint8, see `Flag`) for every state variable of ``ds``.
    """
    ds = with_utc_times(ds)
    step = float(ds.attrs.get("step_seconds") or _step_of(ds))
    setting = _Setting(
        find_neighbours(*(np.asarray(ds[c].values, np.float64) for c in ("lat", "lon", "alt"))),
        phases_of_day(step, ds.sizes["time"]),
        step / 3600,
    )
    names = [n for n in STATE_VARIABLES if n in ds]
    flags = {name: _inherited_flags(ds, name) for name in names}
    clean = {name: np.array(ds[name].transpose("time", "station").values, np.float32) for name in names}
    quiet = _naturally_constant(clean)
    for name in names:
        _range_tests(name, clean[name], flags[name])
    for name in names:
        _single_station_tests(name, clean, flags[name], quiet.get(name), setting)
    if "u" in clean and "v" in clean:
        # Both components come from one instrument: where one sticks or leaps, the other is flagged too.
        shared = (flags["u"] | flags["v"]) & np.uint8(int(Flag.PERSISTENCE | Flag.STEP))
        for name in ("u", "v"):
            flags[name] |= np.where(np.isfinite(ds[name].values), shared, np.uint8(0))
    if ds.sizes["station"] > 3 and ds.sizes["time"] >= _SHORTEST:
        _neighbour_tests(clean, flags, setting)
    dims = ("time", "station")
    return xr.Dataset({f"{name}_flag": (dims, flags[name], flag_attributes(name)) for name in names}, coords=ds.coords)


def check_extra(name: str, values: Array, step_hours: float) -> Array:
    """Test a variable beside the state, ``[time, station]`` in SI: range, stuck sensor, leaps; return its flags.

    Neighbours tell little of a shower or a gust, and are not asked.
    """
    row, clean = VARIABLES[name], np.array(values, np.float32)
    flags = np.zeros(clean.shape, np.uint8)
    _mark(flags, clean, fails_range(clean, row), Flag.RANGE)
    with np.errstate(invalid="ignore"):
        calm = np.zeros(clean.shape, bool)
        for value in row.calm:
            calm |= np.abs(clean - value) <= row.noise / 2
    if np.isfinite(row.stuck_hours):
        # Weeks without rain, and every night without sun, are no dead sensor.
        still = fails_persistence(clean, row, step_hours, is_calm=calm) & ~calm
        _mark(flags, clean, still, Flag.PERSISTENCE)
    if np.isfinite(row.step):
        _mark(flags, clean, fails_leap(clean, row, step_hours), Flag.STEP)
    return flags


def _step_of(ds: xr.Dataset) -> float:
    times = ds["time"].values
    return float(np.median(np.diff(times)) / np.timedelta64(1, "s")) if times.size > 1 else 3600.0


def _inherited_flags(ds: xr.Dataset, name: str) -> Array:
    """Return the flags that source and clock set before; the tests themselves are done anew."""
    flag = f"{name}_flag"
    if flag in ds:
        inherited = np.uint8(int(Flag.TIME | Flag.CODE))
        return np.asarray(ds[flag].transpose("time", "station").values, np.uint8) & inherited
    return np.zeros((ds.sizes["time"], ds.sizes["station"]), np.uint8)


def _naturally_constant(clean: dict[str, Array]) -> dict[str, Array]:
    """Mark calm air and saturated humidity: values that nature repeats for hours."""
    quiet = {}
    with np.errstate(invalid="ignore"):
        if "u" in clean and "v" in clean:
            quiet["u"] = quiet["v"] = np.hypot(clean["u"], clean["v"]) < _CALM
        if "rh" in clean:
            quiet["rh"] = clean["rh"] >= _SATURATED
    return quiet


def _mark(flags: Array, clean: Array, failed: Array, flag: Flag) -> None:
    """Flag the present values that failed, and set them to NaN in ``clean`` for the tests that follow."""
    failed = failed & np.isfinite(clean)
    flags[failed] |= np.uint8(int(flag))
    clean[failed] = np.nan


def _range_tests(name: str, clean: Array, flags: Array) -> None:
    """Flag what is not finite, physically impossible, or above saturation (doubtful, kept)."""
    row = VARIABLES[name]
    infinite = np.isinf(clean)
    flags[infinite] |= np.uint8(int(Flag.CODE))
    clean[infinite] = np.nan
    _mark(flags, clean, fails_range(clean, row), Flag.RANGE)
    if name == "rh":
        with np.errstate(invalid="ignore"):
            flags[clean > 1.0] |= np.uint8(int(Flag.DOUBTFUL))


def _single_station_tests(
    name: str, clean: dict[str, Array], flags: Array, quiet: Array | None, setting: _Setting
) -> None:
    """Apply the tests that need the record of the station alone: persistence and step."""
    row, values = VARIABLES[name], clean[name]
    stuck = fails_persistence(values, row, setting.hours, is_calm=quiet)
    spike = fails_step(values, row, setting.phases, setting.hours)
    _mark(flags, values, stuck, Flag.PERSISTENCE)
    _mark(flags, values, spike, Flag.STEP)


def _neighbour_tests(clean: dict[str, Array], flags: dict[str, Array], setting: _Setting) -> None:
    """Apply the tests against the neighbours: buddy, drift, and stations that are somewhere else than listed."""
    ratios, pressure = {}, None
    for name, values in clean.items():
        unexplained = residual(values, setting.neighbours, setting.phases)
        _mark(flags[name], values, fails_buddy(unexplained, VARIABLES[name], setting.phases), Flag.BUDDY)
        ratios[name] = drift_ratio(unexplained, VARIABLES[name].noise, setting.hours)
        if name == "p":
            pressure = unexplained
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
    """Return the drift ratio of wind speed: the logarithm of twelve-hour means against the neighbours' estimate."""
    table = by_phase(speed, setting.phases)
    there = np.isfinite(table)
    hourly = np.where(there, table, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    hourly = np.broadcast_to(hourly, table.shape).reshape(-1, speed.shape[1])[: speed.shape[0]]
    expected = block_means(np.where(np.isfinite(speed), hourly, np.nan), setting.hours)
    level = np.log((block_means(speed, setting.hours) + _WIND_OFFSET) / (expected + _WIND_OFFSET))
    level = level - medians(level)
    unexplained = level - estimate(level, setting.neighbours)
    return scale_ratio(unexplained - medians(unexplained), speed.shape[0], setting.hours)


# Former name of `check_quality`, which the documentation of earlier versions shows.
check = check_quality
