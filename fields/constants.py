"""Define physical constants of the station side, in coherent SI; each line names its unit and its source.

They are the values of ``pde_ops.constants`` to the last bit. The two packages never import each other, so
``tests/fields/test_field_constants.py`` compares them. What moist air needs is MetPy's (`fields.derive`).
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "Omega",
    "R_d",
    "T_standard",
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
g: Final = 9.80665  # m/s**2, CODATA 2018, standard acceleration of gravity
Omega: Final = 7292115e-11  # 1/s, Moritz (2000), GRS 80, angular velocity of the Earth
earth_radius: Final = 6371008.7714  # m, Moritz (2000), GRS 80, mean radius

p_standard: Final = 101325.0  # Pa, US Standard Atmosphere (1976), sea level
T_standard: Final = 288.15  # K, US Standard Atmosphere (1976), sea level
lapse_standard: Final = 6.5e-3  # K/m, US Standard Atmosphere (1976), troposphere
