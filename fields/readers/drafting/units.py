"""Guess the unit of a column: from its name, else from the range of its numbers; a guess says that it is one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from fields.errors import DataError
from fields.readers.compass import point_of
from fields.readers.drafting.cells import Cells
from fields.readers.drafting.names import Name
from fields.units import conversion

__all__ = ["UnitGuess", "altitude_unit", "guess_unit"]


@dataclass(frozen=True, slots=True)
class UnitGuess:
    """Unit of a column with a factor for tenths; ``why`` says what it rests on, ``unsure`` what else it could be."""

    unit: str
    scale: float = 1.0
    why: str = ""
    unsure: str = ""


# Words in a name, behind it or in brackets, that say the unit; letters alone count only where they stand by themselves.
_WORDS = {
    "t": {"c": "degC", "degc": "degC", "celsius": "degC", "°c": "degC", "ºc": "degC", "f": "degF", "degf": "degF",
          "fahrenheit": "degF", "°f": "degF", "k": "K", "kelvin": "K", "degk": "K", "grad": "degC", "deg c": "degC"},
    "p": {"hpa": "hPa", "mb": "mb", "mbar": "mb", "pa": "Pa", "kpa": "kPa", "inhg": "inHg", "mmhg": "mmHg",
          "hektopascal": "hPa"},
    "ff": {"m/s": "m/s", "ms": "m/s", "mps": "m/s", "m s-1": "m/s", "ms-1": "m/s", "kt": "kt", "kts": "kt", "kn": "kt",
           "knots": "kt", "km/h": "km/h", "kmh": "km/h", "kph": "km/h", "mph": "mph", "m.s-1": "m/s"},
    "rh": {"%": "%", "pct": "%", "percent": "%", "prozent": "%"},
    "dd": {"deg": "degrees", "degrees": "degrees", "°": "degrees", "grad": "degrees", "gr": "degrees"},
    "precip": {"mm": "mm", "in": "inch", "inch": "inch", "l/m2": "mm", "kg/m2": "kg/m**2"},
    "radiation": {"w/m2": "W/m**2", "w/m²": "W/m**2", "wm-2": "W/m**2", "w m-2": "W/m**2", "kj/m2": "kJ/m**2/h",
                  "kj/m²": "kJ/m**2/h", "j/cm2": "J/cm**2/h", "j/cm²": "J/cm**2/h"},
    "cloud": {"%": "%", "pct": "%", "percent": "%"},
    "visibility": {"m": "m", "km": "km", "mi": "mile", "mile": "mile", "miles": "mile", "sm": "mile"},
    "snow": {"cm": "cm", "m": "m", "mm": "mm", "in": "inch", "inch": "inch"},
    "sunshine": {"min": "min", "minutes": "min", "h": "h", "s": "s"},
    "alt": {"m": "m", "ft": "ft", "feet": "ft", "metros": "m", "metres": "m", "meters": "m", "msnm": "m"},
}  # fmt: skip
_LIKE = {"td": "t", "psl": "p", "u": "ff", "v": "ff", "gust": "ff"}
_LIKELY = {"t": "degC", "p": "hPa", "ff": "m/s", "rh": "%", "precip": "mm", "radiation": "W/m**2", "cloud": "%",
           "visibility": "m", "snow": "cm", "sunshine": "min"}  # fmt: skip
# Names of services that carry their unit in a letter.
_SERVICES = {
    "tmpf": "degF", "dwpf": "degF", "tempf": "degF", "dewpf": "degF", "tmpc": "degC", "dwpc": "degC", "tempc": "degC",
    "dewpc": "degC", "sknt": "kt", "wspm": "m/s", "vsby": "mile", "p01i": "inch", "p01m": "mm", "tmin": "degC",
}  # fmt: skip


def guess_unit(variable: str, name: Name, cells: Cells) -> UnitGuess | None:
    """Guess the unit of a variable's column; None where its content is nothing of the kind."""
    if variable == "dd":
        return _direction(cells)
    written = _written(_LIKE.get(variable, variable), name)
    if not cells.numbers.size:
        unit = written or _LIKELY[_LIKE.get(variable, variable)]
        return UnitGuess(unit, unsure="no value in the first rows: not mapped")
    ranged = _RANGES[_LIKE.get(variable, variable)](cells)
    if written:
        if ranged is not None and ranged.scale != 1.0 and not ranged.unsure:
            return UnitGuess(written, ranged.scale, "from its name and range: tenths")
        odd = ranged is None or (ranged.unit != _same(variable, written) and not ranged.unsure)
        seen = f"values run from {cells.numbers.min():g} to {cells.numbers.max():g}"
        return UnitGuess(written, why="from its name", unsure=f"the name says {written}, and {seen}" if odd else "")
    return ranged


def altitude_unit(name: Name) -> str:
    """Return the unit of altitudes that a name says, by default metres."""
    return _written("alt", name) or "m"


def _written(variable: str, name: Name) -> str:
    """Return the unit that a name says; empty where it says none."""
    table = _WORDS[variable]
    bracket = name.bracket.lower().strip()
    for word in (bracket, *re.split(r"[\s,;]+", bracket)):
        if word in table:
            return table[word]
    if name.bracket:
        try:
            conversion(variable, name.bracket)
        except (DataError, KeyError):
            pass
        else:
            return name.bracket
    if name.joined in _SERVICES:
        unit = _SERVICES[name.joined]
        return unit if unit in {*table.values(), "inch"} else ""
    return next((table[word] for word in reversed(name.words[1:]) if word in table), "")


