"""C text of expressions: vector statements for the inner loop, plain doubles for what changes once a row or a call."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from .ir import CELL, Node, reachable

__all__ = ["SlowTable", "VectorWriter", "literal", "slow_statements"]

_INFIX = {"add": "+", "mul": "*", "lt": "<", "le": "<=", "eq": "=="}


def literal(value: float, double: bool) -> str:
    """Return a number in C."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = repr(value) + ("" if double else "f")
    return f"({text})" if value < 0 else text


class SlowTable:
    """Where the values that do not change along a row are kept: once a call in ``sc``, once a row in ``row``.

    In C each entry is a whole vector, ready to be an operand.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.scalars = [n for n in nodes if n.level < CELL - 1]
        self.rows = [n for n in nodes if n.level == CELL - 1]

    def place(self, node: Node) -> str:
        """C text of an entry."""
        if node in self.scalars:
            return f"sc[{self.scalars.index(node)}]"
        return f"row[{self.rows.index(node)}]"


def slow_statements(outputs: list[Node], leaf: Callable[[Node], str]) -> tuple[list[str], dict[Node, str]]:
    """Statements in double precision that compute slow nodes, and the name of each."""
    lines: list[str] = []
    names: dict[Node, str] = {}
    for node in reachable(outputs):
        if node.op == "const":
            names[node] = literal(node.data, True)
        elif node.op == "truth":
            names[node] = "1.0" if node.data else "0.0"
        else:
            names[node] = f"d{len(lines)}"
            text = _slow_text(node, [names[a] for a in node.args]) if node.args else leaf(node)
            lines.append(f"const double {names[node]} = {text};")
    return lines, names


def _slow_text(node: Node, args: list[str]) -> str:
    if node.op in _INFIX:
        return f"{args[0]} {_INFIX[node.op]} {args[1]}"
    match node.op:
        case "recip":
            return f"1.0 / {args[0]}"
        case "select":
            return f"{args[0]} != 0.0 ? {args[1]} : {args[2]}"
        case "and" | "or":
            joint = "&&" if node.op == "and" else "||"
            return f"{args[0]} != 0.0 {joint} {args[1]} != 0.0"
        case "not":
            return f"{args[0]} == 0.0"
        case "abs":
            return f"fabs({args[0]})"
    return f"{node.op}({args[0]})"


class VectorWriter:
    """Writes the statements of one inner loop, each value once, in the order in which they are asked for."""

    def __init__(
        self,
        roots: list[Node],
        table: SlowTable,
        read: Callable[[Node], str],
        double: bool,
        loaded: Mapping[Node, str],
    ) -> None:
        self.lines: list[str] = []
        self.hoisted: dict[str, str] = {}  # name to declaration, of what does not change along a row
        self._names: dict[Node, str] = {}
        self._table = table
        self._read = read
        self._double = double
        self._kept = loaded  # what an earlier loop has left in memory
        self._uses = Counter(a for n in reachable(roots, leaves=loaded) if n not in loaded for a in n.args)
        self._uses.update(roots)

    def value(self, root: Node) -> str:
        """Write what a node needs and return the text of its value, as a vector."""
        for node in reachable([root], stop=self._names, leaves=self._kept):
            if node.level == CELL and node not in self._names and not self._is_inline(node):
                self._names[node] = name = f"v{len(self._names)}"
                kind = "vi" if self._is_condition(node) else "vf"
                self.lines.append(f"const {kind} {name} = {self._text(node)};")
        return self._vector(root)

    def _is_condition(self, node: Node) -> bool:
        return node.op in ("lt", "le", "eq", "and", "or", "not")

    def _is_inline(self, node: Node) -> bool:
        if node in self._kept:
            return False
        if node.op == "mul" and node.args[0].op == "const" and node.args[0].data == -1.0:
            return True
        return node.op == "recip" and self._uses[node] == 1

    def _operand(self, node: Node) -> str:
        """Return the text of a value; a number stays a number, which vector arithmetic accepts."""
        return literal(node.data, self._double) if node.op == "const" else self._vector(node)

    def _vector(self, node: Node) -> str:
        if node.op == "const":
            return f"bc({literal(node.data, self._double)})"
        if node.level < CELL:
            return self._slow(node)
        if node in self._names:
            return self._names[node]
        if node.op == "recip":
            return f"(1 / {self._vector(node.args[0])})"
        return f"(-{self._vector(node.args[1])})"

    def _slow(self, node: Node) -> str:
        place = self._table.place(node)
        name = "k_" + place.replace("[", "").replace("]", "")
        kind, value = ("vi", f"{place} != 0") if self._is_condition(node) else ("vf", place)
        self.hoisted[name] = f"const {kind} {name} = {value};"
        return name

    def _text(self, node: Node) -> str:
        if node in self._kept:
            return self._kept[node]
        a = node.args[0] if node.args else None
        match node.op:
            case "cell":
                return self._read(node)
            case "add":
                return self._sum(*node.args)
            case "mul":
                return self._product(*node.args)
            case "recip" if a is not None:
                return f"1 / {self._vector(a)}"
            case "select":
                return self._select(*node.args)
            case "and" | "or":
                return (" & " if node.op == "and" else " | ").join(self._vector(x) for x in node.args)
            case "not" if a is not None:
                return f"~{self._vector(a)}"
            case "lt" | "le" | "eq":
                left, right = node.args
                return f"{self._operand(left)} {_INFIX[node.op]} {self._operand(right)}"
        assert a is not None
        return f"v{node.op}({self._vector(a)})"

    def _sum(self, a: Node, b: Node) -> str:
        for x, y in ((a, b), (b, a)):
            if y.level == CELL and self._is_inline(y) and y.op == "mul":
                return f"{self._operand(x)} - {self._vector(y.args[1])}"
        return f"{self._operand(a)} + {self._operand(b)}"

    def _product(self, a: Node, b: Node) -> str:
        for x, y in ((a, b), (b, a)):
            if y.op == "recip" and y.level == CELL and self._is_inline(y):
                return f"{self._operand(x)} / {self._vector(y.args[0])}"
        return f"{self._operand(a)} * {self._operand(b)}"

    def _select(self, condition: Node, a: Node, b: Node) -> str:
        if condition.op in ("lt", "le") and condition.level == CELL:
            low, high = condition.args
            if a is high and b is low:
                return f"vmax({self._vector(high)}, {self._vector(low)})"
            if a is low and b is high:
                return f"vmin({self._vector(low)}, {self._vector(high)})"
        mask = self._vector(condition)
        if b.op == "const" and b.data == 0.0:
            return f"vand({self._vector(a)}, {mask})"
        if a.op == "const" and a.data == 0.0:
            return f"vand({self._vector(b)}, ~{mask})"
        return f"vsel({mask}, {self._vector(a)}, {self._vector(b)})"
