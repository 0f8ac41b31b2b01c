"""Kernels of one traced program, built when first needed, and the calls that run them on tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ...grid import BoundGrid, Grid2D
from ..eager import EagerRunner
from .binding import Arguments, Launch
from .engine import Engine
from .ir import Node
from .plan import values_to_save
from .trace import ArrayInfo, Traced

__all__ = ["Adjoint", "Call", "Compiled", "Kind"]

Kind = Literal["tendency", "advance", "scaled"]
Stored = tuple[Tensor | None, Tensor | None]
"""Intermediates between stages, and values saved for the adjoint, ``[batch, n, y, x]`` each."""


@dataclass(slots=True)
class Call:
    """What one evaluation needs beside the tensors that gradients flow to.

    Attributes
    ----------
    planes : statics and grid arrays, by (kind, name)
    rows : values per row, ``[row, y]``: float64 and their address for kernels of the CPU, else a tensor of its device
    body : runs the same by the operators' torch bodies, on these statics and this grid
    """

    compiled: Compiled
    kind: Kind
    dt: float
    planes: Mapping[tuple[str, str], Tensor]
    rows: tuple[Any, int]
    body: EagerRunner
    statics: Mapping[str, Tensor]
    grid: BoundGrid


@dataclass(frozen=True, slots=True)
class Adjoint:
    """An adjoint kernel, with the fields and closures that it gives no derivative by."""

    launch: Launch
    idle_fields: tuple[int, ...]
    idle_closures: tuple[int, ...]


def _planes(state: Tensor, count: int) -> Tensor | None:
    return state.new_empty(state.shape[0], count, *state.shape[2:]) if count else None


def _add_stored(blocks: dict[str, Tensor], stored: Stored) -> None:
    intermediates, values = stored
    if intermediates is not None:
        blocks["stage"] = intermediates
    if values is not None:
        blocks["saved"] = values


class Compiled:
    """The kernels of a traced program, for every kind of output, dtype and set of wanted derivatives."""

    def __init__(self, traced: Traced, grid: Grid2D, engine: Engine) -> None:
        self.traced = traced
        self.grid = grid
        self.engine = engine
        self.plane_infos = [info for info in traced.arrays if info.kind in ("static", "grid")]
        self.stored = sum(len(stage) for stage in traced.stages)
        self._saved: dict[str, tuple[list[Node], tuple[int, ...]]] = {}
        self._forward: dict[tuple[str, torch.dtype, bool, int], Launch] = {}
        self._backward: dict[tuple[str, torch.dtype, frozenset[str], int], Adjoint] = {}

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
        self,
        call: Call,
        state: Tensor,
        closures: Sequence[Tensor],
        coefficients: Tensor,
        factor: Tensor,
        *,
        recording: bool = False,
    ) -> tuple[Tensor, Stored]:
        """Return the outputs ``[batch, field, y, x]``, and what is kept: intermediates, and values for the adjoint."""
        launch, saved = self.forward_launch(call.kind, state.dtype, recording=recording)
        result = torch.empty_like(state)
        blocks = {"field": state, "output": result}
        stored = (_planes(state, self.stored), _planes(state, saved))
        _add_stored(blocks, stored)
        launch(Arguments(state.shape[0], blocks, closures, call.planes, coefficients, factor, call.dt, call.rows))
        return result, stored

    def forward_launch(self, kind: Kind, dtype: torch.dtype, *, recording: bool, side: int = 1) -> tuple[Launch, int]:
        """Return the forward kernel, and how many values it saves for the adjoint."""
        key = (kind, dtype, recording, side)
        saved = self.to_save(kind)[0] if recording else []
        launch = self._forward.get(key)
        if launch is None:
            kernel = self.engine.plan_forward(self.traced, self.outputs(kind), saved)
            launch = self._forward[key] = self.engine.make(kernel, self.grid, dtype, side)
        return launch, len(saved)

    def backward(
        self,
        call: Call,
        wants: frozenset[str],
        seeds: Mapping[str, Tensor],
        state: Tensor,
        stored: Stored,
        closures: Mapping[int, Tensor],
        coefficients: Tensor,
        factor: Tensor,
    ) -> tuple[Tensor, list[Tensor | None], Tensor]:
        """Return derivatives by the state, by each closure (None: unused), and by coefficients and factors together.

        The last, one number for each coefficient and then for each factor, are sums over all cells of the batch, which
        the kernel has added up (`binding.Launch`). ``closures`` are those that :meth:`to_save` names.
        """
        adjoint = self.adjoint(call.kind, state.dtype, wants)
        by_state = torch.empty_like(state)
        for k in adjoint.idle_fields:
            by_state[:, k] = 0.0
        batch, _, ny, nx = state.shape
        start = state.new_zeros if self.engine.adds else state.new_empty
        by_closure = start(self.traced.closures, batch, ny, nx)
        blocks = {"field": state, "gradient field": by_state, "gradient closure": by_closure, **seeds}
        _add_stored(blocks, stored)
        if stored[0] is not None:
            blocks["gradient stage"] = torch.empty_like(stored[0])
        scalars = adjoint.launch(
            Arguments(batch, blocks, closures, call.planes, coefficients, factor, call.dt, call.rows)
        )
        assert scalars is not None
        grads: list[Tensor | None] = list(by_closure.unbind())
        for k in adjoint.idle_closures:
            grads[k] = None
        return by_state, grads, scalars

    def to_save(self, kind: Kind) -> tuple[list[Node], tuple[int, ...]]:
        """Return values that the adjoint wants saved, and positions of the closures that it reads."""
        saved_values = self._saved.get(kind)
        if saved_values is None:
            values, closures = values_to_save(self.traced, self.outputs(kind), self.seeded(kind))
            saved_values = self._saved[kind] = (values if self.engine.saves else [], closures)
        return saved_values

    def adjoint(self, kind: Kind, dtype: torch.dtype, wants: frozenset[str], side: int = 1) -> Adjoint:
        """Return the adjoint kernel that gives the wanted derivatives."""
        key = (kind, dtype, wants, side)
        adjoint = self._backward.get(key)
        if adjoint is None:
            kernel = self.engine.plan_backward(self.traced, self.seeded(kind), wants, self.to_save(kind)[0])
            written = {(self.traced.arrays[a].kind, self.traced.arrays[a].index) for a in kernel.arrays()}
            fields, closures = range(len(self.traced.outputs)), range(self.traced.closures)
            adjoint = self._backward[key] = Adjoint(
                self.engine.make(kernel, self.grid, dtype, side),
                tuple(k for k in fields if ("gradient field", k) not in written),
                tuple(k for k in closures if ("gradient closure", k) not in written),
            )
        return adjoint
