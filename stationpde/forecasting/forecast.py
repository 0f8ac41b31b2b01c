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

import stationpde
from fields import atomic
from fields.errors import DataError, locate, printable
from fields.grid import check_places
from fields.ingest import IngestOptions
from fields.lift import read_points
from fields.times import format_iso, format_time, to_datetime64
from fields.variables import COORDINATES, STATE_VARIABLES, cf_attributes
from fields.windows import Stations
from stationpde.data import HistoryWindow, Observations, WindowRequest, describe_quality, read_window
from stationpde.errors import TrainingDivergedError, UsageError
from stationpde.forecasting.audit import Audit, audit, combined
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
from stationpde.physics import clipped

if TYPE_CHECKING:
    from stationpde.model import Forecast, StationPDEModel
    from stationpde.runs import LoadedRun

__all__ = [
    "ForecastRequest", "ForecastStart", "audit_of", "check_result", "forecast", "merge_stations", "read_stations",
    "request_for", "run_model", "start_of", "with_altitudes",
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
    """

    at: Any = "latest"
    stations: Any = None
    horizon: int | None = None
    max_age: int | None = None
    now: int | None = None
    options: IngestOptions | None = None
    accept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
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
        If the horizon is longer than that of training, and that was not accepted.
    TrainingDivergedError
        If a number of the forecast is not finite.
    """
    start = start_of(runs, observations, request)
    window, models = start.window, start.models
    members, audits = [], []
    for model in models:
        output, present = run_model(model, window, start.horizon)
        audits.append(audit_of(model, output, present, window))
        members.append(clipped(output.observed)[0].double().cpu().numpy())
    checked = combined(audits)
    check_result(start, checked, runs)
    return _dataset(np.stack(members), start, present, checked, runs)


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
    )


@torch.inference_mode()
def run_model(model: StationPDEModel, window: HistoryWindow, horizon: int | None = None) -> tuple[Forecast, Array]:
    """Run a model from a history; also return which of its stations report at the issue time.

    The model's stations may be more than the window's, and in another order.
    """
    place = {name: i for i, name in enumerate(window.stations.id)}
    rows = np.array([place.get(name, -1) for name in model.sites.stations.id])
    steps = model.config.data.history
    values = np.where(rows[:, None] >= 0, window.values[-steps:, rows], np.float32(np.nan))
    present = np.where(rows >= 0, window.present[rows], False)
    device = model.scaling.scale.device
    history = torch.from_numpy(np.ascontiguousarray(values))[None].to(device)
    issue = torch.tensor([window.issue_time], device=device)
    return model(history, issue, horizon, keep_fields=True), present


def audit_of(model: StationPDEModel, output: Forecast, present: Array, window: HistoryWindow) -> Audit:
    """Audit a forecast that `run_model` computed from a history."""
    coverage = window.coverage(model.config.data.history, model.statistics.stations)
    return audit(model, output, present, window.rejected, coverage)


def merge_stations(trained: Stations, observed: Stations, requested: Stations | None = None) -> Stations:
    """Merge the stations of training, at their present places, with further observed and further requested ones."""
    table = {name: (trained.lat[i], trained.lon[i], trained.alt[i]) for i, name in enumerate(trained.id)}
    for i, name in enumerate(observed.id):
        now = (observed.lat[i], observed.lon[i], observed.alt[i])
        # What is not observed of a trained station's place is as it was in training.
        table[name] = tuple(np.where(np.isnan(now), table.get(name, now), now).tolist())
    for i, name in enumerate(requested.id if requested is not None else ()):
        assert requested is not None
        place = (requested.lat[i], requested.lon[i], requested.alt[i])
        if name in table and not np.allclose(table[name][:2], place[:2], atol=1e-3):
            raise DataError(
                f"station '{printable(name)}' stands elsewhere in the observations", code="SPDE-T096",
                where=f"{place[0]:.4f}, {place[1]:.4f} requested, {table[name][0]:.4f}, {table[name][1]:.4f} observed",
                do="give the new station a name of its own",
            )  # fmt: skip
        table.setdefault(name, place)
    lat, lon, alt = (np.array(column, np.float64) for column in zip(*table.values(), strict=True))
    check_places(lat, lon)
    return Stations(tuple(table), lat, lon, alt)


def read_stations(source: Any) -> Stations | None:
    """Read further places to forecast.

    Parameters
    ----------
    source : a CSV or a data frame with ``lat, lon`` and, where known, ``alt`` and ``name``; `Stations`; a dataset;
        None for no further places.
    """
    if source is None or isinstance(source, Stations):
        return source
    if isinstance(source, xr.Dataset):
        _require_columns(source.variables, ("station", "lat", "lon", "alt"))
        return Stations.from_dataset(source)
    if hasattr(source, "columns"):  # a data frame
        _require_columns(source.columns, ("lat", "lon"))
        names = source["name"] if "name" in source.columns else source.index
        alt = source["alt"] if "alt" in source.columns else np.full(len(source), np.nan)
        return Stations(tuple(map(str, names)), source["lat"], source["lon"], alt)
    path = atomic.as_path(source)
    if not path.is_file():
        raise UsageError(f"there is no file {path}", code="SPDE-T090", do="give a CSV with lat, lon, alt and name")
    stations = read_points(path)
    if len(set(stations.id)) < len(stations):
        raise DataError(f"{printable(path.name)} names a station twice", code="SPDE-D033")
    return stations


