"""Expressions: what an equation is made of once it is written down.

Every node knows its unit the moment it is built, so a wrong equation fails on the line that is wrong and the
message shows both sides. Nodes are immutable and compare by structure, which is what common-subexpression
elimination needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any, Union

import pint

from .errors import DeclarationError, UnitError
from .units import Unit, registry, same_dimension, show

if TYPE_CHECKING:
    from .operator import Operator

__all__ = ["Call", "Constant", "Expr", "Product", "Quotient", "Sum", "as_expr", "walk"]

Operand = Union["Expr", float, int, "pint.Quantity[Any]"]


class Expr:
    """Base of all nodes: arithmetic that checks units, structural identity, printing."""

    __slots__ = ("_key", "unit")
    unit: Unit

    def __init_subclass__(cls) -> None:
        # Else pint would take the expression for a magnitude and `3 km/h * u` would be a quantity, not an expression.
        pint.compat.upcast_type_map[f"{cls.__module__}.{cls.__qualname__}"] = cls  # type: ignore[index]

    def __init__(self, unit: Unit, key: tuple[Any, ...]) -> None:
        self.unit = unit
        self._key = key

    @property
    def children(self) -> tuple[Expr, ...]:
        """The nodes this one is made of."""
        return ()

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        """Return the same node over other children (units are checked again)."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __add__(self, other: Operand) -> Expr:
        return self if _is_zero(other) else Sum.of(self, as_expr(other))

    def __radd__(self, other: Operand) -> Expr:
        return self if _is_zero(other) else Sum.of(as_expr(other), self)

    def __sub__(self, other: Operand) -> Expr:
        return self if _is_zero(other) else Sum.of(self, -as_expr(other))

    def __rsub__(self, other: Operand) -> Expr:
        return -self if _is_zero(other) else Sum.of(as_expr(other), -self)

    def __neg__(self) -> Expr:
        return Product.of(Constant(-1.0), self)

    def __mul__(self, other: Operand) -> Expr:
        return Product.of(self, as_expr(other))

    def __rmul__(self, other: Operand) -> Expr:
        return Product.of(as_expr(other), self)

    def __truediv__(self, other: Operand) -> Expr:
        return Quotient(self, as_expr(other))

    def __rtruediv__(self, other: Operand) -> Expr:
        return Quotient(as_expr(other), self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value; compare with == for structure, or evaluate it first")

    def text(self) -> str:
        """Plain text, as error messages print it."""
        raise NotImplementedError

    def latex(self) -> str:
        """LaTeX, as the documentation prints it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.text()} [{show(self.unit)}]"


class Constant(Expr):
    """A number in coherent SI."""

    __slots__ = ("value",)

    def __init__(self, value: float, unit: Unit | None = None) -> None:
        unit = unit if unit is not None else registry.dimensionless
        self.value = float(value)
        super().__init__(unit, ("constant", self.value, str(unit.dimensionality)))

    def text(self) -> str:
        return f"{self.value:g}"

    def latex(self) -> str:
        mantissa, _, exponent = f"{self.value:g}".partition("e")
        return rf"{mantissa}\times 10^{{{int(exponent)}}}" if exponent else mantissa


class Sum(Expr):
    """Terms of the same dimension, added."""

    __slots__ = ("terms",)

    def __init__(self, terms: tuple[Expr, ...]) -> None:
        first = terms[0]
        for term in terms[1:]:
            if not same_dimension(first.unit, term.unit):
                before = terms[: terms.index(term)]
                left = Sum(before) if len(before) > 1 else first
                raise UnitError(
                    f"cannot add [{show(term.unit)}] to [{show(first.unit)}]: {_join([left, term])}",
                    do="check the units declared for the symbols in it",
                )
        self.terms = terms
        super().__init__(first.unit, ("sum", *(term._key for term in terms)))

    @classmethod
    def of(cls, left: Expr, right: Expr) -> Expr:
        """Add, flattening nested sums so that a sum is a list of terms."""
        parts = (
            *(left.terms if isinstance(left, Sum) else (left,)),
            *(right.terms if isinstance(right, Sum) else (right,)),
        )
        if isinstance(right, Sum) and not same_dimension(left.unit, right.unit):
            raise UnitError(
                f"cannot add [{show(right.unit)}] to [{show(left.unit)}]: {left.text()} + ({right.text()})",
                do="check the units declared for the symbols in it",
            )
        return cls(parts)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.terms

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Sum(children)

    def text(self) -> str:
        return _join(list(self.terms))

    def latex(self) -> str:
        return _join(list(self.terms), latex=True)


class Product(Expr):
    """Factors, multiplied; numbers are folded into one leading constant."""

    __slots__ = ("factors",)

    def __init__(self, factors: tuple[Expr, ...]) -> None:
        unit = registry.dimensionless
        for factor in factors:
            unit = unit * factor.unit
        self.factors = factors
        super().__init__(unit, ("product", *(factor._key for factor in factors)))

    @classmethod
    def of(cls, left: Expr, right: Expr) -> Expr:
        """Multiply, flattening and folding numbers."""
        number, number_unit, rest = 1.0, registry.dimensionless, []
        for side in (left, right):
            for factor in side.factors if isinstance(side, Product) else (side,):
                if isinstance(factor, Constant):
                    number, number_unit = number * factor.value, number_unit * factor.unit
                else:
                    rest.append(factor)
        head = Constant(number, number_unit)
        if not rest:
            return head
        if number == 1.0 and number_unit.dimensionless:
            return rest[0] if len(rest) == 1 else cls(tuple(rest))
        return cls((head, *rest))

    @property
    def sign(self) -> float:
        """-1 for a product with a negative leading number, else +1."""
        return -1.0 if isinstance(self.factors[0], Constant) and self.factors[0].value < 0 else 1.0

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.factors

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        product: Expr = children[0]
        for child in children[1:]:
            product = Product.of(product, child)
        return product

    def text(self) -> str:
        return self._print(" ", latex=False)

    def latex(self) -> str:
        return self._print(r"\,", latex=True)

    def _print(self, joint: str, *, latex: bool) -> str:
        parts = [_wrapped(f, latex=latex) for f in self.factors]
        if isinstance(self.factors[0], Constant) and self.factors[0].value == -1.0 and len(parts) > 1:
            return "-" + joint.join(parts[1:])
        return joint.join(parts)


class Quotient(Expr):
    """One expression divided by another."""

    __slots__ = ("denominator", "numerator")

    def __init__(self, numerator: Expr, denominator: Expr) -> None:
        if isinstance(denominator, Constant) and denominator.value == 0.0:
            raise DeclarationError(f"{numerator.text()} is divided by 0")
        self.numerator, self.denominator = numerator, denominator
        super().__init__(numerator.unit / denominator.unit, ("quotient", numerator._key, denominator._key))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.numerator, self.denominator)

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Quotient(*children)

    def text(self) -> str:
        return f"{_wrapped(self.numerator)}/{_wrapped(self.denominator)}"

    def latex(self) -> str:
        return rf"\frac{{{self.numerator.latex()}}}{{{self.denominator.latex()}}}"


class Call(Expr):
    """An operator applied to expressions."""

    __slots__ = ("arguments", "operator", "options")

    def __init__(
        self, operator: Operator, arguments: tuple[Expr, ...], options: tuple[tuple[str, Any], ...], unit: Unit
    ) -> None:
        self.operator, self.arguments, self.options = operator, arguments, options
        super().__init__(unit, ("call", operator.name, options, *(a._key for a in arguments)))

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.arguments

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return self.operator.on_expressions(children, dict(self.options))

    def argument(self, name: str) -> Expr:
        """Return the expression bound to a named input."""
        return self.arguments[tuple(self.operator.inputs).index(name)]

    def text(self) -> str:
        return self.operator.print_text([_wrapped(a) for a in self.arguments], dict(self.options))

    def latex(self) -> str:
        return self.operator.print_latex([_wrapped(a, latex=True) for a in self.arguments], dict(self.options))


def as_expr(value: Operand) -> Expr:
    """Turn a number or a quantity into a node; expressions pass through."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, pint.Quantity):
        base: Any = value.to_base_units()
        return Constant(_finite(float(base.magnitude)), base.units)
    if isinstance(value, Real):
        return Constant(_finite(float(value)))
    raise DeclarationError(
        f"cannot use {type(value).__name__} in an equation",
        do="use a Field, Static, Closure, Positive, number or quantity",
    )


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise DeclarationError(f"cannot use {number} in an equation", do="use a finite number")
    return number


def _is_zero(value: object) -> bool:
    """Tell whether something is the plain number 0, which is so in every unit: ``sum(terms)`` begins with it."""
    return isinstance(value, Real) and value == 0


def walk(expression: Expr) -> Iterator[Expr]:
    """Yield every node, children before parents."""
    for child in expression.children:
        yield from walk(child)
    yield expression


def replace(expression: Expr, table: dict[Expr, Expr]) -> Expr:
    """Return the expression with sub-expressions swapped for others (units are checked again)."""
    if expression in table:
        return table[expression]
    if not expression.children:
        return expression
    children = tuple(replace(child, table) for child in expression.children)
    if all(new is old for new, old in zip(children, expression.children, strict=True)):
        return expression
    return expression.rebuild(children)


def _wrapped(node: Expr, *, latex: bool = False) -> str:
    printed = node.latex() if latex else node.text()
    if not isinstance(node, Sum):
        return printed
    return rf"\left({printed}\right)" if latex else f"({printed})"


def _join(terms: list[Expr], *, latex: bool = False) -> str:
    """Print a sum with minus signs where a term has a negative leading number."""
    printed = ""
    for term in terms:
        piece = (
            _wrapped(term, latex=latex)
            if printed and isinstance(term, Sum)
            else (term.latex() if latex else term.text())
        )
        if not printed:
            printed = piece
        elif piece.startswith("-"):
            printed += f" - {piece[1:]}"
        else:
            printed += f" + {piece}"
    return printed
