"""Humidity that the wind carries: a field now, the wind, and the field six hours later (the paper's Fig. 1 a).

The third map is the first one carried by the wind alone: every cell takes the value from where its air came from,
and is empty where that lies outside. If the wind carries humidity, the pattern observed later resembles the third map
more than the first; both correlations are shown.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields.errors import DataError
from fields.grid import GridSpec
from fields.lift import LiftSettings, StationLift, scattered_times, station_altitude
from fields.times import format_time, utc_seconds
from fields.variables import to_display
from fields.windows import Stations, with_state_variables
from stationpde.plots.maps import Frame, draw_frame
from stationpde.plots.style import INK, sheet

__all__ = ["Redistribution", "draw_redistribution", "redistribution"]

Array = np.ndarray[Any, Any]

_ROWS, _PIXELS = 32, 200
# Number of times that are searched for a clear case, and its limits: wind [m/s], reporting stations, cells whose air
# comes from inside the map, and a pattern that is recognised.
_MOMENTS, _LEAST_WIND, _LEAST_SHARE, _LEAST_INSIDE, _RECOGNISED = 400, 2.0, 0.7, 0.5, 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Redistribution:
    """Relative humidity [%] ``[y, x]`` before and after, as carried by the wind [m/s] ``[2, y, x]`` at the start.

    ``persisting`` and ``transported`` are the correlations of ``after`` with ``before`` and with ``carried``, over the
    cells whose air came from inside the map; ``carried`` is NaN in the others.
    """

    grid: GridSpec
    stations: Stations
    time: int
    hours: float
    before: Array
    after: Array
    carried: Array
    wind: Array
    persisting: float
    transported: float


def redistribution(ds: xr.Dataset, at: int | None = None, hours: float = 6.0) -> Redistribution:
    """Compute the case of one time, or search for the clearest one.

    Parameters
    ----------
    ds : observations in the in-memory form
    at : time of the first field [s since 1970]; None searches the time at which the wind explains most
    hours : hours between the two fields

    Raises
    ------
    DataError
        If no two times so far apart have humidity and wind.
    """
    ds = with_state_variables(ds, frozenset({"p"} if "p" not in ds else ()))
    seconds = utc_seconds(ds["time"])
    first, later = _pairs(seconds, at, hours)
    stations = Stations.from_dataset(ds)
    grid = GridSpec.around(stations.lat, stations.lon, height=_ROWS)
    places = (stations.lat, stations.lon, stations.alt)
    lift = StationLift.between(
        places, (*grid.cells(), 0.0), LiftSettings("idw", min(10, len(stations))), metric=grid.metric
    )
    u, v, before, after = (
        lift.weights.apply(ds[name].transpose("time", "station").values[rows].astype(np.float64), coverage=False)[0]
        .reshape(-1, *grid.shape)
        for name, rows in (("u", first), ("v", first), ("rh", first), ("rh", later))
    )  # fmt: skip
    report = np.isfinite(ds["rh"].transpose("time", "station").values)
    share = np.minimum(report[first].mean(axis=1), report[later].mean(axis=1))
    carried = np.stack([_carried(b, x, y, grid, 3600.0 * hours) for b, x, y in zip(before, u, v)])
    inside = np.isfinite(carried)
    persisting, transported = (
        np.array([_correlation(a[i], x[i]) for a, x, i in zip(after, other, inside)]) for other in (before, carried)
    )
    windy = np.hypot(u, v).mean(axis=(1, 2)) >= _LEAST_WIND
    clear = windy & (share >= _LEAST_SHARE) & (inside.mean(axis=(1, 2)) >= _LEAST_INSIDE)
    gain = np.where(np.isfinite(transported), transported - persisting, -4.0)
    # Clear cases first, then those in which the pattern is recognised, then by how much the wind explains.
    order = 8.0 * clear + 4.0 * (transported >= _RECOGNISED) + gain
    best = int(np.argmax(order))
    percent = [to_display("rh", x[best]) for x in (before, after, carried)]
    return Redistribution(
        grid, stations, int(seconds[first[best]]), hours, percent[0], percent[1], percent[2],
        np.stack([u[best], v[best]]), float(persisting[best]), float(transported[best]),
    )  # fmt: skip


def _pairs(seconds: Array, at: int | None, hours: float) -> tuple[Array, Array]:
    """Return the rows of times, and the rows ``hours`` later."""
    step = float(np.median(np.diff(seconds))) if seconds.size > 1 else 3600.0
    if at is None:
        candidates = np.arange(seconds.size)[scattered_times(seconds.size, step, _MOMENTS)]
    else:
        candidates = np.flatnonzero(seconds == at)
    later = seconds[candidates] + round(3600 * hours)
    rows = np.searchsorted(seconds, later)
    there = rows < seconds.size
    there[there] = seconds[rows[there]] == later[there]
    if not there.any():
        raise DataError(
            f"no two moments are {hours:g} h apart"
            + ("" if at is None else f", the first at {format_time(at, 'minute')}"),
            code="SPDE-R011", do="choose another --at, or --hours that the record's step divides",
        )  # fmt: skip
    return candidates[there], rows[there]


def _carried(field: Array, u: Array, v: Array, grid: GridSpec, seconds: float) -> Array:
    """Carry a field by a steady wind: each cell takes the value at its upwind origin, traced in two half steps.

    NaN where the air comes from beyond the border.
    """
    from scipy.ndimage import map_coordinates

    rows, columns = np.meshgrid(*(np.arange(n, dtype=float) for n in grid.shape), indexing="ij")
    y, x = rows, columns
    for _ in range(2):
        back_y = map_coordinates(v, [y, x], order=1, mode="nearest") * (0.5 * seconds / grid.dy)
        back_x = map_coordinates(u, [y, x], order=1, mode="nearest") * (0.5 * seconds / grid.dx[:, None])
        y, x = y - back_y, x - back_x
    inside = (y >= 0) & (y <= grid.height - 1) & (x >= 0) & (x <= grid.width - 1)
    return np.where(inside, map_coordinates(field, [y, x], order=1, mode="nearest"), np.nan)


def _correlation(one: Array, other: Array) -> float:
    if one.size < 3:
        return float("nan")
    a, b = one - one.mean(), other - other.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else float("nan")


def draw_redistribution(case: Redistribution, output: str | os.PathLike[str], dem: str | Path | None = None) -> Path:
    """Draw three maps on one scale: the start with its wind, later as observed, and the start carried by the wind."""
    frame = Frame(_relief(case, dem))
    width, height = frame.size(4.2)
    values = np.concatenate([x.ravel() for x in (case.before, case.after)])
    scale = tuple(float(x) for x in np.nanpercentile(values, [1, 99]))
    panels = (
        (f"A  {format_time(case.time, 'minute')} UTC, and the wind", case.before, case.wind),
        (f"B  observed {case.hours:g} h later", case.after, None),
        ("C  A carried by its wind", case.carried, None),
    )
    with sheet(output, 1, 3, (3 * width + 1.3, height + 0.9)) as (figure, axes):
        for place, (title, field, wind) in zip(axes[0], panels):
            drawn = draw_frame(place, frame, field, "rh", scale, wind=wind)  # type: ignore[arg-type]
            middle = (case.grid.west + case.grid.east) / 2.0
            lon = middle + (case.stations.lon - middle + 180.0) % 360.0 - 180.0
            place.plot(lon, case.stations.lat, "o", ms=2, mfc="white", mec=INK, mew=0.5, zorder=5)
            place.set_title(title, fontsize=9)
        bar = figure.colorbar(drawn, ax=list(axes[0]), shrink=0.9, pad=0.015, aspect=30)
        bar.set_label("relative humidity [%]")
        caption = f"pattern correlation with B: A {case.persisting:.2f}, C {case.transported:.2f}"
        figure.supxlabel(f"{caption}; grey: air from beyond the map", fontsize=8, x=0.01, ha="left")
    return Path(output)


def _relief(case: Redistribution, dem: str | Path | None) -> Any:
    from stationpde.model import Region
    from stationpde.plots.relief import Relief

    stations = case.stations
    altitude = station_altitude(
        stations.lat, stations.lon, stations.alt, case.grid, LiftSettings(k=min(10, len(stations)))
    )
    return Relief.of(Region(case.grid, altitude), dem)
