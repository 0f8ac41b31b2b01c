"""Diffusion: what unresolved mixing does to a field, with a diffusivity that varies in space, or scale-selectively."""

from __future__ import annotations

from typing import Any

from ..operator import operator
from ..stencils import around, face_lengths, face_mean
from .laplacians import second_differences

__all__ = ["diffusion", "hyperdiffusion"]

_FACTS: dict[str, Any] = {
    "annihilates": "constants",
    "order": 2,
    "conserves": ("periodic", "reflecting", "zero_gradient"),
    "dissipates": "a",
    "parity": {"x": "even", "y": "even"},
}


@operator(
    "diffusion",
    inputs={"a": "=A", "kappa": "m**2/s"},
    output="=A / s",
    latex=r"\nabla\cdot({kappa}\,\nabla {a})",
    text="∇·({kappa} ∇{a})",
    references=["Durran (2010), Numerical Methods for Fluid Dynamics, 2nd ed., Sect. 3.2.1"],
    properties={**_FACTS, "linear_in": ("a", "kappa")},
    batch_over="a",
    domain={"kappa": (0.0, 1e6)},
    limit=lambda a, kappa, space: (kappa * a.x).x + (kappa * a.y * space.cos).y / space.cos,
)
def diffusion(a: Any, kappa: Any, *, grid: Any) -> Any:
    r"""Mixing with a diffusivity that may vary in space, in divergence form: conserves the amount.

    .. math:: \nabla\cdot(\kappa\nabla a), \qquad F_e = \tfrac12(\kappa + \kappa_E)\,\frac{a_E - a}{\Delta x}

    Parameters
    ----------
    a : any unit [A]
    kappa : diffusivity, m²/s, not negative

    Returns
    -------
    A/s

    Notes
    -----
    With a constant diffusivity it is ``kappa * laplacian(a)``. Nothing passes a reflecting or zero-gradient border.
    """
    n, nk = around(a, grid), around(kappa, grid)
    length_north, length_south = face_lengths(grid)
    east = face_mean(kappa, nk[1, 0]) * (n[1, 0] - a)
    west = face_mean(kappa, nk[-1, 0]) * (a - n[-1, 0])
    north = face_mean(kappa, nk[0, 1]) * (n[0, 1] - a)
    south = face_mean(kappa, nk[0, -1]) * (a - n[0, -1])
    return (east - west) / grid.dx**2 + (length_north * north - length_south * south) / (grid.dx * grid.dy**2)


def _biharmonic(a: Any, space: Any) -> Any:
    curvature = a.x.x + (a.y * space.cos).y / space.cos
    return -(curvature.x.x + (curvature.y * space.cos).y / space.cos)


@operator(
    "hyperdiffusion",
    inputs={"a": "=A"},
    output="=A / m**4",
    latex=r"\left(-\nabla^4 {a}\right)",
    text="(-∇⁴{a})",
    references=["Jablonowski & Williamson (2011), in Numerical Techniques for Global Atmospheric Models, Ch. 13"],
    properties={**_FACTS, "linear_in": ("a",)},
    batch_over="a",
    limit=_biharmonic,
)
def hyperdiffusion(a: Any, *, grid: Any) -> Any:
    r"""Scale-selective mixing: damps the shortest waves and spares the long ones.

    .. math:: -\nabla^4 a = -\nabla^2\left(\nabla^2 a\right)

    Parameters
    ----------
    a : any unit [A]

    Returns
    -------
    A/m⁴

    Notes
    -----
    The minus sign is part of it: a term ``+ nu * hyperdiffusion(a)`` with ``nu > 0`` [m⁴/s] damps. The curvature
    has the border of the grid too, so that neither ``a`` nor its curvature leaks through a closed one.
    """
    return -second_differences(second_differences(a, grid), grid)
