"""Physical constants of the station side, in coherent SI; each line names its unit and its source.

They are the values of ``pde_ops.constants`` to the last bit. The two packages never import each other, so
``tests/fields/test_field_constants.py`` holds them together.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "L_v0",
    "Omega",
    "R_d",
    "R_v",
    "T_standard",
    "T_triple",
    "T_zero_celsius",
    "c_l",
    "c_pv",
    "e_s0",
    "earth_radius",
    "epsilon",
    "g",
    "lapse_standard",
    "p_standard",
]

_R: Final = 8.314462618  # J/mol/K, CODATA 2018, molar gas constant
_M_d: Final = 28.96546e-3  # kg/mol, Picard et al. (2008), molar mass of dry air

R_d: Final = _R / _M_d  # J/kg/K, gas constant of dry air
epsilon: Final = 18.015268 / 28.96546e-3 * 1e-3  # kg/kg, IAPWS (2001) over Picard et al. (2008), M_v / M_d
R_v: Final = _R / 18.015268 * 1e3  # J/kg/K, gas constant of water vapour
g: Final = 9.80665  # m/s**2, CODATA 2018, standard acceleration of gravity
Omega: Final = 7292115e-11  # 1/s, Moritz (2000), GRS 80, angular velocity of the Earth
earth_radius: Final = 6371008.7714  # m, Moritz (2000), GRS 80, mean radius

e_s0: Final = 611.2  # Pa, Bolton (1980), Eq. 10, saturation vapour pressure at 0 degC
L_v0: Final = 2.50084e6  # J/kg, WMO (1966), latent heat of vaporisation at T_triple
c_pv: Final = 1.330 * R_v / (1.330 - 1.0)  # J/kg/K, vapour at constant pressure, ratio of specific heats 1.33
c_l: Final = 4.2194 * 1e3  # J/kg/K, IAPWS (1995), liquid water at 0 degC
T_triple: Final = 273.16  # K, CODATA 2018, triple point of water
T_zero_celsius: Final = 273.15  # K, definition of the Celsius scale
p_standard: Final = 101325.0  # Pa, US Standard Atmosphere (1976), sea level
T_standard: Final = 288.15  # K, US Standard Atmosphere (1976), sea level
lapse_standard: Final = 6.5e-3  # K/m, US Standard Atmosphere (1976), troposphere
