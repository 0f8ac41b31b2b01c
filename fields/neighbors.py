"""The nearest stations of each target, in metres.

Places are points of a metric space: two columns (east, north) or three, the third being altitude already
multiplied by its weight. Which stations are a cell's neighbours and how they are weighted are separate questions:
the paper first selects a neighbouring set and then computes the terrain-aware distance within it.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from fields.errors import DataError

__all__ = ["nearest", "usable_neighbours"]

logger = logging.getLogger(__name__)


def usable_neighbours(k: int, stations: int) -> int:
    """``k``, or as many as there are; says so when it is fewer.

    Raises
    ------
    DataError
        If there is no station at all.
    """
    if stations < 1:
        raise DataError("there are no stations to lift from", code="SPDE-D070", do="choose a store with stations")
    if k > stations:
        logger.warning("k = %d neighbours asked for, %d stations there: using all of them", k, stations)
    return min(k, stations)


def nearest(
    stations: NDArray[np.float64],
    targets: NDArray[np.float64],
    k: int,
    *,
    excluded: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """Indices of the ``k`` nearest stations of each target ``[target, k]``, nearest first.

    Parameters
    ----------
    stations, targets : metres, ``[station, axis]`` and ``[target, axis]``
    excluded : ``[target, station]``; stations that a target may not use, as in cross-validation. Where fewer than
        ``k`` are left, excluded ones come last: the caller gives them no weight
    """
    if excluded is None:
        # The tree answers k > n with the index n, which is out of range: `k` is bounded here, not by the caller.
        k = min(k, len(stations))
        _, index = cKDTree(stations, balanced_tree=False).query(targets, k=k)
        return np.asarray(index, dtype=np.int32).reshape(len(targets), k)
    k = min(k, max(int((~excluded).sum(axis=1).max()), 1))
    index = np.empty((len(targets), k), dtype=np.int32)
    for m, (target, barred) in enumerate(zip(targets, excluded)):
        square = ((target - stations) ** 2).sum(axis=-1)
        square[barred] = np.inf
        index[m] = np.argsort(square, kind="stable")[:k]
    return index
