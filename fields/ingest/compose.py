"""Plan which variables a store holds and derive them from what a source reports, block by block in SI."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from fields import qc
from fields.derive import relative_humidity, standard_pressure, station_pressure, wind_components
from fields.errors import DataError, ProblemReport, UsageError, locate
from fields.ingest.gate import UnitGate
from fields.qc import Flag, fails_range
from fields.variables import EXTRA_VARIABLES, STATE_VARIABLES, VARIABLES, PressureKind

__all__ = ["Plan", "compose", "flags_of", "plan_for"]

Array = np.ndarray[Any, Any]
_STANDARD = PressureKind.STANDARD_ATMOSPHERE.option
_MAP_IT = "if it is there under another name, a column map says so: `stationpde data where table` shows one"


@dataclass(frozen=True, slots=True)
class Plan:
    """Variables that a store will hold, in order (``stored``), and for the derived ones how (``derived``)."""

    stored: tuple[str, ...]
    derived: Mapping[str, str]
    pressure_kind: PressureKind

    @property
    def observed(self) -> tuple[str, ...]:
        """Stored variables that quality control tests: all but a reference pressure."""
        return tuple(n for n in self.stored if n != "p" or self.pressure_kind != PressureKind.STANDARD_ATMOSPHERE)


def substitutes_of(missing: Mapping[str, str]) -> frozenset[str]:
    """Return the variables that ``--missing`` replaces by a substitute; only pressure has one."""
    for name, what in missing.items():
        if (name, what) != ("p", _STANDARD):
            raise UsageError(f"there is no substitute '{what}' for {name}", code="SPDE-D008",
                             do=f"leave it out; pressure alone has one: --missing p={_STANDARD}")  # fmt: skip
    return frozenset(missing)


def plan_for(variables: Collection[str], substitutes: Collection[str], label: str) -> tuple[Plan, ProblemReport]:
    """Decide which variables are stored and which are derived, with warnings for those that cannot be had.

    Parameters
    ----------
    variables : names of the variables that the source reports
    substitutes : variables that a reference replaces (`substitutes_of`)
    label : name of the source, for messages

    Raises
    ------
    DataError
        If nothing that describes the state of the air is among the variables.
    """
    there = set(variables)
    report = ProblemReport()
    derived: dict[str, str] = {}
    available = {name for name in STATE_VARIABLES if name in there}
    if {"ff", "dd"} <= there:
        derived["u"] = derived["v"] = "from wind_speed and wind_from_direction"
    elif there & {"ff", "dd"} and not {"u", "v"} <= there:
        report.warning("SPDE-D006", "wind needs both speed and direction, and one is not in the data",
                       where=locate(label, "u, v"))  # fmt: skip
    if {"t", "td"} <= there:
        derived["rh"] = "from dew point and temperature where missing (Ambaum 2020)"
    kind = PressureKind.STATION
    if "p" in substitutes:
        derived["p"] = "of the US Standard Atmosphere at the station's altitude; not observed"
        kind = PressureKind.STANDARD_ATMOSPHERE
    elif {"psl", "t"} <= there:
        derived["p"] = "from sea-level pressure, temperature and altitude where missing (standard lapse rate)"
    available |= set(derived)
    if not available & set(STATE_VARIABLES) - {"p"} and "p" not in there:
        raise DataError(
            f"none of {', '.join(STATE_VARIABLES)} is in the data or can be derived",
            code="SPDE-D031",
            where=locate(label, ", ".join(sorted(there)) or "no variables"),
        )
    for name in STATE_VARIABLES:
        if name not in available:
            hint = f"--missing p={_STANDARD}   takes a reference" if name == "p" else _MAP_IT
            report.warning("SPDE-D031", f"{name} is not in the data", where=locate(label), do=hint)
    # A speed that has its direction is stored as components.
    available |= there & set(EXTRA_VARIABLES) - ({"ff"} if {"u", "v"} <= available else set())
    stored = tuple(name for name in (*STATE_VARIABLES, *EXTRA_VARIABLES) if name in available)
    return Plan(stored, derived, kind), report


def compose(
    raw: Mapping[str, Array], gate: UnitGate, plan: Plan, alt: Array, times: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Convert and derive one block of a source that the survey has checked.

    Returns
    -------
    values : stored variables ``[time, station]`` in SI, float32, NaN where missing
    codes : for each of them, where the value is missing because the source wrote a code for missing
    """
    values: dict[str, Array] = {}
    codes: dict[str, Array] = {}
    for name, block in raw.items():
        converted = gate.convert(name, block, times=times)
        values[name], codes[name] = converted.values, converted.codes
    shape = (len(times), len(alt))
    sound = {n: _possible(n, values[n], gate.trust) for n in ("ff", "dd", "t", "td", "psl") if n in values}
    # What a source wrote where nothing can be derived from it is as good as a code for missing.
    lost = {name: codes[name] | np.isnan(table) & ~np.isnan(values[name]) for name, table in sound.items()}
    if "u" in plan.derived:
        u, v = wind_components(sound["ff"], sound["dd"])
        for name, wind in (("u", u), ("v", v)):
            _fill(values, name, wind)
            codes[name] = codes.get(name, False) | lost["ff"] | lost["dd"]
    if "rh" in plan.derived:
        _fill(values, "rh", relative_humidity(sound["t"], sound["td"]))
        codes["rh"] = codes.get("rh", False) | lost["t"] | lost["td"]
    if plan.pressure_kind == PressureKind.STANDARD_ATMOSPHERE:
        values["p"] = np.broadcast_to(standard_pressure(alt).astype(np.float32), shape)
    elif "p" in plan.derived:
        _fill(values, "p", station_pressure(sound["psl"], sound["t"], alt.astype(np.float32)[None, :]))
        codes["p"] = codes.get("p", False) | lost["psl"] | lost["t"]
    none = np.zeros(shape, bool)
    return {n: values[n] for n in plan.stored}, {n: codes.get(n, none) & np.isnan(values[n]) for n in plan.stored}


