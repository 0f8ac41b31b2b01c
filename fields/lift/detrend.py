"""Weighted means of anomalies from a profile: subtract the profile, average, add the profile at the target.

`detrended_means` serves the detrended lift (stations to cells, profiles fitted) and the readout (cells to points,
profiles passed in), on numpy and torch arrays; only the function that averages differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.constants import T_standard, lapse_standard, p_standard
from fields.lift.profiles import PRIORS, Array, LocalPositions, Plane, fit_plane, reduced, restored

__all__ = ["Means", "detrended_means"]

Averaging = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """Values and coverage ``[..., target]`` by variable, and the planes that were subtracted and added again."""

    values: dict[str, Array]
    coverage: dict[str, Array]
    planes: dict[str, Plane]

    @classmethod
    def joined(cls, parts: Sequence[Means]) -> Means:
        """Concatenate the means of parts of a record along the first axis (numpy)."""
        if len(parts) == 1:
            return parts[0]
        slopes = ("level", "along_x", "along_y", "along_z")
        return cls(
            {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values},
            {name: np.concatenate([part.coverage[name] for part in parts]) for name in parts[0].coverage},
            {
                name: Plane(
                    *(np.concatenate([getattr(part.planes[name], slope) for part in parts]) for slope in slopes)
                )
                for name in parts[0].planes
            },
        )


def detrended_means(
    values: Mapping[str, Array],
    average: Averaging,
    sources: LocalPositions,
    targets: LocalPositions,
    *,
    xp: Any,
    planes: Mapping[str, Plane] | None = None,
    station_pressure: bool = True,
) -> Means:
    """Average anomalies from the profiles at the targets and add the profiles there.

    Parameters
    ----------
    values : by variable, ``[..., source]``, SI, NaN = missing
    average : function from ``[..., source]`` to means and coverage ``[..., target]``
    sources, targets : positions that the values come from and go to
    xp : numpy or torch
    planes : profiles to use, by variable; None fits them to the values
    station_pressure : whether ``p`` is pressure at the source's altitude; reduced pressure has no profile
    """
    lifted: dict[str, Array] = {}
    coverage: dict[str, Array] = {}
    used: dict[str, Plane] = {}

    def plane_of(name: str, numbers: Array, altitude: Array) -> Plane:
        used[name] = fit_plane(numbers, sources, altitude, PRIORS[name], xp) if planes is None else planes[name]
        return used[name]

    temperature = values.get("t")
    if temperature is not None:
        plane = plane_of("t", _double(temperature), sources.z)
        anomaly = _double(temperature) - plane.at(sources, sources.z)
        means, coverage["t"] = average(_like(anomaly, temperature))
        lifted["t"] = _like(means + plane.at(targets, targets.z), temperature)
    humidity = values.get("rh")
    if humidity is not None:
        plane = plane_of("rh", _double(humidity), sources.clipped_z)
        anomaly = _double(humidity) - plane.at(sources, sources.clipped_z)
        means, coverage["rh"] = average(_like(anomaly, humidity))
        lifted["rh"] = _like(xp.clip(means + plane.at(targets, targets.clipped_z), 0.0, 1.0), humidity)
    pressure = values.get("p")
    if pressure is not None and station_pressure:
        if temperature is None:
            column = Plane.vertical(xp.ones_like(_double(pressure)[..., :1]) * -lapse_standard, T_standard)
            warmth = xp.zeros_like(_double(pressure))
        else:
            column = used["t"]
            warmth = _double(temperature) - column.at(sources, sources.z)
        lifted["p"], coverage["p"] = _pressure(
            pressure, warmth, column, average, sources, targets, lambda x: plane_of("p", x, sources.clipped_z), xp
        )
    for name in values:
        if name not in lifted:
            lifted[name], coverage[name] = average(values[name])
    return Means({name: lifted[name] for name in values}, coverage, used)


def _pressure(
    pressure: Array,
    warmth: Array,
    column: Plane,
    average: Averaging,
    sources: LocalPositions,
    targets: LocalPositions,
    plane_of: Callable[[Array], Plane],
    xp: Any,
) -> tuple[Array, Array]:
    """Average pressure reduced by the hydrostatic law and restore it at the targets, with its coverage.

    ``warmth`` is the anomaly of temperature [K] from the plane ``column``; ``plane_of`` fits or looks up the plane of
    the reduced pressure.
    """
    # A station without a temperature gets that of the plane.
    warmth = xp.where(xp.isnan(warmth), 0.0, warmth)
    lapse = -column.along_z
    # Missing values pass the logarithm as an ordinary pressure: its derivative at NaN would be NaN.
    missing = xp.isnan(pressure)
    safe = xp.where(missing, p_standard, _double(pressure))
    at_sea = reduced(safe, column.at_sea_level(sources) + warmth, lapse, sources.z, xp)
    at_sea = xp.where(missing, xp.nan, at_sea)
    plane = plane_of(at_sea)
    means, coverage = average(_like(at_sea - plane.at(sources, sources.clipped_z), pressure))
    # The same stations with the same weights give the temperature of the target's column: an error of a
    # thermometer then acts over the difference of altitudes, not over the whole altitude.
    warm, _ = average(_like(xp.where(missing, xp.nan, warmth), pressure))
    sea_level = column.at_sea_level(targets) + warm
    lifted = restored(means + plane.at(targets, targets.clipped_z), sea_level, lapse, targets.z, xp)
    return _like(lifted, pressure), coverage


def _double(array: Array) -> Array:
    return array.astype("float64") if hasattr(array, "astype") else array.double()


def _like(array: Array, pattern: Array) -> Array:
    return array.astype(pattern.dtype) if hasattr(array, "astype") else array.to(pattern.dtype)
