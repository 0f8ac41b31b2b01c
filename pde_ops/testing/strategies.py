"""A hypothesis strategy that draws systems: any registered operators, any border, random data to run them on.

It needs ``hypothesis``, which this library does not; hence a module of its own, imported by who has it.

>>> from hypothesis import given
>>> from pde_ops.testing.strategies import systems
>>> @given(systems())
... def test_my_backend(drawn):
...     assert worst_difference(drawn, "mine") < 1e-5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from ..backends import Inputs
from ..boundaries import Axis, Boundary, Kind, Rim
from ..expr import Constant, Expr, Product
from ..grid import Grid2D
from ..operator import Operator, operators
from ..symbols import Closure, Field, Positive, Static, Symbol
from ..system import PDESystem
from ..units import Unit, registry, same_dimension, signature
from .samples import latlon, typical

__all__ = ["DrawnSystem", "grids", "systems", "worst_difference"]

# Name, unit and range of the fields a surface model may have; operators with other needs get closures.
_FIELDS: dict[str, tuple[str, float, float]] = {
    "u": ("m/s", -20.0, 20.0),
    "v": ("m/s", -20.0, 20.0),
    "p": ("Pa", 8e4, 1.05e5),
    "theta": ("K", 265.0, 310.0),
    "q": ("kg/kg", 0.001, 0.03),
    "c": ("kg/m**3", 0.5, 1.5),
}
_PACE = 1e-3  # 1/s: every term changes its field by about a thousandth of its range a second, so that all weigh alike

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True, slots=True)
class DrawnSystem:
    """A system, a grid, and ranges to draw its state, closures and statics from.

    Attributes
    ----------
    per_row : statics that the grid does not supply; True for one value a row, False for a map
    """

    system: PDESystem
    grid: Grid2D
    ranges: dict[str, tuple[float, float]]
    per_row: dict[str, bool]
    seed: int
    batch: int

    def state(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """Random state ``[batch, field, y, x]`` within the ranges."""
        return torch.stack([self._array(field.name) for field in self.system.fields], dim=1).to(dtype)

    def closures(self, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        """Random closures, those of a nudged rim included."""
        found = {closure.name: self._array(closure.name).to(dtype) for closure in self.system.closures}
        if self.grid.boundary.rim is not None:
            found.update({f"rim_{f.name}": self._array(f.name, salt=1).to(dtype) for f in self.system.fields})
        return found

    def statics(self) -> dict[str, Tensor]:
        """Random statics, one value a row or a map."""
        names = [static.name for static in self.system.statics if static.name in self.per_row]
        return {name: self._array(name)[0, :, : 1 if self.per_row[name] else None] for name in names}

    def _array(self, name: str, salt: int = 0) -> Tensor:
        # Seeded by name, so that a simpler example keeps the numbers of the fields it still has.
        seed = np.random.SeedSequence([self.seed, salt, *name.encode()]).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(seed))
        shape = (self.batch, self.grid.ny, self.grid.nx)
        low, high = self.ranges[name]
        return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)

    def __repr__(self) -> str:
        boundary, cells = self.grid.boundary, f"{self.grid.ny} x {self.grid.nx}"
        return f"{self.system!r}\n  on {cells}, {boundary}, seed {self.seed}, batch {self.batch}"


def grids() -> st.SearchStrategy[Grid2D]:
    """Plane and latitude-longitude grids of 5 to 21 cells a side with every border, mixed and nudged ones included."""
    kinds: tuple[Kind, ...] = ("zero_gradient", "periodic", "reflecting")
    nudged = [Boundary(rim=Rim(width, timescale)) for width in (1, 3) for timescale in (600.0, 3600.0)]
    borders = st.sampled_from([*(Boundary(x, y) for x in kinds for y in kinds), *nudged])
    sizes = st.integers(5, 21)
    flat = st.builds(
        lambda ny, nx, border: Grid2D.plane(ny, nx, dx=2.0e4, dy=1.5e4, f=1e-4, boundary=border), sizes, sizes, borders
    )
    curved = st.builds(
        lambda ny, nx, border: Grid2D.from_latlon(30.0 + 1.5 * np.arange(ny), 2.0 * np.arange(nx), boundary=border),
        sizes,
        sizes,
        borders,
    )
    return flat | curved


@st.composite
def systems(draw: Draw, names: Sequence[str] | None = None, max_fields: int = 6, max_terms: int = 3) -> DrawnSystem:
    """Systems of 1 to ``max_fields`` fields whose equations are sums of operator calls; wind may be a vector.

    Parameters
    ----------
    names : operators to draw from; all registered ones otherwise
    max_terms : largest number of terms in an equation
    """
    pool = [operators[name] for name in names or operators.list()]
    chosen = draw(st.lists(st.sampled_from(sorted(_FIELDS)), min_size=1, max_size=max_fields, unique=True))
    axes: dict[str, Axis] = {"u": "x", "v": "y"} if draw(st.booleans()) else {}
    builder = _Builder(draw, [Field(name, _FIELDS[name][0], component=axes.get(name)) for name in chosen], pool)
    # At least one term in all: a system at rest tests nothing.
    equations = {f: builder.equation(f, int(k == 0), max_terms) for k, f in enumerate(builder.fields)}
    grid, seed, batch = draw(grids()), draw(st.integers(0, 2**16)), draw(st.integers(1, 3))
    return DrawnSystem(PDESystem("drawn", equations), grid, builder.ranges, builder.statics, seed, batch)


class _Builder:
    """Writes equations over some fields, making closures and coefficients as operators need them."""

    def __init__(self, draw: Draw, fields: list[Field], pool: Sequence[Operator]) -> None:
        self.draw = draw
        self.fields = fields
        self.pool = pool
        self.ranges: dict[str, tuple[float, float]] = {f.name: _FIELDS[f.name][1:] for f in fields}
        self.statics: dict[str, bool] = {}
        self.coefficients = 0

    def equation(self, field: Field, min_terms: int, max_terms: int) -> Expr | float:
        total: Expr | float = 0.0
        for _ in range(self.draw(st.integers(min_terms, max_terms))):
            term = self.term(field)
            total = term if isinstance(total, float) else total + term
        if self.draw(st.booleans()):  # a closure of its own, as a learned source would be
            source = self.closure(f"source_{field.name}", field.unit / registry.second, _span(field) * _PACE)
            total = source if isinstance(total, float) else total + source
        return total

    def term(self, field: Field) -> Expr:
        record = self.draw(st.sampled_from(self.pool))
        call = self.call(record, depth=0)
        need = field.unit / registry.second
        sign: float = self.draw(st.sampled_from([-1.0, 1.0]))
        factor = _span(field) * _PACE / max(_magnitude(record.name), 1e-300)
        self.coefficients += 1
        if self.draw(st.booleans()):
            return sign * Positive(f"k{self.coefficients}", need / call.unit, init=factor) * call
        if self.draw(st.booleans()):
            return sign * call / Constant(1.0 / factor, call.unit / need)
        return Constant(sign * factor, need / call.unit) * call

    def call(self, record: Operator, depth: int) -> Expr:
        bound: dict[str, Unit] = {}
        arguments: list[Expr] = []
        for name, text in record.inputs.items():
            variable = signature(text).binds
            if variable is not None and variable not in bound:
                argument = self.anything(depth)
                bound[variable] = argument.unit
            else:
                argument = self.quantity(signature(text).resolve(bound), record, name, depth)
            arguments.append(argument)
        options = {"radius": self.draw(st.integers(1, 4))} if "radius" in record.options else {}
        result: Expr = record(*arguments, **options)
        return result

    def anything(self, depth: int) -> Expr:
        """An argument of any unit: mostly a field, now and then a product or another operator's result."""
        field: Expr = self.draw(st.sampled_from(self.fields))
        kind = self.draw(st.integers(0, 9))
        if kind == 9:
            return Product.of(field, self.draw(st.sampled_from(self.fields)))
        if kind >= 7 and depth < 1:
            return self.call(self.draw(st.sampled_from(self.pool)), depth + 1)
        return field

    def quantity(self, unit: Unit, record: Operator, name: str, depth: int) -> Expr:
        """An argument of a given unit within the operator's domain: a field, static, coefficient or closure."""
        domain = record.domain.get(name)
        options: list[Expr] = [f for f in self.fields if same_dimension(f.unit, unit) and self._fits(f.name, domain)]
        if name == "f":
            options.append(Static("f", "1/s"))
        if name == "T" and depth < 1 and {"theta", "p"} <= {f.name for f in self.fields}:
            options.append(self.call(operators["temperature"], depth + 1))
        low, high = domain if domain is not None else (-1.0, 1.0)
        label = f"{record.name}_{name}"
        if low >= 0.0 and self.draw(st.booleans()):
            self.coefficients += 1
            options.append(Positive(f"k{self.coefficients}_{name}", unit, init=low + 0.3 * (high - low)))
        if not options or self.draw(st.integers(0, 3)) == 0:
            if domain is None:  # the unit of a bound variable: values like those of the argument that bound it
                return self.anything_like(unit, label)
            spread, middle = 0.45 * (high - low), 0.5 * (low + high)
            if self.draw(st.integers(0, 2)) == 0:
                return self.static(label, unit, spread, middle)
            return self.closure(label, unit, spread, middle)
        picked: Expr = self.draw(st.sampled_from(options))
        return picked

    def anything_like(self, unit: Unit, label: str) -> Expr:
        matching = [f for f in self.fields if same_dimension(f.unit, unit)]
        if matching:
            picked: Expr = self.draw(st.sampled_from(matching))
            return picked
        self.coefficients += 1
        return self.closure(f"{label}_{self.coefficients}", unit, 1.0)

    def closure(self, name: str, unit: Unit, spread: float, middle: float = 0.0) -> Symbol:
        self.ranges[name] = (middle - spread, middle + spread)
        return Closure(name, unit)

    def static(self, name: str, unit: Unit, spread: float, middle: float) -> Symbol:
        per_row = self.draw(st.booleans())
        label = f"{name}_{'row' if per_row else 'map'}"
        self.ranges[label] = (middle - spread, middle + spread)
        self.statics[label] = per_row
        return Static(label, unit)

    def _fits(self, name: str, domain: tuple[float, float] | None) -> bool:
        low, high = self.ranges[name]
        return domain is None or (domain[0] <= low and high <= domain[1])


