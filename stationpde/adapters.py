"""The bridge: the one place that knows the geometries and the units of `fields` and of `pde_ops` alike.

`Region` is the grid with its terrain; it is fixed when a model is built. `Sites` is a list of stations on it: the lift,
the readout and everything that belongs to a station. Other stations get other `Sites` on the same `Region`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.bilinear import GridReadout, bilinear_weights
from fields.constants import R_d, T_standard, g, lapse_standard, p_standard
from fields.geometry import LocalMetric
from fields.gridspec import GridSpec
from fields.lift import StationToGrid
from fields.lift_methods import LIFT_METHODS, LiftSettings, StationLift, altitude_weight
from fields.readout import GridToStation
from fields.series import Stations
from fields.terrain import Elevation, station_altitude
from fields.torch_data import ClimatologyTable
from pde_ops import Grid2D
from stationpde.conditions import PlaceFeatures
from stationpde.config import Config
from stationpde.state import OBSERVED, STATE, Saturation, to_state
from stationpde.statistics import StateStatistics
from stationpde.surroundings import Surroundings

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["BaseState", "Region", "Sites"]

Array = np.ndarray[Any, Any]
# A usual departure of relative humidity; it only puts numbers near 1.
_HUMIDITY_SCALE = 0.15


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Grid and terrain: ``altitude`` of the cells, m ``[y, x]``, and ``slope`` m/m eastwards and northwards."""

    grid: GridSpec
    altitude: Array

    @classmethod
    def around(cls, stations: Stations, config: Config, elevation: Elevation | None = None) -> Region:
        """The region of a network; altitude from an elevation model, else from the stations as in the paper."""
        wanted = config.grid
        grid = GridSpec.around(
            stations.lat, stations.lon, height=wanted.height, width=wanted.width, margin=wanted.margin,
            least_cell_m=max(1e3 * wanted.least_cell_km, wanted.least_spacing * _spacing(stations)),
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
        """Conditions of the cells."""
        lat, lon = self.grid.cells()
        slope = self.slope.reshape(-1, 2) if config.model.slope else None
        return PlaceFeatures(self.grid, lat, lon, self.altitude.ravel(), slope, config.model.solar)

    def cell_base(self, statistics: StateStatistics, config: Config) -> BaseState:
        """The base state of the cells."""
        lat, lon = self.grid.cells()
        fitted = statistics.lifted((lat, lon, self.altitude.ravel()), config.lift.k)
        return BaseState.of(fitted, self.altitude.ravel(), config)


def _spacing(stations: Stations) -> float:
    """Mean distance between stations that are spread evenly over the box around them, m."""
    places = LocalMetric.around(stations.lat, stations.lon).xy(stations.lat, stations.lon)
    return float(np.sqrt(np.prod(np.ptp(places, axis=0)) / len(stations)))


def lift_settings(config: Config) -> LiftSettings:
    """The lift that a configuration asks for."""
    lift = config.lift
    return LiftSettings(lift.method, lift.k, lift.power, lift.epsilon_m, altitude_weight(lift.w_alt))


def standard_pressure(altitude: Array) -> Array:
    """Pressure of the standard atmosphere at altitudes [m], Pa (ICAO, 1993)."""
    return np.asarray(p_standard * (1.0 - lapse_standard * altitude / T_standard) ** (g / (R_d * lapse_standard)))


class BaseState(nn.Module):
    """What the evolving field departs from, at fixed places: nothing, a reference pressure, or the climatology."""

    reference: Tensor

    def __init__(self, climatology: ClimatologyTable | None, reference: Tensor) -> None:
        super().__init__()
        self.climatology = climatology
        self.register_buffer("reference", reference, persistent=False)

    @classmethod
    def of(cls, statistics: StateStatistics, altitude: Array, config: Config) -> BaseState:
        """The base state of places with these statistics and altitudes."""
        reference = torch.zeros(len(altitude), len(STATE))
        if config.model.state == "anomaly":
            return cls(ClimatologyTable(statistics.climatology, persistent=False), reference)
        if config.model.pressure == "anomaly":
            reference[:, STATE.index("p")] = torch.as_tensor(standard_pressure(altitude), dtype=reference.dtype)
        return cls(None, reference)

    def forward(self, time: Int64[Tensor, " *shape"]) -> Float[Tensor, "*shape place channel"]:
        """The base state at times."""
        if self.climatology is None:
            return self.reference.expand(*time.shape, *self.reference.shape)
        found: Tensor = self.climatology(time)
        return found


class Sites(nn.Module):
    """Stations on a region: lift, readout, base state, scales, features, and which of them were trained on.

    Parameters
    ----------
    reporters : so many stations, the first ones, may report; all by default
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
        own, known = statistics.at(stations)
        settings = lift_settings(config)
        lift = StationLift.between(
            (stations.lat[:reporters], stations.lon[:reporters], stations.alt[:reporters]),
            (*region.grid.cells(), region.altitude.ravel()),
            settings,
            metric=region.grid.metric,
        )
        self.detrends = LIFT_METHODS[settings.method].detrends
        self.saturation: Saturation = config.model.saturation
        self.lift = StationToGrid(lift, region.grid.shape, OBSERVED if self.detrends else STATE)
        places = (stations.lat, stations.lon, stations.alt)
        self.readout = GridToStation(GridReadout.of(region.grid, region.altitude, places))
        self.base = BaseState.of(own, stations.alt, config)
        self.surroundings: Surroundings | None = None
        if config.is_guided or config.model.head_sees_surroundings:
            self.surroundings = Surroundings(
                region.grid, region.altitude, stations, config.data.step_seconds, config.data.history
            )
        weights, _ = bilinear_weights(region.grid, stations.lat, stations.lon)
        slope = None
        if config.model.slope:
            slope = np.stack([weights.apply(region.slope[..., c].ravel())[0] for c in range(2)], axis=-1)
        self.features = PlaceFeatures(region.grid, stations.lat, stations.lon, stations.alt, slope, config.model.solar)
        self.register_buffer("scale", torch.as_tensor(_scales(own, config), dtype=torch.float32), persistent=False)
        observed_scale = self.scale.clone()
        observed_scale[:, OBSERVED.index("rh")] = _HUMIDITY_SCALE
        self.register_buffer("observed_scale", observed_scale, persistent=False)
        self.register_buffer("number", torch.as_tensor(known, dtype=torch.long), persistent=False)
        self.register_buffer("pressure", torch.as_tensor(own.pressure, dtype=torch.float32), persistent=False)
        self.register_buffer(
            "inside", torch.as_tensor(region.grid.contains(stations.lat, stations.lon)), persistent=False
        )

    def lifted(
        self, observed: Float[Tensor, "batch time station channel"], state: Float[Tensor, "batch time station channel"]
    ) -> tuple[Float[Tensor, "batch time channel y x"], Float[Tensor, "batch time channel y x"]]:
        """Fields of the state and the share of the network behind each value.

        ``state`` are departures from the base state, and so are the fields. The detrended lift knows observed
        variables only: under it observations are lifted, Ψ is applied on the grid, and the fields are *full* states.
        """
        if self.reporters is not None:
            observed, state = observed[:, :, : self.reporters], state[:, :, : self.reporters]
        if not self.detrends:
            found: tuple[Tensor, Tensor] = self.lift(state)
            return found
        fields, share = self.lift(observed)
        cells = fields.movedim(-3, -1)
        return to_state(cells, cells[..., OBSERVED.index("p")], self.saturation).movedim(-1, -3), share

    def read(self, fields: Float[Tensor, "*batch channel y x"]) -> Float[Tensor, "*batch station channel"]:
        """Values of fields at the stations, bilinear."""
        found: Tensor = self.readout(fields)
        return found


def _scales(statistics: StateStatistics, config: Config) -> Array:
    """Scale of each channel at each station, SI ``[station, channel]``."""
    general = statistics.anomaly_std if config.model.state == "anomaly" else statistics.std
    scales = np.broadcast_to(general, statistics.station_std.shape).copy()
    if config.model.normalisation == "station_wind":
        # A calm valley and a windy cape: a metre per second is not the same at both.
        scales[:, :2] = statistics.station_std[:, :2]
    return scales
