r"""Constants that keep a step stable, fixed before anything runs: sub-steps, a bound on the wind, caps on coefficients.

The condition of :mod:`pde_ops.stability.courant` is a budget: the wind takes its share at the largest speed that is
let through, and what is left is divided evenly among the coefficients in an equation. With every coefficient at its
cap and the wind at its bound each mode is then still stable, for forward Euler with first-order upwind transport and
for the Runge-Kutta schemes with those operators that :func:`pde_ops.stability.transport_growth` finds stable at a
Courant number of 1 (an integrator checks that when it is made). The budget does not see couplings between fields (a
gravity wave, latent heat feeding back on saturation), nor coefficients that are closures:
:func:`pde_ops.stability.spectrum` does, about a state. Numbers and statics take their share before it is divided. A
system whose fields carry waves is therefore refused, here and by integrators that are given such limits.

Rotation left in the tendency is the one coupling that is looked after: friction gets a floor, with which Euler does
not amplify a uniform wind. Waves of four cells in a wind of Courant number C still grow by up to
:math:`C + \sqrt{(1 - C)^2 + f^2\Delta t^2}` a sub-step, less friction: some parts in a thousand at the bound of the
wind, nothing in ordinary wind. Closed-form flows (``exact_flows=True``) know no such limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..arguments import static_values
from ..errors import StabilityError
from ..expr import Call, Expr, walk
from ..flows import Flow, Rotation
from ..grid import ROW_STATICS, Grid2D
from ..symbols import Field, Positive
from .couplings import wave_fields
from .courant import DEFAULT_MAX_WIND, demand_per_second, friction_floor
from .modes import curvature
from .terms import KINDS, Sizes, fixed, has_unit, mixing, unseen, weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ..system import PDESystem
    from ..tendency import Tendency

__all__ = ["MAX_SUBSTEPS", "Limits", "limits", "static_sizes", "strongest", "turning"]

MAX_SUBSTEPS = 16
BELOW = 1.0 - 2.0**-22  # caps are kept in float32, whose rounding must not lift them
SPARE = 0.01  # share of the budget that is always left to the coefficients
HEADROOM = 2.0  # times its start that a coefficient of a given system may grow at least

Equations = Mapping[Field, Expr]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a step of ``dt`` seconds.

    Attributes
    ----------
    dt : s, the whole step
    substeps : number of equal parts it is divided into
    max_wind : m/s; the advecting wind is limited to it cell by cell
    room : 1/s, what the wind (and a nudged rim) leaves of the budget of one part
    dx, dy : m, spacing of the narrowest row
    rotation : 1/s, largest Coriolis parameter
    """

    dt: float
    substeps: int
    max_wind: float
    room: float
    dx: float
    dy: float
    rotation: float = 0.0

    def check_grid(self, grid: Grid2D) -> None:
        """Refuse a grid with narrower cells or more rotation than the limits were computed for."""
        slack = 1.0 + 1e-9
        narrower = grid.dx.min() * slack < self.dx or grid.dy * slack < self.dy
        if narrower or abs(grid.f).max() > self.rotation * slack:
            raise StabilityError(
                f"the limits hold for cells of {self.dx:.6g} x {self.dy:.6g} m and f up to {self.rotation:.3g} 1/s, "
                f"the grid has {grid.dx.min():.6g} x {grid.dy:.6g} m and {abs(grid.f).max():.3g} 1/s",
                do="pass limits=stability.limits(grid, dt) of this grid",
            )

    @property
    def part(self) -> float:
        """Length of a sub-step, s."""
        return self.dt / self.substeps

    @property
    def diffusivity_cap(self) -> float:
        """Largest stable diffusivity, m²/s: of a coefficient of the five-point Laplacian alone in its equation."""
        return self.room / (2.0 * self._squared)

    @property
    def rate_cap(self) -> float:
        """Largest stable rate, 1/s, of a relaxation alone in its equation; below 1/Δt it never overshoots."""
        return min(2.0 * self.room, 1.0 / self.part)

    @property
    def _squared(self) -> float:
        return 1.0 / self.dx**2 + 1.0 / self.dy**2

    def caps(self, equations: Equations, sizes: Sizes | None = None) -> dict[str, float]:
        """Upper bound of each coefficient, by its dimension and the operators it meets; others are not bounded.

        ``sizes`` are the least and largest amounts of the statics (:meth:`pde_ops.Tendency.static_sizes`).

        Raises
        ------
        StabilityError
            If numbers and statics leave nothing of the budget.
        """
        caps: dict[str, float] = {}
        for field, right in equations.items():
            spends = self._spends(right, sizes or {})
            shares = sum(spends.values())
            left = self.room - self._spent(field, right, sizes or {})
            if left <= 0.0:
                raise StabilityError(
                    f"the numbers and statics of d{field.name}/dt need {1.0 - left / self.room:.3g} times the "
                    f"{self.room:.3g} 1/s that wind and sub-steps leave",
                    do="pass limits=stability.limits(grid, dt, system=…, statics=…), or shorten the step",
                )
            for symbol in spends:
                most = left / (shares * self._cost(symbol, right))
                if has_unit(symbol, "1/s"):
                    most = min(most, 1.0 / self.part)
                caps[symbol.name] = min(BELOW * most, caps.get(symbol.name, math.inf))
        return caps

    def floors(self, equations: Equations) -> dict[str, float]:
        """Lower bound of the friction of a field that the tendency turns, without which Euler lets it grow."""
        rates = [rate for slowing in turning(equations).values() for rate in slowing]
        if self.rotation == 0.0 or not rates:
            return {}
        floor = friction_floor(self.rotation, self.part)
        return {rate.name: floor for rate in rates}

    def _spent(self, field: Field, right: Expr, sizes: Sizes) -> float:
        """Return what the numbers and statics of an equation take of the budget, 1/s."""
        strengths = fixed(field, right, {**sizes, "rim_rate": (0.0, 0.0)})  # `room` is without the rim
        factors = {name: self._unit_cost(unit, right) for name, unit in KINDS.items() if strengths[name] > 0.0}
        return sum(strengths[name] * factor for name, factor in factors.items())

    def _spends(self, right: Expr, sizes: Sizes) -> dict[Positive, float]:
        """Return coefficients that draw on the budget of an equation, with how strongly they stand in it."""
        kinds = ("m**2/s", "m**4/s", "1/s", *(("1/m",) if self.max_wind > 0.0 else ()))
        entering = weights(right, sizes)
        return {symbol: size for symbol, size in entering.items() if any(has_unit(symbol, kind) for kind in kinds)}

    def _cost(self, symbol: Positive, right: Expr) -> float:
        """Return what one unit of a coefficient takes of the budget: half the largest eigenvalue of its operator."""
        if has_unit(symbol, "1/m"):  # quadratic drag c|V|V, whose derivative is 2c|V|
            return self.max_wind
        return self._unit_cost(next(unit for unit in KINDS.values() if has_unit(symbol, unit)), right)

    def _unit_cost(self, unit: str, right: Expr) -> float:
        if unit == "1/s":
            return 0.5
        power = 2 if unit == "m**2/s" else 4
        five_point = (4.0 * self._squared) ** (power // 2)
        return 0.5 * max([five_point, *(curvature(call, self.dx, self.dy) for call in mixing(right, power))])


def limits(
    grid: Grid2D,
    dt: float,
    *,
    max_wind: float = DEFAULT_MAX_WIND,
    diffusivity: float = 0.0,
    rate: float = 0.0,
    system: PDESystem | None = None,
    statics: Mapping[str, ArrayLike] | None = None,
    substeps: int | None = None,
    max_substeps: int = MAX_SUBSTEPS,
) -> Limits:
    """Choose the number of sub-steps and the caps for a step of ``dt`` seconds.

    Parameters
    ----------
    max_wind : m/s, largest advecting wind to be carried unlimited; 0 for semi-Lagrangian transport
    diffusivity, rate : m²/s and 1/s, largest values there should be room for, added to the wind's demand
    system : make room for its coefficients to double, and for its numbers and statics as they are
    statics : arrays of the statics that the grid does not supply, as for ``compile``
    substeps : take this number instead of the smallest stable one

    Raises
    ------
    StabilityError
        If a number is not finite, more than ``max_substeps`` would be needed, the fields of ``system`` carry waves
        of their own, or it mixes with something whose size is not known.
    """
    ringing = wave_fields(system.equations) if system is not None else ()
    if ringing and system is not None:
        raise StabilityError(
            f"the fields {', '.join(ringing)} of '{system.name}' carry waves, which limits of wind, mixing and "
            "relaxation do not bound",
            do="compile without limits, with a step below stability.stable_time_step(tendency, state=…, scheme='rk4')",
        )
    sizes = _sizes(system, grid, statics or {}) if system is not None else {}
    if not (math.isfinite(dt) and dt > 0.0):
        raise StabilityError(f"the time step must be finite and positive seconds, not {dt}", do="pass dt=1800.0")
    for name, value in {"max_wind": max_wind, "diffusivity": diffusivity, "rate": rate}.items():
        if not (math.isfinite(value) and value >= 0.0):
            raise StabilityError(f"`{name}` must be finite and not negative, not {value}")
    rim = grid.boundary.rim
    fixed = demand_per_second(grid, max_wind, rate=0.0 if rim is None else 1.0 / rim.timescale)
    demand = fixed + demand_per_second(grid, 0.0, diffusivity, rate=rate)
    needed = max(1, math.ceil(dt * demand), math.ceil(dt * fixed / (1.0 - SPARE)))
    count = needed if substeps is None else substeps
    limits = _made(grid, dt, count, max_wind, fixed)
    while system is not None and count < max_substeps and substeps is None and not _has_room(limits, system, sizes):
        count += 1
        limits = _made(grid, dt, count, max_wind, fixed)
    if system is not None:
        limits.caps(system.equations, sizes)  # refuses numbers and statics for which there is no room
    if count > max_substeps or count < needed:
        requested = "" if substeps is None else f", {substeps} were asked for"
        raise StabilityError(
            f"{max_wind:g} m/s on {grid.dx.min() / 1e3:.3g} x {grid.dy / 1e3:.3g} km cells needs {needed} sub-steps "
            f"of a {dt:g} s step{requested} and {max_substeps} are allowed",
            do="shorten the step, lower `max_wind`, or compile with semi_lagrangian=True",
        )
    return limits


def turning(equations: Equations) -> dict[Field, list[Positive]]:
    """Return fields that rotation turns explicitly, each with the coefficients that slow it down."""
    turned = {}
    for field, right in equations.items():
        calls = [node for node in walk(right) if isinstance(node, Call)]
        if any(isinstance(call.operator.flow, Rotation) for call in calls):
            slowing = [
                call for call in calls
                if isinstance(call.operator.flow, Flow) and call.argument(call.operator.flow.evolves) == field
            ]  # fmt: skip
            arguments = [argument for call in slowing for argument in call.arguments]
            turned[field] = [a for a in arguments if isinstance(a, Positive) and has_unit(a, "1/s")]
    return turned


def strongest(tendency: Tendency) -> dict[str, float]:
    """Return the largest diffusivity, hyperdiffusivity and sum of rates of a system, numbers and statics included."""
    values = dict(zip([s.name for s in tendency.coefficients.symbols], tendency.coefficients().tolist(), strict=True))
    strongest_values = dict.fromkeys(KINDS, 0.0)
    sizes = {**tendency.static_sizes(), **{name: (value, value) for name, value in values.items()}}
    for field, right in tendency.equations.items():
        entering, present = weights(right, sizes), fixed(field, right, sizes)
        for name, unit in KINDS.items():
            here = present[name] + sum(size * values[s.name] for s, size in entering.items() if has_unit(s, unit))
            strongest_values[name] = max(strongest_values[name], here)
    return strongest_values


def _made(grid: Grid2D, dt: float, count: int, max_wind: float, fixed: float) -> Limits:
    return Limits(
        dt=dt,
        substeps=count,
        max_wind=max_wind,
        room=max(count, 1) / dt - fixed,
        dx=float(grid.dx.min()),
        dy=grid.dy,
        rotation=float(abs(grid.f).max()),
    )


def _sizes(system: PDESystem, grid: Grid2D, statics: Mapping[str, ArrayLike]) -> Sizes:
    """Return the amounts of the statics of a system; refuse terms whose coefficient is known neither here nor there."""
    present = {name: values for name, values in statics.items() if name in {s.name for s in system.statics}}
    sizes = static_sizes(
        grid, {name: static_values(name, array, (grid.ny, grid.nx)) for name, array in present.items()}
    )
    blind = unseen(system.equations, sizes)
    if blind:
        raise StabilityError(
            f"limits of wind, mixing and relaxation do not hold for '{system.name}': {'; '.join(blind)}",
            do="pass the arrays of its statics as for compile, statics={…}; else compile without limits, with a step "
            "below stability.stable_time_step(tendency, state=…)",
        )
    return sizes


def static_sizes(grid: Grid2D, arrays: Mapping[str, NDArray[np.float64]]) -> dict[str, tuple[float, float]]:
    """Return the least and largest amount of each static that the grid has or that was passed."""
    supplied = {**{name: getattr(grid, name) for name in ROW_STATICS}, "rim_rate": grid.rim_rate()}
    amounts = {name: np.abs(array) for name, array in {**supplied, **arrays}.items()}
    return {name: (float(array.min()), float(array.max())) for name, array in amounts.items()}


def _has_room(limits: Limits, system: PDESystem, sizes: Sizes) -> bool:
    try:
        caps = limits.caps(system.equations, sizes)
    except StabilityError:
        return False
    return all(HEADROOM * s.init <= caps.get(s.name, math.inf) for s in system.coefficients)
