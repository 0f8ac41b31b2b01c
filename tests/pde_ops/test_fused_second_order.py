"""Derivatives beyond the generated adjoint: second ones, forward ones, many at once, and what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import pde_ops as po
from fused_cases import noise, plane
from pde_ops.backends import March
from pde_ops.backends.fused.build import find_compiler
from pde_ops.backends.inductor import InductorRunner
from pde_ops.ops import laplacian

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")

c, S = po.Field("c", "K"), po.Closure("S", "K/s")
DT = 0.05


def compiled(backend: str) -> po.Tendency:
    k, r = po.Positive("k", "m**2/s", init=0.7), po.Positive("r", "1/K/s", init=0.3)
    system = po.PDESystem("reaction", {c: k * laplacian(c) - r * c * c + S * S * po.Positive("w", "s/K", init=1.0)})
    return system.compile(plane(4, 5), backend=backend).double()


def advanced(side: po.Tendency, x: Tensor, s: Tensor, factor: Tensor) -> Tensor:
    return side.advance(side.advance(x, {"S": s}, DT, factor), {"S": s}, DT, factor)


def marched(side: po.Tendency, x: Tensor, s: Tensor, factor: Tensor) -> Tensor:
    return side.march(x, {"S": s}, March(DT, 3, factor, 0.1 * x.sin(), every=2))


def rate(side: po.Tendency, x: Tensor, s: Tensor, factor: Tensor) -> Tensor:
    return side(x, {"S": s}) * factor[:, None, None]


def scaled(rule: Any) -> Callable[..., Tensor]:
    def run(side: po.Tendency, x: Tensor, s: Tensor, factor: Tensor) -> Tensor:
        step = po.integrators["range_scaled_euler"](side, DT, rule=rule, rho=0.02)
        result: Tensor = torch.func.functional_call(step, {"gamma": factor}, (x, {"S": s}))
        return result

    return run


def decaying(side: po.Tendency, x: Tensor, s: Tensor, factor: Tensor) -> Tensor:
    return side.march(x, {"S": s}, March(DT, 3, factor, 0.1 * x.sin(), 2, 0.2 * x.cos() * s[:, None]))


WAYS = {
    "rate": rate, "advance": advanced, "march": marched, "decay": decaying,
    "range": scaled("range"), "limiter": scaled("limiter"),
}  # fmt: skip


def leaves() -> list[Tensor]:
    tensors = [noise(2, 1, 4, 5), noise(2, 4, 5, seed=1), torch.tensor([0.9], dtype=torch.float64)]
    return [t.requires_grad_() for t in tensors]


def cost(side: po.Tendency, way: Callable[..., Tensor], x: Tensor, s: Tensor, factor: Tensor) -> Tensor:
    """Return a cost with a background term, as in data assimilation; the closure also depends on the state."""
    return way(side, x, s + 0.1 * x[:, 0] ** 2, factor).pow(3).sum() + 0.5 * x.pow(2).sum()


def on_state(side: po.Tendency, way: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    s, factor = (t.detach() for t in leaves()[1:])
    return lambda x: way(side, x, s, factor)


def second_derivatives(backend: str, way: Callable[..., Tensor]) -> list[Tensor]:
    side, tensors = compiled(backend), leaves()
    sources = [*tensors, side.coefficients.raw]
    first = torch.autograd.grad(cost(side, way, *tensors), sources, create_graph=True)
    total = sum(((g * noise(*g.shape, seed=9)).sum() for g in first), torch.zeros(()))
    return [*first, *torch.autograd.grad(total, sources)]


@pytest.mark.parametrize("name", WAYS)
def test_second_derivatives_are_those_of_torch(name: str) -> None:
    expected, got = (second_derivatives(backend, WAYS[name]) for backend in ("torch", "fused"))
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_a_hessian_and_a_third_derivative_are_those_of_torch() -> None:
    results = []
    for side in (compiled("torch"), compiled("fused")):
        x, s, factor = leaves()
        hessian = torch.autograd.functional.hessian(partial(cost, side, advanced), tuple(leaves()))
        value = cost(side, marched, x, s, factor)
        for _ in range(3):
            (slope,) = torch.autograd.grad(value, x, create_graph=True)
            value = slope.pow(2).sum()
        results.append((hessian, slope))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)


def test_a_tendency_without_derivative_has_none_of_second_order_either() -> None:
    side = po.PDESystem("still", {c: po.Closure("S", "K/s")}).compile(plane(4, 5), backend="fused").double()
    x = noise(1, 1, 4, 5).requires_grad_()
    (slope,) = torch.autograd.grad((side(x, {"S": noise(1, 4, 5)}) * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x, allow_unused=True, materialize_grads=True)
    assert float(second.abs().max()) == 0.0


def by_jvp(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.jvp(f, (x,), (x.cos(),))[1]


def by_dual_numbers(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with forward_ad.dual_level(), torch.no_grad():
        tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, x.cos()))).tangent
    assert tangent is not None
    return tangent


def by_vmap(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.vmap(f)(torch.stack([x, x.cos(), x.sin()]))


def by_other_vmap(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.vmap(lambda weight: weight * f(x))(torch.arange(3.0, dtype=x.dtype))


def by_grad(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.grad(lambda y: f(y).pow(2).sum())(x)


def by_hessian_vectors(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.jvp(torch.func.grad(lambda y: f(y).pow(3).sum()), (x,), (x.cos(),))[1]


def by_vectorised_jacobian(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    jacobian: Tensor = torch.autograd.functional.jacobian(lambda y: f(y)[:, :, :2].sum(0), x, vectorize=True)
    return jacobian


def by_batched_gradients(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    y = x.detach().requires_grad_()
    result = f(y)
    seeds = torch.stack([torch.ones_like(result), result.detach().cos()])
    return torch.autograd.grad(result, y, seeds, is_grads_batched=True)[0]


def by_vmap_of_gradients(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    y = x.detach().requires_grad_()
    result = f(y)
    seeds = torch.stack([torch.ones_like(result), result.detach().cos()])
    return torch.func.vmap(lambda seed: torch.autograd.grad(result, y, seed, retain_graph=True)[0])(seeds)


TRANSFORMS = (
    by_jvp, by_dual_numbers, by_vmap, by_other_vmap, by_grad, by_hessian_vectors, by_vectorised_jacobian,
    by_batched_gradients, by_vmap_of_gradients,
)  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("backend", ["fused", "auto"])
def test_a_transform_as_first_call_is_right_and_leaves_plain_calls_as_they_were(transform: Any, backend: str) -> None:
    x, s, factor = (t.detach() for t in leaves())
    for name, way in WAYS.items():
        baseline, side = compiled("torch"), compiled(backend)  # a grid of its own each: nothing is bound yet
        expected, got = (transform(on_state(f, way), x) for f in (baseline, side))
        torch.testing.assert_close(expected, got, rtol=1e-9, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")
        plain = way(side, x, s, factor)
        torch.testing.assert_close(way(baseline, x, s, factor), plain, rtol=1e-10, atol=1e-12)
        y = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(way(side, y, s, factor).sum(), y)
        assert torch.isfinite(slope).all()


@pytest.mark.parametrize("transform", [by_jvp, by_vmap, by_hessian_vectors])
def test_a_transform_passes_by_torch_compile(transform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InductorRunner, "_function", lambda *_: pytest.fail("compiled under a transform"))
    x = leaves()[0].detach()
    for way in (rate, advanced):
        expected, got = (transform(on_state(compiled(b), way), x) for b in ("torch", "inductor"))
        torch.testing.assert_close(expected, got)


def test_a_grid_bound_under_a_transform_stays_usable() -> None:
    grid = plane(4, 5)
    x = noise(4, 5)
    torch.func.jvp(lambda y: y * grid.bind(torch.float64, "cpu").dx, (x,), (x,))
    assert grid.bind(torch.float64, "cpu").dx.data_ptr() != 0
