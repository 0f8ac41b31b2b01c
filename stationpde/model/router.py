r"""The adaptive router: a convex combination of the two branches, cell by cell and channel by channel.

.. math:: \alpha = \sigma(\mathcal R([X^{AI}, X^{PDE}, B])), \qquad X = \alpha \odot X^{AI} + (1 - \alpha) \odot X^{PDE}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from stationpde.model.convolutions import Gate, LastLayer
from stationpde.model.first_layers import FirstLayers, LeadConditions, PlaceColumns

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Router"]

# σ(0) = ½: both branches count the same at the start.
ROUTER_BIAS = 0.0


class Router(nn.Module):
    """Gate between the data-driven branch and the equations."""

    def __init__(self, channels: int, conditions: int, hidden: int, bias: float = ROUTER_BIAS) -> None:
        super().__init__()
        self.channels = channels
        self.gate = Gate(2 * channels + conditions, hidden, channels, bias)

    def forward(
        self,
        data: Float[Tensor, "batch channel y x"],
        physics: Float[Tensor, "batch channel y x"],
        conditions: Float[Tensor, "batch condition y x"],
    ) -> tuple[Float[Tensor, "batch channel y x"], Float[Tensor, "batch channel y x"]]:
        """Return the joined field and α, the weight of the data-driven branch."""
        if isinstance(conditions, LeadConditions):
            first, last = conditions.prepared[self]
            hidden = silu(first(torch.cat([data, physics], dim=1), conditions))
            weight = torch.sigmoid(last(hidden, data.shape[0], data.shape[-2:]))
        else:
            weight = self.gate(data, physics, conditions)
        return weight * data + (1.0 - weight) * physics, weight

    def prepare(self, places: PlaceColumns) -> tuple[FirstLayers, LastLayer]:
        """Prepare the layers of the gate for a forecast."""
        network = self.gate.network
        first = FirstLayers.of([network.first], slice(2 * self.channels), places)
        return first, LastLayer.of(network.last)
