"""The fused backend's runner: generated kernels behind ``torch.autograd``.

It runs on the CPU, in float32 (for speed) or float64 (for verification). First derivatives come
from generated adjoints; higher ones, and whatever ``torch.func`` transforms, from the torch bodies that the kernels
were traced from. Results do not depend on the number of threads, which follows ``torch.set_num_threads``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import BackendError
from ...grid import ROW_STATICS, BoundGrid, Grid2D
from ...lowering import Program
from ...transforms import has_numbers
from .. import Inputs, March
from ..eager import EagerRunner
from .autograd import evaluate, repeat, scale
from .compiled import Call, Compiled, Kind
from .engine import Engine, choose_engine
from .scaled import RULES
from .trace import StaticKind, static_kind, trace

__all__ = ["FusedRunner"]

DTYPES = (torch.float32, torch.float64)
RowTable = tuple[Any, int]


class FusedRunner:
    """Run a program as one generated kernel, with its adjoint.

    Attributes
    ----------
    name : of the backend, in messages

    Raises
    ------
    BackendError
        If an operator of the program has no fused form; the message names it and says why.
    """

    name = "fused"

    def __init__(self, program: Program, grid: Grid2D) -> None:
        self.program = program
        self.grid = grid
        self.engine = self.make_engine()
        self._compiled: dict[tuple[StaticKind, ...], Compiled] = {}
        self._baseline = EagerRunner(program, grid)
        self._ones: dict[tuple[torch.dtype, torch.device], Tensor] = {}
        self._rows: dict[int, tuple[list[Tensor], RowTable]] = {}
        self._calls: dict[Kind, tuple[list[Tensor], BoundGrid, Call]] = {}
        self._static_names = tuple(s.name for s in program.statics)
        # Traced now, with the statics that the grid supplies, so that a missing fused form is known before any call.
        self._for(tuple("grid" if s.name in ROW_STATICS else "plane" for s in program.statics))

    def make_engine(self) -> Engine:
        """Return what compiles the kernels."""
        return choose_engine()

    def check_place(self, state: Tensor) -> None:
        """Refuse a state that the kernels cannot reach."""
        if state.device.type != "cpu":
            raise BackendError(
                f"backend 'fused' runs on the CPU, the state is on {state.device}",
                do="use backend 'triton', 'inductor' or 'torch'",
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # What is compiled belongs to a process: another builds it again.
        return type(self), (self.program, self.grid)

    def __deepcopy__(self, memo: dict[int, Any]) -> FusedRunner:
        """Return a runner that shares the kernels, which keep nothing between calls, and caches for itself."""
        other = copy(self)
        other._compiled, other._rows, other._calls = dict(self._compiled), {}, {}
        memo[id(self)] = other
        return other

    def tendency(self, inputs: Inputs) -> Tensor:
        """Return F(state)."""
        if torch.compiler.is_compiling():
            return _outside(self.tendency, inputs)
        if self._takes_baseline(inputs.state):
            return self._baseline.tendency(inputs)
        return self._evaluate("tendency", inputs, 0.0, None)

    def advance(self, inputs: Inputs, dt: float, factor: Tensor | None) -> Tensor:
        """Return state + factor · dt · F(state)."""
        if torch.compiler.is_compiling():
            return _outside(self.advance, inputs, dt, factor)
        if self._takes_baseline(inputs.state):
            return self._baseline.advance(inputs, dt, factor)
        return self._evaluate("advance", inputs, dt, factor)

    def march(self, inputs: Inputs, march: March) -> Tensor:
        """Return the state after several steps with all else held: one function to torch, whatever their number."""
        if torch.compiler.is_compiling():
            return _outside(self.march, inputs, march)
        if self._takes_baseline(inputs.state):
            return self._baseline.march(inputs, march)
        state, coefficients, factor, closures = self.checked(inputs, march.factor)
        added = None if march.added is None else _dense(march.added, state.dtype)
        decay = None if march.decay is None else _dense(march.decay, state.dtype)
        if decay is not None and added is None:
            added = torch.zeros_like(state)
        call = self.call("advance", inputs, march.dt)
        return repeat(call, (march.steps, march.every), state, coefficients, factor, added, decay, closures)

    def scaled_advance(self, inputs: Inputs, dt: float, factor: Tensor, rule: str, rho: float) -> Tensor:
        """Return state + factor · scaled(dt · F(state)), see :mod:`pde_ops.integrators.scaling`."""
        if torch.compiler.is_compiling():
            return _outside(self.scaled_advance, inputs, dt, factor, rule, rho)
        from ...integrators.scaling import QUIET, scaled

        if not self.engine.scales or rule not in RULES or not has_numbers(inputs.state):
            increment = dt * self.tendency(inputs)
            return inputs.state + factor[:, None, None] * scaled(increment, inputs.state, rule, rho)  # type: ignore[arg-type]
        state, coefficients, factor, closures = self.checked(inputs, factor)
        return scale(self.call("scaled", inputs, dt), (rule, rho, QUIET), state, coefficients, factor, closures)

    def describe(self) -> str:
        """Say in one line what runs."""
        if self.engine.name == "torch":
            return f"fused: {self._baseline.describe()} ({self.engine.reason})"
        compiled = next(iter(self._compiled.values()))
        stages = len(compiled.traced.stages) + 1
        return f"fused: {stages} stage{'s' if stages > 1 else ''}, {self.engine.describe()}"

    def planned(self) -> Compiled:
        """Return the traced program with the statics of the last call, or those that the grid supplies."""
        return next(reversed(self._compiled.values()))

    def _takes_baseline(self, state: Tensor) -> bool:
        return self.engine.name == "torch" or not has_numbers(state)

    def _evaluate(self, kind: Kind, inputs: Inputs, dt: float, factor: Tensor | None) -> Tensor:
        state, coefficients, factor, closures = self.checked(inputs, factor)
        return evaluate(self.call(kind, inputs, dt), state, coefficients, factor, closures)

    def checked(self, inputs: Inputs, factor: Tensor | None) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Return the tensors that gradients flow to, dense and of one dtype."""
        state, coefficients = inputs.state, inputs.coefficients
        dtype = state.dtype
        self.check_place(state)
        if dtype not in DTYPES:
            raise BackendError(
                f"backend '{self.name}' computes in float32 or float64, not {dtype}", do="use backend 'torch'"
            )
        closures = []
        for closure in inputs.closures:
            closure = closure if closure.dtype == dtype else closure.to(dtype)
            closures.append(closure if closure.stride(2) == 1 else closure.contiguous())
        factor = self._no_factor(state) if factor is None else _dense(factor, dtype)
        return _dense(state, dtype), _dense(coefficients, dtype), factor, closures

    def _no_factor(self, state: Tensor) -> Tensor:
        key = (state.dtype, state.device)
        if key not in self._ones:
            self._ones[key] = torch.ones(len(self.program.fields), dtype=state.dtype, device=state.device)
        return self._ones[key]

    def call(self, kind: Kind, inputs: Inputs, dt: float) -> Call:
        """Return what does not change from step to step; the last one is cached: making it costs as much as a step."""
        static_values = [inputs.statics[name] for name in self._static_names]
        cached = self._calls.get(kind)
        if cached is not None:
            statics, grid, call = cached
            same = all(a is b and not a.requires_grad for a, b in zip(static_values, statics, strict=True))
            if same and grid is inputs.grid and call.dt == dt:
                return call
        call = self._new_call(kind, inputs, dt)
        self._calls[kind] = (static_values, inputs.grid, call)
        return call

    def _new_call(self, kind: Kind, inputs: Inputs, dt: float) -> Call:
        statics = inputs.statics
        kinds: list[StaticKind] = []
        for symbol in self.program.statics:
            value = statics[symbol.name]
            if value.requires_grad:
                raise BackendError(f"Static '{symbol.name}' asks for a gradient", do="make it a Closure")
            is_of_grid = value is getattr(inputs.grid, symbol.name, None)
            kinds.append("grid" if is_of_grid else static_kind(value, self.grid))
        compiled = self._for(tuple(kinds))
        planes: dict[tuple[str, str], Tensor] = {}
        for info in compiled.plane_infos:
            value = statics[info.name] if info.kind == "static" else getattr(inputs.grid, info.name)
            planes[info.kind, info.name] = _plane(value, self.grid)
        rows = self._row_table(compiled, inputs)
        return Call(compiled, kind, dt, planes, rows, self._baseline, dict(statics), inputs.grid)

    def _for(self, kinds: tuple[StaticKind, ...]) -> Compiled:
        compiled = self._compiled.get(kinds)
        if compiled is None:
            names = [s.name for s in self.program.statics]
            traced = trace(self.program, self.grid, dict(zip(names, kinds, strict=True)))
            compiled = self._compiled[kinds] = Compiled(traced, self.grid, self.engine)
        return compiled

    def _row_table(self, compiled: Compiled, inputs: Inputs) -> RowTable:
        """Return values per row in float64; made again only when a static is another tensor than the last time."""
        infos, statics = compiled.traced.rows, inputs.statics
        row_statics = [statics[i.name] for i in infos if i.kind == "static"]
        cached = self._rows.get(id(compiled))
        if cached is None or any(a is not b for a, b in zip(cached[0], row_statics, strict=True)):
            table = np.zeros((max(1, len(infos)), self.grid.ny))
            bound = self.grid.bind(torch.float64, "cpu")
            for k, info in enumerate(infos):
                value = getattr(bound, info.name) if info.kind == "grid" else statics[info.name].detach()
                table[k] = value.double().expand(self.grid.ny, 1)[:, 0].numpy()
            cached = self._rows[id(compiled)] = (row_statics, (table, table.ctypes.data))
        return cached[1]


def _outside(run: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Run a kernel outside the graph that torch.compile is tracing; others are spared the detour, 7 µs a call."""
    result: Tensor = _untraced(run, *arguments)
    return result


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _untraced(run: Callable[..., Tensor], *arguments: Any) -> Tensor:
    return run(*arguments)


def _dense(value: Tensor, dtype: torch.dtype) -> Tensor:
    value = value if value.dtype == dtype else value.to(dtype)
    value = value.resolve_neg()
    return value if value.is_contiguous() else value.contiguous()


def _plane(value: Tensor, grid: Grid2D) -> Tensor:
    value = value.resolve_neg()
    value = value if value.stride(-1) == 1 else value.contiguous()
    # The kernel walks the batch with the stride of the first axis, which must be 0: a new axis of length 1 has another.
    return value.expand(2, grid.ny, grid.nx)[:1]
