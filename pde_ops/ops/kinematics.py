"""Divergence and vorticity of the wind, on the plane and on the sphere.

Both are sums over the faces of a cell (Gauss's and Stokes's theorems), which brings in the convergence of the
meridians, (1/cos φ) ∂(v cos φ)/∂y = ∂v/∂y - v tan φ / R, without writing it out.
"""

from __future__ import annotations

from typing import Any

from ..operator import operator
from ..stencils import around, face_lengths

__all__ = ["divergence", "vorticity"]

_WIND: dict[str, Any] = {
    "inputs": {"u": "m/s", "v": "m/s"},
    "output": "1/s",
    "domain": {"u": (-40.0, 40.0), "v": (-40.0, 40.0)},
    "references": ["Williamson et al. (1992), J. Comput. Phys. 102, 211-224, Sect. 2"],
}
_FACTS: dict[str, Any] = {"linear_in": (("u", "v"),), "order": 2, "components": {"x": ("u",), "y": ("v",)}}


@operator(
    "divergence",
    **_WIND,
    latex=r"\nabla\cdot({u},{v})",
    text="∇·({u},{v})",
    properties={**_FACTS, "conserves": ("periodic", "reflecting"), "parity": {"x": "even", "y": "even"}},
    limit=lambda u, v, space: u.x + (v * space.cos).y / space.cos,
)
def divergence(u: Any, v: Any, *, grid: Any) -> Any:
    r"""Rate at which the wind spreads air out.

    .. math:: \nabla\cdot\mathbf V = \partial_x u + \frac{1}{\cos\varphi}\,\partial_y(v\cos\varphi)
       \approx \frac{u_E - u_W}{2\Delta x} + \frac{\ell_n (v + v_N) - \ell_s (v + v_S)}{2\Delta x\Delta y}

    Parameters
    ----------
    u, v : eastward and northward wind, m/s

    Returns
    -------
    1/s

    Notes
    -----
    No air passes a reflecting wall: ``u`` and ``v`` change sign behind the wall they blow against.
    """
    nu, nv = around(u, grid, odd="x"), around(v, grid, odd="y")
    length_north, length_south = face_lengths(grid)
    along_y = length_north * (v + nv[0, 1]) - length_south * (v + nv[0, -1])
    return (nu[1, 0] - nu[-1, 0]) / (2.0 * grid.dx) + along_y / (2.0 * grid.dx * grid.dy)


@operator(
    "vorticity",
    **_WIND,
    latex=r"\mathbf{k}\cdot\nabla\times({u},{v})",
    text="∇×({u},{v})",
    properties={**_FACTS, "conserves": ("periodic",), "parity": {"x": "odd", "y": "odd"}},
    limit=lambda u, v, space: v.x - (u * space.cos).y / space.cos,
)
def vorticity(u: Any, v: Any, *, grid: Any) -> Any:
    r"""Spin of the wind about the vertical, positive anticlockwise.

    .. math:: \zeta = \partial_x v - \frac{1}{\cos\varphi}\,\partial_y(u\cos\varphi)
       \approx \frac{v_E - v_W}{2\Delta x} - \frac{\ell_n (u + u_N) - \ell_s (u + u_S)}{2\Delta x\Delta y}

    Parameters
    ----------
    u, v : eastward and northward wind, m/s

    Returns
    -------
    1/s

    Notes
    -----
    Wind along a reflecting wall is mirrored without a change of sign: the wall is free of friction.
    """
    # The parity is declared although only neighbours along the other axis are read: it is what u and v are.
    nu, nv = around(u, grid, odd="x"), around(v, grid, odd="y")
    length_north, length_south = face_lengths(grid)
    along_y = length_north * (u + nu[0, 1]) - length_south * (u + nu[0, -1])
    return (nv[1, 0] - nv[-1, 0]) / (2.0 * grid.dx) - along_y / (2.0 * grid.dx * grid.dy)
