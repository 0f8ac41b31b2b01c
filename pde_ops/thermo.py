r"""Thermodynamics of moist air: potential temperature, humidity, saturation, dew point, density.

Every function takes and returns coherent SI (K, Pa, kg/kg; relative humidity as a fraction, 1 at saturation),
works elementwise on tensors, floats and traced symbols alike, and keeps dtype and device. The formulas and
constants are those of MetPy >= 1.7; ``tests/pde_ops/test_thermo_vs_metpy.py`` pins agreement to 1e-10.
They hold, with finite derivatives, for 180-340 K, 300-1100 hPa and 0-120 % relative humidity. Nothing is
clamped, but for the dew point of dry air: bounds belong to the caller, who knows what crossing them means.

References
----------
Ambaum (2020), Q. J. R. Meteorol. Soc. 146, 4252-4258, doi:10.1002/qj.3899.
Bolton (1980), Mon. Weather Rev. 108, 1046-1053, doi:10.1175/1520-0493(1980)108<1046:TCOEPT>2.0.CO;2.
Holton and Hakim (2013), An Introduction to Dynamic Meteorology, 5th edition, Academic Press.
Wallace and Hobbs (2006), Atmospheric Science, 2nd edition, Academic Press.
"""

from __future__ import annotations

from . import constants
from .elementwise import A, add_scaled, exp, log, maximum

__all__ = [
    "air_density",
    "dew_point",
    "dew_point_from_relative_humidity",
    "exner",
    "latent_heat_vaporisation",
    "mixing_ratio_from_specific_humidity",
    "potential_temperature",
    "relative_humidity",
    "saturation_humidity",
    "saturation_vapour_pressure",
    "saturation_vapour_pressure_bolton",
    "specific_humidity",
    "specific_humidity_from_mixing_ratio",
    "specific_humidity_from_vapour_pressure",
    "temperature",
    "vapour_pressure",
    "virtual_temperature",
]

# As plain floats: torch reads them a quarter faster than the constants, which are a subclass of float.
epsilon, kappa = float(constants.epsilon), float(constants.kappa)
p0, R_d = float(constants.p0), float(constants.R_d)
e_s0, L_v0 = float(constants.e_s0), float(constants.L_v0)
T_triple, T_zero_celsius = float(constants.T_triple), float(constants.T_zero_celsius)

_HEAT_GAP = constants.c_l - constants.c_pv  # J/kg/K, by which the latent heat falls a kelvin
_HEAT_POWER = _HEAT_GAP / constants.R_v  # exponent of Ambaum (2020), Eq. 13
_EXPONENT = L_v0 / (constants.R_v * T_triple) + _HEAT_POWER
_DRY_SHARE = 1.0 - epsilon
_LIGHTNESS = 1.0 / epsilon - 1.0  # by which vapour is lighter than dry air
_BOLTON_SLOPE = 17.67  # Bolton (1980), Eq. 10
_BOLTON_OFFSET = 243.5  # K, Bolton (1980), Eq. 10
_DRIEST = 1e-10  # Pa; air at 180 K and 0.01 % still has 1e-6 Pa, and float32 still divides by it


def exner(pressure: A) -> A:
    r"""Exner function, the ratio of temperature to potential temperature.

    .. math:: \Pi = (p / p_0)^\kappa, \qquad p_0 = 1000\ \mathrm{hPa}, \quad \kappa = R_d / c_p

    Parameters
    ----------
    pressure : Pa

    Returns
    -------
    dimensionless

    Notes
    -----
    Holton and Hakim (2013), Sect. 2.7.
    """
    return exp(kappa * log(pressure / p0))  # half the time of a power, and a third with its gradient


def potential_temperature(temperature: A, pressure: A) -> A:
    r"""Return the temperature that dry air would have if brought adiabatically to 1000 hPa.

    .. math:: \theta = T (p_0 / p)^\kappa = T / \Pi(p)

    Parameters
    ----------
    temperature : K
    pressure : Pa

    Returns
    -------
    K

    Notes
    -----
    Holton and Hakim (2013), Sect. 2.7.
    """
    return temperature / exner(pressure)


def temperature(potential_temperature: A, pressure: A) -> A:
    r"""Return the temperature from potential temperature, the inverse of `potential_temperature`.

    .. math:: T = \theta\, \Pi(p)

    Parameters
    ----------
    potential_temperature : K
    pressure : Pa

    Returns
    -------
    K

    Notes
    -----
    Holton and Hakim (2013), Sect. 2.7.
    """
    return potential_temperature * exner(pressure)


