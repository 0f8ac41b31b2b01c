"""Variables beside the state in a forecast: values and quantiles at its stations, from the fits of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from fields.variables import cf_attributes, variable
from stationpde.extras import ExtraForecaster, extras_of
from stationpde.forecasting.uncertain import DEFAULT_LEVELS
from stationpde.physics import clipped
from stationpde.uncertainty import SampledDistributions

if TYPE_CHECKING:
    from stationpde.data import HistoryWindow
    from stationpde.model import Forecast, StationPDEModel
    from stationpde.runs import LoadedRun

__all__ = ["extras_at", "with_extras"]

Array = np.ndarray[Any, Any]
Parts = tuple[dict[str, Array], dict[str, Array]]


def extras_at(run: LoadedRun, model: StationPDEModel, output: Forecast, window: HistoryWindow) -> Parts:
    """Return values and quantiles ``[lead, station]`` of the extra variables of a run; none without a fit."""
    extras = extras_of(run)
    if extras is None:
        return {}, {}
    place = {name: i for i, name in enumerate(window.stations.id)}
    rows = np.array([place.get(name, -1) for name in model.sites.stations.id])
    steps = model.config.data.history

    def here(values: Array) -> Array:
        shape = (-1, *([1] * (values.ndim - 2)))
        return np.where((rows >= 0).reshape(shape), values[-steps:, rows], np.float32(np.nan))[None]

    history = output.observed.new_tensor(here(window.values))
    reports = {name: here(values) for name, values in window.extras.items()}
    values, quantiles = ExtraForecaster.of(model, extras).predict(
        clipped(output.observed), history, reports, np.array([window.issue_time])
    )
    return {name: part[0] for name, part in values.items()}, {name: part[0] for name, part in quantiles.items()}


def with_extras(forecast: xr.Dataset, parts: Sequence[Parts], levels: Sequence[float] | None) -> xr.Dataset:
    """Add the extra variables of all runs to a forecast: their mean, spread of several, and mean quantiles."""
    names = [name for name in parts[0][0] if all(name in values for values, _ in parts)]
    kept_levels = DEFAULT_LEVELS if levels is None else tuple(levels)
    variables: dict[str, Any] = {}
    for name in names:
        members = np.stack([values[name] for values, _ in parts])
        about = cf_attributes(name)
        variables[name] = (("time", "station"), members.mean(axis=0).astype(np.float32), about)
        if len(parts) > 1:
            long_name = f"{about['long_name']}, standard deviation of {len(parts)} members"
            spread = members.std(axis=0, ddof=1).astype(np.float32)
            variables[f"{name}_spread"] = (("time", "station"), spread, {**about, "long_name": long_name})
        if kept_levels and all(name in quantiles for _, quantiles in parts):
            # The mean of quantile functions keeps the width that the members have.
            whole = SampledDistributions({name: np.mean([quantiles[name] for _, quantiles in parts], axis=0)[None]})
            low, high = _bounds(name)
            cells = np.clip(np.moveaxis(whole.quantiles(name, kept_levels)[0], -1, 0), low, high)
            long_name = f"{about['long_name']}, quantiles"
            variables[f"{name}_quantile"] = (
                ("quantile", "time", "station"), cells.astype(np.float32), {**about, "long_name": long_name}
            )  # fmt: skip
    if any(name.endswith("_quantile") for name in variables):
        about_level = {"units": "1", "long_name": "Level of the quantile: probability of a lower value"}
        forecast = forecast.assign_coords(quantile=("quantile", np.asarray(kept_levels, np.float64), about_level))
    return forecast.assign(variables)


def _bounds(name: str) -> tuple[float, float]:
    low, high = variable(name).hard
    return (0.0 if name == "radiation" else low), high
