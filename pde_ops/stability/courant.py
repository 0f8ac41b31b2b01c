r"""Dimensionless numbers of a time step, and the time step they allow.

For first-order upwind transport and five-point diffusion, forward Euler is stable in any wind direction if

.. math::

   \Delta t \left( U\sqrt{\frac1{\Delta x^2}+\frac1{\Delta y^2}}
   + 2\kappa\left(\frac1{\Delta x^2}+\frac1{\Delta y^2}\right) + \frac r2 \right) \le 1 ,

with :math:`U` the largest wind speed, :math:`\kappa` the diffusivity and :math:`r` the sum of relaxation rates. It is
sharp: the shortest wave, alternating along both axes, is then multiplied by -1. The square root is the largest value
of :math:`|\cos\alpha|/\Delta x + |\sin\alpha|/\Delta y` over all wind directions. All figures use the narrowest row.

References
----------
Hundsdorfer & Verwer (2003), Time-Dependent Advection-Diffusion-Reaction Equations, Ch. I
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import StabilityError
from ..grid import Grid2D

if TYPE_CHECKING:
    from ..tendency import Tendency

__all__ = [
    "DEFAULT_MAX_WIND",
    "courant_number",
    "diffusion_number",
    "diffusivity_limit",
    "friction_floor",
    "inverse_spacings",
    "rotation_growth",
    "stable_time_step",
    "wind_limit",
]

DAY = 86400.0  # s
DEFAULT_MAX_WIND = 40.0  # m/s; a surface wind beyond it is a hurricane or a broken sensor


def inverse_spacings(grid: Grid2D) -> tuple[float, float]:
    """Return √(1/dx² + 1/dy²) [1/m] and 1/dx² + 1/dy² [1/m²] at the narrowest row."""
    squared = 1.0 / float(grid.dx.min()) ** 2 + 1.0 / grid.dy**2
    return math.sqrt(squared), squared


def courant_number(grid: Grid2D, u: Tensor | float, v: Tensor | float, dt: float) -> float:
    r"""Return the largest number of cells that the wind crosses in a step, both axes added.

    .. math:: C = \max \Delta t\left(\frac{|u|}{\Delta x} + \frac{|v|}{\Delta y}\right)

    Parameters
    ----------
    u, v : eastward and northward wind, m/s, ``[..., y, x]`` or numbers
    dt : s
    """
    dx = torch.tensor(grid.dx)[:, None]
    along_x, along_y = (torch.as_tensor(part, dtype=torch.float64).detach().cpu().abs() for part in (u, v))
    return float((dt * (along_x / dx + along_y / grid.dy)).max())


def diffusion_number(grid: Grid2D, diffusivity: float, dt: float) -> float:
    r"""Return the share of the stability budget of diffusion, :math:`2\kappa\Delta t(1/\Delta x^2 + 1/\Delta y^2)`."""
    return 2.0 * diffusivity * dt * inverse_spacings(grid)[1]


def wind_limit(grid: Grid2D, dt: float) -> float:
    """Return the largest wind [m/s] that upwind Euler carries in any direction, without diffusion."""
    return 1.0 / (dt * inverse_spacings(grid)[0])


def diffusivity_limit(grid: Grid2D, dt: float) -> float:
    """Return the largest diffusivity [m²/s] that Euler bears, without wind."""
    return 1.0 / (2.0 * dt * inverse_spacings(grid)[1])


def friction_floor(f: float, dt: float) -> float:
    r"""Return the smallest friction [1/s] with which Euler does not amplify a turning wind.

    .. math:: (1 - r\Delta t)^2 + f^2\Delta t^2 \le 1 \iff r \ge \frac{1 - \sqrt{1 - f^2\Delta t^2}}{\Delta t}
       \approx \tfrac12 f^2\Delta t
    """
    turn = (f * dt) ** 2
    if turn > 1.0:
        raise StabilityError(
            f"no friction makes Euler stable for a rotation of {abs(f) * dt:.3g} radians a step",
            do="shorten the step, or compile with exact_flows=True and take integrators['strang']",
        )
    return turn / (dt * (1.0 + math.sqrt(1.0 - turn)))  # the same root, written without cancellation


def rotation_growth(f: float, dt: float, friction: float = 0.0) -> float:
    """Factor by which Euler multiplies a turning wind in a day; 1 or less is stable."""
    return math.pow(math.hypot(1.0 - friction * dt, f * dt), DAY / dt)


def stable_time_step(
    on: Grid2D | Tendency,
    max_wind: float | None = None,
    *,
    diffusivity: float | None = None,
    hyperdiffusivity: float | None = None,
    rate: float | None = None,
    state: Tensor | None = None,
    closures: Mapping[str, Tensor] | None = None,
    scheme: str = "euler",
) -> float:
    """Return the longest stable step [s]: of upwind Euler by its budget, or of any scheme about a state.

    Without a state only wind, mixing and relaxation count, each at its largest, under forward Euler. With one, the
    spectrum of the system linearised about it counts (:mod:`pde_ops.stability.spectrum`), couplings between fields
    included; the coefficients are those of the system and the wind is that of the state.

    Parameters
    ----------
    on : a grid, or a compiled system, whose coefficients then count where nothing else is given
    max_wind : m/s; by default the limit that the system was compiled with, else 40 m/s
    diffusivity : m²/s; hyperdiffusivity : m⁴/s; rate : 1/s, relaxation of any kind
    state, closures : ``[batch, field, y, x]`` and as for the tendency; for a compiled system alone
    scheme : name of an explicit integrator; another than Euler needs a state

    Raises
    ------
    StabilityError
        If the fields of the system carry waves of their own and no state tells how fast, or if the scheme lets a
        mode grow at any step.
    """
    overrides = {"diffusivity": diffusivity, "hyperdiffusivity": hyperdiffusivity, "rate": rate}
    if state is not None or scheme != "euler":
        if max_wind is not None or any(value is not None for value in overrides.values()):
            raise StabilityError("about a state, wind and coefficients are its own", do="leave the other numbers out")
        return _step_about(on, state, closures, scheme)
    for name, value in {"max_wind": max_wind, **overrides}.items():
        if value is not None and not (isinstance(value, Real) and math.isfinite(value) and value >= 0.0):
            raise StabilityError(f"`{name}` must be a number, finite and not negative, not {value!r}")
    strengths = {"diffusivity": 0.0, "hyperdiffusivity": 0.0, "rate": 0.0}
    if not isinstance(on, Grid2D):
        from .bounds import strongest  # the coefficients of a system; a grid needs none of it
        from .couplings import wave_fields
        from .terms import unseen

        ringing = wave_fields(on.equations)
        if ringing:
            raise StabilityError(
                f"the fields {', '.join(ringing)} of '{on.system.name}' carry waves, whose speed depends on the state",
                do="pass state=… and the scheme, such as scheme='rk4'",
            )
        blind = unseen(on.equations, on.static_sizes())
        if blind:
            raise StabilityError(
                f"a budget of wind, mixing and relaxation does not hold for '{on.system.name}': {'; '.join(blind)}",
                do="pass state=…, and read stability.report(tendency, state, dt)",
            )
        strengths = strongest(on)
        max_wind = on.limits.max_wind if max_wind is None and on.limits is not None else max_wind
    grid = on if isinstance(on, Grid2D) else on.grid
    strengths.update({name: value for name, value in overrides.items() if value is not None})
    demand = demand_per_second(grid, DEFAULT_MAX_WIND if max_wind is None else max_wind, **strengths)
    return math.inf if demand == 0.0 else 1.0 / demand


def _step_about(
    on: Grid2D | Tendency, state: Tensor | None, closures: Mapping[str, Tensor] | None, scheme: str
) -> float:
    from .spectrum import spectrum  # the modes of a system; a grid needs none of it
    from .summary import polynomial_of

    if isinstance(on, Grid2D) or state is None:
        raise StabilityError(
            "a spectrum belongs to a compiled system and a state", do="pass system.compile(grid) and state=…"
        )
    polynomial = polynomial_of(scheme)
    modes = spectrum(on, state, closures)
    longest = modes.longest_step(polynomial)
    if longest == 0.0:
        raise StabilityError(
            f"{scheme} lets {modes.limiting(1.0 / modes.fastest, polynomial)} grow at any step",
            do="take scheme='ssprk3' or 'rk4', or compile with exact_flows=True where it is rotation",
        )
    return longest


def demand_per_second(
    grid: Grid2D, max_wind: float, diffusivity: float = 0.0, hyperdiffusivity: float = 0.0, rate: float = 0.0
) -> float:
    """Return the bracket of the condition above [1/s]; ∇⁴ has eigenvalues up to 16(1/dx² + 1/dy²)² and takes half."""
    inverse, squared = inverse_spacings(grid)
    return max_wind * inverse + 2.0 * diffusivity * squared + 8.0 * hyperdiffusivity * squared**2 + 0.5 * rate
