"""The air aloft against closed forms: the hypsometric equation, columns over terrain, geostrophic and thermal wind."""

from __future__ import annotations

import math

import numpy as np
import torch

from pde_ops import Grid2D
from pde_ops.constants import R_d, g
from pde_ops.ops import column_depth, geostrophic_x, geostrophic_y, gradient, hydrostatic_geopotential

F, LEAST = 1e-4, 2e-5
INNER = (slice(1, -1), slice(1, -1))


def plane(f: float = F) -> Grid2D:
    return Grid2D.plane(8, 9, dx=50e3, dy=40e3, f=f)


def axes() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(9, dtype=torch.float64)[None, :].expand(8, 9) * 50e3
    y = torch.arange(8, dtype=torch.float64)[:, None].expand(8, 9) * 40e3
    return x, y


def wind(phi: torch.Tensor, grid: Grid2D, least: float = LEAST) -> tuple[torch.Tensor, torch.Tensor]:
    f = torch.tensor(grid.f)[:, None]
    return geostrophic_x(phi, f, least, grid=grid), geostrophic_y(phi, f, least, grid=grid)


def test_a_column_between_two_pressures_is_as_deep_as_the_hypsometric_equation_says() -> None:
    p = torch.full((8, 9), 1e5, dtype=torch.float64)
    depth = column_depth(p, 5e4, grid=plane()) * 270.0 / g
    torch.testing.assert_close(depth, torch.full_like(p, R_d * 270.0 * math.log(2.0) / g), rtol=1e-14, atol=0.0)
    assert 5400.0 < float(depth[0, 0]) < 5500.0  # the usual thickness of 1000 to 500 hPa, m


def test_a_uniformly_warmer_column_over_terrain_has_no_geopotential_gradient() -> None:
    x, y = axes()
    height = 1500.0 * torch.sin(x / 150e3) ** 2 + 1e-3 * y
    cold, warming = 280.0, 0.01  # small, as the geopotential is of first order in departures
    p, warmer = (1e5 * torch.exp(-g * height / (R_d * t)) for t in (cold, cold + warming))
    phi = hydrostatic_geopotential(
        torch.full_like(p, warming), warmer - p, column_depth(p, 5e4, grid=plane()), R_d * cold / p, grid=plane()
    )
    depth_of_all = R_d * warming * math.log(2.0)
    torch.testing.assert_close(phi, torch.full_like(p, depth_of_all), rtol=1e-5, atol=0.0)


def test_high_pressure_lies_to_the_right_of_the_wind_in_the_north_and_to_its_left_in_the_south() -> None:
    x, y = axes()
    phi = 2e-3 * x - 1e-3 * y
    bounded = F / (F**2 + LEAST**2)
    for sign in (1.0, -1.0):
        u, v = wind(phi, plane(sign * F))
        torch.testing.assert_close(u[INNER], torch.full_like(u[INNER], sign * 1e-3 * bounded), rtol=1e-9, atol=0.0)
        torch.testing.assert_close(v[INNER], torch.full_like(v[INNER], sign * 2e-3 * bounded), rtol=1e-9, atol=0.0)


def test_at_the_equator_the_wind_vanishes_and_far_from_it_it_is_that_of_the_textbook() -> None:
    x, y = axes()
    calm = wind(x + y, plane(0.0))
    assert all(not part.any() for part in calm)
    u, v = wind(1e-3 * x, plane(), least=0.0)
    torch.testing.assert_close(v[INNER], torch.full_like(v[INNER], 1e-3 / F), rtol=1e-9, atol=0.0)
    assert float(u.abs().max()) == 0.0


def test_the_wind_aloft_differs_from_that_below_by_the_thermal_wind() -> None:
    """Of a pressure and a temperature: V(top) - V(foot) is the geostrophic wind of the thickness D T."""
    generator = np.random.default_rng(0)
    warm, high = (torch.as_tensor(generator.normal(size=(8, 9)) * size) for size in (3.0, 300.0))
    grid, depth, volume = plane(-F), torch.full((8, 9), 190.0, dtype=torch.float64), torch.full((8, 9), 0.8).double()
    aloft = wind(hydrostatic_geopotential(warm, high, depth, volume, grid=grid), grid)
    below = wind(hydrostatic_geopotential(0.0 * warm, high, depth, volume, grid=grid), grid)
    for upper, lower, thermal in zip(aloft, below, wind(190.0 * warm, grid), strict=True):
        torch.testing.assert_close(upper - lower, thermal, rtol=1e-9, atol=1e-12)


def test_the_wind_follows_the_contours() -> None:
    x, y = axes()
    phi = 1e3 * torch.sin(x / 120e3) * torch.cos(y / 90e3)
    grid = plane()
    (u, v), (east, north) = wind(phi, grid), gradient(phi, grid=grid)
    across = u * east + v * north
    assert float(across.abs().max()) < 1e-12 * float((u * east).abs().max())
    assert float((u.abs() + v.abs()).min()) > 0.0
