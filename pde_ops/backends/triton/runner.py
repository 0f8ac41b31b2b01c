"""The Triton backend's runner: generated GPU kernels behind ``torch.autograd`` and ``torch.compile``.

Everything but the kernels is the fused backend's: what is traced, which derivatives come from generated adjoints and
which from the torch bodies. In float32 or float64, on CUDA and ROCm devices; in Triton's interpreter on the CPU, for
tests. Under ``torch.compile`` and with fake tensors a step is one custom operator (:mod:`.operators`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from ...grid import Grid2D
from ...lowering import Program
from .. import Inputs, March
from ..fused.compiled import Compiled
from ..fused.runner import FusedRunner, RowTable
from . import operators
from .availability import interpreted
from .engine import TritonEngine, triton_engine
from .stored import imported_triton

__all__ = ["TritonRunner"]


class TritonRunner(FusedRunner):
    """Run a program as generated Triton kernels, with their adjoint.

    Raises
    ------
    BackendError
        If Triton cannot be imported, or an operator of the program has no graph form.
    """

    name = "triton"

    def __init__(self, program: Program, grid: Grid2D) -> None:
        imported_triton()
        super().__init__(program, grid)
        self._tables: dict[int, tuple[list[Any], Tensor]] = {}
        self.handle = operators.handle_of(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> TritonRunner:
        """Return a runner that shares the kernels."""
        other = super().__deepcopy__(memo)
        assert isinstance(other, TritonRunner)
        other._tables, other.handle = {}, operators.handle_of(other)
        return other

    def make_engine(self) -> TritonEngine:
        """Return what compiles the kernels."""
        return triton_engine()

    def check_place(self, state: Tensor) -> None:
        """Refuse a state that no GPU holds."""
        if state.device.type == "cuda" or (state.device.type == "cpu" and interpreted()):
            return
        raise BackendError(
            f"backend 'triton' runs on CUDA and ROCm devices, the state is on {state.device}",
            do="move system and state with .to('cuda'), or use backend 'auto', 'fused' or 'torch'",
        )

    def tendency(self, inputs: Inputs) -> Tensor:
        """Return F(state)."""
        return operators.tendency(self, inputs) if operators.is_staged(inputs.state) else super().tendency(inputs)

    def advance(self, inputs: Inputs, dt: float, factor: Tensor | None) -> Tensor:
        """Return state + factor · dt · F(state)."""
        if operators.is_staged(inputs.state):
            return operators.advance(self, inputs, dt, factor)
        return super().advance(inputs, dt, factor)

    def march(self, inputs: Inputs, march: March) -> Tensor:
        """Return the state after several steps with all else held: no step waits for the device."""
        if operators.is_staged(inputs.state):
            return operators.march(self, inputs, march)
        return super().march(inputs, march)

    def scaled_advance(self, inputs: Inputs, dt: float, factor: Tensor, rule: str, rho: float) -> Tensor:
        """Return state + factor · scaled(dt · F(state)), see :mod:`pde_ops.integrators.scaling`."""
        if operators.is_staged(inputs.state):
            return operators.scaled(self, inputs, dt, factor, rule, rho)
        return super().scaled_advance(inputs, dt, factor, rule, rho)

    def describe(self) -> str:
        """Say in one line what runs."""
        return super().describe().replace("fused", "triton", 1)

    def _row_table(self, compiled: Compiled, inputs: Inputs) -> RowTable:
        """Return values per row on the state's device, computed there but for the grid's, which come in float64."""
        infos, statics, like = compiled.traced.rows, inputs.statics, inputs.state
        key = [*(statics[i.name] for i in infos if i.kind == "static"), inputs.grid]
        cached = self._tables.get(id(compiled))
        if cached is None or len(cached[0]) != len(key) or any(a is not b for a, b in zip(cached[0], key, strict=True)):
            table = torch.zeros(max(1, len(infos)), self.grid.ny, dtype=like.dtype, device=like.device)
            bound = self.grid.bind(torch.float64, "cpu")
            for k, info in enumerate(infos):
                value = getattr(bound, info.name) if info.kind == "grid" else statics[info.name].detach()
                table[k] = value.expand(self.grid.ny, 1)[:, 0].to(like.device, like.dtype)
            cached = self._tables[id(compiled)] = (key, table)
        return cached[1], 0
