"""Advection: transport of a field by the horizontal wind, in several schemes.

Each scheme is registered under its own name; ``advection`` is the default, first-order upwind.
"""

from __future__ import annotations

from typing import Any

from ..operator import operator
from ..stencils import around, upwind

__all__ = ["advection", "advection_upwind1"]

_DECLARATION: dict[str, Any] = {
    "inputs": {"a": "=A", "u": "m/s", "v": "m/s"},
    "output": "=A / s",
    "family": "advection",
    "latex": r"({u},{v})\cdot\nabla {a}",
    "text": "({u},{v})·∇{a}",
    "batch_over": "a",
    "wind": ("u", "v"),
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
    """
    n = around(a, grid)
    along_x = u * upwind(u, a - n[-1, 0], n[1, 0] - a) / grid.dx
    along_y = v * upwind(v, a - n[0, -1], n[0, 1] - a) / grid.dy
    return along_x + along_y


_UPWIND1_FACTS: dict[str, Any] = {
    "references": ["Courant, Isaacson & Rees (1952), Comm. Pure Appl. Math. 5, 243-255"],
    "properties": {"linear_in": ("a",), "annihilates": "constants", "order": 1},
}
advection_upwind1 = operator("advection_upwind1", **_DECLARATION, **_UPWIND1_FACTS)(_upwind1)
advection = operator("advection", **_DECLARATION, **_UPWIND1_FACTS)(_upwind1)
