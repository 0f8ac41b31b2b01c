"""Result of the model: forecasts at stations, and the fields they were read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.model.residual import Course
from stationpde.physics import to_observed

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Forecast"]


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """A forecast at stations, SI; with ``keep_fields`` also the fields it was read from.

    ``observed`` (the forecast in observed variables, u, v, p, t, rh) and ``state`` (the same as a state) are
    ``[batch, lead, station, channel]``; ``fields`` (full states) and ``router`` (weight
    of the data-driven branch) are ``[batch, lead, channel, y, x]``. Where a guide is mixed in, ``unguided`` is the
    state before mixing and ``guided`` is what was mixed in: its guesses, then the simple forecasts, observed variables.
    Training is without guide: field, anchor and head learn alone. ``courses`` are the evolving field from the analysis
    on, and the lifted history: what a residual is computed of.
    """

    observed: Float[Tensor, "batch lead station channel"]
    state: Float[Tensor, "batch lead station channel"]
    fields: Float[Tensor, "batch lead channel y x"] | None = None
    router: Float[Tensor, "batch lead channel y x"] | None = None
    unguided: Float[Tensor, "batch lead station channel"] | None = None
    guided: Float[Tensor, "guess batch lead station channel"] | None = None
    courses: tuple[Course, Course] | None = None

    @property
    def guesses(self) -> Float[Tensor, "guess batch lead station channel"] | None:
        """What the forecast mixes, as observed variables: its guesses and the field's own; None without guesses.

        Guesses are of the trained leads, the field's may be of fewer or more: these are the leads of both.
        """
        if self.guided is None or self.unguided is None:
            return None
        leads = min(self.guided.shape[2], self.unguided.shape[1])
        return torch.cat([self.guided[:, :, :leads], to_observed(self.unguided[:, :leads])[None]])
