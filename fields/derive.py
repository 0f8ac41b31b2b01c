"""What stations report turned into what the state needs: wind components, humidity, pressure at station level.

Formulas are numpy functions in SI that also take xarray and dask arrays; the ``with_…`` functions apply them to a
dataset and say so in its history. Nothing observed is overwritten: derived values only fill what is missing.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import xarray as xr

from .constants import (
    L_v0,
    R_d,
    R_v,
    T_standard,
    T_triple,
    c_l,
    c_pv,
    e_s0,
    g,
    lapse_standard,
    p_standard,
)
from .errors import DataError
from .variables import cf_attributes

__all__ = [
    "dew_point",
    "relative_humidity",
    "saturation_vapour_pressure",
    "sea_level_pressure",
    "standard_pressure",
    "station_pressure",
    "wind_components",
    "wind_speed_direction",
    "with_humidity",
    "with_standard_pressure",
    "with_station_pressure",
    "with_wind",
]

A = TypeVar("A", float, np.ndarray, xr.DataArray)

_POLYTROPIC = g / (R_d * lapse_standard)  # exponent of the pressure profile in a constant lapse rate
_HEAT_POWER = (c_l - c_pv) / R_v


def wind_components(speed: A, direction: A) -> tuple[A, A]:
    r"""Eastward and northward wind from speed and the direction it comes from.

    .. math:: u = -s \sin\delta, \qquad v = -s \cos\delta

    Parameters
    ----------
    speed : m/s
    direction : degrees clockwise from north, where the wind blows *from*; 0 and 360 are both north. It may be
        missing where the speed is zero: calm air has no direction

    Returns
    -------
    u, v : m/s, towards the east and the north; exactly zero in calm air
    """
    angle = np.deg2rad(direction)
    # `where` of xarray keeps labels and laziness; numpy's serves the rest.
    pick: Any = xr.where if isinstance(speed, xr.DataArray) else np.where
    calm: Any = speed == 0
    zero = speed * 0
    return pick(calm, zero, -speed * np.sin(angle)), pick(calm, zero, -speed * np.cos(angle))


def wind_speed_direction(u: A, v: A) -> tuple[A, A]:
    """Speed [m/s] and the direction the wind comes from [degrees, 0 < dd <= 360; 0 in calm air]; the inverse."""
    speed: Any = np.hypot(u, v)
    direction: Any = np.rad2deg(np.arctan2(-u, -v)) % 360
    pick: Any = xr.where if isinstance(speed, xr.DataArray) else np.where
    return speed, pick(speed == 0, 0.0, pick(direction == 0, 360.0, direction))


def saturation_vapour_pressure(temperature: A) -> A:
    r"""Vapour pressure over liquid water at ``temperature`` [K], in Pa.

    .. math:: e_s = e_{s0} \left(\frac{T_0}{T}\right)^{(c_l - c_{pv}) / R_v}
              \exp\left(\frac{L_0}{R_v T_0} - \frac{L(T)}{R_v T}\right)

    Ambaum (2020), Eq. 13, with the constants of MetPy >= 1.7, to which a test holds it.
    """
    x: Any = T_triple / temperature
    return e_s0 * np.exp((L_v0 / (R_v * T_triple) + _HEAT_POWER) * (1.0 - x) + _HEAT_POWER * np.log(x))


def relative_humidity(temperature: A, dew_point: A) -> A:
    r"""Relative humidity (fraction) from temperature and dew point, both in K: :math:`e_s(T_d) / e_s(T)`."""
    return saturation_vapour_pressure(dew_point) / saturation_vapour_pressure(temperature)


def dew_point(temperature: A, relative_humidity: A) -> A:
    """Dew point [K] from temperature [K] and relative humidity (fraction above zero); inverts `relative_humidity`.

    Newton's iteration on the logarithm of the vapour pressure, whose slope is known from Clausius-Clapeyron.
    """
    target = np.log(saturation_vapour_pressure(temperature)) + np.log(relative_humidity)
    found = temperature
    for _ in range(5):  # quadratic convergence: 1e-9 K from 60 K away
        latent = L_v0 - (c_l - c_pv) * (found - T_triple)
        found = found - (np.log(saturation_vapour_pressure(found)) - target) * R_v * found**2 / latent
    return found


def standard_pressure(altitude: A) -> A:
    r"""Pressure of the US Standard Atmosphere (1976) at ``altitude`` [m], in Pa.

    .. math:: p = p_0 \left(1 - \frac{\Gamma z}{T_0}\right)^{g / (R_d \Gamma)}
    """
    return p_standard * (1.0 - lapse_standard * altitude / T_standard) ** _POLYTROPIC


def station_pressure(sea_level: A, temperature: A, altitude: A) -> A:
    r"""Pressure at the station from pressure reduced to the sea.

    .. math:: p = p_{sl} \left(\frac{T}{T + \Gamma z}\right)^{g / (R_d \Gamma)}

    Parameters
    ----------
    sea_level : Pa
    temperature : K, at the station
    altitude : m, of the station

    Returns
    -------
    Pa

    Notes
    -----
    A layer of the standard lapse rate stands for the rock below the station. Services reduce in several ways (mean of
    12 hours, humidity, plateau corrections); at 1,000 m they differ by 1 to 3 hPa, which is the error to expect.
    """
    return sea_level * (temperature / (temperature + lapse_standard * altitude)) ** _POLYTROPIC


def sea_level_pressure(pressure: A, temperature: A, altitude: A) -> A:
    """Pressure reduced to the sea [Pa] from pressure [Pa] and temperature [K] at ``altitude`` [m]; the inverse."""
    return pressure * ((temperature + lapse_standard * altitude) / temperature) ** _POLYTROPIC


def _set(ds: xr.Dataset, name: str, derived: xr.DataArray, how: str) -> xr.Dataset:
    """Fill what is missing of ``name`` and say how."""
    derived = derived.astype(np.float32)
    joined = ds[name].fillna(derived) if name in ds else derived
    dims = [d for d in ("time", "station") if d in joined.dims]
    attrs = {**cf_attributes(name), **(ds[name].attrs if name in ds else {}), "comment": how}
    made = ds.assign({name: joined.transpose(*dims).assign_attrs(attrs)})
    history = ds.attrs.get("history", "")
    made.attrs = {**ds.attrs, "history": f"{history}; {name} {how}".strip("; ")}
    return made


def with_wind(ds: xr.Dataset) -> xr.Dataset:
    """Add ``u`` and ``v`` from ``ff`` and ``dd``."""
    _require(ds, "u, v", "ff", "dd")
    u, v = wind_components(ds["ff"], ds["dd"])
    how = "from wind_speed and wind_from_direction"
    return _set(_set(ds, "u", u, how), "v", v, how)


def with_humidity(ds: xr.Dataset) -> xr.Dataset:
    """Add ``rh`` from ``t`` and ``td`` where it is missing."""
    _require(ds, "rh", "t", "td")
    return _set(ds, "rh", relative_humidity(ds["t"], ds["td"]), "from dew point and temperature (Ambaum 2020)")


def with_station_pressure(ds: xr.Dataset) -> xr.Dataset:
    """Add ``p`` from ``psl``, ``t`` and the stations' altitudes where it is missing."""
    _require(ds, "p", "psl", "t")
    derived = station_pressure(ds["psl"], ds["t"], ds["alt"])
    made = _set(ds, "p", derived, "from sea-level pressure, temperature and altitude (standard lapse rate)")
    made.attrs["pressure_kind"] = "station"
    return made


def with_standard_pressure(ds: xr.Dataset) -> xr.Dataset:
    """Replace ``p`` by the standard atmosphere's pressure at each station: a reference for physics, never scored."""
    derived = standard_pressure(ds["alt"]).broadcast_like(ds["time"]) + xr.zeros_like(ds["time"], dtype=np.float32)
    bare = ds.drop_vars([name for name in ("p", "p_flag") if name in ds])
    made = _set(bare, "p", derived, "of the US Standard Atmosphere at the station's altitude; not observed")
    made.attrs["pressure_kind"] = "standard_atmosphere"
    return made


def _require(ds: xr.Dataset, made: str, *names: str) -> None:
    missing = [name for name in names if name not in ds]
    if missing:
        raise DataError(
            f"{made} needs {' and '.join(names)}, and {' and '.join(missing)} is not in the data",
            code="SPDE-D006",
            where=str(ds.attrs.get("source", "")) or None,
        )
