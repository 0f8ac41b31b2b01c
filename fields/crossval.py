"""How well a lift knows what it was not told: stations left out and estimated from the others.

Leave-station-out removes one station at a time, weights and profiles included. Blocked by distance also removes every
station within a radius, so that a close neighbour cannot answer for it: the error far from stations, as most cells
of a grid are.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fields.errors import DataError
from fields.geometry import LocalMetric
from fields.lift_methods import LIFT_METHODS, LiftSettings, StationLift
from fields.profiles import PRIORS
from fields.progress import Tracker, Watcher
from fields.variables import STATE_VARIABLES, display_unit, to_display

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CrossValidation", "cross_validate", "left_out_estimates", "scattered_times"]

logger = logging.getLogger(__name__)

# Errors of neighbouring hours repeat each other: this many moments tell as much as all of them.
MOMENTS = 700
_DAY = 86_400.0

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """Root mean square errors by variable and method, in the units people read (m/s, hPa, K, %)."""

    rmse: dict[str, dict[str, float]]
    bias: dict[str, dict[str, float]]
    count: dict[str, int]
    stations: int
    moments: int
    block_km: float | None

    def rows(self) -> list[list[str]]:
        """A table for people: variable, unit, and the error of each method."""
        return [
            [name, display_unit(name, difference=True), *(f"{error:.3f}" for error in by_method.values())]
            for name, by_method in self.rmse.items()
        ]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """``{"t": {"idw": rmse, …}, …}``."""
        return {name: dict(by_method) for name, by_method in self.rmse.items()}


def scattered_times(length: int, step_seconds: float, most: int = MOMENTS) -> slice:
    """At most ``most`` moments spread over a record so that every hour of the day comes up."""
    stride = max(1, math.ceil(length / most))
    a_day = round(_DAY / step_seconds) if step_seconds > 0 else 1
    while a_day > 1 and math.gcd(stride, a_day) != 1:
        stride += 1
    return slice(0, length, stride)


def left_out_estimates(
    values: Mapping[str, Array],
    places: tuple[Array, Array, Array],
    settings: LiftSettings,
    *,
    block_m: float = 0.0,
    station_pressure: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Array]:
    """Each station's values ``[time, station]`` as estimated without it and without stations within ``block_m`` of it.

    ``places`` are latitude, longitude [degrees] and altitude [m] of the stations.
    """
    metric = LocalMetric.around(places[0], places[1])
    xy = metric.xy(places[0], places[1])
    n = len(xy)
    if n < 2:
        raise DataError("one station cannot be estimated from the others", code="SPDE-D086", do="add stations")
    gaps = np.hypot(*(xy[:, None, :] - xy[None, :, :]).transpose(2, 0, 1))
    excluded = (gaps <= block_m) | np.eye(n, dtype=bool)
    lift = StationLift.between(places, places, settings, metric=metric, excluded=excluded)
    profiled = [name for name in values if name in PRIORS] if LIFT_METHODS[settings.method].detrends else []
    found = {name: lift.weights.apply(values[name], coverage=False)[0] for name in values if name not in profiled}
    if profiled:
        found.update({name: np.full(values[name].shape, np.nan, values[name].dtype) for name in profiled})
        for station in range(n):
            # The profile, too, is fitted without what is left out.
            known = {name: np.where(excluded[station], np.nan, values[name]) for name in profiled}
            alone = lift.to_targets(slice(station, station + 1))
            means = alone({k: v.astype(values[k].dtype) for k, v in known.items()}, station_pressure=station_pressure)
            for name in profiled:
                found[name][:, station] = means.values[name][:, 0]
            if progress is not None:
                progress(station + 1, n)
    return found


def cross_validate(
    ds: xr.Dataset,
    methods: Sequence[str] = tuple(LIFT_METHODS),
    *,
    settings: LiftSettings | None = None,
    block_km: float | None = None,
    moments: int = MOMENTS,
    watcher: Watcher | None = None,
) -> CrossValidation:
    """Score lift methods on a station dataset (SI, NaN = missing).

    Parameters
    ----------
    settings : neighbours and distance; its method is replaced by each of ``methods``
    block_km : leave out everything within this distance as well
    moments : at most so many times, spread over the record
    """
    settings = settings or LiftSettings()
    placed = np.isfinite(ds["alt"].values)
    if not placed.all():
        logger.warning("%d stations without altitude are left out", int((~placed).sum()))
        ds = ds.isel(station=np.flatnonzero(placed))
    times = ds["time"].values
    step = float(np.median(np.diff(times)) / np.timedelta64(1, "s")) if len(times) > 1 else 0.0
    some = ds.isel(time=scattered_times(len(times), step, moments))
    # A pressure that was put in the place of observations would be scored against the formula it came from.
    scored = [n for n in STATE_VARIABLES if n != "p" or ds.attrs.get("pressure_kind") != "standard_atmosphere"]
    values = {name: np.asarray(some[name].values, np.float32) for name in scored if name in some}
    values = {name: array for name, array in values.items() if np.isfinite(array).any()}
    lat, lon, alt = (np.asarray(ds[name].values, np.float64) for name in ("lat", "lon", "alt"))
    station_pressure = ds.attrs.get("pressure_kind", "station") != "sea_level"
    rmse: dict[str, dict[str, float]] = {name: {} for name in values}
    bias: dict[str, dict[str, float]] = {name: {} for name in values}
    tracker = Tracker(watcher)
    for method in methods:
        chosen = LiftSettings(method, settings.k, settings.power, settings.epsilon_m, settings.w_alt)
        found = left_out_estimates(
            values,
            (lat, lon, alt),
            chosen,
            block_m=1e3 * (block_km or 0.0),
            station_pressure=station_pressure,
            progress=partial(_tell, tracker, method),
        )
        for name, array in values.items():
            error = found[name].astype(np.float64) - array
            error = error[np.isfinite(error)]
            if not error.size:
                raise DataError(
                    f"no station is left to estimate `{name}` from", code="SPDE-D086", do="a smaller --block-km"
                )
            rmse[name][method] = float(to_display(name, np.sqrt(np.mean(error**2)), difference=True))
            bias[name][method] = float(to_display(name, np.mean(error), difference=True))
    count = {name: int(np.isfinite(array).sum()) for name, array in values.items()}
    return CrossValidation(rmse, bias, count, len(lat), some.sizes["time"], block_km)


def _tell(tracker: Tracker, method: str, done: int, total: int) -> None:
    tracker(method, done, total, "stations")
