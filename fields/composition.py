"""From what a source reports to what a store holds: which variables, derived from which, block by block in SI."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from . import quality
from .derive import relative_humidity, standard_pressure, station_pressure, wind_components
from .errors import DataError, ProblemReport, UsageError, locate
from .gate import UnitGate
from .quality_flags import Flag
from .quality_tests import fails_range
from .variables import STATE_VARIABLES, VARIABLES

__all__ = ["Plan", "compose", "flags_of", "plan_for"]

Array = np.ndarray[Any, Any]
_EXTRAS = ("psl", "td", "precip")
_STANDARD = "standard-atmosphere"
_MAP_IT = "if it is there under another name, give a column map: stationpde data where table"


@dataclass(frozen=True, slots=True)
class Plan:
    """``stored`` variables in order, and for the derived ones how."""

    stored: tuple[str, ...]
    derived: Mapping[str, str]
    pressure_kind: str

    @property
    def observed(self) -> tuple[str, ...]:
        """Stored variables that quality control looks at."""
        return tuple(n for n in self.stored if n != "p" or self.pressure_kind != "standard_atmosphere")


def substitutes_of(missing: Mapping[str, str]) -> frozenset[str]:
    """Check what ``--missing`` asks for; only pressure has a substitute."""
    for name, what in missing.items():
        if (name, what) != ("p", _STANDARD):
            raise UsageError(f"there is no substitute '{what}' for {name}", code="SPDE-D008",
                             do=f"--missing p={_STANDARD}")  # fmt: skip
    return frozenset(missing)


def plan_for(variables: Collection[str], substitutes: Collection[str], label: str) -> tuple[Plan, ProblemReport]:
    """Decide what is stored.

    Raises
    ------
    DataError
        If nothing that describes the state of the air is among the variables.
    """
    there = set(variables)
    report = ProblemReport()
    derived: dict[str, str] = {}
    made = {name for name in STATE_VARIABLES if name in there}
    if {"ff", "dd"} <= there:
        derived["u"] = derived["v"] = "from wind_speed and wind_from_direction"
    elif there & {"ff", "dd"} and not {"u", "v"} <= there:
        report.warning("SPDE-D006", "wind needs both speed and direction, and one is not in the data",
                       where=locate(label, "u, v"))  # fmt: skip
    if {"t", "td"} <= there:
        derived["rh"] = "from dew point and temperature where missing (Ambaum 2020)"
    kind = "station"
    if "p" in substitutes:
        derived["p"] = "of the US Standard Atmosphere at the station's altitude; not observed"
        kind = "standard_atmosphere"
    elif {"psl", "t"} <= there:
        derived["p"] = "from sea-level pressure, temperature and altitude where missing (standard lapse rate)"
    made |= set(derived)
    if not made & set(STATE_VARIABLES) - {"p"} and "p" not in there:
        raise DataError(
            f"none of {', '.join(STATE_VARIABLES)} is in the data or can be derived",
            code="SPDE-D031",
            where=locate(label, ", ".join(sorted(there)) or "no variables"),
        )
    for name in STATE_VARIABLES:
        if name not in made:
            hint = f"add --missing p={_STANDARD} for a reference" if name == "p" else _MAP_IT
            report.warning("SPDE-D031", f"{name} is not in the data", where=locate(label), do=hint)
    stored = tuple(name for name in (*STATE_VARIABLES, *_EXTRAS) if name in made or (name in there and name in _EXTRAS))
    return Plan(stored, derived, kind), report


def compose(
    raw: Mapping[str, Array], gate: UnitGate, plan: Plan, alt: Array, times: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    """One block in SI: stored variables ``[time, station]`` as float32, and where the source wrote a missing code."""
    values: dict[str, Array] = {}
    codes: dict[str, Array] = {}
    for name, block in raw.items():
        passed = gate.convert(name, block, times=times)
        values[name], codes[name] = passed.values, passed.codes
    shape = (len(times), len(alt))
    if "u" in plan.derived:
        u, v = wind_components(values["ff"], values["dd"])
        for name, wind in (("u", u), ("v", v)):
            _fill(values, name, wind)
            codes[name] = codes.get(name, False) | codes["ff"] | codes["dd"]
    if "rh" in plan.derived:
        _fill(values, "rh", relative_humidity(values["t"], values["td"]))
    if plan.pressure_kind == "standard_atmosphere":
        values["p"] = np.broadcast_to(standard_pressure(alt).astype(np.float32), shape)
    elif "p" in plan.derived:
        _fill(values, "p", station_pressure(values["psl"], values["t"], alt.astype(np.float32)[None, :]))
        codes["p"] = codes.get("p", False) | codes["psl"]
    none = np.zeros(shape, bool)
    return {n: values[n] for n in plan.stored}, {n: codes.get(n, none) & np.isnan(values[n]) for n in plan.stored}


def flags_of(
    values: Mapping[str, Array], codes: Mapping[str, Array], plan: Plan, times: Array, places: Mapping[str, Array],
    step: int,
) -> dict[str, Array]:  # fmt: skip
    """Quality flags of a block, uint8 ``[time, station]`` for every stored variable."""
    dims = ("time", "station")
    flags = {name: table.astype(np.uint8) * np.uint8(int(Flag.CODE)) for name, table in codes.items()}
    tested = [name for name in plan.observed if name in STATE_VARIABLES]
    ds = xr.Dataset(
        {**{n: (dims, values[n]) for n in tested}, **{f"{n}_flag": (dims, flags[n]) for n in tested}},
        {"time": times, **{name: ("station", place) for name, place in places.items()}},
        {"step_seconds": step},
    )
    checked = quality.check(ds)
    for name in plan.observed:
        if name in tested:
            flags[name] = np.asarray(checked[f"{name}_flag"].values, np.uint8)
        else:  # extras are only held to what is possible
            flags[name] |= fails_range(values[name], VARIABLES[name]).astype(np.uint8) * np.uint8(int(Flag.RANGE))
    return flags


def _fill(values: dict[str, Array], name: str, derived: Array) -> None:
    derived = derived.astype(np.float32, copy=False)
    known = values.get(name)
    values[name] = derived if known is None else np.where(np.isnan(known), derived, known)
