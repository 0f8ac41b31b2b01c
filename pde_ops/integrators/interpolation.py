r"""Values of a field between the cells, at points given in cell units, for every border.

Points are pairs (row, column); whole numbers are cell centres. Beyond the border the field continues as its ghost
cells do (:mod:`pde_ops.boundaries`): repeated, wrapped or mirrored, however far away the point lies.

References
----------
Durran (2010), Numerical Methods for Fluid Dynamics, 2nd ed., Sect. 7.1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from ..boundaries import Boundary, Kind, Parity

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

__all__ = ["METHODS", "Method", "interpolate"]

Method = Literal["bilinear", "cubic"]
METHODS: tuple[Method, ...] = ("bilinear", "cubic")


def interpolate(
    values: Float[Tensor, "batch field y x"],
    points: Float[Tensor, "batch 2 y x"],
    boundary: Boundary,
    *,
    method: Method = "bilinear",
    odd: tuple[Parity, ...] | None = None,
) -> Float[Tensor, "batch field y x"]:
    """Return the fields at the given points; differentiable in the values and in the points.

    Parameters
    ----------
    points : row and column of each point, in cells
    method : ``"bilinear"`` never leaves the range of the values; ``"cubic"`` (Lagrange, 4 x 4 cells) is sharper
    odd : for each field the axis of which it is a vector component, or ``""``: behind a reflecting wall across it the
        field changes sign
    """
    batch, fields, ny, nx = values.shape
    rows, weights_y, mirrored_y = _along(points[:, 0], ny, boundary.y, method)
    columns, weights_x, mirrored_x = _along(points[:, 1], nx, boundary.x, method)
    index = (rows[:, :, None] * nx + columns[:, None]).flatten(1)
    corners = values.flatten(2).gather(2, index[:, None].expand(-1, fields, -1))
    weights = (weights_y[:, :, None] * weights_x[:, None])[:, None]  # [batch, 1, corner y, corner x, y, x]
    if odd is not None:
        mirrored = {"y": mirrored_y[:, :, None], "x": mirrored_x[:, None]}
        each = []
        for parity in odd:
            signed = weights
            for axis in parity:
                signed = torch.where(mirrored[axis][:, None], -signed, signed)
            each.append(signed)
        weights = torch.cat(each, dim=1)
    return (corners.reshape(batch, fields, *weights.shape[2:]) * weights).sum((2, 3))


def _along(
    position: Float[Tensor, "batch y x"], size: int, kind: Kind, method: Method
) -> tuple[Int[Tensor, "batch corner y x"], Float[Tensor, "batch corner y x"], Bool[Tensor, "batch corner y x"]]:
    """Cells that take part along one axis, their weights, and whether they stand for their mirror image."""
    below = position.detach().floor()  # which cell is a choice, not a function to differentiate
    t = position - below
    if method == "bilinear":
        weights = {0: 1.0 - t, 1: t}
    else:  # Lagrange polynomials through the nodes -1, 0, 1, 2
        weights = {
            -1: -t * (t - 1.0) * (t - 2.0) / 6.0,
            0: (t + 1.0) * (t - 1.0) * (t - 2.0) / 2.0,
            1: -(t + 1.0) * t * (t - 2.0) / 2.0,
            2: (t + 1.0) * t * (t - 1.0) / 6.0,
        }
    first = below.long()
    cells, mirrored = _inside(torch.stack([first + offset for offset in weights], dim=1), size, kind)
    return cells, torch.stack(list(weights.values()), dim=1), mirrored


def _inside(cell: Tensor, size: int, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return the cell whose value a ghost cell repeats, and whether it lies behind a mirror."""
    if kind == "periodic":
        return cell.remainder(size), torch.zeros_like(cell, dtype=torch.bool)
    if kind == "reflecting":
        folded = cell.remainder(2 * size)
        mirrored = folded >= size
        return torch.where(mirrored, 2 * size - 1 - folded, folded), mirrored
    return cell.clamp(0, size - 1), torch.zeros_like(cell, dtype=torch.bool)
