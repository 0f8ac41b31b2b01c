r"""A gate between two fields as one function of torch: network, sigmoid and mixture; see ``gate.c``.

.. math:: w = \sigma(\mathcal N([X, X', \odot])), \qquad Y = w \odot X + (1 - w) \odot X'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from pde_ops.backends.fused.second_order import is_beyond_kernels
from stationpde.model.network_kernel import (
    apply_network,
    dense,
    kernel_of,
    require_shapes,
    run_backward,
    run_forward,
)

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["apply_gate", "by_parts"]

_LAST = 8  # place of the weights of the last layer


def apply_gate(
    fields: Float[Tensor, "batch channel y x"], more: Float[Tensor, "batch channel y x"], sun: Tensor | None,
    *weights: Tensor | None,
) -> tuple[Float[Tensor, "batch channel y x"], Float[Tensor, "batch channel y x"]]:  # fmt: skip
    """Return the mixture of two fields and the weight of the first; arguments are those of `apply_network`."""
    inputs = (fields, more, sun, *weights)
    require_shapes(*inputs)  # type: ignore[arg-type]
    last, recording = weights[_LAST - 3], torch.is_grad_enabled()
    by_sun = sun is not None and sun.requires_grad and recording
    if by_sun or not len(fields) or last is None or last.shape[0] != fields.shape[1]:
        return by_parts(*inputs)
    if recording and any(tensor is not None and tensor.requires_grad for tensor in inputs):
        mixed, weight = _Gate.apply(*inputs)
        return mixed, weight
    mixed, weight, _ = _run([dense(tensor) for tensor in inputs], recorded=False)
    return mixed, weight


def by_parts(*inputs: Tensor | None) -> tuple[Tensor, Tensor]:
    """Compute the same from the network and operations of torch."""
    weight = torch.sigmoid(apply_network(*inputs))  # type: ignore[arg-type]
    fields, more = inputs[:2]
    assert fields is not None and more is not None
    return torch.lerp(more, fields, weight), weight


def _run(inputs: Sequence[Tensor | None], *, recorded: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the mixture, the weight, and what the network keeps for the way back."""
    fields, more, last = inputs[0], inputs[1], inputs[_LAST]
    assert fields is not None and more is not None and last is not None
    outputs, before = run_forward(inputs, recorded=recorded)
    mixed, weight = torch.empty_like(outputs), torch.empty_like(outputs)
    kernel_of(fields, last).gate(
        outputs.numel(), outputs.data_ptr(), fields.data_ptr(), more.data_ptr(), mixed.data_ptr(), weight.data_ptr()
    )
    return mixed, weight, before


class _Gate(Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor | None) -> Any:
        here = [dense(tensor) for tensor in inputs]
        mixed, weight, before = _run(here, recorded=True)
        ctx.save_for_backward(weight, before, *here)
        ctx.set_materialize_grads(False)
        return mixed, weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        weight, before, *inputs = ctx.saved_tensors
        needed, seeds = ctx.needs_input_grad, [gradient for gradient in gradients if gradient is not None]
        if not seeds:
            return (None,) * len(needed)
        if is_beyond_kernels(seeds[0]):
            return tuple(_again(inputs, gradients, needed))
        by_mixed, by_weight = (dense(gradient) for gradient in gradients)
        fields, more, kernel, count = inputs[0], inputs[1], kernel_of(inputs[0], inputs[_LAST]), weight.numel()
        by_outputs = torch.empty_like(weight)
        kernel.begin_back(
            count, weight.data_ptr(), fields.data_ptr(), more.data_ptr(), _place(by_mixed), _place(by_weight),
            by_outputs.data_ptr(),
        )  # fmt: skip
        results = run_backward(inputs, before, by_outputs, needed[:2])
        if by_mixed is not None:
            kernel.end_back(count, weight.data_ptr(), _place(by_mixed), _place(results[0]), _place(results[1]))
        return tuple(results)


def _place(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _again(
    inputs: Sequence[Tensor | None], gradients: Sequence[Tensor | None], needed: Sequence[bool]
) -> list[Tensor | None]:
    """Return derivatives that have derivatives."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Aliases, for one input may be computed from another: each derivative is by that input's own use alone.
        aliases = [t.view_as(t) if want and t is not None else t for t, want in zip(inputs, needed, strict=True)]
        pairs = [(out, seed) for out, seed in zip(by_parts(*aliases), gradients, strict=True) if seed is not None]
        leaves = [a for a, want in zip(aliases, needed, strict=True) if want and a is not None]
        outputs, seeds = zip(*pairs, strict=True)
        got = iter(torch.autograd.grad(outputs, leaves, seeds, create_graph=again, allow_unused=True))
    return [next(got) if want and t is not None else None for t, want in zip(inputs, needed, strict=True)]
