"""Values of a grid at places: bilinear weights of the four cells around each place, as `SparseWeights`.

With the cell centres on the region's border, weights are convex everywhere inside, and a field linear in latitude
and longitude is read exactly. A place outside the grid takes the value of the nearest point of the border and is
flagged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fields.grid import GridSpec
from fields.lift.detrend import Means, detrended_means
from fields.lift.profiles import LocalPositions, Plane
from fields.lift.weights import SparseWeights
from fields.places import PlacesLike, coordinates_of

__all__ = ["GridReadout", "bilinear_weights"]


def bilinear_weights(grid: GridSpec, lat: ArrayLike, lon: ArrayLike) -> tuple[SparseWeights, NDArray[np.bool_]]:
    """Return the weights of the cells ``[y * x]`` at places [degrees], and a mask of the places inside the grid."""
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
    """Readout of gridded variables at places, on numpy arrays.

    Pressure follows the hydrostatic law from the cells' altitude to the place's. Temperature and humidity follow the
    vertical slopes of the lift where there are any, and are bilinear otherwise (paper).

    Parameters
    ----------
    weights : bilinear weights of the cells at each place
    cells, places : positions of the cells and of the places, in metres
    inside : whether each place lies in the grid ``[place]``
    """

    weights: SparseWeights
    cells: LocalPositions
    places: LocalPositions
    inside: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        grid: GridSpec,
        cell_altitude: ArrayLike,
        places: PlacesLike,
        altitude_range: tuple[float, float] = (-np.inf, np.inf),
    ) -> GridReadout:
        """Build the readout of a grid at places.

        Parameters
        ----------
        grid : the grid that is read
        cell_altitude : altitude of the cells ``[y, x]``, m
        places : `Places`, or a tuple of latitude, longitude [degrees] and altitude [m]
        altitude_range : lowest and highest station behind the field [m]; the slope of humidity ends there
        """
        lat, lon, alt = coordinates_of(places)
        weights, inside = bilinear_weights(grid, lat, lon)
        cell_alt = np.asarray(cell_altitude, dtype=np.float64).ravel()
        return cls(
            weights,
            LocalPositions.at(grid.metric.xy(*grid.cells()), cell_alt, altitude_range),
            LocalPositions.at(grid.metric.xy(lat, lon), alt, altitude_range),
            inside,
        )

    def __call__(
        self,
        fields: Mapping[str, NDArray[Any]],
        slopes: Mapping[str, ArrayLike] | None = None,
        *,
        station_pressure: bool = True,
    ) -> Means:
        """Read fields at the places.

        Parameters
        ----------
        fields : by variable, ``[..., y, x]``, SI
        slopes : vertical slopes per metre ``[...]`` of ``t``, ``rh`` and ``p`` that the detrended lift fitted
        station_pressure : whether ``p`` is pressure at the cells' altitude; reduced pressure is read bilinearly

        Returns
        -------
        Values and coverage ``[..., place]``
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
