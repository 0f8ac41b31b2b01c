"""The face that operator bodies see while they are traced.

A :class:`Sym` does what :mod:`pde_ops.elementwise` asks of a symbol, and answers the torch functions of the same
meaning, so that a body written with ``torch.exp`` or ``torch.where`` is traced as well. What it cannot express, such
as reductions, indexing or a decision on data, raises, and the caller turns that into a message naming the operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ...boundaries import Parity
from ...errors import BackendError
from ...parity import product, shared
from .ir import FUNCTIONS, Graph, Node

__all__ = ["Sym"]

_CONDITIONS = {"truth", "lt", "le", "eq", "and", "or", "not"}


class Sym:
    """A value of the graph with arithmetic; ``parity`` is what :class:`pde_ops.parity.Turned` carries for tensors."""

    __slots__ = ("graph", "node", "parity")
    __array_ufunc__ = None  # numpy scalars then leave arithmetic to this class
    __hash__ = None  # type: ignore[assignment]  # `==` builds a condition

    def __init__(self, graph: Graph, node: Node, parity: Parity = "") -> None:
        self.graph = graph
        self.node = node
        self.parity = parity

    # construction

    def lift(self, other: Any) -> Node:
        """Return the node of a symbol, number or one-element constant tensor, as a number."""
        if isinstance(other, Sym):
            node = other.node
            return self.graph.select(node, self.graph.one, self.graph.zero) if node.op in _CONDITIONS else node
        if isinstance(other, torch.Tensor):
            if other.numel() != 1 or other.requires_grad:
                raise BackendError(
                    f"a tensor of shape {tuple(other.shape)} is mixed with traced values",
                    do="pass it as a Static or Closure, or use a number",
                )
            return self.graph.const(float(other.detach()))
        try:
            return self.graph.const(float(other))
        except (TypeError, ValueError):
            raise BackendError(f"`{type(other).__name__}` is mixed with traced values", do="use numbers") from None

    def condition(self, other: Any) -> Node:
        """Return the node of a condition."""
        if isinstance(other, Sym):
            return other.node if other.node.op in _CONDITIONS else self._not(self._compare("eq", other, 0.0)).node
        if isinstance(other, torch.Tensor) and other.numel() != 1:
            raise BackendError(f"a condition tensor of shape {tuple(other.shape)} is mixed with traced values")
        return self.graph.truth(bool(other))

    def oriented(self, parity: Parity) -> Sym:
        """Return the same value, turned by walls in another way."""
        return Sym(self.graph, self.node, parity)

    def _wrap(self, node: Node, parity: Parity = "") -> Sym:
        return Sym(self.graph, node, parity)

    def _sum(self, node: Node, *terms: Any) -> Sym:
        parities = [term.parity if isinstance(term, Sym) else "" for term in terms if not _is_zero(term)]
        return self._wrap(node, shared(*parities))

    def _product(self, node: Node, other: Any) -> Sym:
        return self._wrap(node, product(self.parity, other.parity if isinstance(other, Sym) else ""))

    # arithmetic

    def __add__(self, other: Any) -> Sym:
        return self._sum(self.graph.add(self.lift(self), self.lift(other)), self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Sym:
        return self._sum(self.graph.sub(self.lift(self), self.lift(other)), self, other)

    def __rsub__(self, other: Any) -> Sym:
        return self._sum(self.graph.sub(self.lift(other), self.lift(self)), self, other)

    def __mul__(self, other: Any) -> Sym:
        return self._product(self.graph.mul(self.lift(self), self.lift(other)), other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Sym:
        return self._product(self.graph.div(self.lift(self), self.lift(other)), other)

    def __rtruediv__(self, other: Any) -> Sym:
        return self._product(self.graph.div(self.lift(other), self.lift(self)), other)

    def __pow__(self, exponent: Any) -> Sym:
        node = self.lift(exponent)
        if node.op == "const":
            return self._wrap(self.graph.power(self.lift(self), node.data), self.parity if node.data % 2 == 1 else "")
        log = self.graph.function("log", self.lift(self))
        return self._wrap(self.graph.function("exp", self.graph.mul(node, log)))

    def __rpow__(self, base: Any) -> Sym:
        return self._wrap(self.lift(base)) ** self

    def __neg__(self) -> Sym:
        return self._wrap(self.graph.neg(self.lift(self)), self.parity)

    def __pos__(self) -> Sym:
        return self

    def __abs__(self) -> Sym:
        return self._function("abs")

    # comparison

    def _compare(self, op: str, a: Any, b: Any) -> Sym:
        return self._wrap(self.graph.compare(op, self.lift(a), self.lift(b)))

    def __lt__(self, other: Any) -> Sym:
        return self._compare("lt", self, other)

    def __le__(self, other: Any) -> Sym:
        return self._compare("le", self, other)

    def __gt__(self, other: Any) -> Sym:
        return self._compare("lt", other, self)

    def __ge__(self, other: Any) -> Sym:
        return self._compare("le", other, self)

    def __eq__(self, other: object) -> Sym:  # type: ignore[override]
        return self._compare("eq", self, other)

    def __ne__(self, other: object) -> Sym:  # type: ignore[override]
        return self._not(self._compare("eq", self, other))

    def __and__(self, other: Any) -> Sym:
        return self._wrap(self.graph.logic("and", self.condition(self), self.condition(other)))

    def __or__(self, other: Any) -> Sym:
        return self._wrap(self.graph.logic("or", self.condition(self), self.condition(other)))

    __rand__, __ror__ = __and__, __or__

    def _not(self, other: Sym) -> Sym:
        return self._wrap(self.graph.logic("not", self.condition(other)))

    def __invert__(self) -> Sym:
        return self._not(self)

    def __bool__(self) -> bool:
        raise TypeError("a decision on the value of an array cannot be traced; use `where`")

    # functions

    def _function(self, name: str) -> Sym:
        parity: Parity = self.parity if name in ("sin", "tanh") else ""
        return self._wrap(self.graph.function(name, self.lift(self)), parity)

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Sym:
        """Return ``a`` where the condition holds, ``b`` elsewhere."""
        symbol = next(part for part in (condition, a, b) if isinstance(part, Sym))
        return symbol._sum(symbol.graph.select(symbol.condition(condition), symbol.lift(a), symbol.lift(b)), a, b)

    def around(self, grid: Any, radius: int, odd: str | None) -> Any:
        """Surroundings on a traced grid, for :func:`pde_ops.stencils.around`."""
        return grid.surroundings(self, radius, odd)

    def __getattr__(self, name: str) -> Any:
        handler = None if name.startswith("__") else _TORCH.get(name)
        if handler is None:
            raise AttributeError(f"`{name}` of an array cannot be traced")
        return lambda *args, **options: handler(self, *args, **options)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Answer ``torch.exp(sym)`` and the operators of tensors that meet symbols."""
        name = getattr(function, "__name__", str(function))
        if name.startswith("__") and len(args) == 2 and hasattr(cls, name):
            symbol = next(a for a in args if isinstance(a, Sym))
            left = args[0] if isinstance(args[0], Sym) else symbol._wrap(symbol.lift(args[0]))
            return getattr(left, name)(args[1])
        if name not in _TORCH:
            raise BackendError(f"`torch.{name}` has no fused form", do="write it with pde_ops.elementwise")
        return _TORCH[name](*args, **(kwargs or {}))


