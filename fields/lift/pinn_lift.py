"""Lift a window through a fitted network: wind and pressure by `fields.lift.pinn`, the rest as ``detrended`` does.

Pressure is reduced to sea level as the detrended lift reduces it, with each station's temperature and the lapse of the
moment, and restored at the target's altitude; between, the network carries it instead of a plane and weights. Where no
station at all reports a variable at a moment, it is missing, as with the other lifts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fields.checks import are_at_one_place
from fields.constants import T_standard, lapse_standard, p_standard
from fields.errors import DataError, ResourceError, UsageError
from fields.grid import LocalMetric
from fields.lift.detrend import Means
from fields.lift.methods import LiftSettings, StationLift
from fields.lift.pinn_settings import PinnSettings
from fields.lift.profiles import PRIORS, Plane, fit_plane, reduced, restored
from fields.places import PlacesLike, coordinates_of
from fields.times import DAY

if TYPE_CHECKING:
    from fields.lift.pinn import PinnData

__all__ = ["PinnCost", "PinnLift", "require_enough", "window_steps"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]

# A surface in three coordinates needs more of each than a plane has corners.
FEWEST_STATIONS, FEWEST_TIMES = 5, 5
CARRIED = ("u", "v", "p")
# CPU-minutes that one network may take.
_MOST_MINUTES = 30.0
# Bytes for each time and target: the fields of all variables with their coverage, in double precision.
_BYTES_OF_A_VALUE = 160


@dataclass(frozen=True, slots=True)
class PinnCost:
    """What the networks of a record take: their number, seconds in all and for one of them, bytes of memory."""

    networks: int
    seconds: float
    cpu_seconds_of_one: float
    memory: int

    def __str__(self) -> str:
        word = "network" if self.networks == 1 else "networks"
        return (
            f"{self.networks} {word} of {self.cpu_seconds_of_one / 60.0:.1f} CPU-minutes each; about "
            f"{self.seconds / 60.0:.0f} min as busy as this machine is, {self.memory / 1e9:.1f} GB of memory"
        )


def window_steps(length: int, step_seconds: float, settings: PinnSettings) -> int:
    """Return the steps of a window, so that windows of a record of ``length`` steps are about equally long."""
    most = max(1, int(settings.days * DAY / step_seconds)) if step_seconds > 0 else length
    return math.ceil(length / math.ceil(length / most)) if length else 1


def require_enough(values: Mapping[str, Array], lat: Array, lon: Array, times: int) -> None:
    """Refuse a record that no network can be fitted to.

    Parameters
    ----------
    values : by variable, ``[..., station]``, NaN = missing
    lat, lon : of the stations, degrees
    times : number of moments

    Raises
    ------
    UsageError, DataError
        If wind or pressure is absent, or there are too few stations or times.
    """
    absent = [name for name in CARRIED if name not in values]
    if absent:
        raise UsageError(
            f"pinn reconstructs wind and pressure from each other: {', '.join(absent)} is not among the variables",
            code="SPDE-D087", do="--method detrended",
        )  # fmt: skip
    there = np.stack([np.isfinite(values[name]).any(axis=tuple(range(values[name].ndim - 1))) for name in CARRIED])
    stations = int(there[0].sum())
    if stations < FEWEST_STATIONS or are_at_one_place(lat, lon):
        raise DataError(
            f"pinn needs {FEWEST_STATIONS} stations with wind at different places; {stations} of {len(lat)} report it",
            code="SPDE-D086", do="--method detrended",
        )  # fmt: skip
    if times < FEWEST_TIMES:
        raise DataError(f"pinn needs {FEWEST_TIMES} times to learn how the wind changes; the record has {times}",
                        code="SPDE-D086", do="--method detrended")  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PinnLift:
    """Physics-guided lift from stations to targets; each call fits one network.

    Parameters
    ----------
    lift : the detrended lift between the same places, for temperature, humidity and what of pressure is altitude
    settings : of the network
    places : metres east and north of the targets, ``[target, 2]``; where they are, outside the network as well
    latitude : of the origin of the metres, degrees
    """

    lift: StationLift
    settings: PinnSettings
    places: Array
    latitude: float

    @classmethod
    def between(
        cls, stations: PlacesLike, targets: PlacesLike, settings: PinnSettings, lift: LiftSettings | None = None, *,
        metric: LocalMetric | None = None,
    ) -> PinnLift:  # fmt: skip
        """Build the lift from stations to targets; ``lift`` has neighbours and distance of the detrended one."""
        metric = metric or LocalMetric.around(*coordinates_of(stations)[:2])
        near = replace(lift or LiftSettings(), method="detrended")
        detrended = StationLift.between(stations, targets, near, metric=metric)
        lat, lon, _ = coordinates_of(targets)
        return cls(detrended, settings, metric.xy(lat, lon), metric.lat)

    def cost(
        self, values: Mapping[str, Array], seconds: Array, networks: int, *, station_pressure: bool = True
    ) -> PinnCost:
        """Measure what networks take, on a few steps of the first window.

        Raises
        ------
        ResourceError
            If one of them takes more than 30 CPU-minutes.
        """
        import psutil

        from fields.lift.pinn import seconds_of_a_step

        data, _, _ = self._data(values, seconds, station_pressure)
        wall, cpu = seconds_of_a_step(data, self.settings)
        steps = self.settings.steps
        memory = psutil.Process().memory_info().rss + _BYTES_OF_A_VALUE * len(seconds) * len(self.places)
        cost = PinnCost(networks, networks * steps * wall, steps * cpu, memory)
        if cost.cpu_seconds_of_one > 60.0 * _MOST_MINUTES:
            fitting = max(1, int(0.9 * 60.0 * _MOST_MINUTES / cpu))
            raise ResourceError(
                f"a network of {steps:,} steps would take {cost.cpu_seconds_of_one / 60.0:.0f} CPU-minutes; "
                f"{_MOST_MINUTES:.0f} are allowed", code="SPDE-D067", do=f"--steps {fitting}",
            )  # fmt: skip
        return cost

    def __call__(
        self,
        values: Mapping[str, Array],
        seconds: Array,
        *,
        station_pressure: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Means:
        """Lift a window of variables ``[time, station]`` (SI), wind and pressure through a network fitted to it.

        Parameters
        ----------
        seconds : of the times, since any moment
        station_pressure : whether ``p`` is pressure at the station; reduced pressure has no altitude to restore
        progress : as of `fields.lift.pinn.fit`
        """
        from fields.lift.pinn import evaluated, fit

        means = self.lift(values, station_pressure=station_pressure)
        reporting = min(int(np.isfinite(values[name]).any(axis=0).sum()) for name in ("u", "v"))
        if reporting < FEWEST_STATIONS or len(seconds) < FEWEST_TIMES:
            logger.warning("a window of %d times has wind at %d stations, too few for a network: u, v and p are "
                           "missing in it", len(seconds), reporting)  # fmt: skip
            nothing = {name: np.full_like(means.values[name], np.nan) for name in CARRIED}
            return replace(means, values={**means.values, **nothing})
        data, since, slope = self._data(values, seconds, station_pressure)
        u, v, log_pressure = evaluated(fit(data, self.settings, progress), since, self.places)
        pressure = p_standard * np.exp(log_pressure)
        if station_pressure:
            pressure = self._restored(log_pressure + slope * self.lift.targets.clipped_z, values, means)
        lifted = {}
        for name, array in zip(CARRIED, (u, v, pressure)):
            silent = ~np.isfinite(values[name]).any(axis=-1, keepdims=True)
            lifted[name] = np.where(silent, np.nan, array).astype(values[name].dtype)
        return replace(means, values={**means.values, **lifted})

    def _restored(self, log_pressure: Array, values: Mapping[str, Array], means: Means) -> Array:
        """Return pressure [Pa] at the targets from ln p' there, with the temperature lifted to them."""
        targets = self.lift.targets
        column, _ = _column(self.lift, values, means.planes.get("t"))
        lapse = -column.along_z
        warmth = column.at_sea_level(targets)
        if "t" in means.values:
            warmth = means.values["t"].astype(np.float64) + lapse * targets.z
        return np.asarray(restored(log_pressure, warmth, lapse, targets.z, np))

    def _data(
        self, values: Mapping[str, Array], seconds: Array, station_pressure: bool
    ) -> tuple[PinnData, Array, Array]:
        """Return the observations for a network, its times from their middle, and the slope of ln p with altitude."""
        from fields.lift.pinn import PinnData

        stations = self.lift.stations
        since = np.asarray(seconds, np.float64)
        since = since - 0.5 * (since[0] + since[-1])
        pressure = np.asarray(values["p"], np.float64)
        # A missing or infinite value passes the logarithm as an ordinary pressure.
        there = np.isfinite(pressure) & (pressure > 0.0)
        safe, slope = np.where(there, pressure, p_standard), np.zeros((len(since), 1))
        log_pressure = np.where(there, np.log(safe / p_standard), np.nan)
        if station_pressure:
            column, warmth = _column(self.lift, values, None)
            at_sea = reduced(safe, column.at_sea_level(stations) + warmth, -column.along_z, stations.z, np)
            at_sea = np.where(there, at_sea, np.nan)
            slope = np.asarray(fit_plane(at_sea, stations, stations.clipped_z, PRIORS["p"], np).along_z)
            log_pressure = at_sea - slope * stations.clipped_z
        u, v = (np.where(np.isfinite(values[name]), values[name], np.nan) for name in ("u", "v"))
        places = np.stack([stations.x, stations.y], axis=-1)
        both = np.concatenate([places, self.places])
        data = PinnData.of(
            since, places, self.latitude, u, v, log_pressure, coriolis=self.settings.coriolis,
            reach=(both.min(axis=0), both.max(axis=0)),
        )  # fmt: skip
        return data, since, slope


def _column(lift: StationLift, values: Mapping[str, Array], plane: Plane | None) -> tuple[Plane, Array]:
    """Return the profile of temperature of each moment, and the departure of each station from it, K."""
    stations, shape = lift.stations, np.shape(values["p"])
    if "t" not in values:
        return Plane.vertical(np.full((*shape[:-1], 1), -lapse_standard), T_standard), np.zeros(shape)
    temperature = np.where(np.isfinite(values["t"]), values["t"], np.nan).astype(np.float64)
    column = fit_plane(temperature, stations, stations.z, PRIORS["t"], np) if plane is None else plane
    warmth = temperature - column.at(stations, stations.z)
    return column, np.where(np.isnan(warmth), 0.0, warmth)
