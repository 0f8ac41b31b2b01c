"""Call a kernel on torch tensors: addresses and strides in, tensors out, no copy where none is needed."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ...errors import BackendError
from .build import Compiler, load_library
from .emit_c import SEPARATE, block_kinds, emit_c
from .plan import Kernel

__all__ = ["Arguments", "CKernel", "Launch", "Places"]

_RUN_TYPES = (
    ctypes.c_char_p,  # addresses and strides
    ctypes.c_long,  # batch
    ctypes.c_long,  # ny
    ctypes.c_void_p,  # coefficients
    ctypes.c_void_p,  # factors
    ctypes.c_double,  # dt
    ctypes.c_void_p,  # values per row
    ctypes.c_void_p,  # derivatives by scalars
    ctypes.c_int,  # threads
    ctypes.c_long,  # steps
    ctypes.c_long,  # after how many of them something is put on the state
    ctypes.c_char_p,  # addresses of that and of derivatives by it
)
Places = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class Arguments:
    """What one launch reads and writes; every tensor is of the kernel's dtype.

    Attributes
    ----------
    blocks : by kind, dense arrays that lie one behind the other: ``[batch, n, y, x]``, and ``[n, batch, y, x]`` for
        the derivatives by closures
    closures : by position, ``[batch, y, x]`` with dense columns; an adjoint gets those that it reads
    planes : statics and arrays of the grid by (kind, name), ``[1, y, x]`` with dense columns
    rows : ``[row, y]``, as `compiled.Call` has them
    steps : how many; in a march a block that ``places`` names has one more axis in front, with the place of each step
    joined : what is put on the state after every ``every`` steps: ``added - decay * (the state they began with)``,
        the derivatives by both, and work space of the same shape; None where there is nothing
    """

    batch: int
    blocks: Mapping[str, Tensor]
    closures: Sequence[Tensor] | Mapping[int, Tensor]
    planes: Mapping[tuple[str, str], Tensor]
    coefficients: Tensor
    factor: Tensor
    dt: float
    rows: tuple[Any, int]
    steps: int = 1
    every: int = 1
    places: Mapping[str, Places] = field(default_factory=dict)
    joined: tuple[Tensor | None, ...] = ()


class Launch(Protocol):
    """A compiled kernel.

    An adjoint adds up the derivative by each coefficient itself, in an order that does not depend on threads. On a CPU:
    over up to 64 columns of a row in the inner loop, in the dtype of the kernel; from there on in double precision,
    over the rows of a task in the function of the task (both `emit_c`), over tasks in ``total`` of `templates`. On a
    GPU: over the cells of a program in `pde_ops.backends.triton.emit` (``sums``), over programs in
    `pde_ops.backends.triton.binding.TritonKernel`, both in double precision.
    """

    def __call__(self, arguments: Arguments) -> Tensor | None:
        """Run it; an adjoint returns the derivatives by the coefficients and, if wanted, behind them by the factors."""


class CKernel:
    """A kernel compiled from C, for ``side`` samples side by side."""

    def __init__(self, kernel: Kernel, ny: int, nx: int, dtype: torch.dtype, compiler: Compiler, side: int = 1) -> None:
        self._library = load_library(emit_c(kernel, nx, double=dtype == torch.float64, side=side), compiler)
        self._run = self._library.run
        self._run.argtypes, self._run.restype = _RUN_TYPES, ctypes.c_int
        self._ny = ny
        self._dtype = dtype
        self._scalars = kernel.derivatives if kernel.seeded else None
        infos = [kernel.traced.arrays[a] for a in kernel.arrays()]
        # The generated code knows where the arrays of a block lie: a call hands over as little as possible.
        self._blocks = block_kinds(infos)
        self._separate: list[tuple[str, Any]] = [
            (i.kind, i.index if i.kind == "closure" else i.name) for i in infos if i.kind in SEPARATE
        ]
        self._given = struct.Struct(f"{len(self._blocks) + 3 * len(self._separate)}q")
        self._offsets: dict[tuple[Any, ...], Places] = {}

    def __call__(self, arguments: Arguments) -> Tensor | None:
        """Run it; return the derivatives by the scalars."""
        blocks, closures = arguments.blocks, arguments.closures
        pointers = [blocks[kind].data_ptr() for kind in self._blocks]
        for kind, index in self._separate:
            tensor = closures[index] if kind == "closure" else arguments.planes[kind, index]
            sample, row, _ = tensor.stride()
            pointers += (tensor.data_ptr(), sample, row)
        derivatives = None if self._scalars is None else torch.empty(self._scalars, dtype=self._dtype)
        joined = [0 if tensor is None else tensor.data_ptr() for tensor in arguments.joined]
        failed = self._run(
            self._given.pack(*pointers) if not arguments.places else self._of_all_steps(pointers, arguments),
            arguments.batch,
            self._ny,
            arguments.coefficients.data_ptr(),
            arguments.factor.data_ptr(),
            arguments.dt,
            arguments.rows[1],
            None if derivatives is None else derivatives.data_ptr(),
            torch.get_num_threads(),
            arguments.steps,
            arguments.every,
            struct.pack(f"{len(joined)}q", *joined) if joined else None,
        )
        if failed:
            raise BackendError("the fused kernel found no memory for its work space", do="use a smaller batch")
        return derivatives

    def _of_all_steps(self, pointers: list[int], arguments: Arguments) -> bytes:
        blocks, places, steps = arguments.blocks, arguments.places, arguments.steps
        moving = [kind for kind in self._blocks if kind in places]
        # A march is laid out like the one before, but for where its blocks lie.
        key = (steps, *(blocks[kind].stride(0) for kind in moving), *(places[kind].tobytes() for kind in moving))
        offsets = self._offsets.get(key)
        if offsets is None:
            offsets = np.zeros((steps, len(pointers)), np.int64)
            for kind in moving:
                stride = blocks[kind].stride(0) * blocks[kind].element_size()
                offsets[:, self._blocks.index(kind)] = places[kind] * stride
            self._offsets = {key: offsets}
        return (offsets + pointers).tobytes()
