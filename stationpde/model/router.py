r"""The adaptive router: a convex combination of the two branches, cell by cell and channel by channel.

.. math:: \alpha = \sigma(\mathcal R([X^{AI}, X^{PDE}, B])), \qquad X = \alpha \odot X^{AI} + (1 - \alpha) \odot X^{PDE}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from stationpde.model.convolutions import Gate
from stationpde.model.first_layers import Ahead, LeadConditions, PreparedNetwork
from stationpde.model.gate_kernel import apply_gate

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Router"]

# σ(0) = ½: both branches count the same at the start.
ROUTER_BIAS = 0.0


class Router(nn.Module):
    """Gate between the data-driven branch and the equations."""

    def __init__(self, channels: int, conditions: int, hidden: int, bias: float = ROUTER_BIAS) -> None:
        super().__init__()
        self.gate = Gate(2 * channels + conditions, hidden, channels, bias)

    def forward(
        self,
        data: Float[Tensor, "batch channel y x"],
        physics: Float[Tensor, "batch channel y x"],
        conditions: Float[Tensor, "batch condition y x"],
    ) -> tuple[Float[Tensor, "batch channel y x"], Float[Tensor, "batch channel y x"]]:
        """Return the joined field and α, the weight of the data-driven branch."""
        if isinstance(conditions, LeadConditions):
            network: PreparedNetwork = conditions.prepared[self]
            return apply_gate(data, physics, conditions.sun, *network.weights(conditions.number))
        weight = self.gate(data, physics, conditions)
        return torch.lerp(physics, data, weight), weight

    def prepare(self, ahead: Ahead) -> PreparedNetwork:
        """Prepare the gate for a forecast."""
        return PreparedNetwork.of(self.gate.network.first, self.gate.network.last, ahead)
