"""Custom operators of torch: what torch.compile and fake tensors see of a step.

A step is one operator, its way back another; neither is looked into. Tensors are handed over as they are, the runner as
a number. The way back computes the states of a march again: an operator keeps nothing but its arguments.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from ...errors import BackendError
from .. import Inputs, March
from ..fused.autograd import Evaluate, Repeat, Scale

if TYPE_CHECKING:
    from .runner import TritonRunner

__all__ = ["advance", "handle_of", "is_staged", "march", "scaled", "tendency"]

_runners: weakref.WeakValueDictionary[int, TritonRunner] = weakref.WeakValueDictionary()
_handles = itertools.count(1)


def handle_of(runner: TritonRunner) -> int:
    """Return a number by which the operators know a runner as long as it lives."""
    handle = next(_handles)
    _runners[handle] = runner
    return handle


def is_staged(state: Tensor) -> bool:
    """Tell whether a computation is being described, not done."""
    return torch.compiler.is_compiling() or isinstance(state, FakeTensor)


def tendency(runner: TritonRunner, inputs: Inputs) -> Tensor:
    """Return F(state)."""
    return _step(runner, inputs, "tendency", 0.0, None)


def advance(runner: TritonRunner, inputs: Inputs, dt: float, factor: Tensor | None) -> Tensor:
    """Return state + factor · dt · F(state)."""
    return _step(runner, inputs, "advance", dt, factor)


def march(runner: TritonRunner, inputs: Inputs, plan: March) -> Tensor:
    """Return the state after several steps."""
    coefficients = inputs.coefficients if plan.coefficients is None else plan.coefficients
    inputs = Inputs(inputs.state, inputs.closures, coefficients, inputs.statics, inputs.grid)
    return _step(runner, inputs, "march", plan.dt, plan.factor, (plan.steps, plan.every), plan.added, plan.decay)


def scaled(runner: TritonRunner, inputs: Inputs, dt: float, factor: Tensor, rule: str, rho: float) -> Tensor:
    """Return state + factor · scaled(dt · F(state))."""
    return _step(runner, inputs, f"scaled {rule}", dt, factor, rho=rho)


def _step(
    runner: TritonRunner,
    inputs: Inputs,
    kind: str,
    dt: float,
    factor: Tensor | None,
    pattern: tuple[int, int] = (1, 1),
    added: Tensor | None = None,
    decay: Tensor | None = None,
    rho: float = 0.0,
) -> Tensor:
    statics = [inputs.statics[s.name] for s in runner.program.statics]
    # By identity, as the runner itself decides: what the grid supplies has a value per row that is known in float64.
    # One letter each: torch takes a list of flags for one argument here and for several there.
    of_grid = "".join(
        "ny"[inputs.statics[s.name] is getattr(inputs.grid, s.name, None)] for s in runner.program.statics
    )
    result: Tensor = torch.ops.pde_ops.triton_step(
        inputs.state, inputs.coefficients, factor, list(inputs.closures), added, decay, statics, of_grid,
        runner.handle, kind, float(dt), *pattern, float(rho),
    )  # fmt: skip
    return result


def _runner(handle: int) -> TritonRunner:
    runner = _runners.get(handle)
    if runner is None:
        raise BackendError(
            "a compiled graph calls a Triton kernel whose system is gone", do="compile the graph again in this process"
        )
    return runner


class _Context:
    """What a function of autograd keeps, where torch keeps nothing."""

    def __init__(self, needed: Sequence[bool]) -> None:
        self.needs_input_grad = tuple(needed)
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors


def _prepared(
    state: Tensor, coefficients: Tensor, factor: Tensor | None, closures: list[Tensor], added: Tensor | None,
    decay: Tensor | None, statics: list[Tensor], of_grid: str, handle: int, kind: str, dt: float,
    steps: int, every: int, rho: float,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:  # fmt: skip
    """Return the function of autograd that does a step, what it takes before its tensors, and those."""
    from ...integrators.scaling import QUIET  # integrators import the backends

    runner = _runner(handle)
    grid = runner.grid.bind(state.dtype, state.device)
    names = [s.name for s in runner.program.statics]
    values = [
        getattr(grid, name) if flag == "y" else value
        for name, flag, value in zip(names, of_grid, statics, strict=True)
    ]
    inputs = Inputs(state, tuple(closures), coefficients, dict(zip(names, values, strict=True)), grid)
    word, _, rule = kind.partition(" ")
    tensors = runner.checked(inputs, factor)
    state, coefficients, factor, closures = tensors
    call = runner.call({"march": "advance"}.get(word, word), inputs, dt)  # type: ignore[arg-type]
    if word == "march":
        if decay is not None and added is None:
            added = torch.zeros_like(state)
        joined = [None if t is None else t.to(state.dtype).contiguous() for t in (added, decay)]
        return Repeat, (call, (steps, every)), (state, coefficients, factor, *joined, *closures)
    if word == "scaled":
        return Scale, (call, (rule, rho, QUIET)), (state, coefficients, factor, *closures)
    return Evaluate, (call,), (state, coefficients, factor, *closures)


@torch.library.custom_op("pde_ops::triton_step", mutates_args=())
def _triton_step(
    state: Tensor, coefficients: Tensor, factor: Tensor | None, closures: list[Tensor], added: Tensor | None,
    decay: Tensor | None, statics: list[Tensor], of_grid: str, handle: int, kind: str, dt: float,
    steps: int, every: int, rho: float,
) -> Tensor:  # fmt: skip
    function, first, tensors = _prepared(
        state, coefficients, factor, closures, added, decay, statics, of_grid, handle, kind, dt, steps, every, rho
    )
    result: Tensor = function.forward(_Context([False] * (len(first) + len(tensors))), *first, *tensors)
    return result


@_triton_step.register_fake
def _(state: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(state, memory_format=torch.contiguous_format)


@torch.library.custom_op("pde_ops::triton_adjoint", mutates_args=())
def _triton_adjoint(
    grad_output: Tensor, needed: list[bool], state: Tensor, coefficients: Tensor, factor: Tensor | None,
    closures: list[Tensor], added: Tensor | None, decay: Tensor | None, statics: list[Tensor], of_grid: str,
    handle: int, kind: str, dt: float, steps: int, every: int, rho: float,
) -> list[Tensor]:  # fmt: skip
    function, first, tensors = _prepared(
        state, coefficients, factor, closures, added, decay, statics, of_grid, handle, kind, dt, steps, every, rho
    )
    originals = [state, coefficients, factor, *([added, decay] if kind == "march" else []), *closures]
    context = _Context([False] * len(first) + needed)
    with torch.no_grad():
        function.forward(context, *first, *tensors)
        grads = function.backward(context, grad_output.contiguous())[len(first) :]
    derivatives = [
        torch.zeros_like(like) if grad is None else grad.to(like.dtype).clone()
        for grad, like, want in zip(grads, originals, needed, strict=True)
        if want and like is not None
    ]
    return derivatives


@_triton_adjoint.register_fake
def _(
    grad_output: Tensor, needed: list[bool], state: Tensor, coefficients: Tensor, factor: Tensor | None,
    closures: list[Tensor], added: Tensor | None, decay: Tensor | None, statics: list[Tensor], of_grid: str,
    handle: int, kind: str, dt: float, steps: int, every: int, rho: float,
) -> list[Tensor]:  # fmt: skip
    originals = [state, coefficients, factor, *([added, decay] if kind == "march" else []), *closures]
    return [torch.empty_like(t) for t, want in zip(originals, needed, strict=True) if want and t is not None]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    state, coefficients, factor, closures, added, decay, statics, *rest = inputs
    ctx.rest, ctx.closures, ctx.statics = rest, len(closures), len(statics)
    ctx.save_for_backward(state, coefficients, factor, added, decay, *closures, *statics)


def _back(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
    state, coefficients, factor, added, decay, *lists = ctx.saved_tensors
    closures, statics = list(lists[: ctx.closures]), list(lists[ctx.closures :])
    is_march = ctx.rest[2] == "march"
    originals = [state, coefficients, factor, *([added, decay] if is_march else []), *closures]
    needed = [t is not None and t.requires_grad for t in originals]
    grads = iter(
        torch.ops.pde_ops.triton_adjoint(
            grad_output, needed, state, coefficients, factor, closures, added, decay, statics, *ctx.rest
        )
    )
    each = [next(grads) if want else None for want in needed]
    joined = each[3:5] if is_march else [None, None]
    of_closures = each[5:] if is_march else each[3:]
    return (*each[:3], of_closures, *joined, [None] * len(statics), *[None] * len(ctx.rest))


_triton_step.register_autograd(_back, setup_context=_keep)
