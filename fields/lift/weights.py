r"""Weights of stations at targets as a sparse matrix, and the weighted means they give.

.. math:: G_m = \frac{\sum_i \alpha_{mi}\, \mu_i\, x_i}{\sum_i \alpha_{mi}\, \mu_i}

with weights :math:`\alpha_{mi} \ge 0` of the ``k`` neighbours of target ``m`` that sum to one and :math:`\mu_i = 0`
where station ``i`` is missing. The denominator is kept: it is the share of the network's weight behind a value.

Where all ``k`` neighbours are missing at once, the value comes from a coarse stand-in, an inverse-distance mean of the
whole network at the centre of the target's neighbourhood, and the share stays 0. Only a moment at which no station at
all reports gives NaN.

The arrays here are numpy; `torch_lift` has the same operation as a torch module, and the two are tested equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CoarseStandIn", "SparseWeights", "inverse_distance_weights"]

# Weight of the other stations where one coincides with the target: too small to show in the mean, and yet enough for
# them to take over when that station is missing.
_LEFT_TO_OTHERS = 1e-12
# Below this many rows, turning the block costs more than it saves.
_FEW_ROWS = 12
# Neighbourhoods along each axis, and the power that makes their stand-in local.
_COARSE, _COARSE_POWER = 8, 4


class CoarseStandIn:
    """Coarse inverse-distance means for targets whose neighbours are all missing; computed at first use.

    ``neighbourhood`` is the number of each target's neighbourhood ``[target]``; ``weight`` are the weights of all
    stations at the centre of each ``[neighbourhood, station]``. Neighbourhoods divide the targets' extent evenly; with
    exclusions each target is a neighbourhood by itself.

    Parameters
    ----------
    stations, targets : metres east and north, ``[station, 2]`` and ``[target, 2]``
    excluded : ``[target, station]`` pairs that may not be used
    """

    def __init__(
        self,
        stations: NDArray[np.float64],
        targets: NDArray[np.float64],
        excluded: NDArray[np.bool_] | None = None,
    ) -> None:
        self._stations, self._targets, self._excluded = stations, targets, excluded

    @cached_property
    def neighbourhood(self) -> NDArray[np.int32]:
        """Number of each target's neighbourhood."""
        targets = self._targets
        if self._excluded is not None:
            return np.arange(len(targets), dtype=np.int32)
        low, extent = targets.min(axis=0), np.maximum(np.ptp(targets, axis=0), 1.0)
        cell = np.minimum((targets - low) / extent * _COARSE, _COARSE - 1).astype(np.int64)
        _, group = np.unique(cell[:, 0] * _COARSE + cell[:, 1], return_inverse=True)
        return group.astype(np.int32)

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """Weights of the stations at the centre of each neighbourhood; each row sums to one."""
        group, targets = self.neighbourhood, self._targets
        size = np.bincount(group)
        centre = np.stack([np.bincount(group, targets[:, axis]) / size for axis in (0, 1)], axis=1)
        distance = np.hypot(*(centre[:, None, axis] - self._stations[None, :, axis] for axis in (0, 1)))
        scale = max(float(np.median(distance)), 1.0)
        weight = (distance / scale + 1e-3) ** -_COARSE_POWER
        if self._excluded is not None:
            weight[self._excluded] = 0.0
        whole = weight.sum(axis=1, keepdims=True)
        return np.divide(weight, whole, out=np.zeros_like(weight), where=whole > 0)

    def of_targets(self, chosen: slice) -> CoarseStandIn:
        """Return the stand-in of a part of the targets."""
        excluded = None if self._excluded is None else self._excluded[chosen]
        return CoarseStandIn(self._stations, self._targets[chosen], excluded)

    def held_as(self, dtype: type[np.floating[Any]]) -> CoarseStandIn:
        """Return the stand-in with weights rounded to a type."""
        held = CoarseStandIn(self._stations, self._targets, self._excluded)
        held.__dict__["neighbourhood"] = self.neighbourhood
        held.__dict__["weight"] = self.weight.astype(dtype).astype(np.float64)
        return held

    def fill(self, x: NDArray[Any], out: NDArray[Any]) -> None:
        """Replace the NaN of ``out[row, target]`` in rows of ``x[row, station]`` that hold a value."""
        rows = np.flatnonzero(np.isnan(out).any(axis=1) & ~np.isnan(x).all(axis=1))
        for start in range(0, len(rows), 256):
            chosen = rows[start : start + 256]
            there = ~np.isnan(x[chosen])
            filled = np.where(there, x[chosen], 0.0).astype(np.float64)
            share = there @ self.weight.T
            coarse = np.divide(filled @ self.weight.T, share, out=np.full(share.shape, np.nan), where=share > 0)
            means = out[chosen]
            out[chosen] = np.where(np.isnan(means), coarse[:, self.neighbourhood], means)


