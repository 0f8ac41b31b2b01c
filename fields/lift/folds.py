"""Score lifts on folds of stations: each fold is estimated from the others, by every method alike.

Leaving out one station at a time takes as many fits as there are stations, too many for a network that is trained. Here
all methods see the same five parts of the stations, and the same two weeks of a longer record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fields.grid import LocalMetric
from fields.lift.methods import LiftSettings, StationLift
from fields.lift.pinn_lift import PinnLift
from fields.lift.pinn_settings import PinnSettings
from fields.places import PlacesLike, coordinates_of
from fields.times import DAY

__all__ = ["FOLDS", "fold_estimates", "folds_of", "pinn_of_first_fold", "two_weeks"]

Array = NDArray[Any]

FOLDS = 5


def two_weeks(length: int, step_seconds: float, days: float) -> slice:
    """Return the steps in the middle of a record that span at most so many days."""
    most = length if step_seconds <= 0 else max(1, int(days * DAY / step_seconds))
    first = max(0, (length - most) // 2)
    return slice(first, min(length, first + most))


def folds_of(stations: int, seed: int, folds: int = FOLDS) -> Array:
    """Return the number of the fold of each station, drawn from a seed; folds differ by a station at most."""
    fold = np.empty(stations, np.int64)
    fold[np.random.default_rng(seed).permutation(stations)] = np.arange(stations) % min(folds, stations)
    return fold


def fold_estimates(
    values: Mapping[str, Array],
    places: PlacesLike,
    settings: LiftSettings,
    fold: Array,
    *,
    seconds: Array,
    pinn: PinnSettings | None = None,
    station_pressure: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Array]:
    """Estimate each station's values from the stations of the other folds.

    Parameters
    ----------
    values : by variable, ``[time, station]``, SI, NaN = missing
    places : `Places`, or a tuple of latitude, longitude [degrees] and altitude [m] of the stations
    settings : the lift, or neighbours and distance of the physics-guided one
    fold : number of each station's fold
    seconds : of the times
    pinn : settings of the physics-guided lift, to use it
    station_pressure : whether ``p`` is pressure at the station
    progress : called with what is done and the total: folds, or steps of training

    Returns
    -------
    By variable, ``[time, station]``
    """
    metric = LocalMetric.around(*coordinates_of(places)[:2])
    estimates = {name: np.full(array.shape, np.nan, array.dtype) for name, array in values.items()}
    total = int(fold.max()) + 1
    for number in range(total):
        near, far = _split(places, fold, number)
        seen = {name: array[:, fold != number] for name, array in values.items()}
        if pinn is None:
            lift = StationLift.between(near, far, settings, metric=metric)
            means = lift(seen, station_pressure=station_pressure)
        else:
            guided = PinnLift.between(near, far, pinn, settings, metric=metric)
            means = guided(
                seen, seconds, station_pressure=station_pressure, progress=_part(progress, number, total)
            )  # fmt: skip
        for name in values:
            estimates[name][:, fold == number] = means.values[name]
        if progress is not None and pinn is None:
            progress(number + 1, total)
    return estimates


def pinn_of_first_fold(
    values: Mapping[str, Array], places: PlacesLike, settings: LiftSettings, fold: Array, pinn: PinnSettings
) -> tuple[PinnLift, dict[str, Array]]:
    """Return the physics-guided lift of the first fold and what it sees, to measure what it takes."""
    near, far = _split(places, fold, 0)
    seen = {name: array[:, fold != 0] for name, array in values.items()}
    return PinnLift.between(near, far, pinn, settings), seen


def _split(places: PlacesLike, fold: Array, number: int) -> tuple[PlacesLike, PlacesLike]:
    lat, lon, alt = coordinates_of(places)
    here, there = fold != number, fold == number
    return (lat[here], lon[here], alt[here]), (lat[there], lon[there], alt[there])


def _part(progress: Callable[[int, int], None] | None, number: int, total: int) -> Callable[[int, int], None] | None:
    """Return a function that reports the steps of one network among those of all folds."""
    return None if progress is None else lambda done, steps: progress(number * steps + done, total * steps)