@lru_cache(maxsize=512)
def _magnitude(name: str) -> float:
    return typical(operators[name], latlon("periodic"))


def _span(field: Field) -> float:
    _, low, high = _FIELDS[field.name]
    return high - low


def worst_difference(
    drawn: DrawnSystem, backend: str, dtype: torch.dtype = torch.float64, *, dt: float | None = None
) -> float:
    """Largest distance of a backend from the torch baseline: tendencies, and gradients by all that can have one.

    Each channel and closure is measured against its own largest value in the baseline. The derivative by a coefficient
    or a factor is one number, a sum over all cells whose terms may cancel: it is measured against the sum of their
    absolute values, which is what the round-off of the terms adds up to. Where the baseline is itself not exact in
    ``dtype``, its distance from float64 is taken off, so that cancellation in an ill-conditioned system does not count
    against the backend. NaN if the baseline is not finite.

    Parameters
    ----------
    dt : compare the step ``advance`` over this many seconds, with a factor per field, instead of the tendency
    """
    expected, result = _evaluate(drawn, "torch", dtype, dt), _evaluate(drawn, backend, dtype, dt)
    exact = expected if dtype == torch.float64 else _evaluate(drawn, "torch", torch.float64, dt)
    # A change is known no better than the state it is the difference of.
    rounding = {} if dt is None else _rounding(drawn, dtype, dt)
    sums = _sums_of_sizes(drawn, dt)
    worst = 0.0
    for name, value in expected.items():
        reference = exact[name]
        if not bool(torch.isfinite(reference).all()):
            return math.nan
        scale = sums[name] if name in sums else reference.abs().max()
        own = _largest(value.double() - reference, scale) + rounding.get(name, 0.0) / max(float(scale.min()), 1e-300)
        worst = max(worst, _largest(result[name].double() - reference, scale) - own)
    return worst


