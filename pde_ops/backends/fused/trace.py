"""Run a lowered program on symbols: what comes out is a list of stages, each a set of stencil expressions.

A neighbour of a *stored* array (field, closure, static) is a plain read at an offset. A neighbour of a *computed*
quantity has ghost cells of its own: the baseline pads the computed array. So the quantity is stored by an earlier
stage and read from there. A quantity that is cheap and computed cell by cell is recomputed at the neighbour instead,
which is the same number, because a border map commutes with any function of one cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import reduce
from operator import add, mul
from typing import Any, Literal

import torch

from ...boundaries import Boundary
from ...errors import BackendError, GridError
from ...grid import BoundGrid, Grid2D
from ...lowering import Node as Instruction
from ...lowering import Program
from ...parity import product
from ...transforms import on_real_tensors
from .ir import CELL, Graph, Node, reachable
from .symbol import Sym
from .tidy import as_differences

__all__ = ["ArrayInfo", "RowInfo", "ScalarInfo", "Traced", "static_kind", "trace"]

INLINE_LIMIT = 3  # operations that are cheaper to repeat at each neighbour than to store and read back
StaticKind = Literal["grid", "row", "plane"]


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """A stored array: ``kind`` is field, closure, static, grid, stage (an intermediate) or seed (of the adjoint)."""

    kind: str
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class RowInfo:
    """A value per row: from the ``grid`` or a ``static`` of the system."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ScalarInfo:
    """A number given at each call: a ``coefficient``, a field's ``factor``, or ``dt``."""

    kind: str
    index: int


@dataclass(slots=True)
class Traced:
    """A traced program.

    Attributes
    ----------
    closures, coefficients : how many of them the program is given
    stages : for each stage the (intermediate array, expression) pairs it stores
    outputs : tendency of each field, computed by the last stage
    """

    graph: Graph
    boundary: Boundary
    closures: int
    coefficients: int
    arrays: list[ArrayInfo]
    rows: list[RowInfo]
    scalars: list[ScalarInfo]
    stages: list[list[tuple[int, Node]]]
    outputs: list[Node]

    def array(self, info: ArrayInfo) -> int:
        """Return the position of an array, added when new."""
        if info not in self.arrays:
            self.arrays.append(info)
        return self.arrays.index(info)

    def scalar(self, info: ScalarInfo) -> Node:
        """Node of a scalar, added when new."""
        if info not in self.scalars:
            self.scalars.append(info)
        return self.graph.scalar(self.scalars.index(info))

    def position(self, slot: int) -> int:
        """Return the index of the derivative by a scalar: coefficients first, then the factors of the fields."""
        info = self.scalars[slot]
        return info.index + (self.coefficients if info.kind == "factor" else 0)

    def counts(self) -> dict[str, int]:
        """Return the number of arrays that lie one behind the other, by kind."""
        fields = len(self.outputs)
        return {
            **dict.fromkeys(("field", "output", "seed", "direct seed"), fields),
            "stage": sum(len(stage) for stage in self.stages),
        }

    def state(self) -> list[Node]:
        """Return the fields themselves."""
        return [self.graph.cell(self.array(ArrayInfo("field", k, f"field {k}"))) for k in range(len(self.outputs))]

    def advanced(self) -> list[Node]:
        """Expressions of state + factor · dt · F(state)."""
        g, step = self.graph, self.scalar(ScalarInfo("dt", 0))
        factors = [self.scalar(ScalarInfo("factor", k)) for k in range(len(self.outputs))]
        return [
            g.add(field, g.mul(g.mul(factor, step), rate))
            for field, factor, rate in zip(self.state(), factors, self.outputs, strict=True)
        ]


def static_kind(value: torch.Tensor, grid: Grid2D) -> StaticKind:
    """Return whether a given static is one value per row (or one in all), or a whole plane."""
    return "row" if value.ndim == 0 or (value.shape[-1] == 1 and grid.nx > 1) else "plane"


