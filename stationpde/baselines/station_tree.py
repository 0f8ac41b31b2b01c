"""Stations in a tree: compact groups of near-equal size, groups of groups, and places that stay empty."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np

from fields.windows import Stations

__all__ = ["StationTree", "levels_for"]

Array = np.ndarray[Any, Any]
# Beyond so many stations a third level keeps groups small.
_TWO_LEVELS = 512


def levels_for(count: int) -> tuple[int, ...]:
    """Return the branches of each level, from the root down; their product is ``count`` or little more."""
    depth = 2 if count <= _TWO_LEVELS else 3
    branches = max(1, round(count ** (1.0 / depth)))
    above = (branches,) * (depth - 1)
    return (*above, ceil(count / prod(above)))


@dataclass(frozen=True, slots=True, eq=False)
class StationTree:
    """``places`` is int64 ``[leaf]``: the station at each leaf, in the order of the tree, or −1 where there is none."""

    levels: tuple[int, ...]
    places: Array

    @classmethod
    def of(cls, stations: Stations) -> StationTree:
        """Group stations by distance: a group is halved across its longer side until it is small enough."""
        east = np.cos(np.radians(stations.lat.mean())) * stations.lon
        where = np.stack([east, stations.lat])
        levels = levels_for(len(stations))
        return cls(levels, np.concatenate(_leaves(np.arange(len(stations)), where, levels)))

    @property
    def leaf_of(self) -> Array:
        """The leaf of each station."""
        leaves = np.flatnonzero(self.places >= 0)
        leaf_of_station = np.empty(leaves.size, np.int64)
        leaf_of_station[self.places[leaves]] = leaves
        return leaf_of_station


def _leaves(members: Array, where: Array, levels: tuple[int, ...]) -> list[Array]:
    if len(levels) == 1:
        return [np.concatenate([members, np.full(levels[0] - members.size, -1)])]
    parts = [len(part) for part in np.array_split(members, levels[0])]
    return [leaf for group in _divided(members, where, parts) for leaf in _leaves(group, where, levels[1:])]


def _divided(members: Array, where: Array, sizes: list[int]) -> list[Array]:
    """Divide members into groups of these sizes by repeated halving."""
    if len(sizes) == 1:
        return [members]
    here = where[:, members]
    side = int(np.argmax(np.ptp(here, axis=1))) if members.size else 0
    ordered = members[np.argsort(here[side], kind="stable")]
    half = len(sizes) // 2
    border = sum(sizes[:half])
    return [
        *_divided(ordered[:border], where, sizes[:half]),
        *_divided(ordered[border:], where, sizes[half:]),
    ]
