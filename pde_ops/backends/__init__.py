"""Backends: ways to run a lowered program. None is imported before it is asked for.

``torch`` is the baseline that every other must match; ``inductor`` compiles the baseline with ``torch.compile``;
``fused`` generates a CPU kernel with its adjoint, ``triton`` the same for a GPU; ``auto`` takes ``fused`` on a CPU, and
on a GPU ``triton`` where it is installed, else ``inductor``.

Another backend registers itself (:func:`register`), or is published under the entry-point group ``pde_ops.backends``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from ..registry import Registry

if TYPE_CHECKING:
    from ..grid import BoundGrid, Grid2D
    from ..lowering import Program

__all__ = ["Inputs", "March", "Runner", "RunnerMaker", "backends", "make_runner", "register", "step_by_step"]

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


RunnerMaker = Callable[["Program", "Grid2D"], Runner]
"""Makes the runner of a program on a grid: a class, or a function."""

backends: Registry[RunnerMaker] = Registry("backend", group="pde_ops.backends")


def register(name: str) -> Callable[[RunnerMaker], RunnerMaker]:
    """Register a runner class, or a function that makes runners, under a name."""

    def declare(maker: RunnerMaker) -> RunnerMaker:
        return backends.add(name, maker, owner=maker.__module__)

    return declare


def make_runner(name: str, program: Program, grid: Grid2D) -> Runner:
    """Build the named backend's runner for a program on a grid."""
    return backends[name](program, grid)


def _register_later(name: str, module: str, attribute: str) -> None:
    """Register a runner of ours whose module is imported when it is first asked for."""

    def make(program: Program, grid: Grid2D) -> Runner:
        runner: Runner = getattr(import_module(module, __name__), attribute)(program, grid)
        return runner

    backends.add(name, make, owner=f"{__name__}{module}")


_register_later("torch", ".eager", "EagerRunner")
_register_later("inductor", ".inductor", "InductorRunner")
_register_later("fused", ".fused.runner", "FusedRunner")
_register_later("triton", ".triton.runner", "TritonRunner")
_register_later("auto", ".auto", "AutoRunner")
