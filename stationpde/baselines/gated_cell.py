"""A gated recurrent unit that any device runs: torch's own has no kernel for tensors without a device behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["GatedCell"]


class GatedCell(nn.Module):
    r"""Gated recurrent unit from single operations, which run on any device that torch knows.

    .. math:: r, z = \sigma(W x + b + U h), \quad n = \tanh(W_n x + b_n + r\,(U_n h + c)), \quad
              h' = (1 - z)\,n + z\,h

    Reference: Cho et al., EMNLP 2014, in the form of torch.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.into, self.back = nn.Linear(inputs, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, values: Float[Tensor, "*row input"], hidden: Float[Tensor, "*row width"]) -> Tensor:
        """Return the hidden state after one more step."""
        return self._stepped(self.into(values), hidden)

    def over(self, series: Float[Tensor, "rows time input"], hidden: Float[Tensor, "rows width"]) -> Tensor:
        """Return the hidden state after all steps of a series."""
        for projected in self.into(series).unbind(dim=1):
            hidden = self._stepped(projected, hidden)
        return hidden

    def _stepped(self, projected: Tensor, hidden: Tensor) -> Tensor:
        reset, update, new = projected.chunk(3, dim=-1)
        reset_back, update_back, new_back = self.back(hidden).chunk(3, dim=-1)
        share = torch.sigmoid(update + update_back)
        candidate = torch.tanh(new + torch.sigmoid(reset + reset_back) * new_back)
        return candidate + share * (hidden - candidate)
