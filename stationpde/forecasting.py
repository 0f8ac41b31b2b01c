"""Forecasts as datasets: one run or a seed ensemble, at the stations that report, those of training, and new ones.

Every station of training is forecast, reporting or not, at the place where it now stands; what the observations have
besides, and what is asked for besides, is met as new: the field is read there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import xarray as xr

import stationpde
from fields.errors import DataError, printable
from fields.geometry import check_places
from fields.ingest import IngestOptions
from fields.readers.clock import shown_time, to_datetime64
from fields.sampling import read_points
from fields.series import Stations
from fields.variables import STATE_VARIABLES, cf_attributes
from stationpde.audit import Audit, audit, combined
from stationpde.errors import DivergedError, UsageError
from stationpde.observations import Observations, Window, WindowRequest, read_window
from stationpde.state import clipped

if TYPE_CHECKING:
    from stationpde.loading import LoadedRun
    from stationpde.model import Forecast, StationPDEModel

__all__ = ["Asked", "forecast", "joined_stations", "run_model", "stations_from"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a forecast shall start from and be for."""

    at: Any = "latest"
    stations: Any = None
    horizon: int | None = None
    max_age: int | None = None
    now: int | None = None
    options: IngestOptions | None = None


def forecast(runs: Sequence[LoadedRun], observations: Observations, asked: Asked = Asked()) -> xr.Dataset:  # noqa: B008 - frozen
    """The forecast of one run, or mean and spread of several.

    Parameters
    ----------
    runs : all with the same step; the shortest horizon holds
    observations : a store, a table, a CF file, or a dataset with ``time`` and ``station``
    asked : issue time, further stations, horizon, largest age

    Returns
    -------
    Dimensions ``time`` (valid time, with the coordinate ``lead`` in hours) and ``station``; SI with CF attributes

    Raises
    ------
    DataError, StaleDataError
        If there is nothing to start from.
    DivergedError
        If a number of the forecast is not finite.
    """
    window = read_window(observations, request_for(runs, asked), asked.options)
    trained, places = runs[0].model.statistics.stations, stations_from(asked.stations)
    reporters = len(joined_stations(trained, window.stations))
    stations = joined_stations(trained, window.stations, places)
    horizon = min(run.model.config.data.horizon for run in runs)
    if asked.horizon is not None:
        horizon = asked.horizon
    models = [run.model.at(with_altitudes(run.model, stations), reporters) for run in runs]
    members, audits = [], []
    for model in models:
        made, present = run_model(model, window, horizon)
        audits.append(audit(model, made, present, window.rejected))
        members.append(clipped(made.observed)[0].double().cpu().numpy())
    if not all(a.finite for a in audits):
        raise DivergedError(
            f"the forecast from {shown_time(window.issue_time)} is not finite", code="SPDE-T093",
            where=str(runs[0].path), do="stationpde run verify; train again with a smaller --set train.lr",
        )  # fmt: skip
    return _dataset(np.stack(members), models[0], present, window, combined(audits), runs)


def request_for(runs: Sequence[LoadedRun], asked: Asked) -> WindowRequest:
    """The window that all runs can start from."""
    first = runs[0].model.config.data
    steps = {run.model.config.data.step_seconds for run in runs}
    if len(steps) > 1:
        raise UsageError(
            f"the runs have different steps: {', '.join(f'{s} s' for s in sorted(steps))}", code="SPDE-T094",
            do="give runs that differ in their seed",
        )  # fmt: skip
    return WindowRequest(
        first.step_seconds,
        max(run.model.config.data.history for run in runs),
        phase=runs[0].model.statistics.climatology.origin % first.step_seconds,
        at=WindowRequest.parse_at(asked.at),
        max_age=asked.max_age,
        now=asked.now,
        missing=first.missing,
    )


