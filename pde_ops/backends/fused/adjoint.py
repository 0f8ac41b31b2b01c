"""Reverse differentiation on the graph.

Each output carries a seed, the derivative of the loss with respect to it. Going backwards through the nodes, every
node hands its seed on to its arguments; a leaf ends up with the derivative of the loss by *this cell's use* of it.
What a cell's use of a neighbour means for that neighbour is the business of :mod:`.plan`.

Kinks follow torch: a selection passes the seed to the branch taken, |x| has derivative 0 at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .ir import Graph, Node, reachable

__all__ = ["differentiate"]


def differentiate(
    graph: Graph, outputs: Sequence[tuple[Node, Node]], derivatives_needed: Callable[[Node], bool]
) -> dict[Node, Node]:
    """Return the derivative by each wanted leaf that the (output, seed) pairs depend on."""
    order = reachable([node for node, _ in outputs])
    active: set[Node] = set()
    for node in order:
        if (not node.args and derivatives_needed(node)) or any(a in active for a in node.args):
            active.add(node)
    seeds: dict[Node, Node] = {}
    for node, seed in outputs:
        seeds[node] = graph.add(seeds.get(node, graph.zero), seed)
    for node in reversed(order):
        if node.args and node in active and node in seeds:
            for argument, share in _shares(graph, node, seeds[node]):
                if argument in active:
                    seeds[argument] = graph.add(seeds.get(argument, graph.zero), share)
    return {node: seeds[node] for node in order if not node.args and node in active and node in seeds}


def _shares(g: Graph, node: Node, seed: Node) -> Iterator[tuple[Node, Node]]:
    """Return what a node hands to each of its arguments."""
    a = node.args[0]
    match node.op:
        case "add":
            yield a, seed
            yield node.args[1], seed
        case "mul":
            yield a, g.mul(seed, node.args[1])
            yield node.args[1], g.mul(seed, a)
        case "recip":
            yield a, g.neg(g.mul(g.mul(seed, node), node))
        case "select":
            yield node.args[1], g.select(a, seed, g.zero)
            yield node.args[2], g.select(a, g.zero, seed)
        case "exp":
            yield a, g.mul(seed, node)
        case "log":
            slow, fast = g.split(a)
            if fast.op == "recip":  # d ln(s/x) = ds/s - dx/x, without going through 1/x and back
                yield slow, g.div(seed, slow)
                yield fast.args[0], g.neg(g.mul(seed, fast))
            else:
                yield a, g.div(seed, a)
        case "sqrt":
            yield a, g.mul(g.const(0.5), g.div(seed, node))
        case "sin":
            yield a, g.mul(seed, g.function("cos", a))
        case "cos":
            yield a, g.neg(g.mul(seed, g.function("sin", a)))
        case "tanh":
            yield a, g.mul(seed, g.sub(g.one, g.mul(node, node)))
        case "abs":
            below = g.select(g.compare("lt", a, g.zero), g.neg(seed), g.zero)
            yield a, g.select(g.compare("lt", g.zero, a), seed, below)
