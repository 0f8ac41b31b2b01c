r"""Spectrum of a system linearised about a state: which modes a step lets grow, by which term, and the longest step.

About the air of one cell, spread over a periodic plane with the spacing and the Coriolis parameter of its row, the
tendency is linear and the same everywhere: each wave has a matrix, whose eigenvalues count (:mod:`.modes`). Couplings
between fields are in it, gravity waves and rotation with advection and mixing. It is looked at in the cell where the
advecting wind crosses most cells, in those where a field or a static is largest or smallest, and in the narrowest
row. What grows there grows; that nothing else does holds for a state that varies little from cell to cell: gradients
of the state, borders and walls are not in it.

References
----------
Durran (2010), Numerical Methods for Fluid Dynamics, 2nd ed., Sect. 3.2.2
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..backends.eager import EagerRunner
from ..errors import StabilityError
from ..expr import Expr, Sum
from ..grid import Grid2D
from ..symbols import Field
from .modes import CELLS, EULER, amplification, complete, factors, symbol_of, winds

if TYPE_CHECKING:
    from ..tendency import Tendency

__all__ = ["ROUND_OFF", "Spectrum", "check_state", "growth", "spectrum"]

Place = tuple[int, int, int]  # sample, row, column
ROUND_OFF = 1e-6  # a factor this close to 1 is not growth
LOOKED_AT = 400  # steps between none and the longest that a scheme may bear
SHORTEST = 1e-3  # radians or e-foldings of the fastest mode; a scheme that needs less bears no step at all
SHARE = 0.4  # of the largest contribution to a mode, from which a term is named


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Matrices of the waves of a linearised system, ``[place, term, wave, by]`` summed over terms where needed.

    Attributes
    ----------
    terms : of every equation, with the field they belong to
    rows : ``[place, term, wave, by]``, response of each term to each field
    """

    fields: tuple[Field, ...]
    terms: tuple[tuple[Field, Expr], ...]
    rows: Tensor

    @property
    def matrices(self) -> Tensor:
        """Responses of the fields, ``[place, wave, of, by]``."""
        of = [[k for k, (field, _) in enumerate(self.terms) if field == each] for each in self.fields]
        return torch.stack([self.rows[:, members].sum(1) for members in of], dim=2)

    @property
    def fastest(self) -> float:
        """Rate of the fastest mode, oscillation or decay, 1/s."""
        return float(torch.linalg.eigvals(self.matrices).abs().max())

    def growth(self, dt: float, polynomial: Sequence[float] = EULER) -> float:
        """Return the factor by which a step multiplies the fastest mode."""
        return amplification(dt * torch.linalg.eigvals(self.matrices), polynomial)

    def longest_step(self, polynomial: Sequence[float] = EULER) -> float:
        """Return the longest step [s] below which no mode grows that would not grow by itself; 0 if there is none."""
        values, fastest = torch.linalg.eigvals(self.matrices).flatten(), self.fastest
        if fastest == 0.0:
            return math.inf
        most = 2.0 * len(polynomial) / fastest

        def bears(dt: float) -> bool:
            physical = torch.exp(dt * values.real.clamp_min(0.0))
            return float((factors(dt * values, polynomial).abs() / physical).max()) <= 1.0 + ROUND_OFF * min(
                1.0, dt * fastest
            )

        steps = [SHORTEST / fastest, *(most * k / LOOKED_AT for k in range(1, LOOKED_AT + 1))]
        for low, high in zip([0.0, *steps], steps, strict=False):
            if not bears(high):
                return 0.0 if low == 0.0 else _bisected(bears, low, high)
        return math.inf

    def limiting(self, dt: float, polynomial: Sequence[float] = EULER) -> str:
        """Name the terms that make the fastest mode of a step what it is."""
        matrices = self.matrices.flatten(0, 1)
        values, vectors = torch.linalg.eig(matrices)
        mode = int(factors(dt * values, polynomial).abs().argmax())
        at, k = divmod(mode, values.shape[1])
        left = torch.linalg.pinv(vectors[at])[k]
        rows = self.rows.transpose(1, 2).flatten(0, 1)[at]  # [term, by]
        positions = [self.fields.index(field) for field, _ in self.terms]
        sizes = (left[positions] * (rows @ vectors[at, :, k])).abs()
        named = [t for t in sizes.argsort(descending=True).tolist() if sizes[t] >= SHARE * sizes.max()]
        return " and ".join(f"`{self.terms[t][1].text()}` in d{self.terms[t][0].name}/dt" for t in named)


def growth(
    tendency: Tendency,
    state: Tensor,
    dt: float,
    polynomial: Sequence[float] = EULER,
    closures: Mapping[str, Tensor] | None = None,
) -> float:
    """Return the factor by which the fastest mode grows in a step, see :func:`spectrum`.

    Parameters
    ----------
    state : ``[batch, field, y, x]``
    dt : s
    polynomial : coefficients of the scheme's stability polynomial, constant first
    closures : as for the tendency; what is missing counts as 0
    """
    return spectrum(tendency, state, closures).growth(dt, polynomial)


