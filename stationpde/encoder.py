r"""History-conditioned initial field: a gated correction of the latest lifted field.

.. math:: \tilde X_t = \mathcal E_\phi([G_{t-T_{in}:t-1}, U_t]), \qquad
          X_t = G_{t-1} + M^{init}_t \odot (\tilde X_t - G_{t-1})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from stationpde.convolutions import Convolution, Gate, zero_

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["HistoryEncoder"]


class HistoryEncoder(nn.Module):
    """From the lifted history to the initial field, in the networks' scaled units.

    Parameters
    ----------
    inputs : channels of the history: every step's fields, their coverage, and U_t
    channels : of the state
    conditions : channels of U_t
    dilations : one convolution for each; ``(1, 1)`` is the plain encoder
    """

    def __init__(
        self,
        inputs: int,
        channels: int,
        conditions: int,
        hidden: int,
        dilations: tuple[int, ...],
        gate_hidden: int,
        gate_bias: float,
    ) -> None:
        super().__init__()
        widths = [inputs, *([hidden] * len(dilations))]
        self.layers = nn.ModuleList(
            Convolution(a, b, dilation) for a, b, dilation in zip(widths, widths[1:], dilations, strict=False)
        )
        self.last = Convolution(hidden, channels)
        zero_(self.last)  # X̃ = G at the start: the first field is the lifted one
        self.gate = Gate(channels + hidden + conditions, gate_hidden, channels, gate_bias)

    def forward(
        self,
        history: Float[Tensor, "batch input y x"],
        latest: Float[Tensor, "batch channel y x"],
        conditions: Float[Tensor, "batch condition y x"],
    ) -> tuple[Float[Tensor, "batch channel y x"], Float[Tensor, "batch hidden y x"]]:
        """The initial field and the features it was made from."""
        features = torch.cat([history, conditions], dim=1)
        for index, layer in enumerate(self.layers):
            found = nnf.silu(layer(features))
            # From the second layer on widths agree, and what a layer saw is kept.
            features = found if index == 0 else features + found
        correction = self.last(features)
        return latest + self.gate(latest, features, conditions) * correction, features
