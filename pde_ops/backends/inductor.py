"""The baseline compiled as one graph by ``torch.compile``."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from ..grid import BoundGrid, Grid2D
from ..lowering import Program
from ..transforms import is_transforming
from . import Inputs, March, step_by_step
from .eager import EagerRunner
from .fused.cache import private_folder

__all__ = ["InductorRunner"]


class InductorRunner:
    """Run the eager program through ``torch.compile(fullgraph=True)``.

    The first call compiles, which takes seconds to a minute; later calls of the same shape reuse it.
    ``compiler`` names the torch.compile backend: ``"inductor"``, or ``"aot_eager"`` to trace without code generation.
    """

    compiler = "inductor"

    def __init__(self, program: Program, grid: Grid2D) -> None:
        self._eager = EagerRunner(program, grid)
        self._static_names = tuple(s.name for s in program.statics)
        self._compiled: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # What is compiled belongs to a process: another builds it again.
        return type(self), (self._eager.program, self._eager.grid)

    def tendency(self, inputs: Inputs) -> Tensor:
        """Return F(state)."""
        if is_transforming():  # torch.compile cannot start under a transform
            return self._eager.tendency(inputs)
        result: Tensor = self._function("tendency", self._tendency)(*self._unpack(inputs))
        return result

    def advance(self, inputs: Inputs, dt: float, factor: Tensor | None) -> Tensor:
        """Return state + factor · dt · F(state)."""
        if is_transforming():
            return self._eager.advance(inputs, dt, factor)
        result: Tensor = self._function("advance", self._advance)(*self._unpack(inputs), dt, factor)
        return result

    def march(self, inputs: Inputs, march: March) -> Tensor:
        """Return the state after several steps with all else held; the compiled step is called for each."""
        return step_by_step(self, inputs, march)

    def describe(self) -> str:
        """Say in one line what runs."""
        return f"{self.compiler}: torch.compile of {self._eager.program.size} instructions"

    def _function(self, name: str, plain: Any) -> Any:
        if name not in self._compiled:
            if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
                # torch would take a folder below the shared temporary directory, whose name anybody can guess, and
                # load code from it. Triton's files lie in the same folder.
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(private_folder("inductor", owners_alone=True))
            self._compiled[name] = torch.compile(plain, fullgraph=True, backend=self.compiler)
        return self._compiled[name]

    def _unpack(self, inputs: Inputs) -> tuple[Any, ...]:
        statics = tuple(inputs.statics[name] for name in self._static_names)
        return inputs.state, inputs.closures, inputs.coefficients, statics, inputs.grid

    def _inputs(self, state: Tensor, closures: Any, coefficients: Tensor, statics: Any, grid: BoundGrid) -> Inputs:
        return Inputs(state, closures, coefficients, dict(zip(self._static_names, statics, strict=True)), grid)

    def _tendency(self, *parts: Any) -> Tensor:
        return self._eager.tendency(self._inputs(*parts))

    def _advance(self, *parts: Any) -> Tensor:
        *inputs, dt, factor = parts
        return self._eager.advance(self._inputs(*inputs), dt, factor)
