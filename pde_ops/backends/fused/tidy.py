"""Rewrite expressions into forms that round less and cost less; values stay the same up to rounding.

* A stencil such as :math:`a_E - 2a + a_W`, whose weights add up to zero, becomes a sum of differences to the cell
  itself. Differences of neighbours are nearly exact in floating point while a sum of three pressures of 1e5 Pa loses
  five digits, and the differences are usually there already, for the upwind scheme.
* In a weighted sum inside a weighted sum the outer weight is multiplied into the inner ones, outside the loop.
* ``slow * (a * b)`` becomes ``(slow * a) * b`` where several terms share ``slow * a``: one wind, many tracers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .ir import CELL, LITERAL, Graph, Node, reachable
from .schedule import node_ranks

__all__ = ["as_differences", "tidied"]

MAX_STENCIL = 256  # nodes of a sum that are looked through


def as_differences(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return the nodes with every stencil whose weights cancel written as differences to the cell."""
    done: dict[Node, Node] = {}
    for node in reachable(roots):
        args = tuple(done[a] for a in node.args)
        done[node] = _differences(graph, node, done) if node.op == "add" else graph.again(node, args)
    return [done[node] for node in roots]


def _differences(graph: Graph, node: Node, done: dict[Node, Node]) -> Node:
    weights = _literal_terms(node)
    by_array: dict[int, list[Node]] = {}
    for atom in weights:
        if atom.op == "cell":
            by_array.setdefault(atom.data.array, []).append(atom)
    total = graph.zero
    joined: set[Node] = set()
    for array, atoms in by_array.items():
        here = graph.cell(array)
        if here not in atoms or len(atoms) < 3 or sum(weights[a] for a in atoms) != 0.0:
            continue
        joined.update(atoms)
        for atom in atoms:
            if atom is not here:
                total = graph.add(total, graph.mul(graph.const(weights[atom]), _difference(graph, atom, here)))
    if not joined:
        return graph.add(*(done[a] for a in node.args))
    for atom, weight in weights.items():
        if atom not in joined:
            total = graph.add(total, graph.mul(graph.const(weight), done.get(atom, atom)))
    return total


def _difference(graph: Graph, there: Node, here: Node) -> Node:
    """Return ``there - here``, as (east or north) minus (west or south), the form that upwind schemes use."""
    ahead = (there.data.north, there.data.east) > (0, 0)
    return graph.sub(there, here) if ahead else graph.neg(graph.sub(here, there))


def _literal_terms(node: Node) -> dict[Node, float]:
    """Terms of a sum whose weights are numbers; nothing if it is too long to be a stencil."""
    weights: dict[Node, float] = {}
    stack = [(node, 1.0)]
    for _ in range(MAX_STENCIL):
        if not stack:
            return weights
        term, weight = stack.pop()
        if term.op == "add":
            stack += [(argument, weight) for argument in reversed(term.args)]
        elif term.op == "mul" and term.args[0].op == "const" and term.args[1].level == CELL:
            stack.append((term.args[1], weight * term.args[0].data))
        else:
            weights[term] = weights.get(term, 0.0) + weight
    return {}


def tidied(graph: Graph, roots: Sequence[Node], seeds: Sequence[int] = ()) -> list[Node]:
    """Return the nodes of one sweep in the form in which they are computed; sums follow the order of the ``seeds``."""
    return _share_products(graph, _Weights(graph, roots, seeds).run())


def _is_unit(node: Node) -> bool:
    return node.op == "const" and abs(node.data) == 1.0


def _uses(roots: Sequence[Node]) -> Counter[Node]:
    uses = Counter(a for n in reachable(roots) for a in n.args)
    uses.update(roots)
    return uses


