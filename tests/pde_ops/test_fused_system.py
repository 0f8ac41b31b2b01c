"""The fused backend on a whole surface system: parity with torch, threads, layouts, NaN, and its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import pde_ops as po
from fused_cases import inputs_of, made_of, noise, plane, relative, worst_error
from pde_ops.backends import Inputs
from pde_ops.backends.eager import EagerRunner
from pde_ops.backends.fused.runner import FusedRunner
from pde_ops.integrators.scaling import scaled
from pde_ops.ops import (
    advection,
    condensation,
    coriolis,
    diffusion,
    friction,
    hyperdiffusion,
    laplacian,
    saturation_humidity,
    temperature,
)
from pde_ops.stencils import around

u, v, p = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("p", "Pa")
theta, q = po.Field("theta", "K"), po.Field("q", "kg/kg")
S_p, S_theta, S_q = po.Closure("S_p", "Pa/s"), po.Closure("S_theta", "K/s"), po.Closure("S_q", "1/s")
SIZES = {"u": (0.0, 8.0), "v": (0.0, 8.0), "p": (9.8e4, 900.0), "theta": (292.0, 6.0), "q": (9e-3, 3e-3)}
CLOSURES = {"S_p": 1e-2, "S_theta": 1e-4, "S_q": 1e-7}
DT = 300.0


def surface() -> po.PDESystem:
    r_m, lam = po.Positive("r_m", "1/day", init=1.7), po.Positive("lambda_c", "1/hour", init=1.0)
    f = po.Static("f", "1/s")

    def moved(a: po.Field) -> Any:
        return -advection(a, u, v) + po.Positive(f"kappa_{a.name}", "km**2/hour", init=36.0) * laplacian(a)

    return po.PDESystem(
        "surface",
        {
            u: moved(u) + coriolis(v, f) - friction(u, r_m),
            v: moved(v) - coriolis(u, f) - friction(v, r_m),
            p: moved(p) + S_p,
            theta: moved(theta) + S_theta,
            q: moved(q) + S_q - condensation(q, saturation_humidity(temperature(theta, p), p), lam),
        },
    )


def grid_of(ny: int, nx: int, boundary: Any = "zero_gradient") -> po.Grid2D:
    return po.Grid2D.from_latlon(np.linspace(30.0, 45.0, ny), np.linspace(100.0, 120.0, nx), boundary=boundary)


GRID = grid_of(9, 13)


def inputs(
    batch: int = 3, grid: po.Grid2D = GRID, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, dict[str, Tensor]]:
    shape = (batch, grid.ny, grid.nx)
    fields = [mean + spread * noise(*shape, seed=i) for i, (mean, spread) in enumerate(SIZES.values())]
    closures = {name: (size * noise(*shape, seed=10 + i)).to(dtype) for i, (name, size) in enumerate(CLOSURES.items())}
    return torch.stack(fields, 1).to(dtype), closures


def gradients(step: Any, state: Tensor, closures: dict[str, Tensor], parameters: list[Tensor]) -> list[Tensor]:
    """What a step gives, and derivatives of a weighted sum of it by state, closures and parameters."""
    x = state.clone().requires_grad_()
    c = {name: value.clone().requires_grad_() for name, value in closures.items()}
    result = step(x, c)
    spread = state.double().std((0, 2, 3), keepdim=True)
    weights = (noise(*result.shape, seed=77) / spread).to(state.dtype)
    grads = torch.autograd.grad((result * weights).sum(), [x, *c.values(), *parameters])
    return [result.detach(), *grads]


@pytest.fixture(scope="module")
def torch_side() -> po.Tendency:
    return surface().compile(GRID).double()


@pytest.fixture(scope="module")
def fused_side() -> po.Tendency:
    return surface().compile(GRID, backend="fused").double()


def test_advance_with_factors_matches_torch(torch_side: po.Tendency, fused_side: po.Tendency) -> None:
    state, closures = inputs()
    results = []
    for side in (torch_side, fused_side):
        factor = torch.linspace(0.5, 1.2, 5, dtype=torch.float64).requires_grad_()
        step = lambda x, c, side=side, factor=factor: side.advance(x, c, DT, factor)
        results.append(gradients(step, state, closures, [side.coefficients.raw, factor]))
    for expected, got in zip(*results, strict=True):
        assert relative(expected, got) < 1e-12  # rounding of float64


@pytest.mark.parametrize("rule", ["range", "limiter"])
def test_scaled_steps_match_torch(rule: Any, torch_side: po.Tendency, fused_side: po.Tendency) -> None:
    state, closures = inputs()
    state[1, 2] = state[0, 2]  # equal peaks in two samples must not mix
    results = []
    for side in (torch_side, fused_side):
        step = po.integrators["range_scaled_euler"](side, DT * 20, rule=rule, rho=0.02)
        with torch.no_grad():
            step.gamma.copy_(torch.linspace(0.5, 1.2, 5))
        results.append(gradients(step, state, closures, [side.coefficients.raw, step.gamma]))
    for expected, got in zip(*results, strict=True):
        assert relative(expected, got) < 1e-9


@pytest.mark.parametrize("rule", ["range", "limiter"])
def test_scaling_splits_ties_and_bears_flat_and_quiet_fields_like_torch(rule: Any) -> None:
    def change(a: Any, b: Any, *, grid: Any) -> Any:
        return 3.0 * a

    def nothing(a: Any, b: Any, *, grid: Any) -> Any:
        return 0.0 * b

    program, grid = made_of([change, nothing], fields=2), plane(4, 6)
    state = torch.ones(2, 2, 4, 6, dtype=torch.float64)
    state[0, 0, :, 3:] = -1.0  # |d| is the same everywhere: every cell ties for the peak
    gamma = torch.tensor([1.5, 0.5], dtype=torch.float64)
    weights = noise(2, 2, 4, 6)
    found = []
    for runner in (EagerRunner(program, grid), FusedRunner(program, grid)):
        x, g = state.clone().requires_grad_(), gamma.clone().requires_grad_()
        given = inputs_of(grid, x)
        if isinstance(runner, FusedRunner):
            y = runner.scaled_advance(given, 2.0, g, rule, 0.05)
        else:
            y = x + g[:, None, None] * scaled(2.0 * runner.tendency(given), x, rule, 0.05)
        found.append([y.detach(), *torch.autograd.grad((y * weights).sum(), [x, g])])
    for expected, got in zip(*found, strict=True):
        assert torch.isfinite(got).all() and relative(expected, got) < 1e-12


def test_float32_tendencies_and_gradients_agree_with_float64_torch() -> None:
    state, closures = inputs(dtype=torch.float32)
    exact, single = surface().compile(GRID).double(), surface().compile(GRID, backend="fused")
    double = {name: closure.double() for name, closure in closures.items()}
    expected = gradients(exact, state.double(), double, [exact.coefficients.raw])
    got = gradients(single, state, closures, [single.coefficients.raw])
    for reference, value in zip(expected, got, strict=True):
        assert relative(reference, value.double()) < 1e-5  # the tolerance that the backend promises


@pytest.mark.parametrize("boundary", ["periodic", "reflecting"])
def test_staged_systems_match_torch(boundary: str) -> None:
    a, b, kappa = po.Field("a", "K"), po.Field("b", "m/s"), po.Closure("kappa", "m**2/s")
    nu, area = po.Positive("nu", "m**4/s", init=1e9), po.Positive("area", "m**2", init=1e6)
    system = po.PDESystem(
        "staged",
        {a: nu * hyperdiffusion(a) + diffusion(a, kappa), b: -advection(area * laplacian(b), b, b)},
    )
    grid = po.Grid2D.plane(8, 10, dx=1e3, boundary=boundary)
    state = torch.stack([280.0 + noise(2, 8, 10), noise(2, 8, 10, seed=4)], 1)
    closures = {"kappa": 1e3 + 100.0 * noise(2, 8, 10, seed=5)}
    results = []
    for backend in ("torch", "fused"):
        side = system.compile(grid, backend=backend).double()
        results.append(gradients(side, state, closures, [side.coefficients.raw]))
    for expected, got in zip(*results, strict=True):
        assert relative(expected, got) < 1e-10  # fourth differences of 280 K lose four digits


def test_gradient_agrees_with_finite_differences(fused_side: po.Tendency) -> None:
    state, closures = inputs(batch=1)
    x = state.clone().requires_grad_()
    weights = noise(*state.shape, seed=8) / torch.tensor([s for _, s in SIZES.values()]).view(5, 1, 1)
    (slope,) = torch.autograd.grad((fused_side.advance(x, closures, DT) * weights).sum(), x)
    direction = noise(*state.shape, seed=9) * torch.tensor([s for _, s in SIZES.values()]).view(5, 1, 1)
    h = 1e-6
    ahead, behind = (fused_side.advance(state + s * h * direction, closures, DT) for s in (1.0, -1.0))
    numeric = float(((ahead - behind) * weights).sum().detach()) / (2.0 * h)
    assert float((slope * direction).sum()) == pytest.approx(numeric, rel=1e-5)  # kinks may lie within h of a cell


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    grid = grid_of(150, 700)  # several row blocks
    side = surface().compile(grid, backend="fused")
    state, closures = inputs(1, grid, torch.float32)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            results.append(gradients(lambda x, c: side.advance(x, c, DT), state, closures, [side.coefficients.raw]))
        finally:
            torch.set_num_threads(1)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("boundary", ["zero_gradient", "periodic", "reflecting"])
def test_row_blocks_meet_without_a_seam(boundary: str) -> None:
    def wide(a: Any, b: Any, *, grid: Any) -> Any:
        n = around(a, grid, 2)
        return n[0, 2] * b + n[1, -2] * n[-1, 0] + around(n[0, 1] * n[0, -1], grid)[0, 1]

    grid = plane(70, 1600, boundary)  # 1600 columns make blocks of about 32 rows
    assert worst_error(made_of([wide, wide], fields=2), grid, noise(1, 2, 70, 1600)) < 1e-12


def test_expanded_transposed_and_broadcast_inputs_are_read_right(
    torch_side: po.Tendency, fused_side: po.Tendency
) -> None:
    state, closures = inputs(batch=2)
    strided = torch.empty(2, 9, 13, 5, dtype=torch.float64).permute(0, 3, 1, 2).copy_(state)
    odd = {
        "S_p": closures["S_p"][:1],
        "S_theta": closures["S_theta"][:, :1, :],
        "S_q": closures["S_q"][:, :, :1],
    }
    results = []
    for side in (torch_side, fused_side):
        x = strided.detach().requires_grad_()
        c = {k: value.clone().requires_grad_() for k, value in odd.items()}
        y = side.advance(x, c, DT)
        grads = torch.autograd.grad((y * noise(*y.shape)).sum(), [x, *c.values()])
        results.append([y.detach(), *grads])
    for expected, got in zip(*results, strict=True):
        assert relative(expected, got) < 1e-10


def test_an_expanded_state_and_an_empty_batch_work(torch_side: po.Tendency, fused_side: po.Tendency) -> None:
    state, closures = inputs(batch=1)
    wide = state.expand(4, -1, -1, -1)
    assert relative(torch_side.advance(wide, closures, DT), fused_side.advance(wide, closures, DT)) < 1e-10
    empty = state[:0].clone().requires_grad_()
    result = fused_side.advance(empty, {name: c[:0] for name, c in closures.items()}, DT)
    assert result.shape == (0, 5, 9, 13)
    result.sum().backward()
    assert empty.grad is not None and empty.grad.shape == empty.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_broken_value_is_seen_by_its_neighbours_and_by_nobody_else(dtype: torch.dtype, value: float) -> None:
    side = surface().compile(GRID, backend="fused").to(dtype)
    state, closures = inputs(1, dtype=dtype)
    for field in range(5):
        broken = state.clone()
        broken[0, field, 4, 6] = value
        result = side(broken, closures)
        assert not torch.isfinite(result[0, field, 4, 6])
        far = torch.ones(9, 13, dtype=torch.bool)
        far[3:6, 5:8] = False
        assert torch.isfinite(result[0][:, far]).all()


def test_inputs_are_not_changed(fused_side: po.Tendency) -> None:
    state, closures = inputs()
    before = state.clone(), {k: c.clone() for k, c in closures.items()}
    gradients(lambda x, c: fused_side.advance(x, c, DT), state, closures, [])
    assert torch.equal(state, before[0]) and all(torch.equal(closures[k], before[1][k]) for k in closures)


def test_wrong_devices_and_dtypes_are_refused() -> None:
    runner = FusedRunner(made_of([lambda a, *, grid: a], fields=1), plane(4, 5))
    grid = plane(4, 5)
    meta = torch.zeros(1, 1, 4, 5, device="meta")
    with pytest.raises(po.BackendError, match=r"runs on the CPU.*inductor"):
        runner.tendency(Inputs(meta, (), meta, {}, grid.bind(torch.float32, "cpu")))
    half = torch.zeros(1, 1, 4, 5, dtype=torch.float16)
    with pytest.raises(po.BackendError, match="float32 or float64"):
        runner.tendency(inputs_of(grid, half))


def test_statics_may_be_planes_rows_or_numbers() -> None:
    a, s = po.Field("a", "K"), po.Static("s", "1/s")
    w = po.Positive("w", "m/s/K", init=1.0)
    system = po.PDESystem("static", {a: s * a + advection(a, w * a, w * a)})
    grid = plane(5, 7)
    state = noise(2, 1, 5, 7)
    for shape in [(5, 7), (5, 1), (1, 7), (1, 1), ()]:
        given = {"s": noise(*shape, seed=3)}
        sides = [system.compile(grid, backend=b, statics=given).double() for b in ("torch", "fused")]
        expected, got = (side(state) for side in sides)
        assert relative(expected, got) < 1e-12


def test_what_changes_from_call_to_call_is_never_remembered() -> None:
    a, s = po.Field("a", "K"), po.Static("s", "1/s")
    system = po.PDESystem("static", {a: s * a})
    grid, state = plane(3, 4), noise(1, 1, 3, 4)
    tendency = system.compile(grid, backend="fused", statics={"s": np.ones((3, 4))}).double()
    runner, given = tendency.runner, tendency.inputs(state, {})
    for shape in [(3, 4), (3, 4), (3, 1), (3, 4)]:  # the same table of statics, with another map in it
        given.statics["s"] = noise(*shape, seed=3)
        for dt in (1.0, 1.0, 0.5):
            expected = state * (1.0 + dt * given.statics["s"])
            torch.testing.assert_close(runner.advance(given, dt, None), expected)
        given.statics["s"] += 1.0
        assert torch.isfinite(runner.tendency(given)).all()
    given.statics["s"] = given.statics["s"].requires_grad_()
    with pytest.raises(po.BackendError, match="asks for a gradient"):
        runner.advance(given, 1.0, None)


def test_a_compiled_model_may_contain_it(fused_side: po.Tendency) -> None:
    state, closures = inputs(batch=1)
    model = torch.compile(lambda x: fused_side.advance(2.0 * x, closures, DT) + 1.0, backend="eager")
    expected = fused_side.advance(2.0 * state, closures, DT) + 1.0
    assert torch.equal(model(state), expected)


@pytest.mark.parametrize("backend", ["fused", "auto"])
@pytest.mark.parametrize("first", ["fake", "real"])
def test_fake_tensors_have_a_shape_and_no_memory_that_a_kernel_would_read(backend: str, first: str) -> None:
    c = po.Field("c", "K")
    system = po.PDESystem("heat", {c: po.Positive("k", "m**2/s", init=1.0) * laplacian(c)})
    tendency, state = system.compile(po.Grid2D.plane(4, 5, dx=1.0), backend=backend), noise(1, 1, 4, 5).float()
    if first == "real":
        tendency.advance(state, {}, 0.1)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(state)
        assert tendency.advance(fake, {}, 0.1).shape == tendency(fake).shape == state.shape
    torch.testing.assert_close(tendency.advance(state, {}, 0.1), system.compile(tendency.grid).advance(state, {}, 0.1))


def test_it_says_what_runs(fused_side: po.Tendency) -> None:
    assert "stage" in fused_side.runner.describe() and fused_side.runner.describe().startswith("fused")
