"""Pick the backend by the device the state arrives on."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..errors import BackendError
from ..grid import Grid2D
from ..lowering import Program
from ..transforms import is_transforming
from . import Inputs, March, Runner, make_runner
from .eager import EagerRunner
from .triton.availability import missing

if TYPE_CHECKING:
    from ..integrators.scaling import Rule

__all__ = ["AutoRunner", "preference"]

log = logging.getLogger(__name__)


def preference(device: str) -> tuple[list[str], str]:
    """Return the backends to try for a type of device, the first choice first, and why that is the first."""
    if device == "cpu":
        return ["fused"], "generated kernels for the CPU"
    absent = missing() if device == "cuda" else f"triton knows no device '{device}'"
    if absent is None:
        return ["triton", "inductor"], "generated kernels for CUDA and ROCm devices"
    return ["inductor"], absent


class AutoRunner:
    """``fused`` on a CPU, ``triton`` or else ``inductor`` on a GPU, the torch baseline where those cannot run."""

    def __init__(self, program: Program, grid: Grid2D) -> None:
        self.program = program
        self.grid = grid
        self._runners: dict[str, Runner] = {}
        self._plain = EagerRunner(program, grid)

    def __reduce__(self) -> tuple[Any, ...]:
        # What is compiled belongs to a process: another builds it again.
        return type(self), (self.program, self.grid)

    def __deepcopy__(self, memo: dict[int, Any]) -> AutoRunner:
        other = AutoRunner(self.program, self.grid)
        memo[id(self)] = other
        other._runners = {kind: copy.deepcopy(runner, memo) for kind, runner in self._runners.items()}
        return other

    def tendency(self, inputs: Inputs) -> Tensor:
        """Return F(state)."""
        return self.runner_for(inputs.state).tendency(inputs)

    def advance(self, inputs: Inputs, dt: float, factor: Tensor | None) -> Tensor:
        """Return state + factor · dt · F(state)."""
        return self.runner_for(inputs.state).advance(inputs, dt, factor)

    def march(self, inputs: Inputs, march: March) -> Tensor:
        """Return the state after several steps with all else held."""
        return self.runner_for(inputs.state).march(inputs, march)

    def scaled_advance(self, inputs: Inputs, dt: float, factor: Tensor, rule: Rule, rho: float) -> Tensor:
        """Return state + factor · scaled(dt · F(state)), see :mod:`pde_ops.integrators.scaling`."""
        from ..integrators.scaling import scaled  # integrators import the backends

        runner = self.runner_for(inputs.state)
        scaled_advance = getattr(runner, "scaled_advance", None)
        if scaled_advance is not None:
            advanced: Tensor = scaled_advance(inputs, dt, factor, rule, rho)
            return advanced
        return inputs.state + factor[:, None, None] * scaled(dt * runner.tendency(inputs), inputs.state, rule, rho)

    def describe(self) -> str:
        """Say in one line what runs."""
        chosen = "; ".join(f"{device}: {runner.describe()}" for device, runner in self._runners.items())
        return f"auto ({chosen or 'not run yet'})"

    def runner_for(self, state: Tensor) -> Runner:
        """Return the runner for this state's device, made on first use; plain torch for what torch transforms."""
        kind = state.device.type
        if is_transforming():
            return self._plain
        if kind not in self._runners:
            self._runners[kind] = self._first_that_runs(preference(kind)[0])
        return self._runners[kind]

    def _first_that_runs(self, names: list[str]) -> Runner:
        for name, following in zip(names, [*names[1:], "plain torch"], strict=True):
            try:
                return make_runner(name, self.program, self.grid)
            except BackendError as problem:
                log.warning("backend 'auto' runs %s: %s", following, problem)
        return self._plain
