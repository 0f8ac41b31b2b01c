"""Kernels of one traced program, built when first needed, and the calls that run them on tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ...grid import Grid2D
from .binding import Arguments, Launch
from .engine import Engine
from .ir import Node
from .plan import backward_kernel, forward_kernel
from .trace import ArrayInfo, Traced

__all__ = ["Call", "Compiled", "Kind"]

Kind = Literal["tendency", "advance", "scaled"]


@dataclass(slots=True)
class Call:
    """What one evaluation needs beside the tensors that gradients flow to.

    Attributes
    ----------
    planes : statics and grid arrays, by (kind, name)
    rows : values per row, ``[row, y]`` float64
    """

    compiled: Compiled
    kind: Kind
    dt: float
    planes: Mapping[tuple[str, Any], Tensor]
    rows: np.ndarray[Any, np.dtype[np.float64]]


class Compiled:
    """The kernels of a traced program, for every kind of output, dtype and set of wanted derivatives."""

    def __init__(self, traced: Traced, grid: Grid2D, engine: Engine) -> None:
        self.traced = traced
        self.grid = grid
        self.engine = engine
        self._forward: dict[tuple[str, torch.dtype], Launch] = {}
        self._backward: dict[tuple[str, torch.dtype, frozenset[str]], tuple[Launch, frozenset[tuple[str, int]]]] = {}
        self._stages = sum(len(stage) for stage in traced.stages)
        self.plane_infos = [info for info in traced.arrays if info.kind in ("static", "grid")]

    def outputs(self, kind: Kind) -> list[Node]:
        """Expressions that the last stage writes; a scaled step starts from the tendency."""
        return self.traced.advanced() if kind == "advance" else self.traced.outputs

    def seeded(self, kind: Kind) -> list[tuple[Node, ArrayInfo]]:
        """Expressions that the adjoint starts from, with the arrays that hold their seeds."""
        pairs = [(node, ArrayInfo("seed", k, f"seed {k}")) for k, node in enumerate(self.outputs(kind))]
        if kind == "scaled":  # result = state + function of the tendency: two ways back to the state
            direct = enumerate(self.traced.state())
            pairs += [(node, ArrayInfo("direct seed", k, f"direct seed {k}")) for k, node in direct]
        return pairs

    def forward(
        self, call: Call, state: Tensor, closures: Sequence[Tensor], coefficients: Tensor, factor: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs ``[batch, field, y, x]`` and the stored intermediates."""
        key = (call.kind, state.dtype)
        launch = self._forward.get(key)
        if launch is None:
            kernel = forward_kernel(self.traced, self.outputs(call.kind))
            launch = self._forward[key] = self.engine.make(kernel, self.grid.nx, state.dtype)
        result = torch.empty_like(state)
        batch, _, ny, nx = state.shape
        stored = state.new_empty(batch, self._stages, ny, nx)
        blocks = {"field": state, "output": result, "stage": stored}
        launch(self._arguments(call, blocks, closures, coefficients, factor))
        return result, stored

    def backward(
        self,
        call: Call,
        wants: frozenset[str],
        seeds: Mapping[str, Tensor],
        state: Tensor,
        stored: Tensor,
        closures: Sequence[Tensor],
        coefficients: Tensor,
        factor: Tensor,
    ) -> tuple[Tensor, list[Tensor | None], Tensor]:
        """Return derivatives by the state, by each closure (None: unused), and by the scalars."""
        launch, written = self._adjoint(call.kind, state.dtype, wants)
        batch, fields, ny, nx = state.shape
        by_state = torch.empty_like(state)
        for k in range(fields):
            if ("gradient field", k) not in written:
                by_state[:, k] = 0.0
        by_closure = state.new_empty(len(closures), batch, ny, nx)
        blocks = {
            "field": state,
            "stage": stored,
            **seeds,
            "gradient field": by_state,
            "gradient stage": torch.empty_like(stored),
            "gradient closure": by_closure.transpose(0, 1),
        }
        scalars = launch(self._arguments(call, blocks, closures, coefficients, factor))
        grads = [by_closure[i] if ("gradient closure", i) in written else None for i in range(len(closures))]
        return by_state, grads, scalars

    def scalar_gradient(self, scalars: Tensor, kind: str, count: int) -> Tensor:
        """Pick the derivatives by the coefficients or factors, zeros where nothing depends on them."""
        picked = torch.zeros(count, dtype=torch.float64)
        for slot, info in enumerate(self.traced.scalars):
            if info.kind == kind:
                picked[info.index] = scalars[slot]
        return picked

    def _adjoint(
        self, kind: Kind, dtype: torch.dtype, wants: frozenset[str]
    ) -> tuple[Launch, frozenset[tuple[str, int]]]:
        key = (kind, dtype, wants)
        found = self._backward.get(key)
        if found is None:
            kernel = backward_kernel(self.traced, self.seeded(kind), wants)
            infos = [self.traced.arrays[a] for a in kernel.arrays()]
            written = frozenset((i.kind, i.index) for i in infos if i.kind.startswith("gradient"))
            found = self._backward[key] = (self.engine.make(kernel, self.grid.nx, dtype), written)
        return found

    def _arguments(
        self,
        call: Call,
        blocks: dict[str, Tensor],
        closures: Sequence[Tensor],
        coefficients: Tensor,
        factor: Tensor,
    ) -> Arguments:
        planes: dict[tuple[str, Any], Tensor] = dict(call.planes)
        for i, closure in enumerate(closures):
            planes["closure", i] = closure
        batch, _, ny, _ = blocks["field"].shape
        return Arguments(batch, ny, blocks, planes, coefficients, factor, call.dt, call.rows)
