"""Several Euler steps in one call: to the last bit the steps one after the other, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pde_ops as po
from pde_ops import March, stability
from pde_ops.backends.fused.marching import samples_side_by_side
from pde_ops.errors import DeclarationError
from pde_ops.ops import advection, friction, laplacian, saturation_humidity

T, q, u = po.Field("T", "K"), po.Field("q", "kg/kg"), po.Field("u", "m/s")
S_T, rate, v = po.Closure("S_T", "K/s"), po.Closure("rate", "1/s"), po.Closure("v", "m/s")
GRID = po.Grid2D.from_latlon(np.linspace(40.0, 45.0, 7), np.linspace(0.0, 8.0, 9))
DT = 300.0


def system() -> po.PDESystem:
    """A closure that is only added, one that multiplies, one that carries, and coefficients."""
    kappa, r = po.Positive("kappa", "km**2/hour", init=300.0), po.Positive("r", "1/day", init=2.0)
    p = 9e4 * po.units.registry.pascal
    return po.PDESystem("air", {
        T: -advection(T, u, v) + kappa * laplacian(T) + S_T,
        q: -advection(q, u, v) - rate * (q - saturation_humidity(T, p)),
        u: -advection(u, u, v) - friction(u, r),
    })  # fmt: skip


def leaves(dtype: torch.dtype = torch.float64, batch: int = 2) -> dict[str, Tensor]:
    drawn = torch.Generator().manual_seed(5)
    noise = lambda *shape: torch.randn(*shape, 7, 9, generator=drawn, dtype=torch.float64)
    size = torch.tensor([4.0, 2e-3, 5.0])[:, None, None].double()
    found = {
        "state": torch.tensor([288.0, 8e-3, 1.0])[:, None, None].double() + size * noise(batch, 3),
        "S_T": 1e-4 * noise(batch), "rate": 1e-4 * noise(batch).abs(), "v": 4.0 * noise(batch),
        "added": 1e-2 * size * noise(batch, 3), "factor": torch.tensor([0.9, 0.5, 1.0]),
        "decay": 1e-2 * noise(batch, 3),
    }  # fmt: skip
    return {name: value.to(dtype).requires_grad_() for name, value in found.items()}


def one_by_one(tendency: Any, given: dict[str, Tensor], march: March) -> Tensor:
    state, closures = given["state"], {name: given[name] for name in ("S_T", "rate", "v")}
    before = state
    for step in range(1, march.steps + 1):
        state = tendency.advance(state, closures, march.dt, march.factor)
        if step % march.every == 0:
            added = 0.0 if march.added is None else march.added
            before = state = state + (added if march.decay is None else added - march.decay * before)
    return state


def compiled(backend: str, dtype: torch.dtype = torch.float64) -> Any:
    return system().compile(GRID, backend=backend).to(dtype)


def gradients(result: Tensor, given: dict[str, Tensor], tendency: Any) -> dict[str, Tensor]:
    weights = torch.linspace(-1.0, 1.0, result.numel(), dtype=result.dtype).reshape(result.shape)
    weights = weights / torch.tensor([4.0, 2e-3, 5.0], dtype=result.dtype)[:, None, None]
    wanted = {**given, "raw": tendency.coefficients.raw}
    found = torch.autograd.grad((result * weights).sum(), list(wanted.values()), allow_unused=True)
    return {name: g for name, g in zip(wanted, found, strict=True) if g is not None}


@pytest.mark.parametrize("backend", ["torch", "fused", "auto"])
@pytest.mark.parametrize(
    ("steps", "every", "adds"), [(1, 1, False), (6, 1, False), (6, 3, True), (4, 1, True), (5, 2, True)]
)
def test_a_march_is_its_steps_to_the_last_bit_with_their_gradients(backend, steps, every, adds):
    tendency, given = compiled(backend), leaves()
    march = March(DT, steps, given["factor"], given["added"] if adds else None, every)
    closures = {name: given[name] for name in ("S_T", "rate", "v")}
    result, expected = tendency.march(given["state"], closures, march), one_by_one(tendency, given, march)
    assert torch.equal(result, expected)
    found, wanted = gradients(result, given, tendency), gradients(expected, given, tendency)
    assert set(found) == set(wanted) and ("added" in found) == adds
    for name in wanted:
        # Sums of the same numbers in another order, double precision.
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-10, atol=1e-12 * float(wanted[name].abs().max()))


def test_nothing_is_recorded_that_nobody_asks_for():
    tendency, given = compiled("fused", torch.float32), leaves(torch.float32)
    march = March(DT, 4, None, given["added"], 2)
    closures = {name: given[name] for name in ("S_T", "rate", "v")}
    with torch.no_grad():
        quiet = tendency.march(given["state"], closures, march)
    assert not quiet.requires_grad and torch.equal(quiet, tendency.march(given["state"], closures, march))
    assert torch.equal(given["state"], leaves(torch.float32)["state"])


def test_only_what_is_added_may_want_a_gradient():
    tendency, given = compiled("fused"), leaves()
    tendency.requires_grad_(False)
    still = {name: value.detach() for name, value in given.items()}
    closures = {name: still[name] for name in ("S_T", "rate", "v")}
    result = tendency.march(still["state"], closures, March(DT, 2, None, given["added"], 2))
    (by_added,) = torch.autograd.grad(result.sum(), [given["added"]])
    assert torch.equal(by_added, torch.ones_like(by_added))


def test_a_march_of_the_step_without_a_rule_is_that_step_again_and_again():
    made = system()
    limits = stability.limits(GRID, 1800.0, max_wind=60.0, system=made)
    tendency = made.compile(GRID, backend="fused", limits=limits).double()
    step = po.integrators["range_scaled_euler"](tendency, dt=1800.0, rule="none")
    given = leaves()
    closures = {name: given[name] for name in ("S_T", "rate", "v")}
    state = given["state"]
    for _ in range(3):
        state = step(state, closures) + given["added"]
    assert step.substeps > 1 and torch.equal(step.march(given["state"], closures, 3, given["added"]), state)
    with pytest.raises(DeclarationError, match="every step"):
        po.integrators["range_scaled_euler"](tendency, dt=1800.0).march(state, closures, 2)


@pytest.mark.parametrize("backend", ["torch", "fused"])
@pytest.mark.parametrize(("batch", "steps", "every"), [(2, 6, 3), (1, 5, 2), (8, 4, 1), (6, 7, 3), (4, 1, 1)])
@pytest.mark.parametrize("adds", [True, False])
def test_what_decays_in_a_march_decays_with_the_state_its_steps_began_with(backend, batch, steps, every, adds):
    tendency, given = compiled(backend), leaves(batch=batch)
    march = March(DT, steps, given["factor"], given["added"] if adds else None, every, given["decay"])
    closures = {name: given[name] for name in ("S_T", "rate", "v")}
    result, expected = tendency.march(given["state"], closures, march), one_by_one(tendency, given, march)
    with torch.no_grad():
        assert torch.equal(result, tendency.march(given["state"], closures, march))
    # A fused multiply-add rounds once where torch rounds twice.
    torch.testing.assert_close(result, expected, rtol=1e-14, atol=0.0)
    found, wanted = gradients(result, given, tendency), gradients(expected, given, tendency)
    assert set(found) == set(wanted) >= {"decay", "state"}
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-10, atol=1e-12 * float(wanted[name].abs().max()))


@pytest.mark.parametrize("border", ["zero_gradient", "periodic", "reflecting"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_side_by_side_do_not_see_each_other(border, dtype):
    """A batch of eight narrow fields runs as one of long rows, and gives to the last bit what each gives alone."""
    grid = po.Grid2D.from_latlon(np.linspace(40.0, 45.0, 7), np.linspace(0.0, 8.0, 9), boundary=border)
    tendency, given = system().compile(grid, backend="fused").to(dtype), leaves(dtype, batch=8)
    names = ("S_T", "rate", "v")
    weights = torch.linspace(-1.0, 1.0, given["state"].numel(), dtype=dtype).reshape(given["state"].shape)
    assert samples_side_by_side(8, 9) == 8

    def run(samples: slice) -> tuple[Tensor, ...]:
        mine = {name: given[name][samples] for name in (*names, "state", "added", "decay")}
        march = March(DT, 4, given["factor"], mine["added"], 2, mine["decay"])
        result = tendency.march(mine["state"], {name: mine[name] for name in names}, march)
        sources = [given[name] for name in (*names, "state", "added", "decay")]
        return result, *(g[samples] for g in torch.autograd.grad((result * weights[samples]).sum(), sources))

    together = run(slice(None))
    for k in (0, 3, 7):
        alone = run(slice(k, k + 1))
        assert torch.equal(together[0][k : k + 1], alone[0])
        for whole, own in zip(together[1:], alone[1:], strict=True):
            # Ends of rows are added up one by one, the rest in vectors, which fuse other products with the sums.
            rounding = 64 * torch.finfo(dtype).eps * float(own.abs().max())
            torch.testing.assert_close(whole[k : k + 1], own, rtol=0.0, atol=rounding)


def test_samples_go_side_by_side_where_rows_are_short_and_the_batch_divides():
    assert [samples_side_by_side(8, nx) for nx in (9, 21, 37, 64, 128, 300)] == [8, 8, 4, 2, 1, 1]
    assert [samples_side_by_side(batch, 21) for batch in (1, 2, 6, 7, 12, 32)] == [1, 2, 2, 1, 4, 8]


@pytest.mark.slow
def test_a_march_of_numba_is_that_of_torch(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("PDE_OPS_FUSED", "numba")
    results = []
    for backend in ("torch", "fused"):
        tendency, given = compiled(backend), leaves()
        march = March(DT, 5, given["factor"], given["added"], 2, given["decay"])
        result = tendency.march(given["state"], {name: given[name] for name in ("S_T", "rate", "v")}, march)
        results.append((result.detach(), gradients(result, given, tendency)))
    (expected, wanted), (result, found) = results
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=0.0)
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-9, atol=1e-11 * float(wanted[name].abs().max()))
