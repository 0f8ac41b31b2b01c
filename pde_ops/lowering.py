"""From equations to a flat program.

The expression graph of a system becomes a list of nodes in evaluation order. Equal sub-expressions become one
node (common-subexpression elimination), numbers are folded, and calls of one operator that differ only in its
``batch_over`` argument are grouped so that a backend can run them as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .boundaries import Parity
from .errors import DeclarationError
from .expr import Call, Constant, Expr, Product, Quotient, Sum, walk
from .operator import Operator
from .parity import call_parity, product, shared
from .symbols import Closure, Field, Positive, Static, Symbol, check_names

__all__ = ["Group", "Node", "Program", "lower", "schedule"]

Kind = Literal["field", "closure", "static", "coefficient", "constant", "sum", "product", "quotient", "call"]


@dataclass(frozen=True, slots=True)
class Node:
    """One value of the program.

    Attributes
    ----------
    inputs : positions of earlier nodes
    index : channel of a field, or position of a closure or coefficient
    name : of a static; value : of a constant
    varies : whether it depends on a field or a closure, and so on the batch
    parity : reflecting walls that turn its sign
    flips : of a call that reads neighbours, for each input the walls that turn it other than the operator expects;
        empty where there is none
    """

    kind: Kind
    inputs: tuple[int, ...] = ()
    index: int = -1
    name: str = ""
    value: float = 0.0
    operator: Operator | None = None
    options: tuple[tuple[str, Any], ...] = ()
    varies: bool = False
    parity: Parity = ""
    flips: tuple[Parity, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes in evaluation order and, for each output, the node that holds it."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    fields: tuple[Field, ...]
    closures: tuple[Closure, ...]
    statics: tuple[Static, ...]
    coefficients: tuple[Positive, ...]

    @property
    def size(self) -> int:
        """Number of instructions: nodes that compute something."""
        return sum(bool(node.inputs) for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes to run together: one call with several values of its batched argument, or a single node."""

    members: tuple[int, ...]


def lower(
    outputs: Sequence[Expr],
    fields: Sequence[Field],
    closures: Sequence[Closure] = (),
    coefficients: Sequence[Positive] = (),
    walls: Parity = "",
) -> Program:
    """Lower expressions over the given fields (their order is the channel order).

    Closures and coefficients given here come first and keep their positions, so that several programs of one system
    can share the same inputs. ``walls`` names the axes with reflecting borders: what changes sign there is worked out
    from the components declared for symbols and the parities declared for operators.
    """
    return _Lowering(fields, closures, coefficients, walls).run(outputs)


