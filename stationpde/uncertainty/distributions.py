"""Distributions of one forecast: quantiles and probabilities of every variable at every lead and station."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stationpde.uncertainty.levels import LEVELS, level_of
from stationpde.uncertainty.marginal import Marginal, Spread

__all__ = ["Distributions", "joined"]

Array = np.ndarray[Any, Any]
Member = tuple[Mapping[str, Marginal], Mapping[str, Spread]]


@dataclass(frozen=True, slots=True, eq=False)
class Distributions:
    """Distributions of one forecaster, or of several whose quantiles are averaged; display units.

    ``members`` holds, for each forecaster, its fitted distributions and where they stand for these forecasts.
    """

    members: tuple[Member, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Variables that every forecaster has a distribution of."""
        first = self.members[0][0]
        return tuple(name for name in first if all(name in marginals for marginals, _ in self.members))

    def quantiles(self, name: str, levels: Sequence[float] | Array) -> Array:
        """Return quantiles ``[batch, lead, station, level]``, increasing; those of several forecasters are averaged."""
        requested = np.asarray(levels, np.float64)
        order = np.argsort(requested, kind="stable")
        total: Array = sum(
            marginals[name].quantiles(spreads[name], requested[order]) for marginals, spreads in self.members
        )  # type: ignore[assignment]
        mean = np.empty_like(total)
        mean[..., order] = total / len(self.members)
        return mean

    def probability_below(self, name: str, threshold: float | Array) -> Array:
        """Return the probability ``[batch, lead, station]`` that a variable is less than a threshold."""
        values = self.quantiles(name, LEVELS)
        return level_of(values, np.broadcast_to(np.asarray(threshold, np.float64), values.shape[:-1]))


def joined(parts: Sequence[Distributions]) -> Distributions:
    """Join the distributions that several forecasters give for the same forecasts."""
    return Distributions(tuple(member for part in parts for member in part.members))
