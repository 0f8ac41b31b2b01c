"""Errors of the physics-guided lift, from one more network that has not seen a fifth of the stations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fields.grid import LocalMetric
from fields.lift.folds import folds_of
from fields.lift.lift_error import HiddenErrors
from fields.lift.methods import LiftSettings
from fields.lift.pinn_lift import CARRIED, FEWEST_STATIONS, PinnLift
from fields.lift.remoteness import remoteness
from fields.places import Places
from fields.times import utc_seconds

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["pinn_errors"]

logger = logging.getLogger(__name__)


def pinn_errors(
    ds: xr.Dataset, names: Sequence[str], stations: Places, guided: PinnLift, steps: int, settings: LiftSettings, *,
    station_pressure: bool,
) -> dict[str, HiddenErrors]:  # fmt: skip
    """Fit a network to the window in the middle of a record without a fifth of the stations.

    Parameters
    ----------
    ds : observations at ``stations``
    steps : length of a window
    """
    fold = folds_of(len(stations), guided.settings.seed)
    near, far = stations.take(fold != 0), stations.take(fold == 0)
    if len(near) < FEWEST_STATIONS or not len(far):
        logger.warning("too few stations to hide any from a network: errors are those of the detrended lift")
        return {}
    first = max(0, (ds.sizes["time"] - steps) // 2)
    window = ds[list(names)].isel(time=slice(first, first + steps)).load()
    values = {name: window[name].transpose("time", "station").values.astype(np.float32) for name in names}
    metric = LocalMetric.around(stations.lat, stations.lon)
    fewer = replace(settings, k=min(settings.k, len(near)))
    lift = PinnLift.between(near, far, guided.settings, fewer, metric=metric)
    seconds = utc_seconds(window["time"]).astype(np.float64)
    means = lift({name: array[:, fold != 0] for name, array in values.items()}, seconds,
                 station_pressure=station_pressure)  # fmt: skip
    columns, number = remoteness(far, near, metric=metric), np.flatnonzero(fold == 0)
    errors = {}
    for name in CARRIED:
        square = (means.values[name].astype(np.float64) - values[name][:, fold == 0]) ** 2
        count = np.isfinite(square).sum(axis=0)
        used = count > 0
        mean = np.nansum(square, axis=0)[used] / count[used]
        errors[name] = HiddenErrors(columns[used], mean, number[used], np.ones(int(used.sum())))
    return errors
