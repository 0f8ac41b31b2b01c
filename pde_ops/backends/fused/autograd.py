"""The kernels as differentiable functions of torch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .compiled import Call, Stored
from .scaled import ScaleKernel, scale_kernel
from .second_order import advanced_by_torch, by_torch, is_beyond_kernels, marched_by_torch, scaled_by_torch

__all__ = ["Evaluate", "Repeat", "Scale", "evaluate", "repeat", "scale"]

Rule = tuple[str, float, float]  # name, rho, quiet share
Pattern = tuple[int, int]  # how many steps, and after how many of them something is added
WANTS = {  # kinds of scalars that derivatives are wanted by: (coefficients, factors) -> what the plan calls them
    (False, False): frozenset[str](),
    (True, False): frozenset({"coefficient"}),
    (False, True): frozenset({"factor"}),
    (True, True): frozenset({"coefficient", "factor"}),
}


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
    closures: list[Tensor],
) -> Tensor:
    """State advanced several times, all else held."""
    others = closures if added is None else [*closures, added]
    if _is_recorded(state, coefficients, factor, others):
        result: Tensor = Repeat.apply(call, pattern, state, coefficients, factor, added, *closures)  # type: ignore[no-untyped-call]
        return result
    return _repeated(call, pattern, state, coefficients, factor, added, closures, step_tensors=None)


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
        seeds = {"seed": grad_output.contiguous()}
        return (None, *_adjoint(ctx, seeds, ctx.saved_tensors, coefficients_at=2))


class Repeat(torch.autograd.Function):
    """State advanced several times, with the generated adjoint of each step.

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
        *closures: Tensor,
    ) -> Tensor:
        """Run the forward kernel as often as asked."""
        step_tensors: list[Tensor | None] = []
        result = _repeated(call, pattern, state, coefficients, factor, added, closures, step_tensors=step_tensors)
        ctx.call, ctx.pattern = call, pattern
        ctx.closures = len(closures)
        ctx.save_for_backward(state, coefficients, factor, added, *closures, *step_tensors)
        return result

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Run the adjoint kernel from the last step to the first, and sum what each gives."""
        first, coefficients, factor, added, *rest = ctx.saved_tensors
        closures, step_tensors = rest[: ctx.closures], rest[ctx.closures :]
        if is_beyond_kernels(grad_output):
            run = functools.partial(marched_by_torch, ctx.call, ctx.pattern)
            tensors = [first, coefficients, factor, added, *closures]
            return (None, None, *by_torch(run, tensors, grad_output, ctx.needs_input_grad[2:]))
        steps, every = ctx.pattern
        adding = added is not None and ctx.needs_input_grad[5]
        seed, by_added, total = grad_output.contiguous(), None, None
        for step in range(steps, 0, -1):
            if adding and step % every == 0:
                by_added = seed if by_added is None else by_added + seed
            state, *stored = step_tensors[3 * step - 3 : 3 * step]
            saved = (state, coefficients, factor, *stored, *closures)
            grads = _adjoint(ctx, {"seed": seed}, saved, coefficients_at=3)
            seed = grads[0]  # type: ignore[assignment]
            total = grads if total is None else _summed(total, grads, ctx.needs_input_grad[6:])
        by_state, by_coefficients, by_factor, *by_closure = [seed, *total[1:]] if total else [seed, None, None]
        return (None, None, by_state, by_coefficients, by_factor, by_added, *by_closure)


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
        grad_output = grad_output.contiguous()
        factor, call = saved[2], ctx.call
        seed, by_factor = _scaler(call, grad_output).backward(grad_output, rate, call.dt, factor.double(), notes)
        seeds = {"seed": seed, "direct seed": grad_output}
        grads = _adjoint(ctx, seeds, saved, coefficients_at=3)
        grads[2] = by_factor.to(factor.dtype)
        return (None, None, *grads)


def _repeated(
    call: Call,
    pattern: Pattern,
    state: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    added: Tensor | None,
    closures: Sequence[Tensor],
    *,
    step_tensors: list[Tensor | None] | None,
) -> Tensor:
    """Return the last state; append to ``step_tensors`` what each adjoint needs: state, intermediates, values."""
    steps, every = pattern
    for step in range(1, steps + 1):
        recording = step_tensors is not None
        result, stored = call.compiled.forward(call, state, closures, coefficients, factor, recording=recording)
        if step_tensors is not None:
            step_tensors += [state, *stored]
        if added is not None and step % every == 0:
            result += added
        state = result
    return state


def _summed(total: list[Tensor | None], grads: list[Tensor | None], needs_grad: Sequence[bool]) -> list[Tensor | None]:
    """Derivatives by scalars and by the closures that are asked for; that by the state is the next seed."""
    sums = list(total)
    for k, grad in enumerate(grads[1:], 1):
        before = total[k]
        if grad is not None and before is not None and (k < 3 or needs_grad[k - 3]):
            sums[k] = before + grad
    return sums


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


def _scaler(call: Call, like: Tensor) -> ScaleKernel:
    compiler = call.compiled.engine.compiler
    assert compiler is not None
    return scale_kernel(like.dtype, compiler)


def _adjoint(ctx: Any, seeds: dict[str, Tensor], saved: Sequence[Any], *, coefficients_at: int) -> list[Tensor | None]:
    """Derivatives by state, coefficients, factor and closures."""
    call: Call = ctx.call
    state, coefficients, factor, intermediates, values, *rest = saved
    compiled = call.compiled
    read = compiled.to_save(call.kind)[1]
    closures = {k: rest[k] for k in read}
    needed = ctx.needs_input_grad
    by_coefficients, by_factors = needed[coefficients_at], call.kind == "advance" and needed[coefficients_at + 1]
    by_state, by_closure, by_scalar = compiled.backward(
        call, WANTS[by_coefficients, by_factors], seeds, state, (intermediates, values), closures, coefficients, factor
    )
    count = coefficients.shape[0]
    of_factors = by_scalar[count:] if by_factors else None
    of_coefficients = (by_scalar[:count] if by_factors else by_scalar) if by_coefficients else None
    return [by_state, of_coefficients, of_factors, *by_closure]
