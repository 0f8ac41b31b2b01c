"""A network of two 3 × 3 convolutions as one function of torch, by a compiled kernel; see ``network.c``.

.. math:: y = W_2 * \\mathrm{silu}\\bigl((W_1 * [X, X', \\odot] + e_b + l)\\, f + s\\bigr) + b

Against matrix products of gathered neighbours, nothing is gathered or summed in memory, and a sample stays in the
nearest cache between the two layers. Kept for the way back is the first layer before its SiLU, and nothing else.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as nnf

import pde_ops.backends.fused as fused
from pde_ops.backends.fused.build import load_library
from pde_ops.backends.fused.engine import choose_engine
from pde_ops.transforms import is_transforming

__all__ = ["addresses", "apply_network", "dense", "is_compiled_here", "kernel", "kernel_of", "require_shapes",
           "run_backward", "run_forward"]  # fmt: skip

_TAPS = 9
_MOST_SUMS = 8  # results for which `network.c` has registers
_WITH_MEMORY = (Tensor, nn.Parameter)
_SIZES = ("REAL_IS_DOUBLE", "HIDDEN", "OUTPUTS", "CHANNELS")


def is_compiled_here(fields: Tensor) -> bool:
    """Return whether the kernel takes these fields: in main memory, with a C compiler, not while torch transforms."""
    if torch.compiler.is_compiling() or is_transforming():
        return False
    return _has_memory(fields) and fields.dtype in (torch.float32, torch.float64) and choose_engine().name == "c"


def apply_network(
    fields: Tensor, more: Tensor | None, sun: Tensor | None, first: Tensor, each: Tensor, lasting: Tensor,
    factor: Tensor | None, shift: Tensor | None, last: Tensor, bias: Tensor,
) -> Tensor:  # fmt: skip
    """Return the outputs ``[batch, output, y, x]``.

    Parameters
    ----------
    fields, more : inputs ``[batch, channel, y, x]``; the second may be None
    sun : ``[batch, 1, y, x]`` or None; the kernel has no derivative by it, so where one is wanted torch computes
    first : weights ``[hidden, input · 9]`` of fields, more and sun, in this order
    each : added to the first layer by sample ``[batch, hidden]``
    lasting : added to it by cell ``[hidden, y · x]``
    factor, shift : then multiplied with and added to it, ``[hidden, y · x]``, or both None
    last, bias : of the second layer, ``[output, hidden, 3, 3]`` and ``[output]``
    """
    inputs = (fields, more, sun, first, each, lasting, factor, shift, last, bias)
    require_shapes(*inputs)
    by_sun = sun is not None and sun.requires_grad and torch.is_grad_enabled()
    if by_sun or not len(fields):  # nor does it add up derivatives of no sample
        return by_torch(*inputs)
    # Copied here where they must be: a copy within the function would have no history for second derivatives.
    outputs: Tensor = _Network.apply(*[dense(tensor) for tensor in inputs])
    return outputs


def require_shapes(
    fields: Tensor, more: Tensor | None, sun: Tensor | None, first: Tensor, each: Tensor, lasting: Tensor,
    factor: Tensor | None, shift: Tensor | None, last: Tensor, bias: Tensor,
) -> None:  # fmt: skip
    """Refuse tensors of other shapes and types than the kernel reads: it takes addresses and looks at nothing else."""
    (batch, channels, ny, nx), (outputs, hidden) = fields.shape, last.shape[:2]
    taps = _TAPS * (channels * (1 if more is None else 2) + (0 if sun is None else 1))
    by_cell = (hidden, ny * nx)
    expected = (
        (fields, (batch, channels, ny, nx)), (more, (batch, channels, ny, nx)), (sun, (batch, 1, ny, nx)),
        (first, (hidden, taps)), (each, (batch, hidden)), (lasting, by_cell), (factor, by_cell), (shift, by_cell),
        (last, (outputs, hidden, 3, 3)), (bias, (outputs,)),
    )  # fmt: skip
    for tensor, shape in expected:
        if tensor is not None and (tensor.shape != shape or tensor.dtype != fields.dtype or not _has_memory(tensor)):
            raise ValueError(f"a network takes {fields.dtype} {shape} in main memory here, not {tensor.dtype} "
                             f"{tuple(tensor.shape)} on {tensor.device}")  # fmt: skip
    if not (outputs and hidden and channels and ny and nx):
        raise ValueError(f"a network has cells, channels, features and outputs, not {tuple(fields.shape)} and "
                         f"{tuple(last.shape)}")  # fmt: skip
    if outputs > _MOST_SUMS or channels > _MOST_SUMS or (factor is None) != (shift is None):
        raise ValueError(f"a network has at most {_MOST_SUMS} outputs and channels, and a factor with its shift")


def _has_memory(tensor: Tensor) -> bool:
    # Fake tensors are subclasses: they have no address.
    return tensor.device.type == "cpu" and type(tensor) in _WITH_MEMORY


def by_torch(
    fields: Tensor, more: Tensor | None, sun: Tensor | None, first: Tensor, each: Tensor, lasting: Tensor,
    factor: Tensor | None, shift: Tensor | None, last: Tensor, bias: Tensor,
) -> Tensor:  # fmt: skip
    """Compute the same from operations of torch, which have derivatives of any order."""
    inputs = torch.cat([part for part in (fields, more, sun) if part is not None], dim=1)
    grid = fields.shape[-2:]
    hidden = nnf.conv2d(_bordered(inputs), first.view(first.shape[0], -1, 3, 3)) + each[..., None, None]
    hidden = hidden + lasting.unflatten(1, grid)
    if factor is not None and shift is not None:
        hidden = hidden * factor.unflatten(1, grid) + shift.unflatten(1, grid)
    return nnf.conv2d(_bordered(nnf.silu(hidden)), last, bias)


def _bordered(fields: Tensor) -> Tensor:
    return nnf.pad(fields, (1, 1, 1, 1), mode="replicate")


class _Kernel:
    """The loaded kernel of a dtype, width, and number of outputs and channels."""

    def __init__(self, *sizes: int) -> None:
        compiler = choose_engine().compiler
        assert compiler is not None
        defines = {**dict(zip(_SIZES, sizes, strict=True)), "NX": 1, "BORDER_X": 0, "BORDER_Y": 0}
        parts = [f"#define {name} {value}" for name, value in defines.items()]
        prelude, here = Path(str(fused.__file__)).with_name("prelude.h"), Path(__file__)
        sources = (prelude, here.with_name("network.c"), here.with_name("gate.c"))
        parts += [path.read_text(encoding="utf-8") for path in sources]
        library = load_library("\n".join(parts), compiler)
        pointer, size, flag = ctypes.c_void_p, ctypes.c_long, ctypes.c_int
        self.forward, self.backward, self.values = (
            library.network_forward, library.network_backward, library.network_values
        )  # fmt: skip
        self.forward.argtypes = [pointer, size, size, size, pointer, pointer, flag]
        self.backward.argtypes = [pointer, size, size, size, pointer, pointer, pointer, flag]
        self.values.argtypes, self.values.restype = [size, size], size
        self.gate, self.begin_back, self.end_back = (
            library.gate_forward, library.gate_begin_back, library.gate_end_back
        )  # fmt: skip
        self.gate.argtypes, self.gate.restype = [size, *[pointer] * 5], None
        self.begin_back.argtypes, self.begin_back.restype = [size, *[pointer] * 6], None
        self.end_back.argtypes, self.end_back.restype = [size, *[pointer] * 4], None


kernel = functools.cache(_Kernel)


def kernel_of(fields: Tensor, last: Tensor) -> _Kernel:
    """Return the kernel for the dtype and channels of fields, and the weights of a last layer."""
    return kernel(int(fields.dtype == torch.float64), last.shape[1], last.shape[0], fields.shape[1])


def addresses(tensors: Sequence[Tensor | None]) -> bytes:
    """Return where the values of tensors lie, 0 for None, as an array of whole numbers of C."""
    return struct.pack(f"{len(tensors)}q", *(0 if tensor is None else tensor.data_ptr() for tensor in tensors))


def run_forward(dense: Sequence[Tensor | None], *, recorded: bool) -> tuple[Tensor, Tensor | None]:
    """Return the outputs, and if recorded what the way back needs beside the inputs of `apply_network`, all dense."""
    fields, last = dense[0], dense[8]
    assert fields is not None and last is not None
    batch, _, ny, nx = fields.shape
    here = kernel_of(fields, last)
    before = fields.new_empty(batch, last.shape[1], here.values(ny, nx)) if recorded else None
    outputs = fields.new_empty(batch, last.shape[0], ny, nx)
    threads, recording = torch.get_num_threads(), 0 if before is None else before.data_ptr()
    if here.forward(addresses(dense), batch, ny, nx, recording, outputs.data_ptr(), threads):
        raise MemoryError("no memory for the planes of a network")
    return outputs, before


def run_backward(
    inputs: Sequence[Tensor | None], before: Tensor, seed: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """Return the derivatives by all inputs but the sun; those by fields only if they are ``needed``."""
    fields, last = inputs[0], inputs[8]
    assert fields is not None and last is not None
    batch, _, ny, nx = fields.shape
    results = [None if tensor is None else torch.empty_like(tensor) for tensor in inputs]
    results[2] = None
    for place, want in enumerate(needed):
        results[place] = results[place] if want else None
    written = [result for place, result in enumerate(results) if place != 2]
    failed = kernel_of(fields, last).backward(
        addresses(inputs), batch, ny, nx, before.data_ptr(), seed.data_ptr(), addresses(written),
        torch.get_num_threads(),
    )  # fmt: skip
    if failed:
        raise MemoryError("no memory for the derivatives of a network")
    return results


def dense(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor whose memory a kernel can read."""
    return None if tensor is None else tensor.resolve_neg().contiguous()


class _Network(Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor | None) -> Tensor:
        outputs, before = run_forward(inputs, recorded=any(ctx.needs_input_grad))
        ctx.save_for_backward(before, *inputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        before, *inputs = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if torch.is_grad_enabled():
            return _again(inputs, gradients[0], needed)
        seed = gradients[0].resolve_neg().contiguous()
        return tuple(run_backward(inputs, before, seed, needed[:2]))


def _again(inputs: Sequence[Tensor | None], seed: Tensor, needed: Sequence[bool]) -> tuple[Tensor | None, ...]:
    """Return derivatives that have derivatives."""
    outputs = by_torch(*inputs)  # type: ignore[arg-type]
    leaves = [tensor for tensor, want in zip(inputs, needed, strict=True) if want and tensor is not None]
    derivatives = iter(torch.autograd.grad(outputs, leaves, seed, create_graph=True))
    return tuple(next(derivatives) if want else None for want in needed)
