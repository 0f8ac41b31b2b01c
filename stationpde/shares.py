"""How much of one forecast and how much of another: least squares on windows that neither was fitted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["ShareSums", "fitted_shares"]

# The variable's share counts as much as so many mean leads say about their own.
_SHRINK = 1.0
# Two forecasts that differ by less in all windows, in standard deviations squared, are the same.
_TINY = 1e-9


class ShareSums:
    r"""Sums over windows and stations for the share :math:`w` of the first in :math:`w\,a + (1 - w)\,b`.

    The squared error is least at :math:`w = \sum (a - b)(y - b) / \sum (a - b)^2` over what was observed.
    """

    def __init__(self, leads: int, channels: int) -> None:
        self.sums = torch.zeros(2, leads, channels, dtype=torch.float64)

    def add(self, first: Tensor, second: Tensor, target: Tensor, scale: Tensor) -> None:
        """Take in a batch ``[batch, lead, station, channel]``; errors count in ``scale`` (station, channel)."""
        away, left = ((values - second).double() / scale for values in (first, target))
        seen = torch.isfinite(left)
        gain = torch.where(seen, away * left, 0.0).sum(dim=(0, 2))
        spread = torch.where(seen, away.square(), 0.0).sum(dim=(0, 2))
        self.sums += torch.stack([gain, spread]).cpu()

    def shares(self) -> Float[Tensor, "lead channel"]:
        """Shares of the first forecast, 0 to 1."""
        return fitted_shares(*self.sums)


def fitted_shares(gain: Float[Tensor, "lead channel"], spread: Float[Tensor, "lead channel"]) -> Tensor:
    """Shares of the first forecast, 0 to 1, each drawn half-way to that of its variable over all leads.

    Parameters
    ----------
    gain : sums of (first − second)·(target − second)
    spread : sums of (first − second)²; where both forecasts are the same, each gets a half
    """
    usual = (gain.sum(dim=0) + _TINY / 2) / (spread.sum(dim=0) + _TINY)
    drawn = _SHRINK * spread.mean(dim=0)
    shares = (gain + drawn * usual + _TINY / 2) / (spread + drawn + _TINY)
    return shares.clamp(0.0, 1.0)
