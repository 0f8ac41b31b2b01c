r"""Closure: tendencies that the equations do not resolve, from the state, the terrain and the time.

.. math:: S = s \odot \tanh\mathcal N([X, \mathrm{terrain}, \mathrm{time}]), \qquad s > 0 \text{ learned}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from stationpde.model.convolutions import Convolution, zero_
from stationpde.model.first_layers import Ahead, LeadConditions, PreparedNetwork
from stationpde.physics import POSITION_FEATURES, STATE

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["CLOSURE_SCALES", "Closure"]

# The 90 % quantile of hourly tendencies at real stations (design decision "closure"), SI per second.
CLOSURE_SCALES = {"u": 5e-4, "v": 5e-4, "p": 3e-2, "theta": 6e-4, "q": 3e-7}


class Closure(nn.Module):
    """Network of bounded tendencies ``S_p, S_theta, S_q`` and optionally ``S_u, S_v``, in SI per second.

    The hidden features are conditioned on the terrain by a learned scale and shift.

    Parameters
    ----------
    channels : names of the state's channels that have a closure
    conditions : number of channels of B_t
    hidden : width of the network
    terrain : number of first channels of B_t that condition the hidden features
    """

    undecayed = ("raw_scale",)
    start: Tensor

    def __init__(
        self, channels: tuple[str, ...], conditions: int, hidden: int, terrain: int = POSITION_FEATURES
    ) -> None:
        super().__init__()
        self.channels, self.terrain = channels, terrain
        self.first = Convolution(len(STATE) + conditions, hidden)
        self.modulation = nn.Conv2d(terrain, 2 * hidden, 1)
        zero_(self.modulation)
        self.last = Convolution(hidden, len(channels))
        zero_(self.last)
        self.raw_scale = nn.Parameter(torch.full((len(channels),), 0.5413))  # softplus of it is 1
        start = torch.tensor([CLOSURE_SCALES[name] for name in channels])
        self.register_buffer("start", start, persistent=False)

    @property
    def scale(self) -> Float[Tensor, " channel"]:
        """Largest tendency of each channel, SI per second."""
        return self.start * softplus(self.raw_scale)

    def forward(
        self, state: Float[Tensor, "batch field y x"], conditions: Float[Tensor, "batch condition y x"]
    ) -> Float[Tensor, "batch channel y x"]:
        """Return the closures of ``channels`` from the scaled state and B_t, whose first channels are the terrain."""
        return self.bounded(state, conditions) * self.scale[:, None, None]

    def bounded(
        self, state: Float[Tensor, "batch field y x"], conditions: Float[Tensor, "batch condition y x"]
    ) -> Float[Tensor, "batch channel y x"]:
        """Return the closures in parts of their largest, in [-1, 1]."""
        return torch.tanh(self.unbounded(state, conditions))

    def unbounded(
        self, state: Float[Tensor, "batch field y x"], conditions: Float[Tensor, "batch condition y x"]
    ) -> Float[Tensor, "batch channel y x"]:
        """Return what `bounded` is the hyperbolic tangent of."""
        if isinstance(conditions, LeadConditions):
            network: PreparedNetwork = conditions.prepared[self]
            return network(conditions, state)
        gain, shift = self.modulation(conditions[:, : self.terrain]).chunk(2, dim=1)
        hidden = silu(self.first(torch.cat([state, conditions], dim=1)) * (1.0 + gain) + shift)
        outputs: Tensor = self.last(hidden)
        return outputs

    def by_name(self, closures: Float[Tensor, "batch channel y x"]) -> dict[str, Float[Tensor, "batch y x"]]:
        """Name the closures as the equations do."""
        return {f"S_{name}": closures[:, index] for index, name in enumerate(self.channels)}

    def prepare(self, ahead: Ahead) -> PreparedNetwork:
        """Prepare for a forecast: the terrain's factor and shift of the hidden features are those of every lead."""
        terrain = ahead.places[0, : self.terrain, 1:-1, 1:-1].flatten(1)
        weight, bias = self.modulation.weight[:, :, 0, 0], self.modulation.bias
        assert bias is not None
        gain, shift = torch.addmm(bias[:, None], weight, terrain).chunk(2)
        return PreparedNetwork.of(self.first, self.last, ahead, 1.0 + gain, shift)
