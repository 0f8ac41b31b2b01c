r"""The Laplacian: curvature of a field, which is what mixing with the neighbours acts on.

On a latitude-longitude grid :math:`\nabla^2 a = \partial_{xx} a + \partial_{yy} a - (\tan\varphi/R)\,\partial_y a`.
"""

from __future__ import annotations

from typing import Any

from ..operator import operator
from ..stencils import around, face_lengths, second_x, second_y

__all__ = ["laplacian", "laplacian4", "laplacian_scale", "second_differences"]

_CURVATURE: dict[str, Any] = {
    "inputs": {"a": "=A"},
    "output": "=A / m**2",
    "family": "laplacian",
    "batch_over": "a",
    "limit": lambda a, space: a.x.x + (a.y * space.cos).y / space.cos,
}
_FACTS: dict[str, Any] = {"annihilates": "constants", "linear_in": ("a",), "parity": {"x": "even", "y": "even"}}
_FORNBERG = "Fornberg (1988), Math. Comp. 51, 699-706, Table 1"


def second_differences(a: Any, grid: Any) -> Any:
    """Return the flux-form five-point Laplacian; shared with the hyperdiffusion, which applies it twice."""
    n = around(a, grid)
    north, south = face_lengths(grid)
    along_y = (north * (n[0, 1] - a) - south * (a - n[0, -1])) / (grid.dx * grid.dy**2)
    return second_x(n, a, grid) + along_y


@operator(
    "laplacian",
    **_CURVATURE,
    latex=r"\nabla^2 {a}",
    text="∇²{a}",
    references=["Durran (2010), Numerical Methods for Fluid Dynamics, 2nd ed., Sect. 3.2.1"],
    properties={
        **_FACTS,
        "order": 2,
        "conserves": ("periodic", "reflecting", "zero_gradient"),
        "dissipates": "a",
    },
)
def laplacian(a: Any, *, grid: Any) -> Any:
    r"""Curvature of a field by second differences, five points.

    .. math:: \nabla^2 a \approx \frac{a_E - 2a + a_W}{\Delta x^2}
       + \frac{\ell_n (a_N - a) - \ell_s (a - a_S)}{\Delta x\,\Delta y^2}

    Parameters
    ----------
    a : any unit [A]

    Returns
    -------
    A/m²

    Notes
    -----
    :math:`\ell_n, \ell_s` are the lengths of the northern and southern face; on a plane they equal Δx and the second
    part is the usual second difference.
    """
    return second_differences(a, grid)


@operator(
    "laplacian4",
    **_CURVATURE,
    latex=r"\nabla^2_{(4)} {a}",
    text="∇²₄{a}",
    references=[_FORNBERG],
    properties={**_FACTS, "order": 4},
)
def laplacian4(a: Any, *, grid: Any) -> Any:
    r"""Curvature of a field, fourth order, nine points.

    .. math:: \partial_{xx} a \approx \frac{16(a_E + a_W) - (a_{EE} + a_{WW}) - 30 a}{12\Delta x^2}, \qquad
       \partial_{y} a \approx \frac{8(a_N - a_S) - (a_{NN} - a_{SS})}{12\Delta y}

    Parameters
    ----------
    a : any unit [A]

    Returns
    -------
    A/m²
    """
    n = around(a, grid, 2)
    along_x = 16.0 * (n[1, 0] + n[-1, 0]) - (n[2, 0] + n[-2, 0]) - 30.0 * a
    along_y = 16.0 * (n[0, 1] + n[0, -1]) - (n[0, 2] + n[0, -2]) - 30.0 * a
    slope_y = (8.0 * (n[0, 1] - n[0, -1]) - (n[0, 2] - n[0, -2])) / (12.0 * grid.dy)
    return along_x / (12.0 * grid.dx**2) + along_y / (12.0 * grid.dy**2) - grid.curvature * slope_y


@operator(
    "laplacian_scale",
    **{**_CURVATURE, "family": "laplacian_scale"},
    options={"radius": 3},
    latex=r"\nabla^2_{{radius}} {a}",
    text="∇²[{radius}]{a}",
    references=[_FORNBERG],
    properties={**_FACTS, "order": 2},
)
def laplacian_scale(a: Any, *, grid: Any, radius: int) -> Any:
    r"""Curvature of a field between cells ``radius`` away in four directions: the curvature at that scale.

    .. math:: \nabla^2_r a = \frac{a_{+r} - 2a + a_{-r}}{(r\Delta x)^2} + \ldots

    Parameters
    ----------
    a : any unit [A]
    radius : cells, at most the size of the grid

    Returns
    -------
    A/m²
    """
    n = around(a, grid, radius)
    slope_y = (n[0, radius] - n[0, -radius]) / (2.0 * radius * grid.dy)
    return second_x(n, a, grid, radius) + second_y(n, a, grid, radius) - grid.curvature * slope_y
