"""How far places are from what a network sees: in distance, in altitude, and amid how rough a relief."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fields.grid import LocalMetric
from fields.lift.neighbors import nearest
from fields.places import PlacesLike, coordinates_of

__all__ = ["REMOTENESS", "remoteness"]

Array = NDArray[Any]

REMOTENESS = ("level", "distance", "altitude", "relief")
"""Columns of `remoteness`."""
_NEIGHBOURS = 5
_KILOMETRES, _METRES = 50.0, 300.0
_LEAST_DISTANCE = 1e3  # m


def remoteness(
    places: PlacesLike, network: PlacesLike, *, metric: LocalMetric | None = None, excluded: Array | None = None
) -> Array:
    r"""Return how far places are from a network: ``[place, 4]``.

    1; :math:`\ln(1 + d / 50\,\mathrm{km})` of the distance to the nearest station; the difference of altitude to the
    mean of the five nearest, weighted by 1/d, in 300 m; and the roughness of the relief: the standard deviation of the
    altitudes of these five and the place, in 300 m.

    Parameters
    ----------
    places, network : `Places`, or tuples of latitude, longitude [degrees] and altitude [m]; an unknown altitude of a
        place is that of its neighbours, one of a station the median of the network
    metric : of the region; by default that of the network
    excluded : ``[place, station]`` pairs that do not count, as in cross-validation
    """
    lat, lon, alt = coordinates_of(network)
    place_lat, place_lon, place_alt = coordinates_of(places)
    metric = metric or LocalMetric.around(lat, lon)
    here, there = metric.xy(place_lat, place_lon), metric.xy(lat, lon)
    is_finite = np.isfinite(alt)
    altitude = np.where(is_finite, alt, np.median(alt[is_finite]) if is_finite.any() else 0.0)
    near = nearest(there, here, min(_NEIGHBOURS, len(there)), excluded=excluded)
    distance = np.hypot(*(there[near] - here[:, None]).transpose(2, 0, 1))
    used = np.ones(near.shape, bool)
    if excluded is not None:
        used = ~np.take_along_axis(excluded, near.astype(np.int64), axis=1)
        used[:, 0] = True
    around = altitude[near]
    weight = np.where(used, 1.0 / np.maximum(distance, _LEAST_DISTANCE), 0.0)
    here_altitude = np.where(np.isfinite(place_alt), place_alt, _mean(around, used))
    apart = np.abs(here_altitude - (weight * around).sum(axis=1) / weight.sum(axis=1))
    everything = np.concatenate([around, here_altitude[:, None]], axis=1)
    counted = np.concatenate([used, np.ones((len(here_altitude), 1), bool)], axis=1)
    departure = everything - _mean(everything, counted)[:, None]
    columns = np.ones((len(here_altitude), len(REMOTENESS)))
    columns[:, 1] = np.log1p(distance[:, 0] / 1e3 / _KILOMETRES)
    columns[:, 2] = apart / _METRES
    columns[:, 3] = np.sqrt(_mean(departure**2, counted)) / _METRES
    return columns


def _mean(values: Array, used: Array) -> Array:
    mean: Array = np.where(used, values, 0.0).sum(axis=1) / used.sum(axis=1)
    return mean
