r"""The guide: first guesses at the stations from history and surroundings, before any field is evolved.

.. math:: \hat x_{i,l} = W_l\,\phi(\text{station, surroundings}) + w_{i,l}\,\psi(\text{station, surroundings})

is the linear guess: :math:`W` is shared by all stations; :math:`w_i` belongs to one station and is zero for a station
without training. Both are ridge fits (`stationpde.guide.fit`). The second guess is that of small perceptrons on the
same view of the field (`stationpde.guide.network`). Both are fitted on the training split before the first step of
training, and saved as buffers: training does not change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.guide.mixture import Mixture
from stationpde.guide.network import GuideNetwork

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["INITIAL_SHARE", "Guide"]

# Share of all guesses together, against the field, until the first epoch is validated and shares are fitted;
# set without a comparison of skill.
INITIAL_SHARE = 0.8


class Guide(Mixture):
    """Weights of the fits, and the share of each guess in the forecast; without effect until they are fitted.

    Parameters
    ----------
    predictors : number of predictors of the fit that all stations share
    local_predictors : number of predictors of the fit of each station
    stations : number of stations in training
    horizon : number of leads
    channels : number of observed variables
    network : perceptrons of the second guess; None for the linear guess alone
    others : number of further forecasts that are mixed in after the guesses
    keeps_evidence : as in `Mixture`
    """

    pooled: Tensor
    local: Tensor

    def __init__(
        self, predictors: int, local_predictors: int, stations: int, horizon: int, channels: int,
        network: GuideNetwork | None = None, others: int = 0, keeps_evidence: bool = False,
    ) -> None:  # fmt: skip
        guesses = 1 if network is None else 2
        share = torch.full((guesses + others, horizon, channels), INITIAL_SHARE / guesses)
        share[guesses:] = 0.0
        super().__init__(share, is_fitted=False, keeps_evidence=keeps_evidence)
        self.network, self.guesses = network, guesses
        outputs = horizon * channels
        self.register_buffer("pooled", torch.zeros(predictors, outputs))
        self.register_buffer("local", torch.zeros(stations, local_predictors, outputs))

    def forward(
        self,
        pooled: Float[Tensor, "batch station predictor"],
        local: Float[Tensor, "batch station local"],
        issue_time: Int64[Tensor, " batch"],
        place: Float[Tensor, "station 3"],
        number: Int64[Tensor, " station"],
        shown: Bool[Tensor, "batch station"] | None,
    ) -> Float[Tensor, "guess batch lead station channel"]:
        """Return first guesses of observed variables, scaled departures from the reference.

        Parameters
        ----------
        pooled, local : predictors of the shared fit and of the fit of each station
        issue_time : seconds since 1970, UTC
        place : row and column in the region and altitude
        number : the row of each station in training, -1 for a station that was not trained on
        shown : stations that may be seen; the others are guessed as if they were new
        """
        trained_on = (number >= 0).expand(pooled.shape[0], -1)
        trained_on = (trained_on if shown is None else trained_on & shown)[..., None]
        correction = torch.einsum("bnf,nfo->bno", local, self.local[number.clamp(min=0)])
        guesses = [pooled @ self.pooled + torch.where(trained_on, correction, torch.zeros_like(correction))]
        if self.network is not None:
            guesses.append(self.network(pooled, issue_time, place, number, trained_on))
        return torch.stack(guesses).unflatten(-1, (self.horizon, self.channels)).movedim(3, 2)
