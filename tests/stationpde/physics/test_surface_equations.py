"""The surface equations as the model steps them: the printed terms, their switches, stability and conservation."""

import math

import pytest
import torch

from pde_ops import Grid2D, stability, thermo
from pde_ops.errors import StabilityError, UnknownNameError
from small_network import small_config
from stationpde.model import pde_branch
from stationpde.model.closure import CLOSURE_SCALES
from stationpde.model.pde_branch import PDEBranch, system_of
from stationpde.model.scaling import Scaling
from stationpde.physics import equations
from stationpde.physics.equations import STATE

NY, NX = 9, 10
OPERATORS = ("advection_upwind1", "laplacian", "coriolis", "friction", "condensation", "saturation_humidity")


def grid(f=1e-4, dx=120e3):
    return Grid2D.plane(NY, NX, dx=dx, f=f, boundary="zero_gradient")


def branch(variant="paper", *overrides, on=None):
    """Build a branch on a plain grid, in double precision, with one condition channel beside the terrain's three."""
    torch.manual_seed(0)
    built = PDEBranch(small_config(variant, overrides), on or grid(), 4)
    return built.double()


def air(batch=1, seed=0, wind=5.0):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(batch, 5, NY, NX, generator=generator, dtype=torch.float64)
    level = torch.tensor([0.0, 0.0, 9.5e4, 290.0, 5e-3], dtype=torch.float64)[:, None, None]
    size = torch.tensor([wind, wind, 300.0, 3.0, 5e-4], dtype=torch.float64)[:, None, None]
    return level + size * noise


def run(branch, state, base=None):
    conditions = torch.zeros(state.shape[0], 4, NY, NX, dtype=state.dtype)
    base = base if base is not None or not branch.bases else torch.zeros_like(state)
    return branch(state, base, conditions, Scaling.none())


def parts(system, name):
    field = next(f for f in system.fields if f.name == name)
    return system.equations[field].text()


def test_the_surface_system_has_the_printed_terms():
    system = equations.surface(advection="advection_upwind1")
    assert tuple(f.name for f in system.fields) == STATE
    endings = {
        "u": "+ f v - r_m u",
        "v": "- f u - r_m v",
        "p": "+ S_p",
        "theta": "+ S_theta",
        "q": "+ S_q - lambda_c max(q - q_s(T(theta, p), p), 0)",
    }
    assert {a: parts(system, a) for a in STATE} == {a: f"-(u,v)·∇{a} + kappa_{a} ∇²{a} {endings[a]}" for a in STATE}


def test_about_a_base_state_the_full_wind_carries_the_departures_and_the_full_state_saturates():
    system = equations.anomaly()
    for name in STATE:
        assert parts(system, name).startswith(f"-((u_b + u),(v_b + v))·∇{name} + kappa_{name} ∇²{name}")
    assert "max((q_b + q) - q_s(T((theta_b + theta), (p_b + p)), (p_b + p)), 0)" in parts(system, "q")
    assert {c.name for c in system.closures} == {f"S_{n}" for n in STATE} | {f"{n}_b" for n in STATE}


def test_coefficients_start_where_the_table_says():
    built = PDEBranch(
        small_config("paper", ("pde.dt=1800",)), grid(), 4
    )
    values = {name: value.to_base_units().magnitude for name, value in built.tendency.parameters_in_units().items()}
    for name in STATE:
        assert values[f"kappa_{name}"] * 1800.0 / 120e3**2 == pytest.approx(0.01, rel=1e-4)
    assert values["r_m"] == pytest.approx(2e-5, rel=1e-4)
    assert values["lambda_c"] == pytest.approx(1 / 3600, rel=1e-4)
    assert built.factors() == {f"gamma_{name}": 1.0 for name in STATE}


def test_update_factors_start_at_one_and_are_separate_for_the_closure_by_option():
    one = PDEBranch(small_config("paper"), grid(), 4)
    split = PDEBranch(small_config("default"), grid(), 4)
    assert set(one.factors().values()) == set(split.factors().values()) == {1.0}
    assert set(split.factors()) - set(one.factors()) == {f"gamma_S_{name}" for name in STATE}


