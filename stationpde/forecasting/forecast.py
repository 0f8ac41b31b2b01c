"""Forecasts as datasets: one run or a seed ensemble, at the stations that report, those of training, and new ones.

Every station of training is forecast, reporting or not, at its present place. Further stations of the observations or
of the request are new to the model: their forecast is read from the field. Before a model runs, the observations pass
the gates (`stationpde.forecasting.gates`).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import xarray as xr

from fields.errors import locate, printable
from fields.ingest import IngestOptions
from fields.times import format_time
from stationpde.data import HistoryWindow, Observations, WindowRequest, read_window
from stationpde.errors import TrainingDivergedError, UsageError
from stationpde.forecasting.audit import Audit, audit, combined
from stationpde.forecasting.dataset import forecast_dataset
from stationpde.forecasting.extra_variables import extras_at, with_extras
from stationpde.forecasting.gates import (
    Gates,
    check_cadence,
    check_clamped,
    check_history,
    check_horizon,
    check_network,
    check_requested,
    check_time_of_day,
    check_values,
)
from stationpde.forecasting.places import merge_stations, read_stations, with_altitudes
from stationpde.forecasting.uncertain import (
    calibrations_of,
    check_members,
    distributions_at,
    with_distributions,
)
from stationpde.physics import clipped
from stationpde.uncertainty import Threshold, checked_levels, joined

if TYPE_CHECKING:
    from stationpde.model import Forecast, StationPDEModel
    from stationpde.runs import LoadedRun

__all__ = [
    "ForecastRequest", "ForecastStart", "audit_of", "check_result", "forecast", "request_for", "run_model", "start_of",
]  # fmt: skip

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """What a forecast starts from, and where and how far it reaches.

    Attributes
    ----------
    at : issue time (UTC) as text, a datetime or seconds; ``latest`` for the latest report.
    stations : further places to forecast, see `read_stations`.
    horizon : number of steps; None for that of training.
    max_age : largest age of the latest report [s]; None sets no limit.
    now : present time (s since 1970, UTC); None reads the clock.
    options : how raw files are read.
    accept : names of what is not refused, see `stationpde.forecasting.acceptance`.
    quantiles : levels of quantiles; None for `DEFAULT_LEVELS` where every run is calibrated, empty for none.
    exceed : thresholds whose probability is wanted, such as ``wind_speed > 15 m/s``.
    members : number of joint scenarios; 0 for none.
    """

    at: Any = "latest"
    stations: Any = None
    horizon: int | None = None
    max_age: int | None = None
    now: int | None = None
    options: IngestOptions | None = None
    accept: tuple[str, ...] = ()
    quantiles: tuple[float, ...] | None = None
    exceed: tuple[str, ...] = ()
    members: int = 0

    def __post_init__(self) -> None:
        if self.quantiles:
            object.__setattr__(self, "quantiles", checked_levels(self.quantiles))
        for text in self.exceed:
            Threshold.parse(text)
        check_members(self.members)
        whole, age = self.horizon, self.max_age
        if whole is not None and (isinstance(whole, bool) or not isinstance(whole, Integral)):
            raise UsageError(
                f"a forecast reaches a whole number of steps ahead, not {printable(repr(whole)[:80])}",
                code="SPDE-T111", do="give `horizon` as a whole number, 1 at least",
            )  # fmt: skip
        if age is not None and (isinstance(age, bool) or not isinstance(age, Real) or not age >= 0):
            raise UsageError(
                f"an age is a span of time, not {printable(repr(age)[:80])}", code="SPDE-T120",
                do="give `max_age` in seconds or as text such as 3h",
            )  # fmt: skip
        if self.options is not None and not isinstance(self.options, IngestOptions):
            raise UsageError(
                f"options for reading are needed, not {type(self.options).__name__}", code="SPDE-T120",
                do="give `options` as fields.ingest.IngestOptions",
            )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ForecastStart:
    """What forecasts start from, past the gates.

    ``models`` stand at the ``reporters`` first stations, which may report, and at the requested places after them.
    """

    window: HistoryWindow
    models: list[StationPDEModel]
    reporters: int
    horizon: int
    gates: Gates


def forecast(
    runs: Sequence[LoadedRun],
    observations: Observations,
    request: ForecastRequest = ForecastRequest(),  # noqa: B008 - frozen
) -> xr.Dataset:
    """Return the forecast of one run, or mean and spread of several.

    Parameters
    ----------
    runs : runs with the same step; the shortest horizon holds.
    observations : a store, a table, a CF file, ``demo``, or a dataset with ``time`` and ``station``.
    request : issue time, further stations, horizon, largest age.

    Returns
    -------
    Dimensions ``time`` (valid time, with the coordinate ``lead`` in hours) and ``station``; SI with CF attributes.

    Raises
    ------
    DataError, StaleDataError
        If there is nothing to start from, or a gate refuses it.
    UsageError
        If the horizon is longer than that of training, and that was not accepted; or if quantiles or probabilities
        are wanted of a run that is not calibrated.
    TrainingDivergedError
        If a number of the forecast is not finite.
    """
    calibrations = calibrations_of(runs, request)
    start = start_of(runs, observations, request)
    window, models = start.window, start.models
    members, audits, parts, more = [], [], [], []
    leads = min(start.horizon, *(run.model.config.data.horizon for run in runs))
    if calibrations and leads < start.horizon:
        start.gates.warn(f"quantiles, probabilities and scenarios end {leads} steps ahead, as the calibration does")
    for number, model in enumerate(models):
        output, present = run_model(model, window, start.horizon)
        more.append(extras_at(runs[number], model, output, window))
        audits.append(audit_of(model, output, present, window))
        members.append(clipped(output.observed)[0].double().cpu().numpy())
        if calibrations:
            history, _ = history_of(model, window)
            parts.append(distributions_at(calibrations[number], model, output, history, window.issue_time, leads))
    checked = combined(audits)
    check_result(start, checked, runs)
    result = with_extras(forecast_dataset(np.stack(members), start, present, checked, runs), more, request.quantiles)
    if not parts:
        return result
    copula = calibrations[0].copula
    return with_distributions(result, joined(parts), request, copula, models[0].sites.stations, window.issue_time)


def start_of(runs: Sequence[LoadedRun], observations: Observations, request: ForecastRequest) -> ForecastStart:
    """Read the history, hold it against what every run was trained on, and place the models at the stations.

    Raises
    ------
    DataError, StaleDataError
        If there is nothing to start from, or a gate refuses it.
    UsageError
        If the horizon is longer than that of training.
    """
    gates = Gates(request.accept)
    trained_horizon = min(run.model.config.data.horizon for run in runs)
    check_horizon(gates, request.horizon, trained_horizon)
    places = read_stations(request.stations)
    window = read_window(observations, request_for(runs, request), request.options)
    for note in window.notes:
        gates.warn(note)
    for run in runs:
        gates.label = locate(window.label, run.path.name if len(runs) > 1 else "")
        _check_window(gates, run.model, window)
        check_requested(gates, run.model.statistics.stations, run.model.region, places)
    gates.close()
    trained = runs[0].model.statistics.stations
    reporters = len(merge_stations(trained, window.stations))
    stations = merge_stations(trained, window.stations, places)
    models = [run.model.at(with_altitudes(run.model, stations), reporters) for run in runs]
    horizon = trained_horizon if request.horizon is None else request.horizon
    lengths = sorted({run.model.config.data.horizon for run in runs})
    if request.horizon is None and len(lengths) > 1:
        gates.warn(f"the runs were trained for {', '.join(map(str, lengths))} steps ahead: the forecast has {horizon}")
    return ForecastStart(window, models, reporters, horizon, gates)


def check_result(start: ForecastStart, checked: Audit, runs: Sequence[LoadedRun]) -> None:
    """Refuse a forecast that is not finite, or much of which no air has."""
    if not checked.finite:
        raise TrainingDivergedError(
            f"the forecast from {format_time(start.window.issue_time)} is not finite", code="SPDE-T093",
            where=str(runs[0].path),
            do=f"stationpde run verify {shlex.quote(str(runs[0].path))}; if it is whole, train again with a smaller "
            "train.lr",
        )  # fmt: skip
    check_clamped(start.gates, checked.clamped)
    start.gates.close()


def _check_window(gates: Gates, model: StationPDEModel, window: HistoryWindow) -> None:
    """Hold a history against what a model was trained on."""
    statistics, data = model.statistics, model.config.data
    reporting = window.reporting
    observed, values = window.stations.take(reporting), window.values[-data.history :, reporting]
    times = window.issue_time + data.step_seconds * np.arange(1 - data.history, 1)
    check_network(gates, statistics.stations, model.region, observed, window.present[reporting])
    check_cadence(gates, window.reporting_step, data.step_seconds)
    climatology = statistics.climatology
    check_time_of_day(gates, window.issue_time, climatology.origin, climatology.slot_seconds)
    check_history(gates, window.coverage(data.history, statistics.stations), data.step_seconds)
    check_values(gates, statistics, observed, values, times, window.reference)


def request_for(runs: Sequence[LoadedRun], request: ForecastRequest) -> WindowRequest:
    """Return the request for a history that all runs can start from.

    Raises
    ------
    UsageError
        If the runs differ in their step, in the quality flags that count, or in what stands in for observations.
    """
    first = runs[0].model.config.data
    steps = {run.model.config.data.step_seconds for run in runs}
    if len(steps) > 1:
        raise UsageError(
            f"the runs have different steps: {', '.join(f'{s} s' for s in sorted(steps))}", code="SPDE-T094",
            do="give runs that differ in their seed",
        )  # fmt: skip
    qualities = {run.model.config.data.quality for run in runs}
    if len(qualities) > 1:
        raise UsageError(
            f"the runs have different settings of data.quality: {', '.join(sorted(qualities))}", code="SPDE-T094",
            do="give runs that differ in their seed",
        )  # fmt: skip
    substitutes = {tuple(sorted(run.model.config.data.missing.items())) for run in runs}
    if len(substitutes) > 1:
        named = (", ".join(f"{k}={v}" for k, v in chosen) or "none" for chosen in sorted(substitutes))
        raise UsageError(
            f"the runs have different settings of data.missing: {'; '.join(named)}", code="SPDE-T094",
            do="give runs that differ in their seed",
        )  # fmt: skip
    places = [(run.path.resolve(), run.checkpoint) for run in runs]
    twice = [run.path for run, place in zip(runs, places, strict=True) if places.count(place) > 1]
    if twice:
        raise UsageError(
            f"{twice[0]} is given twice: an ensemble of one run has no spread", code="SPDE-T094",
            do="give runs that differ in their seed",
        )  # fmt: skip
    return WindowRequest(
        first.step_seconds,
        max(run.model.config.data.history for run in runs),
        phase=runs[0].model.statistics.climatology.origin % first.step_seconds,
        at=WindowRequest.parse_at(request.at),
        max_age=request.max_age,
        now=request.now,
        missing=first.missing,
        quality=first.quality,
        trained=runs[0].model.statistics.stations,
        extra=tuple(dict.fromkeys(name for run in runs for name in run.model.config.data.extra)),
    )


@torch.inference_mode()
def run_model(model: StationPDEModel, window: HistoryWindow, horizon: int | None = None) -> tuple[Forecast, Array]:
    """Run a model from a history; also return which of its stations report at the issue time.

    The model's stations may be more than the window's, and in another order.
    """
    values, present = history_of(model, window)
    device = model.scaling.scale.device
    history = torch.from_numpy(values)[None].to(device)
    issue = torch.tensor([window.issue_time], device=device)
    return model(history, issue, horizon, keep_fields=True), present


def history_of(model: StationPDEModel, window: HistoryWindow) -> tuple[Array, Array]:
    """Return the history at the model's stations ``[time, station, variable]``, and which report at the issue time."""
    place = {name: i for i, name in enumerate(window.stations.id)}
    rows = np.array([place.get(name, -1) for name in model.sites.stations.id])
    steps = model.config.data.history
    values = np.where(rows[:, None] >= 0, window.values[-steps:, rows], np.float32(np.nan))
    return np.ascontiguousarray(values), np.where(rows >= 0, window.present[rows], False)


def audit_of(model: StationPDEModel, output: Forecast, present: Array, window: HistoryWindow) -> Audit:
    """Audit a forecast that `run_model` computed from a history."""
    coverage = window.coverage(model.config.data.history, model.statistics.stations)
    return audit(model, output, present, window.rejected, coverage)