def _largest(distance: Tensor, scale: Tensor) -> float:
    """Largest share of the scale; no distance is no share, whatever the scale."""
    shares = torch.where(distance == 0.0, 0.0, distance.abs() / scale)
    return float(shares.max())


def _sums_of_sizes(drawn: DrawnSystem, dt: float | None) -> dict[str, Tensor]:
    """For each derivative that is a sum over cells, the sum of the absolute values of its terms, in float64."""
    run = _Run(drawn, "torch", torch.float64, dt)
    inputs = run.tendency.inputs(run.state, run.closures)
    # A coefficient of its own in every cell: what its derivative was the sum of.
    number = inputs.coefficients.detach()
    each = number[:, None, None, None].expand(-1, *run.state[:, 0].shape).clone().requires_grad_()
    terms = run.weighted(replace(inputs, coefficients=each))
    total = terms.detach().abs().sum((0, 2, 3))
    raw = run.tendency.coefficients.raw
    found = torch.autograd.grad(terms.sum(), each, allow_unused=True)[0] if terms.requires_grad else None
    by_number = torch.zeros_like(number) if found is None else found.abs().sum((1, 2, 3))
    if raw.numel():
        (slope,) = torch.autograd.grad(run.tendency.coefficients().sum(), raw)
        by_number = by_number * slope.abs()
    # Where every term vanishes (the slope of a uniform field), the terms hold round-off of what they are differences
    # of: against a thousandth of all that was added up, that is small.
    sizes = {"by coefficients": by_number.clamp_min(1e-3 * float(total.sum()))}
    if dt is not None:
        sizes["by factor"] = (total / run.factor).clamp_min(1e-3 * float(total.sum()))
    return sizes


