"""Backends: ways to run a lowered program. None is imported before it is asked for.

``torch`` is the baseline that every other must match; ``inductor`` compiles the baseline with ``torch.compile``;
``fused`` generates a CPU kernel with its adjoint; ``auto`` takes ``fused`` on a CPU, ``inductor`` on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from ..errors import UnknownNameError

if TYPE_CHECKING:
    from ..grid import BoundGrid, Grid2D
    from ..lowering import Program

__all__ = ["BACKENDS", "Inputs", "March", "Runner", "make_runner", "step_by_step"]

BACKENDS: Mapping[str, str] = {
    "torch": "pde_ops.backends.eager:EagerRunner",
    "inductor": "pde_ops.backends.inductor:InductorRunner",
    "fused": "pde_ops.backends.fused.runner:FusedRunner",
    "auto": "pde_ops.backends.auto:AutoRunner",
}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything one evaluation reads.

    Attributes
    ----------
    state : ``[batch, field, y, x]``
    closures : ``[batch, y, x]`` each, in program order
    coefficients : ``[coefficient]``, SI
    statics : by name, broadcastable to ``[y, x]``
    grid : the grid's tensors, on the state's device and of its dtype
    """

    state: Tensor
    closures: tuple[Tensor, ...]
    coefficients: Tensor
    statics: Mapping[str, Tensor]
    grid: BoundGrid


@dataclass(frozen=True, slots=True)
class March:
    """Several Euler steps with all but the state held.

    Attributes
    ----------
    dt : seconds of a step
    steps : how many
    factor : ``[field]`` on every increment, None for ones
    added : ``[batch, field, y, x]``, put on the state after every ``every`` steps
    decay : ``[batch, field, y, x]``, the share of the state those steps began with that is taken off with it
    coefficients : what `Tendency.coefficients` returned before; None to take the values of now
    """

    dt: float
    steps: int
    factor: Tensor | None = None
    added: Tensor | None = None
    every: int = 1
    decay: Tensor | None = None
    coefficients: Tensor | None = None


class Runner(Protocol):
    """Runs one program; differentiable in the state, the closures, the coefficients and the factor."""

    def tendency(self, inputs: Inputs) -> Tensor:
        """Return F(state), ``[batch, field, y, x]``."""

    def advance(self, inputs: Inputs, dt: float, factor: Tensor | None) -> Tensor:
        """Return state + factor · dt · F(state); ``factor [field]``, None for ones."""

    def march(self, inputs: Inputs, march: March) -> Tensor:
        """Return the state after several such steps."""

    def describe(self) -> str:
        """Say in one line what runs."""


def step_by_step(runner: Runner, inputs: Inputs, march: March) -> Tensor:
    """Return what `Runner.march` does, one step after the other."""
    state = start = inputs.state
    for step in range(1, march.steps + 1):
        state = runner.advance(replace(inputs, state=state), march.dt, march.factor)
        if step % march.every == 0:
            gain = march.added
            if march.decay is not None:
                gain = -march.decay * start if gain is None else gain - march.decay * start
            state = start = state if gain is None else state + gain
    return state


def make_runner(name: str, program: Program, grid: Grid2D) -> Runner:
    """Build the named backend's runner for a program on a grid."""
    if name not in BACKENDS:
        raise UnknownNameError(f"no backend '{name}'", do=f"known: {', '.join(BACKENDS)}")
    module, _, attribute = BACKENDS[name].partition(":")
    runner: Runner = getattr(import_module(module), attribute)(program, grid)
    return runner
