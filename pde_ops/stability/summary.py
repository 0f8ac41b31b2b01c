"""A report on whether a compiled system, a state and a time step go together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import DeclarationError, StabilityError
from .bounds import strongest, turning
from .courant import (
    DAY,
    DEFAULT_MAX_WIND,
    courant_number,
    demand_per_second,
    diffusion_number,
    diffusivity_limit,
    friction_floor,
    wind_limit,
)
from .modes import amplification, transport_growth, transports, winds
from .spectrum import ROUND_OFF, Spectrum, check_state, spectrum
from .terms import unseen

if TYPE_CHECKING:
    from ..tendency import Tendency

__all__ = ["StabilityReport", "polynomial_of", "report"]


@dataclass(frozen=True, slots=True)
class StabilityReport:
    """Figures of one sub-step, and what follows from them; ``print`` shows it.

    Attributes
    ----------
    scheme : integrator the figures are for
    dt, substeps : s, the whole step and the number of equal parts it is taken in
    wind : m/s, fastest advecting wind of the state after the limit, or the speed assumed without a state
    courant : Courant number of that wind, both axes added
    wind_limit : m/s, largest wind that upwind Euler carries in any direction
    diffusivity, diffusion_number, diffusivity_limit : m²/s; share of the budget; m²/s
    rotation_growth : factor by which the scheme multiplies a turning, unforced wind in a day; None without rotation
    friction_floor : 1/s, friction below which Euler lets that wind grow; None without rotation or where none suffices
    clamped_cells, cells : how many cells have their wind limited, of how many; None without a state
    growth : factor a sub-step gives the fastest mode of the system linearised about the state; None without a state
    limiting : the terms that this mode lives by; None without a state
    advice : what to change, empty if nothing
    """

    scheme: str
    dt: float
    substeps: int
    wind: float
    courant: float
    wind_limit: float
    diffusivity: float
    diffusion_number: float
    diffusivity_limit: float
    rotation_growth: float | None
    friction_floor: float | None
    clamped_cells: int | None
    cells: int | None
    growth: float | None
    limiting: str | None
    advice: tuple[str, ...]

    @property
    def stable(self) -> bool:
        """Whether nothing was found that grows without cause."""
        return not self.advice

    def __str__(self) -> str:
        part = self.dt / self.substeps
        lines = [
            f"{self.scheme}, {self.dt:g} s in {self.substeps} part{'s' * (self.substeps > 1)} of {part:g} s: "
            + ("stable" if self.stable else "NOT stable"),
            f"  wind          {self.wind:.3g} m/s, Courant number {self.courant:.2f}; upwind Euler carries "
            f"{self.wind_limit:.3g} m/s in any direction",
            f"  diffusion     {self.diffusivity:.3g} m²/s, number {self.diffusion_number:.3f}; explicit limit "
            f"{self.diffusivity_limit:.3g} m²/s",
        ]
        if self.rotation_growth is not None:
            floor = "" if self.friction_floor is None else f"; Euler needs a friction of {self.friction_floor:.3g} 1/s"
            lines.append(f"  rotation      wind x {self.rotation_growth:.3g} a day{floor}")
        if self.clamped_cells is not None:
            lines.append(f"  limited wind  {self.clamped_cells} of {self.cells} cells")
        if self.growth is not None:
            lines.append(f"  fastest mode  x {self.growth:.4g} a sub-step, by {self.limiting}")
        return "\n".join([*lines, *(f"  do            {line}" for line in self.advice)])


def report(
    tendency: Tendency,
    state: Tensor | None = None,
    dt: float | None = None,
    *,
    scheme: str = "euler",
    closures: Mapping[str, Tensor] | None = None,
) -> StabilityReport:
    """Say whether a set-up is stable, and what to change if it is not.

    Parameters
    ----------
    state : look at this state's wind and at the modes around it; without one, at the largest wind allowed
    dt : s, one step; by default that of the limits the system was compiled with, in their sub-steps
    scheme : name of an explicit integrator
    closures : as for the tendency; what is missing counts as 0
    """
    step, substeps = _step(tendency, dt)
    if state is not None:
        check_state(tendency, state)
    part = step / substeps
    polynomial = polynomial_of(scheme)
    wind, courant, clamped = _wind(tendency, state, part, closures)
    strengths, grid = strongest(tendency), tendency.grid
    modes = None if state is None else spectrum(tendency, state, closures)
    figures = _Figures(
        courant=courant,
        demand=courant + part * demand_per_second(grid, 0.0, **strengths),
        rotation=_rotation_growth(tendency, part, polynomial),
        fastest=None if modes is None else modes.growth(part, polynomial),
    )
    return StabilityReport(
        scheme=scheme,
        dt=step,
        substeps=substeps,
        wind=wind,
        courant=courant,
        wind_limit=wind_limit(grid, part),
        diffusivity=strengths["diffusivity"],
        diffusion_number=diffusion_number(grid, strengths["diffusivity"], part),
        diffusivity_limit=diffusivity_limit(grid, part),
        rotation_growth=figures.rotation,
        friction_floor=None if figures.rotation is None else _floor(tendency, part),
        clamped_cells=clamped,
        cells=None if state is None else state[:, 0].numel(),
        growth=figures.fastest,
        limiting=None if modes is None else modes.limiting(part, polynomial),
        advice=tuple(_advice(tendency, figures, scheme, polynomial, part, modes)) + _blind(tendency, modes),
    )


@dataclass(frozen=True, slots=True)
class _Figures:
    """What advice is given on; ``demand`` is the share of the budget of upwind Euler."""

    courant: float
    demand: float
    rotation: float | None
    fastest: float | None


def _step(tendency: Tendency, dt: float | None) -> tuple[float, int]:
    if dt is None:
        if tendency.limits is None:
            raise DeclarationError("stability.report: no time step", do="pass dt=…, or compile with limits")
        return tendency.limits.dt, tendency.limits.substeps
    if not (math.isfinite(dt) and dt > 0.0):
        raise StabilityError(f"stability.report: the time step must be finite and positive seconds, not {dt}")
    return dt, 1


def polynomial_of(scheme: str) -> Sequence[float]:
    """Return the coefficients of an explicit scheme's stability polynomial."""
    from ..integrators import integrators  # they import this package

    polynomial = integrators[scheme].polynomial
    if polynomial is None:
        raise DeclarationError(
            f"stability: '{scheme}' is not one explicit scheme", do="name its inner integrator: scheme='heun'"
        )
    return polynomial


