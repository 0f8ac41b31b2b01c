r"""The data-driven diffusion branch: candidate, state gate, motion, warp, warp gate and residual.

.. math::

   \tilde X &= X + \tau_c\, \mathcal A([X, B]), & H &= X + M^s \odot (\tilde X - X), \\
   D &= \mathcal M([H, B]), & W &= \mathrm{Warp}(H, D), \\
   X^{AI} &= H + M^d \odot (W - H) + R([H, B])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from stationpde.config import Config
from stationpde.model.convolutions import GATE_BIAS, Gate, Network, zero_
from stationpde.model.first_layers import Ahead, LeadConditions, PreparedNetwork
from stationpde.model.warp import warp_field
from stationpde.physics import STATE

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["DataBranch"]

# τ_c at the start: a small step, so that an untrained branch nearly keeps the field.
CANDIDATE_SCALE = 0.1
# Cells that the field moves in one forecast interval at most: 46 m/s for cells of 125 km and steps of 3 h.
MOTION_LIMIT = 4.0


class DataBranch(nn.Module):
    """Network that advances the scaled field by one forecast interval.

    Parameters
    ----------
    channels : number of channels of the state
    conditions : number of channels of B_t
    hidden : width of the networks
    gate_bias : logit that the gates start near
    candidate_scale : initial τ_c, one number for each channel
    motion_limit : largest motion in cells; the motion is tanh times this, zero at the start
    """

    undecayed = ("tau",)

    def __init__(
        self,
        channels: int,
        conditions: int,
        hidden: int,
        *,
        gate_bias: float = GATE_BIAS,
        candidate_scale: float = CANDIDATE_SCALE,
        motion_limit: float = MOTION_LIMIT,
    ) -> None:
        super().__init__()
        self.motion_limit = motion_limit
        self.candidate = Network(channels + conditions, hidden, channels)
        self.tau = nn.Parameter(torch.full((channels,), candidate_scale))
        self.state_gate = Gate(2 * channels + conditions, hidden, channels, gate_bias)
        self.motion = Network(channels + conditions, hidden, 2)
        self.warp_gate = Gate(2 * channels + conditions, hidden, channels, gate_bias)
        self.residual = Network(channels + conditions, hidden, channels)
        zero_([self.motion.last, self.residual.last])

    @classmethod
    def of(cls, config: Config, conditions: int) -> DataBranch:
        """Build a branch by configuration, for so many channels of B_t."""
        return cls(len(STATE), conditions, config.model.hidden)

    def forward(
        self, state: Float[Tensor, "batch channel y x"], conditions: Float[Tensor, "batch condition y x"]
    ) -> Float[Tensor, "batch channel y x"]:
        """Return the data-driven forecast of the next field."""
        apply = self._prepared(conditions) if isinstance(conditions, LeadConditions) else self._plain(conditions)
        candidate = state + self.tau[:, None, None] * apply(self.candidate, state)
        hidden = state + apply(self.state_gate, state, candidate) * (candidate - state)
        motion = self.motion_limit * torch.tanh(apply(self.motion, hidden))
        gate = apply(self.warp_gate, hidden, candidate)
        moved = gate * (warp_field(hidden, motion) - hidden)
        return hidden + moved + apply(self.residual, hidden)

    def prepare(self, ahead: Ahead) -> dict[nn.Module, PreparedNetwork]:
        """Prepare every network for a forecast."""
        networks: dict[nn.Module, Network] = {part: part for part in (self.candidate, self.motion, self.residual)}
        networks |= {gate: gate.network for gate in (self.state_gate, self.warp_gate)}
        return {part: PreparedNetwork.of(network.first, network.last, ahead) for part, network in networks.items()}

    def _plain(self, conditions: Tensor) -> Callable[..., Tensor]:
        return lambda part, *fields: part(*fields, conditions)

    def _prepared(self, conditions: LeadConditions) -> Callable[..., Tensor]:
        networks: dict[nn.Module, PreparedNetwork] = conditions.prepared[self]

        def apply(part: nn.Module, *fields: Tensor) -> Tensor:
            outputs = networks[part](conditions, *fields)
            return torch.sigmoid(outputs) if isinstance(part, Gate) else outputs

        return apply
