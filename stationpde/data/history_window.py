"""The history that a forecast starts from, read from any observations: the latest, or that before a time.

Stores are read at their end only. Times are selected, never averaged, as in training.
"""

from __future__ import annotations

import logging
import time as clock
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from fields.errors import DataError, ProblemReport, locate, printable
from fields.grid import check_places
from fields.ingest import IngestOptions
from fields.stand_ins import reference_variables
from fields.times import format_duration, format_span, format_time, parse_time, utc_seconds
from fields.variables import STATE_VARIABLES, variable
from fields.windows import Stations, rows_at_cadence
from stationpde.data.history_coverage import HistoryCoverage, reporting_step
from stationpde.data.opening import Observations, open_observations
from stationpde.data.quality import Quality
from stationpde.errors import StaleDataError

__all__ = ["HistoryWindow", "WindowRequest", "read_window"]

Array = np.ndarray[Any, Any]
log = logging.getLogger(__name__)
# Steps of the source that are looked through at once for the latest report.
_BLOCK = 512
CLOCK_SKEW = 600
"""How far ahead of the present [s] a report may be dated, as clocks differ and reports are set to the full hour."""


@dataclass(frozen=True, slots=True, eq=False)
class HistoryWindow:
    """A history: ``values`` float32 ``[time, station, variable]`` in SI up to ``issue_time`` (s since 1970, UTC)."""

    values: Array
    stations: Stations
    issue_time: int
    reference: tuple[str, ...] = ()
    """Variables that stand in for observations, and say nothing about which stations report."""
    rejected: int = 0
    """Number of values outside the physical range, which are treated as missing."""
    quality: Quality = "full"
    """Which quality flags count."""
    reporting_step: int | None = None
    """Step [s] at which the stations report in the window; None where none of them reports twice."""
    label: str | None = None
    """Name of the observations in messages."""
    notes: tuple[str, ...] = ()
    """Sentences on places that were completed by those of training."""
    extras: Mapping[str, Array] = field(default_factory=dict)
    """Variables beside the state that the observations hold, ``[time, station]``, SI."""

    def coverage(self, steps: int, network: Stations) -> HistoryCoverage:
        """Count what was observed in the last ``steps`` of the history, also as a share of a trained network."""
        row = {name: i for i, name in enumerate(self.stations.id)}
        rows = np.array([row.get(name, -1) for name in network.id])
        return HistoryCoverage.of(self.values[-steps:], self.reference, rows)

    @property
    def reporting(self) -> Array:
        """Which stations report anything in the window."""
        observed = [c for c, name in enumerate(STATE_VARIABLES) if name not in self.reference]
        return np.asarray(np.isfinite(self.values[..., observed]).any(axis=(0, 2)))

    @property
    def present(self) -> Array:
        """Which stations report anything at the issue time."""
        observed = [c for c, name in enumerate(STATE_VARIABLES) if name not in self.reference]
        return np.isfinite(self.values[-1][:, observed]).any(axis=-1)


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """Which history to read.

    Attributes
    ----------
    step : cadence of the model [s].
    history : number of steps that the model is given.
    phase : remainder of the model's times after division by ``step`` [s].
    at : issue time (s since 1970, UTC); None takes the latest time with a report that is not in the future.
    max_age : largest age [s] of the latest report before ``at``, or before ``now``; None sets no limit.
    now : present time (s since 1970, UTC); None reads the clock.
    missing : substitutes for variables that are not observed, as the model was trained with.
    quality : which quality flags count, as the model was trained with.
    trained : stations of training, whose places stand in for those that the observations lack.
    extra : variables beside the state to read as well.
    """

    step: int
    history: int
    phase: int = 0
    at: int | None = None
    max_age: int | None = None
    now: int | None = None
    missing: Mapping[Any, str] | None = None
    quality: Quality = "full"
    trained: Stations | None = None
    extra: tuple[str, ...] = ()

    @classmethod
    def parse_at(cls, text: Any) -> int | None:
        """Parse an issue time to s since 1970, from text, a datetime, a datetime64 or seconds; None for ``latest``."""
        return None if text is None or (isinstance(text, str) and text == "latest") else parse_time(text)

    @staticmethod
    def last_second(now: int | None = None) -> int:
        """Return the last time (s since 1970, UTC) that is not in the future: the present and `CLOCK_SKEW`."""
        return (int(clock.time()) if now is None else now) + CLOCK_SKEW


