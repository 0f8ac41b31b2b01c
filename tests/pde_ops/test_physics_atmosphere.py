"""Air that turns, rests, condenses and is nudged, and the gradient of a long integration."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pde_ops as po
from pde_ops import stability
from pde_ops.ops import (
    advection,
    air_density,
    condensation,
    coriolis,
    friction,
    laplacian,
    pressure_gradient_x,
    pressure_gradient_y,
    saturation_humidity,
    temperature,
)

u, v, p = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("p", "Pa")
theta, q = po.Field("theta", "K"), po.Field("q", "kg/kg")
f, Q = po.Static("f", "1/s"), po.Closure("Q", "kg/kg")
DT, DAY = 1800.0, 86400.0
UNIT = po.units.registry.Quantity


def run(step, state, steps, closures=None, **options):
    with torch.no_grad():
        return po.integrate(step.double(), state, steps, closures, **options)


# --- inertial oscillation ----------------------------------------------------------------------------------


def turning(drag=None):
    slowed = (lambda a: friction(a, UNIT(drag, "1/s"))) if drag else (lambda a: 0.0 * a * UNIT(1.0, "1/s"))
    return po.PDESystem("inertial", {u: coriolis(v, f) - slowed(u), v: -coriolis(u, f) - slowed(v)})


def inertial(grid, speed=10.0):
    state = torch.zeros(1, 2, grid.ny, grid.nx, dtype=torch.float64)
    state[:, 0] = speed
    return state


def energy(trajectory):
    return 0.5 * trajectory.square().sum(2).mean((1, 2, 3))


LATITUDES = po.Grid2D.from_latlon([35.0, 42.0, 49.0], [0.0, 1.0, 2.0])


@pytest.mark.parametrize("name", ["strang", "lie"])
@given(dt=st.floats(1.0, 1e5))
@settings(max_examples=20)
def test_the_energy_of_an_inertial_oscillation_never_grows_under_exact_flows_whatever_the_step(name, dt):
    step = po.integrators[name](turning().compile(LATITUDES, exact_flows=True), dt)
    found = energy(run(step, inertial(LATITUDES), 20, keep=1))
    torch.testing.assert_close(found, torch.full_like(found, 50.0), rtol=1e-13, atol=0)


def test_with_friction_the_energy_falls_at_twice_its_rate():
    step = po.integrators["strang"](turning(drag=2e-5).compile(LATITUDES, exact_flows=True), DT)
    found = energy(run(step, inertial(LATITUDES), 48, keep=1))
    assert (found.diff() < 0).all()
    assert float(found[-1] / found[0]) == pytest.approx(math.exp(-2.0 * 2e-5 * DAY), rel=1e-10)


def test_the_wind_turns_clockwise_with_the_inertial_period_in_the_north():
    # After a quarter of the period 2π/f an eastward wind blows southward.
    grid = po.Grid2D.plane(2, 2, dx=1e4, f=1e-4)
    quarter = 0.5 * math.pi / 1e-4
    step = po.integrators["strang"](turning().compile(grid, exact_flows=True), quarter / 7)
    after = run(step, inertial(grid), 7)[0, :, 0, 0]
    torch.testing.assert_close(after, torch.tensor([0.0, -10.0], dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("row", "factor"), [(0, 1.7), (2, 2.5)], ids=["35N", "49N"])
def test_euler_lets_the_wind_grow_in_a_day_by_the_documented_factor(row, factor):
    after = run(po.integrators["euler"](turning().compile(LATITUDES), DT), inertial(LATITUDES), 48)
    grown = float(after[0, :, row, 0].norm()) / 10.0
    assert grown == pytest.approx(factor, abs=0.05)
    assert grown == pytest.approx(stability.rotation_growth(float(LATITUDES.f[row]), DT), rel=1e-10)


# --- rest --------------------------------------------------------------------------------------------------


def dry_air():
    rho, kappa = air_density(temperature(theta, p), p, q), UNIT(1e3, "m**2/s")
    drag = UNIT(2e-5, "1/s")
    moving = {a: -advection(a, u, v) + kappa * laplacian(a) for a in (u, v, p, theta, q)}
    return po.PDESystem(
        "air",
        {
            **moving,
            u: moving[u] + coriolis(v, f) - friction(u, drag) + pressure_gradient_x(p, rho),
            v: moving[v] - coriolis(u, f) - friction(v, drag) + pressure_gradient_y(p, rho),
        },
    )


def resting(pressure, ny=8, nx=9):
    state = torch.zeros(1, 5, ny, nx, dtype=torch.float64)
    state[:, 2], state[:, 3], state[:, 4] = pressure, 290.0, 8e-3
    return state


@pytest.mark.parametrize("border", ["zero_gradient", "periodic", "reflecting"])
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("rk4", {}),
        ("range_scaled_euler", {}),
        ("strang", {"exact_flows": True}),
        ("semi_lagrangian", {"semi_lagrangian": True}),
    ],
)
def test_a_resting_atmosphere_under_uniform_pressure_stays_exactly_at_rest(name, how, border):
    grid = po.Grid2D.from_latlon([45.0 + 0.25 * i for i in range(8)], [0.25 * i for i in range(9)], border)
    state = resting(1e5)
    after = run(po.integrators[name](dry_air().compile(grid, **how), 600.0), state, 12)
    # Interpolation weights of semi-Lagrangian transport add up to 1 to round-off; everything else is exact.
    torch.testing.assert_close(after, state, rtol=1e-14 if name == "semi_lagrangian" else 0, atol=0)


def test_air_at_rest_over_relief_stays_at_rest_as_an_anomaly_and_not_as_surface_pressure():
    # Surface pressure over relief falls with height; nothing drives the air, but a gradient of it along the ground
    # looks as if something did. The deviation from the hydrostatic value at the local height is uniform: no force.
    grid = po.Grid2D.plane(8, 9, dx=2e4, f=1e-4)
    x, y = torch.meshgrid(torch.arange(9.0), torch.arange(8.0), indexing="xy")
    height = (600.0 * torch.sin(0.7 * x) * torch.cos(0.5 * y)).double()
    hydrostatic = 1e5 * torch.exp(-height * 9.81 / (287.0 * 288.0))
    anomaly = 150.0  # Pa above the standard atmosphere everywhere
    full = dry_air().compile(grid)
    deviation = po.PDESystem(
        "anomaly",
        {
            u: coriolis(v, f) + pressure_gradient_x(p, UNIT(1.2, "kg/m**3")),
            v: -coriolis(u, f) + pressure_gradient_y(p, UNIT(1.2, "kg/m**3")),
            p: -advection(p, u, v),
        },
    )
    rest = torch.zeros(1, 3, 8, 9, dtype=torch.float64)
    rest[:, 2] = anomaly
    after = run(po.integrators["rk4"](deviation.compile(grid), 600.0), rest, 12)
    assert torch.equal(after, rest)
    driven = run(po.integrators["rk4"](full, 60.0), resting(hydrostatic + anomaly), 1)
    assert driven[:, :2].abs().max() > 1.0  # m/s within a minute, out of nothing


# --- condensation ------------------------------------------------------------------------------------------

DRIP = po.PDESystem("drip", {q: -condensation(q, Q, po.Positive("lam", "1/hour", init=1.0))})
SPOT = po.Grid2D.plane(4, 5, dx=1e5)


def moist(seed):
    draw = torch.Generator().manual_seed(seed)
    state = 0.02 * torch.rand(2, 1, 4, 5, generator=draw, dtype=torch.float64)
    return state, {"Q": 0.02 * torch.rand(2, 4, 5, generator=draw, dtype=torch.float64)}


@pytest.mark.parametrize("name", ["strang", "lie"])
@given(dt=st.floats(1.0, 1e6), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_condensation_goes_to_saturation_exponentially_and_never_beyond_whatever_the_step(name, dt, seed):
    tendency = DRIP.compile(SPOT, exact_flows=True).double()
    state, closures = moist(seed)
    after = run(po.integrators[name](tendency, dt), state, 3, closures)
    excess = (state - closures["Q"][:, None]).clamp(min=0.0)
    rate = float(tendency.coefficients().detach())
    torch.testing.assert_close(after, state - excess * (1.0 - math.exp(-3.0 * rate * dt)), rtol=1e-10, atol=1e-16)
    saturated = state > closures["Q"][:, None]
    assert (after >= closures["Q"][:, None] - 1e-17)[saturated].all()


@given(dt=st.floats(60.0, 1e5), push=st.floats(-10.0, 1e4), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_under_limits_euler_does_not_pass_saturation_either_however_fast_condensation_is_learned(dt, push, seed):
    limits = stability.limits(SPOT, dt, max_wind=0.0, system=DRIP, max_substeps=100)
    tendency = DRIP.compile(SPOT, limits=limits)
    with torch.no_grad():
        tendency.coefficients.raw.fill_(push)
    state, closures = moist(seed)
    after = run(po.integrators["range_scaled_euler"](tendency, dt, rule="none"), state, 1, closures)
    floor = torch.minimum(state, closures["Q"][:, None])
    assert (after >= floor - 1e-17).all()  # round-off of 0.02 kg/kg
    assert (after <= state).all()


def test_supersaturated_air_ends_saturated_at_its_own_temperature_and_pressure():
    lam = UNIT(1.0, "1/hour")
    wet = condensation(q, saturation_humidity(temperature(theta, p), p), lam)
    system = po.PDESystem("moist", {p: 0.0, theta: 0.0, q: -wet})
    tendency = system.compile(SPOT, exact_flows=True)
    state = torch.zeros(1, 3, 4, 5, dtype=torch.float64)
    state[:, 0], state[:, 2] = 9.5e4, 0.05
    state[:, 1] = torch.linspace(270.0, 300.0, 20, dtype=torch.float64).reshape(4, 5)
    after = run(po.integrators["strang"](tendency, DT), state, 96)
    q_s = po.thermo.saturation_humidity(po.thermo.temperature(state[:, 1], state[:, 0]), state[:, 0])
    torch.testing.assert_close(after[:, 2], q_s, rtol=0, atol=0.05 * math.exp(-48.0) + 1e-15)


# --- a nudged rim ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "how"), [("rk4", {}), ("semi_lagrangian", {"semi_lagrangian": True})])
def test_a_nudged_rim_is_driven_to_its_reference_and_the_interior_is_left_alone(name, how):
    grid = po.Grid2D.plane(12, 13, dx=5e4, boundary=po.Boundary(rim=po.Rim(width=3, timescale=3600.0)))
    T, U, V = po.Field("T", "K"), po.Closure("U", "m/s"), po.Closure("V", "m/s")
    tendency = po.PDESystem("nudged", {T: -advection(T, U, V)}).compile(grid, **how)
    calm = torch.zeros((), dtype=torch.float64)
    state = torch.zeros(1, 1, 12, 13, dtype=torch.float64)
    closures = {"U": calm, "V": calm, "rim_T": calm + 5.0}
    after = run(po.integrators[name](tendency, 600.0), state, 36, closures)[0, 0]
    edge = 5.0 * (1.0 - math.exp(-6.0))  # six hours at the outermost rate; 600 s of RK4 or Heun err by (1/6)³/6 an hour
    assert float(after[0, 6]) == pytest.approx(edge, rel=1e-3)
    second = 5.0 * (1.0 - math.exp(-6.0 * (2.0 / 3.0) ** 2))
    assert float(after[1, 6]) == pytest.approx(second, rel=1e-3)
    assert (after[3:-3, 3:-3] == 0.0).all()


def test_inflow_carries_the_reference_of_a_nudged_rim_inwards():
    grid = po.Grid2D.plane(12, 13, dx=5e4, boundary="nudged")
    T, U, V = po.Field("T", "K"), po.Closure("U", "m/s"), po.Closure("V", "m/s")
    tendency = po.PDESystem("inflow", {T: -advection(T, U, V)}).compile(grid)
    wind = {"U": torch.tensor(10.0).double(), "V": torch.tensor(0.0).double(), "rim_T": torch.tensor(5.0).double()}
    after = run(po.integrators["ssprk3"](tendency, DT), torch.zeros(1, 1, 12, 13, dtype=torch.float64), 96, wind)
    torch.testing.assert_close(after, torch.full_like(after, 5.0), rtol=1e-3, atol=0)


# --- gradient of a day -------------------------------------------------------------------------------------


def test_the_gradient_through_48_steps_is_right_for_the_state_and_every_coefficient():
    kappa, drag = po.Positive("kappa", "m**2/s", init=2e4), po.Positive("drag", "1/day", init=1.7)
    lam = po.Positive("lam", "1/hour", init=0.5)
    moving = {a: -advection(a, u, v) + kappa * laplacian(a) for a in (u, v, q)}
    system = po.PDESystem(
        "day",
        {
            u: moving[u] + coriolis(v, f) - friction(u, drag),
            v: moving[v] - coriolis(u, f) - friction(v, drag),
            q: moving[q] - condensation(q, Q, lam),
        },
    )
    grid = po.Grid2D.plane(6, 7, dx=1e5, f=1e-4)
    tendency = system.compile(grid, limits=stability.limits(grid, DT, max_wind=30.0, system=system))
    step = po.integrators["range_scaled_euler"](tendency, DT, rule="none").double()
    draw = torch.Generator().manual_seed(0)
    # The turning wind crosses the kinks of upwind transport, but at no cell and step within the differences taken here.
    middle, size = torch.tensor([[9.0, 3.0, 9.0], [1.0, 1.0, 1e-3]], dtype=torch.float64)[..., None, None]
    state = size * (middle + torch.rand(1, 3, 6, 7, generator=draw, dtype=torch.float64))
    direction = torch.randn(state.shape, generator=draw, dtype=torch.float64) * state
    weights = torch.randn(state.shape, generator=draw, dtype=torch.float64) / state
    closures = {"Q": torch.full((), 8e-3, dtype=torch.float64)}
    raw = tendency.coefficients.raw.detach().clone()
    push = torch.randn(raw.shape, generator=draw, dtype=torch.float64)

    def loss(state, raw, gamma):
        parameters = {"tendency.coefficients.raw": raw, "gamma": gamma}
        x = state
        for _ in range(48):
            x = torch.func.functional_call(step, parameters, (x, closures))
        return (x * weights).sum()

    gamma = torch.full((3,), 0.9, dtype=torch.float64)  # inside its bounds, where both sides of a difference exist
    inputs = [a.clone().requires_grad_() for a in (state, raw, gamma)]
    gradients = torch.autograd.grad(loss(*inputs), inputs)
    ways = [(direction, 0 * raw, 0 * gamma), (0 * state, push, 0 * gamma), (0 * state, 0 * raw, torch.ones_like(gamma))]
    for way in ways:
        slope = float(sum((g * d).sum() for g, d in zip(gradients, way, strict=True)))
        eps = 1e-5  # central difference: error eps² of third derivatives, round-off 1e-16 / eps
        with torch.no_grad():
            at = [(state + s * eps * way[0], raw + s * eps * way[1], gamma + s * eps * way[2]) for s in (1, -1)]
            ahead, behind = (loss(*there) for there in at)
        assert slope == pytest.approx(float(ahead - behind) / (2 * eps), rel=1e-6)
