"""Relief under a map: from an elevation model where there is one, else from the stations' altitudes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import gaussian_filter

from fields.grid import Elevation, GridSpec

if TYPE_CHECKING:
    from stationpde.model import Region

__all__ = ["Relief"]

Array = np.ndarray[Any, Any]
# Pixels along the longer side.
_PIXELS = 220
_SOFTER = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Relief:
    """Altitudes ``[row, column]`` [m] over the region of a grid, south to north.

    ``is_true`` if they come from an elevation model; NaN beyond its border.
    """

    grid: GridSpec
    metres: Array
    is_true: bool
    name: str

    @classmethod
    def of(cls, region: Region, dem: str | Path | None = None, *, synthetic: bool = False) -> Relief:
        """Build the relief of a model's region.

        Parameters
        ----------
        region : grid and altitude of the model
        dem : file with an elevation model
        synthetic : whether the network is the synthetic one, whose relief is computed
        """
        grid = region.grid
        aspect = (grid.east - grid.west) * np.cos(np.radians((grid.south + grid.north) / 2)) / (grid.north - grid.south)
        rows = round(_PIXELS / max(aspect, 1.0))
        columns = round(_PIXELS * min(aspect, 1.0))
        lat, lon = np.linspace(grid.south, grid.north, max(rows, 2)), np.linspace(grid.west, grid.east, max(columns, 2))
        every = np.meshgrid(lat, lon, indexing="ij")
        model = Elevation.open(Path(dem)) if dem is not None else None
        if model is None and synthetic:
            from fields.synthetic import make_relief

            model = make_relief()
        if model is not None:
            metres = model.at(every[0].ravel(), every[1].ravel()).reshape(every[0].shape)
            covered = model.covers(every[0].ravel(), every[1].ravel()).reshape(metres.shape)
            # Slightly smoothed: the steps of the elevation model look like terraces.
            soft = gaussian_filter(metres, _SOFTER, mode="nearest")
            return cls(grid, np.where(covered, soft, np.nan), True, model.name)
        model = Elevation.of(grid.lat, grid.lon, region.altitude)
        metres = model.at(every[0].ravel(), every[1].ravel()).reshape(every[0].shape)
        return cls(grid, metres, False, "the stations' altitudes")
