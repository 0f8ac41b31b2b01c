"""Scaling of fields between SI and the values that networks see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from stationpde.config import Config
from stationpde.model.climate import StateStatistics
from stationpde.physics import STATE, THETA

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Scaling"]


class Scaling(nn.Module):
    """Scaling of each channel: ``(x - centre) / scale``."""

    centre: Tensor
    scale: Tensor

    def __init__(self, centre: Float[Tensor, " channel"], scale: Float[Tensor, " channel"]) -> None:
        super().__init__()
        self.register_buffer("centre", centre[:, None, None], persistent=False)
        self.register_buffer("scale", scale[:, None, None], persistent=False)
        self._centred = bool(centre.any())  # departures are about zero: nothing to add or take off

    @classmethod
    def of(cls, config: Config, statistics: StateStatistics) -> Scaling:
        """Choose mean and standard deviation of the state, or of its departures, by configuration."""
        if config.model.state == "anomaly":
            return cls(torch.zeros(len(STATE)), torch.as_tensor(statistics.anomaly_std, dtype=torch.float32))
        centre = torch.as_tensor(statistics.mean, dtype=torch.float32)
        return cls(centre, torch.as_tensor(statistics.std, dtype=torch.float32))

    @classmethod
    def none(cls) -> Scaling:
        """Return the scaling of fields that are in SI already."""
        return cls(torch.zeros(len(STATE)), torch.ones(len(STATE)))

    def with_column(self) -> Scaling:
        """Return the scaling of fields that hold the column of the upper layer last: as θ, about zero."""
        centre, scale = self.centre.flatten(), self.scale.flatten()
        return Scaling(torch.cat([centre, torch.zeros_like(centre[:1])]), torch.cat([scale, scale[THETA : THETA + 1]]))

    def forward(self, fields: Float[Tensor, "*batch channel y x"]) -> Float[Tensor, "*batch channel y x"]:
        """Scale fields in SI."""
        return (fields - self.centre if self._centred else fields) / self.scale

    def inverse(self, scaled: Float[Tensor, "*batch channel y x"]) -> Float[Tensor, "*batch channel y x"]:
        """Convert scaled fields back to SI."""
        fields = scaled * self.scale
        return fields + self.centre if self._centred else fields

    def inverse_at_stations(self, scaled: Float[Tensor, "*batch channel"]) -> Float[Tensor, "*batch channel"]:
        """Convert values read from scaled fields back to SI; channels are last."""
        return scaled * self.scale.flatten() + self.centre.flatten()