def spectrum(tendency: Tendency, state: Tensor, closures: Mapping[str, Tensor] | None = None) -> Spectrum:
    """Linearise a system about the cells of a state that matter most.

    What an integrator takes out of the tendency, closed-form flows or transport, is left out here too.
    """
    check_state(tendency, state)
    places = _places(tendency, state, closures)
    parts = [_rows(tendency, state, closures, place) for place in places]
    rows = torch.stack([rows for _, rows in parts])
    terms = parts[0][0]
    # LAPACK may end the process where a matrix is not finite.
    broken = [term.text() for k, (_, term) in enumerate(terms) if not torch.isfinite(rows[:, k]).all()]
    if broken:
        raise StabilityError(
            f"'{tendency.system.name}' has no finite slope about this state: {', '.join(broken)}",
            do="look at the statics, closures and coefficients in it",
        )
    return Spectrum(tendency.fields, terms, rows)


def check_state(tendency: Tendency, state: Tensor) -> None:
    """Refuse a state to linearise about that is empty or not finite."""
    tendency.inputs(state, complete(tendency, state, None))
    if state.numel() == 0:
        raise StabilityError(f"there is nothing to linearise '{tendency.system.name}' about in a batch of 0")
    broken = (~torch.isfinite(state.detach())).sum((0, 2, 3)).tolist()
    named = [f"{name} ({count} cells)" for name, count in zip(tendency.field_names, broken, strict=True) if count]
    if named:
        raise StabilityError(
            f"the state of '{tendency.system.name}' is not finite: {', '.join(named)}", do="pass a state before that"
        )


def _rows(
    tendency: Tendency, state: Tensor, closures: Mapping[str, Tensor] | None, place: Place
) -> tuple[tuple[tuple[Field, Expr], ...], Tensor]:
    """Return the terms of the frozen system and their response to each field, ``[term, wave, by]``."""
    inputs = tendency.inputs(state, complete(tendency, state, closures))
    sample, row, column = place
    frozen = _on_plane(tendency, inputs.statics, row, column)
    here = state[sample, :, row, column].detach().double().cpu()
    base = here[None, :, None, None].expand(1, -1, CELLS, CELLS).contiguous().requires_grad_()
    settings = {
        name: value[sample, row, column].detach().double().cpu()
        for name, value in zip(tendency.closure_names, inputs.closures, strict=True)
        if name in frozen.closure_names
    }
    terms = tuple((field, term) for field, right in frozen.equations.items() for term in _terms(right))
    runner = EagerRunner(frozen._lower([term for _, term in terms]), frozen.grid)
    with torch.enable_grad():
        results = runner.evaluate(frozen.inputs(base, settings))
        # The zero term keeps a gradient where nothing depends on the base state.
        rates = [_centre(result) + 0.0 * base.sum() for result in results]
    # The gradient of one cell's tendency is the response to a pulse, mirrored: its transform is the symbol's conjugate,
    # which has the same modulus under a polynomial with real coefficients.
    slopes = [torch.autograd.grad(rate, base, retain_graph=True)[0][0] for rate in rates]
    return terms, torch.stack([symbol_of(slope) for slope in slopes]).flatten(2).transpose(1, 2)


def _terms(right: Expr) -> tuple[Expr, ...]:
    return right.terms if isinstance(right, Sum) else (right,)


def _centre(result: Any) -> Tensor:
    value = torch.as_tensor(result, dtype=torch.float64)
    return value.expand(1, CELLS, CELLS)[0, CELLS // 2, CELLS // 2]


def _bisected(bears: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if bears(middle) else (low, middle)
    return low


def _places(tendency: Tendency, state: Tensor, closures: Mapping[str, Tensor] | None) -> list[Place]:
    """Return the cells to look at, the windiest first."""
    grid, shape = tendency.grid, state[:, 0].shape
    places = [_windiest(tendency, state, closures)]
    statics = tendency.inputs(state, complete(tendency, state, closures)).statics
    quantities = [*state.unbind(1), *(statics[s.name].expand(shape) for s in tendency.system.statics)]
    for quantity in quantities:
        places += [_at(int(cell), shape) for cell in (quantity.argmax(), quantity.argmin())]
    places.append((0, int(grid.dx.argmin()), 0))
    return list(dict.fromkeys(places))


def _at(cell: int, shape: Sequence[int]) -> Place:
    sample, rest = divmod(cell, shape[1] * shape[2])
    return sample, *divmod(rest, shape[2])


def _windiest(tendency: Tendency, state: Tensor, closures: Mapping[str, Tensor] | None) -> Place:
    """Return sample, row and column where the advecting wind is fastest in cell units."""
    crossed = torch.zeros(state[:, 0].shape, dtype=torch.float64)
    dx = torch.tensor(tendency.grid.dx)[:, None]
    for u, v in winds(tendency, state, closures):
        crossed = torch.maximum(crossed, u.double().abs().cpu() / dx + v.double().abs().cpu() / tendency.grid.dy)
    return _at(int(crossed.argmax()), crossed.shape)


def _on_plane(tendency: Tendency, statics: Mapping[str, Tensor], row: int, column: int) -> Tendency:
    """Return the same system, coefficients included, on a periodic plane that is everywhere like one cell."""
    grid, system = tendency.grid, tendency.system
    plane = Grid2D.plane(CELLS, CELLS, dx=float(grid.dx[row]), dy=grid.dy, f=float(grid.f[row]), boundary="periodic")
    shape = (grid.ny, grid.nx)
    frozen = system.compile(
        plane,
        limits=tendency.limits,
        exact_flows=bool(tendency.flows),
        semi_lagrangian=tendency.transport is not None,
        statics={s.name: statics[s.name].expand(shape)[row, column].cpu() for s in system.statics},
    ).double()
    with torch.no_grad():
        frozen.coefficients.raw.copy_(tendency.coefficients.raw)
    return frozen
