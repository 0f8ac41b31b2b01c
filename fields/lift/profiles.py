r"""Profiles of temperature, humidity and pressure: the part of an observation that altitude and position explain.

The profile is subtracted from observations before they are averaged, and added again at the target, so that a station
on a mountain is of use in the valley beside it. Three quantities have one:

* temperature follows a plane, :math:`T = a + b\,x + c\,y + s\,z`, whose lapse :math:`\Gamma = -s` [K/m] is fitted to
  the stations of the moment;
* relative humidity likewise, with its own slopes, between the lowest and the highest station;
* pressure follows the hydrostatic law under that lapse,

  .. math:: \ln p(z) = \ln p_0 + \frac{g}{R_d \Gamma} \ln\Bigl(1 - \frac{\Gamma z}{T_0}\Bigr), \qquad T_0 = T + \Gamma z

  and what is left of :math:`\ln p_0` follows a plane again. The law takes each station's temperature, so that a
  warm and a cold air mass beside each other are both reduced correctly.

The fit is robust (Huber) and has a prior: slopes are drawn towards a standard value by as much as the scatter of the
stations leaves them uncertain. Stations on a plane give that plane exactly; a few stations with noise give nearly the
standard lapse; stations of one altitude give exactly the standard lapse.

Arrays may be numpy or torch: the functions call the array module ``xp``, and torch differentiates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fields.constants import R_d, T_standard, g, lapse_standard, p_standard

__all__ = ["PRIORS", "LocalPositions", "Plane", "SlopePrior", "fit_plane", "hydrostatic", "reduced", "restored"]

Array = Any  # numpy or torch

# Lengths in which slopes are of order one; they keep the normal equations well conditioned.
_HORIZONTAL, _VERTICAL = 1e6, 1e3
# With fewer stations than this a horizontal slope is not fitted: it would absorb the effect of altitude.
_FEWEST_FOR_PLANE = 12
_ITERATIONS = 5
# Least scatter that is assumed, in parts of the prior's: it decides between slopes that fit equally well.
_LEAST_SCATTER = 1e-5
_COLDEST = 150.0  # K, colder than any air: keeps the logarithm defined where a value is no temperature


@dataclass(frozen=True, slots=True)
class SlopePrior:
    """Prior of the slopes of one quantity, in its unit and per metre.

    Parameters
    ----------
    scatter : departure of a single station beyond which it loses influence
    slope, spread : mean and standard deviation of the vertical slope
    plane : standard deviation of the horizontal slope
    bound : largest absolute value of a fitted vertical slope
    level : level where no station reports
    """

    scatter: float
    slope: float
    spread: float
    plane: float
    bound: float
    level: float = 0.0


PRIORS: Mapping[str, SlopePrior] = MappingProxyType(
    {
        # K: siting scatters by 1.5 K; beyond 12 K/km there is neither an inversion nor an unstable layer that deep.
        "t": SlopePrior(1.5, -lapse_standard, 3e-3, 1e-5, 12e-3, T_standard),
        # 1: on average altitude says nothing about relative humidity.
        "rh": SlopePrior(0.08, 0.0, 4e-5, 4e-7, 2e-4, 0.5),
        # ln p: 1 hPa of scatter, 20 hPa over 1000 km, 2 hPa over 1000 m for moisture and altimetry.
        "p": SlopePrior(1e-3, 0.0, 2e-6, 2e-8, 2e-5),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class LocalPositions:
    """Positions in metres, each ``[place]``, as numpy or torch arrays.

    A type apart from `fields.places.Places`: these are metres in the metric of one region, without names, and they
    live on the device of a torch module.

    Parameters
    ----------
    x, y : metres east and north of the region's middle
    z : altitude, metres
    clipped_z : altitude clipped to the range of the stations, metres
    """

    x: Array
    y: Array
    z: Array
    clipped_z: Array

    @classmethod
    def at(cls, xy: NDArray[np.float64], alt: NDArray[np.float64], alt_range: tuple[float, float]) -> LocalPositions:
        """Build positions from metres ``[place, 2]``, altitudes [m] and the range to which altitudes are clipped."""
        return cls(xy[:, 0], xy[:, 1], alt, np.clip(alt, *alt_range))


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """Level and slopes per metre of one quantity at each moment, each ``[..., 1]``."""

    level: Array
    along_x: Array
    along_y: Array
    along_z: Array

    def at_sea_level(self, places: LocalPositions) -> Array:
        """Return the plane's value below or above each place at altitude 0 ``[..., place]``."""
        return self.level + self.along_x * places.x + self.along_y * places.y

    def at(self, places: LocalPositions, altitude: Array) -> Array:
        """Return the plane's value ``[..., place]`` at the places and at an altitude [m] of each."""
        return self.at_sea_level(places) + self.along_z * altitude

    @classmethod
    def vertical(cls, slope: Array, level: float = 0.0) -> Plane:
        """Build a plane that changes with altitude alone, from a slope per metre ``[..., 1]``."""
        nothing = 0.0 * slope
        return cls(nothing + level, nothing, nothing, slope)


