"""Weighted slopes and curvatures of fields at several scales, all in two matrix products.

A difference along a row or a column is a matrix: with the weights of fields and scales it makes one matrix for the
rows and one for the columns, small enough that two products cost less than a call of torch for each scale and field.
The matrices are taken from the registered operators, by applying these to unit vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pde_ops import Grid2D
from pde_ops.ops import gradient_scale_x, gradient_scale_y, laplacian_scale

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["SlopeSums", "Slopes"]

NORTH, CURVATURE, KINDS = 1, 2, 3  # kinds of differences; the first, 0, is the eastward slope


@dataclass(frozen=True, slots=True, eq=False)
class SlopeSums:
    """Weighted sums of slopes and curvatures as two matrices.

    Attributes
    ----------
    along_y, along_x : ``[y · output, neighbour · channel]`` and ``[x · output, kind · neighbour · channel]``
    stretch : as in `Slopes`, ``[kind, 1, 1, 1, y]``
    """

    along_y: Tensor
    along_x: Tensor
    stretch: Tensor

    def __call__(self, fields: Float[Tensor, "batch channel y x"]) -> Float[Tensor, "batch output y x"]:
        """Return the sums for fields."""
        batch, channels, ny, nx = fields.shape
        columns = self.along_y @ fields.permute(2, 1, 0, 3).reshape(ny * channels, -1)
        stretched = self.stretch * fields.permute(3, 1, 0, 2)
        rows = self.along_x @ stretched.reshape(2 * nx * channels, -1)
        northward = columns.view(ny, -1, batch, nx).permute(2, 1, 0, 3)
        return northward + rows.view(nx, -1, batch, ny).permute(2, 1, 3, 0)


class Slopes(nn.Module):
    """Slopes and curvature over several radii, each times its length: differences, without a unit of length.

    Parameters
    ----------
    grid : of the fields
    radii : cells

    Attributes
    ----------
    north : differences along columns, ``[y · neighbour, kind · radius]``
    east : differences along rows of square cells, ``[kind, x · neighbour, radius]``, without the northward slope
    stretch : factor of the latter in each row, ``[kind, y]``: cells are narrower towards the poles
    turn : share of the difference northwards in the curvature of each row, ``[radius, y]``: rows are curved
    """

    north: Tensor
    east: Tensor
    stretch: Tensor
    turn: Tensor

    def __init__(self, grid: Grid2D, radii: Sequence[int]) -> None:
        super().__init__()
        self.radii = tuple(radii)
        ratio = grid.dy / torch.tensor(grid.dx)
        stretch = torch.stack([ratio, ratio**2])
        pairs = [_matrices(grid, radius) for radius in radii]
        self._masters = {
            "north": torch.stack([north for north, _ in pairs], dim=-1).flatten(0, 1).flatten(1),
            "east": torch.stack([east / stretch[:, :1, None] for _, east in pairs], dim=-1).flatten(1, 2),
            "stretch": stretch,
            "turn": torch.tensor(radii)[:, None] * (0.5 * grid.dy * torch.tensor(grid.curvature).reshape(1, -1)),
        }
        for name, master in self._masters.items():
            self.register_buffer(name, master.to(torch.get_default_dtype()), persistent=False)

    def weighted(
        self, fields: Float[Tensor, "batch channel y x"], weights: Float[Tensor, "output difference"]
    ) -> Float[Tensor, "batch output y x"]:
        """Return weighted sums of all differences; ``weights`` are in the order radius, kind, channel."""
        return self.sums(weights)(fields)

    def sums(self, weights: Float[Tensor, "output difference"]) -> SlopeSums:
        """Return the function that `weighted` applies, for several fields and the same weights."""
        ny, nx = self.stretch.shape[1], math.isqrt(self.east.shape[1])
        radii, outputs = len(self.radii), weights.shape[0]
        channels = weights.shape[1] // (radii * KINDS)
        w = weights.view(outputs, radii, -1, channels).permute(2, 1, 0, 3).reshape(-1, radii, outputs * channels)
        along_y = (self.north @ w.flatten(0, 1)).view(ny, ny, outputs, channels)
        along_y = along_y.transpose(1, 2).reshape(ny * outputs, ny * channels)
        along_x = torch.bmm(self.east, w[::CURVATURE]).view(2, nx, nx, outputs, channels)
        along_x = along_x.permute(1, 3, 0, 2, 4).reshape(nx * outputs, 2 * nx * channels)
        return SlopeSums(along_y, along_x, self.stretch[:, None, None, None])

    def gradient(self, field: Float[Tensor, "batch y x"], radius: int) -> Float[Tensor, "batch 2 y x"]:
        """Return the slopes of one field eastwards and northwards over a radius, each times its length."""
        r, (ny, nx) = self.radii.index(radius), field.shape[-2:]
        east, north = self.east[0, :, r].view(nx, nx), self.north[:, NORTH * len(self.radii) + r].view(ny, ny)
        eastward = (field * self.stretch[0][:, None]) @ east.mT
        return torch.stack([eastward, north @ field], dim=1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Slopes:
        super()._apply(fn, recurse)
        for name, master in self._masters.items():  # from the originals: those of float32 are no float64
            setattr(self, name, master.to(getattr(self, name)))
        return self


def _matrices(grid: Grid2D, radius: int) -> tuple[Tensor, Tensor]:
    """Return differences along columns ``[y, neighbour, kind]``, and along the first row ``[kind, x, neighbour]``."""
    length = radius * grid.dy
    column = torch.eye(grid.ny, dtype=torch.float64)[:, :, None].expand(-1, -1, grid.nx)
    row = torch.eye(grid.nx, dtype=torch.float64)[:, None, :].expand(-1, grid.ny, -1)
    slope = gradient_scale_y(column, grid=grid, radius=radius)[..., 0].mT * length
    north = torch.stack([torch.zeros_like(slope), slope, _curvature(column, grid, radius)[..., 0].mT], dim=-1)
    east = gradient_scale_x(row, grid=grid, radius=radius)[:, 0].mT * length
    return north, torch.stack([east, _curvature(row, grid, radius)[:, 0].mT])


def _curvature(field: Tensor, grid: Grid2D, radius: int) -> Tensor:
    curvature: Tensor = laplacian_scale(field, grid=grid, radius=radius) * (radius * grid.dy) ** 2
    return curvature
