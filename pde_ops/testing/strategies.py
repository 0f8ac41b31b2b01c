"""A hypothesis strategy that draws systems: any registered operators, any border, random data to run them on.

It needs ``hypothesis``, which this library does not; hence a module of its own, imported by who has it.

>>> from hypothesis import given
>>> from pde_ops.testing.strategies import systems
>>> @given(systems())
... def test_my_backend(drawn):
...     assert worst_difference(drawn, "mine") < 1e-5
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from ..boundaries import Axis, Boundary, Kind, Rim
from ..expr import Constant, Expr, Product
from ..grid import Grid2D
from ..operator import Operator, operators
from ..symbols import Closure, Field, Positive, Static, Symbol
from ..system import PDESystem
from ..units import Unit, registry, same_dimension, signature
from .comparison import worst_difference
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
        closures = {closure.name: self._array(closure.name).to(dtype) for closure in self.system.closures}
        if self.grid.boundary.rim is not None:
            closures.update({f"rim_{f.name}": self._array(f.name, salt=1).to(dtype) for f in self.system.fields})
        return closures

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
        """Return an argument of any unit: mostly a field, now and then a product or another operator's result."""
        field: Expr = self.draw(st.sampled_from(self.fields))
        kind = self.draw(st.integers(0, 9))
        if kind == 9:
            return Product.of(field, self.draw(st.sampled_from(self.fields)))
        if kind >= 7 and depth < 1:
            return self.call(self.draw(st.sampled_from(self.pool)), depth + 1)
        return field

    def quantity(self, unit: Unit, record: Operator, name: str, depth: int) -> Expr:
        """Return an argument of a given unit within the operator's domain: a field, static, coefficient or closure."""
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
