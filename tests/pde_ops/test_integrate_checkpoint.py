"""A checkpointed integration: the same numbers and gradients, for a fraction of the memory."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import pde_ops as po
from pde_ops.backends.fused.build import find_compiler
from pde_ops.integrators import Integrator
from pde_ops.ops import advection_upwind3, laplacian

u, c = po.Field("u", "m/s"), po.Field("c", "K")
S = po.Closure("S", "K/s")
kappa = po.Positive("kappa", "m**2/s", init=300.0)
SYSTEM = po.PDESystem("carried", {u: kappa * laplacian(u), c: kappa * laplacian(c) - advection_upwind3(c, u, u) + S})
GRID = po.Grid2D.plane(6, 7, dx=2e3, boundary="periodic")
STEPS = 11
BACKENDS = ["torch", pytest.param("fused", marks=pytest.mark.skipif(find_compiler() is None, reason="no C compiler"))]


def make_step(backend: str = "torch") -> Integrator:
    return po.integrators["heun"](SYSTEM.compile(GRID, backend=backend).double(), dt=60.0)


def start() -> Tensor:
    draw = torch.Generator().manual_seed(1)
    return (5.0 + torch.randn(1, 2, 6, 7, generator=draw, dtype=torch.float64)).requires_grad_()


def source() -> Tensor:
    return torch.full((1, 6, 7), 1e-3, dtype=torch.float64).requires_grad_()


def run(step: Any, x: Tensor, s: Tensor, **options: Any) -> Tensor:
    return po.integrate(step, x, STEPS, lambda number: {"S": s * math.cos(number)}, **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("checkpoint", "keep"), [(1, None), (3, 2), (4, 11), ("auto", None), (100, 5)])
def test_a_checkpointed_gradient_is_the_plain_one(backend: str, checkpoint: Any, keep: Any) -> None:
    step, x, s = make_step(backend), start(), source()
    raw = step.tendency.coefficients.raw
    results = [run(step, x, s, keep=keep, checkpoint=way) for way in (None, checkpoint)]
    assert torch.equal(*results)
    plain, again = (torch.autograd.grad(r.sin().sum(), [x, s, raw]) for r in results)
    assert keep is not None or torch.equal(plain[0], again[0])  # to the bit, unless states in between have seeds too
    for left, right in zip(plain, again, strict=True):  # sums over steps, grouped by stretch: round-off of a sum
        torch.testing.assert_close(left, right, rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_pass_through_a_checkpoint(backend: str) -> None:
    step, x, s = make_step(backend), start(), source()
    inputs, products = [x, s, step.tendency.coefficients.raw], []
    for way in (None, 3):
        first = torch.autograd.grad(run(step, x, s, checkpoint=way).pow(3).sum(), inputs, create_graph=True)
        products.append(torch.autograd.grad(sum(g.sin().sum() for g in first), inputs))
    for left, right in zip(*products, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-11, atol=1e-14)


def test_forward_derivatives_pass_through_a_checkpoint() -> None:
    step, x, s = make_step(), start().detach(), source().detach()
    slopes = [torch.func.jvp(lambda y, w=way: run(step, y, s, checkpoint=w), (x,), (x.cos(),))[1] for way in (None, 3)]
    assert torch.equal(*slopes)


def test_closures_that_come_once_and_frozen_parameters_are_taken() -> None:
    step, x, s = make_step(), start(), source()
    step.requires_grad_(False)
    results = [po.integrate(step, x, 5, {"S": s}, checkpoint=way) for way in (None, 2)]
    plain, again = (torch.autograd.grad(r.square().sum(), [x, s]) for r in results)
    assert torch.equal(plain[0], again[0])
    torch.testing.assert_close(plain[1], again[1], rtol=1e-13, atol=0.0)


def stored_bytes(steps: int, checkpoint: Any) -> int:
    """Bytes that a forward pass stores for its gradient, each memory once."""
    step, x = make_step(), start()
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = po.integrate(step, x, steps, {"S": source().detach()}, checkpoint=checkpoint)
    assert result.requires_grad
    return sum(sizes.values())


def test_stored_memory_grows_with_the_square_root_of_the_steps() -> None:
    state = start().nbytes
    plain, bounded = stored_bytes(64, None), stored_bytes(64, "auto")
    assert plain > 64 * 4 * state  # every operator of every step
    # Eight states, and the coefficients and closures that all share.
    assert bounded < 10 * state
    assert stored_bytes(256, "auto") < 2.2 * bounded


@pytest.mark.parametrize("length", [0, -2, 1.5, "sometimes", True])
def test_a_length_that_is_none_is_refused(length: Any) -> None:
    with pytest.raises(po.DeclarationError, match="checkpoint"):
        po.integrate(make_step(), start(), 3, {"S": source()}, checkpoint=length)


def test_no_steps_and_no_gradients_need_no_checkpoint() -> None:
    step, x = make_step(), start()
    assert torch.equal(po.integrate(step, x, 0, {"S": source()}, checkpoint="auto"), x)
    with torch.no_grad():
        states = run(step, x, source(), keep=4, checkpoint=3)
        assert torch.equal(states, run(step, x, source(), keep=4))
    assert states.shape == (3, 1, 2, 6, 7)


def test_a_divergence_is_named_behind_a_checkpoint() -> None:
    step = po.integrators["euler"](SYSTEM.compile(GRID).double(), dt=1e7)
    with pytest.raises(po.DivergedError, match="not finite after 60 steps"):
        po.integrate(step, start(), 60, {"S": source()}, checkpoint="auto")