def _require_columns(present: Any, needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in present]
    if missing:
        raise DataError(
            f"the places have no {', '.join(missing)}", code="SPDE-D090", do="give places with lat, lon, alt and name"
        )


def with_altitudes(model: StationPDEModel, stations: Stations) -> Stations:
    """Fill in the altitude of the model's terrain for stations whose altitude is not known.

    Raises
    ------
    DataError
        If an altitude is one that no place has.
    """
    low, high = COORDINATES["alt"].hard
    odd = np.flatnonzero((stations.alt < low) | (stations.alt > high))
    if odd.size:
        raise DataError(
            f"the altitude of station '{printable(stations.id[odd[0]])}' is {stations.alt[odd[0]]:g} m, allowed are "
            f"{low:g} to {high:g}", code="SPDE-D015",
            do="correct it, or leave it empty: the altitude of the terrain takes its place",
        )  # fmt: skip
    unknown = ~np.isfinite(stations.alt)
    if not unknown.any():
        return stations
    from fields.lift import bilinear_weights

    weights, _ = bilinear_weights(model.region.grid, stations.lat, stations.lon)
    ground = weights.apply(model.region.altitude.ravel())[0]
    return Stations(stations.id, stations.lat, stations.lon, np.where(unknown, ground, stations.alt))


def _dataset(
    members: Array, start: ForecastStart, present: Array, checked: Audit, runs: Sequence[LoadedRun]
) -> xr.Dataset:
    """Make a dataset of ``members`` ``[member, lead, station, variable]``: mean, spread, flags and origin."""
    model, window = start.models[0], start.window
    count, leads, _, _ = members.shape
    coords = _coordinates(model, window.issue_time, leads)
    mean = members.mean(axis=0)
    variables: dict[str, Any] = {}
    for c, name in enumerate(STATE_VARIABLES):
        variables[name] = (("time", "station"), mean[..., c].astype(np.float32), cf_attributes(name))
        if count > 1:
            about = cf_attributes(name)
            about["long_name"] = f"{about['long_name']}, standard deviation of {count} members"
            about["standard_name"] += " standard_error"
            spread = members[..., c].std(axis=0, ddof=1)
            variables[f"{name}_spread"] = (("time", "station"), spread.astype(np.float32), about)
    is_trained = model.sites.number.cpu().numpy() >= 0
    for name, flags, words in (
        ("known", is_trained, "new trained"),
        ("inside", model.sites.inside.cpu().numpy(), "outside_the_grid inside_the_grid"),
        ("present", present, "silent_at_issue reporting_at_issue"),
        ("requested", np.arange(len(present)) >= start.reporters, "of_the_network requested_place"),
    ):
        about_flag = {"long_name": words.split()[1].replace("_", " "), "flag_meanings": words}
        variables[name] = ("station", flags.astype(np.int8), {**about_flag, "flag_values": np.array([0, 1], np.int8)})
    return xr.Dataset(variables, coords, _attributes(start, checked, runs, leads))


def _coordinates(model: StationPDEModel, issue_time: int, leads: int) -> dict[str, Any]:
    step = model.config.data.step_seconds
    seconds = step * np.arange(1, leads + 1, dtype=np.int64)
    stations = model.sites.stations
    # "h", not "hours": xarray would turn the latter into a timedelta on its way back from a file.
    lead = {"standard_name": "forecast_period", "long_name": "Time since the issue of the forecast", "units": "h"}
    about = {"standard_name": "time", "long_name": "Valid time"}
    return {
        "time": ("time", to_datetime64(issue_time + seconds), about),
        "lead": ("time", seconds / 3600.0, lead),
        "station": ("station", np.asarray(stations.id, dtype=str), {"cf_role": "timeseries_id"}),
        **{n: ("station", getattr(stations, n), cf_attributes(n)) for n in ("lat", "lon", "alt")},
        "issue_time": (
            (),
            to_datetime64(issue_time),
            {"standard_name": "forecast_reference_time", "long_name": "Issue time"},
        ),
    }


def _attributes(start: ForecastStart, checked: Audit, runs: Sequence[LoadedRun], leads: int) -> dict[str, Any]:
    first, window = runs[0].about(), start.window
    return {
        "Conventions": "CF-1.11",
        "featureType": "timeSeries",
        "title": f"StationPDE forecast issued {format_time(window.issue_time)} UTC, {leads} steps",
        "source": f"stationpde {stationpde.__version__}, variant {first['variant']}",
        "issue_time": format_iso(window.issue_time),
        "runs": [f"{run.path.name}/{run.checkpoint}" for run in runs],
        "members": len(runs),
        "quality": describe_quality(window.quality),
        "network_present": checked.network_present,
        "history_present": checked.history_present,
        **start.gates.attributes(),
        **checked.attributes(),
    }
