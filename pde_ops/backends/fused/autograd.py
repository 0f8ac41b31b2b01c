"""The kernels as differentiable functions of torch.

The way of a gradient: `backward` here asks `compiled.Compiled.backward`, which plans the adjoint kernel (`plan`) and
runs it (`binding` on a CPU, `pde_ops.backends.triton.binding` on a GPU). The derivative by a coefficient is a sum over
all cells of the batch and is added up *in the kernel*: `binding.Launch` says where, `plan.Sum` is what one row
contributes. Where several calls share coefficients, torch adds up the calls.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .compiled import Call, Stored
from .marching import Pattern, Record, march_back, march_forward
from .plan import wanted_kinds
from .scaled import Scaler
from .second_order import advanced_by_torch, by_torch, is_beyond_kernels, marched_by_torch, scaled_by_torch

__all__ = ["Evaluate", "Repeat", "Scale", "evaluate", "repeat", "scale"]

Rule = tuple[str, float, float]  # name, rho, quiet share


def evaluate(call: Call, state: Tensor, coefficients: Tensor, factor: Tensor, closures: list[Tensor]) -> Tensor:
    """Tendency, or state advanced by it; recorded for differentiation only if somebody may ask."""
    if _is_recorded(state, coefficients, factor, closures):
        result: Tensor = Evaluate.apply(call, state, coefficients, factor, *closures)  # type: ignore[no-untyped-call]
        return result
    return call.compiled.forward(call, state, closures, coefficients, factor)[0]


def repeat(
    call: Call,
    pattern: Pattern,
    state: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    added: Tensor | None,
    decay: Tensor | None,
    closures: list[Tensor],
) -> Tensor:
    """State advanced several times, all else held."""
    others = [*closures, *(t for t in (added, decay) if t is not None)]
    arguments = (call, pattern, state, coefficients, factor, added, decay)
    if _is_recorded(state, coefficients, factor, others):
        result: Tensor = Repeat.apply(*arguments, *closures)  # type: ignore[no-untyped-call]
        return result
    return march_forward(*arguments, closures, recording=False)[0]


def scale(
    call: Call, rule: Rule, state: Tensor, coefficients: Tensor, factor: Tensor, closures: list[Tensor]
) -> Tensor:
    """State advanced by a scaled increment."""
    if _is_recorded(state, coefficients, factor, closures):
        result: Tensor = Scale.apply(call, rule, state, coefficients, factor, *closures)  # type: ignore[no-untyped-call]
        return result
    return _scaled(call, rule, state, coefficients, factor, closures, recording=False)[0]


def _is_recorded(state: Tensor, coefficients: Tensor, factor: Tensor, closures: list[Tensor]) -> bool:
    if not torch.is_grad_enabled():
        return False
    learned = state.requires_grad or coefficients.requires_grad or factor.requires_grad
    return learned or any(t.requires_grad for t in closures)


class Evaluate(torch.autograd.Function):
    """Tendency, or state advanced by it, with the generated adjoint."""

    @staticmethod
    def forward(ctx: Any, call: Call, state: Tensor, coefficients: Tensor, factor: Tensor, *closures: Tensor) -> Tensor:
        """Run the forward kernel."""
        result, stored = call.compiled.forward(call, state, closures, coefficients, factor, recording=True)
        ctx.call = call
        ctx.save_for_backward(state, coefficients, factor, *stored, *closures)
        return result

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Run the adjoint kernel."""
        if is_beyond_kernels(grad_output):
            state, coefficients, factor, _, _, *closures = ctx.saved_tensors
            run = functools.partial(advanced_by_torch, ctx.call)
            needed = ctx.needs_input_grad[1:]
            return (None, *by_torch(run, [state, coefficients, factor, *closures], grad_output, needed))
        seeds = {"seed": grad_output.resolve_neg().contiguous()}
        return (None, *_adjoint(ctx, seeds, ctx.saved_tensors, coefficients_at=2))


