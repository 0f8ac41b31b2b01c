"""Shares of guesses, simple forecasts and field in a model's forecast at the stations, with what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stationpde.guide import SIMPLE, Evidence, Guide
from stationpde.physics import OBSERVED

if TYPE_CHECKING:
    from stationpde.model.model import StationPDEModel

__all__ = ["Shares", "shares_of"]

Array = np.ndarray[Any, Any]
_GUESSES = ("linear guess", "perceptrons")


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Shares of the members of a forecast ``[member, lead, variable]``, which add up to one.

    Attributes
    ----------
    members : their names, last ``field`` or, where no branch evolves it, ``lifted field``
    lead_hours : hours ahead of each lead
    values : the shares
    evidence : windows and days of validation and the part of the prior; None where the run did not keep them
    """

    members: tuple[str, ...]
    lead_hours: tuple[float, ...]
    values: Array
    evidence: Evidence | None

    @property
    def by_variable(self) -> Mapping[str, Mapping[str, float]]:
        """Mean share over all leads, by variable and member."""
        mean = self.values.mean(axis=1)
        return {
            name: {member: float(mean[row, channel]) for row, member in enumerate(self.members)}
            for channel, name in enumerate(OBSERVED)
        }

    def about(self) -> str:
        """Say in a sentence what the shares rest on."""
        if self.evidence is None:
            return "Set on two fifths of the validation windows."
        windows, days, prior = self.evidence
        rests = f"{windows:,.0f} validation windows of {days:,.0f} days"
        return f"Set on {rests}; {prior:.0%} of the weight is that of the prior."


def shares_of(model: StationPDEModel) -> Shares | None:
    """Return the shares in the forecast of a model; None for one whose field is all there is."""
    mixture = model.guide
    if mixture is None:
        return None
    shares = (mixture.share * mixture.fitted).detach().cpu().double().numpy()
    members = list(_GUESSES[: mixture.guesses]) if isinstance(mixture, Guide) else []
    members += list(SIMPLE[: len(shares) - len(members)])
    hours = model.config.data.step_seconds / 3600.0
    lead_hours = tuple(hours * lead for lead in range(1, mixture.horizon + 1))
    values = np.concatenate([shares, 1.0 - shares.sum(axis=0, keepdims=True)])
    last = "field" if model.config.model.evolves else "lifted field"
    return Shares((*members, last), lead_hours, values, mixture.evidence)
