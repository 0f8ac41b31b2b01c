"""A small graph of elementary operations, with equal sub-expressions shared.

A general algebra package would do, but three things are wanted that a purpose-made graph gives for nothing:
derivatives by reverse accumulation that share every sub-expression, kinks with the derivative torch gives them, and
code generation in milliseconds.

Every node has a *level* that says how often its value changes: never (a number), once a call (coefficients), once a
row (grid spacing, Coriolis parameter), or in every cell. A product keeps its slow factor first and apart,
``slow * fast``, all the way through sums and derivatives. Hence everything that does not change along a row is
computed outside the inner loop, and a division by such a value becomes a multiplication.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["CELL", "LITERAL", "ROW", "SCALAR", "CellRead", "Graph", "Node", "RowRead", "reachable"]

LITERAL, SCALAR, ROW, CELL = range(4)

_FOLD: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "abs": abs,
}
FUNCTIONS = tuple(_FOLD)
_COMPARE = {"lt": float.__lt__, "le": float.__le__, "eq": float.__eq__}


@dataclass(frozen=True, slots=True)
class CellRead:
    """Value of a stored array ``east`` and ``north`` cells away; ``odd`` names the axes whose walls turn its sign."""

    array: int
    odd: str
    east: int
    north: int


@dataclass(frozen=True, slots=True)
class RowRead:
    """Value that belongs to the row ``north`` rows away."""

    row: int
    north: int


class Node:
    """One value; made by :class:`Graph` only, so that equal values are the same object."""

    __slots__ = ("args", "data", "index", "level", "op")

    def __init__(self, op: str, args: tuple[Node, ...], data: Any, level: int, index: int) -> None:
        self.op = op
        self.args = args
        self.data = data
        self.level = level
        self.index = index

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.args)) if self.args else repr(self.data)
        return f"{self.op}({inner})"


class Graph:
    """Makes nodes, simplifying locally and returning the known node for an equal value."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Node] = {}
        self.zero = self.const(0.0)
        self.one = self.const(1.0)
        self.minus_one = self.const(-1.0)

    def _make(self, op: str, args: tuple[Node, ...] = (), data: Any = None, level: int = LITERAL) -> Node:
        key = (op, data, *(a.index for a in args))
        node = self._known.get(key)
        if node is None:
            level = max((a.level for a in args), default=level)
            node = self._known[key] = Node(op, args, data, level, len(self._known))
        return node

    # leaves

    def const(self, value: float) -> Node:
        """Return a number."""
        key = ("const", float(value).hex())
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = Node("const", (), float(value), LITERAL, len(self._known))
        return node

    def truth(self, value: bool) -> Node:
        """Return a known condition."""
        return self._make("truth", data=bool(value))

    def scalar(self, slot: int) -> Node:
        """Return a value given anew at each call: a coefficient, a factor, the time step."""
        return self._make("scalar", data=slot, level=SCALAR)

    def row(self, row: int, north: int = 0) -> Node:
        """Return a value per row."""
        return self._make("row", data=RowRead(row, north), level=ROW)

    def cell(self, array: int, east: int = 0, north: int = 0, odd: str = "") -> Node:
        """Return a value of a stored array; the cell itself has no wall to look through, so no parity."""
        here = east == 0 and north == 0
        return self._make("cell", data=CellRead(array, "" if here else odd, east, north), level=CELL)

    def inside(self, east: int, north: int) -> Node:
        """Return the condition that the cell ``east`` and ``north`` of this one lies in the domain."""
        return self._make("inside", data=(east, north), level=CELL)

    # arithmetic

    def split(self, node: Node) -> tuple[Node, Node]:
        """Return (slow, fast) with ``node == slow * fast``; slow is 1 when nothing can be taken out."""
        if node.op == "mul" and node.args[0].level < node.level:
            return node.args[0], node.args[1]
        return self.one, node

    def neg(self, a: Node) -> Node:
        """Minus ``a``."""
        return self.mul(self.minus_one, a)

    def sub(self, a: Node, b: Node) -> Node:
        """Difference."""
        return self.add(a, self.neg(b))

    def mul(self, a: Node, b: Node) -> Node:
        """Product, slow factors gathered in front."""
        if a.op == "const" and b.op == "const":
            return self.const(a.data * b.data)
        if (a.level, a.index) > (b.level, b.index):
            a, b = b, a
        if a.op == "const" and a.data in (0.0, 1.0):
            return b if a.data == 1.0 else self.zero
        if a.level < b.level:
            slow, fast = self.split(b)
            slow = self.mul(a, slow)
            return fast if slow is self.one else self._make("mul", (slow, fast)) if slow is not self.zero else slow
        slow_a, fast_a = self.split(a)
        slow_b, fast_b = self.split(b)
        if slow_a is not self.one or slow_b is not self.one:
            return self.mul(self.mul(slow_a, slow_b), self.mul(fast_a, fast_b))
        if a.op == "exp" and b.op == "exp":
            return self.function("exp", self.add(a.args[0], b.args[0]))
        return self._make("mul", (a, b))

    def add(self, a: Node, b: Node) -> Node:
        """Return the sum; terms that share a factor on either side of the slow/fast border are joined."""
        if a.op == "const" and b.op == "const":
            return self.const(a.data + b.data)
        if (a.level, a.index) > (b.level, b.index):
            a, b = b, a
        if a is self.zero:
            return b
        slow_a, fast_a = self.split(a)
        slow_b, fast_b = self.split(b)
        if fast_a is fast_b:
            return self.mul(self.add(slow_a, slow_b), fast_a)
        if a.level == b.level and slow_a is not self.one and slow_b is not self.one:
            if slow_a is slow_b:
                return self.mul(slow_a, self.add(fast_a, fast_b))
            if slow_a is self.neg(slow_b):
                return self.mul(slow_a, self.sub(fast_a, fast_b))
        if b.op == "add" and b.args[0].level < b.level and a.level < b.level:
            return self.add(self.add(a, b.args[0]), b.args[1])
        return self._make("add", (a, b))

    def sum(self, terms: Iterable[Node]) -> Node:
        """Return the sum of any number of terms."""
        total = self.zero
        for term in terms:
            total = self.add(total, term)
        return total

    def recip(self, a: Node) -> Node:
        """Return one over ``a``."""
        if a.op == "const":
            return self.const(1.0 / a.data if a.data else math.copysign(math.inf, a.data))
        if a.op == "recip":
            return a.args[0]
        slow, fast = self.split(a)
        if slow is not self.one:
            return self.mul(self.recip(slow), self.recip(fast))
        if a.op == "mul" and a.args[0] is a.args[1]:
            return self.mul(self.recip(a.args[0]), self.recip(a.args[0]))
        return self._make("recip", (a,))

    def div(self, a: Node, b: Node) -> Node:
        """Quotient."""
        return self.mul(a, self.recip(b))

    def power(self, a: Node, exponent: float) -> Node:
        """Return ``a`` to a fixed power: products for small whole and half exponents, exp and log otherwise."""
        if exponent < 0.0:
            return self.recip(self.power(a, -exponent))
        whole = math.floor(exponent)
        if whole <= 16 and exponent - whole in (0.0, 0.5):
            result = self.one if exponent == whole else self.function("sqrt", a)
            square = a
            while whole:
                if whole & 1:
                    result = self.mul(result, square)
                square, whole = self.mul(square, square), whole >> 1
            return result
        return self.function("exp", self.mul(self.const(exponent), self.function("log", a)))

    def function(self, name: str, a: Node) -> Node:
        """Return an elementary function."""
        if a.op == "const":
            try:
                return self.const(_FOLD[name](a.data))
            except (ValueError, OverflowError):
                pass  # outside the domain: left to run time, which gives NaN or infinity as torch does
        return self._make(name, (a,))

    # conditions

    def compare(self, op: str, a: Node, b: Node) -> Node:
        """Return ``a < b``, ``a <= b`` or ``a == b``."""
        if a.op == "const" and b.op == "const":
            return self.truth(_COMPARE[op](a.data, b.data))
        return self._make(op, (a, b))

    def logic(self, op: str, *conditions: Node) -> Node:
        """``and``, ``or``, ``not`` of conditions."""
        if all(c.op == "truth" for c in conditions):
            values = [c.data for c in conditions]
            return self.truth({"and": all(values), "or": any(values), "not": not values[0]}[op])
        return self._make(op, conditions)

    def select(self, condition: Node, a: Node, b: Node) -> Node:
        """Return ``a`` where the condition holds, ``b`` elsewhere."""
        if condition.op == "truth":
            return a if condition.data else b
        if a.op == "select" and a.args[0] is condition:
            a = a.args[1]
        if b.op == "select" and b.args[0] is condition:
            b = b.args[2]
        if a is b:
            return a
        slow_a, fast_a = self.split(a)
        slow_b, fast_b = self.split(b)
        if b is self.zero and slow_a is not self.one:
            return self.mul(slow_a, self.select(condition, fast_a, b))
        if a is self.zero and slow_b is not self.one:
            return self.mul(slow_b, self.select(condition, a, fast_b))
        if slow_a is slow_b and slow_a is not self.one and a.level == b.level:
            return self.mul(slow_a, self.select(condition, fast_a, fast_b))
        return self._make("select", (condition, a, b))

    # rewriting

    def rebuild(self, node: Node, leaves: dict[Node, Node]) -> Node:
        """Return ``node`` with some nodes replaced; ``leaves`` is extended with what was rebuilt."""
        for part in reachable([node], stop=leaves):
            if part not in leaves:
                leaves[part] = self.again(part, tuple(leaves[a] for a in part.args))
        return leaves[node]

    def raw(self, op: str, *args: Node) -> Node:
        """Return an operation exactly as given, with nothing simplified."""
        if op in ("add", "mul"):
            args = tuple(sorted(args, key=lambda a: (a.level, a.index)))
        return self._make(op, args)

    def again(self, node: Node, args: tuple[Node, ...]) -> Node:
        """Return the same operation on other arguments, simplified."""
        if not args or args == node.args:
            return node
        if node.op in ("add", "mul", "recip", "select"):
            rebuilt: Node = getattr(self, node.op)(*args)
            return rebuilt
        if node.op in _COMPARE:
            return self.compare(node.op, *args)
        if node.op in ("and", "or", "not"):
            return self.logic(node.op, *args)
        return self.function(node.op, *args)


def reachable(outputs: Sequence[Node], stop: Iterable[Node] = (), leaves: Container[Node] = frozenset()) -> list[Node]:
    """Nodes that the outputs need, each after its arguments.

    Nodes in ``stop`` are left out with all that only they need; of nodes in ``leaves`` the arguments are left out.
    """
    seen = set(stop)
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(outputs)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node not in leaves:
                stack.extend((argument, False) for argument in reversed(node.args) if argument not in seen)
    return order
