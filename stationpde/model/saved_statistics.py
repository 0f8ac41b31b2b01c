"""Statistics of the training split and terrain as buffers, so that a checkpoint is a whole model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stationpde.model.climate import StateStatistics

__all__ = ["SAVED_STATISTICS", "SavedStatistics", "saved_statistics"]

SAVED_STATISTICS = "kept"
"""Attribute of the model, and so first part of the names in checkpoints: part of the file format, never renamed."""


class SavedStatistics(nn.Module):
    """Buffers with the tensors of `StateStatistics` and the ``altitude`` of the cells, m.

    ``rings_km`` are distances of the surroundings that follow the network; None where they are the fixed ones.
    """

    def __init__(
        self, statistics: StateStatistics, altitude: np.ndarray[Any, Any], rings_km: tuple[float, ...] | None = None
    ) -> None:
        super().__init__()
        if rings_km is not None:
            self.register_buffer("rings_km", torch.tensor(rings_km, dtype=torch.float64))
        for name, tensor in {**statistics.tensors(), "altitude": torch.as_tensor(altitude)}.items():
            self.register_buffer(name, tensor)


def saved_statistics(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Select the buffers of `SavedStatistics` among the tensors of a checkpoint, by their names there."""
    prefix = f"{SAVED_STATISTICS}."
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
