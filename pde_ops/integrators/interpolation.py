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

from ..boundaries import Axis, Boundary, Kind

if TYPE_CHECKING:
    from jaxtyping import Float, Int

__all__ = ["METHODS", "Method", "interpolate"]

Method = Literal["bilinear", "cubic"]
METHODS: tuple[Method, ...] = ("bilinear", "cubic")


def interpolate(
    values: Float[Tensor, "batch field y x"],
    row: Float[Tensor, "batch y x"],
    column: Float[Tensor, "batch y x"],
    boundary: Boundary,
    *,
    method: Method = "bilinear",
    odd: Axis | None = None,
) -> Float[Tensor, "batch field y x"]:
    """Return the fields at the given points; differentiable in the values and in the points.

    Parameters
    ----------
    method : ``"bilinear"`` never leaves the range of the values; ``"cubic"`` (Lagrange, 4 x 4 cells) is sharper
    odd : axis along which the values are a vector component, which changes sign behind a reflecting wall
    """
    ny, nx = values.shape[-2:]
    rows = _along(row, ny, boundary.y, method, odd == "y")
    columns = _along(column, nx, boundary.x, method, odd == "x")
    flat = values.flatten(2)
    total = torch.zeros_like(values)
    for cell_y, weight_y in rows:
        line = torch.zeros_like(values)
        for cell_x, weight_x in columns:
            index = (cell_y * nx + cell_x).flatten(1)[:, None].expand(-1, values.shape[1], -1)
            line = line + weight_x[:, None] * flat.gather(2, index).reshape(values.shape)
        total = total + weight_y[:, None] * line
    return total


def _along(
    position: Tensor, size: int, kind: Kind, method: Method, odd: bool
) -> list[tuple[Int[Tensor, "batch y x"], Float[Tensor, "batch y x"]]]:
    """Cells that take part along one axis, and their weights."""
    below = position.detach().floor()  # which cell is a choice, not a function to differentiate
    t = position - below
    first = below.long()
    if method == "bilinear":
        weights = {0: 1.0 - t, 1: t}
    else:  # Lagrange polynomials through the nodes -1, 0, 1, 2
        weights = {
            -1: -t * (t - 1.0) * (t - 2.0) / 6.0,
            0: (t + 1.0) * (t - 1.0) * (t - 2.0) / 2.0,
            1: -(t + 1.0) * t * (t - 2.0) / 2.0,
            2: (t + 1.0) * t * (t - 1.0) / 6.0,
        }
    return [_inside(first + offset, weight, size, kind, odd) for offset, weight in weights.items()]


def _inside(cell: Tensor, weight: Tensor, size: int, kind: Kind, odd: bool) -> tuple[Tensor, Tensor]:
    """The cell whose value a ghost cell repeats; its weight carries the sign of a mirrored component."""
    if kind == "periodic":
        return cell.remainder(size), weight
    if kind == "reflecting":
        folded = cell.remainder(2 * size)
        mirrored = folded >= size
        signed = torch.where(mirrored, -weight, weight) if odd else weight
        return torch.where(mirrored, 2 * size - 1 - folded, folded), signed
    return cell.clamp(0, size - 1), weight