def latent_heat_vaporisation(temperature: A) -> A:
    r"""Heat needed to evaporate liquid water, falling by about 0.1 % a kelvin.

    .. math:: L(T) = L_0 - (c_l - c_{pv}) (T - T_0)

    Parameters
    ----------
    temperature : K

    Returns
    -------
    J/kg

    Notes
    -----
    Ambaum (2020), Eq. 15; T_0 is the triple point.
    """
    return L_v0 - _HEAT_GAP * (temperature - T_triple)


def saturation_vapour_pressure(temperature: A) -> A:
    r"""Vapour pressure in equilibrium with a plane surface of liquid water.

    .. math:: e_s = e_{s0} \left(\frac{T_0}{T}\right)^{(c_l - c_{pv}) / R_v}
              \exp\left(\frac{L_0}{R_v T_0} - \frac{L(T)}{R_v T}\right)

    Parameters
    ----------
    temperature : K

    Returns
    -------
    Pa

    Notes
    -----
    Ambaum (2020), Eq. 13, as in MetPy >= 1.7 with its constants. Written here with ``x = T_0 / T`` and
    ``h = (c_l - c_pv) / R_v`` as ``e_s0 exp((L_0 / (R_v T_0) + h)(1 - x) + h ln x)``: one logarithm and one
    exponential. It solves Clausius-Clapeyron exactly: ``d e_s / dT = e_s L / (R_v T^2)``.
    """
    return e_s0 * _saturation_ratio(temperature)


def saturation_vapour_pressure_bolton(temperature: A) -> A:
    r"""Vapour pressure in equilibrium with liquid water, after Bolton's fit.

    .. math:: e_s = 611.2\ \mathrm{Pa}\, \exp\left(\frac{17.67\, t}{t + 243.5}\right), \qquad t = T - 273.15

    Parameters
    ----------
    temperature : K

    Returns
    -------
    Pa

    Notes
    -----
    Bolton (1980), Eq. 10, fitted to -35 to 35 degC, where it differs from `saturation_vapour_pressure` by at
    most 0.4 %; by 1 % at 50 degC and by 15 % at 180 K.
    """
    t = temperature - T_zero_celsius
    return e_s0 * exp(_BOLTON_SLOPE * t / (t + _BOLTON_OFFSET))


def vapour_pressure(specific_humidity: A, pressure: A) -> A:
    r"""Partial pressure of water vapour.

    .. math:: e = \frac{q\, p}{\epsilon + (1 - \epsilon) q}

    Parameters
    ----------
    specific_humidity : kg/kg
    pressure : Pa

    Returns
    -------
    Pa

    Notes
    -----
    Wallace and Hobbs (2006), Eq. 3.59, with the mixing ratio ``q / (1 - q)``.
    """
    return specific_humidity * pressure / (epsilon + _DRY_SHARE * specific_humidity)


def specific_humidity_from_vapour_pressure(vapour_pressure: A, pressure: A) -> A:
    r"""Mass of water vapour in a mass of moist air, the inverse of `vapour_pressure`.

    .. math:: q = \frac{\epsilon\, e}{p - (1 - \epsilon)\, e}

    Parameters
    ----------
    vapour_pressure : Pa
    pressure : Pa, larger than ``vapour_pressure``

    Returns
    -------
    kg/kg

    Notes
    -----
    Wallace and Hobbs (2006), Eq. 3.59, with the mixing ratio ``q / (1 - q)``.
    """
    return epsilon * vapour_pressure / add_scaled(pressure, vapour_pressure, -_DRY_SHARE)


def saturation_humidity(temperature: A, pressure: A) -> A:
    r"""Return the specific humidity of air saturated over liquid water.

    .. math:: q_s = \frac{\epsilon\, e_s(T)}{p - (1 - \epsilon)\, e_s(T)}

    Parameters
    ----------
    temperature : K
    pressure : Pa, larger than ``e_s(T)``

    Returns
    -------
    kg/kg

    Notes
    -----
    ``e_s`` is `saturation_vapour_pressure`. Above the boiling point (``e_s >= p``) there is no saturated air
    and the value means nothing.
    """
    return specific_humidity_from_vapour_pressure(saturation_vapour_pressure(temperature), pressure)


def relative_humidity(temperature: A, pressure: A, specific_humidity: A) -> A:
    r"""Vapour pressure as a fraction of the vapour pressure at saturation.

    .. math:: r = e(q, p) / e_s(T)

    Parameters
    ----------
    temperature : K
    pressure : Pa
    specific_humidity : kg/kg

    Returns
    -------
    dimensionless, 1 at saturation (not %)

    Notes
    -----
    Ratio of pressures as in MetPy and as hygrometers report it, not of mixing ratios. ``e_s`` is
    `saturation_vapour_pressure`; for another one divide `vapour_pressure` by it.
    """
    return vapour_pressure(specific_humidity, pressure) / saturation_vapour_pressure(temperature)


