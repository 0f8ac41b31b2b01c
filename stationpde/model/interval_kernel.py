r"""A forecast interval of the equations as one function of torch: closure network, driving terms, and the march.

.. math:: s X' + c = \mathrm{march}\bigl(s X + c;\; \mathrm{added}(X, \mathcal N(X)), \mathrm{decay}(X)\bigr)

Parts are the compiled functions of `network_kernel`, `terms_kernel` and of the march; between them samples stay side by
side, nothing is recorded, and torch is called for memory alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from pde_ops import Tendency
from pde_ops.backends.auto import AutoRunner
from pde_ops.backends.fused.autograd import repeat
from pde_ops.backends.fused.compiled import Call
from pde_ops.backends.fused.emit_c import row_values
from pde_ops.backends.fused.marching import (
    Pattern,
    Record,
    last_state,
    new_states,
    run_back,
    run_forward,
    samples_side_by_side,
    taken_apart,
)
from pde_ops.backends.fused.runner import FusedRunner
from pde_ops.backends.fused.second_order import is_beyond_kernels
from stationpde.model import network_kernel, terms_kernel
from stationpde.model.network_kernel import apply_network, dense
from stationpde.model.terms_kernel import Scale, Surroundings, apply_terms, counts_of, kernel_of

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Course", "apply_interval", "by_parts", "call_of"]

Inputs = tuple[Tensor | None, ...]
# Places of the inputs: the field, those of the closure network (the sun first), of the terms, of the march.
_NETWORK, _TERMS, _MARCH = slice(1, 9), slice(9, 16), slice(16, 18)
_FIRST, _LASTING = 2, 10  # weights of the network; what is only added, and not read on the way back


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What is the same for every interval of a forecast, and no derivative is asked by.

    Attributes
    ----------
    call, pattern : of the march
    scale : factor and centre of each channel
    bases : closures of the march by lead, laid out with ``side`` samples side by side
    counts : sizes that the kernel of the terms takes
    """

    call: Call
    pattern: Pattern
    scale: Scale
    surroundings: Surroundings | None
    bases: Sequence[tuple[Float[Tensor, "group y value"], ...]]
    side: int
    dtype: torch.dtype
    counts: bytes

    @classmethod
    def of(
        cls, call: Call, pattern: Pattern, scale: Scale, surroundings: Surroundings | None,
        bases: Float[Tensor, "lead batch channel y x"], channels: Sequence[int],
    ) -> Course:  # fmt: skip
        """Lay out the ``channels`` of the bases, which are the closures in order, for all leads at once."""
        leads, batch, _, ny, nx = bases.shape
        side = samples_side_by_side(batch, nx)
        rows = bases.new_zeros(leads, len(channels), batch // side, ny, row_values(nx, side))
        values = rows[..., : nx * side].unflatten(-1, (nx, side))
        for closure, channel in enumerate(channels):
            values[:, closure].copy_(bases[:, :, channel].unflatten(1, (-1, side)).permute(0, 1, 3, 4, 2))
        by_lead = [by_closure.unbind() for by_closure in rows.unbind()]
        counts = counts_of(bases[0], surroundings, side)
        return cls(call, pattern, scale, surroundings, by_lead, side, bases.dtype, counts)


def call_of(
    tendency: Tendency, state: Tensor, closures: dict[str, Tensor], coefficients: Tensor, dt: float
) -> Call | None:
    """Return the march's kernel for states like this; None where no compiled kernel marches."""
    runner = tendency.runner.runner_for(state) if isinstance(tendency.runner, AutoRunner) else tendency.runner
    if type(runner) is not FusedRunner or runner.engine.name != "c":
        return None
    return runner.call("advance", tendency.inputs(state, closures, coefficients), dt)


def apply_interval(
    course: Course, number: int, field: Float[Tensor, "batch channel y x"], network: Inputs, terms: Inputs,
    rates: tuple[Tensor, Tensor],
) -> Float[Tensor, "batch channel y x"]:  # fmt: skip
    """Return the scaled field at the end of interval ``number``, counted from 0.

    Parameters
    ----------
    field : scaled
    network : sun, and what follows it in `apply_network`; None for each without a closure
    terms : factor of the closure, and what follows it in `apply_terms`; None for what is not used
    rates : coefficients in SI, and bounded factors
    """
    inputs = (field, *network, *terms, *rates)
    for tensor in inputs:
        if tensor is not None and (tensor.dtype != course.dtype or not tensor.is_cpu):
            raise ValueError(f"an interval takes {course.dtype} in main memory, not {tensor.dtype} on {tensor.device}")
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs):
        later: Tensor = _Interval.apply(course, number, *inputs)
        return later
    return _run(course, number, [dense(tensor) for tensor in inputs], recording=False)[0]


