"""Ghost cells of the fused backend: every border, parity and radius, forwards and backwards."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fused_cases import made_of, noise, plane, sphere, worst_error
from pde_ops.elementwise import absolute, exp, where
from pde_ops.stencils import around

KINDS = ("zero_gradient", "periodic", "reflecting")
# Nonlinear on purpose, and different for every neighbour, so that a derivative that lands in a wrong cell shows.
OFFSETS = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)]


def everything(odd: str | None, radius: int) -> Any:
    def body(a: Any, b: Any, *, grid: Any) -> Any:
        n, m = around(a, grid, radius, odd=odd), around(b, grid, radius)
        total = a * b
        for weight, (i, j) in enumerate(OFFSETS, start=1):
            there = n[radius * i, radius * j]
            total = total + 0.1 * weight * there * m[radius * i, 0] + 0.01 * weight * there * there * a
        return total

    return body


@pytest.mark.parametrize("boundary", list(product(KINDS, KINDS)))
def test_neighbours_of_every_parity_and_radius_match_torch(boundary: tuple[str, str]) -> None:
    bodies = [everything(odd, radius) for odd in (None, "x", "y") for radius in (1, 2)]
    program = made_of(bodies, fields=2)
    grid = sphere(ny=5, nx=9, boundary=boundary)
    # rounding of float64; a misplaced ghost cell is an error of order 0.1
    assert worst_error(program, grid, noise(2, len(bodies), 5, 9, seed=3)) < 1e-12


@pytest.mark.parametrize("boundary", KINDS)
def test_a_radius_as_large_as_the_grid_matches_torch(boundary: str) -> None:
    def far(a: Any, *, grid: Any) -> Any:
        n = around(a, grid, 4, odd="x")
        return n[4, 0] * a + n[-3, 2] * n[0, -4]

    assert worst_error(made_of([far], fields=1), plane(4, 5, boundary), noise(1, 1, 4, 5)) < 1e-12


@pytest.mark.parametrize("boundary", [("reflecting", "periodic"), ("zero_gradient", "reflecting")])
def test_neighbours_of_computed_quantities_have_their_own_ghosts(boundary: tuple[str, str]) -> None:
    def curvature_of_curvature(a: Any, b: Any, *, grid: Any) -> Any:
        n = around(a, grid)
        inner = n[1, 0] + n[-1, 0] + n[0, 1] + n[0, -1] - 4.0 * a
        m = around(inner, grid)
        return m[1, 0] * b + m[-1, 0] + m[0, 1] * inner + m[0, -1]

    def odd_expression(a: Any, b: Any, *, grid: Any) -> Any:
        n = around(exp(0.3 * a) * b, grid, 2, odd="x")
        return n[2, 1] - n[-1, -2] + absolute(n[1, 0]) * a

    def cheap_expression(a: Any, b: Any, *, grid: Any) -> Any:
        n = around(2.0 * a * b, grid)
        return n[1, 0] - n[0, -1] * a

    def third_level(a: Any, b: Any, *, grid: Any) -> Any:
        first = around(exp(0.1 * b), grid)[1, 0] * a
        second = around(first, grid)[0, 1] + b
        return around(where(second > 0.0, second, 0.5 * second), grid)[-1, -1] * second

    program = made_of([curvature_of_curvature, odd_expression, cheap_expression, third_level], fields=2)
    assert worst_error(program, sphere(6, 10, boundary), noise(2, 4, 6, 10)) < 1e-12


def test_values_per_row_have_neighbours_too() -> None:
    def metric(a: Any, b: Any, *, grid: Any) -> Any:
        n, dx = around(a, grid), around(grid.dx, grid, odd="y")
        return (n[0, 1] * dx[0, 1] - n[0, -1] * dx[0, -1] + b * dx[1, 0]) / grid.dx

    for boundary in KINDS:
        assert worst_error(made_of([metric, metric], fields=2), sphere(5, 8, boundary), noise(1, 2, 5, 8)) < 1e-12
