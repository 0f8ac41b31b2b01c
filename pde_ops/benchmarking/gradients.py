"""How exact the gradients of a float32 step are, against autograd in float64 through the hand-written form."""

from __future__ import annotations

import torch
from torch import Tensor

from . import eager_step
from .problem import FIELDS, Problem, surface_system

__all__ = ["gradient_errors"]


def gradient_errors(problem: Problem, backend: str) -> dict[str, float]:
    """Return the largest error of a gradient relative to the largest gradient of its kind.

    Parameters
    ----------
    problem : in float32; the float64 reference starts from the same numbers

    Returns
    -------
    dict
        ``state`` (worst field), ``closures`` (worst closure), ``coefficients`` (worst coefficient).
    """
    # The cotangent of a quadratic loss. A random or a constant one would cancel the sums over all cells that
    # parameter gradients are, and measure the cancellation instead of the adjoint.
    mean = problem.state.mean((0, 2, 3), keepdim=True)
    cotangent = (problem.state - mean) / problem.state.var((0, 2, 3), keepdim=True)
    ours, reference = _ours(problem, backend, cotangent), _reference(problem, cotangent)
    return {
        "state": max(_relative(ours[0][:, k], reference[0][:, k]) for k in range(len(FIELDS))),
        "closures": max(_relative(a, b) for a, b in zip(ours[1:-1], reference[1:-1], strict=True)),
        "coefficients": max(_relative(a, b) for a, b in zip(ours[-1], reference[-1], strict=True)),
    }


def _ours(problem: Problem, backend: str, cotangent: Tensor) -> tuple[Tensor, ...]:
    module = surface_system().compile(problem.grid, backend=backend)
    state = problem.state.clone().requires_grad_()
    closures = {name: value.clone().requires_grad_() for name, value in problem.closures.items()}
    after = module.advance(state, closures, problem.dt)
    return torch.autograd.grad(after, [state, *closures.values(), module.coefficients.raw], cotangent)


def _reference(problem: Problem, cotangent: Tensor) -> tuple[Tensor, ...]:
    module = surface_system().compile(problem.grid, backend="torch").double()
    names = [symbol.name for symbol in module.coefficients.symbols]
    order = [names.index(name) for name in problem.coefficients]
    state = problem.state.double().requires_grad_()
    closures = [value.double().requires_grad_() for value in problem.closures.values()]
    at = eager_step.Geometry.of(problem.grid, torch.float64)
    after = eager_step.step("slices", state, closures, module.coefficients()[order], at, problem.dt)
    return torch.autograd.grad(after, [state, *closures, module.coefficients.raw], cotangent.double())


def _relative(ours: Tensor, reference: Tensor) -> float:
    return float((ours.double() - reference).abs().max() / reference.abs().max())
