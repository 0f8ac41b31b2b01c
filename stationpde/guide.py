r"""The guide: first guesses at the stations from history and surroundings, before any field is evolved.

.. math:: \hat x_{i,l} = W_l\,\phi(\text{station, surroundings}) + w_{i,l}\,\psi(\text{station, surroundings})

is the linear guess: :math:`W` is shared by all stations; :math:`w_i` is a station's own and zero for one that was not
trained on. Both are ridge fits (`stationpde.guide_fit`). The second guess is that of small perceptrons on the same
view of the field (`stationpde.guide_network`). Both are fitted on the training split before the first step of training,
and kept as buffers: training does not touch them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from stationpde.guide_network import GuideNetwork

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["Guide"]


class Guide(nn.Module):
    """Weights of the fits, and how much of each is taken; before they are fitted they say nothing and have no share.

    Shares are no parameters of the training: on windows that a forecast was fitted to it looks better than it is. They
    are set on windows that neither guide nor field has seen (`stationpde.shares`).

    Parameters
    ----------
    predictors, own_predictors : numbers of shared and of a station's own predictors
    stations : those of training
    share : of all guesses together at the start, against the field; later one for each guess, lead and channel
    network : what makes the second guess, if there is one
    """

    pooled: Tensor
    local: Tensor
    fitted: Tensor
    share: Tensor

    def __init__(
        self, predictors: int, own_predictors: int, stations: int, horizon: int, channels: int, share: float,
        network: GuideNetwork | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.horizon, self.channels, self.network = horizon, channels, network
        outputs, guesses = horizon * channels, 1 if network is None else 2
        self.register_buffer("pooled", torch.zeros(predictors, outputs))
        self.register_buffer("local", torch.zeros(stations, own_predictors, outputs))
        self.register_buffer("fitted", torch.zeros(()))
        self.register_buffer("share", torch.full((guesses, horizon, channels), share / guesses))

    def forward(
        self,
        pooled: Float[Tensor, "batch station predictor"],
        local: Float[Tensor, "batch station own"],
        issue_time: Int64[Tensor, " batch"],
        place: Float[Tensor, "station 3"],
        number: Int64[Tensor, " station"],
        shown: Bool[Tensor, "batch station"] | None,
    ) -> Float[Tensor, "guess batch lead station channel"]:
        """First guesses of observed variables, scaled; ``number`` is a station's place in training, -1 for none."""
        known = (number >= 0).expand(pooled.shape[0], -1)
        known = (known if shown is None else known & shown)[..., None]
        own = torch.einsum("bnf,nfo->bno", local, self.local[number.clamp(min=0)])
        found = [pooled @ self.pooled + torch.where(known, own, torch.zeros_like(own))]
        if self.network is not None:
            found.append(self.network(pooled, issue_time, place, number, known))
        return torch.stack(found).unflatten(-1, (self.horizon, self.channels)).movedim(3, 2)

    def mix(self, guided: Tensor, field: Tensor, lead: int | Tensor) -> Tensor:
        """Observed variables at the stations [SI]: each guess by its share, the rest as the ``field`` has it.

        Beyond the horizon that was fitted the field goes on alone.
        """
        if isinstance(lead, Tensor):
            row = (lead.clamp(max=self.horizon) - 1).reshape(1)
            guess = guided.index_select(2, row)[:, :, 0]
            share = self.share.index_select(1, row) * (self.fitted * (lead <= self.horizon).to(guess.dtype))
        elif lead > self.horizon:
            return field
        else:
            guess, share = guided[:, :, lead - 1], self.share[:, lead - 1 : lead] * self.fitted
        return field + (share[:, None] * (guess - field)).sum(dim=0)
