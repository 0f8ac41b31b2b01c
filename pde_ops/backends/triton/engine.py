"""How plans become Triton kernels, and whether they can run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...grid import Grid2D
from ..fused.engine import Engine
from ..fused.ir import Node
from ..fused.plan import Seeded
from ..fused.scaled import Scaler
from ..fused.trace import Traced
from .availability import installed, interpreted
from .gather import gathered_adjoint, gathered_forward

__all__ = ["TritonEngine", "triton_engine"]


@dataclass(frozen=True, slots=True)
class TritonEngine(Engine):
    """Makes gathering kernels; a GPU waits for memory, so its adjoint computes again what a CPU saves."""

    @property
    def saves(self) -> bool:
        """Whether the forward kernel leaves values for its adjoint."""
        return False

    @property
    def adds(self) -> bool:
        """Whether adjoint kernels add derivatives by closures to what is there: the first step of a launch writes."""
        return False

    @property
    def scales(self) -> bool:
        """Whether it has kernels of the scale rules."""
        return True

    def plan_forward(self, traced: Traced, outputs: Sequence[Node], saved: Sequence[Node]) -> Any:
        """Return the stages of a program."""
        assert not saved
        return gathered_forward(traced, outputs)

    def plan_backward(self, traced: Traced, seeded: Seeded, wants: frozenset[str], saved: Sequence[Node]) -> Any:
        """Return its adjoint."""
        assert not saved
        return gathered_adjoint(traced, seeded, wants)

    def scaler(self, dtype: torch.dtype) -> Scaler:
        """Return the kernels of the scale rules."""
        from .scaling import scaler

        return scaler(dtype)

    def make(self, kernel: Any, grid: Grid2D, dtype: torch.dtype, side: int = 1) -> Any:
        """Write and load the module of a kernel; Triton compiles it when it is first launched."""
        from .binding import TritonKernel

        assert side == 1  # a GPU has no use for samples side by side
        return TritonKernel(kernel, grid.ny, grid.nx, dtype)

    def describe(self) -> str:
        """Return one line for :meth:`pde_ops.backends.Runner.describe`."""
        return self.reason


def triton_engine() -> TritonEngine:
    """Return the engine of this process."""
    return TritonEngine("triton", f"Triton {installed()}{' in its interpreter' if interpreted() else ''}")
