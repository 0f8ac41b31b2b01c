r"""The guide: first guesses at the stations from history and surroundings, before any field is evolved.

.. math:: \hat x_{i,l} = W_l\,\phi(\text{station, surroundings}) + w_{i,l}\,\psi(\text{station, surroundings})

is the linear guess: :math:`W` is shared by all stations; :math:`w_i` belongs to one station and is zero for a station
without training. Both are ridge fits (`stationpde.guide.fit`). The second guess is that of small perceptrons on the
same view of the field (`stationpde.guide.network`). Both are fitted on the training split before the first step of
training, and saved as buffers: training does not change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

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
LocalForm = Literal["single", "blocks"]


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
    local_form : ``single``, or ``blocks``: weights of stations in half precision, or of no station at all
    others : number of further forecasts that are mixed in after the guesses
    keeps_evidence : as in `Mixture`
    """

    pooled: Tensor
    local: Tensor

    def __init__(
        self, predictors: int, local_predictors: int, stations: int, horizon: int, channels: int,
        network: GuideNetwork | None = None, others: int = 0, keeps_evidence: bool = False,
        local_form: LocalForm = "single",
    ) -> None:  # fmt: skip
        guesses = 1 if network is None else 2
        share = torch.full((guesses + others, horizon, channels), INITIAL_SHARE / guesses)
        share[guesses:] = 0.0
        super().__init__(share, is_fitted=False, keeps_evidence=keeps_evidence)
        self.network, self.guesses, self.local_form, self.stations = network, guesses, local_form, stations
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
        guesses = [pooled @ self.pooled]
        if len(self.local):
            weights = self.local[number.clamp(min=0)].to(local.dtype)
            correction = torch.einsum("bnf,nfo->bno", local, weights)
            guesses[0] = guesses[0] + torch.where(trained_on, correction, torch.zeros_like(correction))
        if self.network is not None:
            guesses.append(self.network(pooled, issue_time, place, number, trained_on))
        return torch.stack(guesses).unflatten(-1, (self.horizon, self.channels)).movedim(3, 2)

    def take_local(self, weights: Float[Tensor, "station local output"] | None) -> None:
        """Take the fitted weights of the stations, in the form in which they are saved; None for none."""
        if weights is None:
            self.local = self.local[:0].half()
        else:
            self.local = weights.to(self.local) if self.local_form == "single" else weights.half().to(self.local.device)

    def adapt_buffers(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the form of the stations' weights in a checkpoint, if the fit may have chosen it."""
        saved = tensors.get("local")
        if saved is None or self.local_form == "single" or saved.dtype != torch.float16:
            return
        if saved.ndim == 3 and saved.shape[1:] == self.local.shape[1:] and len(saved) in (0, self.stations):
            self.local = torch.empty_like(saved, device=self.local.device)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *further: Any) -> None:
        self.adapt_buffers({"local": state_dict[f"{prefix}local"]} if f"{prefix}local" in state_dict else {})
        super()._load_from_state_dict(state_dict, prefix, *further)
