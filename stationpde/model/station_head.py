r"""The unified station residual head, and the anchor of a station's own departure from the field.

.. math:: \hat S = \Psi^{-1}\bigl(\mathrm{Readout}(X) + \mathcal H_\xi(\Psi(S_{hist}), \mathrm{geography, time, lead})
          + a_{lead}\,(\Psi(S_{t-1}) - \mathrm{Readout}(G_{t-1}))\bigr)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from stationpde.config import Config
from stationpde.model.climate import StateStatistics
from stationpde.model.convolutions import zero_
from stationpde.model.head_kernel import apply_head, apply_layer, runs_head_here, runs_layer_here
from stationpde.physics import DAY, PLACES, STATE, TIME_FEATURES, View, time_features

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["STATION_NUMBERS", "Anchor", "StationHead", "history_inputs", "lead_inputs", "station_numbers"]

C = len(STATE)
# Numbers learned for each station as inputs of its head.
STATION_NUMBERS = 8


class StationHead(nn.Module):
    """Residuals of all state channels at the stations, shared by all stations and leads.

    An MLP with two SiLU layers. The first layer is the sum of a part for the history of a station, computed once for
    all leads, and a part for time and lead.

    Parameters
    ----------
    lasting : number of inputs that belong to a station and window (`history_inputs`)
    passing : number of inputs that change with the lead (`lead_inputs`)
    hidden : width of the layers
    scale : initial factor of the outputs, SI ``[channel]``; learned
    """

    undecayed = ("scale",)

    def __init__(self, lasting: int, passing: int, hidden: int, scale: Tensor) -> None:
        super().__init__()
        self.lasting = nn.Linear(lasting, hidden)
        self.passing = nn.Linear(passing, hidden, bias=False)
        self.middle = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, len(scale))
        zero_(self.last)
        self.scale = nn.Parameter(scale.clone())

    @classmethod
    def of(cls, config: Config, statistics: StateStatistics, place_features: int) -> StationHead:
        """Build a head by configuration; its scale starts as the standard deviation of the change of one step."""
        model = config.model
        lasting = 2 * C * config.data.history
        lasting += STATION_NUMBERS if "station" in model.inputs else 0
        lasting += model.encoder_hidden if "encoder" in model.inputs else 0
        lasting += 3 * C * PLACES if "surroundings" in model.inputs else 0
        passing = place_features + TIME_FEATURES + 1
        change = torch.as_tensor(statistics.change_std, dtype=torch.float32)
        return cls(lasting, passing, model.head_hidden, change)

    def remember(self, lasting: Float[Tensor, "batch station lasting"]) -> Float[Tensor, "batch station hidden"]:
        """Return the part of the first layer that holds for every lead."""
        layer = self.lasting
        if runs_layer_here(lasting, layer.weight, layer.bias):
            return apply_layer(lasting, layer.weight, layer.bias)
        memory: Tensor = layer(lasting)
        return memory

    def forward(
        self, memory: Float[Tensor, "*batch station hidden"], passing: Float[Tensor, "*batch station passing"]
    ) -> Float[Tensor, "*batch station channel"]:
        """Return residuals, SI; of several leads where ``passing`` has them as a further dimension."""
        middle, last = self.middle, self.last
        weights = (self.passing.weight, middle.weight, middle.bias, last.weight, last.bias, self.scale)
        if runs_head_here(memory, passing, *weights):
            return apply_head(memory, passing, *weights)
        scaled: Tensor = self.last(silu(self.middle(silu(memory + self.passing(passing)))))
        return scaled * self.scale


def history_inputs(
    departures: Float[Tensor, "batch time station channel"],
    scale: Float[Tensor, "station channel"],
    features: Float[Tensor, "batch station hidden"] | None,
    view: View | None,
    embedding: Float[Tensor, "batch station number"] | None,
) -> Float[Tensor, "batch station lasting"]:
    """Join the inputs of the station head that belong to a history.

    Parameters
    ----------
    departures : of the stations, SI; NaN = missing, which the head sees as zero with a mask
    scale : of the departures
    features : of the encoder, read at the stations; not an input where None
    view : surroundings of the stations; not an input where None
    embedding : learned numbers of the stations; not an input where None
    """
    batch, stations = departures.shape[0], departures.shape[2]
    there = torch.isfinite(departures)
    values = torch.where(there, departures / scale, torch.zeros_like(departures))
    parts = [part.movedim(1, 2).reshape(batch, stations, -1) for part in (values, there.to(values.dtype))]
    if features is not None:
        parts.append(features)
    if view is not None:
        parts += [view.around.flatten(-2), view.change_3h.flatten(-2), view.change_12h.flatten(-2)]
    if embedding is not None:
        parts.append(embedding)
    return torch.cat(parts, dim=-1)


def station_numbers(
    embedding: Float[Tensor, "trained number"] | None,
    rows: Int64[Tensor, " station"],
    batch: int,
    shown: Bool[Tensor, "batch station"] | None,
) -> Float[Tensor, "batch station number"] | None:
    """Look up the learned numbers of stations; zero for a station of row -1 and for one that is not shown."""
    if embedding is None:
        return None
    numbers = torch.where((rows >= 0)[:, None], embedding[rows.clamp(min=0)], 0.0).expand(batch, -1, -1)
    return numbers if shown is None else torch.where(shown[..., None], numbers, 0.0)


def lead_inputs(
    places: Float[Tensor, "batch lead station feature"],
    valid_time: Int64[Tensor, "batch lead"],
    ahead: Float[Tensor, " lead"],
) -> Float[Tensor, "batch lead station passing"]:
    """Join the inputs of the station head that change with the lead: place features, valid time, lead / horizon."""
    time = time_features(valid_time, places.dtype)[:, :, None, :].expand(-1, -1, places.shape[2], -1)
    share = torch.ones_like(places[..., :1]) * ahead[:, None, None]
    return torch.cat([places, time, share], dim=-1)


class Anchor(nn.Module):
    """Weights, for channel and lead, of the station's departure from the field: now, and at the same hour yesterday.

    Parameters
    ----------
    horizon : number of leads; later ones take the weights of the last
    steps_per_day, history : in steps of the model; without a whole day in the history there is no yesterday
    """

    def __init__(self, horizon: int, channels: int, steps_per_day: int, history: int) -> None:
        super().__init__()
        lead = torch.arange(1, horizon + 1, dtype=torch.float32)
        # A departure fades over half a day or so; part of it comes back with the hour of the day.
        fading = 0.6 * torch.exp(-lead / max(1.0, 0.4 * steps_per_day))
        self.now = nn.Parameter(fading[:, None].repeat(1, channels))
        self.steps_per_day, self.history = steps_per_day, history
        self.has_yesterday = history >= steps_per_day
        if self.has_yesterday:
            self.yesterday = nn.Parameter(torch.full((horizon, channels), 0.15))
        self.undecayed = tuple(self._parameters)

    @classmethod
    def of(cls, config: Config) -> Anchor:
        """Build an anchor by configuration."""
        return cls(config.data.horizon, C, int(DAY) // config.data.step_seconds, config.data.history)

    def forward(
        self, departures: Float[Tensor, "batch time station channel"], leads: Int64[Tensor, " lead"]
    ) -> Float[Tensor, "batch lead station channel"]:
        """Return the corrections at leads, SI; ``departures`` are zero where nothing was observed."""
        row = leads.clamp(max=self.now.shape[0]) - 1
        added = self.now.index_select(0, row)[:, None] * departures[:, -1:]
        if not self.has_yesterday:
            return added
        # The same hour on the latest day that lies in the history.
        back = torch.remainder(leads - 1, self.steps_per_day) + 1
        same_hour = departures.shape[1] - 1 + back - self.steps_per_day
        then = departures.index_select(1, same_hour.clamp(min=0))
        weight = torch.where((same_hour >= 0)[:, None], self.yesterday.index_select(0, row), 0.0)
        return added + weight[:, None] * then
