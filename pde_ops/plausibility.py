"""The gate for measured quantities: the right dimension, and values that can be what their unit says.

A unit label alone is not enough: 101325 labelled hPa, or 288 labelled degC, converts without complaint and gives a
potential temperature of 77 K or a vapour pressure of 5.6 MPa. Every quantity that comes in with a unit is therefore
checked against the range it has at the Earth's surface, and the message names the unit the numbers look like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import PlausibilityError, UnitError
from .units import parse_unit, registry, same_dimension, show

__all__ = ["KINDS", "Kind", "checked"]

Floats = npt.NDArray[np.float64]

# Round-off, as a fraction of the range: a forecast q of -1e-12 is no fault of units.
_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Kind:
    """A measured quantity: what it is, its SI unit, its range near the ground, the units people give it in.

    ``peak`` is the least that the largest of many values must reach, unless all are 0; ``standard_names`` are the CF
    names it may carry.
    """

    words: str
    unit: str
    low: float
    high: float
    spellings: tuple[str, ...]
    standard_names: tuple[str, ...]
    peak: float = 0.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"{self.words}: the range {self.low} to {self.high} is empty")


_SPEEDS = ("m/s", "km/hour", "knot", "mile/hour")
_PRESSURES = ("Pa", "hPa", "kPa", "inHg", "mmHg")
_TEMPERATURES = ("K", "degC", "degF")

KINDS = {
    "u": Kind("eastward wind", "m/s", -150.0, 150.0, _SPEEDS, ("eastward_wind", "x_wind")),
    "v": Kind("northward wind", "m/s", -150.0, 150.0, _SPEEDS, ("northward_wind", "y_wind")),
    # Not the pressure reduced to sea level: theta and q need it at the instrument.
    "p": Kind("air pressure", "Pa", 300e2, 1100e2, _PRESSURES, ("surface_air_pressure", "air_pressure")),
    "T": Kind("air temperature", "K", 180.0, 340.0, _TEMPERATURES, ("air_temperature",)),
    # The range of T, carried from 1100 and 300 hPa to 1000 hPa.
    "theta": Kind("potential temperature", "K", 170.0, 480.0, _TEMPERATURES, ("air_potential_temperature",)),
    # A network whose dampest air has 1.25 % reports fractions under the label %.
    "RH": Kind("relative humidity", "1", 0.0, 1.2, ("1", "percent"), ("relative_humidity",), peak=0.0125),
    "q": Kind("specific humidity", "kg/kg", 0.0, 0.3, ("kg/kg", "g/kg"), ("specific_humidity",)),
    "e": Kind("vapour pressure", "Pa", 0.0, 300e2, _PRESSURES, ("water_vapor_partial_pressure_in_air",)),
}


def checked(owner: str, name: str, magnitude: Any, unit: Any) -> Floats:
    """Return the values in SI, in double precision, if dimension and range are those of ``KINDS[name]``.

    Parameters
    ----------
    owner : function on whose behalf the check is made, for the message
    name : key of `KINDS`
    magnitude : numbers in ``unit``; what is NaN or masked is missing and passes as NaN
    unit : pint unit, or its spelling

    Raises
    ------
    UnitError
        If the unit measures something else.
    PlausibilityError
        If the values cannot be what the unit says; names the worst value and the unit it looks like.
    """
    kind, unit = KINDS[name], parse_unit(unit)
    _check_dimension(owner, name, kind, unit)
    numbers = np.asarray(np.ma.filled(np.ma.asarray(magnitude).astype(np.float64), np.nan))
    values = _to_si(numbers, unit, kind)
    fault = _fault(values, kind)
    if fault is not None:
        worst, count, reason = fault
        declared, meant = numbers.flat[worst], values.flat[worst]
        in_si = "" if declared == meant else f" is {_number(meant, kind.unit)},"
        raise PlausibilityError(
            f"{owner}: `{name}` cannot be {kind.words} in [{show(unit)}]: {reason} {_number(declared, show(unit))}"
            f"{in_si or ','} allowed {_allowed(kind)} ({count} of {values.size} values)",
            do=_advice(numbers, unit, kind),
        )
    return values


def _check_dimension(owner: str, name: str, kind: Kind, unit: Any) -> None:
    need = parse_unit(kind.unit)
    fits = same_dimension(unit, need)
    if need.dimensionless:  # angles and mass ratios are dimensionless too, as far as pint is concerned
        fits = fits and any(unit == parse_unit(spelling) for spelling in kind.spellings)
    if not fits:
        choice = ", ".join(f"[{_text(spelling)}]" for spelling in kind.spellings)
        raise UnitError(
            f"{owner}: `{name}` needs {kind.words} [{_text(kind.unit)}] but came in [{show(unit)}]",
            do=f"give it in one of {choice}",
        )


def _to_si(numbers: Floats, unit: Any, kind: Kind) -> Floats:
    converted = registry.Quantity(numbers, unit).to(parse_unit(kind.unit)).magnitude
    return np.asarray(converted, dtype=np.float64)


def _fault(values: Floats, kind: Kind) -> tuple[int, int, str] | None:
    """Return index of the worst value, number of bad ones and a word on them, or None if all is well."""
    slack = _SLACK * (kind.high - kind.low)
    with np.errstate(invalid="ignore"):
        excess = np.maximum(kind.low - slack - values, values - kind.high - slack)
    excess = np.where(np.isnan(values), -np.inf, excess)
    bad = int(np.count_nonzero(excess > 0))
    if bad:
        return int(np.argmax(excess)), bad, "the worst value"
    present = np.where(np.isnan(values), -np.inf, values)
    if present.size and 0.0 < present.max() < kind.peak:
        return int(np.argmax(present)), int(np.isfinite(present).sum()), "the largest value"
    return None


def _advice(numbers: Floats, declared: Any, kind: Kind) -> str:
    likely = [
        spelling
        for spelling in kind.spellings
        if parse_unit(spelling) != declared and _fault(_to_si(numbers, parse_unit(spelling), kind), kind) is None
    ]
    if likely:
        return f"the numbers look like {' or '.join(f'[{_text(s)}]' for s in likely)}: declare that unit"
    return "the numbers fit no usual unit: mark what is missing or broken as NaN"


def _allowed(kind: Kind) -> str:
    floor = f", somewhere above {kind.peak:g}" if kind.peak else ""
    return f"{kind.low:g} to {_number(kind.high, kind.unit)}{floor}"


def _number(value: float, unit: str) -> str:
    return f"{value:g}" if unit == "1" else f"{value:g} {unit}"


def _text(spelling: str) -> str:
    return spelling if spelling in ("kg/kg", "g/kg") else show(parse_unit(spelling))
