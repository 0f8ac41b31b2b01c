r"""Closure: tendencies that the equations do not resolve, from the state, the terrain and the time.

.. math:: S = s \odot \tanh\mathcal N([X, \mathrm{terrain}, \mathrm{time}]), \qquad s > 0 \text{ learned}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from stationpde.model.convolutions import Convolution, LastLayer, zero_
from stationpde.model.first_layers import FirstLayers, LeadConditions, PlaceColumns
from stationpde.model.stencils import TAPS
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
    ) -> dict[str, Float[Tensor, "batch y x"]]:
        """Return closures by name from the scaled state and B_t, whose first channels are place and altitude."""
        if isinstance(conditions, LeadConditions):
            outputs = self._from_prepared(state, conditions)
        else:
            gain, shift = self.modulation(conditions[:, : self.terrain]).chunk(2, dim=1)
            hidden = silu(self.first(torch.cat([state, conditions], dim=1)) * (1.0 + gain) + shift)
            outputs = self.last(hidden)
        bounded = torch.tanh(outputs) * self.scale[:, None, None]
        return {f"S_{name}": bounded[:, index] for index, name in enumerate(self.channels)}

    def prepare(self, places: PlaceColumns) -> tuple[FirstLayers, Tensor, Tensor, LastLayer]:
        """Prepare for a forecast: first layer, the terrain's factor and shift of it, last layer."""
        first = FirstLayers.of([self.first], slice(len(STATE)), places)
        middle = places.columns.unflatten(0, (-1, TAPS))[: self.terrain, TAPS // 2]
        weight, bias = self.modulation.weight[:, :, 0, 0], self.modulation.bias
        assert bias is not None
        gain, shift = torch.addmm(bias[:, None], weight, middle).chunk(2)
        return first, 1.0 + gain, shift, LastLayer.of(self.last)

    def _from_prepared(self, state: Tensor, conditions: LeadConditions) -> Tensor:
        first, factor, shift, last = conditions.prepared[self]
        features = first(state, conditions).unflatten(1, (state.shape[0], -1))
        hidden = silu(torch.addcmul(shift[:, None], features, factor[:, None])).flatten(1)
        outputs: Tensor = last(hidden, state.shape[0], state.shape[-2:])
        return outputs
