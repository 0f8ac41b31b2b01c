"""Adapters: the only module that uses the geometries and units of both `fields` and `pde_ops`.

`Region` is the grid with its terrain; it is fixed when a model is built. `Sites` is a list of stations on it: the lift,
the readout and everything that belongs to a station. Other stations get other `Sites` on the same `Region`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.grid import Elevation, GridSpec, LocalMetric
from fields.lift import (
    LIFT_METHODS,
    GridReadout,
    GridToStation,
    LiftSettings,
    StationLift,
    StationToGrid,
    altitude_weight,
    bilinear_weights,
    station_altitude,
)
from fields.windows import ClimatologyTable, Stations
from pde_ops import Grid2D
from stationpde.config import Config
from stationpde.model.climate import StateStatistics
from stationpde.physics import OBSERVED, RH, STATE, WIND, P, PlaceFeatures, Surroundings, to_state

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["BaseState", "Region", "Sites"]

Array = np.ndarray[Any, Any]
# Typical departure of relative humidity; it only brings scaled values near 1.
_HUMIDITY_SCALE = 0.15
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


class BaseState(nn.Module):
    """State that the evolving field departs from, at fixed places: zero, or the climatology."""

    reference: Tensor

    def __init__(self, climatology: ClimatologyTable | None, reference: Tensor) -> None:
        super().__init__()
        self.climatology = climatology
        self.register_buffer("reference", reference, persistent=False)

    @classmethod
    def of(cls, statistics: StateStatistics, altitude: Array, config: Config) -> BaseState:
        """Choose the base state of places with these statistics and altitudes, by configuration."""
        reference = torch.zeros(len(altitude), len(STATE))
        if config.model.state == "anomaly":
            return cls(ClimatologyTable(statistics.climatology, persistent=False), reference)
        return cls(None, reference)

    def forward(self, time: Int64[Tensor, " *shape"]) -> Float[Tensor, "*shape place channel"]:
        """Return the base state at times (seconds since 1970, UTC), SI."""
        if self.climatology is None:
            return self.reference.expand(*time.shape, *self.reference.shape)
        climatology: Tensor = self.climatology(time)
        return climatology

    def on_grid(self, time: Int64[Tensor, " *shape"], shape: torch.Size) -> Float[Tensor, "*shape channel y x"]:
        """Return the base state of cells at times as fields of a shape."""
        return self(time).movedim(-1, -2).reshape(shape)


class Sites(nn.Module):
    """Stations on a region: lift, readout, base state, scales, features, and which of them were trained on.

    Parameters
    ----------
    stations : the stations, in the order of all tensors
    region : grid and terrain
    statistics : of the training stations
    reporters : number of first stations that may report; all by default
    """

    scale: Tensor
    observed_scale: Tensor
    number: Tensor
    pressure: Tensor
    inside: Tensor

    def __init__(
        self, stations: Stations, region: Region, statistics: StateStatistics, config: Config,
        reporters: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.stations = stations
        # The field is lifted from the first so many; the others, which never report, are only read.
        self.reporters = reporters
        station_statistics, training_rows = statistics.at(stations)
        settings = lift_settings(config)
        lift = StationLift.between(
            (stations.lat[:reporters], stations.lon[:reporters], stations.alt[:reporters]),
            (*region.grid.cells(), region.altitude.ravel()),
            settings,
            metric=region.grid.metric,
        )
        self.detrends = LIFT_METHODS[settings.method].detrends
        self.lift = StationToGrid(lift, region.grid.shape, OBSERVED if self.detrends else STATE)
        places = (stations.lat, stations.lon, stations.alt)
        self.readout = GridToStation(GridReadout.of(region.grid, region.altitude, places))
        self.base = BaseState.of(station_statistics, stations.alt, config)
        self.surroundings: Surroundings | None = None
        if config.is_guided or "surroundings" in config.model.inputs:
            self.surroundings = Surroundings(
                region.grid, region.altitude, stations, config.data.step_seconds, config.data.history
            )
        weights, _ = bilinear_weights(region.grid, stations.lat, stations.lon)
        slope = None
        if "slope" in config.model.inputs:
            slope = np.stack([weights.apply(region.slope[..., c].ravel())[0] for c in range(2)], axis=-1)
        sun = "sun" in config.model.inputs
        self.features = PlaceFeatures(region.grid, stations.lat, stations.lon, stations.alt, slope, sun)
        scale = torch.as_tensor(_scales(station_statistics, config), dtype=torch.float32)
        self.register_buffer("scale", scale, persistent=False)
        observed_scale = self.scale.clone()
        observed_scale[:, RH] = _HUMIDITY_SCALE
        self.register_buffer("observed_scale", observed_scale, persistent=False)
        self.register_buffer("number", torch.as_tensor(training_rows, dtype=torch.long), persistent=False)
        pressure = torch.as_tensor(station_statistics.pressure, dtype=torch.float32)
        self.register_buffer("pressure", pressure, persistent=False)
        self.register_buffer(
            "inside", torch.as_tensor(region.grid.contains(stations.lat, stations.lon)), persistent=False
        )

    def lifted(
        self, observed: Float[Tensor, "batch time station channel"], state: Float[Tensor, "batch time station channel"]
    ) -> tuple[Float[Tensor, "batch time channel y x"], Float[Tensor, "batch time channel y x"]]:
        """Lift a history; return fields of the state and the share of the network behind each value.

        ``state`` are departures from the base state, and so are the fields. The detrended lift takes observed variables
        only: under it observations are lifted, Ψ is applied on the grid, and the fields are *full* states.
        """
        if self.reporters is not None:
            observed, state = observed[:, :, : self.reporters], state[:, :, : self.reporters]
        if not self.detrends:
            departures, share = self.lift(state)
            return departures, share
        fields, share = self.lift(observed)
        cells = fields.movedim(-3, -1)
        return to_state(cells, cells[..., P]).movedim(-1, -3), share

    def read(self, fields: Float[Tensor, "*batch channel y x"]) -> Float[Tensor, "*batch station channel"]:
        """Return the values of fields without gaps at the stations, bilinear."""
        values: Tensor = self.readout(fields, complete=True)
        return values


def _scales(statistics: StateStatistics, config: Config) -> Array:
    """Return the scale of each channel at each station, SI ``[station, channel]``."""
    general = statistics.anomaly_std if config.model.state == "anomaly" else statistics.std
    scales = np.broadcast_to(general, statistics.station_std.shape).copy()
    if config.model.state == "anomaly":
        # An error of 1 m/s means more in a calm valley than at a windy cape.
        scales[:, WIND] = statistics.station_std[:, WIND]
    return scales
