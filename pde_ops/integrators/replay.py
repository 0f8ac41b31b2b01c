"""Computing again instead of storing: bounded memory for the gradient of a long integration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..arguments import check_count
from ..errors import DeclarationError
from ..transforms import is_transforming
from .base import Integrator

__all__ = ["Stretch", "StretchOfSteps", "differentiated_parameters", "replayed", "stretch_length"]

Stretch = int | Literal["auto"] | None
"""Steps between stored states: a number, ``"auto"`` for about the square root of all, None to store every step."""

Tensors = tuple[Tensor, ...]


def stretch_length(owner: str, checkpoint: Stretch, steps: int) -> int | None:
    """Return the number of steps between stored states, None to store all."""
    if checkpoint is None or (isinstance(checkpoint, str) and checkpoint == "auto"):
        return None if checkpoint is None else max(1, math.isqrt(steps))
    if isinstance(checkpoint, bool):
        raise DeclarationError(f"{owner}: `checkpoint` is a number of steps, not {checkpoint}", do="pass 'auto'")
    check_count(owner, "checkpoint", checkpoint, 1)
    return int(checkpoint)


def replayed(run: Callable[..., Tensors], *tensors: Tensor) -> Tensors:
    """Call a function of tensors without storing its inner values: a gradient calls it again.

    Parameters
    ----------
    run : pure function that reads nothing differentiable but its arguments, and returns tensors, no two of them the
        same object

    Notes
    -----
    Differentiable to any order, under the transforms of ``torch.func`` too, which need no storage to be saved.
    """
    if not torch.is_grad_enabled() or is_transforming() or not any(t.requires_grad for t in tensors):
        return run(*tensors)
    results: Tensors = _Replay.apply(run, *tensors)  # type: ignore[no-untyped-call]
    return results


class _Replay(torch.autograd.Function):
    """A function of tensors whose graph exists only while a gradient passes."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Tensors], *tensors: Tensor) -> Tensors:
        """Call the function without recording it."""
        ctx.run = run
        ctx.save_for_backward(*tensors)
        return run(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Call it again, recorded, and differentiate that."""
        needed = ctx.needs_input_grad[1:]
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            # Aliases, for one argument may be computed from another: each derivative is by that argument alone.
            # Detached ones where no second derivative is asked for: the history of the arguments is torch's affair.
            arguments = [_alias(t, again) if want else t for t, want in zip(ctx.saved_tensors, needed, strict=True)]
            results = ctx.run(*arguments)
            sources = [a for a, want in zip(arguments, needed, strict=True) if want]
            reached = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
            if not (sources and reached):
                return (None,) * (1 + len(needed))
            outputs, seeds = zip(*reached, strict=True)
            computed = torch.autograd.grad(outputs, sources, seeds, create_graph=again, allow_unused=True)
        remaining = iter(computed)
        return (None, *(next(remaining) if want else None for want in needed))


def _alias(tensor: Tensor, with_history: bool) -> Tensor:
    return tensor.view_as(tensor) if with_history else tensor.detach().requires_grad_()


def differentiated_parameters(step: Integrator) -> dict[str, Tensor]:
    """Return the parameters of a step that take part in gradients, by name."""
    return {name: parameter for name, parameter in step.named_parameters() if parameter.requires_grad}


class StretchOfSteps(nn.Module):
    """Some steps in a row as a function of the state, the parameters of the step and the closures of each.

    Attributes
    ----------
    names : parameters of the step that are arguments
    """

    def __init__(self, step: Integrator, names: Sequence[str]) -> None:
        super().__init__()
        self.step = step
        self.names = tuple(names)

    def forward(self, state: Tensor, closures: Sequence[Mapping[str, Tensor] | None], keep: Sequence[bool]) -> Tensors:
        """Return the states after those steps that are marked."""
        states = []
        for present, marked in zip(closures, keep, strict=True):
            state = self.step(state, present)
            if marked:
                states.append(state)
        return tuple(states)

    def replayed(
        self,
        state: Tensor,
        parameters: Mapping[str, Tensor],
        closures: Sequence[Mapping[str, Tensor] | None],
        keep: Sequence[bool],
    ) -> Tensors:
        """Return the same, storing the arguments alone for a gradient."""
        names = [None if present is None else tuple(present) for present in closures]
        flat = [tensor for present in closures if present is not None for tensor in present.values()]

        def run(first: Tensor, *others: Tensor) -> Tensors:
            swapped = {f"step.{name}": tensor for name, tensor in zip(self.names, others, strict=False)}
            rest = iter(others[len(self.names) :])
            present = [None if keys is None else {key: next(rest) for key in keys} for keys in names]
            results: Tensors = functional_call(self, swapped, (first, present, keep))
            return results

        return replayed(run, state, *(parameters[name] for name in self.names), *flat)
