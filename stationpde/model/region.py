"""Region of a model: grid around its stations, terrain, slope, and what belongs to the cells.

A region is fixed when a model is built; stations on it are `stationpde.model.sites.Sites`. The same grid serves the
equations (`Region.pde_grid`), which compute the Coriolis parameter of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.grid import Elevation, GridSpec, LocalMetric
from fields.lift import LiftSettings, altitude_weight, station_altitude
from fields.windows import Stations
from pde_ops import Grid2D
from stationpde.config import Config
from stationpde.model.base_state import BaseState
from stationpde.model.climate import StateStatistics
from stationpde.physics import PlaceFeatures

__all__ = ["Region", "lift_settings"]

Array = np.ndarray[Any, Any]
# Through smaller cells a storm's wind would need more than 16 parts of a sub-step of half an hour, and stations seldom
# resolve more: a small network gets fewer rows instead.
LEAST_CELL_M = 8e3


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Grid and terrain: ``altitude`` of the cells, m ``[y, x]``, and ``slope`` m/m eastwards and northwards."""

    grid: GridSpec
    altitude: Array

    @classmethod
    def around(cls, stations: Stations, config: Config, elevation: Elevation | None = None) -> Region:
        """Choose the region of a network; altitude from an elevation model, else from the stations as in the paper."""
        section = config.grid
        grid = GridSpec.around(
            stations.lat, stations.lon, height=section.height, width=section.width,
            least_cell_m=max(_least_cell(config), section.least_spacing * _spacing(stations)),
        )  # fmt: skip
        if elevation is not None:
            return cls(grid, elevation.on(grid))
        return cls(grid, station_altitude(stations.lat, stations.lon, stations.alt, grid, lift_settings(config)))

    @property
    def pde_grid(self) -> Grid2D:
        """The same grid for the equations: border of zero gradient, dx of each row."""
        return Grid2D.from_latlon(self.grid.lat, self.grid.lon, boundary="zero_gradient")

    @property
    def slope(self) -> Array:
        """Slope of the terrain ``[y, x, 2]``, m/m."""
        north, east = np.gradient(self.altitude)
        return np.stack([east / self.grid.dx[:, None], north / self.grid.dy], axis=-1)

    def cell_features(self, config: Config) -> PlaceFeatures:
        """Return the features of the cells."""
        lat, lon = self.grid.cells()
        slope = self.slope.reshape(-1, 2) if "slope" in config.model.inputs else None
        return PlaceFeatures(self.grid, lat, lon, self.altitude.ravel(), slope, "sun" in config.model.inputs)

    def cell_base(self, statistics: StateStatistics, config: Config) -> BaseState:
        """Return the base state of the cells."""
        lat, lon = self.grid.cells()
        fitted = statistics.lifted((lat, lon, self.altitude.ravel()), config.lift.k)
        return BaseState.of(fitted, self.altitude.ravel(), config)


def _spacing(stations: Stations) -> float:
    """Return the mean distance between stations spread evenly over the box around them, m."""
    places = LocalMetric.around(stations.lat, stations.lon).xy(stations.lat, stations.lon)
    return float(np.sqrt(np.prod(np.ptp(places, axis=0)) / len(stations)))


def _least_cell(config: Config) -> float:
    """Return the least width of a cell, m; the printed model has none."""
    return 0.0 if config.variant == "paper" else LEAST_CELL_M


def lift_settings(config: Config) -> LiftSettings:
    """Return the settings of the lift in a configuration."""
    lift = config.lift
    return LiftSettings(lift.method, lift.k, w_alt=altitude_weight(lift.w_alt))
