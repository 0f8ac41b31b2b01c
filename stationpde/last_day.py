r"""The level of the last day: what a guess departs from where the record does not know the season.

A climatology by the hour of a few months is that of those months. When autumn comes, everything departs from it, and a
fit that is drawn towards it, as every penalised one is, guesses summer. There the mean departure of the last 24 hours

.. math:: \bar a = \tfrac{1}{n}\sum_{k<n} a_{t-k}

is taken off the predictors, and guesses start from it instead of zero. Wind is left as it is: its departures last for
hours, and no season shifts them by much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.conditions import DAY
from stationpde.config import Config
from stationpde.state import Saturation, to_observed
from stationpde.surroundings import View

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["LastDay", "knows_the_seasons"]

# A year, less a few days that a record of one may lack.
_YEAR_DAYS = 360.0
# u and v come first, in the state and in what is observed.
_WIND = 2


def knows_the_seasons(days: float) -> bool:
    """Whether a training period of so many days has met every season."""
    return days >= _YEAR_DAYS


@dataclass(frozen=True, slots=True)
class LastDay:
    """The mean departure of the last ``steps`` of a history, wind apart."""

    steps: int

    @classmethod
    def of(cls, config: Config, days: float) -> LastDay | None:
        """As a configuration asks for it; None where guesses depart from the climatology."""
        asked, data = config.model.guide_reference, config.data
        if asked == "climatology" or (asked == "auto" and knows_the_seasons(days)):
            return None
        return cls(max(1, min(data.history, round(DAY / data.step_seconds))))

    def taken_off(
        self, own: Float[Tensor, "batch time station channel"], view: View
    ) -> tuple[Float[Tensor, "batch time station channel"], View]:
        """Departures of a station and of the field there, about the level of the last day at the station.

        What the field is around it and how it changes are differences already.
        """
        level = own[:, -self.steps :].mean(dim=1, keepdim=True)
        level = torch.cat([torch.zeros_like(level[..., :_WIND]), level[..., _WIND:]], dim=-1)
        return own - level, replace(view, centre=view.centre - level)

    def level(
        self,
        own: Float[Tensor, "batch time station channel"],
        base: Float[Tensor, "batch time station channel"],
        saturation: Saturation,
    ) -> Float[Tensor, "batch station channel"]:
        """The level in observed variables, SI; ``own`` are departures of the state from ``base``, SI too."""
        own, base = own[:, -self.steps :], base[:, -self.steps :]
        found = (to_observed(base + own, saturation) - to_observed(base, saturation)).mean(dim=1)
        return torch.cat([torch.zeros_like(found[..., :_WIND]), found[..., _WIND:]], dim=-1)
