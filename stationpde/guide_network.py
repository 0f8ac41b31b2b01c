r"""The non-linear guess of the guide: perceptrons on what a station and the field around it were.

.. math:: \hat x_{i} = \frac1M \sum_m A_m\,\sigma(B_m\,\sigma(C_m\,[\phi_0, \mathrm{hour}, \mathrm{place}, e_i]))

with :math:`\phi_0` the predictors of the linear guess without their products (a perceptron makes its own), the hour of
issue, position and altitude, and numbers :math:`e_i` learned for each station, zero for one that was not trained on.
Rows are stations of windows: a step learns from a thousand rows of as many windows, where a step of the field sees a
handful of windows. In minutes they learn what the networks of the field need hours for. What the field adds to them it
adds in the mean of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, silu

from stationpde.predictors import day_waves

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["GuideNetwork"]

_DROPOUT = 0.2
_EMBEDDING = 8
_HOURS, _PLACE = 4, 3
# A predictor farther out than any in training must not run away with a guess.
_LARGEST = 6.0


class GuideNetwork(nn.Module):
    """Perceptrons with two hidden layers of SiLU, whose mean is the guess; weights are buffers, zero until fitted.

    Parameters
    ----------
    predictors : how many of the shared predictors are seen, from the first
    stations : those of training
    outputs : leads × channels
    hidden : width of both layers; members : perceptrons
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
        known: Bool[Tensor, "batch station 1"],
    ) -> Float[Tensor, "batch station output"]:
        """Scaled guesses; stations that are not ``known`` are guessed without numbers of their own."""
        batch, stations = pooled.shape[:2]
        rows = self.scaled(pooled[..., : self.predictors]).flatten(0, 1)
        hour = day_waves(issue_time, rows.dtype).repeat_interleave(stations, dim=0)
        rows = torch.cat([rows, hour, place.repeat(batch, 1)], dim=-1)
        weights = {name: tensor for name, tensor in self.named_buffers() if name not in ("centre", "spread")}
        found = self.guess(weights, rows, number.clamp(min=0).repeat(batch), known.reshape(-1, 1))
        return found.mean(dim=0).unflatten(0, (batch, stations))

    def scaled(self, predictors: Float[Tensor, "*rows predictor"]) -> Float[Tensor, "*rows predictor"]:
        """Predictors about their mean in training, in its standard deviations."""
        return ((predictors - self.centre) / self.spread).clamp(-_LARGEST, _LARGEST)

    @staticmethod
    def guess(
        weights: dict[str, Tensor],
        rows: Float[Tensor, "row input"],
        station: Int64[Tensor, " row"],
        known: Bool[Tensor, "row 1"],
        training: bool = False,
    ) -> Float[Tensor, "member row output"]:
        """What each perceptron makes of rows of scaled predictors, hour and place; ``training`` drops out units."""
        own = weights["embedding"][:, station] * known
        found = torch.cat([rows.expand(own.shape[0], -1, -1), own], dim=-1)
        for name in ("first", "middle"):
            found = silu(torch.baddbmm(weights[f"{name}_bias"], found, weights[f"{name}_weight"]))
            found = dropout(found, _DROPOUT, training)
        return torch.baddbmm(weights["last_bias"], found, weights["last_weight"])
