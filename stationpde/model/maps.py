"""Maps: fields of a forecast that agree with it at the stations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.model.base_state import BaseState
from stationpde.model.sites import Sites

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["lift_station_increments"]


def lift_station_increments(
    fields: Float[Tensor, "batch lead channel y x"],
    state: Float[Tensor, "batch lead station channel"],
    valid_time: Int64[Tensor, "batch lead"],
    sites: Sites,
    base: BaseState,
) -> Float[Tensor, "batch lead channel y x"]:
    """Add to full fields the lifted difference of the forecast ``state`` at the stations from them, all in SI."""
    read = sites.read(fields - base.on_grid(valid_time, fields.shape))
    increments = state - sites.base(valid_time) - read
    lifted, _ = sites.lift(increments[:, :, : sites.reporters])
    return fields + torch.nan_to_num(lifted)
