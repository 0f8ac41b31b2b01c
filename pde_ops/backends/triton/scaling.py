"""The scale rules ``range`` and ``limiter``: a reduction for the extrema of each item, then one pass over the cells.

Extrema and sums are taken in two stages, pieces first, so that they do not depend on the order of programs.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
from torch import Tensor

from .binding import OPTIONS
from .stored import stored_module
from .templates import SCALING

__all__ = ["TritonScaler", "scaler"]

BLOCK = 512  # values of a piece
WIDTH = 64  # pieces that the second stage takes at a time
WARPS = 4


@functools.cache
def scaler(dtype: torch.dtype) -> TritonScaler:
    """Return the kernels of one dtype."""
    return TritonScaler(dtype)


class TritonScaler:
    """Scale an increment by the range of the state, per sample and channel."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._stored = stored_module(SCALING.format(real="tl.float64" if dtype == torch.float64 else "tl.float32"))
        self._tiny = torch.finfo(dtype).tiny
        self._numbers: dict[Any, Tensor] = {}

    def forward(
        self, state: Tensor, rate: Tensor, dt: float, gamma: Tensor, rule: str, rho: float, quiet: float
    ) -> tuple[Tensor, Tensor]:
        """Return state + gamma · scaled(dt · rate), and the notes that `backward` needs."""
        batch, fields, ny, nx = state.shape
        items, size = batch * fields, ny * nx
        pieces = -(-size // BLOCK)
        result, notes = torch.empty_like(state), state.new_empty(batch, fields, 3)
        parts = state.new_empty(items, pieces, 5)
        numbers = self._given(state.device, dt, rho, quiet)
        with self._launching(state):
            self._run("measured", items * pieces, state, rate, parts, numbers, size, pieces, BLOCK=BLOCK)
            self._run("noted", items, parts, notes, numbers, pieces, IS_RANGE=rule == "range", WIDTH=WIDTH)
            self._run(
                "scaled", items * pieces, state, rate, result, notes, gamma, numbers, size, pieces, fields, BLOCK=BLOCK
            )
        return result, notes

    def backward(
        self, grad_output: Tensor, rate: Tensor, dt: float, gamma: Tensor, notes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the derivatives by ``rate`` and by ``gamma``."""
        batch, fields, ny, nx = grad_output.shape
        items, size = batch * fields, ny * nx
        pieces = -(-size // BLOCK)
        seed, ties = torch.empty_like(grad_output), grad_output.new_empty(items)
        totals = grad_output.new_empty(batch, fields, dtype=torch.float64)
        parts = grad_output.new_empty(items, pieces, 2, dtype=torch.float64)
        numbers = self._given(grad_output.device, dt)
        with self._launching(grad_output):
            self._run("summed", items * pieces, grad_output, rate, parts, notes, numbers, size, pieces, BLOCK=BLOCK)
            self._run("shared", items, parts, notes, gamma, totals, ties, numbers, pieces, fields, WIDTH=WIDTH)
            self._run(
                "returned", items * pieces, grad_output, rate, seed, notes, gamma, ties, numbers, size, pieces, fields,
                BLOCK=BLOCK,
            )  # fmt: skip
        return seed, totals.sum(0)

    def _run(self, name: str, programs: int, *arguments: Any, **constants: Any) -> None:
        if programs:
            self._stored.function(name)[(programs,)](*arguments, **constants, num_warps=WARPS, **OPTIONS)

    @contextlib.contextmanager
    def _launching(self, like: Tensor) -> Any:
        with torch.cuda.device(like.device) if like.is_cuda else contextlib.nullcontext(), self._stored.compiling():
            yield

    def _given(self, device: torch.device, dt: float, rho: float = 0.0, quiet: float = 0.0) -> Tensor:
        """Return the numbers of a call in float64; the last ones are kept, which spares a copy to the device."""
        key = (device, dt, rho, quiet)
        if key not in self._numbers:
            if len(self._numbers) > 8:
                self._numbers.clear()
            values = [dt, rho, quiet, self._tiny]
            self._numbers[key] = torch.tensor(values, dtype=torch.float64, device=device)
        return self._numbers[key]
