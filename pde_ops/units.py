"""Units: one registry, CF spellings, unit variables, and the rule that fields are coherent SI.

Units are checked where an equation is written. Everything is stored in coherent SI, so after a system is
compiled only floats are left and no pint object is ever met in ``forward``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pint
from pint.util import ParserHelper

from .errors import UnitError

__all__ = ["Unit", "UnitSignature", "coherent_unit", "parse_unit", "registry", "same_dimension", "show", "to_si"]

Unit = pint.Unit

# CF writes powers without a sign: "m2 s-1", "kg m-3". The look-behinds keep numbers such as 1e-3 intact.
_CF_POWER = re.compile(r"(?<=[A-Za-z\)])(?<![0-9.][eE])(?=-?[0-9])")


def _cf_powers(text: str) -> str:
    return _CF_POWER.sub("**", text)


def _application_registry() -> Any:
    """Return pint's application registry (the one MetPy and xarray use), able to read CF powers.

    MetPy installs a preprocessor of its own when it is imported; the two commute, because after the first there
    is no bare power left for the second. Hence either import order gives the same units.
    """
    registry: Any = pint.get_application_registry()  # type: ignore[no-untyped-call]
    preprocessors = registry.preprocessors
    if _cf_powers not in preprocessors:
        preprocessors.append(_cf_powers)
    return registry


registry: Any = _application_registry()

# pint's parser asserts on a dangling operator such as "m/"
_UNREADABLE = (pint.UndefinedUnitError, pint.DefinitionSyntaxError, TypeError, ValueError, AssertionError)


def parse_unit(text: str | Unit) -> Unit:
    """Read a unit, in pint's or CF's spelling.

    Raises
    ------
    UnitError
        If nobody knows the unit.
    """
    spelling = "spell it as in 'm/s', 'm s-1' or 'kg/kg'"
    if not isinstance(text, str):
        if not hasattr(text, "dimensionality"):
            raise UnitError(f"{text!r:.80} is not a unit", do=spelling)
        return text
    if "=" in text:  # pint's tokenizer would skip it and read "==A" as ampere
        raise UnitError(f"[{text}] is not a unit", do=spelling)
    try:
        unit = registry.parse_units(_cf_powers(text.strip()) or "dimensionless")
    except _UNREADABLE as problem:
        raise UnitError(f"unknown unit [{text}]{f': {problem}' if str(problem) else ''}", do=spelling) from None
    if not isinstance(unit, pint.Unit):
        raise UnitError(f"[{text}] is not a unit", do=spelling)
    return unit


def show(unit: Unit) -> str:
    """Return the unit as short text for messages, ``1`` when dimensionless."""
    return f"{unit:~P}" or "1"


def same_dimension(left: Unit, right: Unit) -> bool:
    """Return whether two units measure the same kind of quantity."""
    return bool(left.dimensionality == right.dimensionality)


def _si_factor(unit: Unit) -> float | None:
    """Return what one ``unit`` is in coherent SI, or None for an offset scale such as degC."""
    zero = registry.Quantity(0.0, unit).to_base_units().magnitude
    one = registry.Quantity(1.0, unit).to_base_units().magnitude
    return None if zero != 0.0 else float(one)


def coherent_unit(text: str | Unit, *, owner: str) -> Unit:
    """Return the unit if it is coherent SI: a conversion factor of one and no offset.

    Raises
    ------
    UnitError
        Naming the SI unit to declare instead.
    """
    unit = parse_unit(text)
    factor = _si_factor(unit)
    if factor is None or abs(factor - 1.0) > 1e-12:  # round-off of pint's conversion chain
        _, base = registry.get_base_units(unit, check_nonmult=False)
        raise UnitError(
            f"{owner}: [{show(unit)}] is not coherent SI",
            do=f"declare [{_friendly(base)}] and convert when loading",
        )
    return unit


_FRIENDLY = ("Pa", "m/s", "1/s", "K", "m", "kg/m**3", "W/m**2", "J/kg", "Pa/s", "K/s", "m**2/s")


def _friendly(base: Unit) -> str:
    """Name base units as a meteorologist would: ``Pa`` rather than kg/m/s²."""
    for name in _FRIENDLY:
        if same_dimension(registry.parse_units(name), base):
            return name
    return show(base)


def to_si(value: float, unit: str | Unit) -> float:
    """Convert a number with a unit to coherent SI."""
    quantity = registry.Quantity(float(value), parse_unit(unit))
    return float(quantity.to_base_units().magnitude)


def from_si(value: float, unit: str | Unit) -> Any:
    """Return an SI number as a quantity in ``unit``."""
    target = parse_unit(unit)
    _, base = registry.get_base_units(target, check_nonmult=False)
    return registry.Quantity(float(value), base).to(target)


_VARIABLE = re.compile(r"=([A-Z])\b")


class UnitSignature:
    """A unit with variables, such as ``"m/s"``, ``"=A"`` or ``"=A / s"``.

    ``=A`` stands for any unit; it is bound by the first argument declared as exactly ``"=A"``. (pint's own
    ``wraps`` cannot mix variables with real units.)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            parts = ParserHelper.from_string(_VARIABLE.sub(r"variable_\1", _cf_powers(text)) or "1")
        except _UNREADABLE as problem:
            raise UnitError(f"cannot read the unit signature [{text}]: {problem}") from None
        self.variables: dict[str, float] = {}
        powers: dict[str, object] = {}
        for name, power in parts.items():
            if name.startswith("variable_"):
                self.variables[name.removeprefix("variable_")] = float(str(power))
            else:
                parse_unit(name)  # an unknown word is named as it was typed
                powers[name] = power
        self.fixed: Unit = coherent_unit(
            " * ".join(f"{name}**({power})" for name, power in powers.items()) or "dimensionless",
            owner=f"signature '{text}'",
        )
        if parts.scale != 1:
            raise UnitError(f"the unit signature [{text}] carries a number; signatures are pure units")

    @property
    def binds(self) -> str | None:
        """The variable this signature binds when it is exactly ``"=A"``."""
        lone = len(self.variables) == 1 and self.fixed.dimensionless and next(iter(self.variables.values())) == 1
        return next(iter(self.variables)) if lone else None

    def resolve(self, bound: Mapping[str, Unit]) -> Unit:
        """Return the unit once the variables are known."""
        unit = self.fixed
        for name, power in self.variables.items():
            unit = unit * bound[name] ** power
        return unit

    def __repr__(self) -> str:
        return f"UnitSignature({self.text!r})"

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=512)
def signature(text: str) -> UnitSignature:
    """Read a unit signature once."""
    return UnitSignature(text)
