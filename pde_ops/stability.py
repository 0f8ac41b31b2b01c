r"""What a time step can bear: Courant and diffusion numbers, sub-steps, and caps on coefficients.

For first-order upwind transport and centred diffusion, forward Euler is stable in any wind direction if

.. math::

   \Delta t \left( U\sqrt{\frac1{\Delta x^2}+\frac1{\Delta y^2}}
   + 2\kappa\left(\frac1{\Delta x^2}+\frac1{\Delta y^2}\right) \right) \le 1 .

All figures use the smallest :math:`\Delta x` of the grid, which lies on its poleward row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import StabilityError
from .grid import Grid2D
from .symbols import Positive
from .units import parse_unit, same_dimension

__all__ = ["Limits", "inverse_spacings", "limits"]

MAX_SUBSTEPS = 16
DEFAULT_MAX_WIND = 40.0  # m/s; a surface wind beyond it is a hurricane or a broken sensor


@dataclass(frozen=True, slots=True)
class Limits:
    """Constants that keep a step of ``dt`` seconds stable, fixed before anything runs.

    Attributes
    ----------
    dt : s, the whole step
    substeps : number of equal parts it is divided into
    max_wind : m/s; the advecting wind is limited to it cell by cell
    diffusivity_cap : m²/s; hyperdiffusivity_cap : m⁴/s; rate_cap : 1/s
    """

    dt: float
    substeps: int
    max_wind: float
    diffusivity_cap: float
    hyperdiffusivity_cap: float
    rate_cap: float

    def caps(self, symbols: Iterable[Positive]) -> dict[str, float]:
        """Upper bound of each coefficient by its dimension: m²/s diffuses, m⁴/s hyperdiffuses, 1/s relaxes."""
        bounds = {"m**2/s": self.diffusivity_cap, "m**4/s": self.hyperdiffusivity_cap, "1/s": self.rate_cap}
        caps = {}
        for symbol in symbols:
            for unit, bound in bounds.items():
                if same_dimension(symbol.unit, parse_unit(unit)):
                    caps[symbol.name] = bound
        return caps


def inverse_spacings(grid: Grid2D) -> tuple[float, float]:
    """Return √(1/dx² + 1/dy²) [1/m] and 1/dx² + 1/dy² [1/m²] at the narrowest row."""
    squared = 1.0 / float(grid.dx.min()) ** 2 + 1.0 / grid.dy**2
    return math.sqrt(squared), squared


def limits(
    grid: Grid2D,
    dt: float,
    *,
    max_wind: float = DEFAULT_MAX_WIND,
    diffusivity: float = 0.0,
    substeps: int | None = None,
    max_substeps: int = MAX_SUBSTEPS,
) -> Limits:
    """Choose the number of sub-steps and the caps for a step of ``dt`` seconds.

    Parameters
    ----------
    max_wind : m/s, largest advecting wind to be carried unlimited
    diffusivity : m²/s, largest diffusivity there should be room for at the start
    substeps : take this number instead of the smallest stable one

    Raises
    ------
    StabilityError
        If ``dt`` is not a positive number, or more than ``max_substeps`` would be needed.
    """
    if not (math.isfinite(dt) and dt > 0.0):
        raise StabilityError(f"the time step must be finite and positive seconds, not {dt}")
    if not (math.isfinite(max_wind) and max_wind >= 0.0 and math.isfinite(diffusivity) and diffusivity >= 0.0):
        raise StabilityError(f"`max_wind` {max_wind} and `diffusivity` {diffusivity} must be finite and not negative")
    inverse, squared = inverse_spacings(grid)
    demand = dt * (max_wind * inverse + 2.0 * diffusivity * squared)
    needed = max(1, math.ceil(demand))
    count = needed if substeps is None else substeps
    if count > max_substeps or count < needed:
        raise StabilityError(
            f"{max_wind:g} m/s on {grid.dx.min() / 1e3:.3g} km cells needs {needed} sub-steps of a {dt:g} s step, "
            f"{count} were asked for and {max_substeps} are allowed",
            do="shorten the step, lower `max_wind`, or compile with semi_lagrangian=True",
        )
    part = dt / count
    # Half of what the wind leaves at its limit would be 0 on an exact fit: keep at least 1 % for diffusion.
    room = max(1.0 / part - max_wind * inverse, 0.01 / part)
    return Limits(
        dt=dt,
        substeps=count,
        max_wind=max_wind,
        diffusivity_cap=room / (2.0 * squared),
        # ∇⁴ has eigenvalues up to (4/dx² + 4/dy²)²; Euler bears 2/Δt, half of the room is left to the rest.
        hyperdiffusivity_cap=room / (16.0 * squared**2),
        rate_cap=1.0 / part,
    )