def trace(program: Program, grid: Grid2D, statics: Mapping[str, StaticKind]) -> Traced:
    """Trace a program; raises BackendError for an operator that has no fused form, saying why."""
    with on_real_tensors():  # a grid's numbers are read, also where a model is laid out with fake tensors
        return _Tracer(program, grid, statics).run()


class TracedGrid:
    """A grid whose arrays are symbols, as operator bodies see it while they are traced."""

    def __init__(self, tracer: _Tracer, grid: Grid2D) -> None:
        self._tracer = tracer
        bound = grid.bind(torch.float64, "cpu")
        for attribute in fields(BoundGrid):
            value = getattr(bound, attribute.name)
            setattr(self, attribute.name, self._symbol(attribute.name, value) if torch.is_tensor(value) else value)

    def _symbol(self, name: str, value: torch.Tensor) -> Sym | float:
        first = float(value.flatten()[0])
        if bool((value == first).all()):  # uniform: a number folds into the constants around it
            return first
        graph = self._tracer.graph
        if value.shape[-1] == 1:
            return Sym(graph, graph.row(self._tracer.row(RowInfo("grid", name))))
        return Sym(graph, graph.cell(self._tracer.result.array(ArrayInfo("grid", 0, name))))

    def surroundings(self, a: Sym, radius: int, odd: str | None) -> _Neighbours:
        """Neighbours of a traced quantity."""
        return _Neighbours(self._tracer, a, radius, odd)


class _Neighbours:
    def __init__(self, tracer: _Tracer, a: Sym, radius: int, odd: str | None) -> None:
        if radius > min(tracer.grid.ny, tracer.grid.nx):
            cells = f"{tracer.grid.ny} x {tracer.grid.nx} cells"
            raise GridError(f"a stencil of radius {radius} does not fit on {cells}")
        self._graph = tracer.graph
        self._radius = radius
        boundary = tracer.grid.boundary
        self._parity = a.parity
        turns = product(odd or "", a.parity)
        self._odd = "".join(axis for axis in turns if axis in boundary.walls)
        self._node = a.lift(a)
        if not tracer.is_plain(self._node) and (self._odd or not tracer.is_cheap(self._node)):
            self._node = tracer.store(self._node)

    def __getitem__(self, offset: tuple[int, int]) -> Sym:
        east, north = offset
        if max(abs(east), abs(north)) > self._radius:
            raise BackendError(f"the neighbour {offset} lies outside the radius {self._radius} asked for")
        leaves: dict[Node, Node] = {}
        for leaf in reachable([self._node]):
            if leaf.op == "cell":
                leaves[leaf] = self._graph.cell(leaf.data.array, east, north, self._odd)
            elif leaf.op == "row":
                leaves[leaf] = self._graph.row(leaf.data.row, leaf.data.north + north)
        return Sym(self._graph, self._graph.rebuild(self._node, leaves), self._parity)


