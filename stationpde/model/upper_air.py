r"""The latent upper layer in the model: where its column starts, and what its equations are supplied with.

The initial column is the mean of the lifted θ over the last day, which the air aloft follows, and a correction by the
features of the encoder, which has seen the whole history:

.. math:: \overline T_t = \overline{\theta}^{\,24\mathrm h}_t + s_\theta\,\mathcal C(\mathcal E_\phi([G, U_t]))

Nothing observed aloft enters. `physics.upper_air` has the equations.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pde_ops import Grid2D, unit_registry
from pde_ops.ops import air_density, column_depth, geostrophic_x, geostrophic_y, hydrostatic_geopotential, temperature
from stationpde.model.convolutions import Convolution, zero_
from stationpde.physics import DAY, STATE, SUN_CHANNEL, THETA, TIME_CHANNELS, P, Q, steps_back, upper_air

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Aloft", "ColumnEncoder"]

COLUMN_CHANNEL = len(STATE)
# Where the ground comes near the top of the column, it stays so deep.
LEAST_FOOT = 1.1 * upper_air.TOP_PRESSURE
# m/s that a parameter of one stands for: a mean wind of the middle latitudes is within reach of a short training.
WIND_SCALE = 20.0
NAMES = tuple(closure.name for closure in upper_air.SUPPLIED)
OTHER = tuple(name for name in NAMES if name.startswith("other"))


class ColumnEncoder(nn.Module):
    """Network from the lifted history to the initial column, in parts of the scale of θ."""

    def __init__(self, hidden: int, step_seconds: int, history: int) -> None:
        super().__init__()
        self.day = steps_back(DAY / 3600.0, step_seconds, history + 1)
        self.last = Convolution(hidden, 1)
        zero_(self.last)

    def forward(
        self, fields: Float[Tensor, "batch time channel y x"], features: Float[Tensor, "batch hidden y x"]
    ) -> Float[Tensor, "batch 1 y x"]:
        """Return the initial column from scaled departures and the features of the encoder."""
        correction: Tensor = self.last(features)
        return fields[:, -self.day :, THETA].mean(dim=1, keepdim=True) + correction


class Aloft(nn.Module):
    """Closures of the upper layer, held over a forecast interval; the mean wind aloft among them is learned.

    Parameters
    ----------
    grid : of the fields
    names : closures that the equations have
    solar : whether the conditions hold the height of the sun

    Attributes
    ----------
    mean : mean wind aloft, eastwards and northwards, in parts of `WIND_SCALE`: of the year, and two waves of the season
    """

    undecayed = ("mean",)

    def __init__(self, grid: Grid2D, names: Collection[str], solar: bool) -> None:
        super().__init__()
        self.grid, self.solar = grid, solar
        self.names = [name for name in NAMES if name in names]
        self.is_placebo = bool(set(OTHER) & set(names))
        self.mean = nn.Parameter(torch.zeros(2, 3))

    def forward(
        self, base: Float[Tensor, "*batch field y x"], conditions: Float[Tensor, "*batch condition y x"]
    ) -> Float[Tensor, "*batch 5 y x"]:
        """Return depth and specific volume of the base state, the mean wind, and the height of the sun, SI."""
        p, theta, q = (base[..., channel, :, :] for channel in (P, THETA, Q))
        depth = column_depth(p.clamp(min=LEAST_FOOT), torch.full_like(p, upper_air.TOP_PRESSURE), grid=self.grid)
        volume = 1.0 / air_density(temperature(theta, p, grid=self.grid), p, q, grid=self.grid)
        _, _, sine, cosine = conditions[..., TIME_CHANNELS, :1, :1].unbind(-3)
        season = torch.stack([torch.ones_like(sine), sine, cosine], dim=-1)
        east, north = (self.mean @ season[..., None] * WIND_SCALE)[..., 0].unbind(-1)
        sun = conditions[..., SUN_CHANNEL, :, :] if self.solar else torch.zeros_like(p)
        return torch.stack([depth, volume, east.expand_as(p), north.expand_as(p), sun], dim=-3)

    def closures(
        self, supplied: Float[Tensor, "batch 5 y x"], state: Float[Tensor, "batch 6 y x"]
    ) -> dict[str, Float[Tensor, "batch y x"]]:
        """Name what the equations take; a placebo is steered by the balanced wind of another sample of the batch."""
        named = dict(zip(NAMES, supplied.unbind(1), strict=False))
        if self.is_placebo:
            # Half a batch away, of windows in order that is days; alone, it is turned round.
            batch = len(state)
            wind = self.balanced(supplied, state)
            other = [part.roll(batch // 2, 0) if batch > 1 else -part for part in wind]
            named |= dict(zip(OTHER, other, strict=True))
        return {name: named[name] for name in self.names}

    def balanced(self, supplied: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the geostrophic wind aloft of departures in SI, before its share is taken, m/s."""
        grid, (depth, volume) = self.grid, (supplied[:, 0], supplied[:, 1])
        phi = hydrostatic_geopotential(state[:, COLUMN_CHANNEL], state[:, P], depth, volume, grid=grid)
        f = torch.as_tensor(grid.f.copy(), dtype=phi.dtype, device=phi.device)[:, None]
        least = torch.full_like(f, upper_air.LEAST_ROTATION)
        return geostrophic_x(phi, f, least, grid=grid), geostrophic_y(phi, f, least, grid=grid)

    @torch.no_grad()
    def physics(self) -> dict[str, Any]:
        """Return the learned mean wind aloft, of the year, of the middle of January and of July."""
        quantities = {}
        for label, day in (("", None), ("_january", 15.0), ("_july", 196.0)):
            angle = 0.0 if day is None else 2.0 * math.pi * day / 365.2425
            waves = (0.0, 0.0) if day is None else (math.sin(angle), math.cos(angle))
            wind = WIND_SCALE * self.mean @ self.mean.new_tensor([1.0, *waves])
            for component, value in zip(("u", "v"), wind.tolist(), strict=True):
                quantities[f"mean_wind_{component}{label}"] = unit_registry.Quantity(value, "m/s")
        return quantities
