"""Base state: what the evolving field departs from at fixed places, by configuration zero or the climatology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.windows import ClimatologyTable
from stationpde.config import Config
from stationpde.model.climate import StateStatistics
from stationpde.physics import STATE

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["BaseState"]

Array = np.ndarray[Any, Any]


class BaseState(nn.Module):
    """State that the evolving field departs from, at fixed places: zero, or the climatology."""

    reference: Tensor

    def __init__(self, climatology: ClimatologyTable | None, reference: Tensor) -> None:
        super().__init__()
        self.climatology = climatology
        self.register_buffer("reference", reference, persistent=False)

    @classmethod
    def of(cls, statistics: StateStatistics, altitude: Array, config: Config) -> BaseState:
        """Choose the base state of places with these statistics and altitudes, by configuration."""
        reference = torch.zeros(len(altitude), len(STATE))
        if config.model.state == "anomaly":
            return cls(ClimatologyTable(statistics.climatology, persistent=False), reference)
        return cls(None, reference)

    def forward(self, time: Int64[Tensor, " *shape"]) -> Float[Tensor, "*shape place channel"]:
        """Return the base state at times (seconds since 1970, UTC), SI."""
        if self.climatology is None:
            return self.reference.expand(*time.shape, *self.reference.shape)
        climatology: Tensor = self.climatology(time)
        return climatology

    def on_grid(self, time: Int64[Tensor, " *shape"], shape: torch.Size) -> Float[Tensor, "*shape channel y x"]:
        """Return the base state of cells at times as fields of a shape."""
        return self(time).movedim(-1, -2).reshape(shape)
