"""Statistics of the network before training: climatology and scales of the state, from the training split.

All of them are saved with the weights, so that a checkpoint is a whole model. A station that was not trained on gets
the climatology and the scale that a terrain-aware fit through the training stations gives it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fields.grid import LocalMetric
from fields.lift import LiftSettings, StationLift
from fields.windows import Climatology, Split, Stations, StationSeries, change_std, channel_moments, station_moments
from stationpde.config import Config
from stationpde.physics import OBSERVED, P, to_observed, to_state

__all__ = ["StateStatistics"]

Array = np.ndarray[Any, Any]
# A station counts as the same within these distances; a re-sited one counts as new.
_SAME_PLACE_M, _SAME_ALTITUDE_M = 1000.0, 50.0
# Smallest standard deviations of the state, SI, so that a dead sensor does not get an infinite weight.
_FLOORS = np.array([0.1, 0.1, 10.0, 0.1, 1e-5])
_BLOCK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class StateStatistics:
    """Statistics of ``u, v, p, theta, q`` at the training stations.

    Attributes
    ----------
    stations : the training stations, in the order of all arrays
    climatology : of the state, station × time of day (and annual harmonics)
    pressure : mean, Pa ``[station]``; Ψ uses it where pressure is missing
    mean, std : of the state itself, ``[channel]``
    anomaly_std, change_std : standard deviation of departures from the climatology, and of the change over one step,
        ``[channel]``
    station_std : standard deviation of departures from the climatology, ``[station, channel]``
    days : length of the training period
    """

    stations: Stations
    climatology: Climatology
    pressure: Array
    mean: Array
    std: Array
    anomaly_std: Array
    change_std: Array
    station_std: Array
    days: float

    @classmethod
    def of(cls, series: StationSeries, split: Split, config: Config) -> StateStatistics:
        """Compute the statistics of the training split of a record, and nothing else."""
        steps = split.slice("train")
        observed, time = series.values[steps], series.time[steps]
        pressure = _mean_pressure(observed, series.stations)
        state = _states(observed, pressure)
        climatology = Climatology.fit(time, state, series.step_seconds, annual=config.model.annual_harmonics)
        mean, std = channel_moments(state, _FLOORS)
        change = change_std(state, time, series.step_seconds, _FLOORS)
        for start in range(0, len(time), _BLOCK):
            piece = slice(start, start + _BLOCK)
            state[piece] -= climatology.at(time[piece])
        _, anomaly_std = channel_moments(state, _FLOORS)
        _, station_std, _ = station_moments(state, _FLOORS)
        days = float(time[-1] - time[0]) / 86400.0
        return cls(series.stations, climatology, pressure, mean, std, anomaly_std, change, station_std, days)

    def at(self, stations: Stations) -> tuple[StateStatistics, Array]:
        """Return the statistics at other stations, and the row of each in training (-1: none)."""
        rows = self.matching(stations)
        if len(rows) == len(self.stations) and np.array_equal(rows, np.arange(len(rows))):
            return replace(self, stations=stations), rows
        fitted = self.lifted((stations.lat, stations.lon, stations.alt))
        trained, row = rows >= 0, np.maximum(rows, 0)
        table, waves = fitted.climatology.table.copy(), fitted.climatology.waves.copy()
        table[:, :, trained] = self.climatology.table[:, :, row[trained]]
        waves[:, trained] = self.climatology.waves[:, row[trained]]
        statistics = replace(
            fitted,
            stations=stations,
            climatology=replace(self.climatology, table=table, waves=waves),
            pressure=np.where(trained, self.pressure[row], fitted.pressure),
            station_std=np.where(trained[:, None], self.station_std[row], fitted.station_std),
        )
        return statistics, rows

    def matching(self, stations: Stations) -> Array:
        """Return the row in training of each station with the same name at the same place; else -1."""
        numbers = {name: i for i, name in enumerate(self.stations.id)}
        metric = LocalMetric.around(self.stations.lat, self.stations.lon)
        old, new = metric.xy(self.stations.lat, self.stations.lon), metric.xy(stations.lat, stations.lon)
        rows = np.full(len(stations), -1)
        for place, name in enumerate(stations.id):
            i = numbers.get(name, -1)
            if i < 0:
                continue
            near = np.hypot(*(new[place] - old[i])) <= _SAME_PLACE_M
            level = abs(stations.alt[place] - self.stations.alt[i]) <= _SAME_ALTITUDE_M
            if near and level:
                rows[place] = i
        return rows

    def lifted(self, places: tuple[Array, Array, Array], k: int = 10) -> StateStatistics:
        """Interpolate the statistics of stations to places (latitude, longitude, altitude), aware of the terrain.

        Hourly means are brought to the places as observed variables by the detrended lift, which follows lapse rate
        and hydrostatic law; harmonics and scales by horizontal distance.
        """
        here = (self.stations.lat, self.stations.lon, self.stations.alt)
        detrended = StationLift.between(here, places, LiftSettings("detrended", k))
        horizontal = StationLift.between(here, places, LiftSettings("idw", k))
        hours = to_observed(torch.as_tensor(self.climatology.table).double()).numpy()
        means = detrended({name: hours[..., c] for c, name in enumerate(OBSERVED)}).values
        observed = torch.as_tensor(np.stack([means[name] for name in OBSERVED], axis=-1))
        table = to_state(observed, observed[..., P]).numpy().astype(np.float32)
        waves = horizontal.weights.apply(np.moveaxis(self.climatology.waves, -1, -2))[0]
        scales = horizontal.weights.apply(self.station_std.T)[0].T
        return replace(
            self,
            climatology=replace(
                self.climatology, table=table, waves=np.ascontiguousarray(np.moveaxis(waves, -2, -1), np.float32)
            ),
            pressure=np.asarray(means["p"]).mean(axis=(0, 1)),
            station_std=scales,
        )

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors of a checkpoint; names are encoded as bytes, as a tensor file holds numbers only."""
        names = json.dumps(self.stations.id).encode()
        arrays = {
            "ids": np.frombuffer(names, np.uint8).copy(),
            "lat": self.stations.lat, "lon": self.stations.lon, "alt": self.stations.alt,
            "table": self.climatology.table, "waves": self.climatology.waves,
            "pressure": self.pressure, "mean": self.mean, "std": self.std, "anomaly_std": self.anomaly_std,
            "change_std": self.change_std, "station_std": self.station_std, "days": np.array([self.days]),
            "slots": np.array([
                self.climatology.slot_seconds, self.climatology.origin, self.climatology.annual,
                int(self.climatology.daily),
            ]),
        }  # fmt: skip
        return {name: torch.as_tensor(np.ascontiguousarray(array)) for name, array in arrays.items()}

    @staticmethod
    def ids_in(tensors: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
        """Decode the names of the stations in the tensors of `tensors`."""
        return tuple(map(str, json.loads(tensors["ids"].cpu().numpy().tobytes())))

    @classmethod
    def from_tensors(cls, ids: tuple[str, ...], tensors: Mapping[str, torch.Tensor]) -> StateStatistics:
        """Invert `tensors`; ``ids`` are the names of the stations, see `ids_in`."""
        t = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        slot_seconds, origin, annual, daily = (int(number) for number in t["slots"])
        if t["waves"].shape[1:] != t["table"].shape[2:]:  # without any wave, no later step would notice
            raise ValueError(f"waves {t['waves'].shape} and table {t['table'].shape} of the climatology differ")
        return cls(
            Stations(ids, t["lat"], t["lon"], t["alt"]),
            Climatology(t["table"], t["waves"], slot_seconds, origin, annual, bool(daily)),
            t["pressure"], t["mean"], t["std"], t["anomaly_std"], t["change_std"], t["station_std"],
            float(t["days"][0]),
        )  # fmt: skip


def _mean_pressure(observed: Array, stations: Stations) -> Array:
    """Return the mean pressure of each station; without observations, lifted from the others to its altitude."""
    seen = np.isfinite(observed[..., P])
    total = np.where(seen, observed[..., P], 0.0).sum(axis=0, dtype=np.float64)
    mean = total / np.maximum(seen.sum(axis=0), 1)
    unobserved = seen.sum(axis=0) == 0
    if unobserved.any():
        places = (stations.lat, stations.lon, stations.alt)
        lift = StationLift.between(places, places, LiftSettings("detrended"))
        mean = np.where(unobserved, lift({"p": np.where(unobserved, np.nan, mean)}).values["p"], mean)
    return mean


def _states(observed: Array, pressure: Array) -> Array:
    """Apply Ψ to a record, block by block."""
    states = np.empty(observed.shape, np.float32)
    reference = torch.as_tensor(pressure, dtype=torch.float32)
    for start in range(0, len(observed), _BLOCK):
        piece = torch.as_tensor(observed[start : start + _BLOCK])
        states[start : start + _BLOCK] = to_state(piece, reference).numpy()
    return states
