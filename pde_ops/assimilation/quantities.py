"""Amounts with units as a user types them: ``"0.5 K"``, ``(array, "hPa")``, or a pint quantity."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pint
from torch import Tensor

from ..errors import DeclarationError, UnitError
from ..units import Unit, parse_unit, registry, same_dimension, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Amount", "amount_in_si", "positive_seconds"]

Amount = Any
"""A number with its unit in one text, a pint quantity, or a pair of numbers and unit."""

_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*)", re.DOTALL)


def amount_in_si(
    owner: str, amount: Any, need: Unit | None, *, difference: bool = False
) -> tuple[NDArray[np.float64], Unit]:
    """Convert an amount to coherent SI.

    Parameters
    ----------
    need : unit whose dimension it must have, None for any
    difference : read an offset scale as a difference: an error of 2 degC is one of 2 K

    Returns
    -------
    the numbers in SI, and the unit that they came in

    Raises
    ------
    UnitError
        If there is no unit, or one of another dimension.
    """
    numbers, unit = _parts(owner, amount)
    if need is not None and not same_dimension(unit, need):
        raise UnitError(f"{owner} needs [{show(need)}] but came in [{show(unit)}]", do="give it in a unit of that kind")
    zero, one = (float(registry.Quantity(x, unit).to_base_units().magnitude) for x in (0.0, 1.0))
    return numbers * (one - zero) + (0.0 if difference else zero), unit


def positive_seconds(owner: str, amount: Any) -> float:
    """Return a span of time in seconds; it must be one finite number above 0."""
    seconds, _ = amount_in_si(owner, amount, registry.second)
    if seconds.ndim or not (np.isfinite(seconds) and seconds > 0.0):
        raise DeclarationError(f"{owner} must be one finite span of time above 0, not {amount!r:.80}")
    return float(seconds)


def _parts(owner: str, amount: Any) -> tuple[NDArray[np.float64], Unit]:
    if isinstance(amount, pint.Quantity):
        return _numbers(owner, amount.magnitude), parse_unit(str(amount.units))
    if isinstance(amount, str):
        match = _NUMBER.fullmatch(amount)
        if match is None:
            raise UnitError(f"{owner}: {amount!r:.80} is no number with a unit", do="write it as in '0.5 K'")
        return np.asarray(float(match[1])), parse_unit(match[2])
    if isinstance(amount, tuple | list) and len(amount) == 2 and isinstance(amount[1], str | pint.Unit):
        return _numbers(owner, amount[0]), parse_unit(amount[1])
    raise UnitError(
        f"{owner} has no unit: {amount!r:.80}", do="write '0.5 K', (numbers, 'K'), or pass a quantity of pint"
    )


def _numbers(owner: str, values: Any) -> NDArray[np.float64]:
    plain = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if plain.dtype.kind not in "fiu":
        raise DeclarationError(f"{owner} must be real numbers, not {type(values).__name__} of {plain.dtype}")
    return np.array(plain, np.float64)
