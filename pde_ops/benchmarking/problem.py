"""The problem that is timed: the five-field surface system on a latitude-longitude grid, with plausible weather."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..grid import Grid2D
from ..symbols import Closure, Field, Positive, Static
from ..system import PDESystem

__all__ = ["FIELDS", "Problem", "make_problem", "surface_system"]

FIELDS = ("u", "v", "p", "theta", "q")
SPACING = 0.05  # degrees
SOUTH, WEST = 30.0, 0.0  # degrees
DT = 60.0  # s; Courant number about 0.3 in the strongest wind below


@dataclass(frozen=True, slots=True)
class Problem:
    """Inputs of one step, shared by every variant.

    Attributes
    ----------
    state : ``[batch, field, y, x]``, SI
    closures : ``[batch, y, x]`` each
    coefficients : SI, by name
    dt : s
    """

    grid: Grid2D
    state: Tensor
    closures: Mapping[str, Tensor]
    coefficients: Mapping[str, float]
    dt: float = DT

    @property
    def cells(self) -> int:
        """Cells of one field, over the batch."""
        return self.state.shape[0] * self.grid.ny * self.grid.nx


def surface_system() -> PDESystem:
    """Return the surface system: transport, diffusion, rotation, friction, condensation and closures."""
    from .. import ops

    u, v, p = Field("u", "m/s"), Field("v", "m/s"), Field("p", "Pa")
    theta, q = Field("theta", "K", latex=r"\theta"), Field("q", "kg/kg")
    f = Static("f", "1/s")
    S_p, S_theta, S_q = Closure("S_p", "Pa/s"), Closure("S_theta", "K/s"), Closure("S_q", "1/s")
    r_m, lam = Positive("r_m", "1/day", init=1.7), Positive("lambda_c", "1/hour", init=1.0)

    def transport_diffusion(a: Field):  # type: ignore[no-untyped-def]  # an expression, as every line below
        kappa = Positive(f"kappa_{a.name}", "km**2/hour", init=36.0)
        return -ops.advection(a, u, v) + kappa * ops.laplacian(a)

    q_s = ops.saturation_humidity(ops.temperature(theta, p), p)
    return PDESystem(
        "station-oriented surface PDE",
        {
            u: transport_diffusion(u) + ops.coriolis(v, f) - ops.friction(u, r_m),
            v: transport_diffusion(v) - ops.coriolis(u, f) - ops.friction(v, r_m),
            p: transport_diffusion(p) + S_p,
            theta: transport_diffusion(theta) + S_theta,
            q: transport_diffusion(q) + S_q - ops.condensation(q, q_s, lam),
        },
    )


def make_problem(batch: int, ny: int, nx: int, *, seed: int = 0) -> Problem:
    """Return waves and noise around a mild, moist day, in float32."""
    generator = torch.Generator().manual_seed(seed)
    lat = SOUTH + SPACING * torch.arange(ny, dtype=torch.float64)
    lon = WEST + SPACING * torch.arange(nx, dtype=torch.float64)
    grid = Grid2D.from_latlon(lat.numpy(), lon.numpy(), boundary="zero_gradient")
    y = torch.linspace(0.0, 2.0 * math.pi, ny)[:, None]
    x = torch.linspace(0.0, 2.0 * math.pi, nx)[None, :]
    phase = 2.0 * math.pi * torch.rand(batch, 5, 1, 1, generator=generator)
    waves = torch.sin(2.0 * x + phase) * torch.cos(y + phase) + 0.1 * torch.randn(batch, 5, ny, nx, generator=generator)
    mean = torch.tensor([4.0, -2.0, 9.9e4, 288.0, 1.0e-2])[:, None, None]
    spread = torch.tensor([6.0, 6.0, 6.0e2, 4.0, 3.0e-3])[:, None, None]
    sources = torch.tensor([3e-2, 6e-4, 3e-7])[:, None, None] * torch.randn(batch, 3, ny, nx, generator=generator)
    coefficients = {f"kappa_{name}": 36.0e6 / 3600.0 for name in FIELDS}
    return Problem(
        grid=grid,
        state=(mean + spread * waves).contiguous(),
        closures=dict(zip(("S_p", "S_theta", "S_q"), (s.contiguous() for s in sources.unbind(1)), strict=True)),
        coefficients={**coefficients, "r_m": 1.7 / 86400.0, "lambda_c": 1.0 / 3600.0},
    )