class _Tracer:
    def __init__(self, program: Program, grid: Grid2D, statics: Mapping[str, StaticKind]) -> None:
        self.program = program
        self.grid = grid
        self.statics = statics
        self.graph = Graph()
        self.result = Traced(
            self.graph, grid.boundary, len(program.closures), len(program.coefficients), [], [], [], [], []
        )
        self.stage_of: dict[int, int] = {}  # intermediate array -> stage that stores it
        self.stored: dict[Node, Node] = {}  # computed node -> the read that replaces it
        self.symbolic_grid = TracedGrid(self, grid)

    def run(self) -> Traced:
        values: list[Any] = []
        for instruction in self.program.nodes:
            values.append(self.value(instruction, [values[i] for i in instruction.inputs]))
        last = len(self.result.stages)
        outputs = [self.as_read(self.node_of(values[i]), last) for i in self.program.outputs]
        self.result.outputs = as_differences(self.graph, outputs)
        for stage in self.result.stages:
            stage[:] = zip(
                [array for array, _ in stage], as_differences(self.graph, [node for _, node in stage]), strict=True
            )
        return self.result

    def node_of(self, value: Any) -> Node:
        return Sym(self.graph, self.graph.zero).lift(value)

    def row(self, info: RowInfo) -> int:
        if info not in self.result.rows:
            self.result.rows.append(info)
        return self.result.rows.index(info)

    def value(self, node: Instruction, inputs: list[Any]) -> Any:
        match node.kind:
            case "constant":
                return node.value
            case "sum":
                return reduce(add, inputs)
            case "product":
                return reduce(mul, inputs)
            case "quotient":
                return inputs[0] / inputs[1]
            case "call":
                return self.call(node, inputs)
        return Sym(self.graph, self.leaf(node))

    def leaf(self, node: Instruction) -> Node:
        match node.kind:
            case "field":
                return self.graph.cell(self.result.array(ArrayInfo("field", node.index, f"field {node.index}")))
            case "closure":
                return self.graph.cell(self.result.array(ArrayInfo("closure", node.index, f"closure {node.index}")))
            case "coefficient":
                return self.result.scalar(ScalarInfo("coefficient", node.index))
        kind = self.statics.get(node.name, "plane")
        if kind == "grid":
            return self.node_of(getattr(self.symbolic_grid, node.name))
        if kind == "row":
            return self.graph.row(self.row(RowInfo("static", node.name)))
        return self.graph.cell(self.result.array(ArrayInfo("static", 0, node.name)))

    def call(self, node: Instruction, inputs: list[Any]) -> Any:
        assert node.operator is not None
        if node.flips:
            inputs = [a.oriented(f) if isinstance(a, Sym) else a for a, f in zip(inputs, node.flips, strict=True)]
        try:
            result = node.operator.body(*inputs, grid=self.symbolic_grid, **dict(node.options))
            return result.oriented("") if isinstance(result, Sym) else result
        except (BackendError, TypeError, AttributeError, NotImplementedError) as problem:
            raise BackendError(
                f"operator '{node.operator.name}' has no fused form: {problem}", do="use backend 'inductor' or 'torch'"
            ) from problem

    # neighbours of computed quantities

    def is_plain(self, node: Node) -> bool:
        """Return whether the neighbours of a node are plain reads: a stored array, seen from its own cell."""
        return node.op == "cell" and node.data.east == 0 and node.data.north == 0

    def is_cheap(self, node: Node) -> bool:
        """Return whether a node is worth recomputing at each neighbour: few operations on one cell, or none at all."""
        parts = reachable([node])
        reads = [p.data for p in parts if p.op == "cell"]
        if any(read.east or read.north for read in reads) or any(p.op == "row" and p.data.north for p in parts):
            return False
        work = [p for p in parts if p.level == CELL and p.args]
        return len(work) <= INLINE_LIMIT and all(p.op in ("add", "mul") for p in work)

    def store(self, node: Node) -> Node:
        """Have a quantity stored by an earlier stage; return the read of it."""
        if node not in self.stored:
            reads = {p.data.array for p in reachable([node]) if p.op == "cell"}
            # What an earlier stage stores is read from there, even where the expression was built before.
            stage = max((self.stage_of[a] + 1 for a in reads if a in self.stage_of), default=0)
            while len(self.result.stages) <= stage:
                self.result.stages.append([])
            count = len(self.stage_of)
            array = self.result.array(ArrayInfo("stage", count, f"intermediate {count}"))
            self.stage_of[array] = stage
            self.result.stages[stage].append((array, self.as_read(node, stage)))
            self.stored[node] = self.graph.cell(array)
        return self.stored[node]

    def as_read(self, node: Node, stage: int) -> Node:
        """Return ``node`` with every part that an earlier stage has stored read from its array."""
        leaves = {
            n: read for n, read in self.stored.items() if self.stage_of[read.data.array] < stage and n.level == CELL
        }
        return self.graph.rebuild(node, leaves)
