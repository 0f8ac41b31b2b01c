"""State of the air: temperature, potential and virtual temperature, density, from :mod:`pde_ops.thermo`."""

from __future__ import annotations

from typing import Any

from .. import thermo
from ..operator import operator

__all__ = ["air_density", "exner", "potential_temperature", "temperature", "virtual_temperature"]

PRESSURE = (3e4, 1.1e5)
TEMPERATURE = (180.0, 340.0)
HUMIDITY = (0.0, 0.04)
_HOLTON = "Holton & Hakim (2013), An Introduction to Dynamic Meteorology, 5th ed."
_WALLACE = "Wallace & Hobbs (2006), Atmospheric Science, 2nd ed."


@operator(
    "exner",
    inputs={"p": "Pa"},
    output="dimensionless",
    latex=r"\Pi({p})",
    text="Π({p})",
    references=[f"{_HOLTON}, Sect. 2.7"],
    properties={"pointwise": True, "sign": "nonnegative", "increasing_in": ("p",), "constants": ("p0",)},
    domain={"p": PRESSURE},
)
def exner(p: Any, *, grid: Any) -> Any:
    r"""Ratio of temperature to potential temperature.

    .. math:: \Pi = (p/p_0)^{R_d/c_p}

    Parameters
    ----------
    p : pressure, Pa

    Returns
    -------
    dimensionless
    """
    return thermo.exner(p)


@operator(
    "temperature",
    inputs={"theta": "K", "p": "Pa"},
    output="K",
    latex=r"T({theta}, {p})",
    text="T({theta}, {p})",
    references=[f"{_HOLTON}, Sect. 2.7"],
    properties={
        "pointwise": True,
        "linear_in": ("theta",),
        "increasing_in": ("theta", "p"),
        "constants": ("p0",),
    },
    domain={"theta": (200.0, 400.0), "p": PRESSURE},
)
def temperature(theta: Any, p: Any, *, grid: Any) -> Any:
    r"""Temperature of air of known potential temperature.

    .. math:: T = \theta\,(p/p_0)^{R_d/c_p}

    Parameters
    ----------
    theta : potential temperature, K
    p : pressure, Pa

    Returns
    -------
    K
    """
    return thermo.temperature(theta, p)


@operator(
    "potential_temperature",
    inputs={"T": "K", "p": "Pa"},
    output="K",
    latex=r"\theta({T}, {p})",
    text="θ({T}, {p})",
    references=[f"{_HOLTON}, Sect. 2.7"],
    properties={
        "pointwise": True,
        "linear_in": ("T",),
        "increasing_in": ("T",),
        "decreasing_in": ("p",),
        "constants": ("p0",),
    },
    domain={"T": TEMPERATURE, "p": PRESSURE},
)
def potential_temperature(T: Any, p: Any, *, grid: Any) -> Any:
    r"""Temperature that dry air would have at 1000 hPa.

    .. math:: \theta = T\,(p_0/p)^{R_d/c_p}

    Parameters
    ----------
    T : temperature, K
    p : pressure, Pa

    Returns
    -------
    K
    """
    return thermo.potential_temperature(T, p)


@operator(
    "virtual_temperature",
    inputs={"T": "K", "q": "kg/kg"},
    output="K",
    latex=r"T_v({T}, {q})",
    text="T_v({T}, {q})",
    references=[f"{_WALLACE}, Eq. 3.16"],
    properties={"pointwise": True, "linear_in": ("T",), "increasing_in": ("T", "q")},
    domain={"T": TEMPERATURE, "q": HUMIDITY},
)
def virtual_temperature(T: Any, q: Any, *, grid: Any) -> Any:
    r"""Temperature at which dry air would have the density of this moist air.

    .. math:: T_v = T\left(1 + (1/\epsilon - 1)\,q\right)

    Parameters
    ----------
    T : temperature, K
    q : specific humidity, kg/kg

    Returns
    -------
    K
    """
    return thermo.virtual_temperature(T, q)


@operator(
    "air_density",
    inputs={"T": "K", "p": "Pa", "q": "kg/kg"},
    output="kg/m**3",
    latex=r"\rho({T}, {p}, {q})",
    text="ρ({T}, {p}, {q})",
    references=[f"{_WALLACE}, Eq. 3.15"],
    properties={
        "pointwise": True,
        "linear_in": ("p",),
        "increasing_in": ("p",),
        "decreasing_in": ("T", "q"),
        "constants": ("R_d",),
    },
    domain={"T": TEMPERATURE, "p": PRESSURE, "q": HUMIDITY},
)
def air_density(T: Any, p: Any, q: Any, *, grid: Any) -> Any:
    r"""Density of moist air.

    .. math:: \rho = \frac{p}{R_d T_v}

    Parameters
    ----------
    T : temperature, K
    p : pressure, Pa
    q : specific humidity, kg/kg

    Returns
    -------
    kg/m³
    """
    return thermo.air_density(T, p, q)
