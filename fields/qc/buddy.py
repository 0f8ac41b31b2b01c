"""Estimate every value from the stations around it.

Each neighbour gives an estimate by regression on the common past, and the estimates are joined by a weighted median,
so that one bad neighbour does not distort the result (after the spatial regression test of Hubbard and You, 2005,
with a median in place of their mean). Working on departures from each station's own hour of day takes altitude and site
out; pressure is compared as a departure from the hydrostatic profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.constants import earth_radius
from fields.qc.robust import SIGMA, medians, without_cycle
from fields.qc.weighted_median import NEIGHBOURS, weighted_medians

__all__ = ["Neighbours", "estimate", "find_neighbours", "residual"]

Array = np.ndarray[Any, Any]

_CANDIDATES = 20
_FEWEST = 3
_FARTHEST = 600e3  # m; beyond, weather has little in common
# Metres of horizontal distance that a metre of altitude counts for among candidates.
_ALTITUDE_WEIGHT = 200.0
_COMMON = 100  # values that two stations must share before one enters the estimate of the other
_CLIP = 5.0  # robust standard deviations beyond which a departure is cut off before regression


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Candidates of every station, nearest first: ``index[station, k]``, -1 where there are none."""

    index: Array

    @property
    def stations(self) -> int:
        """Number of stations."""
        return int(self.index.shape[0])


def find_neighbours(lat: Array, lon: Array, alt: Array) -> Neighbours:
    """Find the nearest stations of every station.

    Parameters
    ----------
    lat, lon : degrees
    alt : m; a difference in altitude counts as distance, so that valley and summit are not paired
    """
    from scipy.spatial import cKDTree

    phi, lam = np.deg2rad(lat), np.deg2rad(lon)
    sphere = earth_radius * np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=1)
    height = np.where(np.isfinite(alt), alt, 0.0)[:, None] * _ALTITUDE_WEIGHT
    places = np.concatenate([sphere, height], axis=1)
    count = places.shape[0]
    k = min(_CANDIDATES + 1, count)
    _, nearest = cKDTree(places).query(places, k=k)
    nearest = np.atleast_2d(nearest).reshape(count, k)
    index = np.full((count, _CANDIDATES), -1, np.int64)
    for s in range(count):
        others = nearest[s][nearest[s] != s][:_CANDIDATES]
        near = np.linalg.norm(sphere[others] - sphere[s], axis=1) <= _FARTHEST
        index[s, : near.sum()] = others[near]
    return Neighbours(index)


def estimate(departures: Array, neighbours: Neighbours) -> Array:
    """Estimate every departure ``[time, station]`` from the neighbours; NaN where fewer than three report."""
    index, slope, weight = _regressions(departures, neighbours.index)
    out = weighted_medians(np.asarray(departures, np.float32), index, slope, weight, _FEWEST)
    # A median of shrunken estimates is shrunken too; one factor a station undoes it.
    clipped = _clip(departures)
    both = np.isfinite(out) & np.isfinite(clipped)
    product = np.where(both, clipped * out, 0.0).sum(axis=0)
    square = np.where(both, out * out, 0.0).sum(axis=0)
    factor = np.where(square > 0, product / np.maximum(square, 1e-30), 0.0)
    return out * np.clip(factor, 0.0, 2.0).astype(np.float32)


def residual(values: Array, neighbours: Neighbours, phases: int) -> Array:
    """Return the part that the neighbours do not explain: departures minus their estimate, daily cycle removed."""
    departures = without_cycle(np.asarray(values, np.float32), phases)
    return without_cycle(departures - estimate(departures, neighbours), phases)


def _clip(departures: Array) -> Array:
    limit = _CLIP * SIGMA * medians(np.abs(departures))
    return np.clip(departures, -limit, limit)


def _regressions(departures: Array, candidates: Array) -> tuple[Array, Array, Array]:
    """Regress every station on its candidates; return the best neighbours with slope and weight.

    The weight is the inverse of the variance that the regression leaves.
    """
    clipped = _clip(departures)
    there = np.isfinite(clipped)
    # A station's record in one piece of memory: neighbours are then picked by rows, not gathered value by value.
    value = np.ascontiguousarray(np.where(there, clipped, 0.0).T, np.float32)
    count = np.ascontiguousarray(there.T, np.float32)
    square = value * value
    real = candidates >= 0
    pick = np.where(real, candidates, 0)
    shape = pick.shape
    common, product, station_square, other_square = (np.zeros(shape) for _ in range(4))
    for s in range(shape[0]):
        n = pick[s]
        present = count[n]
        common[s] = present @ count[s]
        product[s] = value[n] @ value[s]
        station_square[s] = present @ square[s]
        other_square[s] = square[n] @ count[s]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.clip(product / other_square, 0.0, 2.0)
        unexplained = (station_square - 2 * slope * product + slope**2 * other_square) / common
    useful = real & (common >= _COMMON) & (other_square > 0) & (slope > 0)
    # A neighbour that agrees perfectly is a copy; without a floor its weight would outweigh all others.
    scale = np.median(unexplained[useful]) if useful.any() else 1.0
    unexplained = np.where(useful, np.maximum(unexplained, 0.05 * scale), np.inf)
    best = np.argsort(unexplained, axis=1, kind="stable")[:, :NEIGHBOURS]
    weight = 1.0 / np.take_along_axis(unexplained, best, axis=1)
    index = np.where(weight > 0, np.take_along_axis(pick, best, axis=1), -1)
    chosen = np.where(weight > 0, np.take_along_axis(slope, best, axis=1), 0.0)
    return index, chosen.astype(np.float32), weight.astype(np.float32)
