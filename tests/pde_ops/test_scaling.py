"""Scale rules of the range-scaled Euler step: their definitions, and what they do to fields, batches and gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pde_ops as po
from pde_ops.integrators.scaling import bounded_factor, scaled
from pde_ops.ops import advection, friction, laplacian

T, q = po.Field("T", "K"), po.Field("q", "kg/kg")
U, V, S = po.Closure("U", "m/s"), po.Closure("V", "m/s"), po.Closure("S", "K/s")
kappa = po.Positive("kappa", "m**2/s", init=1e3)
GRID = po.Grid2D.plane(12, 14, dx=2e4)
SYSTEM = po.PDESystem("two", {T: -advection(T, U, V) + kappa * laplacian(T) + S, q: -advection(q, U, V)})
SAFE = ("range", "limiter")


def numbers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def make_inputs(batch=3, dtype=torch.float64):
    state = torch.stack([280.0 + 5.0 * numbers(batch, 12, 14), 5e-3 + 1e-3 * numbers(batch, 12, 14, seed=1)], dim=1)
    closures = {"U": 6.0 + numbers(batch, 12, 14, seed=2), "V": numbers(batch, 12, 14, seed=3), "S": torch.zeros(())}
    return state.to(dtype), {name: value.to(dtype) for name, value in closures.items()}


def make_step(rule, **options):
    limits = po.stability.limits(GRID, 1800.0) if rule == "none" else None
    tendency = SYSTEM.compile(GRID, limits=limits).double()
    return po.integrators["range_scaled_euler"](tendency, 1800.0, rule=rule, **options)


def test_range_scales_the_largest_increment_of_each_channel_to_its_share_of_the_range():
    state, d = numbers(2, 3, 5, 6), 1e-3 * numbers(2, 3, 5, 6, seed=1)
    reach = state.amax((2, 3)) - state.amin((2, 3))
    moved = scaled(d, state, "range", 0.05)
    # ε of the rule is 1e-6 of the range, an increment of 1e-3 feels it by 1e-3
    torch.testing.assert_close(moved.abs().amax((2, 3)), 0.05 * reach, rtol=5e-3, atol=0)
    torch.testing.assert_close(moved / d, (moved / d)[:, :, :1, :1].expand_as(d))  # one factor a channel


def test_the_limiter_leaves_small_increments_alone_and_shrinks_large_ones_to_a_quarter_of_the_range():
    state = numbers(1, 2, 5, 6)
    reach = state.amax((2, 3)) - state.amin((2, 3))
    small = 0.2 * reach[..., None, None] * torch.tanh(numbers(1, 2, 5, 6, seed=1))
    assert torch.equal(scaled(small, state, "limiter", 0.25), small)
    large = scaled(50.0 * small, state, "limiter", 0.25)
    torch.testing.assert_close(large.abs().amax((2, 3)), 0.25 * reach)


def test_weathergft_is_the_affine_map_over_the_whole_batch():
    state, d = numbers(3, 2, 5, 6), numbers(3, 2, 5, 6, seed=1)
    moved = scaled(d, state, "weathergft", 0.05)
    for channel in range(2):
        x, y = state[:, channel], moved[:, channel]
        torch.testing.assert_close(y.min(), 0.05 * (x.min() - x.mean()))
        torch.testing.assert_close(y.max(), 0.05 * (x.max() - x.mean()))
        where_lowest = d[:, channel].flatten().argmin()
        assert y.flatten()[where_lowest] == y.min()


@pytest.mark.parametrize("rule", SAFE)
@given(data=st.data())
@settings(max_examples=25)
def test_cells_without_a_tendency_do_not_move(rule, data):
    seed = data.draw(st.integers(0, 10_000))
    state, d = numbers(2, 2, 4, 5, seed=seed), numbers(2, 2, 4, 5, seed=seed + 1)
    still = numbers(2, 2, 4, 5, seed=seed + 2) > 0
    moved = scaled(torch.where(still, 0.0, d), state, rule, 0.05)
    assert (moved[still] == 0.0).all()


@pytest.mark.parametrize("rule", [*SAFE, "none"])
def test_a_sample_does_not_depend_on_its_batch_mates(rule):
    step = make_step(rule)
    state, closures = make_inputs()
    together = step(state, closures)
    alone = step(state[1:2], {n: c if c.ndim == 0 else c[1:2] for n, c in closures.items()})
    assert step.batch_independent
    torch.testing.assert_close(together[1:2], alone, rtol=1e-13, atol=0)


def test_weathergft_declares_and_shows_that_samples_mix():
    step = make_step("weathergft")
    state, closures = make_inputs()
    alone = step(state[1:2], {n: c if c.ndim == 0 else c[1:2] for n, c in closures.items()})
    assert not step.batch_independent
    assert (step(state, closures)[1:2] - alone).abs().max() > 1e-3


@pytest.mark.parametrize("rule", SAFE)
def test_a_flat_field_and_a_field_without_tendency_stay_finite_with_finite_gradients(rule):
    step = make_step(rule)
    state, closures = make_inputs()
    state[:, 0] = 280.0  # flat: range 0, tendency from the closure alone
    state.requires_grad_()
    calm = torch.zeros((), dtype=torch.float64)
    closures = {"U": calm, "V": calm, "S": calm + 1e-4}
    after = step(state, closures)  # q has a range and, without wind, no tendency
    after.square().sum().backward()
    assert torch.isfinite(after).all()
    assert torch.isfinite(state.grad).all()


def test_weathergft_gives_nan_on_a_uniform_tendency_which_integrate_reports():
    step = make_step("weathergft")
    state, closures = make_inputs()
    calm = {**closures, "U": torch.zeros(()).double(), "V": torch.zeros(()).double()}  # nothing carries q: 0 everywhere
    with pytest.raises(po.DivergedError, match="q"):
        po.integrate(step, state, 1, calm)


def test_the_rules_cancel_the_time_step_or_do_not_as_documented():
    state, closures = make_inputs()
    once, twice = (
        {r: po.integrators["range_scaled_euler"](make_step(r).tendency, dt, rule=r)(state, closures) for r in SAFE}
        for dt in (100.0, 200.0)
    )
    # ε of the rule, 1e-6 of the range against increments of 1e-2 of it, leaves a trace of the time step
    torch.testing.assert_close(once["range"] - state, twice["range"] - state, rtol=1e-3, atol=1e-9)
    torch.testing.assert_close(2.0 * (once["limiter"] - state), twice["limiter"] - state, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("rule", "moves"), [("range", True), ("limiter", True), ("none", True), ("weathergft", False)])
def test_coefficients_get_a_gradient_under_every_rule_but_the_detached_one(rule, moves):
    step = make_step(rule)
    state, closures = make_inputs()
    step(state, closures).square().sum().backward()
    got = step.tendency.coefficients.raw.grad
    assert (got is not None and bool(got.abs().sum() > 0)) is moves
    assert step.gamma.grad.abs().min() > 0


def test_the_range_is_a_yardstick_without_a_gradient():
    state, d = numbers(1, 1, 4, 5).requires_grad_(), numbers(1, 1, 4, 5, seed=1)
    assert not scaled(d, state, "range", 0.05).requires_grad


@pytest.mark.parametrize("size", [0.01, 3.0])  # below and above what the limiter lets through
@pytest.mark.parametrize("rule", SAFE)
def test_the_gradient_through_an_increment_is_right(rule, size):
    state, d = numbers(1, 2, 3, 4), size * numbers(1, 2, 3, 4, seed=1)
    assert torch.autograd.gradcheck(lambda d: scaled(d, state, rule, 0.25), (d.requires_grad_(),), eps=1e-7)


def test_gamma_scales_each_field_and_switches_it_off():
    step = make_step("limiter")
    state, closures = make_inputs()
    full = step(state, closures) - state
    with torch.no_grad():
        step.gamma.copy_(torch.tensor([0.5, 0.0]))
    part = step(state, closures) - state
    torch.testing.assert_close(part[:, 0], 0.5 * full[:, 0], rtol=1e-9, atol=1e-12)
    assert (part[:, 1] == 0.0).all()


def test_gamma_is_left_out_of_weight_decay_with_the_coefficients():
    step = make_step("range")
    decayed, kept = po.weight_decay_groups(step, 0.1)
    assert decayed["params"] == []
    assert {id(p) for p in kept["params"]} == {id(step.gamma), id(step.tendency.coefficients.raw)}
    assert kept["weight_decay"] == 0.0


def test_without_a_rule_gamma_is_bounded_to_where_the_step_is_stable_and_can_come_back():
    gamma = torch.tensor([-0.5, 0.3, 4.0], requires_grad=True)
    bounded = bounded_factor(gamma)
    assert bounded.tolist() == pytest.approx([0.0, 0.3, 1.0])
    bounded.sum().backward()
    assert gamma.grad.tolist() == [1.0, 1.0, 1.0]


def test_without_a_rule_the_sub_steps_add_up_to_plain_euler_steps():
    step = make_step("none")
    state, closures = make_inputs()
    assert step.substeps == step.tendency.limits.substeps > 1
    euler = po.integrators["euler"](step.tendency, 1800.0 / step.substeps)
    expected = po.integrate(euler, state, step.substeps, closures)
    torch.testing.assert_close(step(state, closures), expected, rtol=1e-13, atol=0)


def test_without_a_rule_the_update_doubles_with_a_uniform_tendency():
    system = po.PDESystem("source", {T: S - friction(T, po.Positive("r", "1/s", init=1e-9))})
    state = torch.full((1, 1, 12, 14), 1.0, dtype=torch.float64)
    moved = []
    for dt in (900.0, 1800.0):
        tendency = system.compile(GRID, limits=po.stability.limits(GRID, dt, max_wind=0.0)).double()
        step = po.integrators["range_scaled_euler"](tendency, dt, rule="none")
        moved.append(float((step(state, {"S": torch.tensor(1e-3).double()}) - state).mean().detach()))
    assert moved[1] / moved[0] == pytest.approx(2.0, rel=1e-5)  # friction of 1e-9/s takes its 1e-6


def test_a_runner_with_its_own_scaled_step_is_used(monkeypatch):
    step = make_step("range")
    state, closures = make_inputs()
    seen = []

    def scaled_advance(inputs, dt, factor, rule, rho):
        seen.append((dt, rule, rho))
        return inputs.state + factor[:, None, None]

    monkeypatch.setattr(step.tendency.runner, "scaled_advance", scaled_advance, raising=False)
    torch.testing.assert_close(step(state, closures), state + 1.0)
    assert seen == [(1800.0, "range", 0.05)]


def test_unknown_rules_and_shares_are_refused():
    with pytest.raises(po.DeclarationError, match="range, limiter, none, weathergft"):
        make_step("median")
    with pytest.raises(po.StabilityError, match="rho"):
        make_step("range", rho=float("nan"))


def test_without_a_rule_and_without_limits_the_message_says_what_to_compile():
    with pytest.raises(po.StabilityError, match=r"limits=stability\.limits\(grid, dt=1800\)"):
        po.integrators["range_scaled_euler"](SYSTEM.compile(GRID), 1800.0, rule="none")
