"""What the budget of a step sees of an equation: how strongly each coefficient enters, and what it does not see."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..expr import Call, Constant, Expr, Product, Quotient, Sum, walk
from ..flows import Flow
from ..symbols import Field, Positive, Static
from ..units import parse_unit, same_dimension
from .modes import most_growth

__all__ = ["KINDS", "Sizes", "fixed", "has_unit", "mixing", "unseen", "weights"]

Sizes = Mapping[str, tuple[float, float]]  # least and largest amount of each static and coefficient, SI, by name
KINDS = {"diffusivity": "m**2/s", "hyperdiffusivity": "m**4/s", "rate": "1/s"}
_NONE: Sizes = {}


def weights(right: Expr, sizes: Sizes = _NONE) -> dict[Positive, float]:
    """Return how often each coefficient stands in an equation, each time with the size of what multiplies it."""
    sums: dict[Positive, float] = {}
    for symbol, size in _weighted(right, 1.0, sizes):
        sums[symbol] = sums.get(symbol, 0.0) + size
    return sums


def fixed(field: Field, right: Expr, sizes: Sizes = _NONE) -> dict[str, float]:
    """Return what terms without a coefficient of these kinds mix and relax with: numbers and statics, by kind.

    A static that ``sizes`` does not know counts as 0; `unseen` names it.
    """
    sums = dict.fromkeys(KINDS, 0.0)
    for term in _terms(right):
        if any(
            isinstance(node, Positive) and any(has_unit(node, unit) for unit in KINDS.values()) for node in walk(term)
        ):
            continue
        size = _size(term, sizes)
        if math.isfinite(size):
            for name, power in (("diffusivity", 2), ("hyperdiffusivity", 4)):
                sums[name] += size if mixing(term, power) else 0.0
            sums["rate"] += size if _relaxes(term, field) else 0.0
    return sums


def unseen(equations: Mapping[Field, Expr], sizes: Sizes = _NONE) -> list[str]:
    """Describe terms that mix or relax with a coefficient whose size is not known, or mix with the wrong sign."""
    described = []
    for field, right in equations.items():
        for term in _terms(right):
            calls = [call for power in (2, 4) for call in mixing(term, power)]
            if not calls and not _relaxes(term, field):
                continue
            where = f"`{term.text()}` in d{field.name}/dt"
            if not math.isfinite(_size(term, sizes)):
                described.append(f"{where} has a coefficient whose size is not known here")
            elif isinstance(term, Product) and any(most_growth(call, term.sign) > 0.0 for call in calls):
                described.append(f"{where} makes short waves grow, whatever the step")
    return described


def mixing(right: Expr, power: int) -> list[Call]:
    """Calls in an equation that a diffusivity (power 2) or hyperdiffusivity (power 4) goes with."""
    length = parse_unit(f"m**{power}")
    coefficient = parse_unit(f"m**{power}/s")
    factors = []
    for node in walk(right):
        if not isinstance(node, Call):
            continue
        first, *rest = node.arguments
        is_derivative = not rest and same_dimension(node.unit * length, first.unit)
        if is_derivative or (len(rest) == 1 and same_dimension(rest[0].unit, coefficient)):
            factors.append(node)
    return factors


def has_unit(symbol: Positive, unit: str) -> bool:
    """Return whether a coefficient has the dimension of a unit."""
    return same_dimension(symbol.unit, parse_unit(unit))


def _terms(right: Expr) -> tuple[Expr, ...]:
    return right.terms if isinstance(right, Sum) else (right,)


def _weighted(node: Expr, size: float, sizes: Sizes) -> Iterator[tuple[Positive, float]]:
    if isinstance(node, Positive):
        yield node, size
    if isinstance(node, Product):
        for factor in node.factors:
            size *= _amounts(factor, sizes)[1] if isinstance(factor, Constant | Static) else 1.0
    if isinstance(node, Quotient) and isinstance(node.denominator, Constant | Static):
        size /= _amounts(node.denominator, sizes)[0]
    for child in node.children:
        yield from _weighted(child, size, sizes)


def _amounts(symbol: Expr, sizes: Sizes) -> tuple[float, float]:
    """Return least and largest amount of a number or static; 1 for one that nobody told."""
    if isinstance(symbol, Constant):
        return abs(symbol.value), abs(symbol.value)
    return sizes.get(symbol.name, (1.0, 1.0)) if isinstance(symbol, Static) else (1.0, 1.0)


def _size(node: Expr, sizes: Sizes) -> float:
    """Return the largest size of a term without its fields and derivatives; NaN where it is not known."""
    if isinstance(node, Constant):
        return abs(node.value)
    if isinstance(node, Positive):
        return sizes.get(node.name, (1.0, 1.0))[1]
    if isinstance(node, Static):
        return sizes[node.name][1] if node.name in sizes else math.nan
    if isinstance(node, Field):
        return 1.0
    if isinstance(node, Product):
        return math.prod(_size(factor, sizes) for factor in node.factors)
    if isinstance(node, Quotient):
        below = node.denominator
        least = (
            abs(below.value) if isinstance(below, Constant) else sizes.get(getattr(below, "name", ""), (0.0, 0.0))[0]
        )
        return _size(node.numerator, sizes) / least if least > 0.0 else math.nan
    if isinstance(node, Call):
        first, *rest = node.arguments
        return math.prod(_size(argument, sizes) for argument in rest if not same_dimension(argument.unit, first.unit))
    if isinstance(node, Sum):  # of coefficients, or of derivatives and fields: what a field relaxes to has no size
        evolving = [part for part in node.terms if any(isinstance(inner, Field) for inner in walk(part))]
        return sum(_size(part, sizes) for part in evolving or node.terms)
    return math.nan


def _relaxes(term: Expr, field: Field) -> bool:
    """Return whether a term is a rate times the field itself, or its difference from something."""
    for factor in term.factors if isinstance(term, Product) else (term,):
        flow = factor.operator.flow if isinstance(factor, Call) else None
        if isinstance(factor, Call) and isinstance(flow, Flow) and factor.argument(flow.evolves) == field:
            return any(same_dimension(argument.unit, parse_unit(KINDS["rate"])) for argument in factor.arguments)
    if not isinstance(term, Product | Quotient):
        return False
    factors = term.factors if isinstance(term, Product) else (term.numerator,)
    parts = [part for factor in factors for part in _terms(factor)]
    inner = [part.factors if isinstance(part, Product) else (part,) for part in parts]
    plain = all(isinstance(f, Constant | Static | Positive | Field | Sum | Quotient) for f in factors)
    return plain and any(factor == field for group in inner for factor in group)
