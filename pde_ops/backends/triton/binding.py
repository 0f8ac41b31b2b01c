"""Launch generated kernels on tensors of a device; nothing here waits for it."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from ..fused.binding import Arguments
from ..fused.joins import join_after_adjoint, join_after_step, join_before_adjoint, of_step
from .emit import SweepNotes, emit
from .gather import GatherKernel
from .stored import stored_module

__all__ = ["OPTIONS", "TritonKernel", "block_size"]

OPTIONS = {"enable_fp_fusion": True}  # a * b + c in one instruction, as the C kernel has it

# Columns of a program, and columns of a thread, by dtype and direction. Two columns hide latency, but an adjoint, and
# anything in float64, then runs out of registers.
WIDEST = {torch.float32: 256, torch.float64: 128}
NARROWEST = 32
EACH = {(torch.float32, False): 2, (torch.float32, True): 1, (torch.float64, False): 1, (torch.float64, True): 1}
IDLE = 1.25  # lanes for a column beyond which a narrower program is taken


def block_size(nx: int, dtype: torch.dtype, *, seeded: bool) -> tuple[int, int]:
    """Return columns and warps of a program, for rows of a length."""
    block = WIDEST[dtype]
    while block > NARROWEST and -(-nx // block) * block > IDLE * nx:
        block //= 2
    return block, max(1, block // (32 * EACH[dtype, seeded]))


class TritonKernel:
    """The sweeps of one kernel, forward or adjoint."""

    def __init__(self, kernel: GatherKernel, ny: int, nx: int, dtype: torch.dtype) -> None:
        emitted = emit(kernel, double=dtype == torch.float64)
        self._stored = stored_module(emitted.source)
        self._sweeps = [(self._stored.function(notes.name), notes) for notes in emitted.sweeps]
        self._ny, self._nx, self._dtype = ny, nx, dtype
        self._seeded, self._scalars = kernel.seeded, kernel.derivatives
        self._is_summed = len(kernel.summed_slots())
        self._block, self._warps = block_size(nx, dtype, seeded=kernel.seeded)
        self._steps: dict[tuple[float, torch.device], Tensor] = {}

    def __call__(self, arguments: Arguments) -> Tensor | None:
        """Run it; an adjoint returns the derivatives by the scalars."""
        sums = self._sums(arguments)
        for step in range(arguments.steps):
            now = of_step(arguments, step)
            if self._seeded:
                join_before_adjoint(arguments, step)
            self._run(now, sums, step == 0)
            join_after_adjoint(arguments, step) if self._seeded else join_after_step(arguments, step)
        return sums.sum(1).to(self._dtype) if self._seeded else None

    def programs(self, batch: int) -> int:
        """Return how many programs a launch has."""
        return batch * self._ny * -(-self._nx // self._block)

    def _sums(self, arguments: Arguments) -> Tensor:
        """Return where each program puts its part of each sum; the parts are then added up in a fixed order."""
        like, programs = arguments.coefficients, self.programs(arguments.batch)
        shape = (self._scalars, programs) if self._is_summed else (self._scalars, 1)
        make = like.new_empty if self._is_summed == self._scalars and arguments.steps else like.new_zeros
        return make(shape, dtype=torch.float64)

    def _run(self, arguments: Arguments, sums: Tensor, first: bool) -> None:
        programs = self.programs(arguments.batch)
        if programs == 0:
            return
        block = next(iter(arguments.blocks.values()))
        step = self._step(arguments.dt, block.device)
        on_device = torch.cuda.device(block.device) if block.is_cuda else contextlib.nullcontext()
        with on_device, self._stored.compiling():
            for function, notes in self._sweeps:
                function[(programs,)](
                    *self._arrays(notes, arguments),
                    arguments.rows[0], arguments.coefficients, arguments.factor, step, sums,
                    arguments.batch, self._ny, self._nx, self._ny * self._nx, programs,
                    BLOCK=self._block, FIRST=first, num_warps=self._warps, **OPTIONS,
                )  # fmt: skip

    def _arrays(self, notes: SweepNotes, arguments: Arguments) -> list[Any]:
        values: list[Any] = [arguments.blocks[kind] for kind in notes.blocks]
        for kind, index in notes.separate:
            tensor: Tensor = arguments.closures[index] if kind == "closure" else arguments.planes[kind, index]  # type: ignore[index]
            values += [tensor, tensor.stride(0), tensor.stride(1)]
        return values

    def _step(self, dt: float, device: torch.device) -> Tensor:
        """Return the time step as a tensor: a number would be handed over in float32."""
        step = self._steps.get((dt, device))
        if step is None:
            self._steps.clear()
            step = self._steps[dt, device] = torch.full((1,), dt, dtype=self._dtype, device=device)
        return step
