"""Complete a record that lacks state variables by references: calm, dry air of the standard atmosphere.

A model computes with all five variables. What a network does not observe is replaced by a constant of the place, which
carries no information, is never scored, and lets the terms of the equations that need it vanish.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from fields.constants import T_standard, lapse_standard
from fields.derive import standard_pressure, with_standard_pressure
from fields.errors import DataError, UsageError, locate
from fields.variables import STATE_VARIABLES, PressureKind, cf_attributes

__all__ = ["STAND_INS", "checked_stand_ins", "lacking", "reference_values", "reference_variables", "with_stand_ins"]

STAND_INS: Mapping[str, str] = MappingProxyType(
    {
        "u": "calm",
        "v": "calm",
        "p": PressureKind.STANDARD_ATMOSPHERE.option,
        "t": PressureKind.STANDARD_ATMOSPHERE.option,
        "rh": "dry",
    }
)
"""What stands in for each state variable: no wind, pressure and temperature of the standard atmosphere, no vapour."""
_ATTRIBUTE = "stand_in"


def checked_stand_ins(missing: Mapping[Any, str]) -> frozenset[str]:
    """Return the variables that a mapping replaces, with both components of the wind for one.

    Raises
    ------
    UsageError
        If a variable has no such stand-in.
    """
    for name, what in missing.items():
        if STAND_INS.get(str(name)) != what:
            listed = ", ".join(f"{one}={stand_in}" for one, stand_in in STAND_INS.items())
            raise UsageError(f"there is no substitute '{what}' for {name}", code="SPDE-D008",
                             do=f"leave it out; there are {listed}")  # fmt: skip
    return frozenset(_with_both_winds({str(name) for name in missing}))


def lacking(observed: Collection[str], label: str = "") -> tuple[str, ...]:
    """Return the state variables that need a stand-in where only some are observed.

    Parameters
    ----------
    observed : state variables that are observed or derived
    label : name of the record, for messages

    Raises
    ------
    DataError
        If nothing is observed, or humidity without temperature.
    """
    absent = _with_both_winds(set(STATE_VARIABLES) - set(observed))
    if absent == set(STATE_VARIABLES):
        lone = [name for name in ("u", "v") if name in observed]
        raise DataError(
            f"none of {', '.join(STATE_VARIABLES)} is observed or can be derived"
            + (f": {lone[0]} alone is no wind" if lone else ""),
            code="SPDE-D031", where=label or None,
            do="stationpde data where table",
        )  # fmt: skip
    if "t" in absent and "rh" not in absent:
        raise DataError(
            "humidity without temperature: how much vapour the air holds cannot be computed", code="SPDE-D159",
            where=locate(label, "t") or None, do="give a record with the temperature, or one without the humidity",
        )  # fmt: skip
    return tuple(name for name in STATE_VARIABLES if name in absent)


def with_stand_ins(ds: xr.Dataset, names: Collection[str]) -> xr.Dataset:
    """Replace variables of a dataset by their stand-ins, and say so in their attributes."""
    for name in STATE_VARIABLES:
        if name == "p" and "p" in names:
            ds = with_standard_pressure(ds)
        elif name in names:
            bare = ds.drop_vars([column for column in (name, f"{name}_flag") if column in ds])
            height = xr.DataArray(np.asarray(ds["alt"].values, np.float64), dims="station")
            values = (xr.zeros_like(ds["time"], dtype=np.float32) + reference_values(name, height)).astype(np.float32)
            about = {**cf_attributes(name), _ATTRIBUTE: STAND_INS[name], "comment": "stands in; not observed"}
            ds = bare.assign({name: values.transpose("time", "station").drop_attrs().assign_attrs(about)})
    return ds


def reference_values(name: str, altitude: Any) -> Any:
    """Compute what stands in for a variable at altitudes [m], SI.

    Wind and humidity are zero. Temperature is that of the US Standard Atmosphere (1976), T₀ − Γz, pressure
    `standard_pressure`.
    """
    if name == "p":
        return standard_pressure(altitude)
    return T_standard - lapse_standard * altitude if name == "t" else 0.0 * altitude


def reference_variables(ds: xr.Dataset) -> tuple[str, ...]:
    """Return the state variables of a dataset that are stand-ins instead of observations."""
    names = {name for name in STATE_VARIABLES if name in ds and _ATTRIBUTE in ds[name].attrs}
    if PressureKind.of(ds.attrs) == PressureKind.STANDARD_ATMOSPHERE:
        names.add("p")
    return tuple(name for name in STATE_VARIABLES if name in names)


def _with_both_winds(names: set[str]) -> set[str]:
    return names | ({"u", "v"} if names & {"u", "v"} else set())
