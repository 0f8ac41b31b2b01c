"""Tracing for the fused backend: what a body may be written with, and what is said when it cannot be traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pde_ops as po
from fused_cases import inputs_of, made_of, noise, plane, worst_error
from pde_ops.backends.fused.runner import FusedRunner
from pde_ops.elementwise import absolute, cos, exp, log, maximum, minimum, positive_part, sin, sqrt, tanh, where
from pde_ops.stencils import around


def elementwise_body(a: Any, b: Any, *, grid: Any) -> Any:
    return (
        exp(0.3 * a) * log(1.5 + b * b)
        + sqrt(1.0 + a * a) * sin(b)
        - cos(a) * tanh(b)
        + absolute(a) * maximum(a, b)
        + minimum(a, 0.2) * positive_part(b)
        + where(a > b, a**2, b**3)
        + (1.2 + a * a) ** 0.2857
        + (1.0 + b * b) ** -1.5
        + 2.0 ** (0.5 * a)
    )


def torch_body(a: Any, b: Any, *, grid: Any) -> Any:
    x = torch.exp(0.3 * a) + torch.where(torch.gt(a, b), a, torch.mul(b, 2.0))
    x = x + torch.clamp(a, -0.5, 0.5) * torch.sigmoid(b) + torch.hypot(a, 1.0 + b * b)
    x = x + torch.maximum(a, b) * torch.relu(b) + torch.square(a) / (1.0 + torch.abs(b))
    x = x + torch.sqrt(1.0 + a * a) * torch.rsqrt(2.0 + b * b) - torch.tanh(a).pow(2)
    return x + a.clamp(min=0.1) * (b < 0.3) + torch.tensor(0.5, dtype=torch.float64) * a - torch.lerp(a, b, 0.25)


def mixed_body(a: Any, b: Any, *, grid: Any) -> Any:
    inside = (a > -1.0) & (b < 1.0) | ~(a < 0.5)
    return np.float64(1.5) * a * where(inside, b, -b) + 3 / (2.0 + b**2) - (1 - a) * (+b)


def test_bodies_in_elementwise_in_torch_and_in_plain_arithmetic_match_torch() -> None:
    program = made_of([elementwise_body, torch_body, mixed_body], fields=2)
    # rounding of float64 through functions that are all well conditioned on this range
    assert worst_error(program, plane(), noise(2, 3, 7, 11)) < 1e-12


def test_functions_in_float32_match_float64_to_single_precision() -> None:
    program = made_of([elementwise_body, torch_body, mixed_body], fields=2)
    state = noise(2, 3, 7, 11, dtype=torch.float32)
    assert worst_error(program, plane(), state) < 1e-5


def test_ties_take_the_derivative_of_the_baseline() -> None:
    def kinks(a: Any, b: Any, *, grid: Any) -> Any:
        return maximum(a, b) + 2.0 * minimum(a, b) + 3.0 * positive_part(a) + 5.0 * absolute(a) + torch.maximum(a, b)

    state = torch.zeros(1, 2, 4, 5, dtype=torch.float64)
    state[:, 1, :, 2:] = 1.0
    # a tie taken the other way is an error of order 1; the sum of weights is rounded differently
    assert worst_error(made_of([kinks, kinks], fields=2), plane(4, 5), state) < 1e-14


def reduction(a: Any, *, grid: Any) -> Any:
    return a - a.mean()


def unknown_function(a: Any, *, grid: Any) -> Any:
    return torch.special.bessel_j0(a)


def decision(a: Any, *, grid: Any) -> Any:
    return a if a > 0.0 else -a


def indexing(a: Any, *, grid: Any) -> Any:
    return a[..., 1:]


def foreign_array(a: Any, *, grid: Any) -> Any:
    return a * torch.ones(4, 5, dtype=torch.float64)


def too_far(a: Any, *, grid: Any) -> Any:
    return around(a, grid, 1)[2, 0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (reduction, "mean"),
        (unknown_function, "bessel_j0"),
        (decision, "where"),
        (indexing, "subscriptable"),
        (foreign_array, "shape"),
        (too_far, "radius"),
    ],
)
def test_an_operator_without_fused_form_is_named_with_the_reason(body: Any, reason: str) -> None:
    with pytest.raises(po.BackendError, match=rf"operator '{body.__name__}' has no fused form.*{reason}"):
        FusedRunner(made_of([body], fields=1), plane(4, 5))


def test_a_stencil_wider_than_the_grid_is_the_same_error_as_in_the_baseline() -> None:
    def wide(a: Any, *, grid: Any) -> Any:
        return around(a, grid, 9)[9, 0]

    with pytest.raises(po.GridError, match="radius 9 does not fit"):
        FusedRunner(made_of([wide], fields=1), plane(4, 5))


def test_constant_outputs_and_unused_fields_have_zero_derivatives() -> None:
    def constant(a: Any, b: Any, *, grid: Any) -> Any:
        return 2.5

    def first_only(a: Any, b: Any, *, grid: Any) -> Any:
        return a * 3.0

    program = made_of([constant, first_only], fields=2)
    state = noise(1, 2, 4, 5).requires_grad_()
    grid = plane(4, 5)
    result = FusedRunner(program, grid).tendency(inputs_of(grid, state))
    result.sum().backward()
    assert (result[:, 0] == 2.5).all()
    assert state.grad is not None
    assert (state.grad[:, 0] == 3.0).all() and (state.grad[:, 1] == 0.0).all()


def test_float32_functions_are_accurate_and_keep_special_values() -> None:
    functions = {"exp": exp, "log": log, "tanh": tanh}
    bodies = [lambda a, *, grid, f=f: f(a) for f in functions.values()]
    ordinary = torch.cat([torch.linspace(-80.0, 80.0, 4001), torch.logspace(-30, 30, 3999)])
    special = torch.tensor([0.0, -1.0, float("inf"), float("-inf"), float("nan"), 200.0, -200.0, 1e-3])
    grid = plane(8, 1001)
    state = torch.cat([ordinary, special]).view(1, 1, 8, 1001).expand(1, 3, -1, -1)
    got = FusedRunner(made_of(bodies, fields=1), grid).tendency(inputs_of(grid, state))[0].flatten(1)
    for row, name in zip(got, functions, strict=True):
        argument = state[0, 0].flatten()
        exact = getattr(torch, name)(argument.double())
        # beyond the range of normal float32 numbers the kernel gives 0 or infinity where torch has a last few values
        normal = torch.isfinite(exact) & (exact.abs() > 1.2e-38) & (exact.abs() < 1e38)
        error = (row.double() - exact).abs()[normal] / exact.abs()[normal]
        assert float(error.max()) < 2.5e-7  # two units in the last place
        expected = getattr(torch, name)(special)
        assert torch.equal(row[-8:-3].isnan(), expected[:5].isnan())
        torch.testing.assert_close(row[-8:], expected, equal_nan=True, rtol=2.5e-7, atol=1e-37)
