"""The formulas of moist air and hydrostatic reduction written out in numpy: oracles for what MetPy derives.

They also invert it, to build observations from a known state: `dew_point` and `sea_level_pressure`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

R_d = 8.314462618 / 28.96546e-3  # J/kg/K, dry air
R_v = 8.314462618 / 18.015268e-3  # J/kg/K, water vapour
g = 9.80665  # m/s**2
e_s0, T_triple = 611.2, 273.16  # Pa, K
L_v0 = 2.50084e6  # J/kg, at T_triple
c_pv = 1.330 * R_v / 0.330  # J/kg/K, vapour at constant pressure
c_l = 4219.4  # J/kg/K, liquid water
lapse = 6.5e-3  # K/m
polytropic = g / (R_d * lapse)  # exponent of the pressure profile in a constant lapse rate


def wind_components(speed: Any, direction: Any) -> tuple[Any, Any]:
    """Compute ``u`` and ``v`` [m/s] by ``u = -s sin d``, ``v = -s cos d``; zero in calm air."""
    angle = np.deg2rad(direction)
    return tuple(np.where(speed == 0, speed * 0, -speed * turned) for turned in (np.sin(angle), np.cos(angle)))


def saturation_vapour_pressure(temperature: Any) -> Any:
    """Compute vapour pressure over liquid water [Pa] at a temperature [K]: Ambaum (2020), Eq. 13."""
    x = T_triple / temperature
    heat_power = (c_l - c_pv) / R_v
    return e_s0 * np.exp((L_v0 / (R_v * T_triple) + heat_power) * (1.0 - x) + heat_power * np.log(x))


def relative_humidity(temperature: Any, dew_point: Any) -> Any:
    """Compute relative humidity (fraction) from temperature and dew point [K]."""
    return saturation_vapour_pressure(dew_point) / saturation_vapour_pressure(temperature)


def dew_point(temperature: Any, relative_humidity: Any) -> Any:
    """Compute the dew point [K] that gives a relative humidity (fraction above zero), by Newton's iteration."""
    target = np.log(saturation_vapour_pressure(temperature)) + np.log(relative_humidity)
    estimate = temperature
    for _ in range(5):  # quadratic convergence: 1e-9 K from 60 K away
        latent = L_v0 - (c_l - c_pv) * (estimate - T_triple)
        excess = np.log(saturation_vapour_pressure(estimate)) - target
        estimate = estimate - excess * R_v * estimate**2 / latent
    return estimate


def station_pressure(sea_level: Any, temperature: Any, altitude: Any) -> Any:
    """Compute pressure [Pa] at the station from pressure reduced to the sea, through the standard lapse rate."""
    return sea_level * (temperature / (temperature + lapse * altitude)) ** polytropic


def sea_level_pressure(pressure: Any, temperature: Any, altitude: Any) -> Any:
    """Reduce pressure [Pa] at the station to the sea; the inverse of `station_pressure`."""
    return pressure * ((temperature + lapse * altitude) / temperature) ** polytropic
