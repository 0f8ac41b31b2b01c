r"""Adjoint sweeps in which every cell collects its own derivative.

A cell :math:`c'` knows the derivative :math:`D_t(c')` by *its use* of the neighbour :math:`c' + t`. The derivative by
cell :math:`c` is the sum of :math:`D_t(c')` over all pairs with :math:`\mathrm{source}(c' + t) = c`, where ``source``
is the border map:

* the *direct* one, :math:`c' = c - t`, if that lies in the domain. All of them make one expression, in which reads are
  shifted by :math:`-t`; the graph shares what several of them need;
* *images*, cells near a border whose neighbour is a ghost that stands for :math:`c`, with the sign that a wall gives.
  They are few, and computed by the programs at the border alone.

No program writes what another one writes, so nothing depends on the order in which they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..fused.adjoint import differentiate
from ..fused.ir import CellRead, Graph, Node, reachable
from ..fused.plan import AdjointPlan, Seeded, Store, Sum, forward_kernel
from ..fused.tidy import tidied
from ..fused.trace import Traced

__all__ = ["GatherKernel", "GatherSweep", "Tap", "gathered_adjoint", "gathered_forward"]


@dataclass(frozen=True, slots=True)
class Tap:
    """Derivatives by the use of the neighbour ``east`` and ``north``: (array of the gradient, walls, expression)."""

    east: int
    north: int
    shares: tuple[tuple[int, str, Node], ...]


@dataclass(slots=True)
class GatherSweep:
    """One kernel: what each cell stores, what its images add to that, and what is summed over all cells."""

    stores: list[Store]
    taps: list[Tap] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    seeds: tuple[int, ...] = ()

    def tidy(self, graph: Graph) -> GatherSweep:
        """Bring the expressions into the form in which they are computed."""
        roots = [*(s.node for s in self.stores), *(s.fast for s in self.sums)]
        fresh = iter(tidied(graph, roots, self.seeds))
        self.stores = [Store(s.array, next(fresh), s.accumulate) for s in self.stores]
        self.sums = [Sum(s.slot, s.slow, next(fresh)) for s in self.sums]
        self.taps = [self._tidy_tap(graph, tap) for tap in self.taps]
        return self

    def _tidy_tap(self, graph: Graph, tap: Tap) -> Tap:
        nodes = tidied(graph, [node for *_, node in tap.shares], self.seeds)
        shares = zip(tap.shares, nodes, strict=True)
        return Tap(tap.east, tap.north, tuple((array, odd, node) for (array, odd, _), node in shares))

    def roots(self) -> list[Node]:
        """Return everything that is computed."""
        direct = [*(s.node for s in self.stores), *(s.fast for s in self.sums), *(s.slow for s in self.sums)]
        return [*direct, *(node for tap in self.taps for *_, node in tap.shares)]

    def reads(self) -> list[CellRead]:
        """Reads of stored arrays, by the direct part and the images."""
        return [n.data for n in reachable(self.roots()) if n.op == "cell"]


@dataclass(slots=True)
class GatherKernel:
    """Sweeps in order; ``derivatives`` counts the scalars to differentiate by."""

    traced: Traced
    sweeps: list[GatherSweep]
    seeded: bool = False
    derivatives: int = 0

    def arrays(self) -> list[int]:
        """Return arrays read or written, in a fixed order."""
        used = {read.array for sweep in self.sweeps for read in sweep.reads()}
        return sorted(used | {s.array for sweep in self.sweeps for s in sweep.stores})

    def summed_slots(self) -> list[int]:
        """Scalars whose derivative is summed."""
        return sorted({s.slot for sweep in self.sweeps for s in sweep.sums})


def gathered_forward(traced: Traced, outputs: Sequence[Node]) -> GatherKernel:
    """Stages of a traced program, the last of which writes ``outputs``."""
    kernel = forward_kernel(traced, outputs)
    return GatherKernel(traced, [GatherSweep(sweep.stores) for sweep in kernel.sweeps])


def gathered_adjoint(traced: Traced, seeded: Seeded, wants: frozenset[str]) -> GatherKernel:
    """Adjoint of `gathered_forward`; ``wants`` as :func:`~pde_ops.backends.fused.plan.wanted_kinds` names it."""
    plan = _Gathering(traced, wants)
    # A stage of what nobody differentiates by, metric terms say, has no way back.
    gathered = [plan.gather(pairs) for pairs in plan.pairs(seeded)]
    sweeps = [sweep.tidy(traced.graph) for sweep in gathered if sweep.stores or sweep.sums]
    derivatives = traced.coefficients + (len(traced.outputs) if "factor" in wants else 0)
    return GatherKernel(traced, sweeps, True, derivatives)


class _Gathering(AdjointPlan):
    def __init__(self, traced: Traced, wants: frozenset[str]) -> None:
        super().__init__(traced, wants, {})
        self.touched = set()

    def gather(self, pairs: list[tuple[Node, Node]]) -> GatherSweep:
        graph = self.graph
        sweep = GatherSweep([], seeds=tuple(dict.fromkeys(seed.data.array for _, seed in pairs)))
        totals: dict[int, Node] = {}
        taps: dict[tuple[int, int], list[tuple[int, str, Node]]] = {}
        shifted: dict[tuple[int, int], dict[Node, Node]] = {}
        for leaf, node in differentiate(graph, pairs, self.wanted).items():
            if leaf.op == "scalar":
                sweep.sums.append(Sum(leaf.data, *graph.split(node)))
                continue
            read = leaf.data
            step = (read.east, read.north)
            direct = self.direct(node, step, shifted.setdefault(step, {}))
            totals[read.array] = graph.add(totals.get(read.array, graph.zero), direct)
            if any(step):
                taps.setdefault(step, []).append((self.gradient(read.array), read.odd, node))
        sweep.stores = [Store(self.gradient(a), node, a in self.touched) for a, node in totals.items()]
        sweep.taps = [Tap(*step, tuple(shares)) for step, shares in taps.items()]
        self.touched |= totals.keys()
        return sweep

    def direct(self, node: Node, step: tuple[int, int], memo: dict[Node, Node]) -> Node:
        """Return the derivative at the cell whose neighbour this one is, zero where there is no such cell."""
        if not any(step):
            return node
        graph, boundary = self.graph, self.traced.boundary
        for leaf in reachable([node], stop=memo):
            if leaf.op == "cell":
                r = leaf.data
                memo[leaf] = graph.cell(r.array, r.east - step[0], r.north - step[1], r.odd)
            elif leaf.op == "row":
                memo[leaf] = graph.row(leaf.data.row, leaf.data.north - step[1])
        there = graph.rebuild(node, memo)
        east = 0 if boundary.x == "periodic" else -step[0]
        north = 0 if boundary.y == "periodic" else -step[1]
        return graph.select(graph.inside(east, north), there, graph.zero) if east or north else there
