"""Find stations that are one under two ids: at one place, with the same values; and networks in a single point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["are_at_one_place", "twin_stations"]

Array = np.ndarray[Any, Any]

_SAME_PLACE = 1e-3  # degrees, a hundred metres
_FEWEST_VALUES = 20
# Share of the common values that are equal; a record that was repaired later differs in a few.
_EQUAL_SHARE = 0.95
# Stations at one place that are compared with one another.
_MOST_AT_ONE_PLACE = 50


def are_at_one_place(lat: Array, lon: Array) -> bool:
    """Return whether two or more stations all stand within a hundred metres."""
    placed = np.isfinite(lat) & np.isfinite(lon)
    if placed.sum() < 2:
        return False
    return bool(np.ptp(lat[placed]) < _SAME_PLACE and np.ptp(lon[placed]) < _SAME_PLACE)


def twin_stations(values: Mapping[str, Array], lat: Array, lon: Array) -> list[tuple[int, int]]:
    """Return pairs of stations at one place whose values agree, of stations elsewhere only if all of them are equal.

    Parameters
    ----------
    values : by variable ``[time, station]``, NaN where missing
    lat, lon : degrees

    Returns
    -------
    Pairs of indices, each station as the second of at most one pair
    """
    groups = [*_equal_columns(values), *_stations_at_one_place(np.asarray(lat), np.asarray(lon))]
    pairs: dict[int, int] = {}
    for group in groups:
        for at, second in enumerate(group[1:_MOST_AT_ONE_PLACE], start=1):
            if second not in pairs:
                first = next((one for one in group[:at] if one not in pairs and _agree(values, one, second)), None)
                if first is not None:
                    pairs[second] = first
    return sorted((first, second) for second, first in pairs.items())


def _agree(values: Mapping[str, Array], first: int, second: int) -> bool:
    """Return whether enough values of two stations are there at once, change, and are equal."""
    equal = total = 0
    changes = False
    for table in values.values():
        one, two = table[:, first], table[:, second]
        both = np.isfinite(one) & np.isfinite(two)
        total += int(both.sum())
        equal += int((one[both] == two[both]).sum())
        changes |= np.unique(one[both]).size > 2
    return changes and total >= _FEWEST_VALUES and equal >= _EQUAL_SHARE * total


def _equal_columns(values: Mapping[str, Array]) -> list[list[int]]:
    """Group the stations whose values are the same bit by bit."""
    groups: dict[tuple[int, ...], list[int]] = {}
    if not values:
        return []
    for station in range(next(iter(values.values())).shape[1]):
        key = tuple(hash(np.ascontiguousarray(table[:, station]).tobytes()) for table in values.values())
        groups.setdefault(key, []).append(station)
    return [group for group in groups.values() if len(group) > 1]


def _stations_at_one_place(lat: Array, lon: Array) -> list[list[int]]:
    """Group the stations at one place."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    placed = np.flatnonzero(np.isfinite(lat) & np.isfinite(lon))
    if placed.size < 2:
        return []
    # On a raster of the tolerance, so that a crowd at one place costs no more than one.
    raster = np.round(np.stack([lat[placed], lon[placed]], axis=1) / _SAME_PLACE)
    cells, cell = np.unique(raster, axis=0, return_inverse=True)
    links = cKDTree(cells).query_pairs(1.5, output_type="ndarray")
    matrix = coo_matrix((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(len(cells), len(cells)))
    part = connected_components(matrix, directed=False)[1][cell.ravel()]
    order = np.argsort(part, kind="stable")
    groups = np.split(placed[order], np.flatnonzero(np.diff(part[order])) + 1)
    return [group.tolist() for group in groups if group.size > 1]
