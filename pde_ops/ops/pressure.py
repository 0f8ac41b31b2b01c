"""The pressure-gradient force, which drives the wind from high to low pressure."""

from __future__ import annotations

from typing import Any

from ..operator import operator
from ..stencils import ddx, ddy

__all__ = ["pressure_gradient_x", "pressure_gradient_y"]

_FORCE: dict[str, Any] = {
    "inputs": {"p": "Pa", "rho": "kg/m**3"},
    "output": "m/s**2",
    "family": "pressure_gradient_force",
    "references": ["Holton & Hakim (2013), An Introduction to Dynamic Meteorology, 5th ed., Sect. 2.4"],
    "domain": {"p": (3e4, 1.1e5), "rho": (0.3, 1.6)},
}
_FACTS: dict[str, Any] = {"annihilates": "constants", "linear_in": ("p",), "order": 2}


@operator(
    "pressure_gradient_x",
    **_FORCE,
    latex=r"\left(-\frac{1}{{rho}}\partial_x {p}\right)",
    text="(-1/{rho} ∂x {p})",
    properties={**_FACTS, "parity": {"x": "odd", "y": "even"}},
    limit=lambda p, rho, space: -p.x / rho,
)
def pressure_gradient_x(p: Any, rho: Any, *, grid: Any) -> Any:
    r"""Eastward acceleration by a pressure that falls eastwards.

    .. math:: \partial_t u = \ldots - \frac{1}{\rho}\,\partial_x p

    Parameters
    ----------
    p : pressure at one height (sea level, say: surface pressure over relief holds the relief), Pa
    rho : density of the air, kg/m³

    Returns
    -------
    m/s²; **add** it, the minus sign is part of it
    """
    return -ddx(p, grid) / rho


@operator(
    "pressure_gradient_y",
    **_FORCE,
    latex=r"\left(-\frac{1}{{rho}}\partial_y {p}\right)",
    text="(-1/{rho} ∂y {p})",
    properties={**_FACTS, "parity": {"x": "even", "y": "odd"}},
    limit=lambda p, rho, space: -p.y / rho,
)
def pressure_gradient_y(p: Any, rho: Any, *, grid: Any) -> Any:
    r"""Northward acceleration by a pressure that falls northwards.

    .. math:: \partial_t v = \ldots - \frac{1}{\rho}\,\partial_y p

    Parameters
    ----------
    p : pressure at one height (sea level, say: surface pressure over relief holds the relief), Pa
    rho : density of the air, kg/m³

    Returns
    -------
    m/s²; **add** it, the minus sign is part of it
    """
    return -ddy(p, grid) / rho
