"""Dataset of a forecast: variables with CF attributes, coordinates, flags of the stations, and where it comes from.

`stationpde.forecasting.output` writes it to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

import stationpde
from fields.times import format_iso, format_time, to_datetime64
from fields.variables import STATE_VARIABLES, cf_attributes
from stationpde.data import describe_quality

if TYPE_CHECKING:
    from stationpde.forecasting.audit import Audit
    from stationpde.forecasting.forecast import ForecastStart
    from stationpde.model import StationPDEModel
    from stationpde.runs import LoadedRun

__all__ = ["forecast_dataset"]

Array = np.ndarray[Any, Any]
WIGOS = "WIGOS station identifier"


def forecast_dataset(
    members: Array, start: ForecastStart, present: Array, checked: Audit, runs: Sequence[LoadedRun]
) -> xr.Dataset:
    """Make a dataset of ``members`` ``[member, lead, station, variable]``: mean, spread, flags and origin."""
    model, window = start.models[0], start.window
    count, leads, _, _ = members.shape
    coords = _coordinates(model, window.issue_time, leads)
    mean = members.mean(axis=0)
    variables: dict[str, Any] = {}
    for c, name in enumerate(STATE_VARIABLES):
        if name in model.config.data.missing:  # a reference went in: what comes out is no forecast
            continue
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
        **{
            label: ("station", np.asarray(texts, dtype=str), {"long_name": about})
            for label, texts, about in (("name", stations.name, "Name"), ("wigos", stations.wigos, WIGOS))
            if texts
        },
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
