"""Altitude of grid cells interpolated from the stations, as in the paper; used where there is no elevation model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fields.grid import GridSpec
from fields.lift.methods import LiftSettings, StationLift

__all__ = ["station_altitude"]

Array = NDArray[np.float64]


def station_altitude(
    lat: ArrayLike, lon: ArrayLike, alt: ArrayLike, grid: GridSpec, settings: LiftSettings | None = None
) -> Array:
    """Interpolate the altitude of the cells ``[y, x]`` [m] from the stations by horizontal inverse distance (paper).

    Parameters
    ----------
    lat, lon, alt : latitude, longitude [degrees] and altitude [m] of the stations
    grid : the grid whose cells get an altitude
    settings : neighbours, power and ``ε`` of the distance; the method is always ``idw``
    """
    settings = settings or LiftSettings()
    horizontal = LiftSettings("idw", settings.k, settings.power, settings.epsilon_m)
    lift = StationLift.between((lat, lon, alt), (*grid.cells(), 0.0), horizontal, metric=grid.metric)
    altitude, _ = lift.weights.apply(np.asarray(alt, dtype=np.float64), coverage=False)
    return altitude.reshape(grid.shape)
