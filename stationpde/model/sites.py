"""Stations on a region: lift, readout, surroundings, features and scales, and which of them were trained on.

Other stations, new or moved, get other `Sites` on the same `Region` (`StationPDEModel.at`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.lift import LIFT_METHODS, GridReadout, GridToStation, StationLift, StationToGrid, bilinear_weights
from fields.windows import ClimatologyTable, Stations
from stationpde.config import Config
from stationpde.model.base_state import BaseState
from stationpde.model.climate import StateStatistics
from stationpde.model.region import Region, lift_settings
from stationpde.physics import OBSERVED, RH, STATE, WIND, P, PlaceFeatures, Surroundings, to_state

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["Sites"]

Array = np.ndarray[Any, Any]
# Typical departure of relative humidity; it only brings scaled values near 1.
_HUMIDITY_SCALE = 0.15


class Sites(nn.Module):
    """Stations on a region: lift, readout, base state, scales, features, and which of them were trained on.

    Parameters
    ----------
    stations : the stations, in the order of all tensors
    region : grid and terrain
    statistics : of the training stations
    reporters : number of first stations that may report; all by default

    Attributes
    ----------
    scale, observed_scale : of the channels of the state and of observed variables at each station, SI
    number : row of each station among those of training; -1 for a new one
    pressure : mean pressure of each station, Pa
    inside : whether each station lies on the grid
    printed_climatology : climatology for the simple forecasts where the base state is none (``model.state = "raw"``)
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
        # Under the raw state, which the paper prints, `base` is zero; simple forecasts need the climatology even so.
        self.printed_climatology: nn.Module | None = None
        if config.model.simple_members and config.model.state == "raw":
            self.printed_climatology = ClimatologyTable(station_statistics.climatology, persistent=False)
        self.surroundings: Surroundings | None = None
        if config.is_guided or "surroundings" in config.model.inputs:
            self.surroundings = Surroundings(
                region.grid, region.altitude, stations, config.data.step_seconds, config.data.history, region.rings_km
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

    def climatology(self, time: Int64[Tensor, " *shape"]) -> Float[Tensor, "*shape station channel"]:
        """Return the climatology of the state at times (seconds since 1970, UTC), SI."""
        values: Tensor = self.base(time) if self.printed_climatology is None else self.printed_climatology(time)
        return values

    def lifted(
        self, observed: Float[Tensor, "batch time station channel"], state: Float[Tensor, "batch time station channel"]
    ) -> tuple[Float[Tensor, "batch time channel y x"], Float[Tensor, "batch time channel y x"]]:
        """Lift a history; return fields of the state and the share of the network behind each value.

        ``state`` holds departures from the base state, and so do the fields. The detrended lift takes observed
        variables only: under it observations are lifted, Ψ is applied on the grid, and the fields are *full* states.
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