def _rounding(drawn: DrawnSystem, dtype: torch.dtype, dt: float) -> dict[str, float]:
    largest = drawn.state().abs().amax(dim=(0, 2, 3)).tolist()
    unit = 8.0 * torch.finfo(dtype).eps / dt
    return {f"d{field.name}/dt": unit * value for field, value in zip(drawn.system.fields, largest, strict=True)}


class _Run:
    """A drawn system compiled for one backend and dtype, and what it is run on."""

    def __init__(self, drawn: DrawnSystem, backend: str, dtype: torch.dtype, dt: float | None) -> None:
        self.tendency = drawn.system.compile(drawn.grid, backend=backend, statics=drawn.statics()).to(dtype)
        self.fields, self.dt = drawn.system.fields, dt
        self.state, self.closures = drawn.state(dtype), drawn.closures(dtype)
        self.factor = torch.linspace(0.5, 1.5, len(self.fields), dtype=dtype)
        spans = torch.tensor([_span(field) for field in self.fields], dtype=dtype)
        weights = torch.randn(self.state.shape, generator=torch.Generator().manual_seed(drawn.seed)).to(dtype)
        # Fields in units of their range: otherwise pressure alone would fill the gradients.
        self.weights = weights / spans[:, None, None]

    def result(self, inputs: Inputs) -> Tensor:
        """The tendency, or the change of a step per second; gradients of a step keep the state's own part, 1/dt."""
        if self.dt is None:
            return self.tendency.runner.tendency(inputs)
        return (self.tendency.runner.advance(inputs, self.dt, self.factor) - inputs.state.detach()) / self.dt

    def weighted(self, inputs: Inputs) -> Tensor:
        """Terms of the loss, one a cell."""
        return self.result(inputs) * self.weights


def _evaluate(drawn: DrawnSystem, backend: str, dtype: torch.dtype, dt: float | None = None) -> dict[str, Tensor]:
    run = _Run(drawn, backend, dtype, dt)
    leaves: dict[str, Tensor] = {"state": run.state, **run.closures, "factor": run.factor}
    for leaf in leaves.values():
        leaf.requires_grad_()
    leaves["coefficients"] = run.tendency.coefficients.raw
    result = run.result(run.tendency.inputs(run.state, run.closures))
    loss = (result * run.weights).sum()
    found: dict[str, Tensor] = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    if loss.requires_grad:
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        found.update({name: g for name, g in zip(leaves, gradients, strict=True) if g is not None})
    values = {f"by {name}": gradient for name, gradient in found.items() if name != "state" and gradient.numel()}
    for k, field in enumerate(run.fields):
        values[f"d{field.name}/dt"] = result.detach()[:, k]
        values[f"by {field.name}"] = found["state"][:, k]
    return values
