r"""Rules that bound how far one Euler step may move a field.

With :math:`d = \Delta t\, F(x)` the unscaled increment of one channel of one sample, :math:`R = \max x - \min x` its
range over the grid, and :math:`P = \max |d|`:

``range``
    :math:`\rho R\, d / (P + \varepsilon)`: the increment is scaled to a fixed share of the range, up or down. Zero
    stays zero, a sample knows nothing of its batch, but the time step cancels.
``limiter``
    :math:`\min(1, \rho R / P)\, d`: an increment beyond the share is shrunk to it, others are untouched.
``weathergft``
    :math:`a + (b - a)(d - \min d)/(\max d - \min d)` with :math:`a = \rho(\min x - \bar x)` and
    :math:`b = \rho(\max x - \bar x)`, statistics over the whole batch, the update detached: as published with
    WeatherGFT, for comparison only. It moves cells whose tendency is zero, and a uniform tendency gives NaN.

The range is detached in every rule: it is the yardstick, not a way to change the field (``paper silent:`` the choice
is that gradients flow through the increment alone). A flat field has range 0 and, under a rule, does not move.

References
----------
Xu et al. (2024), Adv. Neural Inf. Process. Syst. 37 (WeatherGFT), arXiv:2405.13796
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["DEFAULT_RHO", "RULES", "Rule", "bounded_factor", "scaled"]

Rule = Literal["range", "limiter", "none", "weathergft"]
RULES: tuple[Rule, ...] = ("range", "limiter", "none", "weathergft")
DEFAULT_RHO = {"range": 0.05, "limiter": 0.25, "none": 0.0, "weathergft": 0.05}

GRID = (-2, -1)
# Share of the range below which a whole channel counts as not moving: it bounds the gain of `range`, which would
# otherwise be infinite, and with it the gradient, where a channel has no tendency at all.
QUIET = 1e-6


def scaled(
    increment: Float[Tensor, "batch field y x"], state: Float[Tensor, "batch field y x"], rule: Rule, rho: float
) -> Float[Tensor, "batch field y x"]:
    """Return the increment under a rule; ``none`` returns it as it is."""
    match rule:
        case "range":
            return _to_range(increment, state, rho)
        case "limiter":
            return _limited(increment, state, rho)
        case "weathergft":
            return _affine(increment, state, rho)
        case "none":
            return increment


def bounded_factor(gamma: Float[Tensor, " field"]) -> Float[Tensor, " field"]:
    """Return γ limited to [0, 1], where a stable step stays stable.

    The gradient passes as if there were no limit (detached difference), so that a γ pushed outside can come back.
    """
    return gamma - (gamma - gamma.clamp(0.0, 1.0)).detach()


def _range(state: Tensor) -> Tensor:
    state = state.detach()  # the yardstick of the rule, see the module's docstring
    return state.amax(GRID, keepdim=True) - state.amin(GRID, keepdim=True)


def _to_range(increment: Tensor, state: Tensor, rho: float) -> Tensor:
    reach = _range(state)
    peak = increment.abs().amax(GRID, keepdim=True)
    return increment * (rho * reach / (peak + QUIET * reach + torch.finfo(state.dtype).tiny))


def _limited(increment: Tensor, state: Tensor, rho: float) -> Tensor:
    most = rho * _range(state)
    peak = increment.abs().amax(GRID, keepdim=True)
    beyond = peak > most
    # Written so that the untaken branch has a finite derivative too.
    share = torch.where(beyond, most / torch.where(beyond, peak, 1.0), 1.0)
    return increment * share


def _affine(increment: Tensor, state: Tensor, rho: float) -> Tensor:
    everywhere = (0, *GRID)
    low, high = (statistic(increment, everywhere, keepdim=True) for statistic in (torch.amin, torch.amax))
    mean = state.mean(everywhere, keepdim=True)
    start = rho * (state.amin(everywhere, keepdim=True) - mean)
    stop = rho * (state.amax(everywhere, keepdim=True) - mean)
    update = start + (stop - start) * (increment - low) / (high - low)
    return update.detach()  # as published: the physics gets no gradient
