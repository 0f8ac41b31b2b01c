r"""The data-driven diffusion branch: candidate, state gate, motion, warp, warp gate and residual.

.. math::

   \tilde X &= X + \tau_c\, \mathcal A([X, B]), & H &= X + M^s \odot (\tilde X - X), \\
   D &= \mathcal M([H, B]), & W &= \mathrm{Warp}(H, D), \\
   X^{AI} &= H + M^d \odot (W - H) + R([H, B])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from stationpde.config import Config
from stationpde.model.convolutions import GATE_BIAS, Gate, LastLayer, Network, zero_
from stationpde.model.first_layers import (
    FirstLayers,
    LeadConditions,
    PlaceColumns,
    field_weights,
    weighted_neighbours,
)
from stationpde.model.warp import warp_field
from stationpde.physics import STATE

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["DataBranch"]

# τ_c at the start: a small step, so that an untrained branch nearly keeps the field.
CANDIDATE_SCALE = 0.1
# Cells that the field moves in one forecast interval at most: 46 m/s for cells of 125 km and steps of 3 h.
MOTION_LIMIT = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class PreparedBranch:
    """Layers of the branch, joined by what they see: the state, the candidate, and the hidden field."""

    of_state: FirstLayers
    of_candidate: Float[Tensor, "hidden tap"]
    of_hidden: FirstLayers
    candidate: LastLayer
    state_gate: LastLayer
    motion: LastLayer
    residual: LastLayer
    warp_gate: LastLayer


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
        if isinstance(conditions, LeadConditions):
            return self._from_prepared(state, conditions)
        candidate = state + self.tau[:, None, None] * self.candidate(state, conditions)
        hidden = state + self.state_gate(state, candidate, conditions) * (candidate - state)
        motion = self.motion_limit * torch.tanh(self.motion(hidden, conditions))
        moved = self.warp_gate(hidden, candidate, conditions) * (warp_field(hidden, motion) - hidden)
        return hidden + moved + self.residual(hidden, conditions)

    def prepare(self, places: PlaceColumns) -> PreparedBranch:
        """Join first layers for a forecast."""
        first, second = slice(len(self.tau)), slice(len(self.tau), 2 * len(self.tau))
        candidate, motion, residual = self.candidate, self.motion, self.residual
        state_gate, warp_gate = self.state_gate.network, self.warp_gate.network
        return PreparedBranch(
            FirstLayers.of([candidate.first, state_gate.first], first, places),
            field_weights([state_gate.first, warp_gate.first], second),
            FirstLayers.of([motion.first, residual.first, warp_gate.first], first, places),
            *(LastLayer.of(network.last) for network in (candidate, state_gate, motion, residual, warp_gate)),
        )

    def _from_prepared(self, state: Tensor, conditions: LeadConditions) -> Tensor:
        """Compute the same as `forward`, each layer as a matrix product."""
        layers: PreparedBranch = conditions.prepared[self]
        shape = (state.shape[0], state.shape[-2:])
        for_candidate, for_gate = layers.of_state(state, conditions).chunk(2)
        candidate = state + self.tau[:, None, None] * layers.candidate(silu(for_candidate), *shape)
        also_gate, also_warp = weighted_neighbours(layers.of_candidate, candidate).chunk(2)
        gate = torch.sigmoid(layers.state_gate(silu(for_gate + also_gate), *shape))
        hidden = state + gate * (candidate - state)
        for_motion, for_residual, for_warp = layers.of_hidden(hidden, conditions).chunk(3)
        motion = self.motion_limit * torch.tanh(layers.motion(silu(for_motion), *shape))
        warp_gate = torch.sigmoid(layers.warp_gate(silu(for_warp + also_warp), *shape))
        moved = warp_gate * (warp_field(hidden, motion) - hidden)
        return hidden + moved + layers.residual(silu(for_residual), *shape)
