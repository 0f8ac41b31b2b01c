r"""Station-to-target weights as a sparse matrix, and what can be done with it.

.. math:: G_m = \frac{\sum_i \alpha_{mi}\, \mu_i\, x_i}{\sum_i \alpha_{mi}\, \mu_i}

with weights :math:`\alpha_{mi} \ge 0` of the ``k`` neighbours of target ``m`` that sum to one and :math:`\mu_i = 0`
where station ``i`` is missing. The denominator is kept: it is the share of the network's weight behind a value.

Where all ``k`` neighbours are missing at once, the value comes from a coarse stand-in, an inverse-distance mean of the
whole network at the centre of the target's neighbourhood, and the share stays 0. Only a moment at which no station at
all reports gives NaN.

The arrays here are numpy; `fields.lift` has the same operation as a torch module, and the two are tested equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["CoarseStandIn", "SparseWeights", "inverse_distance_weights"]

# What a station that coincides with the target leaves to the others: nothing that any float would show, and yet
# enough for them to take over when that station is missing.
_LEFT_TO_OTHERS = 1e-12
# Below this many rows, turning the block costs more than it saves.
_FEW_ROWS = 12
# Neighbourhoods along each axis, and the power that makes their stand-in local.
_COARSE, _COARSE_POWER = 8, 4


class CoarseStandIn:
    """What answers for targets whose neighbours are all missing; made only when it is asked.

    ``neighbourhood`` is the one of each target ``[target]``; ``weight`` are those of all stations in each neighbourhood
    ``[neighbourhood, station]``. The partition of the targets' extent is even; with exclusions each target is alone.
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
        """The stand-in of some of the targets."""
        excluded = None if self._excluded is None else self._excluded[chosen]
        return CoarseStandIn(self._stations, self._targets[chosen], excluded)

    def fill(self, x: NDArray[Any], out: NDArray[Any]) -> None:
        """Replace the NaN of ``out[row, target]`` in rows where a station is there."""
        rows = np.flatnonzero(np.isnan(out).any(axis=1) & ~np.isnan(x).all(axis=1))
        for start in range(0, len(rows), 256):
            chosen = rows[start : start + 256]
            there = ~np.isnan(x[chosen])
            known = np.where(there, x[chosen], 0.0).astype(np.float64)
            share = there @ self.weight.T
            coarse = np.divide(known @ self.weight.T, share, out=np.full(share.shape, np.nan), where=share > 0)
            found = out[chosen]
            out[chosen] = np.where(np.isnan(found), coarse[:, self.neighbourhood], found)


@dataclass(frozen=True, slots=True, eq=False)
class SparseWeights:
    """``index`` and ``weight`` ``[target, k]`` of the sources of each target, out of ``sources``."""

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
        """Weighted means at the targets, and the share of the weight behind each.

        Parameters
        ----------
        values : ``[..., source]``, float32 or float64, NaN = missing
        coverage : whether the share is wanted; without it the second item is None
        out : where to write the means: contiguous, in shape and type what is returned

        Returns
        -------
        ``[..., target]`` and ``[..., target]`` or None, in the type of ``values``
        """
        from fields import kernels

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

    def adjoint(self, gradient: NDArray[Any], values: NDArray[Any] | None = None) -> NDArray[Any]:
        """The transpose of `apply`: a gradient ``[..., target]`` carried back to ``[..., source]``.

        ``values`` (``[..., source]``) say by NaN which sources were missing; None means none was.
        """
        from fields import kernels

        rows = self._rows(gradient, self.targets)
        lead = gradient.shape[:-1]
        known = np.zeros((len(rows), self.sources), rows.dtype) if values is None else self._rows(values, self.sources)
        out = np.zeros((len(rows), self.sources), rows.dtype)
        weight = self.weight.astype(rows.dtype)
        kernels.weighted_means_transposed(rows, known.astype(rows.dtype), self.index, weight, out)
        return out.reshape(*lead, self.sources)

    def apply_dask(self, values: Any) -> Any:
        """`apply` on a dask array ``[time, source]`` chunked over time only: the same numbers, block by block."""
        if values.numblocks[-1] != 1:
            values = values.rechunk({-1: -1})
        return values.map_blocks(
            lambda block: self.apply(block, coverage=False)[0],
            dtype=values.dtype,
            chunks=(*values.chunks[:-1], (self.targets,)),
            meta=np.empty((0,) * values.ndim, values.dtype),
        )

    def to_csr(self) -> csr_array:
        """The weights as a scipy matrix ``[target, source]``."""
        from scipy.sparse import csr_array

        pointer = np.arange(0, self.index.size + 1, self.k)
        return csr_array((self.weight.ravel(), self.index.ravel(), pointer), shape=(self.targets, self.sources))

    def _padded(self, least: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Even and large enough for the blocked loop: more neighbours of weight 0."""
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
    r"""Inverse-distance weights of each target's neighbours, summing to one.

    .. math:: \alpha_{mi} = \frac{(d_{mi} + \epsilon)^{-a}}{\sum_j (d_{mj} + \epsilon)^{-a}}

    Parameters
    ----------
    distance : metres, ``[target, k]``
    epsilon_m : metres; ``ε``, what keeps the inverse finite
    power : ``a``; the paper's is 1
    exact : stations closer than ``ε`` to the target take all the weight and share it equally, so that the target
        has their value; without it the printed formula holds and a coincident station merely dominates

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