@dataclass(frozen=True, slots=True, eq=False)
class SparseWeights:
    """Sparse matrix of weights with ``k`` entries in each row.

    Parameters
    ----------
    index, weight : number and weight of the sources of each target ``[target, k]``
    sources : number of sources (stations, or cells of a grid)
    stand_in : means for targets all of whose sources are missing; None leaves them NaN
    """

    index: NDArray[np.int32]
    weight: NDArray[np.float64]
    sources: int
    stand_in: CoarseStandIn | None = None

    def __post_init__(self) -> None:
        if self.index.shape != self.weight.shape or self.index.ndim != 2:
            raise ValueError(f"index {self.index.shape} and weight {self.weight.shape} differ in shape")
        if self.index.size and not (self.index.min() >= 0 and self.index.max() < self.sources):
            raise ValueError(f"indices reach {self.index.max()} but there are {self.sources} sources")

    @property
    def targets(self) -> int:
        """Number of targets."""
        return self.index.shape[0]

    @property
    def k(self) -> int:
        """Neighbours of each target."""
        return self.index.shape[1]

    def apply(
        self, values: NDArray[Any], *, coverage: bool = True, out: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Compute weighted means at the targets, and the share of the weight behind each.

        Parameters
        ----------
        values : ``[..., source]``, float32 or float64, NaN = missing
        coverage : whether to return the share; without it the second item is None
        out : array to write the means to: contiguous, of the shape and type of the result

        Returns
        -------
        ``[..., target]`` and ``[..., target]`` or None, in the type of ``values``
        """
        from fields.lift import kernels

        rows = self._rows(values, self.sources)
        lead = values.shape[:-1]
        shape = (*lead, self.targets)
        if out is None:
            out = np.empty(shape, rows.dtype)
        elif out.shape != shape or out.dtype != rows.dtype or not out.flags.c_contiguous:
            raise ValueError(f"`out` must be a contiguous {rows.dtype} array of shape {shape}")
        means = out.reshape(len(rows), self.targets)
        cover = np.empty_like(means if coverage else means[:0, :0])
        few = len(rows) < _FEW_ROWS
        index, weight = (self.index, self.weight) if few else self._padded(kernels.FEWEST_NEIGHBOURS)
        kernel = kernels.weighted_means_by_row if few else kernels.weighted_means
        has_empty = kernel(rows, index, weight.astype(rows.dtype), means, cover)
        if has_empty and self.stand_in is not None:
            self.stand_in.fill(rows, means)
        return out, cover.reshape(shape) if coverage else None

    def held_as(self, dtype: type[np.floating[Any]]) -> SparseWeights:
        """Return the weights rounded to a type, with neighbours in a number that `apply` need not pad."""
        from fields.lift import kernels

        index, weight = self._padded(kernels.FEWEST_NEIGHBOURS)
        coarse = None if self.stand_in is None else self.stand_in.held_as(dtype)
        return SparseWeights(index, weight.astype(dtype).astype(np.float64), self.sources, coarse)

    def _padded(self, least: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Add neighbours of weight 0, so that their number is even and large enough for the blocked loop."""
        more = max(least, self.k + self.k % 2) - self.k
        if not more:
            return self.index, self.weight
        index = np.concatenate([self.index, np.repeat(self.index[:, :1], more, axis=1)], axis=1)
        return index, np.pad(self.weight, ((0, 0), (0, more)))

    @staticmethod
    def _rows(values: NDArray[Any], width: int) -> NDArray[Any]:
        if values.shape[-1] != width:
            raise ValueError(f"the last axis has {values.shape[-1]} values, the weights need {width}")
        kind = values.dtype if values.dtype in (np.float32, np.float64) else np.float64
        return np.ascontiguousarray(values.reshape(-1, width), dtype=kind)


def inverse_distance_weights(
    distance: NDArray[np.float64], *, epsilon_m: float = 1.0, power: float = 1.0, exact: bool = True
) -> NDArray[np.float64]:
    r"""Compute the inverse-distance weights of each target's neighbours; they sum to one.

    .. math:: \alpha_{mi} = \frac{(d_{mi} + \epsilon)^{-a}}{\sum_j (d_{mj} + \epsilon)^{-a}}

    Parameters
    ----------
    distance : metres, ``[target, k]``
    epsilon_m : metres; ``ε``, which keeps the inverse finite
    power : exponent ``a``; the paper's is 1
    exact : whether stations closer than ``ε`` to the target get all the weight in equal parts, so that the target
        has their value; without it the formula above holds and a coincident station merely dominates

    Returns
    -------
    ``[target, k]``; a neighbour at an infinite distance has weight 0
    """
    raw = (distance + epsilon_m) ** -power
    if exact:
        coincident = distance < epsilon_m
        others = raw * (_LEFT_TO_OTHERS * epsilon_m**power)
        raw = np.where(coincident.any(axis=1, keepdims=True), np.where(coincident, 1.0, others), raw)
    whole = raw.sum(axis=1, keepdims=True)
    return np.divide(raw, whole, out=np.zeros_like(raw), where=whole > 0)
