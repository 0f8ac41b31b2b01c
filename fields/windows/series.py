"""A whole record in memory: stations, a regular time axis in UTC, and one contiguous array of the state variables.

Training reads windows from here millions of times, so the record is loaded, not lazy: a year of a national network at
three hours takes 110 MB. Values are SI in float32, NaN where nothing was observed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from fields import derive
from fields.checks import require_numbers
from fields.errors import DataError, ProblemReport, UsageError, counted, is_whole, locate
from fields.places import Places
from fields.stand_ins import (
    STAND_INS,
    checked_stand_ins,
    lacking,
    reference_values,
    reference_variables,
    with_stand_ins,
)
from fields.times import most_common_step, require_era, utc_seconds
from fields.variables import EXTRA_VARIABLES, STATE_VARIABLES

__all__ = ["StationSeries", "Stations", "rows_at_cadence", "with_state_variables"]

Array = np.ndarray[Any, Any]
# The type of places under the name that models use for a network.
Stations = Places

# Steps of a store that are in memory at once while a record is read.
_BLOCK_STEPS = 4096
# A variable that most of the network lacks says nothing about a single station's quality.
_MOSTLY_MISSING = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class StationSeries:
    """A record at the model's cadence.

    Parameters
    ----------
    time : int64 ``[time]``, seconds since 1970 UTC, in steps of ``step_seconds``; a longer step is a gap that no
        window crosses
    values : float32 ``[time, station, variable]``, SI, NaN = missing
    stations : names and positions of the stations
    step_seconds : the cadence
    fingerprint : hash of the content; computed if empty
    variables : names of the variables, in the order of ``values``
    reference : variables that are a reference instead of observations and are never scored
    extras : record of variables beside the state, at the same times and stations; None without any
    """

    time: Array
    values: Array
    stations: Places
    step_seconds: int
    fingerprint: str = ""
    variables: tuple[str, ...] = STATE_VARIABLES
    reference: tuple[str, ...] = ()
    extras: StationSeries | None = None

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
        if not is_whole(self.step_seconds, 1):
            raise UsageError(f"a step is a whole number of seconds from 1, not {self.step_seconds!r}", code="SPDE-D150")
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
        """Whether each variable was observed, and so may be scored."""
        return tuple(name not in self.reference for name in self.variables)

    def take(self, stations: Array | Sequence[int]) -> StationSeries:
        """Return the record of the stations chosen by number or mask."""
        chosen = np.arange(len(self.stations))[np.asarray(stations)]
        extras = None if self.extras is None else self.extras.take(chosen)
        return replace(
            self, values=self.values[:, chosen], stations=self.stations.take(chosen), fingerprint="", extras=extras
        )  # fmt: skip

    def missing_rate(self, stop: int | None = None) -> Array:
        """Return the share of the first ``stop`` steps that each station lacks ``[station]``.

        It is that of the worst of the variables that most of the network reports.
        """
        return np.max(list(self._missing(stop).values()), axis=0)

    def _missing(self, stop: int | None) -> dict[str, Array]:
        """Return the missing share of each station by variable, for variables that most of the network reports.

        If there is no such variable, all are returned.
        """
        seen = self.values[:stop]
        rates = {
            name: 1.0 - np.isfinite(seen[:, :, c]).mean(axis=0)
            for c, (name, scored) in enumerate(zip(self.variables, self.scored, strict=True))
            if scored
        }
        common = {name: rate for name, rate in rates.items() if np.median(rate) < _MOSTLY_MISSING}
        return common or rates

    def without_sparse(
        self, most: float | None, stop: int | None = None, report: ProblemReport | None = None
    ) -> StationSeries:
        """Leave out stations that report nothing at all, or lack more than ``most`` of the first ``stop`` steps.

        Parameters
        ----------
        most : largest share that may be missing; None keeps all stations that report anything
        stop : the border of the training split: later steps must not decide which stations are used
        report : receives a notice with the stations left out
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
                do="`stationpde train --set data.max_missing=1` keeps all",
            )  # fmt: skip
        dense = ~silent & ~sparse
        if not dense.any():
            raise DataError(
                "no station is left", code="SPDE-D025", where=f"{ids.size} stations, {int(silent.sum())} silent",
                do="data.max_missing=1   keeps all that report anything",
            )  # fmt: skip
        return self if dense.all() else self.take(dense)

    @classmethod
    def from_dataset(
        cls, ds: xr.Dataset, step: int | None = None, *, missing: Mapping[str, str] | None = None,
        complete: bool = False, extra: Sequence[str] = (),
    ) -> StationSeries:  # fmt: skip
        """Read a dataset, such as `fields.open_store` returns, at a cadence.

        Parameters
        ----------
        ds : dimensions time and station, SI; state variables that it lacks are derived (`fields.derive`)
        step : seconds; times are selected, never averaged: those on whole multiples since midnight UTC where there
            are any, else those in phase with the first time. None selects all. Absent times become missing rows
        missing : substitutes for variables that the data lack, ``{"p": "standard-atmosphere"}``
        complete : whether stand-ins (`fields.stand_ins`) take the place of all variables that are not observed
        extra : variables beside the state to read as well; NaN where the data lack them, refused with ``complete``

        Raises
        ------
        DataError
            If a variable is missing everywhere, there is no station or no time, or the data are coarser than ``step``;
            with ``complete``, if nothing is observed, or humidity without temperature.
        """
        label = str(ds.attrs.get("source", ""))
        if step is not None and not is_whole(step, 1):
            raise UsageError(f"a step is a whole number of seconds from 1, not {step!r}", code="SPDE-D150",
                             do="fields.times.parse_span('3h') gives 10800")  # fmt: skip
        if ds.sizes.get("station", 0) == 0 or ds.sizes.get("time", 0) == 0:
            raise DataError("there are no stations or no times in the data", code="SPDE-D025", where=label or None)
        ds = with_state_variables(ds, checked_stand_ins(missing or {}), complete=complete)
        seconds = utc_seconds(ds["time"], f"{label} › time" if label else "time")
        require_era(seconds)
        if np.any(np.diff(seconds) <= 0):
            raise DataError("times are not in order, or not each once", code="SPDE-D035", where=label or None,
                            do="ingest the source again: stationpde data ingest SRC -o OUT.zarr")  # fmt: skip
        cadence, rows, slots = _select(seconds, step, label)
        time = seconds[rows[0]] + cadence * np.arange(slots[-1] + 1, dtype=np.int64)
        values = _read(ds, STATE_VARIABLES, rows, slots)
        reference, places = reference_variables(ds), Places.from_dataset(ds)
        there = {name for c, name in enumerate(STATE_VARIABLES) if np.isfinite(values[:, :, c]).any()}
        if not complete:
            for name in STATE_VARIABLES:
                if name not in there:
                    raise _absent(name, label)
        elif there != set(STATE_VARIABLES):
            absent = lacking(there - set(reference), label)
            for name in absent:
                values[:, :, STATE_VARIABLES.index(name)] = reference_values(name, places.alt)
            reference = tuple(name for name in STATE_VARIABLES if name in {*reference, *absent})
        extras = None
        if extra:
            more = _read(ds, extra, rows, slots)
            unseen = [name for c, name in enumerate(extra) if not np.isfinite(more[:, :, c]).any()]
            if complete and unseen:
                raise _no_extra(unseen[0], ds, label)
            extras = cls(time, more, places, cadence, variables=tuple(extra))
        return cls(time, values, places, cadence, reference=reference, extras=extras)