def read_window(
    observations: Observations, request: WindowRequest, options: IngestOptions | None = None
) -> HistoryWindow:  # fmt: skip
    """Read the history that a forecast starts from.

    Parameters
    ----------
    observations : anything that `open_observations` takes.
    request : cadence, length and issue time.
    options : how raw files are read.

    Raises
    ------
    DataError
        If no station reports at the issue time, or the record does not reach back far enough.
    StaleDataError
        If the latest report is older than allowed.
    """
    report = ProblemReport()
    read = _read_until_now(options or IngestOptions(), request)
    with open_observations(
        observations, options=read, stand_ins=request.missing, quality=request.quality, report=report,
        command="forecast", trained=request.trained,
    ) as opened:  # fmt: skip
        for problem in report.warnings:
            log.warning("%s: %s   %s", problem.code, problem.what, problem.where)
        return replace(_window_of(opened.dataset, request, opened.label), label=opened.label, notes=opened.notes)


def _read_until_now(options: IngestOptions, request: WindowRequest) -> IngestOptions:
    """Return the options of a forecast: nothing of the future is read, and gaps before the history do not matter."""
    until = WindowRequest.last_second(request.now) if request.at is None else None
    return replace(options, read=replace(options.read, until=until), accept=tuple({*options.accept, "sparse-axis"}))


def _window_of(ds: xr.Dataset, request: WindowRequest, label: str | None) -> HistoryWindow:
    seconds = utc_seconds(ds["time"], f"{label} › time" if label else "time")
    if np.any(np.diff(seconds) <= 0):
        raise DataError("times are not in order, or not each once", code="SPDE-D035", where=label,
                        do="ingest the source: stationpde data ingest SRC -o OUT.zarr")  # fmt: skip
    stations = Stations.from_dataset(ds)
    check_places(stations.lat, stations.lon)
    repeated = [name for name, count in Counter(stations.id).items() if count > 1]
    if repeated:
        raise DataError(f"station {printable(repeated[0])} is there twice", code="SPDE-D033", where=label)
    issue = _issue_time(ds, seconds, request, label)
    first = issue - (request.history - 1) * request.step
    if seconds[0] > first:
        raise DataError(
            f"a forecast from {format_time(issue)} needs {request.history} steps of {format_span(request.step)}, "
            f"from {format_time(first)} on; the record begins {format_time(int(seconds[0]))}",
            code="SPDE-T091", where=label, do="give a longer record, or a later --at",
        )  # fmt: skip
    times = first + request.step * np.arange(request.history, dtype=np.int64)
    rows = np.searchsorted(seconds, times)
    is_recorded = (rows < seconds.size) & (seconds[np.minimum(rows, seconds.size - 1)] == times)
    values = np.full((request.history, len(stations), len(STATE_VARIABLES)), np.nan, np.float32)
    values[is_recorded] = _state(ds, rows[is_recorded])
    values, rejected = _without_impossible(values, label)
    every = np.flatnonzero((seconds >= first) & (seconds <= issue))
    step = reporting_step(seconds[every], _reports(ds, every))
    extras = {name: _extra(ds, name, times, rows, is_recorded) for name in request.extra if name in ds}
    return HistoryWindow(
        values, stations, issue, reference_variables(ds), rejected, request.quality, step, extras=extras
    )  # fmt: skip


def _extra(ds: xr.Dataset, name: str, times: Array, rows: Array, is_recorded: Array) -> Array:
    """Read a variable beside the state, ``[time, station]``; impossible values are NaN."""
    values = np.full((len(times), ds.sizes["station"]), np.nan, np.float32)
    values[is_recorded] = ds[name].transpose("time", "station").isel(time=rows[is_recorded]).values
    low, high = variable(name).hard
    with np.errstate(invalid="ignore"):
        return np.where((values >= low) & (values <= high), values, np.float32(np.nan))


def _without_impossible(values: Array, label: str | None) -> tuple[Array, int]:
    """Replace values outside the variable's range by NaN and count them; refuse a variable in another unit."""
    possible, rejected = values.copy(), 0
    for c, name in enumerate(STATE_VARIABLES):
        column, (low, high) = possible[..., c], variable(name).hard
        odd = (column < low) | (column > high)
        observed = int(np.isfinite(column).sum())
        if observed and odd.sum() > observed / 2:
            raise DataError(
                f"{name} is in another unit: {odd.sum():,} of {observed:,} values lie outside {low:g} to {high:g} "
                f"[{variable(name).unit}], the median is {np.nanmedian(column):.5g}",
                code="SPDE-D012", where=label, do="set attrs['units'] of the variable to the unit that it has",
            )  # fmt: skip
        column[odd] = np.nan
        rejected += int(odd.sum())
    return possible, rejected