@torch.inference_mode()
def run_model(model: StationPDEModel, window: Window, horizon: int | None = None) -> tuple[Forecast, Array]:
    """Run a model from a window; also which of its stations report at the issue time.

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


def joined_stations(trained: Stations, observed: Stations, asked: Stations | None = None) -> Stations:
    """Stations of training, where they now stand, then further ones that report, then further ones asked for."""
    table = {name: (trained.lat[i], trained.lon[i], trained.alt[i]) for i, name in enumerate(trained.id)}
    for i, name in enumerate(observed.id):
        table[name] = (observed.lat[i], observed.lon[i], observed.alt[i])
    for i, name in enumerate(asked.id if asked is not None else ()):
        assert asked is not None
        place = (asked.lat[i], asked.lon[i], asked.alt[i])
        if name in table and not np.allclose(table[name][:2], place[:2], atol=1e-3):
            raise DataError(
                f"station '{printable(name)}' stands elsewhere in the observations", code="SPDE-T096",
                where=f"{place[0]:.4f}, {place[1]:.4f} asked for, {table[name][0]:.4f}, {table[name][1]:.4f} observed",
                do="give the new station a name of its own",
            )  # fmt: skip
        table.setdefault(name, place)
    lat, lon, alt = (np.array(column, np.float64) for column in zip(*table.values(), strict=True))
    check_places(lat, lon)
    return Stations(tuple(table), lat, lon, alt)


def stations_from(given: Any) -> Stations | None:
    """Further stations: a CSV with ``lat, lon`` and, where known, ``alt`` and ``name``; `Stations`; a dataset."""
    if given is None or isinstance(given, Stations):
        return given
    if isinstance(given, xr.Dataset):
        return Stations.from_dataset(given)
    if hasattr(given, "columns"):  # a data frame
        names = given["name"] if "name" in given.columns else given.index
        alt = given["alt"] if "alt" in given.columns else np.full(len(given), np.nan)
        return Stations(tuple(map(str, names)), given["lat"], given["lon"], alt)
    path = Path(given)
    if not path.is_file():
        raise UsageError(f"there is no file {path}", code="SPDE-T090", do="give a CSV with lat, lon, alt and name")
    points = read_points(path)
    if len(set(points.name)) < len(points.name):
        raise DataError(f"{printable(path.name)} names a station twice", code="SPDE-D033")
    return Stations(points.name, points.lat, points.lon, points.alt)


def with_altitudes(model: StationPDEModel, stations: Stations) -> Stations:
    """The stations, with the altitude of the model's terrain where theirs is not known."""
    unknown = ~np.isfinite(stations.alt)
    if not unknown.any():
        return stations
    from fields.bilinear import bilinear_weights

    weights, _ = bilinear_weights(model.region.grid, stations.lat, stations.lon)
    ground = weights.apply(model.region.altitude.ravel())[0]
    return Stations(stations.id, stations.lat, stations.lon, np.where(unknown, ground, stations.alt))


def _dataset(
    members: Array, model: StationPDEModel, present: Array, window: Window, checked: Audit, runs: Sequence[LoadedRun]
) -> xr.Dataset:
    """``members`` ``[member, lead, station, variable]`` as mean (and spread) with coordinates, flags and origin."""
    count, leads, _, _ = members.shape
    coords = _coordinates(model, window.issue_time, leads)
    mean = members.mean(axis=0)
    found: dict[str, Any] = {}
    for c, name in enumerate(STATE_VARIABLES):
        found[name] = (("time", "station"), mean[..., c].astype(np.float32), cf_attributes(name))
        if count > 1:
            about = cf_attributes(name)
            about["long_name"] = f"{about['long_name']}, standard deviation of {count} members"
            about["standard_name"] += " standard_error"
            spread = members[..., c].std(axis=0, ddof=1)
            found[f"{name}_spread"] = (("time", "station"), spread.astype(np.float32), about)
    known = model.sites.number.cpu().numpy() >= 0
    for name, flags, words in (
        ("known", known, "new trained"),
        ("inside", model.sites.inside.cpu().numpy(), "outside_the_grid inside_the_grid"),
        ("present", present, "silent_at_issue reporting_at_issue"),
    ):
        about_flag = {"long_name": words.split()[1].replace("_", " "), "flag_meanings": words}
        found[name] = ("station", flags.astype(np.int8), {**about_flag, "flag_values": np.array([0, 1], np.int8)})
    return xr.Dataset(found, coords, _attributes(window, checked, runs, leads))


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


def _attributes(window: Window, checked: Audit, runs: Sequence[LoadedRun], leads: int) -> dict[str, Any]:
    first = runs[0].about()
    return {
        "Conventions": "CF-1.11",
        "featureType": "timeSeries",
        "title": f"StationPDE forecast issued {shown_time(window.issue_time)} UTC, {leads} steps",
        "source": f"stationpde {stationpde.__version__}, variant {first['variant']}",
        "issue_time": str(to_datetime64(window.issue_time))[:19] + "Z",
        "runs": [f"{run.path.name}/{run.checkpoint}" for run in runs],
        "members": len(runs),
        "network_present": checked.network_present,
        **checked.attributes(),
    }