def specific_humidity(temperature: A, pressure: A, relative_humidity: A) -> A:
    r"""Return the specific humidity from relative humidity, the inverse of `relative_humidity`.

    .. math:: q = \frac{\epsilon\, r\, e_s(T)}{p - (1 - \epsilon)\, r\, e_s(T)}

    Parameters
    ----------
    temperature : K
    pressure : Pa
    relative_humidity : dimensionless, 1 at saturation (not %)

    Returns
    -------
    kg/kg

    Notes
    -----
    ``e_s`` is `saturation_vapour_pressure`.
    """
    # As `specific_humidity_from_vapour_pressure`, in units of e_s0: one pass less over a few thousand stations.
    e = relative_humidity * _saturation_ratio(temperature)
    return (epsilon * e_s0) * e / add_scaled(pressure, e, -_DRY_SHARE * e_s0)


def dew_point(vapour_pressure: A) -> A:
    r"""Return the temperature to which air must be cooled, at constant pressure, for dew to form.

    .. math:: T_d = 273.15 + \frac{243.5\, s}{17.67 - s}, \qquad s = \ln\frac{e}{611.2\ \mathrm{Pa}}

    Parameters
    ----------
    vapour_pressure : Pa

    Returns
    -------
    K

    Notes
    -----
    The inverse of `saturation_vapour_pressure_bolton` (rounded in Bolton 1980, Eq. 11), because MetPy's
    ``dewpoint`` is that too although its ``e_s`` is Ambaum's. Hence the dew point of air saturated by
    `saturation_vapour_pressure` is off its temperature, by up to 0.07 K between -35 and 35 degC and 0.2 K at
    50 degC. Dry air has no dew point: below 1e-10 Pa the value at 1e-10 Pa (121 K) is returned, with
    derivative 0, where MetPy gives NaN.
    """
    s = log(maximum(vapour_pressure, _DRIEST) / e_s0)
    return T_zero_celsius + _BOLTON_OFFSET * s / (_BOLTON_SLOPE - s)


def dew_point_from_relative_humidity(temperature: A, relative_humidity: A) -> A:
    r"""Dew point of air of known temperature and relative humidity.

    .. math:: T_d = T_d\left(r\, e_s(T)\right)

    Parameters
    ----------
    temperature : K
    relative_humidity : dimensionless, 1 at saturation (not %)

    Returns
    -------
    K

    Notes
    -----
    As in MetPy, ``e_s`` is Ambaum's and `dew_point` Bolton's: see there.
    """
    return dew_point(relative_humidity * saturation_vapour_pressure(temperature))


def virtual_temperature(temperature: A, specific_humidity: A) -> A:
    r"""Return the temperature at which dry air would have the density of this moist air.

    .. math:: T_v = T \left(1 + \left(\frac{1}{\epsilon} - 1\right) q\right)

    Parameters
    ----------
    temperature : K
    specific_humidity : kg/kg

    Returns
    -------
    K

    Notes
    -----
    Wallace and Hobbs (2006), Eq. 3.16, written with ``q``: exact, not the usual linear approximation.
    """
    return temperature * (1.0 + _LIGHTNESS * specific_humidity)


def air_density(temperature: A, pressure: A, specific_humidity: A) -> A:
    r"""Density of moist air.

    .. math:: \rho = \frac{p}{R_d T_v}

    Parameters
    ----------
    temperature : K
    pressure : Pa
    specific_humidity : kg/kg

    Returns
    -------
    kg/m³

    Notes
    -----
    Wallace and Hobbs (2006), Eq. 3.15.
    """
    return pressure / (R_d * virtual_temperature(temperature, specific_humidity))


def mixing_ratio_from_specific_humidity(specific_humidity: A) -> A:
    r"""Mass of water vapour beside a mass of dry air.

    .. math:: w = q / (1 - q)

    Parameters
    ----------
    specific_humidity : kg/kg of moist air, less than 1

    Returns
    -------
    kg/kg of dry air

    Notes
    -----
    Wallace and Hobbs (2006), Eq. 3.58.
    """
    return specific_humidity / (1.0 - specific_humidity)


def specific_humidity_from_mixing_ratio(mixing_ratio: A) -> A:
    r"""Mass of water vapour in a mass of moist air.

    .. math:: q = w / (1 + w)

    Parameters
    ----------
    mixing_ratio : kg/kg of dry air

    Returns
    -------
    kg/kg of moist air

    Notes
    -----
    Wallace and Hobbs (2006), Eq. 3.58.
    """
    return mixing_ratio / (1.0 + mixing_ratio)


def _saturation_ratio(temperature: A) -> A:
    """Return ``e_s / e_s0``, see `saturation_vapour_pressure`."""
    x = T_triple / temperature
    return exp(add_scaled((x - 1.0) * -_EXPONENT, log(x), _HEAT_POWER))
