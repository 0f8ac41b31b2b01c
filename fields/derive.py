r"""Derive what the state needs from what stations report: wind components, humidity, pressure at station level.

The physics is `metpy.calc`, called with units on whole blocks: `wind_components`, `wind_speed` and `wind_direction`,
`relative_humidity_from_dewpoint` (Ambaum 2020, Eq. 13), `height_to_pressure_std`. MetPy takes a second to import: the
first derivation imports it, not this module. Arrays are SI; NaN stays NaN; single precision stays single.

What MetPy is not used for, and why:

* Calm air without a direction: MetPy gives NaN for a speed of zero whose direction is missing. Calm air has no
  direction, and its components are zero.
* Pressure of the standard atmosphere at an altitude (`standard_pressure`): MetPy rounds the temperature at sea level to
  288 K, which shifts the pressure at 5 km by 0.3 hPa from the US Standard Atmosphere (1976); and every source's
  pressure is checked against this profile, also where nothing is derived.
* Reduction of pressure with the temperature of the station (`station_pressure`): MetPy has the altimeter setting
  (`altimeter_to_station_pressure`, which takes no temperature and adds 0.3 hPa), the isothermal reduction of it
  (`altimeter_to_sea_level_pressure`, 1.4 hPa off a layer of the standard lapse rate at 1,000 m) and the standard
  temperature (`add_height_to_pressure`). Its standard profile is used with a scaled height instead, see there.

The ``with_…`` functions apply the formulas to a dataset, lazily where it is lazy, and say so in its history. Nothing
observed is overwritten: derived values only fill what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from fields.constants import R_d, T_standard, g, lapse_standard, p_standard
from fields.errors import DataError
from fields.variables import PressureKind, cf_attributes

__all__ = [
    "relative_humidity",
    "standard_pressure",
    "station_pressure",
    "wind_components",
    "wind_speed_direction",
    "with_humidity",
    "with_standard_pressure",
    "with_station_pressure",
    "with_wind",
]

Array = np.ndarray[Any, Any]
_FULL_TURN = 360.0  # degrees
A = TypeVar("A", float, np.ndarray, xr.DataArray)


def wind_components(speed: Array, direction: Array) -> tuple[Array, Array]:
    r"""Compute eastward and northward wind from speed and the direction it comes from.

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
    from metpy.calc import wind_components as components
    from metpy.units import units

    beyond = np.abs(direction) > 2 * _FULL_TURN
    if np.any(beyond):  # MetPy warns of them; the checks report them with the station and the command that mends them
        direction = np.where(beyond, direction % _FULL_TURN, direction)
    wind = components(units.Quantity(speed, "m/s"), units.Quantity(direction, "degree"))
    u, v = (np.asarray(component.m_as("m/s")) for component in wind)
    calm = np.asarray(speed) == 0
    u[calm] = v[calm] = 0.0
    return u, v


def wind_speed_direction(u: Array, v: Array) -> tuple[Array, Array]:
    """Compute speed [m/s] and direction [degrees, where the wind comes from] from eastward and northward wind [m/s].

    Inverts `wind_components`; directions are above 0 and up to 360, and 0 in calm air.
    """
    from metpy.calc import wind_direction, wind_speed
    from metpy.units import units

    east, north = units.Quantity(u, "m/s"), units.Quantity(v, "m/s")
    return np.asarray(wind_speed(east, north).m), np.asarray(wind_direction(east, north).m_as("degree"))


def relative_humidity(temperature: Array, dew_point: Array) -> Array:
    r"""Compute relative humidity (fraction) from temperature and dew point, both in K.

    .. math:: RH = e_s(T_d) / e_s(T)

    ``e_s`` is the vapour pressure over liquid water of Ambaum (2020), Eq. 13, at all temperatures.
    """
    from metpy.calc import relative_humidity_from_dewpoint
    from metpy.units import units

    humidity = relative_humidity_from_dewpoint(units.Quantity(temperature, "K"), units.Quantity(dew_point, "K"))
    return np.asarray(humidity.m)


def station_pressure(sea_level: Array, temperature: Array, altitude: Array) -> Array:
    r"""Compute pressure at the station from pressure reduced to the sea.

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

    The standard profile :math:`p_0 (1 - \Gamma h / T_0)^{g / (R_d \Gamma)}` of `metpy.calc.height_to_pressure_std`
    depends on height and on the temperature at its base through :math:`h / T_0` alone. It ends at :math:`T_0 / \Gamma`,
    where `pressure_to_height_std` puts a pressure of zero; the share :math:`\Gamma z / (T + \Gamma z)` of that height
    therefore has the pressure ratio of a layer whose base has the temperature :math:`T + \Gamma z`.
    """
    from metpy.calc import height_to_pressure_std, pressure_to_height_std
    from metpy.units import units

    top = pressure_to_height_std(units.Quantity(0.0, "Pa")).m_as("m")
    drop = lapse_standard * altitude  # K, from the base of the layer to the station
    layer = height_to_pressure_std(units.Quantity(top * drop / (temperature + drop), "m"))
    ratio = layer.m / height_to_pressure_std(units.Quantity(0.0, "m")).m_as(layer.units)
    return np.asarray(sea_level * ratio)


