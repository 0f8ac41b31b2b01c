"""Transport of a field by the horizontal wind in advective form, V·∇a, in several schemes.

Each scheme is registered under its own name; ``advection`` is the default, first-order upwind. All of them leave a
constant field alone, whatever the wind; only the flux form of :mod:`pde_ops.ops.transport_flux` conserves amounts.
"""

from __future__ import annotations

from typing import Any

from ..operator import operator
from ..stencils import around, upwind

__all__ = ["advection", "advection_central2", "advection_central4", "advection_upwind1", "advection_upwind3"]

_FORNBERG = "Fornberg (1988), Math. Comp. 51, 699-706, Table 1"

TRANSPORT: dict[str, Any] = {
    "inputs": {"a": "=A", "u": "m/s", "v": "m/s"},
    "output": "=A / s",
    "family": "advection",
    "batch_over": "a",
    "wind": ("u", "v"),
    "domain": {"u": (-40.0, 40.0), "v": (-40.0, 40.0)},
}
_ADVECTIVE: dict[str, Any] = {
    **TRANSPORT,
    "latex": r"({u},{v})\cdot\nabla {a}",
    "text": "({u},{v})·∇{a}",
    "limit": lambda a, u, v, space: u * a.x + v * a.y,
}
_FACTS: dict[str, Any] = {
    "annihilates": "constants",
    "components": {"x": ("u",), "y": ("v",)},
    "parity": {"x": "even", "y": "even"},
}


def _upwind1(a: Any, u: Any, v: Any, *, grid: Any) -> Any:
    r"""Transport by the wind, first-order upwind: monotone and diffusive.

    .. math:: u\,\partial_x a + v\,\partial_y a, \quad
       \partial_x a \approx \begin{cases}(a - a_W)/\Delta x & u > 0\\ (a_E - a)/\Delta x & u \le 0\end{cases}

    Parameters
    ----------
    a : any unit [A]
    u, v : eastward and northward wind, m/s

    Returns
    -------
    A/s

    Notes
    -----
    Forward Euler is stable up to a Courant number of 1; the error acts as a diffusivity of about
    ``|u| dx / 2``.
    """
    n = around(a, grid)
    along_x = u * upwind(u, a - n[-1, 0], n[1, 0] - a) / grid.dx
    along_y = v * upwind(v, a - n[0, -1], n[0, 1] - a) / grid.dy
    return along_x + along_y


_UPWIND1: dict[str, Any] = {
    "references": ["Courant, Isaacson & Rees (1952), Comm. Pure Appl. Math. 5, 243-255"],
    "properties": {**_FACTS, "linear_in": ("a",), "order": 1},
}
advection_upwind1 = operator("advection_upwind1", **_ADVECTIVE, **_UPWIND1)(_upwind1)
advection = operator("advection", **_ADVECTIVE, **_UPWIND1)(_upwind1)


@operator(
    "advection_upwind3",
    **_ADVECTIVE,
    references=["Hundsdorfer & Verwer (2003), Time-Dependent Advection-Diffusion-Reaction Equations, Sect. I.3"],
    properties={**_FACTS, "linear_in": ("a",), "order": 3},
)
def advection_upwind3(a: Any, u: Any, v: Any, *, grid: Any) -> Any:
    r"""Transport by the wind, third-order upwind-biased: sharp, with weak damping of the shortest waves.

    .. math:: u\,\partial_x a + v\,\partial_y a, \quad
       \partial_x a \approx \frac{2a_E + 3a - 6a_W + a_{WW}}{6\Delta x} \text{ where } u > 0, \text{ else mirrored}

    Parameters
    ----------
    a : any unit [A]
    u, v : eastward and northward wind, m/s

    Returns
    -------
    A/s
    """
    n = around(a, grid, 2)
    from_west = 2.0 * n[1, 0] + 3.0 * a - 6.0 * n[-1, 0] + n[-2, 0]
    from_east = -2.0 * n[-1, 0] - 3.0 * a + 6.0 * n[1, 0] - n[2, 0]
    from_south = 2.0 * n[0, 1] + 3.0 * a - 6.0 * n[0, -1] + n[0, -2]
    from_north = -2.0 * n[0, -1] - 3.0 * a + 6.0 * n[0, 1] - n[0, 2]
    along_x = u * upwind(u, from_west, from_east) / (6.0 * grid.dx)
    along_y = v * upwind(v, from_south, from_north) / (6.0 * grid.dy)
    return along_x + along_y


@operator(
    "advection_central2",
    **_ADVECTIVE,
    references=[_FORNBERG],
    properties={**_FACTS, "linear_in": ("a", ("u", "v")), "order": 2},
)
def advection_central2(a: Any, u: Any, v: Any, *, grid: Any) -> Any:
    r"""Transport by the wind, second-order central: no damping, short waves lag.

    .. math:: u\,\frac{a_E - a_W}{2\Delta x} + v\,\frac{a_N - a_S}{2\Delta y}

    Parameters
    ----------
    a : any unit [A]
    u, v : eastward and northward wind, m/s

    Returns
    -------
    A/s

    Notes
    -----
    Forward Euler amplifies it at any time step; use RK3 or RK4, or add diffusion.
    """
    n = around(a, grid)
    return u * (n[1, 0] - n[-1, 0]) / (2.0 * grid.dx) + v * (n[0, 1] - n[0, -1]) / (2.0 * grid.dy)


@operator(
    "advection_central4",
    **_ADVECTIVE,
    references=[_FORNBERG],
    properties={**_FACTS, "linear_in": ("a", ("u", "v")), "order": 4},
)
def advection_central4(a: Any, u: Any, v: Any, *, grid: Any) -> Any:
    r"""Transport by the wind, fourth-order central: no damping, phase errors far smaller than second order.

    .. math:: u\,\frac{8(a_E - a_W) - (a_{EE} - a_{WW})}{12\Delta x}
       + v\,\frac{8(a_N - a_S) - (a_{NN} - a_{SS})}{12\Delta y}

    Parameters
    ----------
    a : any unit [A]
    u, v : eastward and northward wind, m/s

    Returns
    -------
    A/s
    """
    n = around(a, grid, 2)
    slope_x = (8.0 * (n[1, 0] - n[-1, 0]) - (n[2, 0] - n[-2, 0])) / (12.0 * grid.dx)
    slope_y = (8.0 * (n[0, 1] - n[0, -1]) - (n[0, 2] - n[0, -2])) / (12.0 * grid.dy)
    return u * slope_x + v * slope_y
