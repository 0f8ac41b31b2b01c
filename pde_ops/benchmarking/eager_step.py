r"""The step written by hand in eager torch: what the fused kernel is measured against.

Nothing here comes from the operators or the lowering. Three forms of

.. math:: X + \Delta t \left(-V\cdot\nabla X + \kappa\nabla^2 X + \text{rotation, friction, moisture, closures}\right)

are kept, because which is fastest depends on the machine and the size:

``slices``
    pad once, neighbours are slices (views) of the padded array;
``roll``
    neighbours are shifted copies, so that every operation runs on contiguous memory;
``faces``
    each difference between two cells is computed once and used on both sides, upwinding by positive and negative
    part, with fused multiply-adds: the fewest passes over memory that we found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from .. import constants as c
from ..grid import Grid2D

__all__ = ["FORMS", "HEAT_POWER", "LATENT_POWER", "Geometry", "range_scaled", "step"]

HEAT_POWER = (c.c_l - c.c_pv) / c.R_v  # exponent of Ambaum (2020), Eq. 13
LATENT_POWER = c.L_v0 / (c.R_v * c.T_triple)
SHARE = 0.05  # of a field's range that a range-scaled step may move
QUIET = 1e-6  # share of the range below which a field counts as not moving

Transport = Callable[[Tensor, Tensor, "Geometry"], Tensor]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Spacings and rotation as tensors ``[y, 1]``, and one number.

    Attributes
    ----------
    north, south : 1/m², length of that face over dx·dy²: what a difference across it weighs in the Laplacian
    """

    dx: Tensor
    dy: float
    f: Tensor
    north: Tensor
    south: Tensor

    @classmethod
    def of(cls, grid: Grid2D, dtype: torch.dtype) -> Geometry:
        """Take the geometry from a grid."""
        wide = np.pad(grid.dx, 1, mode="edge")
        per_face = 1.0 / (grid.dx * grid.dy**2)
        rows = [grid.dx, grid.f, (wide[2:] + grid.dx) / 2 * per_face, (wide[:-2] + grid.dx) / 2 * per_face]
        dx, f, north, south = (torch.tensor(row, dtype=dtype)[:, None] for row in rows)
        return cls(dx, grid.dy, f, north, south)


def _neighbourly(
    a: Tensor, east: Tensor, west: Tensor, north: Tensor, south: Tensor, kappa: Tensor, at: Geometry
) -> Tensor:
    u, v = a[:, 0:1], a[:, 1:2]
    along = u * torch.where(u > 0, a - west, east - a) / at.dx + v * torch.where(v > 0, a - south, north - a) / at.dy
    curvature = (east - 2.0 * a + west) / at.dx**2 + at.north * (north - a) - at.south * (a - south)
    return kappa * curvature - along


def _slices(a: Tensor, kappa: Tensor, at: Geometry) -> Tensor:
    wide = torch.cat([a[..., :1], a, a[..., -1:]], -1)
    wide = torch.cat([wide[..., :1, :], wide, wide[..., -1:, :]], -2)
    inner = slice(1, -1)
    east, west = wide[..., inner, 2:], wide[..., inner, :-2]
    north, south = wide[..., 2:, inner], wide[..., :-2, inner]
    return _neighbourly(a, east, west, north, south, kappa, at)


def _roll(a: Tensor, kappa: Tensor, at: Geometry) -> Tensor:
    # A roll whose wrapped edge repeats the last cell instead: one copy, like torch.roll itself.
    east, west = torch.cat([a[..., 1:], a[..., -1:]], -1), torch.cat([a[..., :1], a[..., :-1]], -1)
    north = torch.cat([a[..., 1:, :], a[..., -1:, :]], -2)
    south = torch.cat([a[..., :1, :], a[..., :-1, :]], -2)
    return _neighbourly(a, east, west, north, south, kappa, at)


def _faces(a: Tensor, kappa: Tensor, at: Geometry) -> Tensor:
    # Across the border the difference is zero, which is the zero-gradient condition.
    across_x = pad(a[..., 1:] - a[..., :-1], (1, 1))
    across_y = pad(a[..., 1:, :] - a[..., :-1, :], (0, 0, 1, 1))
    u, v = a[:, 0:1] / at.dx, a[:, 1:2] / at.dy
    kappa_x = kappa / at.dx**2
    rate = (kappa_x + torch.relu(-u)) * across_x[..., 1:]
    rate = torch.addcmul(rate, kappa_x + torch.relu(u), across_x[..., :-1], value=-1)
    rate = torch.addcmul(rate, kappa * at.north + torch.relu(-v), across_y[..., 1:, :])
    return torch.addcmul(rate, kappa * at.south + torch.relu(v), across_y[..., :-1, :], value=-1)


FORMS: dict[str, Transport] = {"slices": _slices, "roll": _roll, "faces": _faces}


def _saturation_humidity(theta: Tensor, p: Tensor) -> Tensor:
    exner = torch.exp(c.kappa * torch.log(p * (1.0 / c.p0)))  # twice as fast as a power
    ratio = c.T_triple / (theta * exner)
    e_s = c.e_s0 * torch.exp((LATENT_POWER + HEAT_POWER) * (1.0 - ratio) + HEAT_POWER * torch.log(ratio))
    return c.epsilon * e_s / (p - (1.0 - c.epsilon) * e_s)


def _increment(
    form: str, state: Tensor, closures: Sequence[Tensor], coefficients: Tensor, at: Geometry, dt: float
) -> Tensor:
    kappa, r_m, lambda_c = coefficients[:5].view(5, 1, 1), coefficients[5], coefficients[6]
    u, v, p, theta, q = state.unbind(1)
    S_p, S_theta, S_q = closures
    excess = torch.relu(q - _saturation_humidity(theta, p))
    local = [at.f * v - r_m * u, -at.f * u - r_m * v, S_p, S_theta, S_q - lambda_c * excess]
    return dt * (FORMS[form](state, kappa, at) + torch.stack(local, dim=1))


def step(form: str, state: Tensor, closures: Sequence[Tensor], coefficients: Tensor, at: Geometry, dt: float) -> Tensor:
    """Return the state after one Euler step; coefficients are κ of the five fields, r_m, λ_c in SI."""
    return state + _increment(form, state, closures, coefficients, at, dt)


def range_scaled(
    form: str, state: Tensor, closures: Sequence[Tensor], coefficients: Tensor, at: Geometry, dt: float
) -> Tensor:
    """Return the state after a step whose increment is scaled to a share of each field's range, sample by sample."""
    d = _increment(form, state, closures, coefficients, at, dt)
    with torch.no_grad():  # the range is a constant of the step: the gradient goes through the increment
        span = state.amax((-2, -1), keepdim=True) - state.amin((-2, -1), keepdim=True)
    largest = d.abs().amax((-2, -1), keepdim=True)
    return state + d * (SHARE * span / (largest + QUIET * span + torch.finfo(d.dtype).tiny))
