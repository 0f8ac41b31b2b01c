r"""Differentiable warping: a field moved by a displacement, bilinear, with a replicated border.

.. math:: W(\mathbf x) = H(\mathbf x - D(\mathbf x))

so that a positive displacement moves the field east and north.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["warp_field"]


def warp_field(
    field: Float[Tensor, "batch channel y x"], displacement: Float[Tensor, "batch 2 y x"]
) -> Float[Tensor, "batch channel y x"]:
    """Move a field by ``displacement``: cells eastwards, then cells northwards."""
    ny, nx = field.shape[-2:]
    row = torch.arange(ny, dtype=field.dtype, device=field.device)[:, None]
    column = torch.arange(nx, dtype=field.dtype, device=field.device)[None, :]
    x = (column - displacement[:, 0]) * (2.0 / (nx - 1)) - 1.0
    y = (row - displacement[:, 1]) * (2.0 / (ny - 1)) - 1.0
    grid = torch.stack([x, y], dim=-1)
    finite = torch.isfinite(grid)
    # The gradient of `grid_sample` reads outside its memory at a coordinate that is no number, and ends the process.
    moved = grid_sample(field, torch.where(finite, grid, 0.0), padding_mode="border", align_corners=True)
    return torch.where(finite.all(dim=-1)[:, None], moved, torch.nan)
