"""The graph of the fused backend: simplification keeps values, and reverse differentiation agrees with torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pde_ops.backends.fused.adjoint import differentiate
from pde_ops.backends.fused.ir import CELL, ROW, SCALAR, Graph, Node, reachable
from pde_ops.backends.fused.tidy import as_differences, tidied

CELLS, ROWS, SCALARS = 3, 2, 2

_TORCH: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "mul": torch.mul,
    "recip": torch.reciprocal,
    "lt": torch.lt,
    "le": torch.le,
    "eq": torch.eq,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "not": torch.logical_not,
    "select": torch.where,
    **{name: getattr(torch, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "abs")},
}


def value_of(roots: list[Node], leaves: dict[Node, Tensor]) -> list[Tensor]:
    """Interpret nodes with torch."""
    values: dict[Node, Tensor] = {}
    for node in reachable(roots):
        if node in leaves:
            values[node] = leaves[node]
        elif node.op in ("const", "truth"):
            values[node] = torch.tensor(node.data, dtype=torch.bool if node.op == "truth" else torch.float64)
        else:
            values[node] = _TORCH[node.op](*(values[a] for a in node.args))
    return [values[root] for root in roots]


def leaves_of(graph: Graph, seed: int) -> dict[Node, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    nodes = [graph.scalar(k) for k in range(SCALARS)] + [graph.row(k) for k in range(ROWS)]
    nodes += [graph.cell(k) for k in range(CELLS)]
    return {node: torch.rand((), generator=draw, dtype=torch.float64) * 2.0 - 0.7 for node in nodes}


@st.composite
def recipes(draw: st.DrawFn) -> list[tuple[str, int, int, int]]:
    """Operations on earlier values, by position from the end."""
    names = ["add", "sub", "mul", "div", "select", "exp", "log", "sqrt", "tanh", "abs", "sin", "neg", "square", "const"]
    places = st.integers(1, 8)
    return draw(st.lists(st.tuples(st.sampled_from(names), places, places, places), min_size=1, max_size=14))


def build(graph: Graph, leaves: dict[Node, Tensor], recipe: list[tuple[str, int, int, int]]) -> tuple[Node, Tensor]:
    """Follow a recipe twice: on the graph, and directly in torch, without any simplification.

    Divisors and arguments are kept away from singular points so that a comparison of derivatives means something.
    """
    made: list[tuple[Node, Tensor]] = list(leaves.items())
    g = graph
    for name, i, j, k in recipe:
        (a, x), (b, y), (c, z) = (made[-min(n, len(made))] for n in (i, j, k))
        one = g.one
        match name:
            case "add":
                new = g.add(a, b), x + y
            case "sub":
                new = g.sub(a, b), x - y
            case "mul":
                new = g.mul(a, b), x * y
            case "neg":
                new = g.neg(a), -x
            case "square":
                new = g.power(a, 2.0), x**2
            case "div":
                new = g.div(a, g.add(one, g.mul(b, b))), x / (1.0 + y * y)
            case "select":
                new = g.select(g.compare("lt", a, b), c, a), torch.where(x < y, z, x)
            case "exp" | "tanh" | "sin" | "abs":
                bounded = g.function("tanh", a), torch.tanh(x)
                new = g.function(name, bounded[0]), getattr(torch, name)(bounded[1])
            case "log" | "sqrt":
                positive = g.add(one, g.mul(a, a)), 1.0 + x * x
                new = g.function(name, positive[0]), getattr(torch, name)(positive[1])
            case _:
                new = g.const(i - 2.0), torch.tensor(i - 2.0, dtype=torch.float64)
        made.append(new)
    return made[-1]


@given(recipes(), st.integers(0, 1000))
def test_simplified_graphs_and_their_derivatives_agree_with_torch(recipe: list[Any], seed: int) -> None:
    graph = Graph()
    leaves = leaves_of(graph, seed)
    for tensor in leaves.values():
        tensor.requires_grad_()
    node, expected = build(graph, leaves, recipe)
    seeds = graph.cell(CELLS)
    gradients = differentiate(graph, [(node, seeds)], lambda leaf: leaf in leaves)
    values = {**leaves, seeds: torch.tensor(1.0, dtype=torch.float64)}
    got, *slopes = value_of([node, *gradients.values()], values)
    wanted = torch.autograd.grad(expected, list(leaves.values()), allow_unused=True) if expected.requires_grad else ()
    # 1e-9: a dozen operations may cancel or grow, round-off in float64 stays far below
    scale = max(1.0, float(expected.detach().abs()))
    assert abs(float(got.detach()) - float(expected.detach())) <= 1e-9 * scale
    for leaf, slope in zip(leaves, wanted, strict=False):
        mine = dict(zip(gradients, slopes, strict=True)).get(leaf)
        expected_slope = 0.0 if slope is None else float(slope)
        assert (0.0 if mine is None else float(mine.detach())) == pytest.approx(expected_slope, rel=1e-7, abs=1e-7)


@given(recipes(), st.integers(0, 1000))
def test_tidying_keeps_values(recipe: list[Any], seed: int) -> None:
    graph = Graph()
    leaves = leaves_of(graph, seed)
    node, expected = build(graph, leaves, recipe)
    after = tidied(graph, as_differences(graph, [node]))
    got = value_of(after, leaves)[0]
    assert float(got) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


def test_equal_values_are_one_node() -> None:
    g = Graph()
    a, b = g.cell(0), g.cell(1, east=1)
    assert g.add(a, b) is g.add(b, a)
    assert g.sub(g.mul(a, b), g.mul(b, a)) is g.zero
    assert g.neg(g.neg(a)) is a
    assert g.add(a, a) is g.mul(g.const(2.0), a)


def test_what_does_not_change_along_a_row_is_gathered_in_front() -> None:
    g = Graph()
    kappa, dx, a, b = g.scalar(0), g.row(0), g.cell(0), g.cell(1)
    product = g.mul(g.div(g.mul(kappa, a), dx), b)
    slow, fast = g.split(product)
    assert slow.level == ROW and fast is g.mul(a, b)
    assert g.mul(kappa, g.const(3.0)).level == SCALAR
    assert fast.level == CELL


def test_division_by_a_row_value_leaves_no_division_in_the_cell() -> None:
    g = Graph()
    quotient = g.div(g.cell(0), g.row(0))
    assert not any(n.op == "recip" and n.level == CELL for n in reachable([quotient]))


def test_a_stencil_with_cancelling_weights_becomes_differences() -> None:
    g = Graph()
    a, east, west = g.cell(0), g.cell(0, east=1), g.cell(0, east=-1)
    second = g.add(g.sub(east, g.mul(g.const(2.0), a)), west)
    (rewritten,) = as_differences(g, [second])
    assert rewritten is g.sub(g.sub(east, a), g.sub(a, west))


def test_powers_with_small_exponents_need_no_logarithm() -> None:
    g = Graph()
    for exponent in (2, 3, -2, 0.5, 1.5, 0):
        assert not any(n.op in ("log", "exp") for n in reachable([g.power(g.cell(0), exponent)]))
    assert any(n.op == "log" for n in reachable([g.power(g.cell(0), 0.2857)]))


def test_folding_leaves_singular_points_to_run_time() -> None:
    g = Graph()
    assert g.function("log", g.const(-1.0)).op == "log"
    assert g.recip(g.zero).data == math.inf
