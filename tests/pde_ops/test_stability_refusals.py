"""What the stability tools refuse: states that are not finite, and coefficients that a budget does not see."""

from __future__ import annotations

import math

import pytest
import torch

import pde_ops as po
from pde_ops import ops, stability
from pde_ops.ops import advection, hyperdiffusion, laplacian

u, v, T = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("T", "K")
kappa, nu = po.Positive("kappa", "m**2/s", init=1.0), po.Positive("nu", "m**4/s", init=1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_state_that_is_not_finite_is_refused_and_does_not_end_the_process(value):
    # LAPACK ends the process on a matrix that is not finite.
    grid = po.Grid2D.plane(4, 5, dx=1e3, boundary="periodic")
    tendency = po.PDESystem("wind", {u: -advection(u, u, v), v: -advection(v, u, v)}).compile(grid)
    state = torch.ones(1, 2, 4, 5)
    state[0, 1, 2, 3] = value
    for look in (
        lambda: stability.report(tendency, state, dt=60.0),
        lambda: stability.stable_time_step(tendency, state=state),
        lambda: stability.growth(tendency, state, 60.0),
    ):
        with pytest.raises(po.StabilityError, match=r"not finite: v \(1 cells\)"):
            look()
    with pytest.raises(po.StabilityError, match="batch of 0"):
        stability.stable_time_step(tendency, state=state[:0])


def test_a_coefficient_without_a_finite_value_is_named_by_its_term():
    grid = po.Grid2D.plane(4, 5, dx=1e3, boundary="periodic")
    mixed = po.PDESystem("mixed", {T: po.Static("k", "m**2/s") * laplacian(T)}).compile(grid, statics={"k": math.nan})
    with pytest.raises(po.StabilityError, match="no finite slope about this state: k ∇²T"):
        stability.stable_time_step(mixed, state=torch.ones(1, 1, 4, 5))


def test_numbers_before_a_coefficient_count_in_the_budget():
    grid = po.Grid2D.plane(4, 6, dx=1e3, boundary="periodic")
    state = torch.ones(1, 1, 4, 6)
    for factor in (1.0, 40.0, 0.25):
        tendency = po.PDESystem("mixed", {T: factor * kappa * laplacian(T)}).compile(grid)
        about = stability.stable_time_step(tendency, state=state)
        assert stability.stable_time_step(tendency, 0.0) == pytest.approx(about, rel=1e-5)
        limits = stability.limits(grid, dt=600.0, max_wind=0.0, system=po.PDESystem("m", dict(tendency.equations)))
        cap = limits.caps(tendency.equations)["kappa"]
        assert cap == pytest.approx(limits.diffusivity_cap / factor, rel=1e-5)


def test_a_budget_that_does_not_see_a_coefficient_says_so():
    grid = po.Grid2D.plane(4, 6, dx=1e3, boundary="periodic")
    k = po.Closure("k", "m**2/s")
    for right in (k * laplacian(T), ops.diffusion(T, k)):
        system = po.PDESystem("mixed", {T: right})
        tendency, state = system.compile(grid), torch.ones(1, 1, 4, 6)
        with pytest.raises(po.StabilityError, match="has a coefficient whose size is not known here"):
            stability.stable_time_step(tendency, 0.0)
        with pytest.raises(po.StabilityError, match="has a coefficient whose size is not known here"):
            stability.limits(grid, 600.0, system=system)
        assert "pass a state" in stability.report(tendency, dt=10.0).advice[0]
        closures = {"k": torch.full((1, 4, 6), 1e4)}
        about = stability.stable_time_step(tendency, state=state, closures=closures)
        assert about == pytest.approx(25.0, rel=1e-4)
    for right in (-kappa * laplacian(T), -nu * hyperdiffusion(T)):
        with pytest.raises(po.StabilityError, match="makes short waves grow, whatever the step"):
            stability.stable_time_step(po.PDESystem("sharpened", {T: right}).compile(grid), 0.0)


@pytest.mark.parametrize(
    ("right", "statics", "step"),
    [
        (po.Static("k", "m**2/s") * laplacian(T), {"k": 1e4}, 25.0),
        (ops.diffusion(T, po.Static("k", "m**2/s")), {"k": 1e4}, 25.0),
        (laplacian(T) * po.Static("k", "m**2/s") / 2.0, {"k": 2e4}, 25.0),
        (laplacian(T) / po.Static("k", "s/m**2"), {"k": 1e-4}, 25.0),
        (po.unit_registry.Quantity(1e4, "m**2/s") * laplacian(T), {}, 25.0),
        (po.Static("k", "1") * kappa * laplacian(T), {"k": -1e4}, 25.0),
        (-po.Static("k", "1/s") * T, {"k": 0.08}, 25.0),
        (-po.unit_registry.Quantity(0.08, "1/s") * T, {}, 25.0),
        (po.Static("k", "1/s") * (po.Closure("target", "K") - T), {"k": 0.08}, 25.0),
        (-ops.friction(T, po.Static("k", "1/s")), {"k": 0.08}, 25.0),
    ],
)
def test_numbers_and_statics_that_mix_or_relax_count_in_the_budget(right, statics, step):
    grid = po.Grid2D.plane(4, 6, dx=1e3, boundary="periodic")
    system = po.PDESystem("mixed", {T: right})
    tendency = system.compile(grid, statics=statics)
    assert stability.stable_time_step(tendency, 0.0) == pytest.approx(step, rel=1e-4)
    assert not stability.report(tendency, dt=1.1 * step).stable
    assert stability.report(tendency, dt=0.9 * step).stable
    chosen = stability.limits(grid, 10.0 * step, max_wind=0.0, system=system, statics=statics)
    assert chosen.substeps >= 10
    few = stability.limits(grid, 10.0 * step, max_wind=0.0)
    if system.coefficients:  # its cap is that of the product
        assert system.compile(grid, statics=statics, limits=chosen).coefficients.cap.item() < 2.1
        return
    with pytest.raises(po.StabilityError, match=r"times the .* 1/s that wind and sub-steps leave"):
        system.compile(grid, statics=statics, limits=few)
    if statics:
        with pytest.raises(po.StabilityError, match="pass the arrays of its statics"):
            stability.limits(grid, 10.0 * step, system=system)


def test_statics_leave_less_room_to_a_coefficient_beside_them():
    grid = po.Grid2D.plane(4, 6, dx=1e3, boundary="periodic")
    system = po.PDESystem("mixed", {T: kappa * laplacian(T) + po.Static("k", "m**2/s") * laplacian(T)})
    statics = {"k": 1e4}
    limits = stability.limits(grid, 60.0, max_wind=0.0, system=system, statics=statics)
    tendency = system.compile(grid, statics=statics, limits=limits)
    most = float(tendency.coefficients.cap[0])
    with torch.no_grad():
        tendency.coefficients.raw.fill_(1e9)
    assert most + 1e4 == pytest.approx(limits.diffusivity_cap, rel=1e-5)
    assert stability.report(tendency, torch.ones(1, 1, 4, 6), limits.part).stable


@pytest.mark.parametrize("wind", [-5.0, math.nan, math.inf, "3", torch.tensor([5.0, 3.0])])
def test_a_wind_that_is_no_speed_has_no_longest_step(wind):
    with pytest.raises(po.StabilityError, match="`max_wind` must be a number, finite and not negative"):
        stability.stable_time_step(po.Grid2D.plane(4, 6, dx=1e3), wind)