def _wind(
    tendency: Tendency, state: Tensor | None, part: float, closures: Mapping[str, Tensor] | None
) -> tuple[float, float, int | None]:
    """Fastest wind, its Courant number (0 where nothing is advected explicitly), and the number of limited cells."""
    explicit = bool(transports(tendency))
    bound = math.inf if tendency.limits is None or not explicit else tendency.limits.max_wind
    if state is None:
        speed = min(bound, DEFAULT_MAX_WIND) if explicit else 0.0
        return speed, part * demand_per_second(tendency.grid, speed), None
    fastest, courant, limited = 0.0, 0.0, torch.zeros(state[:, 0].shape, dtype=torch.bool)
    for u, v in winds(tendency, state, closures):
        speed_here = torch.hypot(u, v).cpu()
        share = (bound / speed_here).clamp(max=1.0)  # a calm cell gives infinity, and 1
        fastest = max(fastest, float((speed_here * share).max()))
        courant = max(courant, courant_number(tendency.grid, u.cpu() * share, v.cpu() * share, part))
        limited |= speed_here > bound
    return fastest, courant if explicit else 0.0, int(limited.sum())


def _rotation_growth(tendency: Tendency, part: float, polynomial: Sequence[float]) -> float | None:
    """Return the largest factor of a day over the fields that the tendency turns, with the friction they have."""
    values = dict(zip([s.name for s in tendency.coefficients.symbols], tendency.coefficients().tolist(), strict=True))
    turn = float(abs(tendency.grid.f).max())
    factors = []
    for rates in turning(tendency.equations).values():
        friction = sum(values[rate.name] for rate in rates)
        z = torch.tensor([complex(-friction, turn) * part], dtype=torch.complex128)
        factors.append(amplification(z, polynomial) ** (DAY / part))
    return max(factors, default=None)


def _blind(tendency: Tendency, modes: Spectrum | None) -> tuple[str, ...]:
    """Return that a state is needed to judge terms whose coefficient is not known, or that mix with the wrong sign."""
    blind = unseen(tendency.equations, tendency.static_sizes()) if modes is None else []
    return (f"pass a state, without which this is not known: {'; '.join(blind)}",) if blind else ()


def _floor(tendency: Tendency, part: float) -> float | None:
    turn = float(abs(tendency.grid.f).max())
    return friction_floor(turn, part) if turn * part <= 1.0 else None


def _advice(
    tendency: Tendency,
    figures: _Figures,
    scheme: str,
    polynomial: Sequence[float],
    part: float,
    modes: Spectrum | None,
) -> Iterator[str]:
    """Return what to change; nothing if no mode grows."""
    over = 1.0 + ROUND_OFF
    turns = figures.rotation is not None and figures.rotation > over
    grows = figures.demand > over if figures.fastest is None else figures.fastest > over
    mismatched = [op.name for op in transports(tendency) if transport_growth(op, polynomial, 0.1) > over]
    if not turns and not grows and (figures.fastest is not None or not mismatched):
        return
    if mismatched:
        names = ", ".join(sorted(mismatched))
        yield f"{scheme} lets {names} grow at any step: take 'ssprk3' or 'rk4', or advection_upwind1"
    if figures.demand > over:
        yield (
            f"wind, diffusion and relaxation need {figures.demand:.3g} parts of this step: pass "
            f"dt={part / figures.demand:.4g}, or compile with limits=stability.limits(grid, dt), or with "
            "semi_lagrangian=True if it is the wind"
        )
    if turns:
        yield (
            f"{scheme} lets a turning wind grow x {figures.rotation:.3g} a day: compile with exact_flows=True and take "
            "'strang', or raise the friction above the floor"
        )
    if not mismatched and not turns and figures.demand <= over:
        assert modes is not None  # else nothing has been found to grow
        longest = modes.longest_step(polynomial)
        way_out = f"pass dt={longest:.4g}" if longest > 0.0 else "no step is short enough: take 'ssprk3' or 'rk4'"
        exact = ", or compile with exact_flows=True and take 'strang'" if figures.rotation is not None else ""
        yield f"{scheme} lets {modes.limiting(part, polynomial)} grow: {way_out}{exact}"
