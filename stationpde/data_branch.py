r"""The data-driven diffusion branch: candidate, state gate, motion, warp, warp gate and residual.

.. math::

   \tilde X &= X + \tau_c\, \mathcal A([X, B]), & H &= X + M^s \odot (\tilde X - X), \\
   D &= \mathcal M([H, B]), & W &= \mathrm{Warp}(H, D), \\
   X^{AI} &= H + M^d \odot (W - H) + R([H, B])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from stationpde.convolutions import Gate, Network, zero_
from stationpde.warp import warp

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["DataBranch"]


class DataBranch(nn.Module):
    """One forecast interval of the field, in the networks' scaled units.

    Parameters
    ----------
    channels : of the state; conditions : of B_t; hidden : width
    candidate_scale : τ_c at the start, one number for each channel
    motion_limit : cells; the motion is tanh times this, zero at the start
    """

    undecayed = ("tau",)

    def __init__(
        self,
        channels: int,
        conditions: int,
        hidden: int,
        *,
        gate_bias: float = -2.0,
        candidate_scale: float = 0.1,
        motion_limit: float = 4.0,
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

    def forward(
        self, state: Float[Tensor, "batch channel y x"], conditions: Float[Tensor, "batch condition y x"]
    ) -> Float[Tensor, "batch channel y x"]:
        """The data-driven forecast of the next field."""
        candidate = state + self.tau[:, None, None] * self.candidate(state, conditions)
        hidden = state + self.state_gate(state, candidate, conditions) * (candidate - state)
        motion = self.motion_limit * torch.tanh(self.motion(hidden, conditions))
        moved = self.warp_gate(hidden, candidate, conditions) * (warp(hidden, motion) - hidden)
        return hidden + moved + self.residual(hidden, conditions)
