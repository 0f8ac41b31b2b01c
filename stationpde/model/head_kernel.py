r"""The head of the stations, and its layer for histories, as functions of torch; see ``head.c`` and ``layer.c``.

.. math:: y = s \odot \bigl(W_3\,\mathrm{silu}(W_2\,\mathrm{silu}(m + W_1 x) + b_2) + b_3\bigr), \qquad
          m = W_0 h + b_0

Against matrix products one after the other, rows of stations stay in the nearest cache between the layers. Kept for the
way back is the second layer before its SiLU, and nothing else.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as nnf

import pde_ops.backends.fused as fused
from pde_ops.backends.fused.build import load_library
from pde_ops.backends.fused.engine import choose_engine
from pde_ops.backends.fused.second_order import is_beyond_kernels
from stationpde.model.network_kernel import addresses, dense, is_compiled_here

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["apply_head", "apply_layer", "head_by_torch", "runs_head_here", "runs_layer_here"]


def runs_layer_here(*tensors: Tensor) -> bool:
    """Return whether the kernel takes these tensors: of one type, in main memory, with a C compiler."""
    first = tensors[0]
    return all(is_compiled_here(tensor) and tensor.dtype == first.dtype and tensor.numel() for tensor in tensors)


def runs_head_here(memory: Tensor, passing: Tensor, *weights: Tensor) -> bool:
    """Return whether the kernel takes these inputs of a head: of one type, by lead, no derivative by what passes."""
    if memory.ndim != 4 or passing.ndim != 4 or memory.shape[1] != 1 or memory.shape[::2] != passing.shape[::2]:
        return False
    return not (passing.requires_grad and torch.is_grad_enabled()) and runs_layer_here(memory, passing, *weights)


def apply_layer(
    rows: Float[Tensor, "*batch input"], weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"]
) -> Float[Tensor, "*batch output"]:
    """Return ``W x + b`` of every row, as `torch.nn.functional.linear` does."""
    outputs: Tensor = _Layer.apply(rows, weight, bias)
    return outputs


def apply_head(
    memory: Float[Tensor, "batch 1 station hidden"], passing: Float[Tensor, "batch lead station input"],
    first: Float[Tensor, "hidden input"], middle: Float[Tensor, "hidden hidden"], middle_bias: Float[Tensor, " hidden"],
    last: Float[Tensor, "output hidden"], last_bias: Float[Tensor, " output"], scale: Float[Tensor, " output"],
) -> Float[Tensor, "batch lead station output"]:  # fmt: skip
    """Return the residuals of all leads; no derivative is given by ``passing``, which is data.

    Parameters
    ----------
    memory : part of the first layer that holds for every lead
    passing : inputs that change with the lead
    first, middle, middle_bias, last, last_bias : weights of the layers
    scale : factor of each output
    """
    outputs: Tensor = _Head.apply(memory, passing, first, middle, middle_bias, last, last_bias, scale)
    return outputs


def head_by_torch(
    memory: Tensor, passing: Tensor, first: Tensor, middle: Tensor, middle_bias: Tensor, last: Tensor,
    last_bias: Tensor, scale: Tensor,
) -> Tensor:  # fmt: skip
    """Compute the same from operations of torch, which have derivatives of any order."""
    hidden = nnf.silu(nnf.linear(nnf.silu(memory + nnf.linear(passing, first)), middle, middle_bias))
    return nnf.linear(hidden, last, last_bias) * scale


class _Kernels:
    """The loaded kernels of a dtype."""

    def __init__(self, double: bool) -> None:
        compiler = choose_engine().compiler
        assert compiler is not None
        defines = {"REAL_IS_DOUBLE": int(double), "NX": 1, "BORDER_X": 0, "BORDER_Y": 0}
        parts = [f"#define {name} {value}" for name, value in defines.items()]
        prelude, here = Path(str(fused.__file__)).with_name("prelude.h"), Path(__file__)
        sources = (prelude, *(here.with_name(f"{name}.c") for name in ("products", "layer", "head")))
        parts += [path.read_text(encoding="utf-8") for path in sources]
        library = load_library("\n".join(parts), compiler)
        pointer, size, flag = ctypes.c_void_p, ctypes.c_long, ctypes.c_int
        self.layer, self.layer_back = library.layer_forward, library.layer_backward
        self.layer.argtypes = [*[pointer] * 3, *[size] * 3, pointer, flag]
        self.layer_back.argtypes = [*[pointer] * 3, *[size] * 3, *[pointer] * 3, flag]
        self.head, self.head_back = library.head_forward, library.head_backward
        self.head.argtypes = [pointer, pointer, pointer, pointer, flag]
        self.head_back.argtypes = [pointer, pointer, pointer, pointer, pointer, flag]


_kernels = functools.cache(_Kernels)


def _kernels_of(tensor: Tensor) -> _Kernels:
    return _kernels(tensor.dtype == torch.float64)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


class _Layer(Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        rows, weight, bias = (tensor.resolve_neg().contiguous() for tensor in inputs)
        outputs = rows.new_empty(*rows.shape[:-1], len(weight))
        count = rows.numel() // rows.shape[-1]
        if _kernels_of(rows).layer(
            rows.data_ptr(), weight.data_ptr(), bias.data_ptr(), count, rows.shape[-1], len(weight), outputs.data_ptr(),
            torch.get_num_threads(),
        ):  # fmt: skip
            raise MemoryError("no memory for the panels of a layer")
        ctx.save_for_backward(rows, weight, bias)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rows, weight, bias = ctx.saved_tensors
        if is_beyond_kernels(gradients[0]):
            return _again(nnf.linear, (rows, weight, bias), gradients[0], ctx.needs_input_grad)
        seed = dense(gradients[0])
        assert seed is not None
        by_rows = torch.empty_like(rows) if ctx.needs_input_grad[0] else None
        by_weight, by_bias = torch.empty_like(weight), torch.empty_like(bias)
        if _kernels_of(rows).layer_back(
            rows.data_ptr(), weight.data_ptr(), seed.data_ptr(), rows.numel() // rows.shape[-1], rows.shape[-1],
            len(weight), _address(by_rows), by_weight.data_ptr(), by_bias.data_ptr(), torch.get_num_threads(),
        ):  # fmt: skip
            raise MemoryError("no memory for the derivatives of a layer")
        return by_rows, by_weight, by_bias


def _sizes(memory: Tensor, passing: Tensor, last: Tensor) -> bytes:
    return struct.pack("6q", *passing.shape, memory.shape[-1], len(last))


class _Head(Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        here = [tensor.resolve_neg().contiguous() for tensor in inputs]
        memory, passing, last = here[0], here[1], here[5]
        before = passing.new_empty(*passing.shape[:-1], memory.shape[-1]) if any(ctx.needs_input_grad) else None
        outputs = passing.new_empty(*passing.shape[:-1], len(last))
        if _kernels_of(memory).head(
            addresses(here), _sizes(memory, passing, last), _address(before), outputs.data_ptr(),
            torch.get_num_threads(),
        ):  # fmt: skip
            raise MemoryError("no memory for the layers of the station head")
        ctx.save_for_backward(before, *here)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        before, *inputs = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if is_beyond_kernels(gradients[0]):
            return _again(head_by_torch, inputs, gradients[0], needed)
        seed = dense(gradients[0])
        assert seed is not None
        by_memory = torch.empty_like(inputs[0]) if needed[0] else None
        results = [by_memory, *(torch.empty_like(weight) for weight in inputs[2:])]
        if _kernels_of(seed).head_back(
            addresses(inputs), _sizes(inputs[0], inputs[1], inputs[5]), before.data_ptr(), seed.data_ptr(),
            addresses(results), torch.get_num_threads(),
        ):  # fmt: skip
            raise MemoryError("no memory for the derivatives of the station head")
        return results[0], None, *results[1:]


def _again(
    run: Callable[..., Tensor], inputs: Sequence[Tensor], seed: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return derivatives that have derivatives."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Aliases, for one input may be computed from another: each derivative is by that input's own use alone.
        aliases = [t.view_as(t) if want else t for t, want in zip(inputs, needed, strict=True)]
        leaves = [alias for alias, want in zip(aliases, needed, strict=True) if want]
        got = iter(torch.autograd.grad(run(*aliases), leaves, seed, create_graph=again, allow_unused=True))
    return tuple(next(got) if want else None for want in needed)
