"""Divergence, vorticity, rotation, pressure gradient, drag and nudging against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pde_ops import Field, Grid2D, PDESystem, Positive, Static
from pde_ops.constants import earth_radius
from pde_ops.flows import Flow
from pde_ops.ops import (
    coriolis,
    divergence,
    friction,
    metric_x,
    metric_y,
    pressure_gradient_x,
    pressure_gradient_y,
    quadratic_drag,
    relaxation,
    speed_limit,
    vorticity,
    wind_speed,
)

INNER = (slice(1, -1), slice(1, -1))


def plane() -> Grid2D:
    return Grid2D.plane(8, 9, dx=3000.0, dy=2000.0)


def europe() -> Grid2D:
    return Grid2D.from_latlon(np.arange(40.0, 61.0), np.arange(0.0, 12.0))


def full(value: float, grid: Grid2D) -> torch.Tensor:
    return torch.full((grid.ny, grid.nx), value, dtype=torch.float64)


def plane_wind() -> tuple[torch.Tensor, torch.Tensor]:
    """u = 2e-5 x - 7e-5 y, v = 4e-5 x + 3e-5 y: divergence 5e-5, vorticity 11e-5."""
    x = torch.arange(9, dtype=torch.float64)[None, :] * 3000.0
    y = torch.arange(8, dtype=torch.float64)[:, None] * 2000.0
    return 2e-5 * x - 7e-5 * y, 4e-5 * x + 3e-5 * y


def test_divergence_of_a_linear_wind_is_its_trace() -> None:
    result = divergence(*plane_wind(), grid=plane())
    torch.testing.assert_close(result[INNER], full(5e-5, plane())[INNER], rtol=1e-12, atol=0.0)


def test_vorticity_of_a_linear_wind_is_its_curl() -> None:
    result = vorticity(*plane_wind(), grid=plane())
    torch.testing.assert_close(result[INNER], full(11e-5, plane())[INNER], rtol=1e-12, atol=0.0)


def test_a_uniform_southerly_converges_towards_the_pole() -> None:
    # ∇·(0, v) = -v tan φ / R; rows 1 degree apart, error of order h²/4 with h = 0.0175.
    grid = europe()
    lat = torch.tensor(grid.lat)[:, None]
    expected = (-10.0 * torch.tan(lat) / earth_radius).expand(grid.ny, grid.nx)
    result = divergence(full(0.0, grid), full(10.0, grid), grid=grid)
    torch.testing.assert_close(result[INNER], expected[INNER], rtol=1e-4, atol=0.0)


def test_solid_rotation_has_vorticity_twice_its_rate_and_no_divergence() -> None:
    grid = europe()
    lat = torch.tensor(grid.lat)[:, None]
    rate = 1e-6
    u = (rate * earth_radius * torch.cos(lat)).expand(grid.ny, grid.nx)
    calm = full(0.0, grid)
    expected = (2.0 * rate * torch.sin(lat)).expand(grid.ny, grid.nx)
    # Means on faces of cos φ twice over: an error of 5/12 h² = 1.3e-4 with rows 1 degree apart.
    torch.testing.assert_close(vorticity(u, calm, grid=grid)[INNER], expected[INNER], rtol=2e-4, atol=0.0)
    assert divergence(u, calm, grid=grid).abs().max() < 1e-20


def test_no_air_passes_a_reflecting_wall() -> None:
    grid = europe().with_boundary("reflecting")
    torch.manual_seed(0)
    u, v = torch.randn(2, grid.ny, grid.nx, dtype=torch.float64)
    amount = divergence(u, v, grid=grid) * torch.tensor(grid.cell_area)[:, None]
    assert abs(amount.sum()) < 1e-13 * amount.abs().sum()


def test_pressure_falling_eastwards_pushes_eastwards() -> None:
    grid = plane()
    x = torch.arange(9, dtype=torch.float64)[None, :].expand(8, 9) * 3000.0
    y = torch.arange(8, dtype=torch.float64)[:, None].expand(8, 9) * 2000.0
    p = 1e5 - 2e-3 * x + 1e-3 * y
    rho = full(1.25, grid)
    east, north = pressure_gradient_x(p, rho, grid=grid), pressure_gradient_y(p, rho, grid=grid)
    # Differences of 1e5 Pa over 6 km carry 1e-11 / 6 relative to the slope of 1e-3: 1e-8 is ample.
    torch.testing.assert_close(east[INNER], full(1.6e-3, grid)[INNER], rtol=1e-8, atol=0.0)
    torch.testing.assert_close(north[INNER], full(-0.8e-3, grid)[INNER], rtol=1e-8, atol=0.0)


def test_without_the_pressure_gradient_force_both_components_go() -> None:
    u, v, p = Field("u", "m/s"), Field("v", "m/s"), Field("p", "Pa")
    rho = Static("rho", "kg/m**3")
    system = PDESystem("air", {u: pressure_gradient_x(p, rho), v: pressure_gradient_y(p, rho), p: 0.0})
    assert not list(system.without("pressure_gradient_force").calls())


def test_metric_terms_turn_the_wind_without_doing_work() -> None:
    grid = Grid2D.from_latlon([44.0, 45.0, 46.0], range(4))
    u, v = full(20.0, grid), full(10.0, grid)
    east, north = metric_x(u, v, grid=grid), -metric_y(u, grid=grid)
    assert float(east[1, 0]) == pytest.approx(200.0 / earth_radius, rel=1e-12)  # tan 45° = 1
    assert float(north[1, 0]) == pytest.approx(-400.0 / earth_radius, rel=1e-12)
    assert (u * east + v * north).abs().max() < 1e-18


def test_coriolis_turns_the_wind_to_the_right_in_the_north() -> None:
    u = Field("u", "m/s")
    v = Field("v", "m/s")
    f = Static("f", "1/s")
    grid = Grid2D.plane(4, 4, dx=1e4, f=1e-4)
    tendency = PDESystem("inertial", {u: coriolis(v, f), v: -coriolis(u, f)}).compile(grid).double()
    eastward = torch.stack([full(10.0, grid), full(0.0, grid)])[None]
    change = tendency(eastward)[0]
    assert change[0].abs().max() == 0.0
    torch.testing.assert_close(change[1], full(-1e-3, grid), rtol=1e-12, atol=0.0)


def test_friction_decays_exponentially_when_the_step_is_known() -> None:
    grid = plane()
    a, r = full(8.0, grid), torch.tensor(1e-4, dtype=torch.float64)
    torch.testing.assert_close(friction(a, r, grid=grid), full(8e-4, grid))
    assert isinstance(friction.flow, Flow)
    after = friction.flow.update(a, r, dt=7200.0)
    torch.testing.assert_close(after, full(8.0 * math.exp(-0.72), grid), rtol=1e-14, atol=0.0)


def test_quadratic_drag_grows_with_the_speed_of_the_wind() -> None:
    grid = plane()
    u, v, c = full(3.0, grid), full(-4.0, grid), torch.tensor(2e-6, dtype=torch.float64)
    torch.testing.assert_close(quadratic_drag(u, u, v, c, grid=grid), full(3.0e-5, grid), rtol=1e-14, atol=0.0)


def test_wind_speed_is_the_length_of_the_vector() -> None:
    grid = plane()
    assert torch.equal(wind_speed(full(-3.0, grid), full(4.0, grid), grid=grid), full(5.0, grid))


def test_calm_air_has_no_slope_of_speed_rather_than_nan() -> None:
    grid = plane()
    u, v = full(0.0, grid).requires_grad_(), full(0.0, grid).requires_grad_()
    result = wind_speed(u, v, grid=grid) + speed_limit(u, v, 40.0, grid=grid)
    for gradient in torch.autograd.grad(result.sum(), (u, v)):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize(("speed", "share"), [(0.0, 1.0), (24.9, 1.0), (25.0, 1.0), (50.0, 0.5), (1e6, 2.5e-5)])
def test_a_speed_limit_touches_only_faster_wind(speed: float, share: float) -> None:
    grid = plane()
    result = speed_limit(full(0.6 * speed, grid), full(0.8 * speed, grid), 25.0, grid=grid)
    torch.testing.assert_close(result, full(share, grid), rtol=1e-14, atol=0.0)


def test_a_speed_limit_of_zero_stops_every_wind() -> None:
    grid = plane()
    assert torch.equal(speed_limit(full(3.0, grid), full(0.0, grid), 0.0, grid=grid), full(0.0, grid))
    assert torch.equal(speed_limit(full(0.0, grid), full(0.0, grid), 0.0, grid=grid), full(1.0, grid))


def test_a_broken_wind_is_not_hidden_by_the_speed_limit() -> None:
    grid = plane()
    assert torch.isnan(speed_limit(full(math.nan, grid), full(1.0, grid), 40.0, grid=grid)).all()


def test_relaxation_closes_the_gap_to_its_target() -> None:
    grid = plane()
    a, target, rate = full(280.0, grid), full(290.0, grid), torch.tensor(1e-3, dtype=torch.float64)
    torch.testing.assert_close(relaxation(a, target, rate, grid=grid), full(0.01, grid), rtol=1e-12, atol=0.0)
    assert isinstance(relaxation.flow, Flow)
    after = relaxation.flow.update(a, target, rate, dt=1000.0)
    torch.testing.assert_close(after, full(290.0 - 10.0 * math.exp(-1.0), grid), rtol=1e-14, atol=0.0)


def test_relaxation_is_taken_as_a_closed_form_where_it_is_added() -> None:
    T = Field("T", "K")
    target, rate = Static("lat", "dimensionless"), Positive("rate", "1/hour", init=1.0)
    q = Field("q", "kg/kg")
    system = PDESystem("nudged", {T: 0.0, q: relaxation(q, target, rate)})
    assert len(system.compile(plane(), exact_flows=True).flows) == 1
