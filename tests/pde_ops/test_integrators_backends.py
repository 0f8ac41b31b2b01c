"""Every integrator gives the same on every CPU backend, forward and backward."""

from __future__ import annotations

import pytest
import torch

import pde_ops as po
from pde_ops.ops import advection, condensation, coriolis, friction, laplacian

u, v, q = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("q", "kg/kg")
f, Q = po.Static("f", "1/s"), po.Closure("Q", "kg/kg")
r, lam = po.Positive("r", "1/day", init=1.7), po.Positive("lam", "1/hour", init=1.0)
kappa = po.Positive("kappa", "m**2/s", init=1e3)
MOVING = {a: -advection(a, u, v) + kappa * laplacian(a) for a in (u, v, q)}
SYSTEM = po.PDESystem(
    "moist wind",
    {
        u: MOVING[u] + coriolis(v, f) - friction(u, r),
        v: MOVING[v] - coriolis(u, f) - friction(v, r),
        q: MOVING[q] - condensation(q, Q, lam),
    },
)
GRID = po.Grid2D.from_latlon([40.0 + 0.25 * i for i in range(9)], [10.0 + 0.25 * i for i in range(11)])
LIMITS = po.stability.limits(GRID, 900.0, max_wind=30.0)
CASES = {
    "euler": ({}, {}),
    "heun": ({}, {}),
    "ssprk3": ({}, {}),
    "rk4": ({}, {}),
    "strang": ({"exact_flows": True}, {}),
    "lie": ({"exact_flows": True}, {}),
    "semi_lagrangian": ({"semi_lagrangian": True}, {}),
    "range_scaled_euler/range": ({}, {"rule": "range"}),
    "range_scaled_euler/limiter": ({}, {"rule": "limiter"}),
    "range_scaled_euler/none": ({"limits": LIMITS}, {"rule": "none"}),
    "range_scaled_euler/weathergft": ({}, {"rule": "weathergft"}),
}
SIZE = torch.tensor([1.0, 1.0, 1e-3], dtype=torch.float64)[:, None, None]


def advanced(case, backend):
    """State after a step, and the gradients of a weighted sum of it by state, closure and parameters."""
    how, options = CASES[case]
    try:
        tendency = SYSTEM.compile(GRID, backend=backend, **how)
    except po.BackendError as problem:
        pytest.skip(str(problem))
    step = po.integrators[case.partition("/")[0]](tendency, 900.0, **options).double()
    draw = torch.Generator().manual_seed(0)
    state = torch.randn(2, 3, 9, 11, generator=draw, dtype=torch.float64)
    state = ((state + torch.tensor([5.0, -3.0, 8.0]).double()[:, None, None]) * SIZE).requires_grad_()
    closure = (8e-3 + 1e-3 * torch.randn(2, 9, 11, generator=draw, dtype=torch.float64)).requires_grad_()
    after = step(state, {"Q": closure}) / SIZE
    weights = torch.randn(after.shape, generator=draw, dtype=torch.float64)
    inputs = [state, closure, *step.parameters()]
    gradients = torch.autograd.grad((after * weights).sum(), inputs, allow_unused=True, materialize_grads=True)
    return after.detach(), [state.detach() / SIZE, *gradients]


@pytest.mark.parametrize("backend", ["fused", "auto"])
@pytest.mark.parametrize("case", list(CASES))
def test_a_step_and_its_gradient_are_those_of_the_torch_baseline(case, backend):
    after, gradients = advanced(case, backend)
    expected, expected_gradients = advanced(case, "torch")
    # float64 on both sides; the order of additions differs
    torch.testing.assert_close(after, expected, rtol=1e-10, atol=1e-10)
    for got, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-9 * float(wanted.abs().max()))


def test_a_scaled_step_runs_in_the_backend_when_that_offers_it():
    for backend in ("fused", "auto"):
        try:
            tendency = SYSTEM.compile(GRID, backend=backend)
        except po.BackendError as problem:
            pytest.skip(str(problem))
        assert callable(tendency.runner.scaled_advance)