def flags_of(
    values: Mapping[str, Array], codes: Mapping[str, Array], plan: Plan, times: Array, places: Mapping[str, Array],
    step: int,
) -> dict[str, Array]:  # fmt: skip
    """Compute quality flags of a block, uint8 ``[time, station]`` for every stored variable."""
    dims = ("time", "station")
    flags = {name: table.astype(np.uint8) * np.uint8(int(Flag.CODE)) for name, table in codes.items()}
    tested = [name for name in plan.observed if name in STATE_VARIABLES]
    ds = xr.Dataset(
        {**{n: (dims, values[n]) for n in tested}, **{f"{n}_flag": (dims, flags[n]) for n in tested}},
        {"time": times, **{name: ("station", place) for name, place in places.items()}},
        {"step_seconds": step},
    )
    checked = qc.check_quality(ds)
    for name in plan.observed:
        if name in tested:
            flags[name] = np.asarray(checked[f"{name}_flag"].values, np.uint8)
        else:
            flags[name] |= qc.check_extra(name, values[name], step / 3600.0)
    return flags


def _possible(name: str, values: Array, trust: Collection[str]) -> Array:
    """Return values with NaN for impossible ones, from which nothing may be derived.

    A speed of -9 would become an ordinary wind. Directions that the user vouches for (-180 to 180, say) are kept.
    """
    if name == "dd" and name in trust:
        return values
    return np.where(fails_range(values, VARIABLES[name]), np.float32(np.nan), values)


def _fill(values: dict[str, Array], name: str, derived: Array) -> None:
    """Put derived values where nothing was observed."""
    derived = derived.astype(np.float32, copy=False)
    observed = values.get(name)
    values[name] = derived if observed is None else np.where(np.isnan(observed), derived, observed)
