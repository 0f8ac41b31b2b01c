"""Many steps in a row, with one check at the end that nothing blew up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..arguments import check_count
from ..errors import DivergedError, ShapeError
from .base import Closures, Integrator
from .replay import Stretch, StretchOfSteps, differentiated_parameters, stretch_length

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["check_finite", "integrate"]


def integrate(
    step: Integrator,
    state: Float[Tensor, "batch field y x"],
    steps: int,
    closures: Closures | Callable[[int], Closures] | None = None,
    keep: int | None = None,
    checkpoint: Stretch = None,
) -> Tensor:
    r"""Take several steps; differentiable.

    Parameters
    ----------
    steps : how many, 0 or more
    closures : constant, or a function of the step's number, counted from 0
    keep : return every ``keep``-th state, the initial one included, as ``[time, batch, field, y, x]``; None returns the
        final state alone
    checkpoint : steps between the states that are stored for a gradient; what lies between is computed again when the
        gradient passes. ``"auto"`` takes about the square root of `steps`, which needs the least memory: some
        :math:`2\sqrt n` steps instead of :math:`n`, for one more integration. The gradient of the final state by the
        first is the same to the bit; what is added up over steps (by coefficients, by closures, from states that are
        kept) is added up stretch by stretch, and differs by the round-off of a sum. None stores every step

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
    length, states = stretch_length("integrate", checkpoint, steps), [state]
    if length is not None:
        state = _in_stretches(step, states, steps, closures, keep, length)
    else:
        for number in range(steps):
            state = step(state, closures(number) if callable(closures) else closures)
            if keep is not None and (number + 1) % keep == 0:
                states.append(state)
    check_finite(step, state, steps)
    return state if keep is None else torch.stack(states)


def _in_stretches(
    step: Integrator,
    states: list[Tensor],
    steps: int,
    closures: Closures | Callable[[int], Closures] | None,
    keep: int | None,
    length: int,
) -> Tensor:
    """Return the final state, and add those to be returned to the list that holds the first."""
    (state,) = states
    parameters = differentiated_parameters(step)
    stretch = StretchOfSteps(step, tuple(parameters))
    for first in range(0, steps, length):
        numbers = range(first, min(first + length, steps))
        marks = [keep is not None and (number + 1) % keep == 0 for number in numbers]
        present = [closures(number) if callable(closures) else closures for number in numbers]
        results = stretch.replayed(state, parameters, present, [*marks[:-1], True])
        state = results[-1]
        states += results if marks[-1] else results[:-1]
    return state


def check_finite(step: Integrator, state: Tensor, steps: int) -> None:
    """Refuse a state that is not finite.

    Raises
    ------
    DivergedError
        With the fields, and how many of their cells are not finite.
    """
    broken = (~torch.isfinite(state.detach())).sum((0, 2, 3)).tolist()
    if not any(broken):
        return
    cells = state.shape[0] * state.shape[2] * state.shape[3]
    named = [f"{name} ({count} of {cells} cells)" for name, count in zip(step.tendency.field_names, broken) if count]
    raise DivergedError(
        f"'{step.tendency.system.name}' is not finite after {steps} steps of {step.dt:g} s: {', '.join(named)}",
        do="read stability.report(tendency, state, dt), and compile with limits=stability.limits(grid, dt)",
    )