class _Weights:
    """Multiply outer weights into inner sums."""

    def __init__(self, graph: Graph, roots: Sequence[Node], seeds: Sequence[int]) -> None:
        self.graph = graph
        self.roots = roots
        self.uses = _uses(roots)
        self.rank = node_ranks(roots, seeds)
        self.done: dict[Node, Node] = {}

    def run(self) -> list[Node]:
        for node in reachable(self.roots):
            self.done[node] = self.again(node) if node.level == CELL and node.args else node
        return [self.done[node] for node in self.roots]

    def again(self, node: Node) -> Node:
        slow, fast = self.graph.split(node)
        if node.op == "add" or (fast.op == "add" and self.opens(fast, slow)):
            weights: dict[Node, Node] = {}
            for argument in fast.args:
                self.collect(argument, slow, weights)
            return self.chain(weights)
        return self.graph.raw(node.op, *(self.done[a] for a in node.args))

    def opens(self, total: Node, weight: Node) -> bool:
        """Return whether a weight goes into a sum at no cost: the sum has no other use, every term a weight already."""
        if self.uses[total] != 1 or total.level != CELL:
            return False
        terms = [self.graph.split(term)[0] for term in self.terms(total)]
        # A sum with numbers for weights is a difference: taking it apart would lose what makes it exact.
        if all(slow.level == LITERAL for slow in terms):
            return False
        return _is_unit(weight) or not any(_is_unit(slow) for slow in terms)

    def terms(self, total: Node) -> list[Node]:
        terms: list[Node] = []
        for argument in total.args:
            nested = argument.op == "add" and self.opens(argument, self.graph.one)
            terms += self.terms(argument) if nested else [argument]
        return terms

    def collect(self, term: Node, weight: Node, weights: dict[Node, Node]) -> None:
        slow, fast = self.graph.split(term) if term.level == CELL else (self.graph.one, term)
        weight = self.graph.mul(weight, slow)
        if fast.op == "add" and self.opens(fast, weight):
            for argument in fast.args:
                self.collect(argument, weight, weights)
            return
        if fast.level < CELL:
            weight, fast = self.graph.mul(weight, fast), self.graph.one
        weights[fast] = self.graph.add(weights.get(fast, self.graph.zero), weight)

    def chain(self, weights: dict[Node, Node]) -> Node:
        """Add up in the order in which terms become known, at the end what has no weight: a large value comes last."""
        graph = self.graph

        def place(item: tuple[Node, Node]) -> tuple[bool, int]:
            fast, weight = item
            return _is_unit(weight) or fast is graph.one, self.rank.get(fast, 0)

        total: Node | None = None
        for fast, weight in sorted(weights.items(), key=place):
            if weight is graph.zero:
                continue
            fast = self.done.get(fast, fast)
            one = weight is graph.one
            term = weight if fast is graph.one else fast if one else graph.raw("mul", weight, fast)
            total = term if total is None else graph.raw("add", total, term)
        return graph.zero if total is None else total


def _share_products(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Take ``slow * fast`` out of products of three where it occurs more than once."""
    uses = _uses(roots)

    def factors(node: Node) -> tuple[Node, ...]:
        """Return the fast factors of ``slow * (a * b)``."""
        if node.op != "mul" or node.args[0].level >= CELL or _is_unit(node.args[0]):
            return ()
        inner = node.args[1]
        return inner.args if inner.op == "mul" and inner.args[0].level == CELL and uses[inner] == 1 else ()

    order = reachable(roots)
    pairs = Counter((node.args[0], factor) for node in order for factor in set(factors(node)))
    done: dict[Node, Node] = {}
    for node in order:
        if node.level < CELL or not node.args:
            done[node] = node
            continue
        slow = node.args[0]
        shared, other = sorted(factors(node), key=lambda f: -pairs[slow, f]) or (None, None)
        if shared is None or other is None or pairs[slow, shared] < 2:
            done[node] = graph.raw(node.op, *(done[a] for a in node.args))
        else:
            done[node] = graph.raw("mul", graph.raw("mul", slow, done[shared]), done[other])
    return [done[node] for node in roots]
