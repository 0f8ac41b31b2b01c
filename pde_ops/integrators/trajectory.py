"""Many steps in a row, with one check at the end that nothing blew up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..arguments import check_count
from ..errors import DivergedError, ShapeError
from .base import Closures, Integrator

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["integrate"]


def integrate(
    step: Integrator,
    state: Float[Tensor, "batch field y x"],
    steps: int,
    closures: Closures | Callable[[int], Closures] | None = None,
    keep: int | None = None,
) -> Tensor:
    """Take several steps; differentiable.

    Parameters
    ----------
    steps : how many, 0 or more
    closures : constant, or a function of the step's number, counted from 0
    keep : return every ``keep``-th state, the initial one included, as ``[time, batch, field, y, x]``; None returns the
        final state alone

    Raises
    ------
    DivergedError
        If a value of the final state is not finite; the fields are named. Looked at once, after the last step, so
        that nothing in the loop waits for a device.
    """
    check_count("integrate", "steps", steps, 0)
    if keep is not None:
        check_count("integrate", "keep", keep, 1)
    if not isinstance(state, Tensor) or state.ndim != 4:
        came = list(state.shape) if isinstance(state, Tensor) else type(state).__name__
        raise ShapeError(f"integrate: `state` must be a tensor [batch, field, y, x], not {came}")
    states = [state]
    for number in range(steps):
        state = step(state, closures(number) if callable(closures) else closures)
        if keep is not None and (number + 1) % keep == 0:
            states.append(state)
    _check_finite(step, state, steps)
    return state if keep is None else torch.stack(states)


def _check_finite(step: Integrator, state: Tensor, steps: int) -> None:
    broken = (~torch.isfinite(state.detach())).sum((0, 2, 3)).tolist()
    if not any(broken):
        return
    cells = state.shape[0] * state.shape[2] * state.shape[3]
    named = [f"{name} ({count} of {cells} cells)" for name, count in zip(step.tendency.field_names, broken) if count]
    raise DivergedError(
        f"'{step.tendency.system.name}' is not finite after {steps} steps of {step.dt:g} s: {', '.join(named)}",
        do="read stability.report(tendency, state, dt), and compile with limits=stability.limits(grid, dt)",
    )
