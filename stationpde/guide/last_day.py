r"""The level of the last day: reference of the guesses where the training record does not cover a full year.

A climatology by the hour of a few months is that of those months. In another season everything departs from it, and a
fit that is drawn towards it, as every penalised one is, guesses the season of training. There the mean departure of the
last 24 hours

.. math:: \bar a = \tfrac{1}{n}\sum_{k<n} a_{t-k}

is subtracted from the predictors, and guesses start from it instead of zero. Wind is left as it is: its departures last
for hours, and no season shifts them by much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.config import Config
from stationpde.physics import DAY, WIND, P, View, to_observed

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["LastDay", "covers_full_year", "holds_seasons"]

# A year, less a few days that a record of one may lack.
_YEAR_DAYS = 360.0
# From so long a training on most seasons are there twice; a record of 14 months has the weather of each week once.
_SEASONS_DAYS = 640.0


def covers_full_year(days: float) -> bool:
    """Return whether a training period of so many days covers every season."""
    return days >= _YEAR_DAYS


def holds_seasons(days: float) -> bool:
    """Return whether a training period of so many days tells the season from the weather of one year."""
    return days >= _SEASONS_DAYS


@dataclass(frozen=True, slots=True)
class LastDay:
    """Mean departure over the last ``steps`` of a history, wind excepted."""

    steps: int

    @classmethod
    def of(cls, config: Config, days: float) -> LastDay | None:
        """Choose by configuration and length of training [days]; None where guesses depart from the climatology."""
        reference, data = config.model.guide_reference, config.data
        if reference == "climatology" or (reference == "auto" and covers_full_year(days)):
            return None
        return cls(max(1, min(data.history, round(DAY / data.step_seconds))))

    def subtract_level(
        self, departures: Float[Tensor, "batch time station channel"], view: View
    ) -> tuple[Float[Tensor, "batch time station channel"], View]:
        """Subtract the level at each station from its departures and from the field there.

        The surroundings in ``view`` and their changes are differences already.
        """
        level = _without_wind(departures[:, -self.steps :].mean(dim=1, keepdim=True))
        return departures - level, replace(view, centre=view.centre - level)

    def level(
        self,
        departures: Float[Tensor, "batch time station channel"],
        base: Float[Tensor, "batch time station channel"],
    ) -> Float[Tensor, "batch station channel"]:
        """Return the level in observed variables, SI; ``departures`` of the state from ``base`` are SI, too."""
        departures, base = departures[:, -self.steps :], base[:, -self.steps :]
        level = (to_observed(base + departures) - to_observed(base)).mean(dim=1)
        return _without_wind(level)


def _without_wind(level: Float[Tensor, "*batch channel"]) -> Float[Tensor, "*batch channel"]:
    return torch.cat([torch.zeros_like(level[..., WIND]), level[..., P:]], dim=-1)
