r"""The physical branch: K sub-steps of the surface equations over one forecast interval.

.. math:: X^{(r+1)} = X^{(r)} + \gamma \odot \mathrm{Scale}\bigl(\Delta t\, \mathcal F(X^{(r)}); X^{(r)}\bigr),
          \qquad r = 0, \dots, K - 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from pde_ops import Grid2D, PDESystem, integrators, stability
from pde_ops.integrators.range_scaled_euler import RangeScaledEuler, Rates
from pde_ops.integrators.scaling import bounded_factor
from stationpde.config import Config, unneeded_terms
from stationpde.model.closure import Closure
from stationpde.model.extended_terms import ExtendedTerms
from stationpde.model.first_layers import Ahead, LeadConditions
from stationpde.model.interval_kernel import Course, call_of
from stationpde.model.prepared_drive import PreparedDrive
from stationpde.model.residual import PhysicsResidual
from stationpde.model.scaling import Scaling
from stationpde.model.terms_kernel import Surroundings
from stationpde.model.upper_air import Aloft
from stationpde.physics import STATE, WIND, P, equations, upper_air

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

__all__ = ["Forcing", "PDEBranch", "has_base", "residual_of", "system_of", "unforced_system_of"]

# κΔt/Δx² at the start, a small part of what is stable: diffusion is learned, not imposed.
DIFFUSION_NUMBER = 0.01
# Share of what exceeds saturation that a long sub-step condenses at the start.
CONDENSED_SHARE = 0.5
# Friction of long sub-steps at the start, in parts of the least that keeps a turning wind from growing.
ABOVE_FLOOR = 1.5

C = len(STATE)
_BASE = tuple(f"{name}_b" for name in STATE)
_CENTRED = "advection_central2"


def system_of(config: Config, grid: Grid2D) -> PDESystem:
    """Return the equations of a configuration, with initial coefficients that suit the grid."""
    start = _start(config, grid)
    system = _assembled(config, start)
    if config.pde.rule != "none":
        return system
    limits = _limits(config, grid, system)
    floor = max(limits.floors(system.equations).values(), default=0.0)
    return system if start.friction > floor else _assembled(config, replace(start, friction=ABOVE_FLOOR * floor))


def _assembled(config: Config, start: equations.Coefficients) -> PDESystem:
    pde = config.pde
    advection = "advection" if pde.advection == "semi_lagrangian" else pde.advection
    if has_base(config):
        system = equations.anomaly(start, advection, pde.pressure_gradient or config.steered_by is not None)
    else:
        system = equations.surface(start, advection)
    if config.extended_terms:
        system = equations.extended(system, config.extended_terms)
    if config.steered_by is not None:
        system = upper_air.with_upper_air(system, start, advection, placebo=config.steered_by == "other wind")
    driven = driven_names(config)
    unresolved = {closure.name for closure in system.closures if closure.name.startswith("S_")}
    unneeded = unneeded_terms(config.data.missing, system.term_names)
    removed = [*sorted(unresolved.difference(driven)), *pde.without, *unneeded]
    return system.without(*removed) if removed else system


def unforced_system_of(config: Config, grid: Grid2D) -> PDESystem:
    """Return the equations of a configuration without what networks add to them, with centred advection.

    The residual of fields that are an interval apart is of second order in time, and no step has to be stable.
    """
    start = _start(config, grid)
    if has_base(config):
        system = equations.anomaly(start, _CENTRED, config.pde.pressure_gradient)
    else:
        system = equations.surface(start, _CENTRED)
    names = system.term_names
    # A scheme of advection stands for its family; terms that only networks drive are not there to be taken out.
    unwanted = {name if name in names else "advection" if "advection" in name else "" for name in config.pde.without}
    driven = {closure.name for closure in system.closures if closure.name not in _BASE}
    removed = sorted((unwanted | driven | set(unneeded_terms(config.data.missing, names))) & names)
    return system.without(*removed) if removed else system


def residual_of(config: Config, grid: Grid2D, scaling: Scaling, longitude: NDArray[np.float64]) -> PhysicsResidual:
    """Return the residual of the equations of a configuration, in parts of the scale of each field.

    ``longitude`` is that of each column, degrees.
    """
    return PhysicsResidual(
        unforced_system_of(config, grid), grid, scaling.scale.flatten(), config.data.step_seconds,
        torch.as_tensor(longitude, dtype=torch.float32), config.pde.backend,
    )  # fmt: skip


def _limits(config: Config, grid: Grid2D, system: PDESystem) -> stability.Limits:
    """Return how a sub-step is divided so that plain Euler steps are stable; semi-Lagrangian transport needs none."""
    wind = 0.0 if config.pde.advection == "semi_lagrangian" else config.pde.max_wind
    return stability.limits(grid, config.pde.dt, max_wind=wind, system=system)


def _start(config: Config, grid: Grid2D) -> equations.Coefficients:
    """Return where coefficients start; condensation is slower where a sub-step is long and not divided."""
    pde, condensation = config.pde, equations.START.condensation
    spacing = min(float(np.min(grid.dx)), grid.dy)
    # Stability limits cap condensation as well; the scale rules have none, and an Euler step must not pass saturation.
    fastest = None if pde.rule == "none" else 1.0 / pde.dt
    if fastest is not None and condensation >= fastest:
        condensation = CONDENSED_SHARE * fastest
    if pde.advection == "semi_lagrangian":
        condensation = min(condensation, CONDENSED_SHARE / pde.dt)
    return equations.Coefficients(DIFFUSION_NUMBER * spacing**2 / pde.dt, condensation=condensation, fastest=fastest)


def has_base(config: Config) -> bool:
    """Return whether the fields are departures from a base state."""
    return config.model.state == "anomaly"


def closure_channels(config: Config) -> tuple[str, ...]:
    """Return the names of the channels that the closure network drives."""
    if not config.model.closure:
        return ()
    return STATE if config.model.closure_form == "held" and has_base(config) else STATE[WIND.stop :]


def driven_names(config: Config) -> tuple[str, ...]:
    """Return the names of the terms that networks and regressions compute: the closure, and extending terms."""
    closure = [f"S_{name}" for name in closure_channels(config)]
    return (*closure, *(equations.term_of(term, name) for term in config.extended_terms for name in STATE))


def _field_of(name: str) -> str:
    """Return the field whose equation has a driven term: ``S_theta`` → ``theta``."""
    return name.partition("_")[2]


@dataclass(frozen=True, slots=True, eq=False)
class Forcing:
    """Inputs of the equations that stay the same over one forecast interval.

    Attributes
    ----------
    base : base state, SI; None where the equations need none
    gain : what driven terms add to the channels that have any, SI per second; None where they are computed at every
        sub-step, or there are none
    decay : rate of decay of the same channels, per second, or None
    conditions : B_t, from which driven terms are computed at every sub-step; else None
    aloft : what the upper layer is supplied with (`Aloft`), or None
    """

    base: Float[Tensor, "batch field y x"] | None
    gain: Float[Tensor, "batch driven y x"] | None = None
    decay: Float[Tensor, "batch driven y x"] | None = None
    conditions: Float[Tensor, "batch condition y x"] | None = None
    aloft: Float[Tensor, "batch supplied y x"] | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Return those there are: ``base``, ``aloft``, and ``drive`` for gain and decay, joined, or the conditions."""
        tensors = {} if self.base is None else {"base": self.base}
        if self.aloft is not None:
            tensors["aloft"] = self.aloft
        if self.conditions is not None:
            tensors["drive"] = self.conditions
        elif self.gain is not None:
            tensors["drive"] = self.gain if self.decay is None else torch.cat([self.gain, self.decay], dim=1)
        return tensors


