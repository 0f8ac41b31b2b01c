"""Do the values look like what their declared unit says? Findings name stations, values and the command that mends.

A unit label alone proves nothing: 101325 declared in hPa passes every formula without a word. Each station's middle
and upper tail are compared with what the atmosphere does; where they do not fit, the units under which they would
fit are named. Nothing is ever converted here.

What cannot be told from values alone, and is therefore not claimed: a wind direction given as "to" instead of
"from"; knots declared as m/s on a network whose winds are light; degrees Fahrenheit declared as Celsius in a short
winter record; exchanged latitudes and longitudes that both stay below 90, unless the daily cycle gives them away.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import Problem, ProblemReport, locate
from .units_gate import Conversion, conversion
from .variables import NUMERIC_SENTINELS, TEXT_SENTINELS, VARIABLES, variable

__all__ = ["Subject", "check_values", "is_missing_text", "sentinel_mask"]

Array = np.ndarray[Any, Any]

# Below this share of stations a unit slip is a matter of those stations, not of the declaration.
_WHOLE_NETWORK = 0.5
_MOST = 0.8
_FEWEST_VALUES = 8
_ENOUGH_SPEEDS = 100


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked, for messages: the source, its stations, and the command to which options are added."""

    source: str = ""
    stations: Sequence[Any] = ()
    command: str = "stationpde data ingest SRC -o OUT.zarr"
    trust: Collection[str] = ()

    def ids(self, chosen: Array) -> list[Any]:
        """Names of the stations at these positions."""
        return [self.stations[i] if i < len(self.stations) else i for i in np.flatnonzero(chosen).tolist()]

    def where(self, name: str, chosen: Array | None = None) -> str:
        """``file › variable › stations``."""
        if chosen is None:
            return locate(self.source, name)
        return locate(self.source, name, stations=self.ids(chosen), out_of=int(chosen.size))

    def add(self, report: ProblemReport, name: str, problem: Problem) -> None:
        """Report a finding, as a warning where the user vouches for the variable."""
        found = ProblemReport([problem])
        report.extend(found.lenient() if name in self.trust else found)


def is_missing_text(text: str) -> bool:
    """Whether a cell of a table is one of the known ways to write "missing"."""
    return text.strip().lower() in TEXT_SENTINELS


def sentinel_mask(name: str, values: Array, unit: str) -> Array:
    """Where a number is a code for missing: a known code that the variable cannot take in the declared unit."""
    low, high = (conversion(name, unit).from_si(bound) for bound in variable(name).hard)
    codes = [code for code in NUMERIC_SENTINELS if not low <= code <= high]
    finite = np.where(np.isfinite(values), values, 0.0)
    # Most values lie inside the range: only the rest are compared with the codes.
    outside = (finite < low) | (finite > high)
    found = np.zeros(values.shape, bool)
    if outside.any():
        single = np.asarray(codes, np.float32)  # codes such as 9999.9 are met in single precision too
        picked = finite[outside]
        found[outside] = np.isin(picked, codes) | np.isin(picked.astype(np.float32), single)
    return found


@dataclass(frozen=True, slots=True)
class _Shape:
    """Middle and upper tail of every station, in the declared unit."""

    middle: Array
    top: Array

    @classmethod
    def of(cls, values: Array) -> _Shape:
        plain = np.asarray(values, np.float64)
        table = plain.reshape(plain.shape[0], -1) if plain.ndim > 1 else plain[:, None]
        table = np.where(np.isfinite(table), table, np.nan)
        counted = np.isfinite(table).sum(axis=0)
        middle, top = np.full(table.shape[1], np.nan), np.full(table.shape[1], np.nan)
        enough = counted >= min(_FEWEST_VALUES, table.shape[0])
        enough &= counted > 0
        if enough.any():
            middle[enough], top[enough] = np.nanpercentile(table[:, enough], [50, 99], axis=0)
        return cls(middle, top)

    def fits(self, name: str, how: Conversion) -> Array:
        """Where middle and tail, read in a unit, are what the atmosphere does; stations without data do fit."""
        row = variable(name)
        with np.errstate(invalid="ignore"):
            middle, top = how.to_si(self.middle), how.to_si(self.top)
            good = (row.typical[0] <= middle) & (middle <= row.typical[1])
            good &= (row.tail[0] <= top) & (top <= row.tail[1])
        return good | np.isnan(self.middle)


