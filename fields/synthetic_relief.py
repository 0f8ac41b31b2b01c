"""The ground of the synthetic network: relief, shore and slopes, and the places of its stations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .constants import earth_radius
from .terrain import Elevation

__all__ = ["Site", "choose_sites", "relief"]

Array = np.ndarray[Any, Any]

_SMOOTH_KM = 15.0
_LOWEST = 2.0  # m above the sea


@dataclass(frozen=True, slots=True)
class Site:
    """Where stations stand, and what the ground does to the weather there.

    ``inland`` runs from 0 at sea to 1 far from it; ``shore`` points from sea to land, ``slope`` uphill, both at most 1.
    """

    lat: Array
    lon: Array
    alt: Array
    inland: Array
    shore_x: Array
    shore_y: Array
    slope_x: Array
    slope_y: Array


def relief() -> Elevation:
    """The terrain around 49 N 124 W that ships with matplotlib; an invented island where it does not."""
    from matplotlib.cbook import get_sample_data

    try:
        sample: Any = get_sample_data("topobathy.npz")
        with sample as found:
            lat, lon, metres = (np.asarray(found[name], np.float64) for name in ("latitude", "longitude", "topo"))
    except (OSError, KeyError, ValueError):
        return _invented()
    # It is on Mercator's latitudes, which an elevation model is not; longitudes are given from 0 to 360 there.
    even = np.linspace(lat[0], lat[-1], lat.size)
    regridded = np.stack([np.interp(even, lat, column) for column in metres.T], axis=1)
    return Elevation.of(even, lon - 360.0, regridded, "topobathy of matplotlib")


def _invented() -> Elevation:
    lat, lon = np.linspace(48.0, 50.0, 91), np.linspace(-126.0, -122.0, 120)
    y, x = np.meshgrid(np.linspace(-1, 1, 91), np.linspace(-1, 1, 120), indexing="ij")
    ridge = 1900 * np.exp(-(((x - 0.6) / 0.35) ** 2)) * (1 + 0.35 * np.sin(7 * y) * np.cos(5 * x))
    island = 1300 * np.exp(-(((x + 0.45 + 0.4 * y) / 0.18) ** 2) - (y / 0.8) ** 2)
    return Elevation.of(lat, lon, ridge + island - 250, "invented relief")


def choose_sites(ground: Elevation, count: int, rng: np.random.Generator) -> Site:
    """Places on land, apart from one another, most of them low as real stations are."""
    from scipy.ndimage import gaussian_filter

    dy = float(np.deg2rad(np.mean(np.diff(ground.lat))) * earth_radius)
    dx = float(np.deg2rad(np.mean(np.diff(ground.lon))) * earth_radius * np.cos(np.deg2rad(ground.lat.mean())))
    blur = (_SMOOTH_KM * 1e3 / dy, _SMOOTH_KM * 1e3 / dx)
    land = (ground.metres > 0).astype(float)
    inland = gaussian_filter(land, blur)
    shore_y, shore_x = np.gradient(inland, dy, dx)
    slope_y, slope_x = np.gradient(gaussian_filter(np.maximum(ground.metres, 0.0), 1.0), dy, dx)
    rows, columns = _places(ground, count, rng, dy, dx)
    # Inside its cell a station stands a little off the middle.
    lat = ground.lat[rows] + rng.uniform(-0.3, 0.3, count) * np.mean(np.diff(ground.lat))
    lon = ground.lon[columns] + rng.uniform(-0.3, 0.3, count) * np.mean(np.diff(ground.lon))
    scale = np.hypot(shore_x, shore_y).max() or 1.0
    steep = np.maximum(np.hypot(slope_x, slope_y)[rows, columns], 0.05)
    return Site(
        lat=lat, lon=lon, alt=np.round(np.maximum(ground.at(lat, lon), _LOWEST), 1), inland=inland[rows, columns],
        shore_x=shore_x[rows, columns] / scale, shore_y=shore_y[rows, columns] / scale,
        slope_x=slope_x[rows, columns] / steep, slope_y=slope_y[rows, columns] / steep,
    )  # fmt: skip


def _places(ground: Elevation, count: int, rng: np.random.Generator, dy: float, dx: float) -> tuple[Array, Array]:
    """Cells of land, one after the other, each the best of a few draws: far from the others, and not too high."""
    rows, columns = np.nonzero(ground.metres > _LOWEST)
    taken: list[int] = [int(rng.integers(rows.size))]
    while len(taken) < count:
        drawn = rng.integers(rows.size, size=12)
        apart = np.hypot((rows[drawn, None] - rows[taken]) * dy, (columns[drawn, None] - columns[taken]) * dx).min(
            axis=1
        )
        height = ground.metres[rows[drawn], columns[drawn]]
        taken.append(int(drawn[np.argmax(apart / (1.0 + height / 1500.0))]))
    chosen = np.asarray(taken[:count])
    return rows[chosen], columns[chosen]
