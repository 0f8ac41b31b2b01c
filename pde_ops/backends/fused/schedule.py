"""Cut a long loop body into several loops that each fit the processor.

The derivative of five equations is one loop body of several hundred operations. Done in one piece it runs out of
registers: a third of the instructions would move values to memory and back. So it is done equation by equation:
everything that belongs to one output, or backwards to one seed, makes a loop, small neighbours are joined, and what
crosses from one loop to the next (a sum over equations, say) goes through a short buffer, unless it is quicker to
compute again.

Transcendental functions get loops of their own: an exponential of a logarithm of an exponential is one long chain of
dependent instructions, and only in a short loop can the processor overlap the chains of several cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass

from .ir import CELL, Node, reachable

__all__ = ["Loop", "loops", "node_ranks"]

TRANSCENDENTAL = ("exp", "log", "tanh", "sin", "cos")
CONDITIONS = ("lt", "le", "eq", "and", "or", "not")
COMFORTABLE = 48  # operations of a loop beyond which registers run short
PER_LOOP = 6.0  # cost of a loop of its own, in operations
PER_SPILL = 0.7  # cost of each operation beyond the comfortable number


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop over the cells of a chunk.

    Attributes
    ----------
    keeps : values that later loops need
    writes : positions of the outputs that it computes
    """

    keeps: tuple[Node, ...]
    writes: tuple[int, ...]


def loops(roots: Sequence[Node], seeds: Sequence[int]) -> list[Loop]:
    """Divide the computation of the outputs of one sweep; ``seeds`` are the arrays that a backward one starts from."""
    depths = _transcendental_depths(roots)
    passes = max(depths.values(), default=0)
    rank = {node: passes + equation for node, equation in node_ranks(roots, seeds).items()}
    rank |= {node: depth - 1 for node, depth in depths.items()}
    order = reachable(roots)
    for node in reversed(order):
        for argument in node.args:
            if rank[node] < passes:
                rank[argument] = min(rank[argument], rank[node])
    parts = [node for node in order if node.level == CELL]
    last_use: dict[Node, int] = {}
    for node in parts:
        for argument in node.args:
            last_use[argument] = max(last_use.get(argument, 0), rank[node])
    for node in reversed(parts):
        if node.op in CONDITIONS:  # a mask is no number to keep: its operands are kept and it is compared again
            for argument in node.args:
                last_use[argument] = max(last_use.get(argument, 0), last_use.get(node, 0))
    lasting = [n for n in parts if last_use.get(n, 0) > rank[n] and n.op not in CONDITIONS]
    crossing = [n for n in lasting if n in depths or not _is_cheap(n, depths)]
    work = Counter(rank[n] - passes for n in parts if n.args)
    spans = [(rank[n] - passes, last_use[n] - passes) for n in crossing]
    cuts = _cuts(max(rank.values(), default=0) + 1 - passes, work, spans)
    result = []
    for start, stop in [*((d, d + 1) for d in range(passes)), *((a + passes, b + passes) for a, b in cuts)]:
        keeps = tuple(n for n in crossing if start <= rank[n] < stop <= last_use[n])
        writes = tuple(i for i, root in enumerate(roots) if start <= rank[root] < stop)
        if keeps or writes:
            result.append(Loop(keeps, writes))
    return result


def node_ranks(roots: Sequence[Node], seeds: Sequence[int]) -> dict[Node, int]:
    """Return the number of the equation with which each node is computed.

    Backwards every node that carries a seed goes with the last of its seeds, forwards every output is its own
    equation. What is left, the values that an equation needs, goes with the first equation that needs it.
    """
    order = reachable(roots)
    place = {array: k for k, array in enumerate(reversed(seeds))}
    ranks: dict[Node, int] = {}
    for node in order:
        rank = place.get(node.data.array, -1) if node.op == "cell" else -1
        ranks[node] = max((ranks[a] for a in node.args), default=rank)
    if not seeds:
        for k, root in reversed(list(enumerate(roots))):
            ranks[root] = k
    free = {node for node in order if ranks[node] < 0 or not seeds}
    for node in reversed(order):
        for argument in node.args:
            if argument in free and not 0 <= ranks[argument] <= ranks[node]:
                ranks[argument] = ranks[node]
    return {node: max(rank, 0) for node, rank in ranks.items()}


def _transcendental_depths(roots: Sequence[Node]) -> dict[Node, int]:
    """Transcendental functions, each with the number of them on the longest way to it, itself included."""
    depth: dict[Node, int] = {}
    for node in reachable(roots):
        heavy = node.level == CELL and node.op in TRANSCENDENTAL
        depth[node] = max((depth[a] for a in node.args), default=0) + heavy
    return {node: d for node, d in depth.items() if node.level == CELL and node.op in TRANSCENDENTAL}


def _is_cheap(node: Node, computed: Container[Node]) -> bool:
    """Return whether a value is computed again rather than kept: a read, or one operation on reads."""
    reads = [a for a in node.args if a.level == CELL]
    return not node.args or node in computed or all(not a.args or a in computed for a in reads)


def _cuts(count: int, work: Counter[int], spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Best division of ranks 0..count-1 into loops, by dynamic programming."""
    best = [0.0] + [float("inf")] * count
    before = [0] * (count + 1)
    for stop in range(1, count + 1):
        # Each value that crosses the cut is stored once, and read again by about one later loop.
        crossing = 0.0 if stop == count else 2.0 * sum(created < stop <= used for created, used in spans)
        for start in range(stop):
            size = sum(work[r] for r in range(start, stop))
            cost = best[start] + PER_LOOP + crossing + PER_SPILL * max(0, size - COMFORTABLE)
            if cost < best[stop]:
                best[stop], before[stop] = cost, start
    cuts: list[tuple[int, int]] = []
    stop = count
    while stop > 0:
        cuts.append((before[stop], stop))
        stop = before[stop]
    return cuts[::-1]