def test_doubling_the_time_step_doubles_the_unscaled_update(monkeypatch):
    state = air()
    updates = []
    for dt in (600, 1200):
        # κ is the same for both: its start is a number of sub-steps.
        monkeypatch.setattr(pde_branch, "DIFFUSION_NUMBER", 0.01 * dt / 1200)
        built = branch("default", f"pde.dt={dt}", "model.closure=false")
        assert built.tendency.limits.substeps == 1
        updates.append(built.step(state, {name: torch.zeros_like(state[:, 0]) for name in built.bases}) - state)
    # κ passes a smooth cap that depends on the time step: equal to a few parts in 1e4.
    torch.testing.assert_close(updates[1], 2 * updates[0], rtol=1e-3, atol=1e-9)


def test_an_interval_is_k_sub_steps():
    built = branch("paper", "model.closure=false")
    state = later = air()
    for _ in range(3):
        later = built.step(later, {})
    torch.testing.assert_close(run(built, state), later, rtol=0, atol=0)


@pytest.mark.parametrize("variant", ["paper", "default"])
def test_without_a_closure_what_is_left_is_the_printed_transport(variant):
    with_zero, without = branch(variant), branch(variant, "model.closure=false")
    assert without.closure is None
    assert not [name for name, _ in without.named_parameters() if "closure" in name]
    state = air()
    # The closure's last layer is zero at the start, so that the two agree.
    torch.testing.assert_close(run(with_zero, state), run(without, state), rtol=1e-12, atol=1e-12)
    torch.nn.init.constant_(with_zero.closure.last.convolution.bias, 0.5)
    assert not torch.allclose(run(with_zero, state), run(without, state))


