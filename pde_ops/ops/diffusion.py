"""Diffusion: what unresolved mixing does to a field."""

from __future__ import annotations

from typing import Any

from ..operator import operator
from ..stencils import around, second_x, second_y

__all__ = ["laplacian"]


@operator(
    "laplacian",
    inputs={"a": "=A"},
    output="=A / m**2",
    latex=r"\nabla^2 {a}",
    text="∇²{a}",
    references=["Durran (2010), Numerical Methods for Fluid Dynamics, Sec. 3.2.1"],
    properties={"linear_in": ("a",), "annihilates": "constants", "order": 2},
    batch_over="a",
)
def laplacian(a: Any, *, grid: Any) -> Any:
    r"""Curvature of a field by second differences, five points.

    .. math:: \nabla^2 a \approx \frac{a_E - 2a + a_W}{\Delta x^2} + \frac{a_N - 2a + a_S}{\Delta y^2}

    Parameters
    ----------
    a : any unit [A]

    Returns
    -------
    A/m²
    """
    n = around(a, grid)
    return second_x(n, a, grid) + second_y(n, a, grid)
