"""Check that values are plausible in their declared unit; findings name stations, values and the command that mends.

A unit label alone proves nothing: 101325 declared in hPa passes every formula without an error. Median and upper tail
of each station are compared with what the atmosphere does; where they do not fit, the units under which they would
fit are named. Nothing is converted here.

What values alone cannot tell, and is therefore not reported: a wind direction given as "to" instead of
"from"; knots declared as m/s on a network whose winds are light; degrees Fahrenheit declared as Celsius in a short
winter record; exchanged latitudes and longitudes that both stay below 90, unless the daily cycle shows it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fields.errors import Problem, ProblemReport, locate
from fields.units import Conversion, conversion
from fields.variables import NUMERIC_SENTINELS, VARIABLES, variable

__all__ = ["Subject", "check_values", "sentinel_mask"]

Array = np.ndarray[Any, Any]

# Below this share of stations a unit slip is a matter of those stations, not of the declaration.
_WHOLE_NETWORK = 0.5
# Share of the doubtful stations that another unit must make plausible before it is proposed.
_SHARE_MENDED = 0.8
_FEWEST_VALUES = 8
_VOUCH = re.compile(r"(?:;|   or,) if the (?:values|places) are right: ")
_ENOUGH_SPEEDS = 100
_LEAST_GALE = 0.3  # m/s, 99th percentile of wind speed
# Codes of one variable alone: 990 is a direction that changes, in files made of SYNOP reports (dd = 99).
_CODES_OF = {"dd": (990.0,)}
_FEWEST_POINTS = 12  # different directions, of which a wind that turns has more


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked, for messages.

    ``source`` is the name of the data, ``stations`` their ids, ``command`` the command line to which messages add the
    option that mends a problem. Findings on variables in ``trust`` are warnings: the user vouches for their values.
    """

    source: str = ""
    stations: Sequence[Any] = ()
    command: str = "stationpde data ingest SRC -o OUT.zarr"
    trust: Collection[str] = ()

    def ids(self, chosen: Array) -> list[Any]:
        """Return the ids of the stations where ``chosen`` is true."""
        return [self.stations[i] if i < len(self.stations) else i for i in np.flatnonzero(chosen).tolist()]

    def where(self, name: str, chosen: Array | None = None) -> str:
        """Write the place of a finding as ``file › variable › stations``."""
        if chosen is None:
            return locate(self.source, name)
        return locate(self.source, name, stations=self.ids(chosen), out_of=int(chosen.size))

    def dropping(self, chosen: Array) -> str:
        """Write the command that leaves out the stations where ``chosen`` is true."""
        return f"{self.command} --drop {shlex.quote(','.join(map(str, self.ids(chosen))))}"

    def add(self, report: ProblemReport, name: str, problem: Problem) -> None:
        """Report a finding, as a warning where the user vouches for the variable."""
        if name in self.trust:
            # Who vouches for the values already is not advised to do so.
            problem = replace(problem, do=_VOUCH.split(problem.do)[0], severity="warning")
        report.add(problem)


def sentinel_mask(name: str, values: Array, unit: str) -> Array:
    """Return where a number is a code for missing (-9999 …) that the variable cannot take in the declared unit."""
    low, high = (conversion(name, unit).from_si(bound) for bound in variable(name).hard)
    codes = [code for code in (*NUMERIC_SENTINELS, *_CODES_OF.get(name, ())) if not low <= code <= high]
    finite = np.where(np.isfinite(values), values, 0.0)
    # Most values lie inside the range: only the rest are compared with the codes.
    outside = (finite < low) | (finite > high)
    coded = np.zeros(values.shape, bool)
    if outside.any():
        single = np.asarray(codes, np.float32)  # codes such as 9999.9 occur in single precision too
        picked = finite[outside]
        coded[outside] = np.isin(picked, codes) | np.isin(picked.astype(np.float32), single)
    return coded


@dataclass(frozen=True, slots=True)
class _StationQuantiles:
    """Median and 99th percentile of every station, in the declared unit; NaN for stations with too few values."""

    middle: Array
    top: Array

    @classmethod
    def of(cls, values: Array) -> _StationQuantiles:
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
        """Return where median and tail, read in a unit, are plausible; stations without data count as plausible."""
        row = variable(name)
        with np.errstate(invalid="ignore"):
            middle, top = how.to_si(self.middle), how.to_si(self.top)
            good = (row.typical[0] <= middle) & (middle <= row.typical[1])
            good &= (row.tail[0] <= top) & (top <= row.tail[1])
        return good | np.isnan(self.middle)


