"""What the budget of a step sees of an equation: how strongly each coefficient enters, and what it does not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..expr import Call, Constant, Expr, Product, Quotient, Sum, walk
from ..symbols import Field, Positive
from ..units import parse_unit, same_dimension
from .modes import most_growth

__all__ = ["mixing", "unseen", "weights"]


def weights(right: Expr) -> dict[Positive, float]:
    """Return how often each coefficient stands in an equation, each time with the size of the numbers before it."""
    sums: dict[Positive, float] = {}
    for symbol, size in _weighted(right, 1.0):
        sums[symbol] = sums.get(symbol, 0.0) + size
    return sums


def unseen(equations: Mapping[Field, Expr]) -> list[str]:
    """Describe terms that mix with a coefficient which is no number and no `Positive`, or with the wrong sign."""
    described = []
    for field, right in equations.items():
        for term in right.terms if isinstance(right, Sum) else (right,):
            calls = [call for power in (2, 4) for call in mixing(term, power)]
            if not calls:
                continue
            where = f"`{term.text()}` in d{field.name}/dt"
            if any(not isinstance(node, Call | Constant | Positive | Product | Field) for node in _coefficients(term)):
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


def _weighted(node: Expr, size: float) -> Iterator[tuple[Positive, float]]:
    if isinstance(node, Positive):
        yield node, size
    numbers: list[Expr] = [child for child in node.children if isinstance(child, Constant)]
    if isinstance(node, Product):
        for number in numbers:
            assert isinstance(number, Constant)
            size *= abs(number.value)
    if isinstance(node, Quotient) and isinstance(node.denominator, Constant):
        size /= abs(node.denominator.value)
    for child in node.children:
        yield from _weighted(child, size)


def _coefficients(term: Expr) -> Iterator[Expr]:
    """Yield what a mixing term is multiplied by: its factors, and the coefficients that its operators are given."""
    for factor in term.factors if isinstance(term, Product) else (term,):
        yield factor
        if isinstance(factor, Call):
            yield from factor.arguments[1:]
