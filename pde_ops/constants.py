"""Physical constants in coherent SI, each with its unit and its source.

The values are those of MetPy >= 1.7 to the last bit (but for `T_standard`), so that a formula written here
and the same formula in MetPy differ by round-off alone; ``tests/pde_ops/test_constants.py`` holds the two
together. A `Constant` is a float and is used in formulas as one; arithmetic gives plain floats.
"""

from __future__ import annotations

from typing import Self


class Constant(float):
    """A float that knows its unit (coherent SI, in pint's spelling) and where the value comes from."""

    __slots__ = ("source", "unit")
    unit: str
    source: str

    def __new__(cls, value: float, unit: str, source: str) -> Self:
        constant = super().__new__(cls, value)
        object.__setattr__(constant, "unit", unit)
        object.__setattr__(constant, "source", source)
        return constant

    def __reduce__(self) -> tuple[type[Self], tuple[float, str, str]]:
        return type(self), (float(self), self.unit, self.source)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"the constants are fixed: `{name}` of {self!r} cannot be set")

    def __repr__(self) -> str:
        return f"Constant({float(self)!r}, {self.unit!r}, {self.source!r})"


_CODATA = "CODATA 2018"
_PERFECT_GAS = "perfect diatomic gas, ratio of specific heats 1.4"

R = Constant(8.314462618, "J/mol/K", f"{_CODATA}, molar gas constant")
M_d = Constant(28.96546e-3, "kg/mol", "Picard et al. (2008), molar mass of dry air")
M_v = Constant(18.015268e-3, "kg/mol", "IAPWS (2001), molar mass of water")

R_d = Constant(R / M_d, "J/kg/K", "R / M_d, gas constant of dry air")
R_v = Constant(R / 18.015268 * 1e3, "J/kg/K", "R / M_v, gas constant of water vapour")
epsilon = Constant(18.015268 / 28.96546e-3 * 1e-3, "kg/kg", "M_v / M_d, ratio of the molar masses")
c_p = Constant(1.4 * R_d / (1.4 - 1.0), "J/kg/K", f"{_PERFECT_GAS}: dry air at constant pressure")
c_v = Constant(c_p / 1.4, "J/kg/K", f"{_PERFECT_GAS}: dry air at constant volume")
kappa = Constant(R_d / c_p, "J/J", "R_d / c_p, Poisson's exponent of dry air")

L_v0 = Constant(2.50084e6, "J/kg", "WMO (1966): latent heat of vaporisation, taken at `T_triple`")
c_pv = Constant(1.330 * R_v / (1.330 - 1.0), "J/kg/K", "ratio of specific heats 1.33, vapour at constant p")
c_l = Constant(4.2194 * 1e3, "J/kg/K", "IAPWS (1995): specific heat of liquid water at 0 degC")
e_s0 = Constant(611.2, "Pa", "Bolton (1980), Eq. 10: saturation vapour pressure at 0 degC")
T_triple = Constant(273.16, "K", f"{_CODATA}, triple point of water")
T_zero_celsius = Constant(273.15, "K", "definition of the Celsius scale")

Omega = Constant(7292115e-11, "1/s", "Moritz (2000), GRS 80: angular velocity of the Earth, radians a second")
earth_radius = Constant(6371008.7714, "m", "Moritz (2000), GRS 80: mean radius of the Earth")
g = Constant(9.80665, "m/s**2", f"{_CODATA}, standard acceleration of gravity")

p0 = Constant(1e5, "Pa", "reference pressure of potential temperature, by convention")
p_standard = Constant(101325.0, "Pa", "US Standard Atmosphere (1976): pressure at sea level")
T_standard = Constant(288.15, "K", "US Standard Atmosphere (1976): sea level (MetPy rounds it to 288 K)")
lapse_standard = Constant(6.5e-3, "K/m", "US Standard Atmosphere (1976): lapse rate of the troposphere")
