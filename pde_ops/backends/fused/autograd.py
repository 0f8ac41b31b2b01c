"""The kernels as differentiable functions of torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from .compiled import Call
from .scaled import ScaleKernel, scale_kernel

__all__ = ["Evaluate", "Scale"]


class Evaluate(torch.autograd.Function):
    """Tendency, or state advanced by it, with the generated adjoint."""

    @staticmethod
    def forward(ctx: Any, call: Call, state: Tensor, coefficients: Tensor, factor: Tensor, *closures: Tensor) -> Tensor:
        """Run the forward kernel."""
        state = state.contiguous()
        closures = tuple(_dense_columns(c) for c in closures)
        result, stored = call.compiled.forward(call, state, closures, coefficients.double(), factor.double())
        ctx.call = call
        ctx.save_for_backward(state, coefficients, factor, stored, *closures)
        return result

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Run the adjoint kernel."""
        with torch.no_grad():
            grads = _adjoint(ctx, {"seed": given.contiguous()}, needs=2)
        return (None, *_first_order(grads))


class Scale(torch.autograd.Function):
    """State advanced by a scaled increment."""

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        rule: tuple[str, float, float],
        state: Tensor,
        coefficients: Tensor,
        factor: Tensor,
        *closures: Tensor,
    ) -> Tensor:
        """Run the tendency kernel and scale what it gives."""
        state = state.contiguous()
        closures = tuple(_dense_columns(c) for c in closures)
        gamma = factor.double()
        rate, stored = call.compiled.forward(call, state, closures, coefficients.double(), gamma)
        kernel = _scaler(call, state)
        result, notes = kernel.forward(state, rate, call.dt, gamma, *rule)
        ctx.call, ctx.rate, ctx.notes = call, rate, notes
        ctx.save_for_backward(state, coefficients, factor, stored, *closures)
        return result

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Scale back, and run the adjoint of the tendency."""
        with torch.no_grad():
            given = given.contiguous()
            factor = ctx.saved_tensors[2]
            scaler = _scaler(ctx.call, given)
            seed, by_factor = scaler.backward(given, ctx.rate, ctx.call.dt, factor.double(), ctx.notes)
            grads = _adjoint(ctx, {"seed": seed, "direct seed": given}, needs=3)
            grads[2] = by_factor.to(factor.dtype)
        return (None, None, *_first_order(grads))


def _scaler(call: Call, like: Tensor) -> ScaleKernel:
    compiler = call.compiled.engine.compiler
    assert compiler is not None
    return scale_kernel(like.dtype, compiler)


def _dense_columns(tensor: Tensor) -> Tensor:
    """Columns next to each other; rows and samples may be repeated."""
    return tensor if tensor.stride(2) == 1 or tensor.shape[2] == 1 else tensor.contiguous()


def _adjoint(ctx: Any, seeds: dict[str, Tensor], *, needs: int) -> list[Tensor | None]:
    """Derivatives by state, coefficients, factor and closures; ``needs`` is where coefficients are among the inputs."""
    call: Call = ctx.call
    state, coefficients, factor, stored, *closures = ctx.saved_tensors
    wanted = {"coefficient"} if ctx.needs_input_grad[needs] else set()
    if call.kind == "advance" and ctx.needs_input_grad[needs + 1]:
        wanted.add("factor")
    compiled = call.compiled
    by_state, by_closure, scalars = compiled.backward(
        call, frozenset(wanted), seeds, state, stored, closures, coefficients.double(), factor.double()
    )
    by_scalar: list[Tensor | None] = []
    for kind, tensor in (("coefficient", coefficients), ("factor", factor)):
        asked = kind in wanted
        by_scalar.append(compiled.scalar_gradient(scalars, kind, tensor.numel()).to(tensor.dtype) if asked else None)
    return [by_state, *by_scalar, *by_closure]


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
