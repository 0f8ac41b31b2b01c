"""The kernels as differentiable functions of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from .compiled import Call, Stored
from .scaled import ScaleKernel, scale_kernel

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
    return _repeated(call, pattern, state, coefficients, factor, added, closures, kept=None)


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
        read = call.compiled.to_save(call.kind)[1]
        ctx.save_for_backward(state, coefficients, factor, *stored, *[closures[k] for k in read])
        return result

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Run the adjoint kernel."""
        seeds = {"seed": given.contiguous()}
        if not torch.is_grad_enabled():
            return (None, *_adjoint(ctx, seeds, ctx.saved_tensors, coefficients_at=2))
        with torch.no_grad():
            grads = _adjoint(ctx, seeds, ctx.saved_tensors, coefficients_at=2)
        return (None, *_first_order(grads))


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
        kept: list[Tensor | None] = []
        result = _repeated(call, pattern, state, coefficients, factor, added, closures, kept=kept)
        ctx.call, ctx.pattern, ctx.adds = call, pattern, added is not None
        read = call.compiled.to_save(call.kind)[1]
        ctx.reads = len(read)
        ctx.save_for_backward(coefficients, factor, *[closures[k] for k in read], *kept)
        return result

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Run the adjoint kernel from the last step to the first, and sum what each gives."""
        coefficients, factor, *rest = ctx.saved_tensors
        closures, kept = rest[: ctx.reads], rest[ctx.reads :]
        steps, every = ctx.pattern
        adding = ctx.adds and ctx.needs_input_grad[5]
        with torch.no_grad():
            seed, by_added, total = given.contiguous(), None, None
            for step in range(steps, 0, -1):
                if adding and step % every == 0:
                    by_added = seed if by_added is None else by_added + seed
                state, *stored = kept[3 * step - 3 : 3 * step]
                saved = (state, coefficients, factor, *stored, *closures)
                grads = _adjoint(ctx, {"seed": seed}, saved, coefficients_at=3)
                seed = grads[0]  # type: ignore[assignment]
                total = grads if total is None else _summed(total, grads, ctx.needs_input_grad[6:])
            by_state, by_coefficients, by_factor, *by_closure = [seed, *total[1:]] if total else [seed, None, None]
        return (None, None, *_first_order([by_state, by_coefficients, by_factor, by_added, *by_closure]))


class Scale(torch.autograd.Function):
    """State advanced by a scaled increment."""

    @staticmethod
    def forward(
        ctx: Any, call: Call, rule: Rule, state: Tensor, coefficients: Tensor, factor: Tensor, *closures: Tensor
    ) -> Tensor:
        """Run the tendency kernel and scale what it gives."""
        result, rate, notes, stored = _scaled(call, rule, state, coefficients, factor, closures, recording=True)
        ctx.call = call
        read = call.compiled.to_save(call.kind)[1]
        ctx.save_for_backward(state, coefficients, factor, *stored, *[closures[k] for k in read], rate, notes)
        return result

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Scale back, and run the adjoint of the tendency."""
        with torch.no_grad():
            given = given.contiguous()
            *saved, rate, notes = ctx.saved_tensors
            factor, call = saved[2], ctx.call
            seed, by_factor = _scaler(call, given).backward(given, rate, call.dt, factor.double(), notes)
            seeds = {"seed": seed, "direct seed": given}
            grads = _adjoint(ctx, seeds, saved, coefficients_at=3)
            grads[2] = by_factor.to(factor.dtype)
        return (None, None, *_first_order(grads))


def _repeated(
    call: Call,
    pattern: Pattern,
    state: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    added: Tensor | None,
    closures: Sequence[Tensor],
    *,
    kept: list[Tensor | None] | None,
) -> Tensor:
    """The last state; ``kept`` takes what the adjoint of each step wants: state, intermediates, values."""
    steps, every = pattern
    for step in range(1, steps + 1):
        result, stored = call.compiled.forward(call, state, closures, coefficients, factor, recording=kept is not None)
        if kept is not None:
            kept += [state, *stored]
        if added is not None and step % every == 0:
            result += added
        state = result
    return state


def _summed(total: list[Tensor | None], grads: list[Tensor | None], wanted: Sequence[bool]) -> list[Tensor | None]:
    """Derivatives by scalars and by the closures that are asked for; that by the state is the next seed."""
    sums = list(total)
    for k, grad in enumerate(grads[1:], 1):
        before = total[k]
        if grad is not None and before is not None and (k < 3 or wanted[k - 3]):
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
    closures = dict(zip(read, rest, strict=True)) if read else {}
    needed = ctx.needs_input_grad
    by_coefficients, by_factors = needed[coefficients_at], call.kind == "advance" and needed[coefficients_at + 1]
    by_state, by_closure, by_scalar = compiled.backward(
        call, WANTS[by_coefficients, by_factors], seeds, state, (intermediates, values), closures, coefficients, factor
    )
    count = coefficients.shape[0]
    of_factors = by_scalar[count:] if by_factors else None
    of_coefficients = (by_scalar[:count] if by_factors else by_scalar) if by_coefficients else None
    return [by_state, of_coefficients, of_factors, *by_closure]


class _Refuse(torch.autograd.Function):
    """Identity that cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(t.clone() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Any:
        raise BackendError(
            "backend 'fused' gives first derivatives only, but its gradient was differentiated again",
            do="use backend 'torch' for second derivatives",
        )


def _first_order(grads: list[Tensor | None]) -> list[Tensor | None]:
    """Under ``create_graph`` gradients are asked to be differentiable: say so when somebody tries."""
    if not torch.is_grad_enabled():
        return grads
    present = [g.detach().requires_grad_() for g in grads if g is not None]
    refused = iter(_Refuse.apply(*present))  # type: ignore[no-untyped-call]
    return [None if g is None else next(refused) for g in grads]
