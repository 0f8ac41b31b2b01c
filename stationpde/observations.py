"""From any observations to the window that a forecast starts from: the latest that is there, or the one asked for.

Stores are read at their end only. Tables, archives and foreign datasets pass the same gate of units, plausibility and
quality control as on their way into a store. Times are selected, never averaged, as in training.
"""

from __future__ import annotations

import time as clock
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import xarray as xr

from fields import store
from fields.composition import substitutes_of
from fields.errors import DataError, UsageError, printable
from fields.geometry import check_places
from fields.ingest import IngestOptions, ingest
from fields.readers.clock import parse_instant, render_step, shown_time, to_datetime64
from fields.series import Stations, with_state_variables
from fields.variables import STATE_VARIABLES, cf_attributes, variable
from stationpde.errors import StaleDataError

__all__ = ["Observations", "Window", "WindowRequest", "issue_label", "opened", "read_window"]

Array = np.ndarray[Any, Any]
Observations = str | Path | xr.Dataset
# Steps of the source that are looked through at once for the latest report.
_BLOCK = 512


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A history: ``values`` float32 ``[time, station, variable]`` in SI up to ``issue_time`` (s since 1970, UTC)."""

    values: Array
    stations: Stations
    issue_time: int
    reference: tuple[str, ...] = ()
    """Variables that stand in for observations, and say nothing of who is present."""
    rejected: int = 0
    """Values that no air can have, taken as missing."""

    @property
    def present(self) -> Array:
        """Which stations report anything at the issue time."""
        own = [c for c, name in enumerate(STATE_VARIABLES) if name not in self.reference]
        return np.isfinite(self.values[-1][:, own]).any(axis=-1)


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """Which window is wanted.

    ``step`` seconds and ``history`` steps are the model's; ``phase`` is the remainder of its times. ``at`` is the issue
    time, None the latest. With ``max_age`` [s] the latest report may be that much older than ``at``, or than ``now``.
    """

    step: int
    history: int
    phase: int = 0
    at: int | None = None
    max_age: int | None = None
    now: int | None = None
    missing: Mapping[Any, str] | None = None

    @classmethod
    def parse_at(cls, text: Any) -> int | None:
        """The issue time in s since 1970, from text, a datetime, a datetime64 or seconds; None for ``latest``."""
        if text is None or text == "latest":
            return None
        if isinstance(text, int):
            return text
        if isinstance(text, str):
            try:
                text = datetime.fromisoformat(text.strip())
            except ValueError:
                return parse_instant(text)  # other spellings, and the error that says how to write it
        if isinstance(text, datetime):  # a pandas Timestamp is one; without a zone it is UTC, as everywhere
            return int((text if text.tzinfo is not None else text.replace(tzinfo=UTC)).timestamp())
        return int(np.datetime64(text, "s").astype(np.int64))


def read_window(observations: Observations, request: WindowRequest, options: IngestOptions | None = None) -> Window:
    """The window that is asked for.

    Raises
    ------
    DataError
        If no station reports at the issue time, or the record does not reach back far enough.
    StaleDataError
        If the latest report is older than allowed.
    """
    with ExitStack() as stack:
        ds = opened(observations, stack, options, request.missing)
        source = ds.attrs.get("source", "") if isinstance(observations, xr.Dataset) else Path(observations)
        return _window_of(ds, request, str(source) or None)


def opened(
    observations: Observations, stack: ExitStack, options: IngestOptions | None = None,
    missing: Mapping[Any, str] | None = None,
) -> xr.Dataset:  # fmt: skip
    """Observations as a dataset in SI with all state variables; scratch files live as long as ``stack``."""
    stand_ins = {str(name): what for name, what in (missing or {}).items()}
    if isinstance(observations, xr.Dataset):
        if not _is_in_memory_form(observations):
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="stationpde-")))
            observations.to_netcdf(folder / "dataset.nc")
            return opened(folder / "dataset.nc", stack, options, missing)
        ds = observations
    else:
        path = Path(observations)
        if not path.exists():
            raise UsageError(f"there is no file {printable(path)}", code="SPDE-D100", do="check the path")
        if not store.is_store(path):
            asked = options or IngestOptions()
            asked = replace(asked, missing={**stand_ins, **asked.missing}, max_missing=None, force=True)
            made = Path(stack.enter_context(TemporaryDirectory(prefix="stationpde-"))) / "observations.zarr"
            ingest(path, made, asked)
            path = made
        ds = store.open(path)
    if ds.sizes.get("station", 0) == 0 or ds.sizes.get("time", 0) == 0:
        raise DataError("there are no stations or no times in the data", code="SPDE-D025")
    stood_in = ds.attrs.get("pressure_kind") == "standard_atmosphere"
    return with_state_variables(ds, substitutes_of({} if stood_in else stand_ins))


def _is_in_memory_form(ds: xr.Dataset) -> bool:
    """Whether a dataset says of itself that it is SI and laid out as `fields` does it."""
    if not ({"time", "station"} <= set(ds.dims) and {"lat", "lon", "alt"} <= set(ds.coords)):
        return False
    names = [name for name in (*STATE_VARIABLES, "ff", "dd", "td", "psl") if name in ds]
    return bool(names) and all(ds[name].attrs.get("units") == cf_attributes(name)["units"] for name in names)


def _window_of(ds: xr.Dataset, request: WindowRequest, label: str | None) -> Window:
    seconds = np.asarray(ds["time"].values).astype("datetime64[s]").astype(np.int64)
    if np.any(np.diff(seconds) <= 0):
        raise DataError("times are not in order, or not each once", code="SPDE-D035", where=label,
                        do="ingest the source: stationpde data ingest SRC -o OUT.zarr")  # fmt: skip
    stations = Stations.from_dataset(ds)
    check_places(stations.lat, stations.lon)
    twice = [name for name, count in Counter(stations.id).items() if count > 1]
    if twice:
        raise DataError(f"station {printable(twice[0])} is there twice", code="SPDE-D033", where=label)
    issue = _issue_time(ds, seconds, request, label)
    first = issue - (request.history - 1) * request.step
    if seconds[0] > first:
        raise DataError(
            f"a forecast from {shown_time(issue)} needs {request.history} steps of {render_step(request.step)}, "
            f"from {shown_time(first)} on; the record begins {shown_time(int(seconds[0]))}",
            code="SPDE-T091", where=label, do="give a longer record, or a later --at",
        )  # fmt: skip
    wanted = first + request.step * np.arange(request.history, dtype=np.int64)
    rows = np.searchsorted(seconds, wanted)
    there = (rows < seconds.size) & (seconds[np.minimum(rows, seconds.size - 1)] == wanted)
    values = np.full((request.history, len(stations), len(STATE_VARIABLES)), np.nan, np.float32)
    values[there] = _state(ds, rows[there])
    values, rejected = _without_impossible(values, label)
    return Window(values, stations, issue, _stand_ins(ds), rejected)


def _stand_ins(ds: xr.Dataset) -> tuple[str, ...]:
    return ("p",) if ds.attrs.get("pressure_kind") == "standard_atmosphere" else ()


def _without_impossible(values: Array, label: str | None) -> tuple[Array, int]:
    """Values out of the range of the variable as missing, and how many; a variable in another unit is refused."""
    kept, rejected = values.copy(), 0
    for c, name in enumerate(STATE_VARIABLES):
        column, (low, high) = kept[..., c], variable(name).hard
        odd = (column < low) | (column > high)
        known = int(np.isfinite(column).sum())
        if known and odd.sum() > known / 2:
            raise DataError(
                f"{name} is in another unit: {odd.sum():,} of {known:,} values lie outside {low:g} to {high:g} "
                f"[{variable(name).unit}], the median is {np.nanmedian(column):.5g}",
                code="SPDE-D012", where=label, do="set attrs['units'] of the variable to the unit that it has",
            )  # fmt: skip
        column[odd] = np.nan
        rejected += int(odd.sum())
    return kept, rejected


def _state(ds: xr.Dataset, rows: Array) -> Array:
    """State variables ``[row, station, variable]`` of some rows; what is not finite is missing."""
    if rows.size == 0:
        return np.empty((0, ds.sizes["station"], len(STATE_VARIABLES)), np.float32)
    span = ds.isel(time=slice(int(rows[0]), int(rows[-1]) + 1))
    columns = [span[name].transpose("time", "station").values[rows - rows[0]] for name in STATE_VARIABLES]
    found = np.stack(columns, axis=-1).astype(np.float32)
    return np.where(np.isfinite(found), found, np.float32(np.nan))


def _issue_time(ds: xr.Dataset, seconds: Array, request: WindowRequest, label: str | None) -> int:
    """The latest time with a report: at or before ``at``, or exactly then if nothing older is allowed."""
    at = request.at
    if at is not None and request.max_age is None:
        row = int(np.searchsorted(seconds, at))
        if row < seconds.size and seconds[row] == at and any(True for _ in _reporting(ds, np.array([row]))):
            return at
        last = shown_time(int(seconds[-1]))
        raise DataError(
            f"no station reports at {shown_time(at)}; the record ends {last}", code="SPDE-T092", where=label,
            do="give a time that was observed, --at latest, or --max-age to take an earlier one",
        )  # fmt: skip
    rows = _rows_on_phase(seconds, request)
    latest = next(_reporting(ds, rows), None)
    if latest is None:
        raise DataError("no station reports anything at any time", code="SPDE-T092", where=label)
    issue = int(seconds[latest])
    if request.max_age is not None:
        reference = at if at is not None else (request.now if request.now is not None else int(clock.time()))
        if reference - issue > request.max_age:
            raise StaleDataError(
                f"the latest report is of {shown_time(issue)} UTC, {_span(reference - issue)} before "
                f"{shown_time(reference)}; allowed are {_span(request.max_age)}",
                where=label, do="wait for new observations and type the same command again",
            )  # fmt: skip
    return issue


def _rows_on_phase(seconds: Array, request: WindowRequest) -> Array:
    """Rows at the model's cadence, up to ``at``; the phase of training where the record has it, else its own last."""
    within = np.arange(seconds.size if request.at is None else np.searchsorted(seconds, request.at, side="right"))
    phases = seconds[within] % request.step
    phase = request.phase if np.any(phases == request.phase) else (phases[-1] if phases.size else 0)
    return within[phases == phase]


def _reporting(ds: xr.Dataset, rows: Array) -> Iterator[int]:
    """Rows at which a station reports, the latest first."""
    own = [c for c, name in enumerate(STATE_VARIABLES) if name not in _stand_ins(ds)]
    for stop in range(len(rows), 0, -_BLOCK):
        block = rows[max(0, stop - _BLOCK) : stop]
        seen = np.isfinite(_state(ds, block)[..., own]).any(axis=(1, 2))
        yield from block[seen][::-1].tolist()


def _span(seconds: int) -> str:
    return f"{seconds / 3600:.1f} h" if seconds < 4 * 86400 else f"{seconds / 86400:,.0f} days"


def issue_label(issue_time: int) -> str:
    """An issue time for a file name: ``20230705T1200Z``."""
    return str(to_datetime64(issue_time))[:16].replace("-", "").replace(":", "") + "Z"
