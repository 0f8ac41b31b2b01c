"""Programs for the tests of the fused backend, and their comparison with the torch baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import pde_ops as po
from pde_ops.backends import Inputs
from pde_ops.backends.eager import EagerRunner
from pde_ops.backends.fused.runner import FusedRunner
from pde_ops.lowering import Node, Program

Body = Callable[..., Any]


def made_of(bodies: Sequence[Body], fields: int, closures: int = 0, coefficients: int = 0) -> Program:
    """A program whose outputs are calls of bodies on (fields, closures, coefficients), all of them, in this order."""
    leaves = [Node("field", index=k, varies=True) for k in range(fields)]
    leaves += [Node("closure", index=k, varies=True) for k in range(closures)]
    leaves += [Node("coefficient", index=k) for k in range(coefficients)]
    inputs = {f"a{k}": "=A" for k in range(len(leaves))}
    calls = []
    for body in bodies:
        record = po.Operator(
            name=body.__name__, family="test", inputs=inputs, output="=A", body=body, latex="", text="", references=()
        )
        calls.append(Node("call", tuple(range(len(leaves))), operator=record, varies=True))
    return Program(
        nodes=(*leaves, *calls),
        outputs=tuple(range(len(leaves), len(leaves) + len(calls))),
        fields=tuple(po.Field(f"f{k}", "K") for k in range(len(bodies))),
        closures=tuple(po.Closure(f"c{k}", "K") for k in range(closures)),
        statics=(),
        coefficients=tuple(po.Positive(f"k{k}", "1/s", init=1.0) for k in range(coefficients)),
    )


def plane(ny: int = 7, nx: int = 11, boundary: Any = "zero_gradient") -> po.Grid2D:
    return po.Grid2D.plane(ny, nx, dx=1.0, dy=0.8, boundary=boundary)


def sphere(ny: int = 7, nx: int = 11, boundary: Any = "zero_gradient") -> po.Grid2D:
    return po.Grid2D.from_latlon(np.linspace(30.0, 50.0, ny), np.linspace(5.0, 30.0, nx), boundary=boundary)


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs_of(
    grid: po.Grid2D, state: Tensor, closures: Sequence[Tensor] = (), coefficients: Tensor | None = None
) -> Inputs:
    given = state.new_zeros(0) if coefficients is None else coefficients
    return Inputs(state, tuple(closures), given, {}, grid.bind(state.dtype, "cpu"))


def evaluated(
    runner: Any, grid: po.Grid2D, state: Tensor, closures: Sequence[Tensor] = (), coefficients: Tensor | None = None
) -> list[Tensor]:
    """Tendency, and the derivatives of a fixed random combination of it by everything that was given."""
    leaves = [state, *closures, *([] if coefficients is None else [coefficients])]
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    rest = leaves[1 : 1 + len(closures)]
    result = runner.tendency(inputs_of(grid, leaves[0], rest, None if coefficients is None else leaves[-1]))
    weights = noise(*result.shape, seed=99, dtype=result.dtype)
    grads = torch.autograd.grad((result * weights).sum(), leaves, allow_unused=True)
    return [result.detach(), *(torch.zeros_like(a) if g is None else g for a, g in zip(leaves, grads, strict=True))]


def worst_error(
    program: Program,
    grid: po.Grid2D,
    state: Tensor,
    closures: Sequence[Tensor] = (),
    coefficients: Tensor | None = None,
) -> float:
    """Difference of the fused backend from float64 torch, values and derivatives, relative to the largest of each."""
    double = [a.double() for a in closures], None if coefficients is None else coefficients.double()
    expected = evaluated(EagerRunner(program, grid), grid, state.double(), *double)
    got = evaluated(FusedRunner(program, grid), grid, state, closures, coefficients)
    errors = [relative(a, b) for a, b in zip(expected, got, strict=True)]
    return max(errors)


def relative(expected: Tensor, got: Tensor) -> float:
    assert expected.shape == got.shape
    if expected.numel() == 0:
        return 0.0
    axes = tuple(range(2, expected.ndim)) if expected.ndim == 4 else tuple(range(expected.ndim))
    size = expected.abs().amax(axes, keepdim=True).clamp_min(1e-300)
    return float(((expected - got).abs() / size).max().detach())