def check_values(
    name: str, values: Array, unit: str, subject: Subject, *, declared_as: Sequence[str] = ()
) -> ProblemReport:
    """Check one variable, ``values[time, station]`` in the declared unit, codes for missing already removed.

    ``declared_as`` are the variables of the source that the values were computed from, for the advice; by default
    ``name``.

    Returns
    -------
    A report with an error where most stations look like another unit, a warning where some do, and a notice of
    values outside the physical range.
    """
    report = ProblemReport()
    row = variable(name)
    declared = conversion(name, unit)
    quantiles = _StationQuantiles.of(values)
    wrong = ~quantiles.fits(name, declared)
    judged = ~np.isnan(quantiles.middle)
    if name in ("u", "v", "ff") and judged.any():
        wrong = _windy_network(name, quantiles, declared, wrong)
    whole = bool(wrong.any() and wrong.sum() >= _WHOLE_NETWORK * judged.sum())
    if not whole:
        _check_range(report, name, values, declared, subject)
    if not wrong.any():
        if name == "dd":
            _check_full_circle(report, values, unit, subject)
        if name == "ff" and judged.any():
            _check_whole_numbers(report, values, unit, subject)
        return report
    fitting = [u for u in row.file_units if _makes_plausible(name, quantiles, wrong, conversion(name, u))]
    low, high = (declared.from_si(bound) for bound in row.typical)
    middle = float(np.nanmedian(quantiles.middle[wrong]))
    top = float(np.nanmedian(quantiles.top[wrong]))
    why = f"median {middle:.6g}, 99th percentile {top:.6g}, plausible median {low:.6g} to {high:.6g} {unit}"
    what = f"{row.long_name.lower()} is not plausible in {unit}"
    sources = tuple(declared_as) or (name,)
    trusted = "".join(f" --trust {source}" for source in sources)
    do = f"check unit and column of {', '.join(sources)}; if the values are right: {subject.command}{trusted}"
    if fitting:
        likely = " or ".join(_unit_words(other) for other in fitting)
        what = f"{row.long_name.lower()} looks like {likely} but is declared {_unit_words(unit)}"
        do = subject.command + "".join(f" --unit {source}={fitting[0]}" for source in sources)
        if len(fitting) > 1:
            do += f"   or {', '.join(fitting[1:])}, whichever is true"
        present = np.asarray(values)[np.isfinite(values)]
        if name in ("t", "td") and unit == "degC" and not np.any(present % 1):
            do += f"   or, if these are tenths of a degree: {subject.command} --map FILE.toml   with scale = 0.1"
    is_mixed = bool(fitting) and quantiles.fits(name, conversion(name, fitting[0]))[judged].mean() <= _SHARE_MENDED
    if not whole or is_mixed:  # no unit would fit all stations
        do = f"mend these stations in the source, or leave them out: {subject.dropping(wrong)}"
    severity: Any = "error" if whole else "warning"
    code = "SPDE-D012" if fitting else "SPDE-D011"
    vouched = next((source for source in sources if source in subject.trust), name)
    subject.add(report, vouched, Problem(code, what, subject.where(name, wrong), why, do, severity))
    return report


def _unit_words(unit: str) -> str:
    """Write a unit for use inside a sentence."""
    return "a fraction (0 to 1)" if unit == "1" else unit


def _makes_plausible(name: str, quantiles: _StationQuantiles, wrong: Array, how: Conversion) -> bool:
    """Return whether another unit makes most of the doubtful stations plausible."""
    return bool(quantiles.fits(name, how)[wrong].mean() > _SHARE_MENDED)


def _windy_network(name: str, quantiles: _StationQuantiles, declared: Conversion, wrong: Array) -> Array:
    """Return the stations with an implausible wind: all if the network as a whole is too windy, else none.

    A single summit may well be windy, without a wrong unit.
    """
    row = VARIABLES[name]
    middle = declared.to_si(float(np.nanmedian(quantiles.middle)))
    top = declared.to_si(float(np.nanmedian(quantiles.top)))
    # No network is calm in its strongest hour: such numbers count in another unit. All zeros are left to the reader.
    is_still = name == "ff" and 0 < top < _LEAST_GALE
    if row.typical[0] <= middle <= row.typical[1] and top <= row.tail[1] and not is_still:
        return np.zeros_like(wrong)
    return ~np.isnan(quantiles.middle)


def _check_range(report: ProblemReport, name: str, values: Array, declared: Conversion, subject: Subject) -> None:
    """Report values that are physically impossible; quality control flags them."""
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
    """Report wind speeds in m/s that are all whole numbers, as METAR gives them in knots."""
    present = np.asarray(values)[np.isfinite(values)]
    moving = present[present > 0]
    if unit not in ("m/s", "m s-1") or moving.size < _ENOUGH_SPEEDS or np.any(moving % 1):
        return
    report.notice(
        "SPDE-D012",
        "every wind speed is a whole number, as in reports in knots",
        where=subject.where("ff"),
        why=f"median {np.median(moving):.3g} {unit}",
        do=f"if these are knots: {subject.command} --unit ff=kt",
    )


def _check_full_circle(report: ProblemReport, values: Array, unit: str, subject: Subject) -> None:
    """Report directions in degrees that all lie between 0 and 2π, or are whole numbers up to 36: tens of degrees."""
    present = np.asarray(values)[np.isfinite(values)]
    moving = np.unique(present[present > 0])
    if unit not in ("degrees", "degree", "deg") or present.size < _ENOUGH_SPEEDS or moving.size < _FEWEST_POINTS:
        return
    highest, are_whole = float(moving[-1]), not np.any(moving % 1)
    if np.pi < highest < 2 * np.pi + 0.01 and not are_whole:
        likely, do = "radians", f"{subject.command} --unit dd=radians"
    elif 18 < highest <= 36 and are_whole:
        likely, do = "tens of degrees", f"{subject.command} --map FILE.toml   with scale = 10 for dd"
    else:
        return
    why = f"{moving.size} different directions, from {moving[0]:.3g} to {highest:.3g}"
    do += f"   or, if the values are right: {subject.command} --trust dd"
    subject.add(report, "dd", Problem("SPDE-D012", f"directions look like {likely} but are declared {unit}",
                                      subject.where("dd"), why, do))  # fmt: skip
