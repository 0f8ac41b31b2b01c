"""Small models and problems on which assimilation has answers that are known otherwise."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import pde_ops as po
from pde_ops.assimilation import FourDVar, Gaussian, Places, Points, Source, State
from pde_ops.integrators import Integrator
from pde_ops.ops import advection_upwind3, laplacian

c, u = po.Field("c", "K"), po.Field("u", "m/s", component="x")
U, V, S = po.Closure("U", "m/s"), po.Closure("V", "m/s"), po.Closure("S", "K/s")
kappa = po.Positive("kappa", "km**2/hour", init=20.0)

CARRIED = po.PDESystem("a tracer in a given wind", {c: kappa * laplacian(c) - advection_upwind3(c, U, V) + S})
"""Linear in state and source."""
BURGERS = po.PDESystem("burgers", {u: kappa * laplacian(u) - advection_upwind3(u, u, u)})
"""Not linear."""

NY, NX, DX, DT, STEPS = 6, 7, 4e3, 600.0, 6
GRID = po.Grid2D.plane(NY, NX, dx=DX)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tracer_step(backend: str = "torch") -> Integrator:
    return po.integrators["ssprk3"](CARRIED.compile(GRID, backend=backend).double(), dt=DT)


def wind(number: int) -> dict[str, Tensor]:
    """A wind that turns, without a source."""
    one = torch.ones(1, NY, NX, dtype=torch.float64)
    return {"U": (2.0 - 0.5 * number) * one, "V": 0.7 * number * one}


def windy(number: int) -> dict[str, Tensor]:
    return {**wind(number), "S": torch.zeros(1, NY, NX, dtype=torch.float64)}


PLACES = Places([0.3, 2.0, 4.6, 5.2, 3.3], [0.0, 3.5, 1.2, 5.9, 6.4])
MINUTES = [0.0, 25.0, 60.0]


def tracer_problem(
    values: Any = None, *, error: Any = "0.3 K", controls: Any = None, backend: str = "torch", **options: Any
) -> FourDVar:
    """Observe a tracer at five places and three times, one between two steps."""
    values = normal(len(MINUTES), len(PLACES), seed=3) if values is None else values
    return FourDVar(
        tracer_step(backend),
        torch.full((1, 1, NY, NX), 0.5, dtype=torch.float64),
        window="1 hour",
        controls=controls or [State({"c": Gaussian("1.5 K", length="6 km")})],
        observations=[Points("c", PLACES, time=(MINUTES, "min"), values=(values, "K"), error=error)],
        closures=options.pop("closures", windy),
        **options,
    )


SOURCE = Source("S", Gaussian("2 K/hour", length="5 km"), every="30 min")
