"""Gradients: slopes of a field eastwards and northwards, from neighbours or over several cells."""

from __future__ import annotations

from typing import Any

from ..operator import operator
from ..stencils import ddx, ddy

__all__ = ["gradient", "gradient_scale_x", "gradient_scale_y", "gradient_x", "gradient_y"]

_SLOPE: dict[str, Any] = {
    "inputs": {"a": "=A"},
    "output": "=A / m",
    "batch_over": "a",
    "references": ["Fornberg (1988), Math. Comp. 51, 699-706, Table 1"],
}
_EASTWARD: dict[str, Any] = {
    "annihilates": "constants",
    "linear_in": ("a",),
    "order": 2,
    "parity": {"x": "odd", "y": "even"},
}
_NORTHWARD: dict[str, Any] = {**_EASTWARD, "parity": {"x": "even", "y": "odd"}}


@operator(
    "gradient_x",
    **_SLOPE,
    family="gradient",
    latex=r"\partial_x {a}",
    text="∂x {a}",
    properties=_EASTWARD,
    limit=lambda a, space: a.x,
)
def gradient_x(a: Any, *, grid: Any) -> Any:
    r"""Slope of a field eastwards, second-order central.

    .. math:: \partial_x a \approx \frac{a_E - a_W}{2\Delta x}

    Parameters
    ----------
    a : any unit [A]

    Returns
    -------
    A/m
    """
    return ddx(a, grid)


@operator(
    "gradient_y",
    **_SLOPE,
    family="gradient",
    latex=r"\partial_y {a}",
    text="∂y {a}",
    properties=_NORTHWARD,
    limit=lambda a, space: a.y,
)
def gradient_y(a: Any, *, grid: Any) -> Any:
    r"""Slope of a field northwards, second-order central.

    .. math:: \partial_y a \approx \frac{a_N - a_S}{2\Delta y}

    Parameters
    ----------
    a : any unit [A]

    Returns
    -------
    A/m
    """
    return ddy(a, grid)


@operator(
    "gradient_scale_x",
    **_SLOPE,
    family="gradient_scale",
    options={"radius": 3},
    latex=r"\left(\partial_x\right)_{{radius}} {a}",
    text="∂x[{radius}] {a}",
    properties=_EASTWARD,
    limit=lambda a, space: a.x,
)
def gradient_scale_x(a: Any, *, grid: Any, radius: int) -> Any:
    r"""Slope of a field eastwards between cells ``radius`` to the east and west: the slope at that scale.

    .. math:: (\partial_x)_r\, a = \frac{a_{+r} - a_{-r}}{2 r \Delta x}

    Parameters
    ----------
    a : any unit [A]
    radius : cells, at most the size of the grid

    Returns
    -------
    A/m
    """
    return ddx(a, grid, radius)


@operator(
    "gradient_scale_y",
    **_SLOPE,
    family="gradient_scale",
    options={"radius": 3},
    latex=r"\left(\partial_y\right)_{{radius}} {a}",
    text="∂y[{radius}] {a}",
    properties=_NORTHWARD,
    limit=lambda a, space: a.y,
)
def gradient_scale_y(a: Any, *, grid: Any, radius: int) -> Any:
    r"""Slope of a field northwards between cells ``radius`` to the north and south: the slope at that scale.

    .. math:: (\partial_y)_r\, a = \frac{a_{+r} - a_{-r}}{2 r \Delta y}

    Parameters
    ----------
    a : any unit [A]
    radius : cells, at most the size of the grid

    Returns
    -------
    A/m
    """
    return ddy(a, grid, radius)


def gradient(a: Any, **keywords: Any) -> tuple[Any, Any]:
    """Return ``(gradient_x(a), gradient_y(a))``, of an expression or, with ``grid=``, of a tensor."""
    return gradient_x(a, **keywords), gradient_y(a, **keywords)