@pytest.mark.parametrize("variant", ["paper", "default"])
@pytest.mark.parametrize("form", ["printed", "held"])
def test_a_closure_moves_its_channels_by_its_bound_at_most(variant, form):
    built = branch(variant, f"model.closure_form={form}", "pde.rule=none", f"pde.without={list(OPERATORS)}")
    torch.nn.init.constant_(built.closure.last.convolution.bias, 50.0)  # tanh of it is 1
    state = air()
    moved = (run(built, state) - state) / 21600.0
    for index, name in enumerate(STATE):
        expected = CLOSURE_SCALES[name] if name in built.closure.channels else 0.0
        torch.testing.assert_close(moved[:, index], torch.full_like(moved[:, index], expected), rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("variant", ["paper", "default"])
@pytest.mark.parametrize("name", [*OPERATORS, "advection", "temperature"])
def test_any_single_operator_can_be_taken_out(variant, name):
    whole, built = branch(variant), branch(variant, f"pde.without=['{name}']")
    assert name not in {n for call in built.tendency.system.calls() for n in (call.operator.name, call.operator.family)}
    state = air()
    state[:, 4] *= 10.0  # above saturation, so that condensation shows
    later = run(built, state)
    assert torch.isfinite(later).all()
    assert not torch.allclose(later, run(whole, state), rtol=1e-9)


def test_taking_out_what_is_not_there_says_what_is():
    with pytest.raises(UnknownNameError, match=r"no term with 'gravity'.*laplacian"):
        system_of(small_config("paper", ("pde.without=['gravity']",)), grid())


@pytest.mark.parametrize("rule", ["range", "limiter", "none"])
def test_scale_rules_leave_a_resting_uniform_state_alone_and_finite(rule):
    built = branch("paper", f"pde.rule={rule}", on=grid(f=0.0))
    state = air(wind=0.0)
    state[:] = state.mean((-2, -1), keepdim=True)
    state[:, :2] = 0.0
    state.requires_grad_()
    later = run(built, state)
    torch.testing.assert_close(later, state, rtol=0, atol=1e-12)
    later.sum().backward()
    assert torch.isfinite(state.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in built.parameters() if p.grad is not None)


@pytest.mark.parametrize("rule", ["range", "limiter", "none"])
def test_a_sample_of_a_branch_does_not_depend_on_its_batch_mates(rule):
    built = branch("paper", f"pde.rule={rule}")
    state = air(batch=3)
    together = run(built, state)
    alone = torch.cat([run(built, state[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)
    assert built.step.batch_independent
    assert not branch("paper", "pde.rule=weathergft").step.batch_independent


@pytest.mark.parametrize("speed", [0.0, 12.0, 300.0])
def test_a_checkerboard_decays_with_every_diffusivity_at_its_cap(speed):
    built = branch("default", "model.closure=false", "pde.without=['condensation', 'coriolis', 'friction']")
    with torch.no_grad():
        built.tendency.coefficients.raw.fill_(1e4)
    row, column = torch.meshgrid(torch.arange(NY), torch.arange(NX), indexing="ij")
    board = ((-1.0) ** (row + column)).double()
    state = torch.zeros(1, 5, NY, NX, dtype=torch.float64)
    state[:, 2:] = board
    base = torch.zeros_like(state)
    base[:, 0], base[:, 1], base[:, 2], base[:, 3] = speed, speed, 9e4, 290.0
    later = run(built, state, base)[:, 2:].detach()
    # The inflow corner stays what it is in wind, the waves in between decay.
    assert float(later.abs().max()) <= 1.0
    assert float((later * board).mean((-2, -1)).abs().max()) < 0.6


def test_sub_steps_follow_from_the_largest_wind_and_the_wind_beyond_is_limited():
    built = branch("default", "pde.max_wind=30")
    limits = built.tendency.limits
    assert limits.substeps >= math.ceil(7200 * 30 * math.sqrt(2) / 120e3)
    state = torch.zeros(1, 5, NY, NX, dtype=torch.float64)
    state[:, 3, :, 4:] = 5.0
    base = torch.zeros_like(state)
    base[:, 2], base[:, 3] = 9e4, 290.0
    fast, limited = base.clone(), base.clone()
    fast[:, 0], limited[:, 0] = 90.0, 30.0
    torch.testing.assert_close(run(built, state, fast), run(built, state, limited), rtol=1e-10, atol=1e-12)


def test_the_energy_of_a_turning_wind_grows_under_euler_as_documented():
    rotation = "pde.without=['advection', 'laplacian', 'friction', 'condensation']"
    state = air()
    state[:, :2] = state[:, :2].mean((-2, -1), keepdim=True)
    energy = state[:, :2].square().sum()
    euler = branch("default", rotation, "model.closure=false")
    parts_of_step = euler.tendency.limits.substeps
    factor = (1 + (1e-4 * 7200 / parts_of_step) ** 2) ** (3 * parts_of_step)
    assert float(run(euler, state)[:, :2].square().sum()) == pytest.approx(factor * float(energy), rel=1e-9)


def test_friction_at_its_floor_keeps_eulers_turning_wind_from_growing():
    built = branch("default", "model.closure=false")
    with torch.no_grad():
        built.tendency.coefficients.raw.fill_(-40.0)
    state = torch.zeros(1, 5, NY, NX, dtype=torch.float64)
    state[:, 0], state[:, 1] = 6.0, -3.0
    assert float(built.tendency.parameters_in_units()["r_m"].to("1/s").magnitude) == pytest.approx(
        stability.friction_floor(1e-4, built.tendency.limits.part), rel=1e-5
    )
    assert float(run(built, state)[:, :2].square().sum()) <= float(state[:, :2].square().sum()) * (1 + 1e-6)


@pytest.mark.parametrize(("variant", "overrides"), [
    ("default", ()), ("default", ("pde.rule=limiter", "model.closure_form=printed")),
])  # fmt: skip
def test_condensation_never_takes_humidity_below_saturation(variant, overrides):
    built = branch(variant, *overrides, "model.closure=false", "pde.without=['advection', 'laplacian']")
    with torch.no_grad():
        built.tendency.coefficients.raw.fill_(1e4)  # as fast as may be learned
    state = air(wind=0.0)
    state[:, 2:4] = state[:, 2:4].mean((-2, -1), keepdim=True)
    saturated = thermo.saturation_humidity(thermo.temperature(state[:, 3], state[:, 2]), state[:, 2])
    state[:, 4] = saturated * torch.linspace(0.5, 1.5, NX, dtype=torch.float64)
    later = run(built, state)[:, 4]
    wet = state[:, 4] > saturated
    # Caps are kept in single precision.
    assert bool((later[wet] >= saturated[wet] * (1 - 1e-6)).all())
    assert float((later - saturated)[wet].max()) < 0.5 * float((state[:, 4] - saturated)[wet].max())
    torch.testing.assert_close(later[~wet], state[:, 4][~wet], rtol=1e-12, atol=0)


@pytest.mark.parametrize("scheme", [
    "advection_upwind1", "advection_upwind3", "advection_central2", "advection_central4", "semi_lagrangian",
])  # fmt: skip
def test_every_advection_carries_a_blob_downwind(scheme):
    left = "pde.without=['coriolis', 'friction', 'condensation']"
    rule = "none" if scheme in ("advection_upwind1", "semi_lagrangian") else "limiter"
    built = branch("default", f"pde.rule={rule}", f"pde.advection={scheme}", left, "model.closure=false")
    state = torch.zeros(1, 5, NY, NX, dtype=torch.float64)
    row, column = torch.meshgrid(torch.arange(NY).double(), torch.arange(NX).double(), indexing="ij")
    state[:, 3] = torch.exp(-((row - 4) ** 2 + (column - 4) ** 2) / 3.0)
    base = torch.zeros_like(state)
    base[:, 0], base[:, 2], base[:, 3] = 120e3 / 21600.0, 9e4, 290.0
    later = run(built, state, base)[0, 3]
    centre = float((later * column).sum() / later.sum())
    # One cell east in one interval; borders and dispersion cost a few hundredths.
    assert centre == pytest.approx(5.0, abs=0.08)


@pytest.mark.parametrize("rule", ["range", "limiter"])
def test_a_storm_over_cells_of_one_kilometre_stays_finite_with_every_coefficient_at_its_largest(rule):
    built = branch("paper", f"pde.rule={rule}", "pde.dt=1800", on=grid(dx=1e3))
    with torch.no_grad():
        for name, raw in built.named_parameters():
            if name.endswith("raw"):
                raw.fill_(1e3)
    state = air(wind=100.0)
    for _ in range(8):
        state = run(built, state)
    assert torch.isfinite(state).all()


def test_small_cells_without_a_rule_are_refused_and_semi_lagrangian_transport_is_named_and_stays_finite():
    requested = ("pde.rule=none", "pde.dt=1800", "pde.max_wind=100")
    with pytest.raises(StabilityError, match=r"semi.lagrangian"):
        branch("paper", *requested, on=grid(dx=1e3))
    built = branch("paper", *requested, "pde.advection=semi_lagrangian", on=grid(dx=1e3))
    assert torch.isfinite(run(built, air(wind=100.0))).all()


def test_where_wind_enters_the_region_values_follow_the_climatology():
    """A departure is carried in unchanged: the full value at the border changes as its base state does."""
    system = equations.anomaly(advection="advection_upwind1")
    others = [name for name in system.term_names if "advection" not in name and not name.endswith("_b")]
    tendency = system.without(*others).compile(grid(), backend="torch").double()
    state = air()
    state = state - state.mean(dim=(0, 2, 3), keepdim=True)
    state[:, :2] = 0.0
    base = {name: torch.zeros_like(state[:, 0]) for name in tendency.closure_names}
    base["u_b"] = torch.full_like(state[:, 0], 30.0)
    rate = tendency(state, base)
    assert not rate[..., 0].any()
    assert rate[:, 2:, :, 1:].ne(0.0).all()
