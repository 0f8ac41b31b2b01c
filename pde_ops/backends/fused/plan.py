"""Loops over cells: what each pass over the grid reads, computes and writes.

Forward, a stage is one sweep: each cell reads its neighbours and stores its outputs.

Backward, a cell knows the derivative by *its use* of each neighbour. Two ways lead from there to the derivative by
the neighbour itself: let every cell collect from the cells that used it (gather), recomputing their derivatives, or
compute each derivative once and carry it over. This plan carries: per row the derivatives go to small buffers that
stay in the nearest cache, and are then added, shifted, to the rows they belong to. Compared with gathering it

* evaluates only cells of the domain: no work for ghost cells (a quarter of it on a 32 x 48 grid), and nothing is
  ever multiplied by a zero seed outside, where 0 times an infinite slope would be NaN;
* costs one store and one load per neighbour whatever the operator, so expensive slopes need no special case;
* folds borders at the moment of adding: a ghost's share goes to the cell the ghost stands for, with its sign.

Every row of the result is owned by one task, and rows are cut the same way for any number of threads, so results do
not depend on it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .adjoint import differentiate
from .ir import CELL, CellRead, Graph, Node, reachable
from .schedule import TRANSCENDENTAL
from .tidy import tidied
from .trace import ArrayInfo, Traced

__all__ = [
    "AdjointPlan",
    "Carry",
    "Kernel",
    "Seeded",
    "Store",
    "Sum",
    "Sweep",
    "Tap",
    "View",
    "backward_kernel",
    "forward_kernel",
    "values_to_save",
    "wanted_kinds",
]


@dataclass(frozen=True, slots=True)
class View:
    """An array read at neighbours, with the parity of its ghost cells."""

    array: int
    odd: str


@dataclass(frozen=True, slots=True)
class Store:
    """Write (or add) a value to an array, in the cell itself."""

    array: int
    node: Node
    accumulate: bool


@dataclass(frozen=True, slots=True)
class Tap:
    """Derivative carried ``east`` columns away: buffer times a slow coefficient."""

    east: int
    buffer: int
    coefficient: Node


@dataclass(frozen=True, slots=True)
class Carry:
    """Derivatives by one view that belong to the row ``north`` of the cell; the view's array is the gradient's.

    ``here`` is added in the inner loop, for the column of the cell itself; ``taps`` are added from buffers.
    """

    view: View
    north: int
    here: Node | None
    taps: tuple[Tap, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """Derivative by a scalar (a coefficient or factor): ``slow * sum of fast`` over the cells of a row.

    `binding.Launch` says where the rows are added up.
    """

    slot: int
    slow: Node
    fast: Node


@dataclass(slots=True)
class Sweep:
    """One pass over all cells."""

    stores: list[Store] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    buffers: list[Node] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    cleared: list[int] = field(default_factory=list)  # arrays set to zero before anything is added
    seeds: tuple[int, ...] = ()  # arrays of the derivatives that an adjoint sweep starts from

    @property
    def roots(self) -> list[Node]:
        """Everything the inner loop must compute, in the order in which it is written."""
        direct = [c.here for c in self.carries if c.here is not None]
        return [*self.buffers, *direct, *(s.node for s in self.stores), *(s.fast for s in self.sums)]

    @property
    def slow(self) -> list[Node]:
        """Coefficients that are used outside the inner loop."""
        return [*(t.coefficient for c in self.carries for t in c.taps), *(s.slow for s in self.sums)]

    def tidy(self, graph: Graph) -> Sweep:
        """Bring the expressions of the inner loop into the form in which they are computed."""
        fresh = iter(tidied(graph, self.roots, self.seeds))
        self.buffers = [next(fresh) for _ in self.buffers]
        self.carries = [c if c.here is None else replace(c, here=next(fresh)) for c in self.carries]
        self.stores = [replace(s, node=next(fresh)) for s in self.stores]
        self.sums = [replace(s, fast=next(fresh)) for s in self.sums]
        return self

    def reads(self) -> list[CellRead]:
        """Reads of stored arrays."""
        return [n.data for n in reachable(self.roots) if n.op == "cell"]

    def views(self) -> list[View]:
        """Return arrays that need neighbours, each with its parity."""
        return list(dict.fromkeys(View(r.array, r.odd) for r in self.reads() if r.east or r.north))

    def radius(self) -> tuple[int, int]:
        """Return how far east-west and north-south neighbours are read."""
        reads = self.reads()
        return max((abs(r.east) for r in reads), default=0), max((abs(r.north) for r in reads), default=0)

    def reach(self) -> int:
        """Return how far east-west derivatives are carried."""
        return max((abs(t.east) for c in self.carries for t in c.taps), default=0)


@dataclass(slots=True)
class Kernel:
    """Sweeps in order, and the tables they share."""

    traced: Traced
    sweeps: list[Sweep]
    saved: int = 0  # number of values that the forward kernel leaves for its adjoint
    derivatives: int = 0  # number of scalars to differentiate by: coefficients, then factors if they are wanted

    def arrays(self) -> list[int]:
        """Return arrays read or written, in a fixed order."""
        used: set[int] = set()
        for sweep in self.sweeps:
            used |= {read.array for read in sweep.reads()} | {s.array for s in sweep.stores}
            used |= {c.view.array for c in sweep.carries}
        return sorted(used)

    def slow_nodes(self) -> list[Node]:
        """Return values needed in or beside the inner loops that change at most once a row, numbers apart."""
        row_values: dict[Node, None] = {}
        for sweep in self.sweeps:
            parts = reachable(sweep.roots)
            used = [a for n in parts if n.level == CELL for a in n.args] + sweep.roots + sweep.slow
            row_values.update((n, None) for n in used if n.level < CELL and n.op not in ("const", "truth"))
        return list(row_values)

    @property
    def seeded(self) -> bool:
        """Whether this is an adjoint."""
        return any(sweep.seeds for sweep in self.sweeps)

    def summed_slots(self) -> list[int]:
        """Scalars whose derivative is summed."""
        return sorted({s.slot for sweep in self.sweeps for s in sweep.sums})


Seeded = Sequence[tuple[Node, ArrayInfo]]
"""Outputs of the last stage, each with the array that holds the derivative of the loss by it."""


def forward_kernel(traced: Traced, outputs: Sequence[Node], saved: Sequence[Node] = ()) -> Kernel:
    """Stages of a traced program, the last of which writes ``outputs``; ``saved`` values are stored on the way."""
    sweeps = [Sweep(stores=[Store(array, node, False) for array, node in stage]) for stage in traced.stages]
    last = [Store(traced.array(ArrayInfo("output", k, f"output {k}")), node, False) for k, node in enumerate(outputs)]
    sweeps.append(Sweep(stores=last))
    for k, node in enumerate(saved):
        first = next(sweep for sweep in sweeps if node in reachable(sweep.roots))
        first.stores.append(Store(_saved_array(traced, k), node, False))
    return Kernel(traced, [sweep.tidy(traced.graph) for sweep in sweeps], len(saved))


def values_to_save(traced: Traced, outputs: Sequence[Node], seeded: Seeded) -> tuple[list[Node], tuple[int, ...]]:
    """Return what the way back needs beside the state: computed values, and positions of closures.

    The values are transcendental functions that it would have to compute again, a quarter of its work; reading them
    costs next to nothing. A program with more of them than fields gets none: the memory they would hold until then is
    worth more. A closure that is only added, as most are, is not read again and can go.
    """
    roots = [*outputs, *(node for stage in traced.stages for _, node in stage)]
    heavy = {node for node in reachable(roots) if node.level == CELL and node.op in TRANSCENDENTAL}
    builder = AdjointPlan(traced, wanted_kinds(True, True, (True,) * traced.closures), {})
    for pairs in builder.pairs(seeded):
        builder.sweep(pairs)
    needed = [node for node in reachable(builder.values, leaves=heavy) if node in heavy]
    reads = [traced.arrays[node.data.array] for node in reachable(builder.values) if node.op == "cell"]
    closures = tuple(sorted({info.index for info in reads if info.kind == "closure"}))
    return needed if len(needed) <= len(traced.outputs) else [], closures


def backward_kernel(traced: Traced, seeded: Seeded, wants: frozenset[str], saved: Sequence[Node] = ()) -> Kernel:
    """Adjoint of :func:`forward_kernel`.

    Parameters
    ----------
    wants : what derivatives are asked for beside those by the state, as `wanted_kinds` names it
    saved : values that the forward kernel has stored
    """
    reads = {node: traced.graph.cell(_saved_array(traced, k)) for k, node in enumerate(saved)}
    builder = AdjointPlan(traced, wants, reads)
    sweeps = [builder.sweep(pairs) for pairs in builder.pairs(seeded)]
    derivatives = traced.coefficients + (len(traced.outputs) if "factor" in wants else 0)
    return Kernel(traced, [sweep.tidy(traced.graph) for sweep in sweeps], len(saved), derivatives)


@functools.lru_cache(maxsize=64)
def wanted_kinds(coefficients: bool, factors: bool, closures: tuple[bool, ...]) -> frozenset[str]:
    """Name what derivatives are asked for: by ``coefficient``, by ``factor``, by ``closure 0``, ``closure 1``, …"""
    scalars = ["coefficient"] * coefficients + ["factor"] * factors
    return frozenset([*scalars, *(f"closure {k}" for k, want in enumerate(closures) if want)])


def _saved_array(traced: Traced, k: int) -> int:
    return traced.array(ArrayInfo("saved", k, f"saved {k}"))


class AdjointPlan:
    """What is to be differentiated, sweep by sweep, and what has been touched on the way."""

    def __init__(self, traced: Traced, wants: frozenset[str], saved: dict[Node, Node]) -> None:
        self.traced = traced
        self.graph = traced.graph
        self.wants = wants
        self.saved = saved
        self.values: list[Node] = []  # every derivative, for those who ask what they are made of
        # Arrays whose gradient has been written to. Those of closures come in as zeros or as sums of other steps.
        self.touched = {k for k, info in enumerate(traced.arrays) if info.kind == "closure"}

    def pairs(self, seeded: Seeded) -> Iterator[list[tuple[Node, Node]]]:
        """Expressions and seeds of each sweep, last stage first; later ones need what earlier ones have touched."""
        yield [(node, self.graph.cell(self.traced.array(seed))) for node, seed in seeded]
        for stage in reversed(self.traced.stages):
            yield [(node, self.graph.cell(self.gradient(array))) for array, node in stage if array in self.touched]

    def gradient(self, array: int) -> int:
        info = self.traced.arrays[array]
        return self.traced.array(ArrayInfo(f"gradient {info.kind}", info.index, f"gradient of {info.name}"))

    def wanted(self, leaf: Node) -> bool:
        if leaf.op == "cell":
            info = self.traced.arrays[leaf.data.array]
            return info.kind in ("field", "stage") or f"{info.kind} {info.index}" in self.wants
        return leaf.op == "scalar" and self.traced.scalars[leaf.data].kind in self.wants

    def sweep(self, pairs: list[tuple[Node, Node]]) -> Sweep:
        sweep = Sweep(seeds=tuple(dict.fromkeys(seed.data.array for _, seed in pairs)))
        rows: dict[tuple[View, int], dict[int, Node]] = {}
        derivatives = differentiate(self.graph, pairs, self.wanted)
        if self.saved:
            stored = dict(self.saved)
            derivatives = {leaf: self.graph.rebuild(node, stored) for leaf, node in derivatives.items()}
        self.values += derivatives.values()
        homes = self.home_parity(derivatives)
        for leaf, node in derivatives.items():
            if leaf.op == "scalar":
                sweep.sums.append(Sum(leaf.data, *self.graph.split(node)))
                continue
            read = leaf.data
            here = read.east == 0 and read.north == 0
            view = View(read.array, homes.get(read.array, "") if here else read.odd)
            rows.setdefault((view, read.north), {})[read.east] = node
        neighbours = {view.array for view, north in rows if north} | {
            view.array for (view, _), taps in rows.items() if any(taps)
        }
        for (view, north), taps in rows.items():
            array = self.gradient(view.array)
            if view.array not in neighbours:
                sweep.stores.append(Store(array, taps[0], view.array in self.touched))
            else:
                sweep.carries.append(self.carry(sweep, View(array, view.odd), north, taps))
        sweep.cleared = [self.gradient(a) for a in sorted(neighbours - self.touched)]
        self.touched |= {view.array for view, _ in rows}
        _share_buffers(self.graph.one, sweep)
        return sweep

    def home_parity(self, derivatives: dict[Node, Node]) -> dict[int, str]:
        """Parity under which a cell's own value is booked: that of a neighbour read, to need one row less."""
        reads = [leaf.data for leaf in derivatives if leaf.op == "cell"]
        return {r.array: r.odd for r in reversed(reads) if r.east or r.north}

    def carry(self, sweep: Sweep, view: View, north: int, taps: dict[int, Node]) -> Carry:
        if set(taps) == {0}:
            return Carry(view, north, taps[0], ())
        first = len(sweep.buffers)
        sweep.buffers += taps.values()
        return Carry(view, north, None, tuple(Tap(e, first + i, self.graph.one) for i, e in enumerate(taps)))


def _share_buffers(one: Node, sweep: Sweep) -> None:
    """Let taps that differ by a slow factor only use one buffer."""

    def split(node: Node) -> tuple[Node, Node]:
        slow_first = node.op == "mul" and node.args[0].level < CELL
        return (node.args[0], node.args[1]) if slow_first else (one, node)

    uses = Counter(split(node)[1] for node in sweep.buffers)
    slots: dict[Node, int] = {}
    renamed: list[tuple[int, Node]] = []
    for node in sweep.buffers:
        slow, fast = split(node)
        sign = slow.op == "const" and abs(slow.data) == 1.0
        if uses[fast] < 2 and not sign:
            slow, fast = one, node
        renamed.append((slots.setdefault(fast, len(slots)), slow))
    sweep.buffers = list(slots)
    sweep.carries = [replace(c, taps=tuple(Tap(t.east, *renamed[t.buffer]) for t in c.taps)) for c in sweep.carries]
