"""Euler whose increment is scaled by a rule, or divided into a fixed number of stable sub-steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..backends import March
from ..errors import DeclarationError, StabilityError
from ..tendency import Tendency
from .base import Closures, Integrator, register
from .scaling import DEFAULT_RHO, RULES, Rule, bounded_factor, scaled

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["RangeScaledEuler", "Rates"]

Rates = tuple[Tensor | None, Tensor]  # coefficients [coefficient] in SI, or None for those of now; factors [field]


@register("range_scaled_euler")
class RangeScaledEuler(Integrator):
    r"""Euler with a scale rule and a learnable factor per field.

    .. math:: x^{n+1} = x^n + \gamma \odot \mathrm{Scale}\left(\Delta t\, F(x^n);\, x^n\right)

    The rules ``range``, ``limiter`` and ``weathergft`` are defined in :mod:`pde_ops.integrators.scaling`. The rule
    ``none`` takes :math:`n` plain Euler sub-steps of :math:`\Delta t / n`, with :math:`n` fixed by the limits that the
    tendency was compiled with; they also clamp the advecting wind and cap the coefficients, and :math:`\gamma` is
    bounded to [0, 1], so that every sub-step is stable. Learned coefficients are physical rates only under ``limiter``
    and ``none``.

    Parameters
    ----------
    rule : ``"range"``, ``"limiter"``, ``"none"`` or ``"weathergft"``
    rho : share of the range of a field that one step may cover; 0.05, for the limiter 0.25

    Attributes
    ----------
    gamma : factor of each field, ones at the start; not subject to weight decay
    order : first order under ``none``, and under ``limiter`` where it does not act

    References
    ----------
    Xu et al. (2024), Adv. Neural Inf. Process. Syst. 37 (WeatherGFT), arXiv:2405.13796
    """

    order = 1
    polynomial = (1.0, 1.0)
    undecayed = ("gamma",)  # decay would pull it to 0, that is switch the physics off

    def __init__(
        self,
        tendency: Tendency,
        dt: float,
        *,
        rule: Rule = "range",
        rho: float | None = None,
        handled: frozenset[str] = frozenset(),
    ) -> None:
        if rule not in RULES:
            raise DeclarationError(f"{self.name}: unknown rule {rule!r}", do=f"choose one of {', '.join(RULES)}")
        self.rule: Rule = rule
        super().__init__(tendency, dt, handled=handled)
        self.rho = DEFAULT_RHO[rule] if rho is None else float(rho)
        if rule != "none" and not (math.isfinite(self.rho) and self.rho > 0.0):
            raise StabilityError(f"{self.name}: `rho` must be finite and above 0, not {rho}")
        raw = tendency.coefficients.raw
        self.gamma = nn.Parameter(torch.ones(len(tendency.fields), dtype=raw.dtype, device=raw.device))
        self.substeps = tendency.limits.substeps if rule == "none" and tendency.limits is not None else 1
        self.batch_independent = rule != "weathergft"  # whose statistics mix the samples of a batch

    def forward(
        self, state: Float[Tensor, "batch field y x"], closures: Closures | None = None
    ) -> Float[Tensor, "batch field y x"]:
        """Return the state ``dt`` seconds later."""
        if self.rule == "none":
            return self.march(state, closures, 1)
        fused = getattr(self.tendency.runner, "scaled_advance", None)
        if fused is not None and self.rule != "weathergft":
            advanced: Tensor = fused(self.tendency.inputs(state, closures), self.dt, self.gamma, self.rule, self.rho)
            return advanced
        increment = self.dt * self.tendency(state, closures)
        return state + self.gamma[:, None, None] * scaled(increment, state, self.rule, self.rho)

    def march(
        self,
        state: Float[Tensor, "batch field y x"],
        closures: Closures | None,
        times: int,
        added: Float[Tensor, "batch field y x"] | None = None,
        decay: Float[Tensor, "batch field y x"] | None = None,
        rates: Rates | None = None,
    ) -> Float[Tensor, "batch field y x"]:
        """Return the state ``times`` steps later under the rule ``none``.

        After each of them ``added`` is put on it, and ``decay`` times the state before the step taken off. ``rates``
        are those of `rates`, for a caller who marches several times with the same parameters.
        """
        if self.rule != "none":
            raise DeclarationError(f"{self.name}: rule '{self.rule}' has to look at every step", do="call the step")
        parts, (coefficients, factor) = self.substeps, rates or (None, bounded_factor(self.gamma))
        march = March(self.dt / parts, times * parts, factor, added, parts, decay, coefficients)
        return self.tendency.march(state, closures, march)

    def rates(self) -> tuple[Tensor, Tensor]:
        """Return the coefficients in SI and the bounded factors of now."""
        return self.tendency.coefficients(), bounded_factor(self.gamma)

    @property
    def longest_step(self) -> float:
        """The whole step of the limits under ``none``, which sub-steps; the other rules bound the increment."""
        limits = self.tendency.limits
        return limits.dt if limits is not None and self.rule == "none" else math.inf

    def _check_limits(self) -> None:
        if self.rule == "none" and self.tendency.limits is None:
            raise StabilityError(
                f"{self.name}: rule 'none' takes its number of sub-steps from limits, and the tendency has none",
                do=f"compile(grid, limits=stability.limits(grid, dt={self.dt:g}))",
            )
        super()._check_limits()

    def extra_repr(self) -> str:
        how = f"{self.substeps} sub-steps" if self.rule == "none" else f"rho={self.rho:g}"
        return f"{super().extra_repr()}, rule={self.rule}, {how}"
