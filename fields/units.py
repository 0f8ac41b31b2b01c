"""Convert declared units of files to SI through pint, once.

A conversion is a factor and an offset, worked out once per unit; data are then plain arrays. Only what is declared
is converted: a unit that looks wrong is reported by `fields.checks`, never corrected.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fields.errors import DataError
from fields.variables import variable

__all__ = ["COMPASS_UNITS", "Conversion", "conversion", "to_si"]

# Units of directions that tables write as words (`fields.readers.compass`): where the wind comes from, where it goes.
COMPASS_UNITS = ("compass", "compass-towards")

# Spellings that files use and pint reads otherwise (C is the coulomb to it, mb the millibarn) or not at all.
_SPELLINGS = {
    "c": "degC", "°c": "degC", "deg c": "degC", "celsius": "degC", "degrees celsius": "degC", "degree_celsius": "degC",
    "degrees_celsius": "degC", "f": "degF", "°f": "degF", "deg f": "degF", "fahrenheit": "degF", "kelvin": "kelvin",
    "k": "kelvin", "%": "percent", "pct": "percent", "percent": "percent", "1": "dimensionless",
    "fraction": "dimensionless", "0-1": "dimensionless", "mb": "mbar", "mbar": "mbar", "hpa": "hPa", "pa": "Pa",
    "kpa": "kPa", "inhg": "inHg", "in hg": "inHg", "mmhg": "mmHg", "torr": "torr", "kt": "knot", "kts": "knot",
    "kn": "knot", "knots": "knot", "mph": "mile/hour", "kmh": "km/hour", "kph": "km/hour", "km/h": "km/hour",
    "km h-1": "km/hour", "m s-1": "m/s", "m/s": "m/s", "ms-1": "m/s", "m s**-1": "m/s", "°": "degree",
    "deg": "degree", "degrees": "degree", "degree": "degree", "degrees_north": "degree", "degrees_east": "degree",
    "degree_north": "degree", "degree_east": "degree", "degrees_n": "degree", "degrees_e": "degree",
    "degree_n": "degree", "degree_e": "degree", "degreesn": "degree", "degreese": "degree", "degreen": "degree",
    "degreee": "degree", "0-360": "degree", "towards": "degree",
    "compass": "degree", "compass-towards": "degree", "metre": "m",
    "meters": "m", "feet": "ft", "kg m-2": "kg/m**2", "mm": "mm", "l m-2": "mm", "in": "inch",
}  # fmt: skip
# Coordinates that count the other way round, by their unit in lower case.
_REVERSED = {
    **dict.fromkeys(("degrees_west", "degree_west", "degrees_w", "degree_w", "degreesw", "degreew"), "lon"),
    **dict.fromkeys(("degrees_south", "degree_south", "degrees_s", "degree_s", "degreess"), "lat"),
}
_SI = {"1": "dimensionless", "degrees": "degree"}
_CF_POWER = re.compile(r"(?<=[A-Za-z])(-?[0-9]+)")
# Names with small powers, joined by spaces, * and /: text of a file is never evaluated as an expression.
_GRAMMAR = re.compile(r"[A-Za-zµ]\w*(\*\*-?[0-9])?(( ?[*/] ?| )[A-Za-zµ]\w*(\*\*-?[0-9])?)*")
_BASELINE = 2.0**20
_LONGEST = 40  # characters of a unit
_WATER = 1000.0  # kg/m**3: a depth of water as mass on an area


@dataclass(frozen=True, slots=True)
class Conversion:
    """Linear conversion of a declared unit to SI: ``si = factor * value + offset``."""

    unit: str
    factor: float
    offset: float

    @property
    def is_identity(self) -> bool:
        """Whether values are SI already."""
        return self.factor == 1.0 and self.offset == 0.0

    def to_si(self, values: Any) -> Any:
        """Convert numbers or arrays to SI."""
        return values if self.is_identity else values * self.factor + self.offset

    def from_si(self, values: Any) -> Any:
        """Convert numbers or arrays from SI to the declared unit."""
        return values if self.is_identity else (values - self.offset) / self.factor


def _parse(text: str) -> Any:
    """Read a unit as files spell it, and return pint's registry and unit; ``ValueError`` for what is no unit."""
    import pint

    registry: Any = pint.get_application_registry()
    spelled = _SPELLINGS.get(text.strip().lower()) or _CF_POWER.sub(r"**\1", text.strip())
    if len(text) > _LONGEST or not _GRAMMAR.fullmatch(spelled):
        raise ValueError(f"{text[:_LONGEST]!r} is not a unit")
    try:
        return registry, registry.parse_units(spelled.replace(" ", " * "))
    except (pint.errors.PintError, AssertionError, AttributeError, TypeError, ValueError) as problem:
        raise ValueError(str(problem)) from None


@lru_cache(maxsize=256)
def conversion(name: str, unit: str) -> Conversion:
    """Work out the conversion of a variable from a declared unit to SI.

    Raises
    ------
    DataError
        If the unit is unknown or measures another quantity; the units that fit are named.
    """
    row = variable(name)
    if _REVERSED.get(unit.strip().lower()) == name:
        return Conversion(unit, -1.0, 0.0)
    words = (COMPASS_UNITS[0],) if name == "dd" else ()
    do = f"--unit {name}={row.file_units[0]}   or another of {', '.join((*row.file_units, *words))}"
    try:
        registry, declared = _parse(unit)
    except ValueError:
        near = difflib.get_close_matches(unit, row.file_units, n=1, cutoff=0.5)
        guess = f"; did you mean {near[0]}?" if near else ""
        raise DataError(
            f"`{name}` is declared in [{unit}], which is no known unit{guess}", code="SPDE-D007", do=do
        ) from None
    _, target = _parse(_SI.get(row.unit, row.unit))
    if name == "precip" and declared.dimensionality == {"[length]": 1}:
        return Conversion(unit, float(registry.Quantity(1.0, declared).to("m").magnitude) * _WATER, 0.0)
    # pint calls degrees and per cent dimensionless both: an angle is no fraction.
    angles = (row.unit == "degrees") == (declared in (registry.degree, registry.radian))
    if declared.dimensionality != target.dimensionality or not angles:
        raise DataError(
            f"`{name}` is declared in [{unit}], which does not measure {row.standard_name.replace('_', ' ')}",
            code="SPDE-D007", do=do,
        )  # fmt: skip
    # A long baseline, because the difference of two offset temperatures loses digits.
    ends = registry.Quantity(np.array([0.0, _BASELINE]), declared).to(target).magnitude
    return Conversion(unit, float(f"{(ends[1] - ends[0]) / _BASELINE:.15g}"), float(f"{ends[0]:.15g}"))


def to_si(name: str, values: Any, unit: str) -> Any:
    """Convert values of a variable from a declared unit to SI.

    Longitudes declared ``0-360`` are wrapped to ±180; directions declared ``towards`` are turned round, also those of
    words (``compass-towards``).
    """
    converted = conversion(name, unit).to_si(values)
    if name == "dd" and unit.strip() in ("towards", "compass-towards"):
        return (np.asarray(converted) + 180.0) % 360.0
    if name == "lon" and unit.strip() == "0-360":
        return (np.asarray(converted) + 180.0) % 360.0 - 180.0
    return converted
