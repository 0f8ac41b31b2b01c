"""Cross-validation of a lift: stations are left out and estimated from the others.

Leave-station-out removes one station at a time, from weights and profiles alike. Blocked by distance also removes
every station within a radius, so that no close neighbour stands in for it: this gives the error far from stations,
where most cells of a grid lie. In folds, a fifth of the stations is left out at once: what a network that is fitted to
the stations can afford (`fields.lift.folds`), and then every method is scored so.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fields.checks import are_at_one_place, require_numbers, twin_stations
from fields.errors import DataError, UsageError, is_finite_number, is_whole
from fields.grid import LocalMetric
from fields.lift.error_scores import ErrorScores, score_errors
from fields.lift.folds import fold_estimates, folds_of, pinn_of_first_fold, two_weeks
from fields.lift.methods import LIFT_METHODS, LiftSettings, StationLift
from fields.lift.pinn_lift import require_enough
from fields.lift.pinn_settings import LONGEST_DAYS, PINN, PinnSettings
from fields.lift.profiles import PRIORS
from fields.places import Places, PlacesLike, coordinates_of
from fields.progress import Tracker, Watcher
from fields.times import DAY, to_datetime64, utc_seconds
from fields.variables import STATE_VARIABLES, PressureKind, display_unit, to_display

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CrossValidation", "cross_validate", "left_out_estimates", "scattered_times"]

logger = logging.getLogger(__name__)

# Errors of neighbouring hours are correlated: this many moments give the same score as all of them.
MOMENTS = 700

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """Scores of lift methods at stations left out.

    Parameters
    ----------
    rmse, bias : by variable and method, in display units (m/s, hPa, K, %)
    count : number of observations by variable
    stations, moments : size of the sample
    block_km : radius within which other stations were left out as well; None for the station alone
    folds : parts of the network that were left out in turn; None where stations were, one by one
    errors : scores of the standard deviations of these errors, by variable and method
    """

    rmse: dict[str, dict[str, float]]
    bias: dict[str, dict[str, float]]
    count: dict[str, int]
    stations: int
    moments: int
    block_km: float | None
    folds: int | None = None
    errors: dict[str, dict[str, ErrorScores]] = field(default_factory=dict)

    def error_rows(self) -> list[list[str]]:
        """Return the lines of a table of the standard deviations: coverage of one and of 90 %, and CRPS, by method."""
        return [
            [name, display_unit(name, difference=True),
             *(cell for one in by_method.values()
               for cell in (f"{one.within_one:.1%}", f"{one.within_90:.1%}", f"{one.crps:.3f}"))]
            for name, by_method in self.errors.items()
        ]  # fmt: skip

    def rows(self) -> list[list[str]]:
        """Return the lines of a table: variable, unit, and the root mean square error of each method."""
        return [
            [name, display_unit(name, difference=True), *(f"{error:.3f}" for error in by_method.values())]
            for name, by_method in self.rmse.items()
        ]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the root mean square errors as ``{"t": {"idw": rmse, …}, …}``."""
        return {name: dict(by_method) for name, by_method in self.rmse.items()}


def scattered_times(length: int, step_seconds: float, most: int = MOMENTS) -> slice:
    """Choose at most ``most`` moments of a record of ``length`` steps, so that every hour of the day is among them."""
    stride = max(1, math.ceil(length / most))
    a_day = round(DAY / step_seconds) if step_seconds > 0 else 1
    while a_day > 1 and math.gcd(stride, a_day) != 1:
        stride += 1
    return slice(0, length, stride)


