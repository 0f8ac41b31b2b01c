r"""The losses: in the normalised state, and in observed variables; masked, and exact over any number of ranks.

.. math::

   \mathcal L_{state} = \frac{1}{\sum_c w_c} \sum_c w_c \langle | \Psi(\hat S) - \Psi(S) |_{norm}^{(c)} \rangle, \qquad
   \mathcal L_{obs} = \frac{1}{\sum_j v_j} \sum_j v_j \Bigl\langle \frac{|\hat S - S|^{(j)}}{s_j} \Bigr\rangle, \qquad
   \mathcal L = \mathcal L_{state} + \lambda_{obs} \mathcal L_{obs}

the brackets being the mean over observed values and :math:`s_j` the standard deviation of the batch's targets.
Every mean is a quotient of sums, and every sum goes through the reducer, so that the batch may lie on several ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stationpde.config import DataSection, LossSection
from stationpde.model.learner import Reducer
from stationpde.model.residual import Course, PhysicsResidual
from stationpde.physics import OBSERVED, STATE

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Losses", "masked_losses", "with_residual"]

# Smallest s_j, SI: a batch of equal targets must not divide by zero.
_FLOORS = (0.1, 0.1, 10.0, 0.1, 0.005)
_SCORED_STATE = {"u": "u", "v": "v", "p": "p", "t": "theta", "rh": "q"}


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Scalars of a batch; ``courant``, the largest Courant number of the forecast wind, is only shown.

    ``residual`` is that of the equations on the forecast fields, where `loss.residual` asks for it.
    """

    total: Tensor
    state: Tensor
    observed: Tensor
    courant: Tensor
    residual: Tensor | None = None


def masked_losses(
    observed: Float[Tensor, "batch lead station channel"],
    state: Float[Tensor, "batch lead station channel"],
    target: Float[Tensor, "batch lead station channel"],
    target_state: Float[Tensor, "batch lead station channel"],
    scale: Float[Tensor, "station channel"],
    section: LossSection,
    data: DataSection,
    reducer: Reducer,
    courant: Tensor,
) -> Losses:
    """Return the losses of a forecast; targets are NaN where nothing was observed.

    Parameters
    ----------
    observed, state : the forecast in observed variables and as a state, SI
    target, target_state : the same of the observations
    scale : of the state's channels at each station, SI
    section, data : of the configuration
    reducer : adds up the ranks of a batch
    courant : passed on to the result
    """
    unobserved = set(OBSERVED) - set(data.scored)
    no_weight = {_SCORED_STATE[name]: 0.0 for name in unobserved}
    state_weights = _weights(STATE, no_weight, state)
    observed_weights = _weights(OBSERVED, dict.fromkeys(unobserved, 0.0), state)
    in_state = _mean_error(state, target_state, scale, section.kind, state_weights, reducer)
    if section.observed == 0.0:
        return Losses(in_state, in_state.detach(), torch.zeros_like(in_state), courant)
    spread = _batch_std(target, reducer)
    in_observed = _mean_error(observed, target, spread, section.kind, observed_weights, reducer)
    total = in_state + section.observed * in_observed
    return Losses(total, in_state.detach(), in_observed.detach(), courant)


def with_residual(
    losses: Losses,
    residual: PhysicsResidual,
    courses: tuple[Course, Course],
    weight: float,
    data: DataSection,
    reducer: Reducer,
) -> Losses:
    """Add λ times the residual of the forecast to the losses, and that of the observations, which trains its terms.

    Parameters
    ----------
    courses : of the forecast, and of what was observed
    weight : λ
    """
    of_forecast, of_observed = residual.loss(*courses, scored_state(data, losses.total), reducer)
    total = losses.total + weight * (of_forecast + of_observed)
    return replace(losses, total=total, residual=of_forecast.detach())


def scored_state(data: DataSection, like: Tensor) -> Float[Tensor, " channel"]:
    """Return 1 for each channel of the state whose observed variable is scored, else 0."""
    return _weights(STATE, {_SCORED_STATE[name]: 0.0 for name in set(OBSERVED) - set(data.scored)}, like)


def _weights(names: Sequence[str], weights: Mapping[Any, float], like: Tensor) -> Tensor:
    return torch.tensor([weights.get(name, 1.0) for name in names], dtype=like.dtype, device=like.device)


def _mean_error(
    forecast: Tensor, target: Tensor, scale: Tensor, kind: str, weights: Tensor, reducer: Reducer
) -> Tensor:
    """Return the weighted mean over channels of the mean error over observed values."""
    there = torch.isfinite(target)
    # Replaced before anything is subtracted: NaN times zero is NaN, in the loss and in its gradient.
    error = (forecast - torch.where(there, target, forecast.detach())) / scale
    if kind == "l1":
        size = error.abs()
    elif kind == "mse":
        size = error.square()
    else:
        size = torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none")
    dims = tuple(range(size.ndim - 1))
    total = reducer.sum(torch.where(there, size, torch.zeros_like(size)).sum(dims))
    count = reducer.sum(there.sum(dims).to(size.dtype))
    seen = (count > 0).to(weights.dtype) * weights
    return (seen * total / count.clamp(min=1.0)).sum() / seen.sum().clamp(min=torch.finfo(seen.dtype).tiny)


@torch.no_grad()
def _batch_std(target: Tensor, reducer: Reducer) -> Tensor:
    """Return the standard deviation of the targets of the whole batch, by channel; no gradient, as s_j is data."""
    there = torch.isfinite(target)
    # Double, as pressure squared has ten digits before its variance begins.
    values = torch.where(there, target, torch.zeros_like(target)).double()
    dims = tuple(range(values.ndim - 1))
    count = reducer.sum(there.sum(dims).double()).clamp(min=1.0)
    mean = reducer.sum(values.sum(dims)) / count
    away = torch.where(there, values - mean, torch.zeros_like(values))
    spread = (reducer.sum(away.square().sum(dims)) / count).sqrt().to(target.dtype)
    return torch.maximum(spread, torch.tensor(_FLOORS, dtype=target.dtype, device=target.device))
