"""What the kernels of a system move: bytes a cell, against the least that any kernel has to.

Counted from the loads and stores of the generated code, each array once: neighbours are in a cache. Nothing is compiled
and Triton is not needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..fused.plan import wanted_kinds
from ..fused.runner import FusedRunner
from .emit import SweepNotes, emit
from .engine import triton_engine
from .gather import GatherKernel

if TYPE_CHECKING:
    from ...tendency import Tendency

__all__ = ["StepKernels", "Traffic", "cell_bytes", "step_kernels", "traffic"]

INSIDE = ("stage", "gradient stage")  # kinds of arrays that pass from one sweep to the next


@dataclass(frozen=True, slots=True)
class StepKernels:
    """Kernels of one Euler step and of its adjoint, with derivatives by everything."""

    forward: GatherKernel
    backward: GatherKernel


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes a cell of one direction.

    Attributes
    ----------
    launches : kernels that run
    moved : bytes read and written, each array of each kernel once
    least : bytes of what comes in and what goes out
    """

    launches: int
    moved: int
    least: int


def step_kernels(tendency: Tendency) -> StepKernels:
    """Plan the kernels of an Euler step of a compiled system, whatever its backend."""
    runner = tendency.runner
    if not isinstance(runner, FusedRunner):
        runner = FusedRunner(tendency.program, tendency.grid)
    compiled, engine = runner.planned(), triton_engine()
    wants = wanted_kinds(True, True, (True,) * compiled.traced.closures)
    return StepKernels(
        engine.plan_forward(compiled.traced, compiled.outputs("advance"), []),
        engine.plan_backward(compiled.traced, compiled.seeded("advance"), wants, []),
    )


def traffic(kernel: GatherKernel, dtype: torch.dtype = torch.float32) -> Traffic:
    """Return what a kernel moves."""
    size = torch.finfo(dtype).bits // 8
    notes = emit(kernel, double=dtype == torch.float64).sweeps
    read = {array for each in notes for array in each.arrays_read}
    written = {array for each in notes for array in each.arrays_written}
    least = sum(kernel.traced.arrays[a].kind not in INSIDE for arrays in (read, written) for a in arrays)
    return Traffic(len(notes), sum(cell_bytes(each, size) for each in notes), size * least)


def cell_bytes(notes: SweepNotes, size: int) -> int:
    """Return bytes of a cell that one sweep moves; of an array that it adds to, both ways."""
    return size * (len(notes.arrays_read) + len(notes.arrays_added) + len(notes.arrays_written))
