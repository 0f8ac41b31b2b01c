r"""What kind of quantity an extra variable is: its bounds, and what the sun has to do with it.

Radiation is forecast as a share of what reaches a level surface above the air (the clearness index of Liu and Jordan
1960), so that its height over the day and its zero at night are exact:

.. math:: R = k\,S_0\,\overline{\max(\cos z, 0)}

the mean being that of the hour before, which stations report.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fields.variables import variable
from fields.windows import Stations
from stationpde.physics import cos_zenith

__all__ = ["LEAST_SUN", "bounded", "sunlight", "to_level", "to_value", "weight_of"]

Array = np.ndarray[Any, Any]

SOLAR_CONSTANT = 1361.0
"""W/m² (Kopp and Lean 2011)."""
LEAST_SUN = 60.0
"""Sunlight above the air [W/m²] below which a share of it says nothing: the sun is within 3° of the horizon."""
_LARGEST_SHARE = 1.1
_SHARES_OF_SUN = ("radiation",)
_BY_DAY = ("radiation", "sunshine")
_MINUTES = (0, 15, 30, 45, 60)


def sunlight(time: Array, stations: Stations) -> Array:
    """Compute sunlight above the air in the hour before times, W/m² ``[*time, station]``; zero at night."""
    lat, lon = (torch.as_tensor(np.deg2rad(values)) for values in (stations.lat, stations.lon))
    flat = torch.as_tensor(np.asarray(time, np.int64).ravel())
    heights = [cos_zenith(flat - 60 * minutes, lat, lon).clamp(min=0.0) for minutes in _MINUTES]
    mean = torch.stack(heights).mean(dim=0).numpy()
    return (SOLAR_CONSTANT * mean).reshape(*np.shape(time), len(stations))


def to_level(name: str, values: Array, sun: Array) -> Array:
    """Convert values to what is regressed: a share of the sunlight, NaN where there is hardly any, or the value."""
    if name not in _SHARES_OF_SUN:
        return values
    return np.where(sun >= LEAST_SUN, values / np.maximum(sun, LEAST_SUN), np.nan)


def to_value(name: str, levels: Array, sun: Array) -> Array:
    """Convert regressed levels to values that can be: within bounds, zero at night."""
    if name in _SHARES_OF_SUN:
        return np.clip(levels, 0.0, _LARGEST_SHARE) * sun
    return bounded(name, levels, sun)


def bounded(name: str, values: Array, sun: Array) -> Array:
    """Bring values into the range that a variable has: no negative rain, no light at night."""
    low, high = variable(name).hard
    within = np.clip(values, max(low, 0.0) if name in _BY_DAY else low, high)
    return np.where(sun > 0.0, within, 0.0) if name in _BY_DAY else within


def weight_of(name: str, sun: Array) -> Array:
    """Return the weight of a squared error of a level, so that the error of the value counts."""
    return (sun / SOLAR_CONSTANT) ** 2 if name in _SHARES_OF_SUN else np.ones_like(sun)
