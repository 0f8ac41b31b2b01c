r"""Transport in flux form, ∇·(aV): what leaves one cell enters the next, so amounts are conserved.

The wind on a face is the mean of the two cells beside it. It is a vector component: behind a reflecting wall it
changes sign, the wind on the wall is zero and nothing passes. On a row of width dx and height dy

.. math::

   \nabla\cdot(a\mathbf V) \approx \frac{\Delta y\,(F_e - F_w) + \ell_n G_n - \ell_s G_s}{\Delta x\,\Delta y}

with fluxes F = ua eastwards, G = va northwards, and the lengths of the northern and southern faces, which differ
on a latitude-longitude grid.
"""

from __future__ import annotations

from typing import Any

from ..elementwise import where
from ..operator import operator
from ..stencils import around, face_lengths, face_mean
from .transport import TRANSPORT

__all__ = ["advection_flux", "advection_flux_central2"]

_FLUX_FORM: dict[str, Any] = {
    **TRANSPORT,
    "latex": r"\nabla\cdot\left({a}\,({u},{v})\right)",
    "text": "∇·({a} ({u},{v}))",
    "limit": lambda a, u, v, space: (u * a).x + (v * a * space.cos).y / space.cos,
}
_FACTS: dict[str, Any] = {
    "conserves": ("periodic", "reflecting"),
    "components": {"x": ("u",), "y": ("v",)},
    "parity": {"x": "even", "y": "even"},
}


def _donor(speed: Any, low: Any, high: Any) -> Any:
    """Flux through a face: the speed times the value of the cell that the wind comes from."""
    return speed * where(speed > 0.0, low, high, like=speed)


@operator(
    "advection_flux",
    **_FLUX_FORM,
    references=["Courant, Isaacson & Rees (1952), Comm. Pure Appl. Math. 5, 243-255"],
    properties={**_FACTS, "linear_in": ("a",), "order": 1},
)
def advection_flux(a: Any, u: Any, v: Any, *, grid: Any) -> Any:
    r"""Transport by the wind in flux form, donor cell: conserves the amount and keeps it positive.

    .. math:: \nabla\cdot(a\mathbf V), \qquad
       F_e = \tfrac12(u + u_E) \begin{cases}a & u + u_E > 0\\ a_E & \text{else}\end{cases}

    Parameters
    ----------
    a : any unit [A], an amount per area such as a column or a concentration in a layer of fixed depth
    u, v : eastward and northward wind, m/s

    Returns
    -------
    A/s

    Notes
    -----
    The sum of ``a · dx · dy`` changes only through open (zero-gradient) borders.
    """
    n, nu, nv = around(a, grid), around(u, grid, odd="x"), around(v, grid, odd="y")
    east, west = face_mean(u, nu[1, 0]), face_mean(u, nu[-1, 0])
    north, south = face_mean(v, nv[0, 1]), face_mean(v, nv[0, -1])
    length_north, length_south = face_lengths(grid)
    along_x = _donor(east, a, n[1, 0]) - _donor(west, n[-1, 0], a)
    along_y = length_north * _donor(north, a, n[0, 1]) - length_south * _donor(south, n[0, -1], a)
    return along_x / grid.dx + along_y / (grid.dx * grid.dy)


@operator(
    "advection_flux_central2",
    **_FLUX_FORM,
    references=["LeVeque (2002), Finite Volume Methods for Hyperbolic Problems, Sect. 4.6"],
    properties={**_FACTS, "linear_in": ("a", ("u", "v")), "order": 2},
)
def advection_flux_central2(a: Any, u: Any, v: Any, *, grid: Any) -> Any:
    r"""Transport by the wind in flux form, second-order central: conserves the amount, damps nothing.

    .. math:: \nabla\cdot(a\mathbf V), \qquad F_e = \tfrac12(u + u_E)\,\tfrac12(a + a_E)

    Parameters
    ----------
    a : any unit [A], an amount per area such as a column or a concentration in a layer of fixed depth
    u, v : eastward and northward wind, m/s

    Returns
    -------
    A/s
    """
    n, nu, nv = around(a, grid), around(u, grid, odd="x"), around(v, grid, odd="y")
    length_north, length_south = face_lengths(grid)
    east = face_mean(u, nu[1, 0]) * face_mean(a, n[1, 0])
    west = face_mean(u, nu[-1, 0]) * face_mean(a, n[-1, 0])
    north = face_mean(v, nv[0, 1]) * face_mean(a, n[0, 1])
    south = face_mean(v, nv[0, -1]) * face_mean(a, n[0, -1])
    return (east - west) / grid.dx + (length_north * north - length_south * south) / (grid.dx * grid.dy)
