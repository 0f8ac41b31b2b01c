r"""The unified station residual head, and the anchor of a station's own departure from the field.

.. math:: \hat S = \Psi^{-1}\bigl(\mathrm{Readout}(X) + \mathcal H_\xi(\Psi(S_{hist}), \mathrm{geography, time, lead})
          + a_{lead}\,(\Psi(S_{t-1}) - \mathrm{Readout}(G_{t-1}))\bigr)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from stationpde.convolutions import zero_

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Anchor", "StationHead"]


class StationHead(nn.Module):
    """Residuals of all state channels at the stations, shared by all stations and leads.

    An MLP with two SiLU layers. What does not change with the lead passes the first layer once: the layer is the sum
    of a part for the station's history and a part for time and lead.

    Parameters
    ----------
    lasting : inputs that belong to a station and window; passing : inputs that change with the lead
    scale : residual that an output of 1 stands for, SI ``[channel]``; learned from there on
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

    def remember(self, lasting: Float[Tensor, "batch station lasting"]) -> Float[Tensor, "batch station hidden"]:
        """The first layer's part that holds for every lead."""
        found: Tensor = self.lasting(lasting)
        return found

    def forward(
        self, memory: Float[Tensor, "batch station hidden"], passing: Float[Tensor, "batch station passing"]
    ) -> Float[Tensor, "batch station channel"]:
        """Residuals of one lead, SI."""
        found: Tensor = self.last(silu(self.middle(silu(memory + self.passing(passing)))))
        return found * self.scale


class Anchor(nn.Module):
    """Weights, for channel and lead, of the station's departure from the field: now, and at the same hour yesterday."""

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

    def forward(
        self, departures: Float[Tensor, "batch time station channel"], lead: int | Tensor
    ) -> Float[Tensor, "batch station channel"]:
        """What is added at a lead, SI; ``departures`` are zero where nothing was observed."""
        if isinstance(lead, Tensor):
            return self._at_any_lead(departures, lead)
        row = min(lead, self.now.shape[0]) - 1
        added = self.now[row] * departures[:, -1]
        if not self.has_yesterday:
            return added
        # The same hour on the latest day that lies in the history.
        back = (lead - 1) % self.steps_per_day + 1
        same_hour = departures.shape[1] - 1 + back - self.steps_per_day
        if same_hour < 0:
            return added
        return added + self.yesterday[row] * departures[:, same_hour]

    def _at_any_lead(self, departures: Tensor, lead: Tensor) -> Tensor:
        """The same for a lead that is only known when an exported program runs: looked up, without a branch."""
        row = (lead.clamp(max=self.now.shape[0]) - 1).reshape(1)
        added = self.now.index_select(0, row) * departures[:, -1]
        if not self.has_yesterday:
            return added
        back = torch.remainder(lead - 1, self.steps_per_day) + 1
        same_hour = (departures.shape[1] - 1 + back - self.steps_per_day).reshape(1)
        then = departures.index_select(1, same_hour.clamp(min=0))[:, 0]
        return added + torch.where(same_hour >= 0, self.yesterday.index_select(0, row) * then, 0.0)