def _state(ds: xr.Dataset, rows: Array) -> Array:
    """Read state variables ``[row, station, variable]`` of some rows; infinite values become NaN."""
    if rows.size == 0:
        return np.empty((0, ds.sizes["station"], len(STATE_VARIABLES)), np.float32)
    span = ds.isel(time=slice(int(rows[0]), int(rows[-1]) + 1))
    columns = [span[name].transpose("time", "station").values[rows - rows[0]] for name in STATE_VARIABLES]
    state = np.stack(columns, axis=-1).astype(np.float32)
    return np.where(np.isfinite(state), state, np.float32(np.nan))


def _issue_time(ds: xr.Dataset, seconds: Array, request: WindowRequest, label: str | None) -> int:
    """Return the latest time with a report: at or before ``at``, or exactly ``at`` without a largest age."""
    at = request.at
    if at is not None and request.max_age is None:
        row = int(np.searchsorted(seconds, at))
        if row < seconds.size and seconds[row] == at and any(True for _ in _reporting(ds, np.array([row]))):
            return at
        last = format_time(int(seconds[-1]))
        raise DataError(
            f"no station reports at {format_time(at)}; the record ends {last}", code="SPDE-T092", where=label,
            do="give a time that was observed, --at latest, or --max-age to take an earlier one",
        )  # fmt: skip
    end = int(np.searchsorted(seconds, WindowRequest.last_second(request.now) if at is None else at, side="right"))
    future = _reports_after(ds, seconds, end) if at is None else ""
    if future:
        log.warning("SPDE-D112: reports dated in the future are ignored: %s", locate(label, future))
    # The phase of training where the record has it, else that of its last time.
    rows = rows_at_cadence(seconds[:end], request.step, request.phase, otherwise="last")
    latest = next(_reporting(ds, rows), None)
    if latest is None and future:
        raise DataError(
            f"every report is dated in the future: {future}", code="SPDE-T092", where=label,
            do="check the clock of this machine and that of the data (--time-zone), or give the time: --at TIME",
        )  # fmt: skip
    if latest is None:
        raise DataError(
            f"no station reports at any step of the model, which are {format_span(request.step)} apart",
            code="SPDE-T092", where=label, do="give a record with observations at these times",
        )  # fmt: skip
    issue = int(seconds[latest])
    if request.max_age is not None:
        reference = at if at is not None else (request.now if request.now is not None else int(clock.time()))
        if reference - issue > request.max_age:
            raise StaleDataError(
                f"the latest report is of {format_time(issue)} UTC, {format_duration(reference - issue)} before "
                f"{format_time(reference)}; allowed are {format_duration(request.max_age)}",
                where=label, do="wait for new observations and type the same command again",
            )  # fmt: skip
    return issue


def _reports_after(ds: xr.Dataset, seconds: Array, end: int) -> str:
    """Write when, and by which stations, anything is reported from row ``end`` on; empty if nothing is."""
    last = next(_reporting(ds, np.arange(end, seconds.size)), None)
    if last is None:
        return ""
    observed = [c for c, name in enumerate(STATE_VARIABLES) if name not in reference_variables(ds)]
    block = np.arange(max(end, last + 1 - _BLOCK), last + 1)
    stations = np.isfinite(_state(ds, block)[..., observed]).any(axis=(0, 2))
    named = locate(stations=ds["station"].values[stations], out_of=ds.sizes["station"])
    return f"{named}, up to {format_time(int(seconds[last]))} UTC"


def _reporting(ds: xr.Dataset, rows: Array) -> Iterator[int]:
    """Yield the rows at which a station reports, the latest first."""
    for stop in range(len(rows), 0, -_BLOCK):
        block = rows[max(0, stop - _BLOCK) : stop]
        seen = _reports(ds, block).any(axis=1)
        yield from block[seen][::-1].tolist()


def _reports(ds: xr.Dataset, rows: Array) -> Array:
    """Return which stations report anything at some rows, ``[row, station]``."""
    observed = [c for c, name in enumerate(STATE_VARIABLES) if name not in reference_variables(ds)]
    return np.asarray(np.isfinite(_state(ds, rows)[..., observed]).any(axis=2))
