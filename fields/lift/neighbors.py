"""Search for the nearest stations of each target on the map.

Which stations are a cell's neighbours and how they are weighted are separate questions: the paper first selects a
neighbouring set and then computes the terrain-aware distance within it.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from fields.errors import DataError

__all__ = ["nearest", "usable_neighbours"]

logger = logging.getLogger(__name__)

# Stations in one bin of the plane beyond which a tree is faster.
_CROWDED = 64


def usable_neighbours(k: int, stations: int) -> int:
    """Return ``k``, or the number of stations with a warning where that is smaller.

    Raises
    ------
    DataError
        If there is no station at all.
    """
    if stations < 1:
        raise DataError("there are no stations to lift from", code="SPDE-D070", do="choose a store with stations")
    if k > stations:
        logger.warning("k = %d neighbours requested, but there are %d stations: using all of them", k, stations)
    return min(k, stations)


def nearest(
    stations: NDArray[np.float64],
    targets: NDArray[np.float64],
    k: int,
    *,
    excluded: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """Find the ``k`` nearest stations of each target: indices ``[target, k]``, nearest first.

    Parameters
    ----------
    stations, targets : metres east and north, ``[station, 2]`` and ``[target, 2]``
    k : number of neighbours; all stations where there are fewer
    excluded : ``[target, station]``; stations that a target may not use, as in cross-validation. Where fewer than
        ``k`` are left, excluded ones come last: the caller gives them no weight
    """
    if excluded is None:
        return _nearest_of_all(stations, targets, min(k, len(stations)))
    k = min(k, max(int((~excluded).sum(axis=1).max()), 1))
    index = np.empty((len(targets), k), dtype=np.int32)
    for m, (target, barred) in enumerate(zip(targets, excluded)):
        square = ((target - stations) ** 2).sum(axis=-1)
        square[barred] = np.inf
        index[m] = np.argsort(square, kind="stable")[:k]
    return index


def _nearest_of_all(stations: NDArray[np.float64], targets: NDArray[np.float64], k: int) -> NDArray[np.int32]:
    from fields.lift.neighbor_kernel import fullest_bin, nearest_on_plane, sort_into_bins

    bins = sort_into_bins(stations)
    if fullest_bin(bins[-2]) <= _CROWDED:
        chosen: NDArray[np.int32] = nearest_on_plane(stations, targets, k, *bins)
        return chosen
    # For more neighbours than stations the tree would return an index out of range: `k` is bounded above.
    _, index = cKDTree(stations, balanced_tree=False).query(targets, k=k)
    return np.asarray(index, dtype=np.int32).reshape(len(targets), k)
