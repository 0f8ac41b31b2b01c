"""The lift as a torch module: the weights and profiles of `StationLift`, differentiable.

Missing values are NaN or marked by a mask; they are replaced before anything is multiplied, so that no gradient is NaN.
Control flow in `forward` does not depend on the values, and device and type follow the input.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function

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
    by_source: Tensor
    ends: Tensor

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
        _expect_sparse()
        self._compiled = weights.held_as(np.float64 if dtype == torch.float64 else np.float32)
        # The same weights by target and by source, for products with a sparse matrix and with its transpose.
        by_source = torch.argsort(torch.as_tensor(weights.index).flatten(), stable=True)
        counts = torch.bincount(torch.as_tensor(weights.index).flatten(), minlength=self.sources)
        self.register_buffer("by_source", by_source, persistent=False)
        self.register_buffer("ends", torch.cat([counts.new_zeros(1), counts.cumsum(0)]), persistent=False)

    def forward(
        self, values: Float[Tensor, "... source"], valid: Bool[Tensor, "... source"] | None = None
    ) -> tuple[Float[Tensor, "... target"], Float[Tensor, "... target"]]:
        """Compute means at the targets and the share of the weight behind each.

        Sources are missing where they are NaN or False in ``valid``; where all are missing the mean is NaN. See
        `complete` for values of which none is missing.
        """
        if self._is_data(values):
            return self._from_data(values if valid is None else torch.where(valid, values, torch.nan))
        there = torch.logical_not(torch.isnan(values))
        if valid is not None:
            there = there & valid
        filled = torch.where(there, values, torch.zeros_like(values))
        counted = there.to(values.dtype)
        if self._has_product(values):
            both = torch.cat([filled.reshape(-1, self.sources), counted.reshape(-1, self.sources)])
            total, share = self._product(both).view(2, *values.shape[:-1], self.targets).unbind(0)
        else:
            total, share = self._sum(filled), self._sum(counted)
        means = _quotient(total, share)
        if self.has_stand_in:
            coarse = self.coarse.to(values.dtype)
            instead = _quotient(filled @ coarse, counted @ coarse).index_select(-1, self.neighbourhood)
            means = torch.where(share > 0.0, means, instead)
        return means, share

    def complete(self, values: Float[Tensor, "... source"]) -> Float[Tensor, "... target"]:
        """Compute means of values that are all there; a NaN makes every mean that it belongs to NaN."""
        total = self._product(values.flatten(0, -2)) if self._has_product(values) else self._sum(values)
        return total.reshape(*values.shape[:-1], self.targets) / self.weight.to(values.dtype).sum(dim=0)

    def _is_data(self, values: Tensor) -> bool:
        """Return whether the compiled loop takes the values: in main memory, without a gradient, not traced."""
        if torch.compiler.is_compiling() or (values.requires_grad and torch.is_grad_enabled()):
            return False
        return self._in_memory(values)

    def _from_data(self, values: Tensor) -> tuple[Tensor, Tensor]:
        means, share = self._compiled.apply(values.detach().numpy())
        assert share is not None
        return torch.from_numpy(means), torch.from_numpy(share)

    def _has_product(self, values: Tensor) -> bool:
        """Return whether a product with a sparse matrix is at hand: not in traced programs, nor without MKL."""
        if torch.compiler.is_compiling() or not torch.backends.mkl.is_available():
            return False
        return self._in_memory(values)

    def _in_memory(self, values: Tensor) -> bool:
        here = values.device.type == self.weight.device.type == "cpu"
        return here and values.dtype in (torch.float32, torch.float64)

    def _product(self, rows: Float[Tensor, "row source"]) -> Float[Tensor, "row target"]:
        """Multiply by the weights: twenty times as fast as a sum over neighbours, and as their dense matrix for few."""
        neighbours = self.index.shape[0]
        source, weight = self.index.T.reshape(-1), self.weight.to(rows.dtype).T.reshape(-1)
        ends = torch.arange(0, source.numel() + 1, neighbours, device=rows.device)
        by_target = (ends, source, weight, (self.targets, self.sources))
        by_source = None
        if rows.requires_grad:
            target = self.by_source // neighbours
            by_source = (self.ends, target, weight.index_select(0, self.by_source), (self.sources, self.targets))
        products: Tensor = _SparseProduct.apply(rows, by_target, by_source)
        return products

    def _sum(self, values: Tensor) -> Tensor:
        total = values.new_zeros((*values.shape[:-1], self.targets))
        for weight, index in zip(self.weight.to(values.dtype), self.index):
            total = total + weight * values.index_select(-1, index)
        return total


class _SparseProduct(Function):
    """Rows times the transpose of a sparse matrix, which is given with its transpose for the way back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Any, transpose: Any) -> Tensor:
        ctx.matrices = (transpose, matrix)
        sparse = torch.sparse_csr_tensor(*matrix, check_invariants=False)
        return (sparse @ rows.T).T.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _SparseProduct.apply(gradients[0], *ctx.matrices), None, None


def _expect_sparse() -> None:
    """Create a sparse matrix once without torch's warning that its interface may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1), check_invariants=False)


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
