r"""The physical branch: K sub-steps of the surface equations over one forecast interval.

.. math:: X^{(r+1)} = X^{(r)} + \gamma \odot \mathrm{Scale}\bigl(\Delta t\, \mathcal F(X^{(r)}); X^{(r)}\bigr),
          \qquad r = 0, \dots, K - 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from pde_ops import Grid2D, PDESystem, integrators, stability
from pde_ops.integrators.range_scaled_euler import RangeScaledEuler
from pde_ops.integrators.scaling import bounded_factor
from stationpde import equations
from stationpde.closure import Closure
from stationpde.config import Config
from stationpde.equations import STATE
from stationpde.extended_terms import ExtendedTerms

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["PDEBranch", "system_of"]

_BASE = tuple(f"{name}_b" for name in STATE)


def system_of(config: Config, grid: Grid2D) -> PDESystem:
    """The equations that a configuration asks for, with coefficients that start where the grid makes them sensible."""
    pde = config.pde
    spacing = min(float(np.min(grid.dx)), grid.dy)
    start = equations.Coefficients(
        kappa=pde.diffusion_number * spacing**2 / pde.dt,
        friction=pde.friction,
        condensation=pde.condensation,
        # Stability limits cap it as well; the scale rules have none, and an Euler step must not pass saturation.
        fastest=None if pde.rule == "none" else 1.0 / pde.dt,
    )
    advection = "advection" if pde.advection == "semi_lagrangian" else pde.advection
    if has_base(config):
        system = equations.anomaly(start, advection, pde.latent_heating, pde.pressure_gradient)
    else:
        system = equations.surface(start, advection, pde.latent_heating)
    if config.extended_terms:
        system = equations.extended(system, config.extended_terms)
    driven = driven_names(config)
    unresolved = {closure.name for closure in system.closures if closure.name.startswith("S_")}
    gone = [*sorted(unresolved.difference(driven)), *pde.without]
    return system.without(*gone) if gone else system


def has_base(config: Config) -> bool:
    """Whether the fields are departures from a base state."""
    return config.model.state == "anomaly" or config.model.pressure == "anomaly"


def closure_channels(config: Config) -> tuple[str, ...]:
    """Channels that the closure network drives."""
    if not config.model.closure:
        return ()
    return STATE if config.model.closure_wind and has_base(config) else STATE[2:]


def driven_names(config: Config) -> tuple[str, ...]:
    """What networks and regressions tell the equations in every interval: the closure, and what extends them."""
    closure = [f"S_{name}" for name in closure_channels(config)]
    return (*closure, *(equations.term_of(term, name) for term in config.extended_terms for name in STATE))


def _field_of(name: str) -> str:
    """The field whose equation a driven term stands in: ``S_theta`` → ``theta``."""
    return name.partition("_")[2]


class PDEBranch(nn.Module):
    """Advances the field by one forecast interval, in SI.

    Parameters
    ----------
    conditions : channels of B_t

    Attributes
    ----------
    driven : names of what `sources` computes, in order
    channels : from the first that it reaches on
    """

    def __init__(self, config: Config, grid: Grid2D, conditions: int) -> None:
        super().__init__()
        pde = config.pde
        self.substeps, self.dt = config.substeps, pde.dt
        self.every_substep = config.model.closure_every == "substep"
        self.split = pde.gamma == "split"
        unresolved = closure_channels(config)
        self.closure = Closure(unresolved, conditions, config.model.hidden) if unresolved else None
        terms = config.extended_terms
        self.extended = ExtendedTerms(terms, grid, config.data.step_seconds) if terms else None
        system = system_of(config, grid)
        there = {closure.name for closure in system.closures}
        self.driven = tuple(name for name in driven_names(config) if name in there)
        first = min((STATE.index(_field_of(name)) for name in self.driven), default=len(STATE))
        self.channels = list(range(first, len(STATE)))
        # Under a split γ what is driven has a factor of its own, and is added beside the equations.
        system = system.without(*self.driven) if self.split and self.driven else system
        self.semi_lagrangian = pde.advection == "semi_lagrangian"
        limits = None
        if pde.rule == "none":
            wind = 0.0 if self.semi_lagrangian else pde.max_wind
            limits = stability.limits(grid, pde.dt, max_wind=wind, system=system)
        self.tendency = system.compile(
            grid,
            backend=pde.backend,
            limits=limits,
            exact_flows=pde.exact_flows,
            semi_lagrangian=self.semi_lagrangian,
        )
        self.bases = [name for name in self.tendency.closure_names if name in _BASE]
        if self.semi_lagrangian:
            self.step = integrators["semi_lagrangian"](self.tendency, pde.dt, handled=frozenset({"outer"}))
            self.gamma = nn.Parameter(torch.ones(len(STATE)))
        else:
            handled = frozenset({"flows"}) if self.tendency.flows else frozenset({"outer"})
            self.step = RangeScaledEuler(self.tendency, pde.dt, rule=pde.rule, rho=pde.rho, handled=handled)
        decays = self.split and "relaxation" in terms  # beside the equations, and by a state that changes
        plain = pde.rule == "none" and not (self.semi_lagrangian or self.tendency.flows)
        self.marches = plain and not (self.every_substep or decays)
        if self.split and self.channels:
            self.gamma_closure = nn.Parameter(torch.ones(len(self.channels)))
        # Decay would pull a factor to 0, that is switch the physics off.
        self.undecayed = tuple(name for name in ("gamma", "gamma_closure") if name in self._parameters)

    def forward(
        self,
        state: Float[Tensor, "batch field y x"],
        base: Float[Tensor, "batch field y x"] | None,
        conditions: Float[Tensor, "batch condition y x"],
        scaled: nn.Module,
        tendencies: Float[Tensor, "batch memory y x"] | None = None,
        lead: int | Tensor = 1,
    ) -> Float[Tensor, "batch field y x"]:
        """The physical forecast of the next field; ``scaled`` turns SI into what networks see."""
        given = {name: base[:, STATE.index(name[:-2])] for name in self.bases} if base is not None else {}
        source = self.sources(state, conditions, scaled, tendencies, lead)
        if self.marches:
            return self._marched(state, given, source)
        for substep in range(self.substeps):
            if substep and self.every_substep:
                source = self.sources(state, conditions, scaled)
            state = self._advance(state, given, source)
        return state

    def sources(
        self, state: Tensor, conditions: Tensor, scaled: nn.Module, tendencies: Tensor | None = None,
        lead: int | Tensor = 1,
    ) -> dict[str, Float[Tensor, "batch y x"]]:  # fmt: skip
        """What the equations are given at every interval, SI: the closure, and the terms that extend them."""
        found: dict[str, Tensor] = {} if self.closure is None else self.closure(scaled(state), conditions)
        if self.extended is None:
            return {name: found[name] for name in self.driven}
        if tendencies is None:  # a field without a past gained nothing
            tendencies = state.new_zeros(state.shape[0], self.extended.memories, *state.shape[2:])
        scale: Tensor = scaled.scale  # type: ignore[assignment]
        seconds = self.substeps * self.dt
        for term, values in self.extended(scaled(state), conditions, tendencies, lead).items():
            values = values / seconds if term == "relaxation" else values * (scale / seconds)
            found |= {equations.term_of(term, name): values[:, c] for c, name in enumerate(STATE)}
        return {name: found[name] for name in self.driven}

    def _advance(self, state: Tensor, given: dict[str, Tensor], source: dict[str, Tensor]) -> Tensor:
        inside = given if self.split else {**given, **source}
        later: Tensor = self.step(state, inside)
        if self.semi_lagrangian:
            later = state + bounded_factor(self.gamma)[:, None, None] * (later - state)
        else:
            for index in range(len(self.tendency.flows)):
                later = self.tendency.apply_flow(index, later, inside, self.dt)
        if self.split and source:
            added = self._beside(state, source) * (self.dt * self.gamma_closure[:, None, None])
            if len(self.channels) == len(STATE):
                return later + added
            return torch.cat([later[:, : self.channels[0]], later[:, self.channels[0] :] + added], dim=1)
        return later

    def _marched(self, state: Tensor, given: dict[str, Tensor], source: dict[str, Tensor]) -> Tensor:
        """All sub-steps at once, where nothing but the state changes between them."""
        assert isinstance(self.step, RangeScaledEuler)
        if not (self.split and source):
            return self.step.march(state, {**given, **source}, self.substeps)
        added = self._beside(state, source) * (self.dt * self.gamma_closure[:, None, None])
        if self.channels[0]:
            added = torch.cat([torch.zeros_like(state[:, : self.channels[0]]), added], dim=1)
        return self.step.march(state, given, self.substeps, added)

    def _beside(self, state: Tensor, source: dict[str, Tensor]) -> Float[Tensor, "batch driven y x"]:
        """What the driven terms of the equations come to: S + G + M − λφ + Q."""
        columns: list[Tensor | None] = [None] * len(STATE)
        for name, values in source.items():
            channel = STATE.index(_field_of(name))
            term = -values * state[:, channel] if name.startswith(f"{equations.TERMS['relaxation']}_") else values
            before = columns[channel]
            columns[channel] = term if before is None else before + term
        nothing = torch.zeros_like(state[:, 0])
        return torch.stack([nothing if c is None else c for c in columns[self.channels[0] :]], dim=1)

    @torch.no_grad()
    def factors(self) -> dict[str, float]:
        """The learned update factors by channel, as they act."""
        gamma: Tensor = self.gamma if self.semi_lagrangian else self.step.gamma  # type: ignore[assignment]
        if self.tendency.limits is not None:
            gamma = bounded_factor(gamma)
        found = {f"gamma_{name}": float(value) for name, value in zip(STATE, gamma, strict=True)}
        if self.split and self.channels:
            closure = zip(self.channels, self.gamma_closure, strict=True)
            found |= {f"gamma_S_{STATE[channel]}": float(value) for channel, value in closure}
        return found
