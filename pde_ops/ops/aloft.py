"""The air above a surface network: its hydrostatic geopotential, and the wind in balance with it."""

from __future__ import annotations

from typing import Any

from .. import thermo
from ..elementwise import log
from ..operator import operator
from ..stencils import ddx, ddy

__all__ = ["column_depth", "geostrophic_x", "geostrophic_y", "hydrostatic_geopotential"]

_HOLTON = "Holton & Hakim (2013), An Introduction to Dynamic Meteorology, 5th ed."
_FLOW: dict[str, Any] = {
    "inputs": {"phi": "m**2/s**2", "f": "1/s", "least": "1/s"},
    "output": "m/s",
    "family": "geostrophic_wind",
    "references": [f"{_HOLTON}, Sect. 2.4.1"],
    "domain": {"phi": (-5e3, 5e3), "f": (-1.5e-4, 1.5e-4), "least": (1e-5, 4e-5)},
}
_FACTS: dict[str, Any] = {"annihilates": "constants", "linear_in": ("phi",), "order": 2}


@operator(
    "column_depth",
    inputs={"p": "Pa", "top": "Pa"},
    output="J/kg/K",
    latex=r"R_d\ln\frac{{p}}{{top}}",
    text="R_d ln({p}/{top})",
    references=[f"{_HOLTON}, Sect. 1.4.1"],
    properties={"pointwise": True, "increasing_in": ("p",), "decreasing_in": ("top",), "constants": ("R_d",)},
    domain={"p": (5.5e4, 1.1e5), "top": (3e4, 5e4)},
)
def column_depth(p: Any, top: Any, *, grid: Any) -> Any:
    r"""Geopotential by which a column of air deepens a kelvin of its mean temperature.

    .. math:: D = R_d \ln\frac{p}{p_u}, \qquad \phi_u - \phi_s = D\,\overline T

    Parameters
    ----------
    p : pressure at the foot of the column, Pa
    top : pressure p_u at its top, Pa

    Returns
    -------
    J/kg/K
    """
    return thermo.R_d * log(p / top)


@operator(
    "hydrostatic_geopotential",
    inputs={"T": "K", "p": "Pa", "depth": "J/kg/K", "volume": "m**3/kg"},
    output="m**2/s**2",
    latex=r"\left({depth}\,{T} + {volume}\,{p}\right)",
    text="({depth} {T} + {volume} {p})",
    references=[f"{_HOLTON}, Sect. 1.4.1"],
    properties={"pointwise": True, "linear_in": (("T", "p"), ("depth", "volume"))},
    domain={"T": (-20.0, 20.0), "p": (-3e3, 3e3), "depth": (20.0, 220.0), "volume": (0.7, 1.6)},
)
def hydrostatic_geopotential(T: Any, p: Any, depth: Any, volume: Any, *, grid: Any) -> Any:
    r"""Departure of the geopotential at the top of a column from that of a hydrostatic base state.

    .. math:: \phi' = D\,\overline T' + \frac{p'}{\bar\rho}

    Parameters
    ----------
    T : departure of the column's mean temperature, K
    p : departure of the pressure at its foot, Pa
    depth : D of the base state (:func:`column_depth`), J/kg/K
    volume : specific volume of the base state's air at the foot, m³/kg

    Returns
    -------
    m²/s²

    Notes
    -----
    The height of the terrain is that of the base state and drops out: without departures there is no geopotential,
    and a uniformly warmer column, whose pressure departure grows with the height of its foot, has the same one
    everywhere to first order.
    """
    return depth * T + volume * p


@operator(
    "geostrophic_x",
    **_FLOW,
    latex=r"\left(-\frac{{f}}{{f}^2 + {least}^2}\partial_y {phi}\right)",
    text="(-{f}/({f}² + {least}²) ∂y {phi})",
    properties={**_FACTS, "parity": {"x": "even", "y": "odd"}},
    limit=lambda phi, f, least, space: -phi.y * f / (f * f + least * least),
)
def geostrophic_x(phi: Any, f: Any, least: Any, *, grid: Any) -> Any:
    r"""Eastward wind in balance with a geopotential that falls northwards, north of the equator.

    .. math:: u_g = -\frac{f}{f^2 + f_0^2}\,\partial_y\phi

    Parameters
    ----------
    phi : geopotential on a surface of equal pressure, m²/s²
    f : Coriolis parameter, 1/s
    least : f_0, which keeps the wind finite at the equator, 1/s; there it vanishes with f

    Returns
    -------
    m/s
    """
    return -ddy(phi, grid) * (f / (f * f + least * least))


@operator(
    "geostrophic_y",
    **_FLOW,
    latex=r"\left(\frac{{f}}{{f}^2 + {least}^2}\partial_x {phi}\right)",
    text="({f}/({f}² + {least}²) ∂x {phi})",
    properties={**_FACTS, "parity": {"x": "odd", "y": "even"}},
    limit=lambda phi, f, least, space: phi.x * f / (f * f + least * least),
)
def geostrophic_y(phi: Any, f: Any, least: Any, *, grid: Any) -> Any:
    r"""Northward wind in balance with a geopotential that rises eastwards, north of the equator.

    .. math:: v_g = \frac{f}{f^2 + f_0^2}\,\partial_x\phi

    Parameters
    ----------
    phi : geopotential on a surface of equal pressure, m²/s²
    f : Coriolis parameter, 1/s
    least : f_0, which keeps the wind finite at the equator, 1/s; there it vanishes with f

    Returns
    -------
    m/s
    """
    return ddx(phi, grid) * (f / (f * f + least * least))
