r"""The linear guide: what a closed-form fit makes of history and surroundings, as a first guess at the stations.

.. math:: \hat x_{i,l} = W_l\,\phi(\text{station, surroundings}) + w_{i,l}\,\psi(\text{station, surroundings})

:math:`W` is shared by all stations; :math:`w_i` is a station's own and zero for one that was not trained on. Both are
ridge fits on the training split (`stationpde.guide_fit`), kept as buffers. A window of training is answered by
weights that were fitted without its part of the record (*cross-fitting*): the networks behind the guide meet errors as
large as those of a forecast, and do not learn to trust a fit to its own data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["Guide"]


class Guide(nn.Module):
    """Weights of the fit, and how much of it is taken; before it is fitted it says nothing and has no share.

    The share is no parameter of the training: against windows that the networks have learned from, a cross-fitted guide
    looks worse than it is. It is set on windows that neither has seen (`stationpde.shares`).

    Parameters
    ----------
    predictors, own_predictors : numbers of shared and of a station's own predictors
    stations : those of training
    share : of the guide in the forecast at the start, against the field; later one for each lead and channel
    """

    pooled: Tensor
    local: Tensor
    fitted: Tensor
    share: Tensor
    edges: Tensor
    pooled_folds: Tensor
    local_folds: Tensor

    def __init__(
        self, predictors: int, own_predictors: int, stations: int, horizon: int, channels: int, share: float
    ) -> None:
        super().__init__()
        self.horizon, self.channels = horizon, channels
        outputs = horizon * channels
        self.register_buffer("pooled", torch.zeros(predictors, outputs))
        self.register_buffer("local", torch.zeros(stations, own_predictors, outputs))
        self.register_buffer("fitted", torch.zeros(()))
        # Needed in training alone, where a new start makes them anew.
        self.register_buffer("edges", torch.zeros(0, dtype=torch.long), persistent=False)
        self.register_buffer("pooled_folds", torch.zeros(0, predictors, outputs), persistent=False)
        self.register_buffer("local_folds", torch.zeros(0, stations, own_predictors, outputs), persistent=False)
        self.register_buffer("share", torch.full((horizon, channels), share))

    def forward(
        self,
        pooled: Float[Tensor, "batch station predictor"],
        local: Float[Tensor, "batch station own"],
        issue_time: Int64[Tensor, " batch"],
        number: Int64[Tensor, " station"],
        shown: Bool[Tensor, "batch station"] | None,
    ) -> Float[Tensor, "batch lead station channel"]:
        """First guesses of observed variables, scaled; ``number`` is a station's place in training, -1 for none."""
        known = (number >= 0)[:, None]
        if shown is not None:
            known = known & shown[..., None]
        if self.training and self.edges.numel():
            fold = torch.bucketize(issue_time, self.edges, right=True)
            found = torch.bmm(pooled, self.pooled_folds[fold])
            own = self.local_folds[:, number.clamp(min=0)][fold]
            added = torch.einsum("bnf,bnfo->bno", local, own)
        else:
            found = pooled @ self.pooled
            added = torch.einsum("bnf,nfo->bno", local, self.local[number.clamp(min=0)])
        found = found + torch.where(known, added, torch.zeros_like(added))
        return found.unflatten(-1, (self.horizon, self.channels)).movedim(2, 1)

    def mix(self, guided: Tensor, field: Tensor, lead: int | Tensor) -> Tensor:
        """Observed variables at the stations [SI]: the guide's share of its guesses, the rest as the ``field`` has it.

        Beyond the horizon that was fitted the field goes on alone.
        """
        if isinstance(lead, Tensor):
            row = (lead.clamp(max=self.horizon) - 1).reshape(1)
            guess = guided.index_select(1, row)[:, 0]
            share = self.share.index_select(0, row) * (self.fitted * (lead <= self.horizon).to(guess.dtype))
        elif lead > self.horizon:
            return field
        else:
            guess, share = guided[:, lead - 1], self.share[lead - 1] * self.fitted
        return field + share * (guess - field)
