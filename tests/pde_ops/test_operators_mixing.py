"""Laplacians and diffusion against eigenfunctions, spherical harmonics and identities."""

from __future__ import annotations

import math

import pytest
import torch

from pde_ops import Field, Grid2D, Positive
from pde_ops.constants import earth_radius
from pde_ops.ops import diffusion, hyperdiffusion, laplacian, laplacian4, laplacian_scale

NX, NY, DX, DY = 16, 12, 3000.0, 2000.0


def periodic() -> Grid2D:
    return Grid2D.plane(NY, NX, dx=DX, dy=DY, boundary="periodic")


def wave() -> tuple[torch.Tensor, float, float]:
    """A wave along both axes, and its phase from one cell to the next."""
    kx, ky = 2.0 * math.pi * 3 / NX, 2.0 * math.pi * 2 / NY
    x, y = torch.arange(NX, dtype=torch.float64)[None, :], torch.arange(NY, dtype=torch.float64)[:, None]
    return torch.cos(kx * x) * torch.cos(ky * y), kx, ky


def eigenvalue(phase: float, spacing: float, radius: int = 1) -> float:
    """Of the second difference over ``radius`` cells: (2 cos rφ - 2) / (r h)²."""
    return (2.0 * math.cos(radius * phase) - 2.0) / (radius * spacing) ** 2


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_waves_are_eigenfunctions_of_the_laplacian_at_every_scale(radius: int) -> None:
    a, kx, ky = wave()
    result = laplacian_scale(a, grid=periodic(), radius=radius) if radius > 1 else laplacian(a, grid=periodic())
    expected = (eigenvalue(kx, DX, radius) + eigenvalue(ky, DY, radius)) * a
    torch.testing.assert_close(result, expected, rtol=1e-11, atol=1e-19)


def test_the_fourth_order_laplacian_combines_two_scales() -> None:
    # Richardson: 4/3 of the second difference at one cell less 1/3 of that at two cells.
    a, _, _ = wave()
    combined = (4.0 * laplacian(a, grid=periodic()) - laplacian_scale(a, grid=periodic(), radius=2)) / 3.0
    torch.testing.assert_close(laplacian4(a, grid=periodic()), combined, rtol=1e-11, atol=1e-19)


def test_hyperdiffusion_damps_a_wave_by_the_square_of_its_eigenvalue() -> None:
    a, kx, ky = wave()
    rate = -((eigenvalue(kx, DX) + eigenvalue(ky, DY)) ** 2)
    torch.testing.assert_close(hyperdiffusion(a, grid=periodic()), rate * a, rtol=1e-11, atol=1e-26)


@pytest.mark.parametrize(("operator", "tolerance"), [(laplacian, 2e-4), (laplacian4, 1e-8), (laplacian_scale, 2e-3)])
def test_the_sine_of_latitude_is_a_spherical_harmonic(operator: object, tolerance: float) -> None:
    # ∇² sin φ = -2 sin φ / R². Rows 1 degree apart (h = 0.0175): errors of order h²/4, nine times that at radius 3.
    grid = Grid2D.from_latlon(range(20, 70), range(12), boundary="zero_gradient")
    a = torch.sin(torch.tensor(grid.lat))[:, None].expand(grid.ny, grid.nx)
    result = operator(a, grid=grid)[4:-4]  # type: ignore[operator]
    torch.testing.assert_close(result, -2.0 * a[4:-4] / earth_radius**2, rtol=tolerance, atol=0.0)


@pytest.mark.parametrize("boundary", ["periodic", "zero_gradient", "reflecting"])
def test_diffusion_with_a_constant_diffusivity_is_the_laplacian(boundary: str) -> None:
    grid = Grid2D.from_latlon(range(30, 54, 2), range(0, 32, 2), boundary=boundary)
    torch.manual_seed(0)
    a = torch.randn(NY, NX, dtype=torch.float64)
    kappa = torch.tensor(1e4, dtype=torch.float64)
    torch.testing.assert_close(diffusion(a, kappa, grid=grid), 1e4 * laplacian(a, grid=grid), rtol=1e-10, atol=1e-18)


def test_diffusion_lets_nothing_into_a_cell_with_insulated_faces() -> None:
    a, _, _ = wave()
    kappa = torch.ones_like(a)
    kappa[4:7, 4:7] = 0.0
    # A face between two insulated cells has no diffusivity: the cell in the middle of nine sees nothing.
    result = diffusion(a, kappa, grid=periodic())
    assert result[5, 5] == 0.0 and (result[4, 4] != 0.0)


def test_a_positive_coefficient_makes_diffusion_and_hyperdiffusion_tendencies() -> None:
    T = Field("T", "K")
    kappa, nu = Positive("kappa", "km**2/hour", init=36.0), Positive("nu", "km**4/hour", init=100.0)
    for term in (kappa * laplacian(T), diffusion(T, kappa), nu * hyperdiffusion(T)):
        assert str(term.unit.dimensionality) == "[temperature] / [time]"


@pytest.mark.parametrize("operator", [laplacian, hyperdiffusion])
def test_a_checkerboard_decays(operator: object) -> None:
    board = torch.ones(NY, NX, dtype=torch.float64)
    board[::2, ::2] = board[1::2, 1::2] = -1.0
    result = operator(board, grid=periodic())  # type: ignore[operator]
    assert (result * board < 0.0).all()
