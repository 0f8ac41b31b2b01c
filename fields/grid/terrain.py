"""Altitude of grid cells and places from a digital elevation model.

Without a model, `fields.lift.station_altitude` interpolates the altitude of the cells from the stations. A model is
read from npz (``lat``, ``lon``, ``elev_m``), NetCDF, zarr or, with the extra ``[dem]``, GeoTIFF. Rows may run either
way and longitudes may count from 0 or from -180. A cell gets the mean over its area where the model is finer than the
grid, and a bilinear value where it is coarser; a place gets the bilinear value.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fields.errors import DataError, printable
from fields.grid.geometry import unwrap_longitude
from fields.grid.gridspec import GridSpec

__all__ = ["Elevation"]

logger = logging.getLogger(__name__)

Array = NDArray[np.float64]

# A little beyond the deepest trench and the highest summit: values outside are not in metres.
_LOWEST, _HIGHEST = -11_500.0, 9_000.0


@dataclass(frozen=True, slots=True, eq=False)
class Elevation:
    """A regular elevation model.

    Parameters
    ----------
    lat, lon : increasing, degrees
    metres : elevation above the sea ``[lat, lon]``
    name : what messages call it
    """

    lat: Array
    lon: Array
    metres: Array
    name: str = "elevation model"

    def __post_init__(self) -> None:
        if self.metres.shape != (self.lat.size, self.lon.size) or min(self.metres.shape) < 2:
            raise DataError(
                f"{self.name} has elevations {self.metres.shape} on {self.lat.size} latitudes and {self.lon.size} "
                "longitudes; at least 2 x 2 that fit are needed",
                code="SPDE-D080",
            )
        for axis, places in (("latitude", self.lat), ("longitude", self.lon)):
            steps = np.diff(places)
            if not (steps > 0).all() or steps.max() > 1.01 * steps.min():
                raise DataError(f"{self.name} is not on an even grid along {axis}", code="SPDE-D080", do="regrid it")
        low, high = float(self.metres.min()), float(self.metres.max())
        if not (low >= _LOWEST and high <= _HIGHEST):
            raise DataError(
                f"{self.name} reaches from {low:.0f} to {high:.0f}; elevations in metres lie in {_LOWEST:.0f} to "
                f"{_HIGHEST:.0f}",
                code="SPDE-D081",
                do="convert it to metres and mark what is missing",
            )

    @classmethod
    def of(cls, lat: ArrayLike, lon: ArrayLike, metres: ArrayLike, name: str = "elevation model") -> Elevation:
        """Build a model from arrays in any order.

        Rows and columns are sorted, missing elevations become sea level, and a model around the globe is closed at
        the antimeridian.
        """
        lat, lon = np.asarray(lat, dtype=np.float64), np.asarray(lon, dtype=np.float64)
        height = np.asarray(metres, dtype=np.float64)
        if not np.isfinite(height).any():
            raise DataError(f"{name} holds no elevation at all", code="SPDE-D080", do="give another file")
        height = np.where(np.isfinite(height), height, 0.0).reshape(height.shape[-2:])
        if lat.ndim != 1 or lon.ndim != 1 or height.shape != (lat.size, lon.size):
            raise DataError(f"{name} needs lat [y], lon [x] and elevations [y, x]", code="SPDE-D080")
        rows, columns = np.argsort(lat), np.argsort(lon)
        lat, lon, height = lat[rows], lon[columns], height[np.ix_(rows, columns)]
        if lon.size > 1 and lon[-1] - lon[0] + (lon[1] - lon[0]) > 359.999:
            lon = np.concatenate([lon[-1:] - 360.0, lon, lon[:1] + 360.0])
            height = np.concatenate([height[:, -1:], height, height[:, :1]], axis=1)
        return cls(lat, lon, height, name)

    @classmethod
    def open(cls, path: str | Path) -> Elevation:
        """Read a model from a file or a zarr store."""
        from fields.grid.terrain_files import read_elevation

        return cls.of(*read_elevation(Path(path)), name=printable(Path(path).name))

    def at(self, lat: ArrayLike, lon: ArrayLike) -> Array:
        """Interpolate the elevation [m] of places [degrees] bilinearly; beyond the border it is that of the border."""
        row = np.interp(np.asarray(lat, dtype=np.float64), self.lat, np.arange(self.lat.size))
        column = np.interp(self._aligned(lon), self.lon, np.arange(self.lon.size))
        i = np.minimum(row.astype(np.int64), self.lat.size - 2)
        j = np.minimum(column.astype(np.int64), self.lon.size - 2)
        up, right = row - i, column - j
        south = self.metres[i, j] * (1.0 - right) + self.metres[i, j + 1] * right
        north = self.metres[i + 1, j] * (1.0 - right) + self.metres[i + 1, j + 1] * right
        return south * (1.0 - up) + north * up

    def on(self, grid: GridSpec) -> Array:
        """Compute the elevation of the cells of a grid ``[y, x]``, metres.

        Raises
        ------
        DataError
            If most of the grid lies beyond the model.
        """
        inside = self.covers(*grid.cells())
        if inside.mean() < 0.5:
            raise DataError(
                f"{self.name} covers latitudes {self.lat[0]:.2f} to {self.lat[-1]:.2f} and longitudes "
                f"{self.lon[0]:.2f} to {self.lon[-1]:.2f}, which is {inside.mean():.0%} of the grid "
                f"({grid.south:.2f} to {grid.north:.2f}, {grid.west:.2f} to {grid.east:.2f})",
                code="SPDE-D082",
                do="give an elevation model of this region",
            )
        if not inside.all():
            logger.warning(
                "%d of %d cells lie beyond %s; they take the elevation of its border",
                int((~inside).sum()), inside.size, self.name,
            )  # fmt: skip
        cell = (grid.lat[1] - grid.lat[0], grid.lon[1] - grid.lon[0])
        pixel = (self.lat[1] - self.lat[0], self.lon[1] - self.lon[0])
        if cell[0] < pixel[0] or cell[1] < pixel[1]:
            lat, lon = grid.cells()
            return self.at(lat, lon).reshape(grid.shape)
        return self._means(_edges(grid.lat), self._aligned_run(_edges(grid.lon)))

    def covers(self, lat: ArrayLike, lon: ArrayLike) -> NDArray[np.bool_]:
        """Return whether places [degrees] lie within the model, half a step beyond its outermost points included."""
        slack = (self.lat[1] - self.lat[0]) / 2.0, (self.lon[1] - self.lon[0]) / 2.0
        lat, lon = np.asarray(lat, dtype=np.float64), self._aligned(lon)
        rows = (lat >= self.lat[0] - slack[0]) & (lat <= self.lat[-1] + slack[0])
        return rows & (lon >= self.lon[0] - slack[1]) & (lon <= self.lon[-1] + slack[1])

    def _aligned(self, lon: ArrayLike) -> Array:
        return unwrap_longitude(lon, float(self.lon[0] + self.lon[-1]) / 2.0)

    def _aligned_run(self, lon: Array) -> Array:
        """Shift increasing longitudes into the model's range, all by the same angle."""
        middle = float(lon[0] + lon[-1]) / 2.0
        return lon + (float(self._aligned(middle)) - middle)

    def _means(self, lat: Array, lon: Array) -> Array:
        """Average over boxes between edges, by differences of the double integral of the model's pixels."""
        rows, columns = _edges(self.lat), _edges(self.lon)
        integral = np.zeros((rows.size, columns.size))
        integral[1:, 1:] = np.cumsum(np.cumsum(self.metres, axis=0), axis=1)
        lat, lon = np.clip(lat, rows[0], rows[-1]), np.clip(lon, columns[0], columns[-1])
        row = np.interp(lat, rows, np.arange(rows.size))
        column = np.interp(lon, columns, np.arange(columns.size))
        along = _between(_between(integral, row).T, column).T
        total = np.diff(np.diff(along, axis=0), axis=1)
        area = np.diff(row)[:, None] * np.diff(column)[None, :]
        middle = self.at(*(part.ravel() for part in np.meshgrid(_middles(lat), _middles(lon), indexing="ij")))
        # Boxes wholly beyond the border have no area: they get the border's value.
        means = np.where(area > 1e-9, total / np.maximum(area, 1e-9), middle.reshape(area.shape))
        # Clip the round-off of differences of large sums, so that a flat sea stays flat.
        return np.clip(means, self.metres.min(), self.metres.max())


def _edges(centres: Array) -> Array:
    inner = _middles(centres)
    return np.concatenate([[2 * centres[0] - inner[0]], inner, [2 * centres[-1] - inner[-1]]])


def _middles(places: Array) -> Array:
    return (places[1:] + places[:-1]) / 2.0


def _between(table: Array, position: Array) -> Array:
    """Interpolate the rows of a table linearly at fractional positions."""
    low = np.minimum(position.astype(np.int64), len(table) - 2)
    part = (position - low)[:, None]
    return table[low] * (1.0 - part) + table[low + 1] * part