def _same(variable: str, unit: str) -> str:
    """Return the spelling of a unit that ranges use."""
    return {"mb": "hPa", "%": "%"}.get(unit, unit)


def _temperature(cells: Cells) -> UnitGuess | None:
    low, high, middle = _spread(cells)
    seen = f"values run from {low:g} to {high:g}"
    if low > 190 and high < 340:
        return UnitGuess("K", why=seen)
    if cells.is_whole and (low < -90 or high > 150) and low >= -900 and high <= 600:
        return UnitGuess("degC", 0.1, unsure=f"{seen}, all whole: taken as tenths of a degree Celsius")
    if low > 1900 and high < 3400 and cells.is_whole:
        return UnitGuess("K", 0.1, unsure=f"{seen}, all whole: taken as tenths of a kelvin")
    if high > 60 and low >= -80 and high < 140:
        return UnitGuess("degF", why=seen)
    if not (low >= -95 and high <= 60):
        return None
    doubt = f"{seen}: degF if the place is not that hot" if middle > 32 else ""
    return UnitGuess("degC", why=seen, unsure=doubt)


def _pressure(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    seen = f"values run from {low:g} to {high:g}"
    for unit, least, most, scale in (("hPa", 450, 1100, 1.0), ("Pa", 45_000, 110_000, 1.0), ("inHg", 13, 33, 1.0),
                                     ("kPa", 45, 110, 1.0), ("hPa", 4500, 11_000, 0.1)):  # fmt: skip
        if least <= low and high <= most:
            if scale != 1.0:
                return UnitGuess(unit, scale, unsure=f"{seen}: taken as tenths of a hectopascal")
            mercury = f"{seen}: mmHg if the stations are not that high" if unit == "hPa" and high < 800 else ""
            return UnitGuess(unit, why=seen, unsure=mercury)
    return None


def _speed(cells: Cells) -> UnitGuess | None:
    low, high, middle = _spread(cells)
    if low < 0 or high > 250:
        return None
    if cells.is_whole:
        doubt = "whole numbers, and nothing says the unit: kt, if these are knots"
    else:
        doubt = f"nothing says the unit; the median is {middle:g}"
    if middle > 15:
        return UnitGuess("km/h", unsure=f"{doubt}: too much for m/s")
    return UnitGuess("m/s", unsure=doubt)


def _component(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    return UnitGuess("m/s", unsure="nothing says the unit") if -100 < low < 0 < high < 100 else None


def _humidity(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    if low < 0 or high > 130:
        return None
    return UnitGuess("1" if high <= 1.05 else "%", why=f"values run from {low:g} to {high:g}")


def _amount(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    # A trace is written as -0.1 by several services.
    return (
        UnitGuess("mm", unsure="nothing says the unit, nor the hours of the sum") if low > -1 and high < 500 else None
    )


def _light(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    seen = f"values run from {low:g} to {high:g}"
    if low < -50 or high > 6000:
        return None
    if high > 1500:
        return UnitGuess("kJ/m**2/h", unsure=f"{seen}: taken as the sum of an hour in kJ/m²")
    return UnitGuess("W/m**2", unsure=f"{seen}, and nothing says the unit")


def _cover(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    if low < 0 or high > 100:
        return None
    if high <= 1:
        return UnitGuess("1", why=f"values run from {low:g} to {high:g}")
    if high <= 8 and cells.is_whole:
        return UnitGuess("%", 12.5, unsure="no value above 8: taken as eighths of the sky")
    return UnitGuess("%", why=f"values run from {low:g} to {high:g}")


def _sight(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    if low < 0 or high > 300_000:
        return None
    seen = f"values run from {low:g} to {high:g}"
    return UnitGuess("m" if high > 300 else "km", unsure=f"{seen}, and nothing says the unit")


def _depth(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    return UnitGuess("cm", unsure="nothing says the unit") if low >= 0 and high <= 1500 else None


def _duration(cells: Cells) -> UnitGuess | None:
    low, high, _ = _spread(cells)
    return UnitGuess("min", unsure="nothing says the unit") if low >= 0 and high <= 1440 else None


def _direction(cells: Cells) -> UnitGuess | None:
    words = [word for word in cells.words if word.lower() not in ("cv", "c", "calm", "vrb", "variable", "var", "clm")]
    points = [word for word in words if point_of(word) is not None]
    if points and len(points) == len(words) and not cells.numbers.size:
        return UnitGuess("compass", why="points of the compass in English")
    if words and len(points) < len(words) and not cells.numbers.size:
        return None
    if not cells.numbers.size:
        return None
    low, high, _ = _spread(cells)
    if low < 0 or high > 360:
        return UnitGuess("degrees", unsure=f"values run from {low:g} to {high:g}") if low >= -180 else None
    if cells.is_whole and 20 < high <= 36:
        return UnitGuess("degrees", 10.0, unsure="no value above 36: taken as tens of degrees")
    return UnitGuess("degrees", why=f"values run from {low:g} to {high:g}")


def _spread(cells: Cells) -> tuple[float, float, float]:
    values = cells.numbers
    return float(values.min()), float(values.max()), float(np.median(values))


_RANGES = {
    "t": _temperature, "p": _pressure, "ff": _speed, "rh": _humidity, "precip": _amount, "u": _component,
    "radiation": _light, "cloud": _cover, "visibility": _sight, "snow": _depth, "sunshine": _duration,
    "v": _component, "alt": lambda cells: UnitGuess("m"),
}  # fmt: skip
