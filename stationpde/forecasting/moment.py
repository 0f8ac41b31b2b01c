"""One forecast with what was observed before and after it, in the units people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.errors import DataError
from fields.times import format_iso, format_span, format_time
from fields.variables import STATE_VARIABLES, to_display
from fields.windows import Stations, StationSeries
from stationpde.data import HistoryCoverage, WindowRequest
from stationpde.forecasting.audit import Audit, audit
from stationpde.forecasting.cells import CellDistributions, distributions_on_cells
from stationpde.forecasting.uncertain import distributions_at
from stationpde.physics import clipped, to_observed, to_state

if TYPE_CHECKING:
    from stationpde.model import Forecast, StationPDEModel
    from stationpde.uncertainty import Calibration

__all__ = ["BAND_LEVELS", "Moment", "issue_step", "lifted", "moment_of"]

Array = np.ndarray[Any, Any]

BAND_LEVELS = (0.05, 0.1, 0.25, 0.75, 0.9, 0.95)
"""Ends of the intervals of 90, 80 and 50 % that a fan chart shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A forecast and the observations of its time, in display units; variables in the order u, v, p, t, rh.

    Attributes
    ----------
    issue_time : s since 1970, UTC
    times : times of history and horizon, s since 1970, UTC
    history : number of steps of history; the last of them is the issue time
    observed : ``[time, station, variable]``, NaN where nothing was observed
    forecast : ``[lead, station, variable]``
    fields : ``[1 + lead, variable, y, x]``; the first is the field at issue, lifted from observations
    truth : the same, lifted from the observations of each time; NaN where there are none
    audit : physics audit of the forecast
    bands : quantiles of each variable at `BAND_LEVELS`, ``[lead, station, level]``; empty without a calibration
    names : variables that the network observes, and that are shown
    cells : distributions on cells, where they were wanted
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
    bands: Mapping[str, Array] = field(default_factory=dict)
    names: tuple[str, ...] = STATE_VARIABLES
    cells: CellDistributions | None = None


def issue_step(series: StationSeries, history: int, at: Any = None, default: int | None = None) -> int:
    """Find the step of the record that a forecast is issued at.

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
    issue = None if at is None else WindowRequest.parse_at(at)
    step = _latest_step(series) if issue is None else int(np.searchsorted(series.time, issue))
    if issue is not None and (step >= len(series) or series.time[step] != issue):
        raise DataError(
            f"{format_time(issue)} is not in the record, which runs from {format_time(int(series.time[0]))} to "
            f"{format_time(int(series.time[-1]))} in steps of {format_span(series.step_seconds)}",
            code="SPDE-R010", do=f"--at {format_iso(int(series.time[-1]))}",
        )  # fmt: skip
    first = step - history + 1
    if first < 0 or series.time[step] - series.time[first] != (history - 1) * series.step_seconds:
        raise DataError(
            f"a forecast from {format_time(int(series.time[step]))} needs {history} steps before it",
            code="SPDE-R010", do="choose a later --at",
        )  # fmt: skip
    return step


def _latest_step(series: StationSeries) -> int:
    """Return the last step that is not in the future; of a record that wholly is, the last one."""
    step = int(np.searchsorted(series.time, WindowRequest.last_second(), side="right")) - 1
    return step if step >= 0 else len(series) - 1


@torch.inference_mode()
def moment_of(
    model: StationPDEModel, series: StationSeries, step: int, horizon: int | None = None,
    calibration: Calibration | None = None, *, with_cells: bool = False,
) -> Moment:  # fmt: skip
    """Return the forecast from a step of a record, with a model that stands at the record's stations.

    Parameters
    ----------
    calibration : of the model; None for no distributions
    with_cells : also compute distributions on cells of the grid
    """
    data = model.config.data
    ahead = horizon or data.horizon
    values = _padded(series, step, data.history, ahead)
    issue = int(series.time[step])
    history = torch.from_numpy(values[: data.history])[None]
    output = model(history, torch.tensor([issue]), ahead, keep_fields=True)
    maps = model.maps(output, torch.tensor([issue]))
    times = issue + series.step_seconds * np.arange(1 - data.history, ahead + 1, dtype=np.int64)
    later = slice(data.history - 1, None)
    truth = lifted(model, torch.from_numpy(values[later]), torch.from_numpy(times[later]))
    cells = clipped(to_observed(maps[0].movedim(1, -1))).movedim(-1, 1)
    fields = torch.cat([truth[:1], cells])
    observed = [c for c, name in enumerate(STATE_VARIABLES) if name not in series.reference]
    present = np.isfinite(values[data.history - 1][:, observed]).any(axis=-1)
    return Moment(
        issue, times, data.history, series.stations,
        tuple((series.step_seconds * np.arange(1, ahead + 1) / 3600.0).tolist()),
        observed=_shown(values), forecast=_shown(clipped(output.observed[0]).numpy()),
        fields=_shown(fields.numpy(), axis=1), truth=_shown(truth.numpy(), axis=1),
        audit=audit(model, output, present, 0, HistoryCoverage.of(values[: data.history], series.reference)),
        bands={} if calibration is None else _bands(calibration, model, output, values[: data.history], issue),
        names=tuple(name for name in STATE_VARIABLES if name not in data.missing),
        cells=None if calibration is None or not with_cells else distributions_on_cells(
            calibration, model, values[: data.history], issue, ahead
        ),
    )  # fmt: skip


def _bands(
    calibration: Calibration, model: StationPDEModel, output: Forecast, history: Array, issue: int
) -> dict[str, Array]:
    distributions = distributions_at(calibration, model, output, history, issue)
    return {name: distributions.quantiles(name, BAND_LEVELS)[0] for name in distributions.names}


def lifted(model: StationPDEModel, observed: Tensor, times: Tensor) -> Tensor:
    """Lift observations ``[time, station, variable]`` to fields ``[time, variable, y, x]``, SI, as the model does.

    NaN at times without a report.
    """
    sites = model.sites
    departures = to_state(observed, sites.pressure) - sites.base(times)
    field = sites.lifted(observed[None], departures[None])[0][0]
    if not sites.detrends and model.base is not None:
        field = field + model.base(times).movedim(-1, -2).reshape(field.shape)
    return clipped(to_observed(field.movedim(1, -1))).movedim(-1, 1)


def _padded(series: StationSeries, step: int, history: int, horizon: int) -> Array:
    """Read values of history and horizon; NaN after the end of the record and across gaps."""
    values = np.full((history + horizon, *series.values.shape[1:]), np.nan, np.float32)
    times = series.time[step] + series.step_seconds * np.arange(1 - history, horizon + 1)
    rows = np.searchsorted(series.time, times)
    is_recorded = rows < len(series)
    is_recorded[is_recorded] = series.time[rows[is_recorded]] == times[is_recorded]
    values[is_recorded] = series.values[rows[is_recorded]]
    return values


def _shown(values: Array, axis: int = -1) -> Array:
    columns = np.moveaxis(values.astype(np.float64), axis, 0)
    shown = np.stack([to_display(name, column) for name, column in zip(STATE_VARIABLES, columns, strict=True)])
    return np.moveaxis(shown, 0, axis)
