r"""Shares of several forecasts in their mean: least squares on windows that none of them was fitted on.

.. math:: \min_w\ w^T E\,w, \qquad w \ge 0,\ \textstyle\sum_i w_i = 1, \qquad
          E_{ij} = \sum (\hat y_i - y)(\hat y_j - y)

for each lead and variable. Errors that are not alike cancel in the mean; a forecast whose errors another one has too
gets no share.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["ShareSums", "fitted_shares"]

# Weight of the sums over all leads of a variable in the fit of each lead's share.
_SHRINK = 1.0
# Two forecasts that differ by less in all windows, in standard deviations squared, are the same.
_TINY = 1e-9


class ShareSums:
    """Sums over windows and stations of the products of errors, for the shares of ``members`` forecasts."""

    def __init__(self, members: int, leads: int, channels: int) -> None:
        self.sums = torch.zeros(leads, channels, members, members, dtype=torch.float64)

    def add(self, forecasts: Sequence[Tensor], target: Tensor, scale: Tensor) -> None:
        """Add a batch ``[batch, lead, station, channel]``; errors are divided by ``scale`` (station, channel)."""
        seen = torch.isfinite(target)
        errors = [torch.where(seen, ((forecast - target) / scale).double(), 0.0) for forecast in forecasts]
        rows = [torch.stack([(one * other).sum(dim=(0, 2)) for other in errors], dim=-1) for one in errors]
        self.sums += torch.stack(rows, dim=-2).cpu()

    def shares(self) -> Float[Tensor, "member lead channel"]:
        """Return the shares of the forecasts; they add up to one."""
        return fitted_shares(self.sums)


def fitted_shares(products: Float[Tensor, "lead channel member member"]) -> Float[Tensor, "member lead channel"]:
    """Return the shares with the least error, each lead's drawn half-way to those of its variable over all leads.

    The best mean of every set of members is known in closed form; the best set without a negative share is taken.

    Parameters
    ----------
    products : sums of products of the members' errors; members that are the same get the same share
    """
    drawn = products + _SHRINK * products.mean(dim=0, keepdim=True)
    count = products.shape[-1]
    size_of = drawn.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    steady = drawn + _TINY * (1.0 + size_of) * torch.eye(count, dtype=drawn.dtype)
    best = torch.zeros(products.shape[:-1], dtype=drawn.dtype)
    least = torch.full(products.shape[:2], torch.inf, dtype=drawn.dtype)
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            rows = torch.tensor(chosen)
            block = steady[..., rows[:, None], rows]
            answer, failed = torch.linalg.solve_ex(block, torch.ones(*block.shape[:-1], 1, dtype=block.dtype))
            weights = answer[..., 0] / answer.sum(dim=(-2, -1))[..., None]
            error = torch.einsum("...i,...ij,...j->...", weights, block, weights)
            good = (failed == 0) & (weights >= 0.0).all(dim=-1) & (error < least)
            shares = torch.zeros_like(best).index_copy_(-1, rows, weights)
            best, least = torch.where(good[..., None], shares, best), torch.where(good, error, least)
    return best.movedim(-1, 0)
