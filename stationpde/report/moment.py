"""One forecast with what was observed before and after it, in the units people read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.errors import DataError
from fields.readers.clock import render_step, shown_time
from fields.series import Stations, StationSeries
from fields.variables import STATE_VARIABLES, to_display
from stationpde.audit import Audit, audit
from stationpde.observations import WindowRequest
from stationpde.state import clipped, to_observed, to_state

if TYPE_CHECKING:
    from stationpde.model import StationPDEModel

__all__ = ["Moment", "issue_step", "lifted", "moment_of", "stamp"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A forecast and its truth; values in shown units, variables in the order u, v, p, t, rh.

    Attributes
    ----------
    issue_time : s since 1970, UTC
    times : of history and horizon, the same
    history : steps of history; the last of them is the issue
    observed : ``[time, station, variable]``, NaN where nothing was observed
    forecast : ``[lead, station, variable]``
    fields : ``[1 + lead, variable, y, x]``; the first is the field at issue, lifted from observations
    truth : the same, lifted from the observations of each time; NaN where there are none
    audit : what the forecast's numbers did
    """

    issue_time: int
    times: Array
    history: int
    stations: Stations
    lead_hours: tuple[float, ...]
    observed: Array
    forecast: Array
    fields: Array
    truth: Array
    audit: Audit


def stamp(seconds: int) -> str:
    """A time for people: ``2023-07-05 12:00``."""
    return str(np.datetime64(int(seconds), "s"))[:16].replace("T", " ")


def issue_step(series: StationSeries, history: int, at: Any = None, default: int | None = None) -> int:
    """The step of the record that a forecast is issued at.

    Parameters
    ----------
    at : a time; ``latest``; or None for ``default``, else the latest
    default : a step to take when no time is given

    Raises
    ------
    DataError
        If the time is not in the record, or the history before it is not whole.
    """
    if at is None and default is not None:
        return default
    wanted = None if at is None else WindowRequest.parse_at(at)
    step = len(series) - 1 if wanted is None else int(np.searchsorted(series.time, wanted))
    if wanted is not None and (step >= len(series) or series.time[step] != wanted):
        raise DataError(
            f"{shown_time(wanted)} is not in the record, which runs from {shown_time(int(series.time[0]))} to "
            f"{shown_time(int(series.time[-1]))} in steps of {render_step(series.step_seconds)}",
            code="SPDE-R010", do=f"--at {shown_time(int(series.time[-1]))}",
        )  # fmt: skip
    first = step - history + 1
    if first < 0 or series.time[step] - series.time[first] != (history - 1) * series.step_seconds:
        raise DataError(
            f"a forecast from {shown_time(int(series.time[step]))} needs {history} steps before it",
            code="SPDE-R010", do="choose a later --at",
        )  # fmt: skip
    return step


@torch.inference_mode()
def moment_of(model: StationPDEModel, series: StationSeries, step: int, horizon: int | None = None) -> Moment:
    """Forecast from a step of a record, with a model that stands at the record's stations."""
    data = model.config.data
    ahead = horizon or data.horizon
    values = _padded(series, step, data.history, ahead)
    issue = int(series.time[step])
    history = torch.from_numpy(values[: data.history])[None]
    made = model(history, torch.tensor([issue]), ahead, keep_fields=True)
    maps = model.maps(made, torch.tensor([issue]))
    times = issue + series.step_seconds * np.arange(1 - data.history, ahead + 1, dtype=np.int64)
    later = slice(data.history - 1, None)
    truth = lifted(model, torch.from_numpy(values[later]), torch.from_numpy(times[later]))
    cells = clipped(to_observed(maps[0].movedim(1, -1), model.config.model.saturation)).movedim(-1, 1)
    fields = torch.cat([truth[:1], cells])
    present = np.isfinite(values[data.history - 1]).any(axis=-1)
    return Moment(
        issue, times, data.history, series.stations,
        tuple((series.step_seconds * np.arange(1, ahead + 1) / 3600.0).tolist()),
        observed=_shown(values), forecast=_shown(clipped(made.observed[0]).numpy()),
        fields=_shown(fields.numpy(), axis=1), truth=_shown(truth.numpy(), axis=1), audit=audit(model, made, present),
    )  # fmt: skip


def lifted(model: StationPDEModel, observed: Tensor, times: Tensor) -> Tensor:
    """Observations ``[time, station, variable]`` as fields ``[time, variable, y, x]``, SI, by the model's own lift.

    NaN at times without a report.
    """
    config, sites = model.config.model, model.sites
    own = to_state(observed, sites.pressure, config.saturation) - sites.base(times)
    found, _ = sites.lifted(observed[None], own[None])
    field = found[0]
    if not sites.detrends and model.base is not None:
        field = field + model.base(times).movedim(-1, -2).reshape(field.shape)
    return clipped(to_observed(field.movedim(1, -1), config.saturation)).movedim(-1, 1)


def _padded(series: StationSeries, step: int, history: int, horizon: int) -> Array:
    """Values of history and horizon; NaN after the end of the record and across gaps."""
    values = np.full((history + horizon, *series.values.shape[1:]), np.nan, np.float32)
    wanted = series.time[step] + series.step_seconds * np.arange(1 - history, horizon + 1)
    rows = np.searchsorted(series.time, wanted)
    there = rows < len(series)
    there[there] = series.time[rows[there]] == wanted[there]
    values[there] = series.values[rows[there]]
    return values


def _shown(values: Array, axis: int = -1) -> Array:
    columns = np.moveaxis(values.astype(np.float64), axis, 0)
    shown = np.stack([to_display(name, column) for name, column in zip(STATE_VARIABLES, columns, strict=True)])
    return np.moveaxis(shown, 0, axis)
