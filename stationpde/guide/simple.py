r"""Simple forecasts at the stations: persistence, same hour yesterday and climatology.

A station service compares with them first. As members of the mixture they are taken where nothing beats them, at the
first lead of a noisy wind and in a record of weeks above all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fields.windows import fill_history
from stationpde.physics import DAY

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["SIMPLE", "simple_forecasts"]

SIMPLE = ("persistence", "yesterday", "climatology")
"""Names of the simple forecasts, in their order."""


def simple_forecasts(
    history: Float[Tensor, "batch time station channel"],
    fallback: Float[Tensor, "batch time station channel"],
    climatology: Float[Tensor, "batch lead station channel"],
    step_seconds: int,
) -> Float[Tensor, "simple batch lead station channel"]:
    """Return the forecasts of `SIMPLE`, observed variables in SI.

    Parameters
    ----------
    history : observed, NaN = missing; a gap is bridged by the last value, the first by ``fallback``
    fallback : the lifted field at the stations, without gaps; for a station that reports nothing it is all there is
    climatology : at the leads
    step_seconds : the cadence
    """
    leads, steps = climatology.shape[1], history.shape[1]
    filled = fill_history(history, fallback)
    persisted = filled[:, -1:].expand(-1, leads, -1, -1)
    steps_of_day = max(1, round(DAY / step_seconds))
    # The latest step of the history with the time of day of each lead; negative where that lies before the history.
    rows = steps - 1 + torch.arange(leads, device=history.device) % steps_of_day + 1 - steps_of_day
    yesterday = filled[:, rows.clamp(min=0)]
    yesterday = torch.where((rows >= 0)[:, None, None], yesterday, climatology)
    return torch.stack([persisted, yesterday, climatology])