def by_parts(course: Course, number: int, *inputs: Tensor | None) -> Tensor:
    """Compute the same from the parts as functions of torch, which have derivatives of second order."""
    coefficients, gamma = inputs[_MARCH]
    field, (sun, *weights), (factor, *terms) = inputs[0], inputs[_NETWORK], inputs[_TERMS]
    assert field is not None and coefficients is not None and gamma is not None
    added = decay = closure = None
    if weights[0] is not None:
        closure = apply_network(field, None, sun, *weights)  # type: ignore[arg-type]
    if any(tensor is not None for tensor in (closure, *terms)):
        lasting, light, radiation, around, regime, passing = terms
        added, decay = apply_terms(
            field, closure, factor, lasting, light, radiation, around, regime, passing, course.surroundings
        )
    scale, centre = (each[:, None, None] for each in course.scale)
    bases = [taken_apart(base, field.shape[-1], course.side) for base in course.bases[number]]
    later = repeat(course.call, course.pattern, field * scale + centre, coefficients, gamma, added, decay, bases)
    return (later - centre) / scale


def _run(
    course: Course, number: int, inputs: Sequence[Tensor | None], *, recording: bool
) -> tuple[Tensor, Tensor | None, Tensor | None, Record]:
    """Return the result, the unbounded closure, what its network keeps for the way back, and what the march does."""
    field, coefficients, gamma = inputs[0], *inputs[_MARCH]
    assert field is not None and coefficients is not None and gamma is not None
    closure = before = None
    if inputs[_FIRST] is not None:
        closure, before = network_kernel.run_forward((field, None, *inputs[_NETWORK]), recorded=recording)
    terms = (field, closure, *inputs[_TERMS])
    decays = terms[7] is not None
    states = new_states(course.pattern, field, course.side, decays=decays, recording=recording)
    first, drives = states[0], any(tensor is not None for tensor in terms[1:])
    added, decay = (torch.empty_like(first) if there else None for there in (drives, decays))
    terms_kernel.run_forward(terms, course.surroundings, course.side, (added, decay, first), course.scale)
    record = run_forward(
        course.call, course.pattern, course.side, states, coefficients, gamma, added, decay, course.bases[number],
        recording=recording,
    )  # fmt: skip
    later, last, (scale, centre) = torch.empty_like(field), last_state(course.pattern, states), course.scale
    kernel_of(field, course.surroundings).end(
        last.data_ptr(), scale.data_ptr(), centre.data_ptr(), later.data_ptr(), course.counts
    )
    return later, closure, before, record


class _Interval(Function):
    @staticmethod
    def forward(ctx: Any, course: Course, number: int, *inputs: Tensor | None) -> Tensor:
        here = [dense(tensor) for tensor in inputs]
        later, closure, before, record = _run(course, number, here, recording=True)
        ctx.course, ctx.number = course, number
        ctx.save_for_backward(closure, before, *here, *record.tensors())
        return later

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        closure, before, *rest = ctx.saved_tensors
        needed, course = ctx.needs_input_grad[2:], ctx.course
        inputs, record = rest[: len(needed)], Record.of(course.side, rest[len(needed) :])
        if is_beyond_kernels(gradients[0]):
            return None, None, *_again(course, ctx.number, inputs, gradients[0], needed)
        by_later, field = dense(gradients[0]), inputs[0]
        assert by_later is not None
        seeds = record.states.new_empty(2, *record.states.shape[1:])
        kernel_of(field, course.surroundings).begin_back(
            by_later.data_ptr(), course.scale[0].data_ptr(), seeds.data_ptr(), course.counts
        )
        terms = (field, closure, *inputs[_TERMS])
        drives, decays = any(tensor is not None for tensor in terms[1:]), terms[7] is not None
        derivatives = (True, *needed[_MARCH], drives, decays, *(False for _ in course.bases[ctx.number]))
        coefficients, gamma = inputs[_MARCH]
        g = run_back(course.call, course.pattern, record, seeds, coefficients, gamma, derivatives)
        lasting = inputs[_LASTING]
        by_lasting = torch.empty_like(lasting) if lasting is not None and needed[_LASTING] else None
        by_field, by_closure, *by_terms = terms_kernel.run_backward(
            terms, course.surroundings, course.side, (g.added, g.decay, g.state), by_lasting, course.scale
        )
        by_network: list[Tensor | None] = [None] * 8
        if by_closure is not None and before is not None:
            by_input, _, *by_network = network_kernel.run_backward(
                (field, None, *inputs[_NETWORK]), before, by_closure, (True, False)
            )
            assert by_field is not None and by_input is not None
            by_field = by_field.add_(by_input)
        return None, None, by_field, *by_network, *by_terms, g.coefficients, g.factor


def _again(
    course: Course, number: int, inputs: Sequence[Tensor | None], seed: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """Return derivatives that have derivatives."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Aliases, for one input may be computed from another: each derivative is by that input's own use alone.
        aliases = [t.view_as(t) if want and t is not None else t for t, want in zip(inputs, needed, strict=True)]
        later = by_parts(course, number, *aliases)
        leaves = [a for a, want in zip(aliases, needed, strict=True) if want and a is not None]
        got = iter(torch.autograd.grad(later, leaves, seed, create_graph=again, allow_unused=True))
    return [next(got) if want and t is not None else None for t, want in zip(inputs, needed, strict=True)]
