"""What holds for every integrator: how it is made, refused, traced, moved, differentiated and run."""

from __future__ import annotations

import math

import pytest
import torch

import pde_ops as po
from pde_ops.ops import advection, advection_central2, advection_upwind3, condensation, coriolis, friction, laplacian
from pde_ops.testing.fake_cuda import fake_cuda

u, v, q = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("q", "kg/kg")
f, Q = po.Static("f", "1/s"), po.Closure("Q", "kg/kg")
r, lam = po.Positive("r", "1/day", init=1.7), po.Positive("lam", "1/hour", init=1.0)
kappa = po.Positive("kappa", "m**2/s", init=1e3)


def transport(a, scheme=advection):
    return -scheme(a, u, v) + kappa * laplacian(a)


def make_system(scheme=advection):
    return po.PDESystem(
        "moist wind",
        {
            u: transport(u, scheme) + coriolis(v, f) - friction(u, r),
            v: transport(v, scheme) - coriolis(u, f) - friction(v, r),
            q: transport(q, scheme) - condensation(q, Q, lam),
        },
    )


GRID = po.Grid2D.from_latlon([40.0 + 0.25 * i for i in range(6)], [10.0 + 0.25 * i for i in range(7)])
# name, how to compile, options
CASES = {
    "euler": ({}, {}),
    "heun": ({}, {}),
    "ssprk3": ({}, {}),
    "rk4": ({}, {}),
    "strang": ({"exact_flows": True}, {}),
    "lie": ({"exact_flows": True}, {"inner": "heun"}),
    "semi_lagrangian": ({"semi_lagrangian": True}, {}),
    "semi_lagrangian+flows": ({"semi_lagrangian": True, "exact_flows": True}, {"interpolation": "cubic"}),
    "range_scaled_euler/range": ({}, {"rule": "range"}),
    "range_scaled_euler/limiter": ({}, {"rule": "limiter"}),
    "range_scaled_euler/none": ({"limits": po.stability.limits(GRID, 900.0, max_wind=30.0)}, {"rule": "none"}),
    "range_scaled_euler/weathergft": ({}, {"rule": "weathergft"}),
}
NAMES = list(CASES)
# Tracing takes seconds: one case of each kind every time, the others in the long suite.
EVERY_TIME = {"euler", "strang", "semi_lagrangian", "range_scaled_euler/range"}
TRACED = [name if name in EVERY_TIME else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


def make_step(case, dt=900.0, system=None):
    how, options = CASES[case]
    name = case.partition("/")[0].partition("+")[0]
    return po.integrators[name]((system or make_system()).compile(GRID, **how), dt, **options)


def make_inputs(batch=2, dtype=torch.float32):
    draw = torch.Generator().manual_seed(0)
    state = torch.randn(batch, 3, 6, 7, generator=draw, dtype=torch.float64)
    state = torch.stack([5.0 + state[:, 0], state[:, 1] - 3.0, 8e-3 + 1e-3 * state[:, 2]], dim=1)
    closure = 8e-3 + 1e-3 * torch.randn(batch, 6, 7, generator=draw, dtype=torch.float64)
    return state.to(dtype), {"Q": closure.to(dtype)}


def test_every_registered_integrator_is_tested_here():
    assert {case.partition("/")[0].partition("+")[0] for case in CASES} == set(po.integrators)


@pytest.mark.parametrize("case", NAMES)
def test_a_step_keeps_shape_and_dtype_and_does_not_touch_its_input(case):
    state, closures = make_inputs()
    before = state.clone()
    after = make_step(case)(state, closures)
    assert after.shape == state.shape
    assert after.dtype == state.dtype
    assert torch.equal(state, before)
    assert torch.isfinite(after).all()
    assert not torch.equal(after, before)


@pytest.mark.parametrize("case", TRACED)
def test_a_step_traces_as_one_graph_and_gives_the_same(case):
    # Two equations are enough to meet every part of a step, and keep the trace short.
    system = po.PDESystem(
        "wind", {u: -advection(u, u, v) + coriolis(v, f) - friction(u, r), v: -advection(v, u, v) - coriolis(u, f)}
    )
    step = make_step(case, system=system)
    state = make_inputs()[0][:, :2]
    torch.compiler.reset()
    traced = torch.compile(step, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(traced(state), step(state))


@pytest.mark.parametrize("case", NAMES)
def test_a_step_runs_on_cuda_tensors_without_touching_the_cpu(case):
    try:
        with fake_cuda():
            step = make_step(case)
            after = step(torch.empty(2, 3, 6, 7), {"Q": torch.empty(2, 6, 7)})
            assert after.device.type == "cuda"
    except po.BackendError as problem:
        pytest.skip(str(problem))


# A rule detaches the range of the state by definition; what is left of its gradient is tested with the rules.
@pytest.mark.parametrize("case", [name for name in NAMES if "/" not in name or name.endswith("/none")])
def test_the_gradient_of_a_step_is_right(case):
    step = make_step(case).double()
    state, closures = make_inputs(batch=1, dtype=torch.float64)
    # Of order one in every channel, so that one finite-difference step suits them all.
    size = torch.tensor([1.0, 1.0, 1e-3], dtype=torch.float64)[:, None, None]
    direction = torch.randn(state.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def along(t):
        return step(state + t * size * direction, closures) / size

    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(along, (t,), eps=1e-7, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("case", [name for name in NAMES if "weathergft" not in name])
def test_gradients_reach_every_parameter_and_the_closure(case):
    step = make_step(case)
    state, closures = make_inputs()
    closures["Q"].requires_grad_()
    scale = torch.tensor([1.0, 1.0, 1e-3])[:, None, None]
    (step(state, closures) / scale).square().mean().backward()
    assert closures["Q"].grad.abs().sum() > 0
    for name, parameter in step.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).all(), name


@pytest.mark.parametrize("case", NAMES)
def test_a_parameter_has_one_place_in_the_state_dict(case):
    step = make_step(case)
    entries = step.state_dict()
    assert len({value.data_ptr() for value in entries.values()}) == len(entries)
    assert sum(name.endswith("coefficients.raw") for name in entries) == 1


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf, "1800", None])
@pytest.mark.parametrize("case", NAMES)
def test_a_time_step_that_is_not_a_positive_number_is_refused(case, dt):
    with pytest.raises(po.StabilityError, match="finite and positive seconds"):
        make_step(case, dt)


def test_something_that_is_not_compiled_is_refused():
    with pytest.raises(po.DeclarationError, match=r"system\.compile\(grid\)"):
        po.integrators["euler"](make_system(), 900.0)


@pytest.mark.parametrize("name", ["euler", "heun", "ssprk3", "rk4", "range_scaled_euler"])
def test_plain_integrators_refuse_to_lose_terms_that_were_taken_out(name):
    with pytest.raises(po.DeclarationError, match=r"take integrators\['strang'\]"):
        po.integrators[name](make_system().compile(GRID, exact_flows=True), 900.0)
    with pytest.raises(po.DeclarationError, match=r"take integrators\['semi_lagrangian'\]"):
        po.integrators[name](make_system().compile(GRID, semi_lagrangian=True), 900.0)


@pytest.mark.parametrize("name", ["strang", "lie"])
def test_splitting_integrators_say_how_to_compile(name):
    with pytest.raises(po.DeclarationError, match=r"compile\(grid, exact_flows=True\)"):
        po.integrators[name](make_system().compile(GRID), 900.0)
    without = po.PDESystem("no flows", {u: transport(u), v: transport(v)})
    with pytest.raises(po.DeclarationError, match=r"none of its terms has one: take integrators\['heun'\]"):
        po.integrators[name](without.compile(GRID, exact_flows=True), 900.0)
    with pytest.raises(po.DeclarationError, match="semi_lagrangian"):
        po.integrators[name](make_system().compile(GRID, exact_flows=True, semi_lagrangian=True), 900.0)


def test_semi_lagrangian_says_how_to_compile_and_what_it_knows():
    with pytest.raises(po.DeclarationError, match=r"compile\(grid, semi_lagrangian=True\)"):
        po.integrators["semi_lagrangian"](make_system().compile(GRID), 900.0)
    compiled = make_system().compile(GRID, semi_lagrangian=True)
    with pytest.raises(po.DeclarationError, match="bilinear, cubic"):
        po.integrators["semi_lagrangian"](compiled, 900.0, interpolation="spline")
    with pytest.raises(po.DeclarationError, match="iterations"):
        po.integrators["semi_lagrangian"](compiled, 900.0, iterations=0)
    both = make_system().compile(GRID, semi_lagrangian=True, exact_flows=True)
    with pytest.raises(po.DeclarationError, match="closed-form terms would be lost"):
        po.integrators["semi_lagrangian"](both, 900.0, inner="heun")


@pytest.mark.parametrize("name", ["euler", "heun", "ssprk3", "rk4"])
def test_an_integrator_refuses_a_step_beyond_the_limits_and_says_which_to_take(name):
    limits = po.stability.limits(GRID, 1800.0)
    assert limits.substeps > 1
    tendency = make_system().compile(GRID, limits=limits)
    with pytest.raises(po.StabilityError, match=f"pass dt={1800.0 / limits.substeps:g}"):
        po.integrators[name](tendency, 1800.0)
    po.integrators[name](tendency, 1800.0 / limits.substeps)


def test_sub_stepping_refuses_a_step_beyond_the_limits():
    tendency = make_system().compile(GRID, limits=po.stability.limits(GRID, 900.0))
    with pytest.raises(po.StabilityError, match="beyond 900 s"):
        po.integrators["range_scaled_euler"](tendency, 901.0, rule="none")


@pytest.mark.parametrize("scheme", [advection_central2, advection_upwind3])
def test_limits_with_a_transport_scheme_that_the_integrator_amplifies_are_refused(scheme):
    limits = po.stability.limits(GRID, 300.0)
    tendency = make_system(scheme).compile(GRID, limits=limits)
    dt = 300.0 / limits.substeps
    for name in ("euler", "heun"):
        with pytest.raises(po.StabilityError, match=f"lets `{scheme.name}` grow"):
            po.integrators[name](tendency, dt)
    with pytest.raises(po.StabilityError, match="take 'ssprk3' or 'rk4'"):
        po.integrators["range_scaled_euler"](tendency, 300.0, rule="none")
    for name in ("ssprk3", "rk4"):
        po.integrators[name](tendency, dt)


def test_a_wrong_shape_or_a_missing_closure_is_named():
    step = make_step("rk4")
    state, closures = make_inputs()
    with pytest.raises(po.ShapeError, match=r"must be \[batch, 3, 6, 7\]"):
        step(state[:, :2], closures)
    with pytest.raises(po.ShapeError, match="missing Q"):
        step(state)
    with pytest.raises(po.ShapeError, match=r"torch tensor, not numpy\.ndarray; make one with torch\.as_tensor"):
        step.tendency.inputs(state.detach().numpy(), closures)


def test_unknown_integrators_are_met_with_a_suggestion():
    with pytest.raises(KeyError, match="did you mean 'semi_lagrangian'"):
        po.integrators["semi_lagrange"]


def test_integrate_returns_the_last_state_or_a_trajectory():
    step = make_step("heun")
    state, closures = make_inputs()
    last = po.integrate(step, state, 6, closures)
    kept = po.integrate(step, state, 6, closures, keep=3)
    assert kept.shape == (3, *state.shape)
    assert torch.equal(kept[0], state)
    assert torch.equal(kept[-1], last)
    assert torch.equal(po.integrate(step, state, 0, closures), state)


def test_integrate_asks_for_closures_step_by_step():
    step = make_step("euler")
    state, closures = make_inputs()
    asked = []

    def supply(number):
        asked.append(number)
        return closures

    assert torch.equal(po.integrate(step, state, 3, supply), po.integrate(step, state, 3, closures))
    assert asked == [0, 1, 2]


def test_integrate_names_the_field_that_left_the_finite_numbers():
    step = make_step("euler")
    state, closures = make_inputs()
    state[1, 2, 3, 4] = math.inf
    with pytest.raises(po.DivergedError, match=r"not finite after 1 steps of 900 s: q \(\d+ of 84 cells\)") as caught:
        po.integrate(step, state, 1, closures)
    assert caught.value.exit_code == 6
    assert "stability.report" in str(caught.value)


def test_integrate_refuses_impossible_counts():
    step = make_step("euler")
    state, closures = make_inputs()
    for steps, keep in ((-1, None), (3, 0)):
        with pytest.raises(po.DeclarationError, match="must be a whole number of"):
            po.integrate(step, state, steps, closures, keep=keep)


def test_an_integrator_of_a_third_party_registers_and_steps():
    from pde_ops.integrators import Integrator
    from pde_ops.integrators.base import register

    @register("half_euler")
    class HalfEuler(Integrator):
        order = 1

        def forward(self, state, closures=None):
            return self.tendency.advance(state, closures, 0.5 * self.dt)

    try:
        state, closures = make_inputs()
        twice = po.integrate(po.integrators["half_euler"](make_system().compile(GRID), 1800.0), state, 1, closures)
        torch.testing.assert_close(twice, make_step("euler")(state, closures))
    finally:
        po.integrators.remove("half_euler")
