r"""History-conditioned initial field: a gated correction of the latest lifted field.

.. math:: \tilde X_t = \mathcal E_\phi([G_{t-T_{in}:t-1}, U_t]), \qquad
          X_t = G_{t-1} + M^{init}_t \odot (\tilde X_t - G_{t-1})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from stationpde.config import Config
from stationpde.model.convolutions import GATE_BIAS, Convolution, Gate, zero_
from stationpde.physics import STATE

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["HistoryEncoder"]


class HistoryEncoder(nn.Module):
    """Network from the lifted history to the initial field, in scaled units.

    Parameters
    ----------
    inputs : number of channels of the history: every step's fields, their coverage, and U_t
    channels : number of channels of the state
    conditions : number of channels of U_t
    hidden : width of the convolutions
    dilations : one convolution for each; ``(1, 1)`` is the plain encoder
    gate_hidden : width of the gate
    """

    def __init__(
        self,
        inputs: int,
        channels: int,
        conditions: int,
        hidden: int,
        dilations: tuple[int, ...],
        gate_hidden: int,
    ) -> None:
        super().__init__()
        widths = [inputs, *([hidden] * len(dilations))]
        self.layers = nn.ModuleList(
            Convolution(a, b, dilation) for a, b, dilation in zip(widths, widths[1:], dilations, strict=False)
        )
        self.last = Convolution(hidden, channels)
        zero_(self.last)  # X̃ = G at the start: the first field is the lifted one
        self.gate = Gate(channels + hidden + conditions, gate_hidden, channels, GATE_BIAS)

    @classmethod
    def of(cls, config: Config, conditions: int) -> HistoryEncoder:
        """Build an encoder by configuration, for so many channels of U_t."""
        model, channels = config.model, len(STATE)
        dilations = (1, 1) if model.encoder == "plain" else model.dilations
        inputs = config.data.history * (channels + 1) + conditions
        return cls(inputs, channels, conditions, model.encoder_hidden, dilations, model.hidden)

    def forward(
        self,
        history: Float[Tensor, "batch input y x"],
        latest: Float[Tensor, "batch channel y x"],
        conditions: Float[Tensor, "batch condition y x"],
    ) -> tuple[Float[Tensor, "batch channel y x"], Float[Tensor, "batch hidden y x"]]:
        """Return the initial field and the features that it was computed from."""
        features = torch.cat([history, conditions], dim=1)
        for index, layer in enumerate(self.layers):
            hidden = nnf.silu(layer(features))
            # From the second layer on widths agree, and layers are residual.
            features = hidden if index == 0 else features + hidden
        correction = self.last(features)
        return latest + self.gate(latest, features, conditions) * correction, features
