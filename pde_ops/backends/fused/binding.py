"""Call a kernel on torch tensors: addresses and strides in, tensors out, no copy where none is needed."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ...errors import BackendError
from .build import Compiler, load_library
from .emit_c import emit_c
from .plan import Kernel

__all__ = ["Arguments", "CKernel", "Launch"]

_RUN_TYPES = (
    ctypes.c_void_p,  # arrays
    ctypes.c_long,  # batch
    ctypes.c_long,  # ny
    ctypes.c_void_p,  # coefficients
    ctypes.c_void_p,  # factors
    ctypes.c_double,  # dt
    ctypes.c_void_p,  # values per row
    ctypes.c_void_p,  # gradients by scalars
    ctypes.c_int,  # threads
)


@dataclass(slots=True)
class Arguments:
    """What one launch reads and writes; every tensor is of the kernel's dtype.

    Attributes
    ----------
    blocks : by kind (field, seed, output, …), arrays that lie one behind the other: ``[batch, n, y, x]``, dense
    planes : by (kind, index or name), arrays of their own, ``[batch, y, x]`` with dense columns
    rows : ``[row, y]`` float64
    """

    batch: int
    ny: int
    blocks: dict[str, Tensor]
    planes: dict[tuple[str, Any], Tensor]
    coefficients: Tensor
    factor: Tensor
    dt: float
    rows: np.ndarray[Any, np.dtype[np.float64]]
    threads: int = field(default_factory=torch.get_num_threads)


class Launch(Protocol):
    """A compiled kernel."""

    def __call__(self, arguments: Arguments) -> Tensor:
        """Run it; return the derivatives by the scalars, float64 (meaningless for a forward kernel)."""

    def describe(self) -> str:
        """Say what it is."""


class CKernel:
    """A kernel compiled from C."""

    def __init__(self, kernel: Kernel, nx: int, dtype: torch.dtype, compiler: Compiler) -> None:
        self._library = load_library(emit_c(kernel, nx, double=dtype == torch.float64), compiler)
        self._run = self._library.run
        self._run.argtypes, self._run.restype = _RUN_TYPES, ctypes.c_int
        self._itemsize = dtype.itemsize
        self._compiler = compiler
        self._scalars = max(1, len(kernel.traced.scalars))
        infos = [kernel.traced.arrays[a] for a in kernel.arrays()]
        self._places: list[tuple[str, Any]] = [
            (i.kind, i.name if i.kind in ("static", "grid") else i.index) for i in infos
        ]
        self._table_type = ctypes.c_int64 * (3 * len(infos))

    def __call__(self, arguments: Arguments) -> Tensor:
        """Run it; return the derivatives by the scalars."""
        table: list[int] = []
        blocks, planes, size = arguments.blocks, arguments.planes, self._itemsize
        starts = {kind: (b.data_ptr(), b.stride(0), b.stride(1) * size, b.stride(2)) for kind, b in blocks.items()}
        for place in self._places:
            kind, index = place
            if kind in starts:
                start, sample, step, row = starts[kind]
                table += (start + index * step, sample, row)
            else:
                plane = planes[place]
                table += (plane.data_ptr(), plane.stride(0), plane.stride(1))
        gradients = torch.empty(self._scalars, dtype=torch.float64)
        failed = self._run(
            self._table_type(*table),
            arguments.batch,
            arguments.ny,
            arguments.coefficients.data_ptr(),
            arguments.factor.data_ptr(),
            arguments.dt,
            arguments.rows.ctypes.data,
            gradients.data_ptr(),
            arguments.threads,
        )
        if failed:
            raise BackendError("the fused kernel found no memory for its work space", do="use a smaller batch")
        return gradients

    def describe(self) -> str:
        """Say what it is."""
        return f"C by {self._compiler}"
