"""Stability: figures of two real domains, limits that keep every mode in check and no tighter, and the report."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pde_ops as po
from pde_ops import ops, stability
from pde_ops.ops import (
    advection,
    advection_central2,
    advection_upwind3,
    coriolis,
    friction,
    hyperdiffusion,
    laplacian,
    laplacian4,
    quadratic_drag,
)

u, v, T = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("T", "K")
U, V, f = po.Closure("U", "m/s"), po.Closure("V", "m/s"), po.Static("f", "1/s")
kappa, nu = po.Positive("kappa", "m**2/s", init=1.0), po.Positive("nu", "m**4/s", init=1.0)
r, weak = po.Positive("r", "1/day", init=1.7), po.Positive("weak", "1/day", init=0.1)
DT = 1800.0


def north_west_france():
    """32 x 32 cells of 18.8 km in y and 18-20 km in x."""
    lat = 46.25 + np.rad2deg(18.8e3 / 6.371e6) * np.arange(32)
    return po.Grid2D.from_latlon(lat, -5.5 + 0.26 * np.arange(32))


def china():
    """32 x 46 cells of 124.8 km in y and 92-144 km in x."""
    lat = 18.0 + np.rad2deg(124.8e3 / 6.371e6) * np.arange(32)
    return po.Grid2D.from_latlon(lat, 73.0 + 1.362 * np.arange(46))


# --- figures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "widest", "narrowest", "wind", "diffusivity"),
    [(china(), 0.25, 0.39, 41.0, 1.5e6), (north_west_france(), 1.8, 2.0, 7.2, 4.7e4)],
    ids=["China", "NW France"],
)
def test_figures_of_the_two_domains(grid, widest, narrowest, wind, diffusivity):
    # The figures are quoted to two digits; the grids are rebuilt from their spacings, which moves the third.
    assert stability.courant_number(grid, 20.0, 0.0, DT) == pytest.approx(narrowest, rel=0.03)
    assert 20.0 * DT / grid.dx.max() == pytest.approx(widest, rel=0.03)
    assert stability.wind_limit(grid, DT) == pytest.approx(wind, rel=0.03)
    assert stability.diffusivity_limit(grid, DT) == pytest.approx(diffusivity, rel=0.03)


@pytest.mark.parametrize(("grid", "substeps"), [(china(), 2), (north_west_france(), 6)], ids=["China", "NW France"])
def test_sub_steps_of_the_two_domains(grid, substeps):
    start = 0.01 * grid.dx.min() ** 2 / DT
    assert stability.limits(grid, DT, diffusivity=start).substeps == substeps


@pytest.mark.parametrize(("latitude", "factor"), [(35.0, 1.7), (49.0, 2.5)])
def test_euler_amplifies_a_turning_wind_by_the_documented_factor_a_day(latitude, factor):
    turn = 2.0 * 7.292e-5 * math.sin(math.radians(latitude))
    assert stability.rotation_growth(turn, DT) == pytest.approx(factor, abs=0.05)


def test_the_friction_floor_is_half_f_squared_dt_and_stops_the_growth_exactly():
    turn = 1.1e-4  # 49° N
    floor = stability.friction_floor(turn, DT)
    assert floor == pytest.approx(0.5 * turn**2 * DT, rel=0.02)  # next term: (f Δt)²/4 = 1 %
    assert floor == pytest.approx(1.1e-5, rel=0.02)
    assert stability.rotation_growth(turn, DT, floor) == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(po.StabilityError, match="exact_flows=True"):
        stability.friction_floor(1e-3, DT)


@given(angle=st.floats(0.0, 2 * math.pi), aspect=st.floats(0.2, 5.0))
def test_no_wind_direction_exceeds_the_courant_number_of_the_bound_and_one_reaches_it(angle, aspect):
    grid = po.Grid2D.plane(4, 4, dx=1e4, dy=1e4 * aspect)
    limit = stability.wind_limit(grid, DT)
    here = stability.courant_number(grid, limit * math.cos(angle), limit * math.sin(angle), DT)
    worst = math.atan2(1.0, aspect)  # tan α = dx/dy
    assert here <= 1.0 + 1e-12
    reached = stability.courant_number(grid, limit * math.cos(worst), limit * math.sin(worst), DT)
    assert reached == pytest.approx(1.0, abs=1e-12)


def test_courant_number_of_a_field_takes_the_width_of_each_row():
    grid = north_west_france()
    wind = torch.zeros(2, 32, 32)
    wind[1, 0, 5] = 10.0
    assert stability.courant_number(grid, wind, 0.0, DT) == pytest.approx(10.0 * DT / grid.dx[0])
    assert stability.courant_number(grid, 0.0, wind, DT) == pytest.approx(10.0 * DT / grid.dy)


def test_stable_time_step_of_a_grid_and_of_a_compiled_system():
    grid = north_west_france()
    longest = stability.stable_time_step(grid, 20.0)
    assert stability.wind_limit(grid, longest) == pytest.approx(20.0)
    assert stability.stable_time_step(grid, 20.0, diffusivity=1e4) < longest
    assert stability.stable_time_step(grid, 0.0) == math.inf
    system = po.PDESystem("heat", {T: po.Positive("k", "m**2/s", init=1e4) * laplacian(T)})
    from_system = stability.stable_time_step(system.compile(grid), 0.0)
    assert from_system == pytest.approx(stability.stable_time_step(grid, 0.0, diffusivity=1e4), rel=1e-6)


# --- limits ------------------------------------------------------------------------------------------------


def at_their_caps(tendency):
    """The same tendency with every coefficient as large as its cap lets it become."""
    coefficients = tendency.coefficients
    with torch.no_grad():
        coefficients.raw.copy_(50.0 * coefficients.cap / coefficients.scale)
    return tendency.double()


def blowing(grid, speed, angle, fields=1):
    state = torch.zeros(1, fields, grid.ny, grid.nx, dtype=torch.float64)
    east, north = torch.tensor([speed * math.cos(angle), speed * math.sin(angle)], dtype=torch.float64)
    return state, {"U": east, "V": north}


MIXED = {
    "diffusion": kappa * laplacian(T),
    "divergence form": ops.diffusion(T, kappa),
    "fourth order": kappa * laplacian4(T),
    "at radius 3": kappa * ops.laplacian_scale(T, radius=3),
    "hyperdiffusion": nu * hyperdiffusion(T),
    "friction": -friction(T, r),
    "all": kappa * laplacian(T) + nu * hyperdiffusion(T) - friction(T, r),
    "twice": kappa * laplacian(T) + kappa * laplacian4(T),
}
spacing, speeds = st.floats(1e3, 2e5), st.floats(0.0, 60.0)


@pytest.mark.parametrize("mixing", list(MIXED))
@given(dx=spacing, aspect=st.floats(0.3, 3.0), dt=st.floats(60.0, 7200.0), wind=speeds, way=st.floats(0.0, 6.3))
@settings(max_examples=12)
def test_no_mode_grows_within_the_limits_with_every_coefficient_at_its_cap(mixing, dx, aspect, dt, wind, way):
    grid = po.Grid2D.plane(4, 4, dx=dx, dy=dx * aspect)
    assume(dt * wind * stability.inverse_spacings(grid)[0] < 15.0)
    limits = stability.limits(grid, dt, max_wind=wind)
    system = po.PDESystem("limited", {T: -advection(T, U, V) + MIXED[mixing]})
    assume(all(s.init < limits.caps(system.equations)[s.name] for s in system.coefficients))
    tendency = at_their_caps(system.compile(grid, limits=limits))
    # along the worst direction, along a drawn one, and for a wind that the limit has to shorten
    for angle, speed in ((math.atan2(1.0, aspect), wind), (way, wind), (way, 3.0 * wind)):
        state, closures = blowing(grid, speed, angle)
        assert stability.growth(tendency, state, limits.part, closures=closures) <= 1.0 + 1e-12


@pytest.mark.parametrize("mixing", ["diffusion", "divergence form", "fourth order", "hyperdiffusion", "all"])
def test_limits_are_tight_a_step_two_percent_longer_lets_a_mode_grow(mixing):
    grid = north_west_france()
    limits = stability.limits(grid, DT, max_wind=30.0)
    system = po.PDESystem("limited", {T: -advection(T, U, V) + MIXED[mixing]})
    tendency = at_their_caps(system.compile(grid, limits=limits))
    state, closures = blowing(grid, 30.0, math.atan2(grid.dx.min(), grid.dy))
    assert stability.growth(tendency, state, limits.part, closures=closures) <= 1.0 + 1e-6
    # the shortest wave is multiplied by 1 - 2 · 1.02
    assert stability.growth(tendency, state, 1.02 * limits.part, closures=closures) == pytest.approx(1.04, abs=0.002)


@pytest.mark.parametrize("name", ["ssprk3", "rk4"])
@pytest.mark.parametrize("scheme", [advection_upwind3, advection_central2, ops.advection_central4, ops.advection_flux])
def test_runge_kutta_keeps_the_sharper_schemes_stable_within_the_limits(scheme, name):
    grid = po.Grid2D.plane(4, 4, dx=1e4, dy=1.3e4)
    system = po.PDESystem("sharp", {T: -scheme(T, U, V) + MIXED["all"]})
    polynomial = po.integrators[name].polynomial
    for wind in (5.0, 20.0, 40.0):
        limits = stability.limits(grid, 600.0, max_wind=wind)
        tendency = at_their_caps(system.compile(grid, limits=limits))
        for angle in np.linspace(0.0, math.pi / 2, 5):
            state, closures = blowing(grid, wind, float(angle))
            assert stability.growth(tendency, state, limits.part, polynomial, closures) <= 1.0 + 1e-9


def test_euler_lets_central_and_third_order_transport_grow_at_any_step():
    for scheme in (advection_central2, advection_upwind3, ops.advection_central4, ops.advection_flux_central2):
        for courant in (1.0, 0.1, 0.01):
            assert stability.transport_growth(scheme, po.integrators["euler"].polynomial, courant) > 1.0 + 1e-7
    assert stability.transport_growth(advection, po.integrators["euler"].polynomial) <= 1.0 + 1e-12


@given(courant=st.floats(0.01, 0.99), share=st.floats(0.05, 2.0))
def test_central_euler_needs_a_diffusivity_of_half_the_squared_wind_times_the_step(courant, share):
    assume(abs(share - 1.0) > 0.02)
    dx, dt = 1e4, 100.0
    wind = courant * dx / dt
    need = 0.5 * wind**2 * dt
    assume(share * need < 0.5 * dx**2 / dt)
    k = po.Positive("k", "m**2/s", init=share * need)
    system = po.PDESystem("central", {T: -advection_central2(T, U, V) + k * laplacian(T)})
    # wide cells in y, so that diffusion along y takes nothing of its limit
    tendency = system.compile(po.Grid2D.plane(4, 4, dx=dx, dy=1e9)).double()
    state, closures = blowing(tendency.grid, wind, 0.0)
    # The most unstable wave of a weak wind grows by some C²(1 - share)² a step; round-off of double is far below.
    grows = stability.growth(tendency, state, dt, closures=closures) > 1.0 + 1e-11
    assert grows is (share < 1.0)


def test_a_relaxation_at_its_cap_does_not_overshoot():
    limits = stability.limits(po.Grid2D.plane(4, 4, dx=1e6), DT, max_wind=0.0)
    assert limits.rate_cap * limits.part <= 1.0


def test_coefficients_of_one_equation_share_what_the_wind_leaves():
    limits = stability.limits(north_west_france(), DT)
    alone = limits.caps({T: kappa * laplacian(T)})["kappa"]
    assert alone == pytest.approx(limits.diffusivity_cap)
    assert limits.caps({T: kappa * laplacian(T) - friction(T, r)})["kappa"] == pytest.approx(alone / 2)
    assert limits.caps({T: kappa * laplacian(T), u: -friction(u, r)})["kappa"] == pytest.approx(alone)


def test_fourth_order_curvature_costs_a_third_more_than_second_order():
    limits = stability.limits(north_west_france(), DT)
    second, fourth = (limits.caps({T: kappa * op(T)})["kappa"] for op in (laplacian, laplacian4))
    assert second / fourth == pytest.approx(4.0 / 3.0)


def test_quadratic_drag_is_capped_by_the_largest_wind():
    c = po.Positive("c", "1/m", init=1e-9)
    limits = stability.limits(north_west_france(), DT, max_wind=20.0)
    cap = limits.caps({u: -quadratic_drag(u, u, v, c)})["c"]
    assert cap * 20.0 == pytest.approx(limits.room)


def test_friction_of_a_turning_wind_has_a_floor_and_other_rates_have_none():
    grid = north_west_france()
    limits = stability.limits(grid, DT)
    system = po.PDESystem(
        "wind",
        {
            u: coriolis(v, f) - friction(u, r),
            v: -coriolis(u, f) - friction(v, r),
            T: -friction(T, weak),
        },
    )
    floors = limits.floors(system.equations)
    assert floors == {"r": pytest.approx(stability.friction_floor(np.abs(grid.f).max(), limits.part))}
    tendency = system.compile(grid, limits=limits)
    with torch.no_grad():
        tendency.coefficients.raw.fill_(-1e3)  # as low as it goes
    state = torch.ones(1, 3, 32, 32)
    assert stability.growth(tendency, state, limits.part) <= 1.0 + 1e-6
    exact = system.compile(grid, limits=limits, exact_flows=True)
    assert exact.coefficients.floor.max() == 0.0
    assert torch.isinf(exact.coefficients.cap).all()  # a closed form needs no bound


@given(courant=st.floats(0.05, 0.999), turn=st.floats(0.001, 0.3))
@settings(max_examples=25)
def test_rotation_left_in_the_tendency_lets_a_quarter_wave_grow_by_the_documented_factor(courant, turn):
    # Upwind factors (1 - C) + C exp(-ik) lie on a circle that touches 1; rotation shifts it by i f Δt.
    grid = po.Grid2D.plane(4, 4, dx=1e4, f=turn / 100.0)
    system = po.PDESystem("turning", {u: -advection(u, U, V) + coriolis(v, f), v: -advection(v, U, V) - coriolis(u, f)})
    state, closures = blowing(grid, courant * 100.0, 0.0, fields=2)
    grown = stability.growth(system.compile(grid).double(), state, 100.0, closures=closures)
    bound = courant + math.hypot(1.0 - courant, turn)
    assert grown <= bound + 1e-9
    assert grown == pytest.approx(bound, rel=0.01)  # 48 waves an axis do not meet the worst one exactly


def test_a_friction_below_its_floor_is_refused_at_compile():
    grid = north_west_france()
    system = po.PDESystem("wind", {u: coriolis(v, f) - friction(u, weak), v: -coriolis(u, f) - friction(v, weak)})
    with pytest.raises(po.DeclarationError, match="keep a turning wind from growing"):
        system.compile(grid, limits=stability.limits(grid, DT, max_wind=7.0))


def test_a_nudged_rim_takes_its_share_of_the_budget():
    open_, nudged = (stability.limits(north_west_france().with_boundary(b), DT) for b in ("zero_gradient", "nudged"))
    assert nudged.room == pytest.approx(open_.room - 0.5 / 3600.0)


def test_limits_for_a_system_leave_its_coefficients_room_to_double():
    grid = north_west_france()
    system = po.PDESystem("heat", {T: -advection(T, U, V) + po.Positive("k", "m**2/s", init=2e4) * laplacian(T)})
    with pytest.raises(po.DeclarationError, match="not below its cap"):
        system.compile(grid, limits=stability.limits(grid, DT, max_wind=41.0))
    limits = stability.limits(grid, DT, max_wind=41.0, system=system)
    assert limits.caps(system.equations)["k"] >= 4e4


def test_limits_refuse_what_cannot_be_made_stable_and_name_semi_lagrangian_transport():
    grid = po.Grid2D.plane(4, 4, dx=1e3)
    with pytest.raises(po.StabilityError, match="semi_lagrangian=True"):
        stability.limits(grid, DT)
    with pytest.raises(po.StabilityError, match="2 were asked for"):
        stability.limits(north_west_france(), DT, substeps=2)


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf])
def test_limits_and_report_refuse_a_time_step_that_is_not_a_positive_number(dt):
    with pytest.raises(po.StabilityError, match="finite and positive"):
        stability.limits(north_west_france(), dt)
    with pytest.raises(po.StabilityError, match="finite and positive"):
        stability.report(surface().compile(north_west_france()), dt=dt)


@pytest.mark.parametrize("name", ["max_wind", "diffusivity", "rate"])
def test_limits_refuse_values_that_are_not_finite(name):
    with pytest.raises(po.StabilityError, match=name):
        stability.limits(north_west_france(), DT, **{name: math.nan})


# --- report ------------------------------------------------------------------------------------------------


def surface(scheme=advection, drag=r):
    k = po.Positive("k", "m**2/s", init=2e3)
    return po.PDESystem(
        "wind",
        {
            u: -scheme(u, u, v) + k * laplacian(u) + coriolis(v, f) - friction(u, drag),
            v: -scheme(v, u, v) + k * laplacian(v) - coriolis(u, f) - friction(v, drag),
        },
    )


def windy(speed):
    return torch.full((1, 2, 32, 32), speed / math.sqrt(2.0))


def test_the_report_finds_a_wind_that_is_too_fast_and_says_which_step_to_take():
    tendency = surface().compile(north_west_france(), exact_flows=True)
    found = stability.report(tendency, windy(20.0), DT)
    assert not found.stable
    assert found.courant == pytest.approx(2.77, abs=0.02)  # both axes: 20/√2 · 1800 · (1/18.0 + 1/18.8) / 1000
    assert found.growth > 4.0
    assert "NOT stable" in str(found)
    step = float(str(found).split("pass dt=")[1].split(",")[0])
    assert stability.report(tendency, windy(20.0), step).growth <= 1.0 + 1e-3  # the step is printed to four digits


def test_the_report_finds_euler_rotation_without_enough_friction():
    tendency = surface(drag=weak).compile(north_west_france())
    found = stability.report(tendency, windy(3.0), DT)
    expected = stability.rotation_growth(tendency.grid.f.max(), DT, 0.1 / 86400.0)
    assert found.rotation_growth == pytest.approx(expected, rel=1e-5)
    assert found.friction_floor == pytest.approx(1.18e-5, rel=0.01)
    assert any("exact_flows=True" in line for line in found.advice)
    assert stability.report(surface(drag=weak).compile(north_west_france(), exact_flows=True), windy(3.0), DT).stable


def test_the_report_finds_a_scheme_that_euler_amplifies_and_clears_it_for_rk4():
    tendency = surface(advection_central2).compile(north_west_france())
    found = stability.report(tendency, windy(10.0), 300.0)  # which would need 1.5e4 m²/s of diffusion and has 2e3
    assert any("advection_central2" in line and "ssprk3" in line for line in found.advice)
    assert stability.report(tendency, windy(10.0), 300.0, scheme="rk4").stable


def test_the_report_counts_the_cells_whose_wind_is_limited():
    tendency = surface().compile(north_west_france(), limits=stability.limits(north_west_france(), DT, max_wind=30.0))
    state = windy(10.0)
    state[0, 0, :3, 0] = 60.0
    found = stability.report(tendency, state)
    assert (found.clamped_cells, found.cells) == (3, 1024)
    assert found.wind == pytest.approx(30.0)
    assert found.stable
    assert "3 of 1024 cells" in str(found)


def test_the_report_without_a_state_takes_the_largest_wind():
    grid = north_west_france()
    free = stability.report(surface().compile(grid), dt=DT)
    limited = stability.report(surface().compile(grid, limits=stability.limits(grid, DT)))
    assert not free.stable
    assert free.wind == 40.0
    assert limited.stable
    assert limited.substeps == 6
    assert limited.growth is None


def test_the_report_sees_couplings_that_no_single_term_shows():
    # Gravity waves: nothing is advected or mixed, yet Euler amplifies them at any step and RK4 below √8 / (c k).
    h = po.Field("h", "m")
    g, depth = po.units.registry.Quantity(9.81, "m/s**2"), po.units.registry.Quantity(1000.0, "m")
    system = po.PDESystem(
        "shallow water", {u: -g * ops.gradient_x(h), v: -g * ops.gradient_y(h), h: -depth * ops.divergence(u, v)}
    )
    tendency = system.compile(po.Grid2D.plane(8, 8, dx=1e4))
    state = torch.zeros(1, 3, 8, 8)
    assert not stability.report(tendency, state, 100.0).stable
    assert stability.report(tendency, state, 100.0, scheme="rk4").stable
    # central differences over two cells: largest k is 1/dx along each axis
    limit = math.sqrt(8.0) / (math.sqrt(9.81 * 1000.0) * math.sqrt(2.0) / 1e4)
    assert stability.report(tendency, state, 0.99 * limit, scheme="rk4").stable
    assert not stability.report(tendency, state, 1.01 * limit, scheme="rk4").stable


def shallow_water():
    """Return a basin of 1 km with one deep cell of 4 km, and the longest step of RK4 there: √8 / (c k)."""
    h, g = po.Field("h", "m"), po.units.registry.Quantity(9.81, "m/s**2")
    system = po.PDESystem(
        "basin",
        {
            u: -advection(u, u, v) - g * ops.gradient_x(h),
            v: -advection(v, u, v) - g * ops.gradient_y(h),
            h: -advection(h, u, v) - h * ops.divergence(u, v),
        },
    )
    state = torch.zeros(1, 3, 8, 8, dtype=torch.float64)
    state[:, 2] = 1000.0
    state[0, 2, 3, 5] = 4000.0
    grid = po.Grid2D.plane(8, 8, dx=1e4, boundary="periodic")
    return system, grid, state, math.sqrt(8.0) / (math.sqrt(9.81 * 4000.0) * math.sqrt(2.0) / 1e4)


def test_the_longest_step_about_a_state_is_that_of_its_fastest_wave():
    system, grid, state, limit = shallow_water()
    tendency = system.compile(grid).double()
    assert stability.stable_time_step(tendency, state=state, scheme="rk4") == pytest.approx(limit, rel=1e-3)
    third = stability.stable_time_step(tendency, state=state, scheme="ssprk3")
    assert third == pytest.approx(limit * math.sqrt(3.0 / 8.0), rel=1e-3)
    with pytest.raises(po.StabilityError, match=r"euler lets `-h ∇·\(u,v\)` in dh/dt.* grow at any step.*rk4"):
        stability.stable_time_step(tendency, state=state)


def test_a_step_below_the_longest_holds_and_one_above_diverges():
    system, grid, state, _ = shallow_water()
    state[:, 2] = 4000.0 + torch.randn(8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    tendency = system.compile(grid).double()
    longest = stability.stable_time_step(tendency, state=state, scheme="rk4")
    ranges = []
    for share in (0.95, 1.1):
        step, final = po.integrators["rk4"](tendency, share * longest), state
        with torch.no_grad():
            for _ in range(60):
                final = step(final)
        ranges.append(float((final[:, 2] - 4000.0).abs().nan_to_num(1e30).max()))
    assert ranges[0] < 10.0 and ranges[1] > 1e3


def test_what_does_not_see_waves_does_not_speak_of_them():
    system, grid, _, _ = shallow_water()
    with pytest.raises(po.StabilityError, match=r"u, v, h of 'basin' carry waves.*pass state="):
        stability.stable_time_step(system.compile(grid))
    with pytest.raises(po.StabilityError, match="carry waves, which limits of wind"):
        stability.limits(grid, 300.0, system=system)
    limited = system.compile(grid, limits=stability.limits(grid, 300.0))
    with pytest.raises(po.StabilityError, match="do not bound the waves of u, v, h"):
        po.integrators["rk4"](limited, 10.0)


def test_the_report_names_the_terms_of_a_wave_and_a_step_that_it_clears():
    system, grid, state, limit = shallow_water()
    tendency = system.compile(grid).double()
    summary = stability.report(tendency, state, 300.0, scheme="rk4")
    assert not summary.stable and "∇·(u,v)` in dh/dt" in str(summary) and "rotation" not in str(summary)
    assert f"pass dt={limit:.4g}" in summary.advice[0]
    assert stability.report(tendency, state, 0.99 * limit, scheme="rk4").stable
    assert "no step is short enough" in stability.report(tendency, state, 60.0).advice[0]


def test_fields_that_only_carry_or_turn_one_another_make_no_waves():
    h, q = po.Field("h", "m"), po.Field("q", "m")
    rate = po.Positive("rate", "1/s", init=1e-4)
    carried = {u: -advection(u, u, v) + coriolis(v, f), v: -advection(v, u, v) - coriolis(u, f), h: -advection(h, u, v)}
    assert stability.wave_fields(po.PDESystem("carried", carried).equations) == ()
    exchanged = {h: rate * (q - h) + kappa * laplacian(h), q: rate * (h - q)}
    assert stability.wave_fields(po.PDESystem("exchanged", exchanged).equations) == ()
    g = po.units.registry.Quantity(9.81, "m/s**2")
    flux = {u: -g * ops.gradient_x(h), v: -g * ops.gradient_y(h), h: -ops.advection_flux(h, u, v)}
    assert stability.wave_fields(po.PDESystem("flux", flux).equations) == ("u", "v", "h")


def test_about_a_state_no_other_numbers_are_taken():
    system, grid, state, _ = shallow_water()
    with pytest.raises(po.StabilityError, match="leave the other numbers out"):
        stability.stable_time_step(system.compile(grid).double(), 10.0, state=state, scheme="rk4")
    with pytest.raises(po.StabilityError, match="belongs to a compiled system and a state"):
        stability.stable_time_step(grid, scheme="rk4")


def test_the_report_needs_a_step_and_an_explicit_scheme():
    tendency = surface().compile(north_west_france())
    with pytest.raises(po.DeclarationError, match="pass dt="):
        stability.report(tendency)
    with pytest.raises(po.DeclarationError, match="name its inner integrator"):
        stability.report(tendency, dt=DT, scheme="strang")
