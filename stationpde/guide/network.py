r"""The non-linear guess of the guide: perceptrons on the histories of a station and of the field around it.

.. math:: \hat x_{i} = \frac1M \sum_m A_m\,\sigma(B_m\,\sigma(C_m\,[\phi_0, \mathrm{hour}, \mathrm{place}, e_i]))

with :math:`\phi_0` the predictors of the linear guess without their products (a perceptron learns products itself), the
hour of issue, position and altitude, and numbers :math:`e_i` learned for each station, zero for one without training.
Rows are stations of windows: a step learns from a thousand rows of as many windows, where a step of the field sees a
handful of windows. In minutes they learn what the networks of the field need hours for; guesses and field are averaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, silu

from stationpde.guide.predictors import day_waves

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["GuideNetwork"]

_DROPOUT = 0.2
_EMBEDDING = 8
_HOURS, _PLACE = 4, 3
# Clips predictors far outside the range of training, so that a guess stays bounded.
_LARGEST = 6.0


class GuideNetwork(nn.Module):
    """Perceptrons with two hidden layers of SiLU, whose mean is the guess; weights are buffers, zero until fitted.

    Parameters
    ----------
    predictors : number of shared predictors that are inputs, counted from the first
    stations : number of stations in training
    outputs : leads × channels
    hidden : width of both layers
    members : number of perceptrons
    """

    centre: Tensor
    spread: Tensor
    embedding: Tensor

    def __init__(self, predictors: int, stations: int, outputs: int, hidden: int, members: int) -> None:
        super().__init__()
        self.predictors, self.members = predictors, members
        self.register_buffer("centre", torch.zeros(predictors))
        self.register_buffer("spread", torch.ones(predictors))
        sizes = {
            "first": (predictors + _HOURS + _PLACE + _EMBEDDING, hidden),
            "middle": (hidden, hidden),
            "last": (hidden, outputs),
        }
        for name, (inputs, width) in sizes.items():
            self.register_buffer(f"{name}_weight", torch.zeros(members, inputs, width))
            self.register_buffer(f"{name}_bias", torch.zeros(members, 1, width))
        self.register_buffer("embedding", torch.zeros(members, stations, _EMBEDDING))

    def forward(
        self,
        pooled: Float[Tensor, "batch station predictor"],
        issue_time: Int64[Tensor, " batch"],
        place: Float[Tensor, "station 3"],
        number: Int64[Tensor, " station"],
        trained_on: Bool[Tensor, "batch station 1"],
    ) -> Float[Tensor, "batch station output"]:
        """Return scaled guesses; a station that is not ``trained_on`` has numbers :math:`e_i` of zero."""
        batch, stations = pooled.shape[:2]
        rows = self.scaled(pooled[..., : self.predictors]).flatten(0, 1)
        hour = day_waves(issue_time, rows.dtype).repeat_interleave(stations, dim=0)
        rows = torch.cat([rows, hour, place.repeat(batch, 1)], dim=-1)
        weights = {name: tensor for name, tensor in self.named_buffers() if name not in ("centre", "spread")}
        guesses = self.guess(weights, rows, number.clamp(min=0).repeat(batch), trained_on.reshape(-1, 1))
        return guesses.mean(dim=0).unflatten(0, (batch, stations))

    def scaled(self, predictors: Float[Tensor, "*rows predictor"]) -> Float[Tensor, "*rows predictor"]:
        """Scale predictors by their mean and standard deviation in training."""
        return ((predictors - self.centre) / self.spread).clamp(-_LARGEST, _LARGEST)

    @staticmethod
    def guess(
        weights: dict[str, Tensor],
        rows: Float[Tensor, "row input"],
        station: Int64[Tensor, " row"],
        trained_on: Bool[Tensor, "row 1"],
        training: bool = False,
    ) -> Float[Tensor, "member row output"]:
        """Apply each perceptron to rows of scaled predictors, hour and place; ``training`` drops out units."""
        embedding = weights["embedding"][:, station] * trained_on
        layer = torch.cat([rows.expand(embedding.shape[0], -1, -1), embedding], dim=-1)
        for name in ("first", "middle"):
            layer = silu(torch.baddbmm(weights[f"{name}_bias"], layer, weights[f"{name}_weight"]))
            layer = dropout(layer, _DROPOUT, training)
        return torch.baddbmm(weights["last_bias"], layer, weights["last_weight"])
