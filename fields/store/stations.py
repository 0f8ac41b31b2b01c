"""Hold a dataset to what a store of stations holds: places, units, order of times, ids, and values that air can have.

`fields.checks.validate` finds more and reads the whole record; this is what would be computed with in silence.
"""

from __future__ import annotations

import os
import shlex

import numpy as np
import xarray as xr

from fields.errors import DataError, UsageError, locate, printable
from fields.times import to_seconds
from fields.variables import VARIABLES, cf_attributes

__all__ = ["require_plausible", "require_stations", "ways_out"]

# Steps at either end of a record whose values are looked at: the two ends lie in two shards at most.
_STEPS = 24


def ways_out(path: str | os.PathLike[str]) -> str:
    """Return the advice on a store that a program wrote: what lists its faults."""
    return f"stationpde data validate {shlex.quote(str(path))}   lists what is wrong; then write the store again"


def require_stations(ds: xr.Dataset, label: str, *, do: str, kind: str = "stations") -> None:
    """Refuse units, an order of times or ids that no store has, and stations without places.

    Parameters
    ----------
    ds : the dataset to write, or the one of a store
    label : name of the source in messages
    do : advice
    kind : what the store holds; ``fields`` have no stations

    Raises
    ------
    UsageError
        If ``time``, ``station`` or the places of the stations are not there.
    DataError
        If units, times or ids are not those of a store.
    """
    if kind == "stations":
        _require_structure(ds, label)
    for name in map(str, ds.data_vars):
        if name not in VARIABLES:
            continue
        declared, expected = ds[name].attrs.get("units"), cf_attributes(name)["units"]
        if declared is not None and declared not in (expected, VARIABLES[name].unit):
            raise DataError(f"`{name}` is in [{printable(declared)}], a store holds [{expected}]",
                            code="SPDE-D032", where=label or None, do=do)  # fmt: skip
    if "time" in ds.coords and (np.diff(to_seconds(ds["time"].values)) <= 0).any():
        raise DataError("times are not in order, or not each once", code="SPDE-D035", where=label or None, do=do)
    ids = [] if "station" not in ds.coords else list(map(str, ds["station"].values))
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise DataError(f"station {printable(twice)} is there twice", code="SPDE-D033", where=label or None, do=do)


def _require_structure(ds: xr.Dataset, label: str) -> None:
    absent = [name for name in ("time", "station", "lat", "lon", "alt") if name not in ds.coords]
    if not absent and ds["time"].dtype.kind != "M":
        absent = ["time (as datetime64)"]
    if absent:
        raise UsageError(
            f"a store of stations needs the coordinates time, station, lat, lon and alt; absent: {', '.join(absent)}",
            code="SPDE-D030", where=label or None, do="add them to the dataset; an altitude may be NaN",
        )  # fmt: skip


def require_plausible(ds: xr.Dataset, label: str, *, do: str) -> None:
    """Refuse a variable most of whose values are impossible in the unit of a store, such as degC labelled K.

    Parameters
    ----------
    ds : flagged values are NaN; the first and last steps are looked at
    label, do : name of the source in messages, and advice

    Raises
    ------
    DataError
        If more than half of the values lie outside the physical range.
    """
    for name in map(str, ds.data_vars):
        if name not in VARIABLES or "time" not in ds[name].dims:
            continue
        length = ds.sizes["time"]
        steps = np.unique(np.r_[: min(_STEPS, length), max(0, length - _STEPS) : length])
        values = np.asarray(ds[name].isel(time=steps).values)
        values = values[np.isfinite(values)] if values.dtype.kind in "fiu" else values[:0]
        low, high = VARIABLES[name].hard
        if values.size and ((values < low) | (values > high)).mean() > 0.5:
            unit, middle = cf_attributes(name)["units"], float(np.median(values))
            raise DataError(
                f"`{name}` cannot be in [{unit}]: the median is {middle:.6g}, possible are {low:g} to {high:g}",
                code="SPDE-D012", where=locate(label, name), do=do,
            )  # fmt: skip
