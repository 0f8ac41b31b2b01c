"""Reading a grid at places: bilinear weights of the four cells around each, as `SparseWeights`.

With the cell centres on the region's border, weights are convex everywhere inside, and a field linear in latitude
and longitude is read exactly. A place outside reads the nearest point of the border and is flagged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fields.detrend import Means, detrended_means
from fields.gridspec import GridSpec
from fields.profiles import Places, Plane
from fields.weights import SparseWeights

__all__ = ["GridReadout", "bilinear_weights"]


def bilinear_weights(grid: GridSpec, lat: ArrayLike, lon: ArrayLike) -> tuple[SparseWeights, NDArray[np.bool_]]:
    """Weights of the cells ``[y * x]`` at places [degrees], and which places lie in the grid."""
    lat, lon = np.atleast_1d(np.asarray(lat, np.float64)), np.atleast_1d(np.asarray(lon, np.float64))
    row, column = grid.position(lat, lon)
    row, column = np.clip(row, 0, grid.height - 1), np.clip(column, 0, grid.width - 1)
    i = np.minimum(row.astype(np.int64), grid.height - 2)
    j = np.minimum(column.astype(np.int64), grid.width - 2)
    up, right = row - i, column - j
    first = i * grid.width + j
    index = np.stack([first, first + 1, first + grid.width, first + grid.width + 1], axis=1)
    weight = np.stack([(1 - up) * (1 - right), (1 - up) * right, up * (1 - right), up * right], axis=1)
    return SparseWeights(index.astype(np.int32), weight, grid.size), grid.contains(lat, lon)


@dataclass(frozen=True, slots=True, eq=False)
class GridReadout:
    """Values of gridded variables at places; the numpy face.

    Pressure follows the hydrostatic law from the cells' altitude to the place's. Temperature and humidity follow the
    vertical slopes of the lift where there are any, and are plainly bilinear otherwise (paper).
    """

    weights: SparseWeights
    cells: Places
    places: Places
    inside: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        grid: GridSpec,
        cell_altitude: ArrayLike,
        places: tuple[ArrayLike, ArrayLike, ArrayLike],
        altitude_range: tuple[float, float] = (-np.inf, np.inf),
    ) -> GridReadout:
        """The readout of a grid whose cells have the altitudes ``[y, x]`` [m] at latitude, longitude, altitude.

        ``altitude_range`` is that of the stations behind the field, where the slopes of humidity end.
        """
        weights, inside = bilinear_weights(grid, places[0], places[1])
        here = grid.metric.xy(*grid.cells())
        there = grid.metric.xy(np.atleast_1d(places[0]), np.atleast_1d(places[1]))
        own = np.asarray(cell_altitude, dtype=np.float64).ravel()
        height = np.broadcast_to(np.asarray(places[2], dtype=np.float64), there.shape[:1])
        return cls(
            weights,
            Places(here[:, 0], here[:, 1], own, np.clip(own, *altitude_range)),
            Places(there[:, 0], there[:, 1], height, np.clip(height, *altitude_range)),
            inside,
        )

    def __call__(
        self,
        fields: Mapping[str, NDArray[Any]],
        slopes: Mapping[str, ArrayLike] | None = None,
        *,
        station_pressure: bool = True,
    ) -> Means:
        """Read fields ``[..., y, x]`` (SI) at the places ``[..., place]``.

        ``slopes`` are vertical slopes per metre ``[...]`` of ``t``, ``rh`` and ``p`` as the detrended lift found them.
        """
        flat = {name: array.reshape(*array.shape[:-2], self.weights.sources) for name, array in fields.items()}
        planes = {}
        for name, array in flat.items():
            slope = np.asarray((slopes or {}).get(name, 0.0), dtype=np.float64)
            planes[name] = Plane.vertical(np.broadcast_to(slope, array.shape[:-1])[..., None])
        return detrended_means(
            flat,
            self.weights.apply,
            self.cells,
            self.places,
            xp=np,
            planes=planes,
            station_pressure=station_pressure,
        )
