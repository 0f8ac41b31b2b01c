"""Derivatives that the kernels do not give: gradients to be differentiated again, and many gradients at once.

The adjoint kernel writes numbers that torch knows no history of. Where somebody asks for one (``create_graph=True``),
the operators' torch bodies run again on the saved inputs and torch differentiates them, to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...transforms import is_batched
from .. import Inputs, March

if TYPE_CHECKING:
    from .compiled import Call

__all__ = ["advanced_by_torch", "by_torch", "is_beyond_kernels", "marched_by_torch", "scaled_by_torch"]


def is_beyond_kernels(grad_output: Tensor) -> bool:
    """Tell whether the gradient being computed needs a history, or stands for many."""
    return torch.is_grad_enabled() or is_batched(grad_output)


def by_torch(
    run: Callable[..., Tensor], tensors: Sequence[Tensor | None], grad_output: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """Return the derivatives by those of the tensors that are needed, as functions that torch can differentiate."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Aliases, for one input may be computed from another: each derivative is by that input's own use alone.
        aliases = [t.view_as(t) if want and t is not None else t for t, want in zip(tensors, needed, strict=True)]
        result = run(*aliases)
        sources: list[Any] = [a for a, want in zip(aliases, needed, strict=True) if want]
        if not (sources and result.requires_grad):
            return [None] * len(tensors)
        grads = torch.autograd.grad(result, sources, grad_output, create_graph=again, allow_unused=True)
    remaining = iter(grads)
    return [next(remaining) if want else None for want in needed]


def advanced_by_torch(call: Call, state: Tensor, coefficients: Tensor, factor: Tensor, *closures: Tensor) -> Tensor:
    """Return what the kernel of a call gives, computed by the torch bodies."""
    inputs = _inputs(call, state, coefficients, closures)
    return call.body.tendency(inputs) if call.kind == "tendency" else call.body.advance(inputs, call.dt, factor)


def marched_by_torch(
    call: Call,
    pattern: tuple[int, int],
    state: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    added: Tensor | None,
    decay: Tensor | None,
    *closures: Tensor,
) -> Tensor:
    """Return the state after several steps, computed by the torch bodies."""
    steps, every = pattern
    march = March(call.dt, steps, factor, added, every, decay)
    return call.body.march(_inputs(call, state, coefficients, closures), march)


def scaled_by_torch(
    call: Call, rule: tuple[str, float, float], state: Tensor, coefficients: Tensor, factor: Tensor, *closures: Tensor
) -> Tensor:
    """Return the state advanced by a scaled increment, computed by the torch bodies."""
    from ...integrators.scaling import scaled  # integrators import the backends

    name, rho, _ = rule
    increment = call.dt * call.body.tendency(_inputs(call, state, coefficients, closures))
    return state + factor[:, None, None] * scaled(increment, state, name, rho)  # type: ignore[arg-type]


def _inputs(call: Call, state: Tensor, coefficients: Tensor, closures: Sequence[Tensor]) -> Inputs:
    return Inputs(state, tuple(closures), coefficients, call.statics, call.grid)