def fit_plane(values: Array, places: LocalPositions, altitude: Array, prior: SlopePrior, xp: Any) -> Plane:
    r"""Fit level and slopes to the values that are not missing, at each moment separately.

    Minimises :math:`\sum_i \rho\bigl((v_i - a - b x_i - c y_i - s z_i)/\delta\bigr)` with Huber's :math:`\rho`, plus
    :math:`\sigma^2\bigl((b^2 + c^2)/\tau_h^2 + (s - s_0)^2/\tau_v^2\bigr)`, where :math:`\sigma^2` is the variance of
    the residuals in units of :math:`\delta^2`: the better the plane fits, the less the prior counts.

    Parameters
    ----------
    values : float64 ``[..., station]``, NaN = missing
    places : positions of the stations
    altitude : metres ``[station]``; the coordinate ``z`` of the fit, clipped or not
    prior : :math:`\delta`, :math:`s_0`, :math:`\tau_v`, :math:`\tau_h` and the bound of the slope
    xp : numpy or torch
    """
    columns = [(places.x, _HORIZONTAL), (places.y, _HORIZONTAL), (altitude, _VERTICAL)]
    middle = [column.mean() for column, _ in columns]
    design = [(column - centre) / length for (column, length), centre in zip(columns, middle)]
    design = xp.stack([xp.ones_like(places.x), *design], -1)
    outer = (design[:, :, None] * design[:, None, :]).reshape(-1, 16)

    there = xp.logical_not(xp.isnan(values))
    scaled = xp.where(there, values, 0.0) / prior.scatter
    present = xp.where(there, xp.ones_like(values), 0.0)
    count = present.sum(-1)
    planar = xp.where(count >= _FEWEST_FOR_PLANE, xp.ones_like(count), 0.0)
    active = xp.stack([xp.ones_like(count), planar, planar, xp.ones_like(count)], -1)
    freedom = count - active.sum(-1)

    # A moment without any station has the prior's level; otherwise the level is free.
    none, empty = 0.0 * count, xp.where(count == 0.0, xp.ones_like(count), 0.0)
    flat = (prior.scatter / (prior.plane * _HORIZONTAL)) ** 2
    steep = (prior.scatter / (prior.spread * _VERTICAL)) ** 2
    fixed = xp.stack([empty, 1.0 - planar, 1.0 - planar, none], -1)
    fixed_right = xp.stack([empty * (prior.level / prior.scatter), none, none, none], -1)
    stiffness = xp.stack([none, none + flat, none + flat, none + steep], -1)
    pull = xp.stack([none, none, none, none + steep * prior.slope * _VERTICAL / prior.scatter], -1)

    place = xp.cumsum(xp.ones_like(design[0]), 0)
    identity = xp.where(place[:, None] == place[None, :], xp.ones_like(outer[:1]).reshape(4, 4), 0.0)
    influence, variance = present, 0.0 * count + _LEAST_SCATTER**2
    for _ in range(_ITERATIONS):
        normal = (influence @ outer).reshape(*count.shape, 4, 4) * active[..., :, None] * active[..., None, :]
        normal = normal + identity * (fixed + variance[..., None] * stiffness)[..., None, :]
        right = ((influence * scaled) @ design) * active + fixed_right + variance[..., None] * pull
        solved = xp.linalg.solve(normal, right[..., None])[..., 0]
        residual = xp.where(there, scaled - solved @ design.T, 0.0)
        size = xp.abs(residual)
        influence = present / xp.where(size > 1.0, size, 1.0)
        sample = (influence * residual**2).sum(-1) / xp.where(freedom >= 1.0, freedom, 1.0)
        sample = xp.where(freedom >= 1.0, sample, 1.0)
        variance = xp.where(sample > _LEAST_SCATTER**2, sample, _LEAST_SCATTER**2)

    slopes = [solved[..., i + 1 : i + 2] * (prior.scatter / length) for i, (_, length) in enumerate(columns)]
    slopes[2] = xp.clip(slopes[2], -prior.bound, prior.bound)
    level = solved[..., :1] * prior.scatter - sum(slope * centre for slope, centre in zip(slopes, middle))
    return Plane(level, *slopes)


def hydrostatic(sea_level_temperature: Array, lapse: Array, altitude: Array, xp: Any) -> Array:
    r"""Return the logarithm of pressure at ``altitude`` over pressure at sea level.

    .. math:: \frac{g}{R_d \Gamma} \ln\Bigl(1 - \frac{\Gamma z}{T_0}\Bigr) \;\to\; -\frac{g z}{R_d T_0}
        \quad\text{for}\ \Gamma \to 0

    Parameters
    ----------
    sea_level_temperature : K, ``T_0``
    lapse : K/m, ``Γ``
    altitude : m
    """
    warm = xp.where(sea_level_temperature > _COLDEST, sea_level_temperature, _COLDEST)
    part = lapse * altitude / warm
    small = xp.abs(part) < 1e-5
    safe = xp.where(small, 1e-5, part)
    # -ln(1 - a) / a, by its series where a is small.
    bend = xp.where(small, 1.0 + part / 2.0, -xp.log1p(-safe) / safe)
    return -(g / R_d) * altitude / warm * bend


def reduced(pressure: Array, sea_level_temperature: Array, lapse: Array, altitude: Array, xp: Any) -> Array:
    """Reduce pressure [Pa] to sea level: return the logarithm of the reduced over the standard pressure [1]."""
    return xp.log(pressure / p_standard) - hydrostatic(sea_level_temperature, lapse, altitude, xp)


def restored(reduced_log: Array, sea_level_temperature: Array, lapse: Array, altitude: Array, xp: Any) -> Array:
    """Return pressure [Pa] at ``altitude`` [m]: the inverse of `reduced`."""
    return p_standard * xp.exp(reduced_log + hydrostatic(sea_level_temperature, lapse, altitude, xp))