def check_values(name: str, values: Array, unit: str, subject: Subject) -> ProblemReport:
    """Check one variable, ``values[time, station]`` in the declared unit, codes for missing already removed.

    Returns
    -------
    A report with an error where most stations look like another unit, a warning where some do, and a notice of
    values outside the physical range.
    """
    report = ProblemReport()
    row = variable(name)
    declared = conversion(name, unit)
    shape = _Shape.of(values)
    wrong = ~shape.fits(name, declared)
    known = ~np.isnan(shape.middle)
    if name in ("u", "v", "ff") and known.any():
        wrong = _windy_network(name, shape, declared, wrong)
    whole = bool(wrong.any() and wrong.sum() >= _WHOLE_NETWORK * known.sum())
    if not whole:
        _check_range(report, name, values, declared, subject)
    if not wrong.any():
        if name == "ff" and known.any():
            _check_whole_numbers(report, values, unit, subject)
        return report
    fitting = [u for u in row.file_units if _mends(name, shape, wrong, conversion(name, u))]
    low, high = (declared.from_si(bound) for bound in row.typical)
    middle = float(np.nanmedian(shape.middle[wrong]))
    top = float(np.nanmedian(shape.top[wrong]))
    why = f"median {middle:.6g}, 99th percentile {top:.6g}, usual median {low:.6g} to {high:.6g} {unit}"
    what = f"{row.long_name.lower()} is not plausible in {unit}"
    do = f"check the unit and the column of `{name}`; if the values are right: {subject.command} --trust {name}"
    if fitting:
        likely = " or ".join(_spoken(other) for other in fitting)
        what = f"{row.long_name.lower()} looks like {likely} but is declared {_spoken(unit)}"
        do = f"{subject.command} --unit {name}={fitting[0]}"
    if not whole:
        do = "mend these stations in the source; quality control flags their values otherwise"
    severity: Any = "error" if whole else "warning"
    code = "SPDE-D012" if fitting else "SPDE-D011"
    subject.add(report, name, Problem(code, what, subject.where(name, wrong), why, do, severity))
    return report


def _spoken(unit: str) -> str:
    """A unit inside a sentence."""
    return "a fraction (0 to 1)" if unit == "1" else unit


def _mends(name: str, shape: _Shape, wrong: Array, how: Conversion) -> bool:
    """Whether another unit makes most of the doubtful stations plausible."""
    return bool(shape.fits(name, how)[wrong].mean() > _MOST)


def _windy_network(name: str, shape: _Shape, declared: Conversion, wrong: Array) -> Array:
    """A single summit may well be windy; the unit is wrong only if the network as a whole is."""
    row = VARIABLES[name]
    middle = declared.to_si(float(np.nanmedian(shape.middle)))
    top = declared.to_si(float(np.nanmedian(shape.top)))
    if row.typical[0] <= middle <= row.typical[1] and top <= row.tail[1]:
        return np.zeros_like(wrong)
    return ~np.isnan(shape.middle)


def _check_range(report: ProblemReport, name: str, values: Array, declared: Conversion, subject: Subject) -> None:
    """Count what is physically impossible; quality control flags it."""
    low, high = (declared.from_si(bound) for bound in variable(name).hard)
    plain = np.asarray(values)
    with np.errstate(invalid="ignore"):
        outside = (plain < low) | (plain > high)
    if not outside.any():
        return
    stations = outside.any(axis=0) if plain.ndim > 1 else outside.any(keepdims=True)
    picked = plain[outside]
    worst = picked[np.argmax(np.abs(picked - (low + high) / 2))]
    report.warning(
        "SPDE-D011",
        f"{int(outside.sum()):,} values of {name} are outside the physical range",
        where=subject.where(name, stations),
        why=f"{worst:.6g} {declared.unit}, allowed {low:.6g} to {high:.6g}",
        do="they are flagged and read as missing; `stationpde data info STORE` counts them",
    )


def _check_whole_numbers(report: ProblemReport, values: Array, unit: str, subject: Subject) -> None:
    """METAR reports whole knots: wind speeds in m/s that are all whole deserve a second look."""
    known = np.asarray(values)[np.isfinite(values)]
    moving = known[known > 0]
    if unit not in ("m/s", "m s-1") or moving.size < _ENOUGH_SPEEDS or np.any(moving % 1):
        return
    report.notice(
        "SPDE-D012",
        "every wind speed is a whole number, as in reports in knots",
        where=subject.where("ff"),
        why=f"median {np.median(moving):.3g} {unit}",
        do=f"if these are knots: {subject.command} --unit ff=kt",
    )
