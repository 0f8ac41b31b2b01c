"""Mends for station lists: positions that should not change, and ids that stand twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from .errors import DataError, ProblemReport, counted, locate

__all__ = ["drop_silent_stations", "merge_duplicates", "settle_position"]

Array = np.ndarray[Any, Any]

# A list that is revised by less is the same station measured better.
_MOVED_DEGREES = 0.01
_MOVED_METRES = 30.0


def settle_position(name: str, values: Array, stations: Any, source: str = "") -> tuple[Array, ProblemReport]:
    """One position for each station out of a position for each time.

    Parameters
    ----------
    name : ``lat``, ``lon`` [degrees] or ``alt`` [m]
    values : ``[time, station]``, missing where nothing was reported

    Returns
    -------
    The median of each station, and a report with an error for stations that move by more than 0.01 degrees or 30 m.
    """
    report = ProblemReport()
    table = np.asarray(values, np.float64)
    some = np.isfinite(table).any(axis=0)
    middle, reach = np.full(table.shape[1], np.nan), np.zeros(table.shape[1])
    if some.any():
        middle[some] = np.nanmedian(table[:, some], axis=0)
        reach[some] = np.nanmax(table[:, some], axis=0) - np.nanmin(table[:, some], axis=0)
    limit = _MOVED_METRES if name == "alt" else _MOVED_DEGREES
    moved = reach > limit
    if moved.any():
        unit = "m" if name == "alt" else "degrees"
        report.error(
            "SPDE-D023", f"{int(moved.sum())} stations change their {name} in time",
            where=locate(source, name, stations=np.asarray(stations)[moved], out_of=len(stations)),
            why=f"by up to {reach.max():.6g} {unit}, allowed {limit:g}",
            do="give a station a new id wherever it moves",
        )  # fmt: skip
    return middle, report


def merge_duplicates(ds: xr.Dataset) -> tuple[xr.Dataset, ProblemReport]:
    """Merge stations of the same id that stand at the same place and do not contradict each other.

    Raises
    ------
    DataError
        Listing the ids that cannot be merged.
    """
    ids = np.asarray([str(s) for s in ds["station"].values])
    names, counts = np.unique(ids, return_counts=True)
    report = ProblemReport()
    stubborn = []
    for name in names[counts > 1]:
        places = np.flatnonzero(ids == name)
        if not _agree(ds, places):
            stubborn.append(name)
    if stubborn:
        raise DataError(
            f"{len(stubborn)} station ids stand for different stations or contradicting records",
            code="SPDE-D033",
            where=locate(ds.attrs.get("source", ""), "station", stations=stubborn),
            do="rename them in the source",
        )
    if not np.any(counts > 1):
        return ds, report
    first = np.sort(np.unique(ids, return_index=True)[1])
    merged = ds.isel(station=first).load()
    for name in names[counts > 1]:
        places = np.flatnonzero(ids == name)
        target = int(np.flatnonzero(ids[first] == name)[0])
        for variable in ds.data_vars:
            if ds[variable].dims == ("time", "station") and ds[variable].dtype.kind == "f":
                joined = ds[variable].isel(station=places).values
                known = np.isfinite(joined)
                merged[variable][:, target] = np.where(
                    known.any(axis=1), joined[np.arange(joined.shape[0]), known.argmax(axis=1)], np.nan
                )
    report.notice("SPDE-D033", f"{int((counts > 1).sum())} duplicate station ids are merged",
                  where=locate(ds.attrs.get("source", ""), "station", stations=names[counts > 1]))  # fmt: skip
    return merged, report


def _agree(ds: xr.Dataset, places: Array) -> bool:
    for name, limit in (("lat", _MOVED_DEGREES), ("lon", _MOVED_DEGREES), ("alt", _MOVED_METRES)):
        if np.ptp(np.asarray(ds[name].values, float)[places]) > limit:
            return False
    for variable in ds.data_vars:
        if ds[variable].dims == ("time", "station") and ds[variable].dtype.kind == "f":
            block = np.asarray(ds[variable].isel(station=places).values)
            known = np.isfinite(block)
            chosen = block[np.arange(block.shape[0]), known.argmax(axis=1)][:, None]
            if np.any(known & (block != chosen)):
                return False
    return True


def drop_silent_stations(ds: xr.Dataset, names: tuple[str, ...]) -> tuple[xr.Dataset, ProblemReport]:
    """Leave out stations that never report any of ``names``."""
    report = ProblemReport()
    alive = np.zeros(ds.sizes["station"], bool)
    for name in names:
        if name in ds:
            alive |= np.asarray(ds[name].notnull().any("time").values)
    if alive.all():
        return ds, report
    gone = ds["station"].values[~alive]
    report.notice("SPDE-D020", f"{counted(gone.size, 'station')} left out: nothing reported",
                  where=locate(ds.attrs.get("source", ""), stations=gone, out_of=int(alive.size)))  # fmt: skip
    return ds.isel(station=np.flatnonzero(alive)), report
