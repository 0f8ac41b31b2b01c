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
    k = po.Static("k", "m**2/s")
    for right in (k * laplacian(T), ops.diffusion(T, k)):
        tendency = po.PDESystem("mixed", {T: right}).compile(grid, statics={"k": 1e4})
        with pytest.raises(po.StabilityError, match="has a coefficient whose size is not known here"):
            stability.stable_time_step(tendency, 0.0)
        assert stability.stable_time_step(tendency, state=torch.ones(1, 1, 4, 6)) == pytest.approx(25.0, rel=1e-4)
    for right in (-kappa * laplacian(T), -nu * hyperdiffusion(T)):
        with pytest.raises(po.StabilityError, match="makes short waves grow, whatever the step"):
            stability.stable_time_step(po.PDESystem("sharpened", {T: right}).compile(grid), 0.0)


@pytest.mark.parametrize("wind", [-5.0, math.nan, math.inf, "3", torch.tensor([5.0, 3.0])])
def test_a_wind_that_is_no_speed_has_no_longest_step(wind):
    with pytest.raises(po.StabilityError, match="`max_wind` must be a number, finite and not negative"):
        stability.stable_time_step(po.Grid2D.plane(4, 6, dx=1e3), wind)