def _is_zero(value: Any) -> bool:
    """Zero has every parity."""
    return isinstance(value, (int, float)) and value == 0


def _as_sym(*values: Any) -> list[Sym]:
    symbol = next(v for v in values if isinstance(v, Sym))
    return [v if isinstance(v, Sym) else symbol._wrap(symbol.lift(v)) for v in values]


def _binary(name: str) -> Callable[..., Sym]:
    def apply(a: Any, b: Any, *, alpha: float = 1.0) -> Sym:
        left, right = _as_sym(a, b)
        result: Sym = getattr(left, name)(right if alpha == 1.0 else right * alpha)
        return result

    return apply


def _maximum(a: Any, b: Any) -> Sym:
    left, right = _as_sym(a, b)  # at a tie torch gives each side half of the derivative
    return Sym.where(left > right, left, Sym.where(left < right, right, 0.5 * left + 0.5 * right))


def _minimum(a: Any, b: Any) -> Sym:
    return -_maximum(-_as_sym(a, b)[0], -_as_sym(a, b)[1])


def _clamp(x: Any, min: Any = None, max: Any = None) -> Sym:
    symbol = next(v for v in (x, min, max) if isinstance(v, Sym))
    result = _as_sym(x, symbol)[0]
    if min is not None:
        result = Sym.where(result < min, min, result)
    return result if max is None else Sym.where(result > max, max, result)


def _sign(x: Sym) -> Sym:
    return Sym.where(x > 0.0, 1.0, Sym.where(x < 0.0, -1.0, 0.0))


def _where(condition: Any, a: Any, b: Any) -> Sym:
    return Sym.where(condition, a, b)


_TORCH: dict[str, Callable[..., Any]] = {
    **{name: (lambda x, _name=name: x._function(_name)) for name in FUNCTIONS},
    "absolute": lambda x: x._function("abs"),
    "add": _binary("__add__"),
    "sub": _binary("__sub__"),
    "subtract": _binary("__sub__"),
    "rsub": lambda a, b: _as_sym(b, a)[0] - a,
    "mul": _binary("__mul__"),
    "multiply": _binary("__mul__"),
    "div": _binary("__truediv__"),
    "divide": _binary("__truediv__"),
    "true_divide": _binary("__truediv__"),
    "pow": _binary("__pow__"),
    "neg": lambda x: -x,
    "negative": lambda x: -x,
    "lt": _binary("__lt__"),
    "le": _binary("__le__"),
    "gt": _binary("__gt__"),
    "ge": _binary("__ge__"),
    "eq": _binary("__eq__"),
    "ne": _binary("__ne__"),
    "logical_and": _binary("__and__"),
    "logical_or": _binary("__or__"),
    "logical_not": lambda x: ~x,
    "maximum": _maximum,
    "minimum": _minimum,
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": lambda x, min: _clamp(x, min),
    "clamp_max": lambda x, max: _clamp(x, None, max),
    "relu": lambda x: Sym.where(x <= 0.0, 0.0, x),
    "where": _where,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / x._function("sqrt"),
    "sigmoid": lambda x: 1.0 / (1.0 + (-x)._function("exp")),
    "sign": _sign,
    "hypot": lambda a, b: (a * a + b * b)._function("sqrt"),
    "tan": lambda x: x._function("sin") / x._function("cos"),
    "exp2": lambda x: (x * math.log(2.0))._function("exp"),
    "log2": lambda x: x._function("log") / math.log(2.0),
    "log10": lambda x: x._function("log") / math.log(10.0),
    "lerp": lambda a, b, weight: a + weight * (b - a),
    "zeros_like": lambda x: 0.0 * x,
    "ones_like": lambda x: 0.0 * x + 1.0,
}
