"""The scale rules ``range`` and ``limiter`` in two fused passes, forward and backward."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from .build import Compiler, load_library

__all__ = ["RULES", "ScaleKernel", "Scaler", "scale_kernel"]

RULES = {"range": 0, "limiter": 1}
_NOTE = 3  # numbers kept per item: share, peak, slope


class Scaler(Protocol):
    """Scales an increment by the range of the state, per sample and channel."""

    def forward(
        self, state: Tensor, rate: Tensor, dt: float, gamma: Tensor, rule: str, rho: float, quiet: float
    ) -> tuple[Tensor, Tensor]:
        """Return state + gamma · scaled(dt · rate), and notes for `backward`; ``gamma`` in float64."""

    def backward(
        self, grad_output: Tensor, rate: Tensor, dt: float, gamma: Tensor, notes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the derivatives by ``rate`` and by ``gamma``."""


@functools.cache
def scale_kernel(dtype: torch.dtype, compiler: Compiler) -> ScaleKernel:
    """Return the kernel of one dtype, built once."""
    return ScaleKernel(dtype, compiler)


class ScaleKernel:
    """Scale an increment by the range of the state, per sample and channel."""

    def __init__(self, dtype: torch.dtype, compiler: Compiler) -> None:
        here = Path(__file__)
        defines = {"REAL_IS_DOUBLE": int(dtype == torch.float64), "NX": 1, "BORDER_X": 0, "BORDER_Y": 0}
        parts = [f"#define {name} {value}" for name, value in defines.items()]
        parts += [here.with_name(name).read_text(encoding="utf-8") for name in ("prelude.h", "scaling.c")]
        library = load_library("\n".join(parts), compiler)
        pointer, size, number, flag = ctypes.c_void_p, ctypes.c_long, ctypes.c_double, ctypes.c_int
        self._forward, self._backward = library.scale_forward, library.scale_backward
        common: list[Any] = [pointer] * 3 + [size] * 3 + [number, pointer]
        self._forward.argtypes = [*common, number, flag, number, number, pointer, flag]
        self._backward.argtypes = [*common, pointer, pointer, flag]
        self._forward.restype = self._backward.restype = None

    def forward(
        self, state: Tensor, rate: Tensor, dt: float, gamma: Tensor, rule: str, rho: float, quiet: float
    ) -> tuple[Tensor, Tensor]:
        """Return state + gamma · scaled(dt · rate), and the notes that :meth:`backward` needs."""
        batch, fields, ny, nx = state.shape
        result = torch.empty_like(state)
        notes = state.new_empty(batch, fields, _NOTE)
        self._forward(
            state.data_ptr(), rate.data_ptr(), result.data_ptr(), batch, fields, ny * nx, dt, gamma.data_ptr(), rho,
            RULES[rule], quiet, torch.finfo(state.dtype).tiny, notes.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        return result, notes

    def backward(
        self, grad_output: Tensor, rate: Tensor, dt: float, gamma: Tensor, notes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the derivatives by ``rate`` and by ``gamma``."""
        batch, fields, ny, nx = grad_output.shape
        seed = torch.empty_like(grad_output)
        totals = torch.zeros(batch, fields, dtype=torch.float64)
        self._backward(
            grad_output.data_ptr(), rate.data_ptr(), seed.data_ptr(), batch, fields, ny * nx, dt, gamma.data_ptr(),
            notes.data_ptr(), totals.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        return seed, totals.sum(0)
