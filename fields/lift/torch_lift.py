"""The lift as a torch module: the weights and profiles of `StationLift`, differentiable.

Missing values are NaN or marked by a mask; they are replaced before anything is multiplied, so that no gradient is NaN.
Control flow in `forward` does not depend on the values, and device and type follow the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fields.errors import UsageError
from fields.lift.detrend import detrended_means
from fields.lift.methods import LIFT_METHODS, StationLift
from fields.lift.profiles import LocalPositions
from fields.lift.weights import SparseWeights

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

__all__ = ["PositionBuffers", "StationToGrid", "WeightedMeans"]


class WeightedMeans(nn.Module):
    """`SparseWeights` as a module: ``[..., source]`` to means and coverage ``[..., target]``.

    Weights are renormalised over the neighbours with a value; where all are missing the coarse stand-in is used.
    """

    index: Tensor
    weight: Tensor
    neighbourhood: Tensor
    coarse: Tensor

    def __init__(self, weights: SparseWeights, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.sources, self.targets = weights.sources, weights.targets
        # Neighbour by neighbour: a gather of one neighbour of all targets needs no [..., target, k] array.
        self.register_buffer("index", torch.as_tensor(weights.index.T.copy(), dtype=torch.long), persistent=False)
        self.register_buffer("weight", torch.as_tensor(weights.weight.T.copy(), dtype=dtype), persistent=False)
        coarse = weights.stand_in
        self.has_stand_in = coarse is not None
        if coarse is not None:
            group = torch.as_tensor(coarse.neighbourhood, dtype=torch.long)
            self.register_buffer("neighbourhood", group, persistent=False)
            self.register_buffer("coarse", torch.as_tensor(coarse.weight.T.copy(), dtype=dtype), persistent=False)

    def forward(
        self, values: Float[Tensor, "... source"], valid: Bool[Tensor, "... source"] | None = None
    ) -> tuple[Float[Tensor, "... target"], Float[Tensor, "... target"]]:
        """Compute means at the targets and the share of the weight behind each.

        Sources are missing where they are NaN or False in ``valid``; where all are missing the mean is NaN.
        """
        there = torch.logical_not(torch.isnan(values))
        if valid is not None:
            there = there & valid
        filled = torch.where(there, values, torch.zeros_like(values))
        counted = there.to(values.dtype)
        total, share = self._sum(filled), self._sum(counted)
        means = _quotient(total, share)
        if self.has_stand_in:
            coarse = self.coarse.to(values.dtype)
            instead = _quotient(filled @ coarse, counted @ coarse).index_select(-1, self.neighbourhood)
            means = torch.where(share > 0.0, means, instead)
        return means, share

    def _sum(self, values: Tensor) -> Tensor:
        total = values.new_zeros((*values.shape[:-1], self.targets))
        for weight, index in zip(self.weight.to(values.dtype), self.index):
            total = total + weight * values.index_select(-1, index)
        return total


def _quotient(total: Tensor, share: Tensor) -> Tensor:
    """Divide; NaN where the share is zero, without a NaN in the gradient."""
    is_there = share > 0.0
    safe = torch.where(is_there, share, torch.ones_like(share))
    return torch.where(is_there, total / safe, torch.full_like(total, torch.nan))


class PositionBuffers(nn.Module):
    """`LocalPositions` as buffers of a module; float64, because altitudes enter an exponent."""

    x: Tensor
    y: Tensor
    z: Tensor
    clipped_z: Tensor

    def __init__(self, positions: LocalPositions) -> None:
        super().__init__()
        for name in ("x", "y", "z", "clipped_z"):
            array = torch.tensor(getattr(positions, name), dtype=torch.float64)
            self.register_buffer(name, array, persistent=False)

    def forward(self) -> LocalPositions:
        """Return the positions on the module's device."""
        return LocalPositions(self.x, self.y, self.z, self.clipped_z)


class StationToGrid(nn.Module):
    """A `StationLift` as a module: stations to the cells of a grid.

    Parameters
    ----------
    lift : the lift, from `StationLift.between`
    shape : rows and columns of the grid; None leaves the targets in one dimension
    variables : names of the channels; required by the detrended lift
    station_pressure : whether ``p`` is pressure at the station; reduced pressure has no profile
    dtype : type of the weights
    """

    def __init__(
        self,
        lift: StationLift,
        shape: tuple[int, int] | None = None,
        variables: Sequence[str] = (),
        *,
        station_pressure: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.detrends = LIFT_METHODS[lift.settings.method].detrends
        if self.detrends and not variables:
            raise UsageError("the detrended lift needs the names of its channels", code="SPDE-D079")
        self.variables = tuple(variables)
        self.station_pressure = station_pressure
        self.shape = shape or (lift.weights.targets,)
        self.means = WeightedMeans(lift.weights, dtype)
        self.stations, self.cells = PositionBuffers(lift.stations), PositionBuffers(lift.targets)

    def forward(
        self, values: Float[Tensor, "... station channel"], valid: Bool[Tensor, "... station channel"] | None = None
    ) -> tuple[Float[Tensor, "... channel y x"], Float[Tensor, "... channel y x"]]:
        """Lift values to fields, with the share of the weight behind them.

        Missing stations are NaN, or False in ``valid``.
        """
        rows = values.movedim(-1, -2)
        if valid is not None:
            rows = torch.where(valid.movedim(-1, -2), rows, torch.nan)
        if self.detrends:
            named = {name: rows[..., c, :] for c, name in enumerate(self.variables)}
            lifted = detrended_means(
                named, self.means, self.stations(), self.cells(), xp=torch, station_pressure=self.station_pressure
            )
            means = torch.stack([lifted.values[name] for name in self.variables], dim=-2)
            share = torch.stack([lifted.coverage[name] for name in self.variables], dim=-2)
        else:
            means, share = self.means(rows)
        shape = (*means.shape[:-1], *self.shape)
        return means.reshape(shape), share.reshape(shape)