class _Lowering:
    def __init__(
        self, fields: Sequence[Field], closures: Sequence[Closure], coefficients: Sequence[Positive], walls: Parity
    ) -> None:
        self.fields = tuple(fields)
        self.walls = walls
        self.channel = {f.name: i for i, f in enumerate(fields)}
        self.nodes: list[Node] = []
        self.known: dict[Expr, int] = {}
        self.symbols: dict[type[Symbol], list[Any]] = {
            Closure: list(closures), Static: [], Positive: list(coefficients)
        }  # fmt: skip

    def run(self, outputs: Sequence[Expr]) -> Program:
        # Before equal expressions become one node, and the first of two symbols stands for both.
        symbols = (node for output in outputs for node in walk(output) if isinstance(node, Symbol))
        check_names([*self.fields, *(s for listed in self.symbols.values() for s in listed), *symbols])
        positions = tuple(self.visit(expression) for expression in outputs)
        return Program(
            nodes=tuple(self.nodes),
            outputs=positions,
            fields=self.fields,
            closures=tuple(self.symbols[Closure]),
            statics=tuple(self.symbols[Static]),
            coefficients=tuple(self.symbols[Positive]),
        )

    def visit(self, expression: Expr) -> int:
        if expression in self.known:
            return self.known[expression]
        position = self.emit(expression)
        self.known[expression] = position
        return position

    def emit(self, expression: Expr) -> int:
        if isinstance(expression, Constant):
            return self.push(Node("constant", value=expression.value))
        if isinstance(expression, Symbol):
            return self.push(self.leaf(expression))
        inputs = tuple(self.visit(child) for child in expression.children)
        varies = any(self.nodes[i].varies for i in inputs)
        if isinstance(expression, Call):
            return self.push(self.call(expression, inputs, varies))
        kinds: dict[type[Expr], Kind] = {Sum: "sum", Product: "product", Quotient: "quotient"}
        kind = kinds[type(expression)]
        parity = (shared if kind == "sum" else product)(*(self.nodes[i].parity for i in inputs))
        return self.push(Node(kind, inputs, varies=varies, parity=parity))

    def call(self, expression: Call, inputs: tuple[int, ...], varies: bool) -> Node:
        operator = expression.operator
        parities = {name: self.nodes[i].parity for name, i in zip(operator.inputs, inputs, strict=True)}
        flips, parity = call_parity(operator, parities)
        reads = any(flips.values()) and not operator.properties.get("pointwise", False)
        return Node(
            "call",
            inputs,
            operator=operator,
            options=expression.options,
            varies=varies,
            parity=self.at_walls(parity),
            flips=tuple(flips.values()) if reads else (),
        )

    def at_walls(self, parity: str) -> Parity:
        return product(*(axis for axis in self.walls if axis in parity))

    def leaf(self, symbol: Symbol) -> Node:
        parity = self.at_walls(symbol.component or "")
        if isinstance(symbol, Field):
            if symbol.name not in self.channel:
                raise DeclarationError(
                    f"field '{symbol.name}' has no equation", do="add one, or make it a Static or Closure"
                )
            return Node("field", index=self.channel[symbol.name], varies=True, parity=parity)
        table = self.symbols[type(symbol)]
        if symbol not in table:
            table.append(symbol)
        index = table.index(symbol)
        if isinstance(symbol, Closure):
            return Node("closure", index=index, varies=True, parity=parity)
        if isinstance(symbol, Static):
            return Node("static", index=index, name=symbol.name, parity=parity)
        return Node("coefficient", index=index)

    def push(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


def schedule(program: Program, *, batched: bool = True) -> list[Group]:
    """Return an order of evaluation in which calls that can share a kernel stand together.

    Nodes are taken level by level, a level being the number of calls on the longest path to a node: members of one
    level cannot depend on each other, so those with the same operator, options and shared arguments form a group.
    """
    levels: list[int] = []
    for node in program.nodes:
        below = max((levels[i] for i in node.inputs), default=0)
        levels.append(below + (node.kind == "call"))
    order: list[Group] = []
    for level in range(max(levels, default=0) + 1):
        here = [i for i, at in enumerate(levels) if at == level and program.nodes[i].inputs]
        groups: dict[object, list[int]] = {}
        for i in here:
            if program.nodes[i].kind == "call":
                key = _batch_key(program.nodes[i], program.nodes) if batched else None
                groups.setdefault(i if key is None else key, []).append(i)
        order += [Group(tuple(members)) for members in groups.values()]
        order += [Group((i,)) for i in here if program.nodes[i].kind != "call"]
    return order


def _batch_key(node: Node, nodes: Sequence[Node]) -> object | None:
    assert node.operator is not None
    over = node.operator.batch_over
    if over is None:
        return None
    position = tuple(node.operator.inputs).index(over)
    if not nodes[node.inputs[position]].varies:
        return None
    others = node.inputs[:position] + node.inputs[position + 1 :]
    return (node.operator.name, node.options, others, node.flips)


def describe(program: Program, names: Mapping[int, str] | None = None) -> str:
    """Print the program, one node a line (for debugging and documentation)."""
    lines = []
    for position, node in enumerate(program.nodes):
        if node.kind == "call" and node.operator is not None:
            body = f"{node.operator.name}({', '.join(f'%{i}' for i in node.inputs)})"
        elif node.inputs:
            joint = {"sum": " + ", "product": " * ", "quotient": " / "}[node.kind]
            body = joint.join(f"%{i}" for i in node.inputs)
        else:
            body = f"{node.kind} {node.name or (node.value if node.kind == 'constant' else node.index)}"
        lines.append(f"%{position} = {body}")
    return "\n".join(lines)