class PDEBranch(nn.Module):
    """Equations that advance the field by one forecast interval, in SI.

    Parameters
    ----------
    config : equations, integration and closure
    grid : of the fields
    conditions : number of channels of B_t

    Attributes
    ----------
    driven : names of the terms that `sources` computes, in order
    channels : numbers of the state's channels from the first that has a driven term
    bases : names of the base-state closures that the equations need
    """

    def __init__(self, config: Config, grid: Grid2D, conditions: int) -> None:
        super().__init__()
        pde = config.pde
        self.substeps, self.dt = config.substeps, pde.dt
        self.every_substep = config.model.closure_form == "printed"
        self.split = config.model.closure_form == "held"
        unresolved = closure_channels(config)
        self.closure = Closure(unresolved, conditions, config.model.hidden) if unresolved else None
        terms = config.extended_terms
        system = system_of(config, grid)
        there = {closure.name for closure in system.closures}
        self.driven = tuple(name for name in driven_names(config) if name in there)
        self.extended = None
        if terms:
            self.extended = ExtendedTerms(terms, grid, config.data.step_seconds, set(driven_names(config)) - there)
        first = min((STATE.index(_field_of(name)) for name in self.driven), default=len(STATE))
        self.channels = list(range(first, len(STATE)))
        # Under a split γ driven terms have a factor of their own, and are added outside the equations.
        system = system.without(*self.driven) if self.split and self.driven else system
        self.semi_lagrangian = pde.advection == "semi_lagrangian"
        limits = _limits(config, grid, system) if pde.rule == "none" else None
        self.tendency = system.compile(
            grid,
            backend=pde.backend,
            limits=limits,
            semi_lagrangian=self.semi_lagrangian,
        )
        self.bases = [name for name in self.tendency.closure_names if name in _BASE]
        self.aloft: Aloft | None = None
        if config.steered_by is not None:
            self.aloft = Aloft(grid, self.tendency.closure_names, "sun" in config.model.inputs)
        if self.semi_lagrangian:
            self.step = integrators["semi_lagrangian"](self.tendency, pde.dt, handled=frozenset({"outer"}))
            self.gamma = nn.Parameter(torch.ones(len(STATE)))
        else:
            self.step = RangeScaledEuler(self.tendency, pde.dt, rule=pde.rule, handled=frozenset({"outer"}))
        self.marches = pde.rule == "none" and not (self.semi_lagrangian or self.every_substep)
        if self.split and self.channels:
            self.gamma_closure = nn.Parameter(torch.ones(len(self.channels)))
        self._start_factors(pde.update_start)
        # Decay would pull a factor to 0, that is switch the physics off.
        self.undecayed = tuple(name for name in ("gamma", "gamma_closure") if name in self._parameters)

    @torch.no_grad()
    def _start_factors(self, start: float) -> None:
        """Set γ of wind and pressure before the first step; elsewhere it starts at 1."""
        gamma: Tensor = self.gamma if self.semi_lagrangian else self.step.gamma  # type: ignore[assignment]
        gamma[[*range(WIND.stop), P]] = start

    def forward(
        self,
        field: Float[Tensor, "batch field y x"],
        base: Float[Tensor, "batch field y x"] | None,
        conditions: Float[Tensor, "batch condition y x"],
        scaling: Scaling,
        tendencies: Float[Tensor, "batch memory y x"] | None = None,
        lead: int | Tensor = 1,
    ) -> Float[Tensor, "batch field y x"]:
        """Return the physical forecast of the next field, scaled.

        Parameters
        ----------
        field : scaled
        base : base state, SI, where the field is a departure from it
        conditions : B_t
        scaling : scales fields in SI for networks
        tendencies : changes of the lifted field, scaled, for the term ``memory``; zero where None
        lead : of the end of the interval, in steps
        """
        if isinstance(conditions, LeadConditions) and (prepared := conditions.prepared.get(self)) is not None:
            return self._prepared(prepared, field, base, conditions, scaling)
        state = scaling.inverse(field)
        forcing = self.forcing(state, base, conditions, scaling, tendencies, lead)
        if self.marches:
            return scaling(self._march(state, self._closures(forcing, state), *self._beside(state, forcing)))
        for _ in range(self.substeps):
            state = self.substep(state, forcing, scaling)
        return scaling(state)

    def _prepared(
        self, prepared: PreparedDrive, field: Tensor, base: Tensor | None, conditions: LeadConditions, scaling: Scaling
    ) -> Tensor:
        """Return the next field, scaled, from what `prepare` has prepared."""
        if prepared.course is not None and field.dtype == prepared.course.dtype and field.shape[0]:
            network = None if self.closure is None else conditions.prepared[self.closure]
            return prepared.march(prepared.course, field, network, conditions)
        surface, number = self._surface(field), conditions.number
        closure = None if self.closure is None else self.closure.unbounded(surface, conditions)
        added, decay = map(self._with_column, prepared.drive(surface, closure, number))
        aloft, state = None if prepared.aloft is None else prepared.aloft[number], scaling.inverse(field)
        closures = self._closures(Forcing(base if self.bases else None, aloft=aloft), state)
        return scaling(self._march(state, closures, added, decay, prepared.rates))

    def forcing(
        self, state: Tensor, base: Tensor | None, conditions: Tensor, scaling: Scaling,
        tendencies: Tensor | None = None, lead: int | Tensor = 1,
    ) -> Forcing:  # fmt: skip
        """Return what drives the equations over the interval that starts with ``state``; arguments as in `forward`."""
        aloft = None
        if self.aloft is not None:
            assert base is not None  # the upper layer is one of departures
            aloft = self.aloft(base, conditions)
        base = base if self.bases else None
        if self.every_substep:
            return Forcing(base, conditions=conditions if self.driven else None, aloft=aloft)
        gain, decay = self._drive(self._surface(scaling(state)), conditions, scaling, tendencies, lead)
        return Forcing(base, gain, decay, aloft=aloft)

    def forcing_from(self, tensors: Mapping[str, Tensor]) -> Forcing:
        """Rebuild a forcing from its tensors."""
        base, drive, aloft = (tensors.get(name) for name in ("base", "drive", "aloft"))
        if self.every_substep:
            return Forcing(base, conditions=drive, aloft=aloft)
        count = len(self.channels)
        if drive is None or drive.shape[1] == count:
            return Forcing(base, drive, aloft=aloft)
        return Forcing(base, drive[:, :count], drive[:, count:], aloft=aloft)

    def _drive(
        self, scaled: Tensor, conditions: Tensor, scaling: Scaling, tendencies: Tensor | None, lead: int | Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return what the driven terms of each equation add up to, S + G + M + Q, and the rate λ of its decay."""
        if not self.driven:
            return None, None
        gain = None if self.closure is None else self._closure_gain(self.closure, scaled, conditions)
        if self.extended is None:
            return gain, None
        if tendencies is None:
            tendencies = scaled.new_zeros(scaled.shape[0], self.extended.memories, *scaled.shape[2:])
        first, seconds = self.channels[0], self.substeps * self.dt
        extra, decay = self.extended(scaled, conditions, tendencies, lead)
        if extra is not None:
            extra = (extra * (scaling.scale[:C] / seconds))[:, first:]
            gain = extra if gain is None else gain + extra
        if gain is None:
            gain = torch.zeros_like(scaled[:, first:])
        return gain, None if decay is None else decay[:, first:] / seconds

    def _closure_gain(self, closure: Closure, scaled: Tensor, conditions: Tensor) -> Tensor | None:
        """Return the closure by channel; zero where the equations have no such term."""
        names, closures = [f"S_{STATE[channel]}" for channel in self.channels], closure(scaled, conditions)
        if names == [f"S_{name}" for name in closure.channels] and set(names) <= set(self.driven):
            stack: Tensor = closures
            return stack
        terms = closure.by_name(closures)
        columns = [terms[name] if name in self.driven else None for name in names]
        if not any(column is not None for column in columns):
            return None
        nothing = torch.zeros_like(scaled[:, 0]) if None in columns else scaled
        return torch.stack([nothing if column is None else column for column in columns], dim=1)

    def substep(self, state: Tensor, forcing: Forcing, scaling: Scaling) -> Tensor:
        """Advance the state by one sub-step; K of these are an interval."""
        closures = self._closures(forcing, state)
        if forcing.conditions is not None:
            assert self.closure is not None  # all that is computed at every sub-step
            terms = self.closure.by_name(self.closure(self._surface(scaling(state)), forcing.conditions))
            closures |= {name: terms[name] for name in self.driven}
        later: Tensor = self.step(state, closures)
        if self.semi_lagrangian:
            later = state + bounded_factor(self.gamma)[:, None, None] * (later - state)
        added, decay = self._beside(state, forcing)
        if added is None:
            return later
        return later + (added if decay is None else added - decay * state)

    def _march(
        self, state: Tensor, closures: dict[str, Tensor], added: Tensor | None, decay: Tensor | None,
        rates: Rates | None = None,
    ) -> Tensor:  # fmt: skip
        """Advance the state by all sub-steps at once, where nothing but the state changes between them."""
        assert isinstance(self.step, RangeScaledEuler)
        return self.step.march(state, closures, self.substeps, added, decay, rates)

    def prepare(
        self, ahead: Ahead, scaling: Scaling, tendencies: Tensor | None,
        bases: Float[Tensor, "lead batch channel y x"] | None,
    ) -> PreparedDrive | None:  # fmt: skip
        """Prepare all that the intervals of a forecast share; None where driven terms do not fit one march.

        Arguments are those of `forward`, with the base states of all leads.
        """
        if not (self.marches and self.split and len(self.channels) == C and self._is_closure_whole()):
            return None
        assert isinstance(self.step, RangeScaledEuler)
        factor, seconds = self.dt * self.gamma_closure, self.substeps * self.dt
        scale = scaling.scale.flatten()[:C]
        closure = None if self.closure is None else factor * self.closure.scale
        terms = None
        if self.extended is not None:
            terms = self.extended.prepare(ahead, tendencies, factor * scale / seconds, factor / seconds)
        rates = self.step.rates()
        course = self._course(ahead, scaling, bases, rates[0], None if terms is None else terms.surroundings)
        aloft = None
        if self.aloft is not None:
            assert bases is not None  # the upper layer is one of departures
            aloft = self.aloft(bases, ahead.fields).unbind(0)
        return PreparedDrive(rates, closure, terms, course, aloft)

    def _course(
        self, ahead: Ahead, scaling: Scaling, bases: Tensor | None, coefficients: Tensor,
        surroundings: Surroundings | None,
    ) -> Course | None:  # fmt: skip
        """Return how one compiled function takes an interval; None where it cannot, and with an upper layer."""
        if self.aloft is not None:
            return None
        leads, batch, _, *grid = ahead.fields.shape
        like, scale = ahead.fields.new_empty(batch, C, *grid), scaling.scale.flatten()
        dtypes = {like.dtype, scale.dtype, coefficients.dtype}
        if not batch or len(dtypes) > 1 or (bases is not None and (bases.requires_grad or bases.dtype != like.dtype)):
            return None
        if bases is None:
            bases = like.new_empty(leads, batch, 0, *grid)
        channels = [STATE.index(name.removesuffix("_b")) for name in self.bases]
        assert isinstance(self.step, RangeScaledEuler)
        parts, closures = self.step.substeps, {n: bases[0, :, c] for n, c in zip(self.bases, channels, strict=True)}
        call = call_of(self.tendency, like, closures, coefficients, self.dt / parts)
        if call is None:
            return None
        pattern = (self.substeps * parts, parts)
        return Course.of(call, pattern, (scale, scaling.centre.flatten()), surroundings, bases, channels)

    def _is_closure_whole(self) -> bool:
        """Return whether every equation has its closure, or none has."""
        names = {f"S_{name}" for name in STATE}
        return self.closure is None or (self.closure.channels == STATE and names <= set(self.driven))

    def _beside(self, state: Tensor, forcing: Forcing) -> tuple[Tensor | None, Tensor | None]:
        """Return what a sub-step adds outside the equations, and the share of the state that decays, all channels."""
        if forcing.gain is None:
            return None, None
        factor, first = (self.dt * self.gamma_closure)[:, None, None], self.channels[0]
        nothing = torch.zeros_like(state[:, :first]) if first else None
        added, decay = (
            values if values is None or nothing is None else torch.cat([nothing, values], dim=1)
            for values in (forcing.gain * factor, None if forcing.decay is None else forcing.decay * factor)
        )
        return self._with_column(added), self._with_column(decay)

    def _surface(self, fields: Tensor) -> Tensor:
        """Return the fields that networks see: without the column of the upper layer."""
        return fields if self.aloft is None else fields[:, :C]

    def _with_column(self, values: Tensor | None) -> Tensor | None:
        """Append nothing for the column of the upper layer, which has no driven terms, if there is one."""
        if values is None or self.aloft is None:
            return values
        return torch.cat([values, torch.zeros_like(values[:, :1])], dim=1)

    def _closures(self, forcing: Forcing, state: Tensor) -> dict[str, Tensor]:
        closures = self._base_closures(forcing)
        if self.aloft is not None:
            assert forcing.aloft is not None
            closures |= self.aloft.closures(forcing.aloft, state)
        return closures

    def _base_closures(self, forcing: Forcing) -> dict[str, Tensor]:
        if forcing.base is None:
            return {}
        return {name: forcing.base[:, STATE.index(name.removesuffix("_b"))] for name in self.bases}

    @torch.no_grad()
    def factors(self) -> dict[str, float]:
        """Return the learned update factors by channel, bounded as in the step."""
        gamma: Tensor = self.gamma if self.semi_lagrangian else self.step.gamma  # type: ignore[assignment]
        if self.tendency.limits is not None:
            gamma = bounded_factor(gamma)
        names = self.tendency.field_names
        factors = {f"gamma_{name}": float(value) for name, value in zip(names, gamma, strict=True)}
        if self.split and self.channels:
            closure = zip(self.channels, self.gamma_closure, strict=True)
            factors |= {f"gamma_S_{STATE[channel]}": float(value) for channel, value in closure}
        return factors
