"""Call a kernel on torch tensors: addresses and strides in, tensors out, no copy where none is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    ctypes.c_void_p,  # derivatives by scalars
    ctypes.c_int,  # threads
)
SEPARATE = ("closure", "static", "grid")  # kinds of arrays that come one by one, with strides of their own


@dataclass(slots=True)
class Arguments:
    """What one launch reads and writes; every tensor is of the kernel's dtype.

    Attributes
    ----------
    blocks : by kind, dense arrays that lie one behind the other: ``[batch, n, y, x]``, and ``[n, batch, y, x]`` for
        the derivatives by closures
    closures : ``[batch, y, x]`` with dense columns
    planes : statics and arrays of the grid by (kind, name), ``[1, y, x]`` with dense columns
    rows : ``[row, y]`` float64, and where it lies in memory
    """

    batch: int
    blocks: Mapping[str, Tensor]
    closures: Sequence[Tensor]
    planes: Mapping[tuple[str, str], Tensor]
    coefficients: Tensor
    factor: Tensor
    dt: float
    rows: tuple[np.ndarray[Any, np.dtype[np.float64]], int]


class Launch(Protocol):
    """A compiled kernel."""

    def __call__(self, arguments: Arguments) -> Tensor | None:
        """Run it; an adjoint returns the derivatives by the coefficients and, behind them, the factors, in float64."""


class CKernel:
    """A kernel compiled from C."""

    def __init__(self, kernel: Kernel, ny: int, nx: int, dtype: torch.dtype, compiler: Compiler) -> None:
        self._library = load_library(emit_c(kernel, nx, double=dtype == torch.float64), compiler)
        self._run = self._library.run
        self._run.argtypes, self._run.restype = _RUN_TYPES, ctypes.c_int
        self._ny = ny
        self._scalars = kernel.traced.coefficients + len(kernel.traced.outputs) if kernel.seeded else 0
        self._plane = ny * nx * dtype.itemsize
        infos = [kernel.traced.arrays[a] for a in kernel.arrays()]
        counts = {**kernel.traced.counts(), "saved": kernel.saved}
        table: list[int] = []
        # Strides of dense arrays are known beforehand: a call fills in addresses, and strides of what comes separately.
        self._dense: dict[str, list[tuple[int, int]]] = {}
        self._separate: list[tuple[int, str, Any]] = []
        for slot, info in enumerate(infos):
            if info.kind in SEPARATE:
                self._separate.append((3 * slot, info.kind, info.index if info.kind == "closure" else info.name))
                table += (0, 0, 0)
            else:
                self._dense.setdefault(info.kind, []).append((3 * slot, info.index))
                together = 1 if info.kind == "gradient closure" else counts[info.kind.removeprefix("gradient ")]
                table += (0, together * ny * nx, nx)
        self._table_type = ctypes.c_int64 * len(table)
        self._template = self._table_type(*table)

    def __call__(self, arguments: Arguments) -> Tensor | None:
        """Run it; return the derivatives by the scalars."""
        table = self._table_type.from_buffer_copy(self._template)
        for kind, places in self._dense.items():
            start, step = arguments.blocks[kind].data_ptr(), self._plane
            if kind == "gradient closure":
                step *= arguments.batch
            for slot, index in places:
                table[slot] = start + index * step
        for slot, kind, index in self._separate:
            tensor = arguments.closures[index] if kind == "closure" else arguments.planes[kind, index]
            sample, row, _ = tensor.stride()
            table[slot], table[slot + 1], table[slot + 2] = tensor.data_ptr(), sample, row
        derivatives = torch.zeros(self._scalars, dtype=torch.float64) if self._scalars else None
        failed = self._run(
            table,
            arguments.batch,
            self._ny,
            arguments.coefficients.data_ptr(),
            arguments.factor.data_ptr(),
            arguments.dt,
            arguments.rows[1],
            None if derivatives is None else derivatives.data_ptr(),
            torch.get_num_threads(),
        )
        if failed:
            raise BackendError("the fused kernel found no memory for its work space", do="use a smaller batch")
        return derivatives