class Repeat(torch.autograd.Function):
    """State advanced several times in one launch, with the generated adjoint of each step in another.

    To torch it is one function: on a small grid, calls and their bookkeeping take longer than the kernels.
    """

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        pattern: Pattern,
        state: Tensor,
        coefficients: Tensor,
        factor: Tensor,
        added: Tensor | None,
        decay: Tensor | None,
        *closures: Tensor,
    ) -> Tensor:
        """Run the forward kernel as often as asked."""
        result, record = march_forward(
            call, pattern, state, coefficients, factor, added, decay, closures, recording=True
        )
        ctx.call, ctx.pattern, ctx.side = call, pattern, record.side
        ctx.closures = len(closures)
        ctx.save_for_backward(state, coefficients, factor, added, decay, *closures, *record.tensors())
        return result

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Run the adjoint kernel from the last step to the first."""
        first, coefficients, factor, added, decay, *rest = ctx.saved_tensors
        closures, recorded = rest[: ctx.closures], rest[ctx.closures :]
        needed = ctx.needs_input_grad[2:]
        if is_beyond_kernels(grad_output):
            run = functools.partial(marched_by_torch, ctx.call, ctx.pattern)
            tensors = [first, coefficients, factor, added, decay, *closures]
            return (None, None, *by_torch(run, tensors, grad_output, needed))
        record = Record.of(ctx.side, recorded)
        g = march_back(ctx.call, ctx.pattern, record, grad_output, coefficients, factor, needed)
        return (None, None, g.state, g.coefficients, g.factor, g.added, g.decay, *g.closures)


class Scale(torch.autograd.Function):
    """State advanced by a scaled increment."""

    @staticmethod
    def forward(
        ctx: Any, call: Call, rule: Rule, state: Tensor, coefficients: Tensor, factor: Tensor, *closures: Tensor
    ) -> Tensor:
        """Run the tendency kernel and scale what it gives."""
        result, rate, notes, stored = _scaled(call, rule, state, coefficients, factor, closures, recording=True)
        ctx.call, ctx.rule = call, rule
        ctx.save_for_backward(state, coefficients, factor, *stored, *closures, rate, notes)
        return result

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Scale back, and run the adjoint of the tendency."""
        *saved, rate, notes = ctx.saved_tensors
        if is_beyond_kernels(grad_output):
            state, coefficients, factor, _, _, *closures = saved
            run = functools.partial(scaled_by_torch, ctx.call, ctx.rule)
            tensors = [state, coefficients, factor, *closures]
            return (None, None, *by_torch(run, tensors, grad_output, ctx.needs_input_grad[2:]))
        grad_output = grad_output.resolve_neg().contiguous()
        factor, call = saved[2], ctx.call
        seed, by_factor = _scaler(call, grad_output).backward(grad_output, rate, call.dt, factor.double(), notes)
        seeds = {"seed": seed, "direct seed": grad_output}
        grads = _adjoint(ctx, seeds, saved, coefficients_at=3)
        grads[2] = by_factor.to(factor.dtype)
        return (None, None, *grads)


def _scaled(
    call: Call,
    rule: Rule,
    state: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    closures: Sequence[Tensor],
    *,
    recording: bool,
) -> tuple[Tensor, Tensor, Tensor, Stored]:
    rate, stored = call.compiled.forward(call, state, closures, coefficients, factor, recording=recording)
    result, notes = _scaler(call, state).forward(state, rate, call.dt, factor.double(), *rule)
    return result, rate, notes, stored


def _scaler(call: Call, like: Tensor) -> Scaler:
    return call.compiled.engine.scaler(like.dtype)


def _adjoint(ctx: Any, seeds: dict[str, Tensor], saved: Sequence[Any], *, coefficients_at: int) -> list[Tensor | None]:
    """Return the derivatives by state, coefficients, factor and closures, as the adjoint kernel wrote them."""
    call: Call = ctx.call
    state, coefficients, factor, intermediates, values, *rest = saved
    compiled = call.compiled
    read = compiled.to_save(call.kind)[1]
    closures = {k: rest[k] for k in read}
    needed = ctx.needs_input_grad
    by_coefficients, by_factors = needed[coefficients_at], call.kind == "advance" and needed[coefficients_at + 1]
    wants = wanted_kinds(by_coefficients, by_factors, tuple(needed[coefficients_at + 2 :]))
    by_state, by_closure, by_scalar = compiled.backward(
        call, wants, seeds, state, (intermediates, values), closures, coefficients, factor
    )
    count = coefficients.shape[0]
    of_factors = by_scalar[count:] if by_factors else None
    of_coefficients = (by_scalar[:count] if by_factors else by_scalar) if by_coefficients else None
    return [by_state, of_coefficients, of_factors, *by_closure]