def _read(ds: xr.Dataset, names: Sequence[str], rows: Array, slots: Array) -> Array:
    """Read rows of variables into places of a regular axis, float32 ``[time, station, variable]``."""
    values = np.full((int(slots[-1]) + 1, ds.sizes["station"], len(names)), np.nan, np.float32)
    for start, stop in _blocks(ds, ds.sizes["time"]):
        inside = (rows >= start) & (rows < stop)
        for c, name in enumerate(names if inside.any() else ()):
            if name in ds:
                block = ds[name].transpose("time", "station")[start:stop].values[rows[inside] - start]
                values[slots[inside], :, c] = np.where(np.isfinite(block), block, np.nan)
    return values


def _no_extra(name: str, ds: xr.Dataset, label: str) -> DataError:
    there = [one for one in EXTRA_VARIABLES if one in ds]
    return DataError(
        f"no station reports {name}, which data.extra names", code="SPDE-D019", where=locate(label, name) or None,
        do=f"data.extra names what there is: {', '.join(there) or 'nothing; a column map says what a source has'}",
    )  # fmt: skip


def with_state_variables(ds: xr.Dataset, substitutes: frozenset[str], *, complete: bool = False) -> xr.Dataset:
    """Return the dataset with all state variables, deriving those that it lacks.

    Parameters
    ----------
    ds : observations, SI
    substitutes : variables to replace by a reference, see `fields.stand_ins`
    complete : whether a reference replaces whatever else is missing and cannot be derived

    Raises
    ------
    DataError
        If a variable is missing and cannot be derived, or holds something other than real numbers.
    """
    require_numbers(ds)
    if not {"u", "v"} <= set(ds.data_vars) and {"ff", "dd"} <= set(ds.data_vars):
        ds = derive.with_wind(ds)
    if "rh" not in ds and {"t", "td"} <= set(ds.data_vars):
        ds = derive.with_humidity(ds)
    if "p" not in ds and "p" not in substitutes and {"psl", "t"} <= set(ds.data_vars):
        ds = derive.with_station_pressure(ds)
    label = str(ds.attrs.get("source", ""))
    if complete:
        observed = {name for name in STATE_VARIABLES if name in ds} - {*substitutes, *reference_variables(ds)}
        absent = lacking(observed, label)
        substitutes = frozenset({*substitutes, *absent}) - frozenset(reference_variables(ds))
    ds = with_stand_ins(ds, substitutes)
    for name in STATE_VARIABLES:
        if name not in ds:
            raise _absent(name, label)
    return ds