def standard_pressure(altitude: A) -> A:
    r"""Compute the pressure of the US Standard Atmosphere (1976) at ``altitude`` [m], in Pa.

    .. math:: p = p_0 \left(1 - \frac{\Gamma z}{T_0}\right)^{g / (R_d \Gamma)}

    With :math:`T_0` = 288.15 K, which MetPy rounds to 288 K.
    """
    return p_standard * (1.0 - lapse_standard * altitude / T_standard) ** (g / (R_d * lapse_standard))


def with_wind(ds: xr.Dataset) -> xr.Dataset:
    """Add ``u`` and ``v`` from ``ff`` and ``dd``."""
    _require(ds, "u, v", "ff", "dd")
    u, v = _blockwise(wind_components, ds["ff"], ds["dd"], outputs=2)
    how = "from wind_speed and wind_from_direction"
    return _fill(_fill(ds, "u", u, how), "v", v, how)


def with_humidity(ds: xr.Dataset) -> xr.Dataset:
    """Add ``rh`` from ``t`` and ``td`` where it is missing."""
    _require(ds, "rh", "t", "td")
    (humidity,) = _blockwise(relative_humidity, ds["t"], ds["td"])
    return _fill(ds, "rh", humidity, "from dew point and temperature (Ambaum 2020)")


def with_station_pressure(ds: xr.Dataset) -> xr.Dataset:
    """Add ``p`` from ``psl``, ``t`` and the stations' altitudes where it is missing."""
    _require(ds, "p", "psl", "t")
    (pressure,) = _blockwise(station_pressure, ds["psl"], ds["t"], ds["alt"])
    filled = _fill(ds, "p", pressure, "from sea-level pressure, temperature and altitude (standard lapse rate)")
    return filled.assign_attrs(pressure_kind=PressureKind.STATION.value)


def with_standard_pressure(ds: xr.Dataset) -> xr.Dataset:
    """Replace ``p`` by the standard atmosphere's pressure at each station: a reference for physics, never scored."""
    pressure = standard_pressure(ds["alt"]).broadcast_like(ds["time"]) + xr.zeros_like(ds["time"], dtype=np.float32)
    bare = ds.drop_vars([name for name in ("p", "p_flag") if name in ds])
    filled = _fill(bare, "p", pressure, "of the US Standard Atmosphere at the station's altitude; not observed")
    return filled.assign_attrs(pressure_kind=PressureKind.STANDARD_ATMOSPHERE.value)


def _blockwise(formula: Callable[..., Any], *columns: xr.DataArray, outputs: int = 1) -> tuple[xr.DataArray, ...]:
    """Apply a formula to arrays of one dataset, block by block and on demand where they are lazy."""
    dtype = np.result_type(*(column.dtype for column in columns))
    derived = xr.apply_ufunc(
        formula, *columns, dask="parallelized", output_core_dims=[()] * outputs, output_dtypes=[dtype] * outputs
    )
    return derived if outputs > 1 else (derived,)


def _fill(ds: xr.Dataset, name: str, derived: xr.DataArray, how: str) -> xr.Dataset:
    """Fill what is missing of ``name`` with derived values, and say how in its comment and in the history."""
    derived = derived.astype(np.float32)
    joined = ds[name].fillna(derived) if name in ds else derived
    dims = [d for d in ("time", "station") if d in joined.dims]
    attrs = {**cf_attributes(name), **(ds[name].attrs if name in ds else {}), "comment": how}
    filled = ds.assign({name: joined.transpose(*dims).assign_attrs(attrs)})
    history = ds.attrs.get("history", "")
    return filled.assign_attrs(history=f"{history}; {name} {how}".strip("; "))


def _require(ds: xr.Dataset, derived: str, *names: str) -> None:
    """Refuse a derivation whose inputs are not all in the dataset."""
    missing = [name for name in names if name not in ds]
    if missing:
        raise DataError(
            f"{derived} needs {' and '.join(names)}, and {' and '.join(missing)} is not in the data",
            code="SPDE-D006",
            where=str(ds.attrs.get("source", "")) or None,
        )
