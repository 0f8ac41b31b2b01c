"""The baseline backend: every operator's torch body, run one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add, mul
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..grid import Grid2D
from ..lowering import Group, Node, Program, schedule
from ..parity import plain, turned
from . import Inputs, March, step_by_step

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["EagerRunner"]


class EagerRunner:
    """Evaluate the program with torch, stacking calls that can share one.

    Attributes
    ----------
    annotate : put a ``record_function`` range round each operator, for the profiler
    """

    def __init__(self, program: Program, grid: Grid2D) -> None:
        self.program = program
        self.grid = grid
        self.groups = schedule(program)
        self.annotate = False

    def tendency(self, inputs: Inputs) -> Float[Tensor, "batch field y x"]:
        """Return F(state)."""
        shape = inputs.state[:, 0].shape
        outputs = [_as_tensor(value, inputs.state).expand(shape) for value in self.evaluate(inputs)]
        return torch.stack(outputs, dim=1)

    def evaluate(self, inputs: Inputs) -> list[Any]:
        """Return the program's outputs as they come: arrays, rows, or numbers where nothing varies."""
        values: list[Any] = [_leaf(node, inputs) for node in self.program.nodes]
        for group in self.groups:
            self._run(group, values, inputs)
        return [values[i] for i in self.program.outputs]

    def advance(self, inputs: Inputs, dt: float, factor: Tensor | None) -> Float[Tensor, "batch field y x"]:
        """Return state + factor · dt · F(state)."""
        rate = self.tendency(inputs)
        return inputs.state + (dt * rate if factor is None else (dt * factor)[:, None, None] * rate)

    def march(self, inputs: Inputs, march: March) -> Float[Tensor, "batch field y x"]:
        """Return the state after several steps with all else held."""
        return step_by_step(self, inputs, march)

    def describe(self) -> str:
        """Say in one line what runs."""
        return f"torch: {self.program.size} instructions in {len(self.groups)} groups"

    def _run(self, group: Group, values: list[Any], inputs: Inputs) -> None:
        node = self.program.nodes[group.members[0]]
        if node.kind != "call":
            values[group.members[0]] = _arithmetic(node, [values[i] for i in node.inputs])
        elif self.annotate and node.operator is not None:
            with torch.profiler.record_function(f"pde_ops::{node.operator.name}"):
                self._call(group, values, inputs)
        else:
            self._call(group, values, inputs)

    def _call(self, group: Group, values: list[Any], inputs: Inputs) -> None:
        nodes = [self.program.nodes[i] for i in group.members]
        operator = nodes[0].operator
        assert operator is not None
        options = dict(nodes[0].options)
        if len(nodes) == 1:
            arguments = _oriented(nodes[0], [values[i] for i in nodes[0].inputs])
            values[group.members[0]] = plain(operator.body(*arguments, grid=inputs.grid, **options))
            return
        assert operator.batch_over is not None
        position = tuple(operator.inputs).index(operator.batch_over)
        arguments = [_with_field_axis(values[i]) for i in nodes[0].inputs]
        arguments[position] = self._stacked([node.inputs[position] for node in nodes], values, inputs.state)
        result = plain(operator.body(*_oriented(nodes[0], arguments), grid=inputs.grid, **options))
        for member, value in zip(group.members, result.unbind(1), strict=True):
            values[member] = value

    def _stacked(self, positions: Sequence[int], values: list[Any], state: Tensor) -> Tensor:
        """Return values side by side on the field axis; consecutive fields are a view of the state."""
        nodes = [self.program.nodes[i] for i in positions]
        first = nodes[0].index
        if all(node.kind == "field" and node.index == first + k for k, node in enumerate(nodes)):
            return state[:, first : first + len(nodes)]
        return torch.stack([values[i].expand(state[:, 0].shape) for i in positions], dim=1)


def _oriented(node: Node, arguments: list[Any]) -> list[Any]:
    """Return arguments that know how walls turn them, where that is not what the operator expects."""
    return [turned(a, flip) for a, flip in zip(arguments, node.flips, strict=True)] if node.flips else arguments


def _leaf(node: Node, inputs: Inputs) -> Any:
    match node.kind:
        case "field":
            return inputs.state[:, node.index]
        case "closure":
            return inputs.closures[node.index]
        case "coefficient":
            return inputs.coefficients[node.index]
        case "static":
            return inputs.statics[node.name]
        case "constant":
            return node.value
    return None


def _arithmetic(node: Node, inputs: list[Any]) -> Any:
    if node.kind == "quotient":
        return inputs[0] / inputs[1]
    return reduce(add if node.kind == "sum" else mul, inputs)


def _with_field_axis(value: Any) -> Any:
    return value.unsqueeze(1) if isinstance(value, Tensor) and value.ndim >= 3 else value


def _as_tensor(value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full((), value, dtype=like.dtype, device=like.device)
