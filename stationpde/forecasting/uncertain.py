"""Quantiles and probabilities of a forecast, from the calibrations of its runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from fields.units import conversion
from fields.variables import cf_attributes, from_display
from stationpde.errors import UsageError
from stationpde.physics import clipped
from stationpde.uncertainty import (
    Calibration,
    Copula,
    Distributions,
    Threshold,
    calibration_of,
    scenarios,
    signals_of,
)

if TYPE_CHECKING:
    from fields.windows import Stations
    from stationpde.forecasting.forecast import ForecastRequest
    from stationpde.model import Forecast, StationPDEModel
    from stationpde.runs import LoadedRun

__all__ = ["DEFAULT_LEVELS", "Exceedance", "calibrations_of", "check_members", "distributions_at", "with_distributions"]

Array = np.ndarray[Any, Any]

MOST_MEMBERS = 1000
DEFAULT_LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def calibrations_of(runs: Sequence[LoadedRun], request: ForecastRequest) -> list[Calibration]:
    """Return the calibration of every run; none where none is needed, or one is missing that nobody named.

    Raises
    ------
    UsageError
        If quantiles or probabilities are wanted, and a run is not calibrated.
    """
    is_wanted = bool(request.quantiles or request.exceed or request.members)
    if request.quantiles == () and not is_wanted:
        return []
    calibrations = [calibration_of(run) for run in runs]
    missing = [run for run, calibration in zip(runs, calibrations, strict=True) if calibration is None]
    if not missing:
        return [calibration for calibration in calibrations if calibration is not None]
    if not is_wanted:
        return []
    run = missing[0]
    option = "" if run.checkpoint == "best" else f" --checkpoint {run.checkpoint}"
    raise UsageError(
        f"{run.path.name} is not calibrated at {run.checkpoint}: nothing is known of the errors of its forecasts",
        code="SPDE-Q012", where=str(run.path),
        do=f"stationpde calibrate {shlex.quote(str(run.path))} --obs STORE{option}",
    )  # fmt: skip


def distributions_at(
    calibration: Calibration, model: StationPDEModel, output: Forecast, history: Array, issue_time: int,
    leads: int | None = None,
) -> Distributions:  # fmt: skip
    """Return the distributions of a forecast of one window at the stations of its model; of its first ``leads``."""
    stations = model.sites.stations
    forecast = clipped(output.observed[:, :leads]).double().cpu().numpy()
    guesses = None if output.guesses is None else output.guesses[:, :, :leads].double().cpu().numpy()
    step = model.config.data.step_seconds
    signals = signals_of(history[None], forecast, np.array([issue_time]), step, stations.lon, guesses)
    trained = model.sites.number.cpu().numpy() >= 0
    return calibration.distributions(signals, stations, trained, np.asarray(np.isfinite(history).any(axis=(0, 2))))


def check_members(count: object) -> None:
    """Refuse a number of scenarios that is none.

    Raises
    ------
    UsageError
    """
    if (
        isinstance(count, bool)
        or not isinstance(count, Integral)
        or not (count == 0 or 2 <= int(count) <= MOST_MEMBERS)
    ):
        raise UsageError(
            f"scenarios are 2 to {MOST_MEMBERS:,}, not {str(count)[:40]}", code="SPDE-Q014", do="--members 20"
        )


def with_distributions(
    forecast: xr.Dataset, distributions: Distributions, request: ForecastRequest, copula: Copula | None,
    stations: Stations, issue_time: int,
) -> xr.Dataset:  # fmt: skip
    """Add quantiles, the speed of the wind, probabilities and joint scenarios to a forecast.

    Leads that no distribution reaches, beyond the horizon of training, are missing in them.
    """
    levels = DEFAULT_LEVELS if request.quantiles is None else request.quantiles
    leads = forecast.sizes["time"]
    variables: dict[str, Any] = {}
    for name in distributions.names if levels else ():
        about = cf_attributes(name)
        values = _lengthened(from_display(name, distributions.quantiles(name, (*levels, 0.5))[0]), leads, 0)
        if name not in forecast:
            variables[name] = (
                ("time", "station"), values[..., -1].astype(np.float32),
                {**about, "long_name": f"{about['long_name']}, median"},
            )  # fmt: skip
        about["long_name"] += ", quantiles"
        cells = np.moveaxis(values[..., :-1], -1, 0).astype(np.float32)
        variables[f"{name}_quantile"] = (("quantile", "time", "station"), cells, about)
    if variables:
        about_level = {"units": "1", "long_name": "Level of the quantile: probability of a lower value"}
        forecast = forecast.assign_coords(quantile=("quantile", np.asarray(levels, np.float64), about_level))
    forecast = forecast.assign(variables)
    forecast.exceedance.distributions = distributions
    for text in request.exceed:
        threshold = Threshold.parse(text)
        forecast[threshold.key] = forecast.exceedance(text)
    if request.members and copula is not None:
        drawn = scenarios(distributions, copula, stations, request.members, (issue_time,))
        number = np.arange(1, request.members + 1)
        # In place: a dataset that is assigned anew has lost the distributions of its accessor.
        forecast.coords["member"] = ("member", number, {"standard_name": "realization", "units": "1"})
        for name, values in drawn.items():
            about = cf_attributes(name)
            about["long_name"] += ", joint scenarios"
            cells = _lengthened(from_display(name, values), leads, 1).astype(np.float32)
            forecast[f"{name}_member"] = (("member", "time", "station"), cells, about)
    return forecast


def _lengthened(values: Array, leads: int, axis: int) -> Array:
    """Return values whose leads are continued by missing ones."""
    width = [(0, 0)] * values.ndim
    width[axis] = (0, leads - values.shape[axis])
    return np.pad(values.astype(np.float64), width, constant_values=np.nan)


@xr.register_dataset_accessor("exceedance")
class Exceedance:
    """Probabilities that a forecast exceeds a threshold: ``forecast.exceedance("wind_speed > 15 m/s")``.

    A forecast that was just computed has its whole distributions; from one that was read from a file, or selected from,
    they are read between its quantiles; beyond the outer ones, half of what the outer level leaves.
    """

    def __init__(self, forecast: xr.Dataset) -> None:
        self._forecast = forecast
        self.distributions: Distributions | None = None

    def __call__(self, text: str) -> xr.DataArray:
        """Return the probability over time and station.

        Raises
        ------
        UsageError
            If the threshold cannot be read, or the forecast has no distribution of its variable.
        """
        threshold, forecast = Threshold.parse(text), self._forecast
        if self.distributions is not None and threshold.name in self.distributions.names:
            below = self.distributions.probability_below(threshold.name, threshold.value)[0]
            below = _lengthened(below, forecast.sizes["time"], 0)
        elif f"{threshold.name}_quantile" in forecast:
            below = self._from_quantiles(threshold)
        else:
            raise UsageError(
                f"the forecast has no distribution of '{threshold.name}'", code="SPDE-Q013",
                do="stationpde calibrate RUN --obs STORE; then forecast again",
            )  # fmt: skip
        words = "above" if threshold.is_above else "below"
        about = {"units": "1", "long_name": f"Probability of {threshold.text}", "threshold": threshold.text}
        values = 1.0 - below if threshold.is_above else below
        certain = threshold.certain()
        if certain is not None:
            values = np.where(np.isfinite(values), certain, np.nan)
        coords = {name: forecast[name] for name in ("time", "lead", "station") if name in forecast.coords}
        return xr.DataArray(values.astype(np.float32), coords, ("time", "station"), f"{threshold.name}_{words}", about)

    def _from_quantiles(self, threshold: Threshold) -> Array:
        """Read the probability of less between the quantiles, in the unit that they have."""
        name = f"{threshold.name}_quantile"
        quantiles = self._forecast[name]
        lost = [dimension for dimension in ("time", "station", "quantile") if dimension not in quantiles.dims]
        if lost:
            raise _unreadable(f"`{name}` has no dimension `{lost[0]}`", "select with a list, such as isel(station=[0])")
        levels = np.asarray(quantiles["quantile"].values, np.float64)
        if not ((levels > 0.0) & (levels < 1.0)).all() or len(np.unique(levels)) < len(levels):
            raise _unreadable(
                "the levels of `quantile` do not lie between 0 and 1, each once", "give the forecast itself"
            )
        unit = str(quantiles.attrs.get("units", ""))
        if not unit:
            raise _unreadable(
                f"`{name}` has no units attribute", "keep the attributes: xr.set_options(keep_attrs=True)"
            )
        order = np.argsort(levels)
        cells = quantiles.transpose("time", "station", "quantile").values[..., order].astype(np.float64)
        values, levels = conversion(threshold.name, unit).to_si(cells), levels[order]
        limit = float(from_display(threshold.name, threshold.value))
        below = np.full(values.shape[:2], np.nan)
        for place in zip(*np.nonzero(np.isfinite(values).all(axis=-1)), strict=True):
            outside = {"left": 0.5 * levels[0], "right": 0.5 * (1.0 + levels[-1])}
            below[place] = np.interp(limit, values[place], levels, **outside)
        return below


def _unreadable(what: str, do: str) -> UsageError:
    return UsageError(f"no probability can be read: {what}", code="SPDE-Q013", do=do)
