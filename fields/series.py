"""A whole record in memory: stations, a regular time axis in UTC, and one contiguous array of the state variables.

Training reads windows from here millions of times, so that nothing lazy is left: a year of a national network at three
hours takes 110 MB. Values are SI in float32, NaN where nothing was observed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from . import derive
from .composition import substitutes_of
from .errors import DataError, ProblemReport, UsageError, counted, locate
from .schema_time import usual_step
from .time_features import require_era
from .variables import STATE_VARIABLES

__all__ = ["StationSeries", "Stations", "with_state_variables"]

Array = np.ndarray[Any, Any]
# Steps of a store that are in memory at once while a record is read.
_BLOCK_STEPS = 4096
# A variable that most of the network lacks says nothing about a single station's quality.
_MOSTLY_MISSING = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Stations:
    """Where observations are made: ``lat`` and ``lon`` in degrees, ``alt`` in m, each float64 ``[station]``."""

    id: tuple[str, ...]
    lat: Array
    lon: Array
    alt: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", tuple(str(name) for name in self.id))
        for name in ("lat", "lon", "alt"):
            place = np.ascontiguousarray(getattr(self, name), np.float64)
            object.__setattr__(self, name, place)
            if place.shape != (len(self.id),):
                raise UsageError(
                    f"{len(self.id)} stations need one {name} each, there are {place.shape}", code="SPDE-D150"
                )

    def __len__(self) -> int:
        return len(self.id)

    def take(self, index: Array | Sequence[int]) -> Stations:
        """Some of the stations, by number or mask."""
        chosen = np.arange(len(self))[np.asarray(index)]
        return Stations(tuple(self.id[i] for i in chosen), self.lat[chosen], self.lon[chosen], self.alt[chosen])

    @classmethod
    def from_dataset(cls, ds: xr.Dataset) -> Stations:
        """The stations of a dataset with coordinates ``station``, ``lat``, ``lon``, ``alt``."""
        places = (np.asarray(ds[name].values, np.float64) for name in ("lat", "lon", "alt"))
        return cls(tuple(map(str, ds["station"].values)), *places)


@dataclass(frozen=True, slots=True, eq=False)
class StationSeries:
    """A record at the model's cadence.

    ``time`` is int64 ``[T]``, seconds since 1970 UTC, in steps of ``step_seconds``; a longer step is a gap that no
    window crosses. ``values`` is float32 ``[T, N, C]`` in the order of ``variables``. ``fingerprint`` stands for the
    content. Variables in ``reference`` were put in place of observations and are never scored.
    """

    time: Array
    values: Array
    stations: Stations
    step_seconds: int
    fingerprint: str = ""
    variables: tuple[str, ...] = STATE_VARIABLES
    reference: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", np.ascontiguousarray(self.time, np.int64))
        object.__setattr__(self, "values", np.ascontiguousarray(self.values, np.float32))
        shape = (len(self.time), len(self.stations), len(self.variables))
        if self.values.shape != shape:
            raise UsageError(
                f"values of shape {self.values.shape} do not fit {shape[0]} times, {shape[1]} stations and "
                f"{shape[2]} variables",
                code="SPDE-D150",
            )
        if self.step_seconds <= 0:
            raise UsageError(f"a step of {self.step_seconds} s is none", code="SPDE-D150")
        require_era(self.time)
        gaps = np.diff(self.time)
        if np.any(gaps <= 0) or np.any(gaps % self.step_seconds):
            raise DataError(
                f"times are not increasing in whole steps of {self.step_seconds} s", code="SPDE-D036",
                do="StationSeries.from_dataset puts them on a regular axis",
            )  # fmt: skip
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", _fingerprint(self))

    def __len__(self) -> int:
        return len(self.time)

    @property
    def scored(self) -> tuple[bool, ...]:
        """For each variable whether it was observed, and so may be scored."""
        return tuple(name not in self.reference for name in self.variables)

    def take(self, stations: Array | Sequence[int]) -> StationSeries:
        """The record of some of the stations, by number or mask."""
        chosen = np.arange(len(self.stations))[np.asarray(stations)]
        return replace(
            self, values=self.values[:, chosen], stations=self.stations.take(chosen), fingerprint=""
        )  # fmt: skip

    def missing_rate(self, stop: int | None = None) -> Array:
        """Share of the first ``stop`` steps that each station lacks: the worst of the variables the network reports."""
        return np.max(list(self._missing(stop).values()), axis=0)

    def _missing(self, stop: int | None) -> dict[str, Array]:
        """Share that each station lacks of each variable that most of the network reports, or of all."""
        seen = self.values[:stop]
        rates = {
            name: 1.0 - np.isfinite(seen[:, :, c]).mean(axis=0)
            for c, (name, scored) in enumerate(zip(self.variables, self.scored, strict=True))
            if scored
        }
        usual = {name: rate for name, rate in rates.items() if np.median(rate) < _MOSTLY_MISSING}
        return usual or rates

    def without_sparse(
        self, most: float | None, stop: int | None = None, report: ProblemReport | None = None
    ) -> StationSeries:
        """Leave out stations that report nothing at all, or lack more than ``most`` of the first ``stop`` steps.

        Parameters
        ----------
        most : share allowed to be missing; None keeps whoever reports anything
        stop : the border of the training split: later steps must not decide who takes part
        report : told who was left out
        """
        observed = [c for c, scored in enumerate(self.scored) if scored]
        silent = ~np.isfinite(self.values[:, :, observed]).any(axis=(0, 2))
        missing = self._missing(stop)
        sparse = np.zeros_like(silent) if most is None else ~silent & (self.missing_rate(stop) > most)
        ids = np.asarray(self.stations.id)
        if silent.any() and report is not None:
            report.notice(
                "SPDE-D020", f"{counted(int(silent.sum()), 'station')} left out: nothing reported",
                where=locate(stations=ids[silent], out_of=ids.size),
            )  # fmt: skip
        if sparse.any() and report is not None:
            report.notice(
                "SPDE-D041", f"{counted(int(sparse.sum()), 'station')} left out: too many gaps in the training period",
                where=locate(stations=ids[sparse], out_of=ids.size),
                why=f"{_lacking(missing, sparse, most)}, allowed {most:.0%}",
                do="keep all with --set data.max_missing=1",
            )  # fmt: skip
        kept = ~silent & ~sparse
        if not kept.any():
            raise DataError(
                "no station is left", code="SPDE-D025", where=f"{ids.size} stations, {int(silent.sum())} silent",
                do="--set data.max_missing=1",
            )  # fmt: skip
        return self if kept.all() else self.take(kept)

    @classmethod
    def from_dataset(
        cls, ds: xr.Dataset, step: int | None = None, *, missing: Mapping[str, str] | None = None
    ) -> StationSeries:
        """Read a dataset, as `fields.store.open` gives it, at a cadence.

        Parameters
        ----------
        ds : dimensions time and station, SI; what the state needs and is not there is derived (`fields.derive`)
        step : seconds; times are selected, never averaged: those on whole multiples since midnight UTC where there
            are any, else the phase of the first time. None takes all. Times that are absent become missing rows
        missing : substitutes, ``{"p": "standard-atmosphere"}``

        Raises
        ------
        DataError
            If a variable is missing everywhere, there is no station or no time, or the data are coarser than ``step``.
        """
        label = str(ds.attrs.get("source", ""))
        if ds.sizes.get("station", 0) == 0 or ds.sizes.get("time", 0) == 0:
            raise DataError("there are no stations or no times in the data", code="SPDE-D025", where=label or None)
        ds = with_state_variables(ds, substitutes_of(missing or {}))
        seconds = np.asarray(ds["time"].values).astype("datetime64[s]").astype(np.int64)
        require_era(seconds)
        if np.any(np.diff(seconds) <= 0):
            raise DataError("times are not in order, or not each once", code="SPDE-D035", where=label or None,
                            do="ingest the source again: stationpde data ingest SRC -o OUT.zarr")  # fmt: skip
        wanted, rows, slots = _select(seconds, step, label)
        time = seconds[rows[0]] + wanted * np.arange(slots[-1] + 1, dtype=np.int64)
        values = np.full((time.size, ds.sizes["station"], len(STATE_VARIABLES)), np.nan, np.float32)
        for start, stop in _blocks(ds, seconds.size):
            inside = (rows >= start) & (rows < stop)
            for c, name in enumerate(STATE_VARIABLES if inside.any() else ()):
                block = ds[name].transpose("time", "station")[start:stop].values[rows[inside] - start]
                values[slots[inside], :, c] = np.where(np.isfinite(block), block, np.nan)
        for c, name in enumerate(STATE_VARIABLES):
            if not np.isfinite(values[:, :, c]).any():
                raise _absent(name, label)
        reference = ("p",) if ds.attrs.get("pressure_kind") == "standard_atmosphere" else ()
        return cls(time, values, Stations.from_dataset(ds), wanted, reference=reference)


def with_state_variables(ds: xr.Dataset, substitutes: frozenset[str]) -> xr.Dataset:
    """The dataset with all state variables, derived where it has what they come from."""
    if not {"u", "v"} <= set(ds.data_vars) and {"ff", "dd"} <= set(ds.data_vars):
        ds = derive.with_wind(ds)
    if "rh" not in ds and {"t", "td"} <= set(ds.data_vars):
        ds = derive.with_humidity(ds)
    if "p" in substitutes:
        ds = derive.with_standard_pressure(ds)
    elif "p" not in ds and {"psl", "t"} <= set(ds.data_vars):
        ds = derive.with_station_pressure(ds)
    for name in STATE_VARIABLES:
        if name not in ds:
            raise _absent(name, str(ds.attrs.get("source", "")))
    return ds


def _lacking(missing: Mapping[str, Array], who: Array, most: float | None) -> str:
    """Write ``u, v 100% missing``: what these stations lack too much of, and how much at most."""
    worst = {name: float(rate[who].max()) for name, rate in missing.items()}
    names = [name for name, rate in worst.items() if most is None or rate > most]
    return f"{', '.join(names)} up to {max(worst.values()):.0%} missing"


def _blocks(ds: xr.Dataset, steps: int) -> Iterator[tuple[int, int]]:
    """Spans of time to read at once: those in which a store was written, so that no file is opened twice."""
    chunks = ds[STATE_VARIABLES[3]].chunksizes.get("time", (_BLOCK_STEPS,) * -(-steps // _BLOCK_STEPS))
    stops = np.minimum(np.cumsum(chunks), steps).tolist()
    yield from zip([0, *stops], stops)


def _absent(name: str, label: str) -> DataError:
    do = "--missing p=standard-atmosphere takes a reference that is not scored" if name == "p" else None
    return DataError(f"{name} is missing everywhere", code="SPDE-D019", where=locate(label, name) or None, do=do)


def _select(seconds: Array, step: int | None, label: str) -> tuple[int, Array, Array]:
    """The step, the rows that are taken, and the places that they get on the regular axis."""
    own = usual_step(seconds.astype("datetime64[s]"))
    wanted = step or own or 3600
    if own and wanted % own:
        raise DataError(
            f"a step of {wanted} s was asked for, the data come every {own} s", code="SPDE-D151", where=label or None,
            do=f"choose a multiple of {own} s, or ingest a finer source",
        )  # fmt: skip
    phase = 0 if np.any(seconds % wanted == 0) else int(seconds[0] % wanted)
    rows = np.flatnonzero(seconds % wanted == phase)
    return wanted, rows, (seconds[rows] - seconds[rows[0]]) // wanted


def _fingerprint(series: StationSeries) -> str:
    about = f"{series.step_seconds};{series.variables};{series.reference};{series.values.shape};{series.stations.id}"
    digest = hashlib.sha256(about.encode())
    places = (series.stations.lat, series.stations.lon, series.stations.alt)
    for array in (series.time, *places, series.values):
        digest.update(array.data.cast("B"))
    return digest.hexdigest()