def left_out_estimates(
    values: Mapping[str, Array],
    places: PlacesLike,
    settings: LiftSettings,
    *,
    block_m: float = 0.0,
    station_pressure: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Array]:
    """Estimate each station's values without the station itself and without its close neighbours.

    Parameters
    ----------
    values : by variable, ``[time, station]``, SI, NaN = missing
    places : `Places`, or a tuple of latitude, longitude [degrees] and altitude [m] of the stations
    settings : the lift to use
    block_m : metres; stations within this distance are left out as well
    station_pressure : whether ``p`` is pressure at the station; reduced pressure has no profile
    progress : called with the number of stations done and their total

    Returns
    -------
    By variable, ``[time, station]``
    """
    lat, lon, _ = coordinates_of(places)
    metric = LocalMetric.around(lat, lon)
    xy = metric.xy(lat, lon)
    n = len(xy)
    if n < 2:
        raise DataError("one station cannot be estimated from the others", code="SPDE-D086", do="add stations")
    gaps = np.hypot(*(xy[:, None, :] - xy[None, :, :]).transpose(2, 0, 1))
    excluded = (gaps <= block_m) | np.eye(n, dtype=bool)
    lift = StationLift.between(places, places, settings, metric=metric, excluded=excluded)
    profiled = [name for name in values if name in PRIORS] if LIFT_METHODS[settings.method].detrends else []
    estimates = {name: lift.weights.apply(values[name], coverage=False)[0] for name in values if name not in profiled}
    if profiled:
        estimates.update({name: np.full(values[name].shape, np.nan, values[name].dtype) for name in profiled})
        for station in range(n):
            # The profile, too, is fitted without the stations left out.
            others = {name: np.where(excluded[station], np.nan, values[name]) for name in profiled}
            target = lift.to_targets(slice(station, station + 1))
            means = target({k: v.astype(values[k].dtype) for k, v in others.items()}, station_pressure=station_pressure)
            for name in profiled:
                estimates[name][:, station] = means.values[name][:, 0]
            if progress is not None:
                progress(station + 1, n)
    return estimates


def cross_validate(
    ds: xr.Dataset,
    methods: Sequence[str] = tuple(LIFT_METHODS),
    *,
    settings: LiftSettings | None = None,
    block_km: float | None = None,
    moments: int = MOMENTS,
    folds: bool = False,
    error: bool = False,
    pinn: PinnSettings | None = None,
    announce: Callable[[str], None] | None = None,
    watcher: Watcher | None = None,
) -> CrossValidation:
    """Compare lift methods by leaving stations out and estimating them from the others.

    Parameters
    ----------
    ds : observations of stations, SI, NaN = missing
    methods : names of `LIFT_METHODS` to compare, and ``pinn``, with which all are scored in folds
    settings : neighbours and distance; its method is replaced by each of ``methods``
    block_km : stations within this distance are left out as well
    moments : largest number of times to score, spread over the record, or over the two weeks of folds
    folds : leave out a fifth of the stations at a time, over the two weeks in the middle of the record
    error : score the standard deviation of the error of each method as well, learned without the stations scored
    pinn : settings of the physics-guided lift; its seed also draws the folds
    announce : called with what the physics-guided lift will take, before it starts
    watcher : informed of the progress
    """
    settings = settings or LiftSettings()
    if not is_whole(moments) or moments < 1:
        raise UsageError(f"a number of moments is a whole one from 1, not {moments!r}", code="SPDE-D078",
                         do="--moments 700")  # fmt: skip
    if block_km is not None and not (is_finite_number(block_km) and block_km >= 0.0):
        raise UsageError(f"a distance is a finite number of km from 0, not {block_km!r}", code="SPDE-D078",
                         do="--block-km 100")  # fmt: skip
    pinn = pinn or PinnSettings()
    folds = folds or PINN in methods
    if folds and block_km:
        raise UsageError("a distance around single stations says nothing about folds of them", code="SPDE-D078",
                         do="leave out --block-km, or --folds and the method pinn")  # fmt: skip
    require_numbers(ds)
    has_altitude = np.isfinite(ds["alt"].values)
    if not has_altitude.all():
        logger.warning("%d stations without altitude are left out", int((~has_altitude).sum()))
        ds = ds.isel(station=np.flatnonzero(has_altitude))
    times = to_datetime64(utc_seconds(ds["time"]))
    step = float(np.median(np.diff(times)) / np.timedelta64(1, "s")) if len(times) > 1 else 0.0
    sample = ds.isel(time=_of_folds(len(times), step, moments) if folds else scattered_times(len(times), step, moments))
    # A reference pressure in place of observations would be scored against the formula that it was computed by.
    scored = [n for n in STATE_VARIABLES if n != "p" or PressureKind.of(ds.attrs) != PressureKind.STANDARD_ATMOSPHERE]
    sample = sample.transpose("time", "station", ...)
    values = {name: np.asarray(sample[name].values, np.float32) for name in scored if name in sample}
    values = {name: array for name, array in values.items() if np.isfinite(array).any()}
    stations = Places.from_dataset(ds)
    _warn_of_twins(values, stations)
    station_pressure = PressureKind.of(ds.attrs) != PressureKind.SEA_LEVEL
    rmse: dict[str, dict[str, float]] = {name: {} for name in values}
    bias: dict[str, dict[str, float]] = {name: {} for name in values}
    errors: dict[str, dict[str, ErrorScores]] = {name: {} for name in values} if error else {}
    tracker = Tracker(watcher)
    seconds = utc_seconds(sample["time"]).astype(np.float64)
    fold = folds_of(len(stations), pinn.seed) if folds else None
    if PINN in methods:
        require_enough(values, stations.lat, stations.lon, len(seconds))
        assert fold is not None
        first, seen = pinn_of_first_fold(values, stations, settings, fold, pinn)
        cost = first.cost(seen, seconds, int(fold.max()) + 1, station_pressure=station_pressure)
        if announce is not None:
            announce(f"pinn: {cost}")
    for method in methods:
        is_guided = method == PINN
        chosen = replace(settings, method="detrended" if is_guided else method)
        if fold is not None:
            estimates = fold_estimates(
                values, stations, chosen, fold, seconds=seconds, pinn=pinn if is_guided else None,
                station_pressure=station_pressure,
                progress=partial(_report_progress, tracker, method, unit="steps" if is_guided else "folds"),
            )  # fmt: skip
        else:
            estimates = left_out_estimates(
                values,
                stations,
                chosen,
                block_m=1e3 * (block_km or 0.0),
                station_pressure=station_pressure,
                progress=partial(_report_progress, tracker, method),
            )
        for name, array in values.items():
            missed = estimates[name].astype(np.float64) - array
            missed = missed[np.isfinite(missed)]
            if not missed.size:
                raise _nothing_left(name, stations, block_km)
            rmse[name][method] = float(to_display(name, np.sqrt(np.mean(missed**2)), difference=True))
            bias[name][method] = float(to_display(name, np.mean(missed), difference=True))
        if error:
            scored_errors = score_errors(
                values, estimates, stations, chosen, fold=fold, block_m=1e3 * (block_km or 0.0),
                is_guided=is_guided, station_pressure=station_pressure,
            )  # fmt: skip
            for name, one in scored_errors.items():
                errors[name][method] = one
    count = {name: int(np.isfinite(array).sum()) for name, array in values.items()}
    parts = None if fold is None else int(fold.max()) + 1
    return CrossValidation(rmse, bias, count, len(stations), sample.sizes["time"], block_km, parts, errors)


