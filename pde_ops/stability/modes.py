r"""Von Neumann analysis of operators and schemes: how fast a step lets a wave grow.

A linear, translation-invariant tendency multiplies the wave :math:`e^{i\mathbf k\mathbf x}` by its symbol
:math:`\lambda(\mathbf k)`, the Fourier transform of its response to a single cell; for several fields the symbol is a
matrix and its eigenvalues count. One step of an explicit scheme multiplies the wave by the polynomial
:math:`R(\lambda\Delta t)`: it must not exceed 1. Nothing here asks which operators are used: their bodies are run.

References
----------
Durran (2010), Numerical Methods for Fluid Dynamics, 2nd ed., Sect. 3.2.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..backends.eager import EagerRunner
from ..expr import Call, Expr, walk
from ..grid import Grid2D
from ..lowering import lower
from ..operator import Operator
from ..transforms import on_real_tensors

if TYPE_CHECKING:
    from ..tendency import Tendency

__all__ = [
    "CELLS",
    "EULER",
    "amplification",
    "carries_its_wind",
    "complete",
    "curvature",
    "factors",
    "most_growth",
    "symbol_of",
    "transport_growth",
    "transports",
    "winds",
]

EULER = (1.0, 1.0)
"""Coefficients of the stability polynomial of forward Euler, 1 + z."""

CELLS = 24  # of the periodic plane that responses are computed on; a stencil may reach half of it
WAVES = 48  # per axis at which symbols are looked at, the shortest wave among them


def amplification(z: Tensor, polynomial: Sequence[float]) -> float:
    """Return the largest |R(z)| of a stability polynomial."""
    return float(factors(z, polynomial).abs().max())


def factors(z: Tensor, polynomial: Sequence[float]) -> Tensor:
    """Return R(z), by which a step multiplies each mode."""
    total = torch.zeros_like(z)
    for coefficient in reversed(polynomial):
        total = total * z + coefficient
    return total


def transport_growth(operator: Operator, polynomial: Sequence[float], courant: float = 1.0) -> float:
    """Return the largest factor by which a step multiplies a wave carried at a Courant number, over wind directions.

    A value above 1 means that the scheme and the operator do not go together at that Courant number.
    """
    with on_real_tensors():
        return max(amplification(-courant * symbol, polynomial) for symbol in _transport_symbols(operator))


@lru_cache(maxsize=64)
def _transport_symbols(operator: Operator) -> tuple[Tensor, ...]:
    """Symbols of an advection operator at unit Courant number, for winds between the axes."""
    assert operator.wind is not None
    symbols = []
    with on_real_tensors():
        grid = Grid2D.plane(CELLS, CELLS, dx=1.0, boundary="periodic").bind(torch.float64, "cpu")
        for east in (1.0, 0.75, 0.5, 0.25, 0.0):
            wind = dict(zip(operator.wind, (east, 1.0 - east), strict=True))
            arguments = [wind.get(name, _pulse()) for name in operator.inputs]
            symbols.append(symbol_of(operator.body(*arguments, grid=grid, **operator.options)))
    return tuple(symbols)


@lru_cache(maxsize=64)
def carries_its_wind(operator: Operator) -> bool:
    """Tell whether an advection changes a uniform field where the wind converges, as the flux form does."""
    assert operator.wind is not None
    with on_real_tensors():
        grid = Grid2D.plane(CELLS, CELLS, dx=1.0, boundary="periodic").bind(torch.float64, "cpu")
        uniform = torch.ones(CELLS, CELLS, dtype=torch.float64)
        arguments = [_pulse() if name in operator.wind else uniform for name in operator.inputs]
        return float(operator.body(*arguments, grid=grid, **operator.options).abs().max()) > 0.0


def curvature(call: Call, dx: float, dy: float) -> float:
    """Return the largest eigenvalue of a mixing operator of coefficient 1: 4(1/dx² + 1/dy²) for the five-point ∇²."""
    with on_real_tensors():
        grid = Grid2D.plane(CELLS, CELLS, dx=dx, dy=dy, boundary="periodic").bind(torch.float64, "cpu")
        arguments = [_pulse(), *(1.0 for _ in call.arguments[1:])]
        return float(symbol_of(call.operator.body(*arguments, grid=grid, **dict(call.options))).abs().max())


def most_growth(call: Call, sign: float) -> float:
    """Return the largest real part of a mixing operator's eigenvalues times a sign: above 0 it makes waves grow."""
    with on_real_tensors():
        grid = Grid2D.plane(CELLS, CELLS, dx=1.0, boundary="periodic").bind(torch.float64, "cpu")
        arguments = [_pulse(), *(1.0 for _ in call.arguments[1:])]
        symbol = symbol_of(call.operator.body(*arguments, grid=grid, **dict(call.options)))
        largest = float((sign * symbol.real).max())
    return largest if largest > 1e-9 else 0.0  # round-off of a Fourier transform is not growth


def transports(tendency: Tendency) -> set[Operator]:
    """Operators that advect something explicitly."""
    nodes = (node for right in tendency.equations.values() for node in walk(right))
    return {node.operator for node in nodes if isinstance(node, Call) and node.operator.wind is not None}


def winds(
    tendency: Tendency, state: Tensor, closures: Mapping[str, Tensor] | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Return the different winds that advect something in a system, before any limit: ``[batch, y, x]`` each."""
    winds: dict[tuple[Expr, Expr], None] = {}
    for call in tendency.system.calls():
        if call.operator.wind is not None:
            u, v = (call.argument(name) for name in call.operator.wind)
            winds[u, v] = None
    program = lower(
        [part for wind in winds for part in wind],
        tendency.fields,
        tendency.system.closures,
        tendency.system.coefficients,
    )
    with torch.no_grad():
        parts = EagerRunner(program, tendency.grid).evaluate(
            tendency.inputs(state, complete(tendency, state, closures))
        )
    shape = state[:, 0].shape
    full = [torch.as_tensor(part, dtype=state.dtype, device=state.device).detach().expand(shape) for part in parts]
    return list(zip(full[::2], full[1::2], strict=True))


def complete(tendency: Tendency, state: Tensor, closures: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """Closures with zeros for those that were not given."""
    zero = torch.zeros((), dtype=state.dtype, device=state.device)
    return {name: (closures or {}).get(name, zero) for name in tendency.closure_names}


def _pulse() -> Tensor:
    pulse = torch.zeros(CELLS, CELLS, dtype=torch.float64)
    pulse[CELLS // 2, CELLS // 2] = 1.0
    return pulse


def symbol_of(response: Tensor) -> Tensor:
    """Return the Fourier transform of a response to the pulse, about the pulse."""
    padded = torch.nn.functional.pad(response, (0, WAVES - CELLS, 0, WAVES - CELLS))
    half = CELLS // 2
    symbol: Tensor = torch.fft.fft2(padded.roll((-half, -half), (-2, -1)))
    return symbol
