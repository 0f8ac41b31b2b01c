"""Make the ground of the synthetic network: relief, shore and slopes, and the places of its stations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.constants import earth_radius
from fields.grid import Elevation

__all__ = ["Site", "choose_sites", "make_relief"]

Array = np.ndarray[Any, Any]

_SMOOTH_KM = 15.0
_LOWEST = 2.0  # m above the sea


@dataclass(frozen=True, slots=True)
class Site:
    """Places of stations, and the properties of the ground that shape the weather there.

    A type apart from `fields.places.Places`: it holds the properties of the ground, and stations have no names yet.
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


def make_relief() -> Elevation:
    """Return the terrain around 49 N 124 W that ships with matplotlib, or an invented island if that is absent."""
    from matplotlib.cbook import get_sample_data

    try:
        sample: Any = get_sample_data("topobathy.npz")
        with sample as arrays:
            lat, lon, metres = (np.asarray(arrays[name], np.float64) for name in ("latitude", "longitude", "topo"))
    except (OSError, KeyError, ValueError):
        return _invented()
    # The sample has latitudes of a Mercator map and longitudes from 0 to 360; `Elevation` needs even degrees.
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
    """Choose places on land, apart from one another, most of them low as real stations are."""
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
    """Choose cells of land, each the best of a few draws: far from the cells chosen before, and not too high."""
    rows, columns = np.nonzero(ground.metres > _LOWEST)
    sites: list[int] = [int(rng.integers(rows.size))]
    while len(sites) < count:
        drawn = rng.integers(rows.size, size=12)
        apart = np.hypot((rows[drawn, None] - rows[sites]) * dy, (columns[drawn, None] - columns[sites]) * dx).min(
            axis=1
        )
        height = ground.metres[rows[drawn], columns[drawn]]
        sites.append(int(drawn[np.argmax(apart / (1.0 + height / 1500.0))]))
    chosen = np.asarray(sites[:count])
    return rows[chosen], columns[chosen]
