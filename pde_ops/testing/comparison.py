"""How far a backend is from the torch baseline on a drawn system, measured so that round-off does not count.

Two correct programs that add the same numbers in another order differ by a few units in the last place *of what they
add*, not of the sum. Where a sum nearly cancels, its relative difference says nothing. So every figure is measured
against what was added up: the absolute values of the terms of an equation and, for a derivative that is a sum over the
grid, of its share in every cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..backends import Inputs
from ..boundaries import Boundary
from ..expr import Expr, Sum
from ..system import PDESystem

if TYPE_CHECKING:
    from .strategies import DrawnSystem

__all__ = ["worst_difference"]


def worst_difference(
    drawn: DrawnSystem, backend: str, dtype: torch.dtype = torch.float64, *, dt: float | None = None
) -> float:
    """Return the largest distance of a backend from the torch baseline, over tendencies and all gradients.

    Each channel and closure is measured against its own largest value, coefficients and factors one by one; the value
    is that of the sum of absolute terms where those cancel. Where the baseline is itself not exact in ``dtype``, its
    distance from float64 is taken off, so that an ill-conditioned operator does not count against the backend. NaN if
    the baseline is not finite.

    Parameters
    ----------
    dt : compare the step ``advance`` over this many seconds, with a factor per field, instead of the tendency
    """
    expected, result = _evaluate(drawn, "torch", dtype, dt), _evaluate(drawn, backend, dtype, dt)
    exact = expected if dtype == torch.float64 else _evaluate(drawn, "torch", torch.float64, dt)
    # A change is known no better than the state it is the difference of.
    rounding = {} if dt is None else _rounding(drawn, dtype, dt)
    sizes = _sizes(drawn)
    worst = 0.0
    for name, value in expected.items():
        reference = exact[name]
        if not bool(torch.isfinite(reference).all()):
            return math.nan
        scale = sizes.get(name, reference.new_zeros(()))
        if reference.ndim > 1:  # an array: one figure for all its cells
            scale = torch.maximum(reference.abs().max(), scale.max())
        distance = _largest(value.double() - reference, scale)
        distance += rounding.get(name, 0.0) / max(float(scale.min()), 1e-300)
        worst = max(worst, _largest(result[name].double() - reference, scale) - distance)
    return worst


def _largest(distance: Tensor, scale: Tensor) -> float:
    """Return the largest share of the scale; no distance is no share, whatever the scale."""
    shares = torch.where(distance == 0.0, 0.0, distance.abs() / scale)
    return float(shares.max())


def _rounding(drawn: DrawnSystem, dtype: torch.dtype, dt: float) -> dict[str, float]:
    largest = drawn.state().abs().amax(dim=(0, 2, 3)).tolist()
    unit = 8.0 * torch.finfo(dtype).eps / dt
    return {f"d{field.name}/dt": unit * value for field, value in zip(drawn.system.fields, largest, strict=True)}


class _Run:
    """A drawn system compiled for one backend and dtype, and what it is run on."""

    def __init__(self, drawn: DrawnSystem, backend: str, dtype: torch.dtype) -> None:
        self.tendency = drawn.system.compile(drawn.grid, backend=backend, statics=drawn.statics()).to(dtype)
        self.fields = drawn.system.fields
        self.leaves = {"state": drawn.state(dtype), **drawn.closures(dtype)}
        for leaf in self.leaves.values():
            leaf.requires_grad_()
        self.factor = torch.linspace(0.5, 1.5, len(self.fields), dtype=dtype)
        spans = torch.tensor([drawn.ranges[f.name][1] - drawn.ranges[f.name][0] for f in self.fields], dtype=dtype)
        weights = torch.randn(drawn.state().shape, generator=torch.Generator().manual_seed(drawn.seed)).to(dtype)
        # Fields in units of their range: otherwise pressure alone would fill the gradients.
        self.weights = weights / spans[:, None, None]

    def inputs(self) -> Inputs:
        """Return the arguments of the system's runner."""
        closures = {name: leaf for name, leaf in self.leaves.items() if name != "state"}
        return self.tendency.inputs(self.leaves["state"], closures)

    def gradients(self, result: Tensor, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
        """Derivatives of the weighted sum of a result, zero where it does not depend on a leaf; the state by field."""
        loss = (result * self.weights).sum()
        magnitudes = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
        if loss.requires_grad:
            gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            magnitudes.update({name: g for name, g in zip(leaves, gradients, strict=True) if g is not None})
        by_state = magnitudes.pop("state")
        values = {f"by {name}": gradient for name, gradient in magnitudes.items() if gradient.numel()}
        for k, field in enumerate(self.fields):
            values[f"d{field.name}/dt"] = result.detach()[:, k]
            values[f"by {field.name}"] = by_state[:, k]
        return values


def _evaluate(drawn: DrawnSystem, backend: str, dtype: torch.dtype, dt: float | None) -> dict[str, Tensor]:
    run = _Run(drawn, backend, dtype)
    inputs, runner = run.inputs(), run.tendency.runner
    leaves = {**run.leaves, "coefficients": run.tendency.coefficients.raw}
    if dt is None:
        return run.gradients(runner.tendency(inputs), leaves)
    leaves["factor"] = run.factor.requires_grad_()
    # The change alone, per second; gradients keep the state's own part, which is 1/dt.
    change = (runner.advance(inputs, dt, run.factor) - inputs.state.detach()) / dt
    return run.gradients(change, leaves)


def _sizes(drawn: DrawnSystem) -> dict[str, Tensor]:
    """Return sums of the absolute values of all terms: of each tendency, and of each derivative, in float64.

    They are those of a tendency times the largest factor, which serves for a step as well.
    """
    boundary = replace(drawn.grid.boundary, rim=None)  # whose term is no part of the equations
    total: dict[str, Tensor] = {}
    coefficients: dict[str, Tensor] = {}
    for layer in _layers(drawn.system):
        run = _Run(replace(drawn, system=layer, grid=drawn.grid.with_boundary(boundary)), "torch", torch.float64)
        inputs = run.inputs()
        # A coefficient of its own in every cell: its derivative there is one term of the coefficient's.
        cells = inputs.state[:, 0].shape
        each = inputs.coefficients.detach()[:, None, None, None].expand(-1, *cells).clone().requires_grad_()
        rate = run.tendency.runner.tendency(replace(inputs, coefficients=each))
        result = rate * run.factor.max()
        for name, values in run.gradients(result, {**run.leaves, "coefficients": each}).items():
            if name != "by coefficients":
                total[name] = total.get(name, 0.0) + values.abs()
                continue
            raw = run.tendency.coefficients.raw
            (slope,) = torch.autograd.grad(run.tendency.coefficients().sum(), raw)
            terms = values.abs().sum((1, 2, 3)) * slope.abs()
            for symbol, term in zip(run.tendency.coefficients.symbols, terms, strict=True):
                coefficients[symbol.name] = coefficients.get(symbol.name, 0.0) + term
        shares = (result.detach() * run.weights).abs().sum((0, 2, 3))
        total["by factor"] = total.get("by factor", 0.0) + shares / run.factor
    if drawn.grid.boundary.rim is not None:
        total["by factor"] = total["by factor"] + _of_the_rim(drawn, boundary)
    # Where every term vanishes (the slope of a uniform field), the terms hold round-off of what they are differences
    # of: against a thousandth of all that was added up, that is small.
    floor = 1e-3 * float(total["by factor"].sum())
    if coefficients:
        total["by coefficients"] = torch.stack([coefficients[c.name] for c in drawn.system.coefficients])
        total["by coefficients"].clamp_min_(floor)
    total["by factor"].clamp_min_(floor)
    # The same for derivatives by a field or closure, as θ(T(θ, p), p) has by p: against a thousandth of what a change
    # of all that was added up over the whole range would be.
    count = drawn.batch * drawn.grid.ny * drawn.grid.nx
    for name, (low, high) in drawn.ranges.items():
        if f"by {name}" in total and high > low:
            total[f"by {name}"].clamp_min_(floor / (count * (high - low)))
    return total


def _of_the_rim(drawn: DrawnSystem, without: Boundary) -> Tensor:
    """Return what the rim adds to the sums for the factors: it is scaled by them as the equations are."""
    run = _Run(drawn, "torch", torch.float64)
    bare = _Run(replace(drawn, grid=drawn.grid.with_boundary(without)), "torch", torch.float64)
    added = run.tendency.runner.tendency(run.inputs()) - bare.tendency.runner.tendency(bare.inputs())
    return (added.detach() * run.weights).abs().sum((0, 2, 3)) * run.factor.max() / run.factor


def _layers(system: PDESystem) -> Iterator[PDESystem]:
    """Systems of one term an equation, which add up to the system."""
    terms = [right.terms if isinstance(right, Sum) else (right,) for right in system.equations.values()]
    layers: Iterator[tuple[Expr | float, ...]] = zip_longest(*terms, fillvalue=0.0)
    for number, layer in enumerate(layers, start=1):
        yield PDESystem(f"{system.name}, terms {number}", dict(zip(system.fields, layer, strict=True)))