def rows_at_cadence(
    seconds: Array, step: int, phase: int = 0, *, otherwise: Literal["first", "last"] = "first"
) -> Array:
    """Return the rows at a cadence: times are selected, never averaged.

    Parameters
    ----------
    seconds : times of the rows, s since 1970.
    step : cadence [s].
    phase : remainder of the times after division by ``step`` [s].
    otherwise : whose phase to take where no time has that one: the first time's or the last one's.
    """
    phases = seconds % step
    if seconds.size and not np.any(phases == phase):
        phase = int(phases[0 if otherwise == "first" else -1])
    return np.flatnonzero(phases == phase)


def _lacking(missing: Mapping[str, Array], sparse: Array, most: float | None) -> str:
    """Write ``u, v up to 100% missing``: the variables that sparse stations lack, and the largest share."""
    worst = {name: float(rate[sparse].max()) for name, rate in missing.items()}
    names = [name for name, rate in worst.items() if most is None or rate > most]
    return f"{', '.join(names)} up to {max(worst.values()):.0%} missing"


def _blocks(ds: xr.Dataset, steps: int) -> Iterator[tuple[int, int]]:
    """Yield spans of time to read at once: the chunks of the store, so that no file is opened twice."""
    chunks = ds[STATE_VARIABLES[3]].chunksizes.get("time", (_BLOCK_STEPS,) * -(-steps // _BLOCK_STEPS))
    stops = np.minimum(np.cumsum(chunks), steps).tolist()
    yield from zip([0, *stops], stops)


def _absent(name: str, label: str) -> DataError:
    reference = f"stationpde data ingest SRC -o OUT.zarr --missing p={STAND_INS['p']}"
    do = f"{reference}   takes a reference that is not scored" if name == "p" else None
    return DataError(f"{name} is missing everywhere", code="SPDE-D019", where=locate(label, name) or None, do=do)


def _select(seconds: Array, step: int | None, label: str) -> tuple[int, Array, Array]:
    """Select the times at a cadence: return the step, the rows to read, and their places on the regular axis."""
    data_step = most_common_step(seconds.astype("datetime64[s]"))
    cadence = step or data_step or 3600
    if data_step and cadence % data_step:
        raise DataError(
            f"a step of {cadence} s was requested, but the data come every {data_step} s", code="SPDE-D151",
            where=label or None, do=f"choose a multiple of {data_step} s, or ingest a finer source",
        )  # fmt: skip
    rows = rows_at_cadence(seconds, cadence)
    return cadence, rows, (seconds[rows] - seconds[rows[0]]) // cadence


def _fingerprint(series: StationSeries) -> str:
    about = f"{series.step_seconds};{series.variables};{series.reference};{series.values.shape};{series.stations.id}"
    if series.extras is not None:
        about += f";{series.extras.fingerprint}"
    digest = hashlib.sha256(about.encode())
    for array in (series.time, *series.stations.coordinates, series.values):
        digest.update(array.data.cast("B"))
    return digest.hexdigest()