def _of_folds(length: int, step_seconds: float, moments: int) -> slice:
    """Return the steps of two weeks in the middle of a record, at most so many, evenly spaced."""
    whole = two_weeks(length, step_seconds, LONGEST_DAYS)
    return slice(whole.start, whole.stop, max(1, math.ceil((whole.stop - whole.start) / moments)))


def _warn_of_twins(values: Mapping[str, Array], stations: Places) -> None:
    """Tell of stations that are there under two ids: each is estimated from its own values."""
    pairs = twin_stations(values, stations.lat, stations.lon)
    if pairs:
        named = ", ".join(f"{stations.id[one]} = {stations.id[two]}" for one, two in pairs[:3])
        logger.warning("%d stations have the values of another (%s): errors are too small; leave them out when "
                       "ingesting, with --drop", len(pairs), named)  # fmt: skip


def _nothing_left(name: str, stations: Places, block_km: float | None) -> DataError:
    """Build the error for a variable that no station could be estimated in."""
    what = f"no station is left to estimate `{name}` from"
    if are_at_one_place(stations.lat, stations.lon):
        return DataError(
            f"{what}: all {len(stations)} stations stand at one place", code="SPDE-D086",
            do="write each station's own latitude and longitude into the source, and ingest it again",
        )  # fmt: skip
    if not block_km:
        return DataError(f"{what}: fewer than two stations report it at once", code="SPDE-D086", do="add stations")
    return DataError(what, code="SPDE-D086", do="a smaller --block-km")


def _report_progress(tracker: Tracker, method: str, done: int, total: int, unit: str = "stations") -> None:
    tracker(method, done, total, unit)
