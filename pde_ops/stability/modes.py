r"""Von Neumann analysis of any composed system: how fast its fastest mode grows.

A linear, translation-invariant tendency multiplies the wave :math:`e^{i\mathbf k\mathbf x}` by its symbol
:math:`\lambda(\mathbf k)`, the Fourier transform of its response to a single cell; for several fields the symbol is a
matrix and its eigenvalues count. One step of an explicit scheme multiplies the wave by the polynomial
:math:`R(\lambda\Delta t)`: it must not exceed 1. Nothing here asks which operators are used: their bodies are run.

References
----------
Durran (2010), Numerical Methods for Fluid Dynamics, 2nd ed., Sect. 3.2.2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ..backends.eager import EagerRunner
from ..expr import Call, Expr, walk
from ..grid import Grid2D
from ..lowering import lower
from ..operator import Operator

if TYPE_CHECKING:
    from ..tendency import Tendency

__all__ = ["EULER", "complete", "curvature", "growth", "transport_growth", "transports", "winds"]

EULER = (1.0, 1.0)
"""Coefficients of the stability polynomial of forward Euler, 1 + z."""

CELLS = 24  # of the periodic plane that responses are computed on; a stencil may reach half of it
WAVES = 48  # per axis at which symbols are looked at, the shortest wave among them


def amplification(z: Tensor, polynomial: Sequence[float]) -> float:
    """Largest |R(z)| of a stability polynomial."""
    total = torch.zeros_like(z)
    for coefficient in reversed(polynomial):
        total = total * z + coefficient
    return float(total.abs().max())


def transport_growth(operator: Operator, polynomial: Sequence[float], courant: float = 1.0) -> float:
    """Largest factor by which a step multiplies a wave carried at a Courant number, over wind directions.

    A value above 1 means that the scheme and the operator do not go together at that Courant number.
    """
    with _for_real():
        return max(amplification(-courant * symbol, polynomial) for symbol in _transport_symbols(operator))


@lru_cache(maxsize=64)
def _transport_symbols(operator: Operator) -> tuple[Tensor, ...]:
    """Symbols of an advection operator at unit Courant number, for winds between the axes."""
    assert operator.wind is not None
    symbols = []
    with _for_real():
        grid = Grid2D.plane(CELLS, CELLS, dx=1.0, boundary="periodic").bind(torch.float64, "cpu")
        for east in (1.0, 0.75, 0.5, 0.25, 0.0):
            wind = dict(zip(operator.wind, (east, 1.0 - east), strict=True))
            arguments = [wind.get(name, _pulse()) for name in operator.inputs]
            symbols.append(_symbol(operator.body(*arguments, grid=grid, **operator.options)))
    return tuple(symbols)


def curvature(call: Call, dx: float, dy: float) -> float:
    """Largest eigenvalue of a mixing operator at unit coefficient: 4(1/dx² + 1/dy²) for the five-point Laplacian."""
    with _for_real():
        grid = Grid2D.plane(CELLS, CELLS, dx=dx, dy=dy, boundary="periodic").bind(torch.float64, "cpu")
        arguments = [_pulse(), *(1.0 for _ in call.arguments[1:])]
        return float(_symbol(call.operator.body(*arguments, grid=grid, **dict(call.options))).abs().max())


def growth(
    tendency: Tendency,
    state: Tensor,
    dt: float,
    polynomial: Sequence[float] = EULER,
    closures: Mapping[str, Tensor] | None = None,
) -> float:
    """Factor by which the fastest mode grows in a step, around the air of one cell spread over a plane.

    The cell is the one where the wind crosses most cells per second, and the plane has the spacing and the
    Coriolis parameter of its row: what is unstable there is unstable. What an integrator takes out of the tendency,
    closed-form flows or transport, is left out here too.

    Parameters
    ----------
    state : ``[batch, field, y, x]``
    dt : s
    polynomial : coefficients of the scheme's stability polynomial, constant first
    closures : as for the tendency; what is missing counts as 0
    """
    inputs = tendency.inputs(state, complete(tendency, state, closures))
    place = _windiest(tendency, state, closures)
    frozen = _on_plane(tendency, inputs.statics, *place[1:])
    sample, row, column = place
    here = state[sample, :, row, column].detach().double().cpu()
    base = here[None, :, None, None].expand(1, -1, CELLS, CELLS).contiguous().requires_grad_()
    given = {
        name: value[sample, row, column].detach().double().cpu()
        for name, value in zip(tendency.closure_names, inputs.closures, strict=True)
        if name in frozen.closure_names
    }
    with torch.enable_grad():
        rates = frozen(base, given)[0, :, CELLS // 2, CELLS // 2] + 0.0 * base.sum()  # also where nothing depends on it
    # The gradient of one cell's tendency is the response to a pulse, mirrored: its transform is the symbol's conjugate,
    # which has the same modulus under a polynomial with real coefficients.
    rows = [_symbol(torch.autograd.grad(rate, base, retain_graph=True)[0][0]) for rate in rates]
    matrices = torch.stack(rows).permute(2, 3, 0, 1)  # [wave, wave, of, by]
    return amplification(dt * torch.linalg.eigvals(matrices), polynomial)


def transports(tendency: Tendency) -> set[Operator]:
    """Operators that advect something explicitly."""
    nodes = (node for right in tendency.equations.values() for node in walk(right))
    return {node.operator for node in nodes if isinstance(node, Call) and node.operator.wind is not None}


def winds(
    tendency: Tendency, state: Tensor, closures: Mapping[str, Tensor] | None = None
) -> list[tuple[Tensor, Tensor]]:
    """The different winds that advect something in a system, before any limit: ``[batch, y, x]`` each."""
    found: dict[tuple[Expr, Expr], None] = {}
    for call in tendency.system.calls():
        if call.operator.wind is not None:
            u, v = (call.argument(name) for name in call.operator.wind)
            found[u, v] = None
    program = lower(
        [part for wind in found for part in wind],
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


def _windiest(tendency: Tendency, state: Tensor, closures: Mapping[str, Tensor] | None) -> tuple[int, int, int]:
    """Sample, row and column where the advecting wind is fastest in cell units."""
    crossed = torch.zeros(state[:, 0].shape, dtype=torch.float64)
    dx = torch.tensor(tendency.grid.dx)[:, None]
    for u, v in winds(tendency, state, closures):
        crossed = torch.maximum(crossed, u.double().abs().cpu() / dx + v.double().abs().cpu() / tendency.grid.dy)
    sample, cell = divmod(int(crossed.argmax()), crossed[0].numel())
    row, column = divmod(cell, crossed.shape[-1])
    return sample, row, column


def _on_plane(tendency: Tendency, statics: Mapping[str, Tensor], row: int, column: int) -> Tendency:
    """The same system, coefficients included, on a periodic plane that is everywhere like one cell."""
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


@contextmanager
def _for_real() -> Iterator[None]:
    """Compute numbers on the CPU even while a model is laid out with fake tensors or on another default device."""
    with unset_fake_temporarily(), torch.device("cpu"), torch.no_grad():
        yield


def _pulse() -> Tensor:
    pulse = torch.zeros(CELLS, CELLS, dtype=torch.float64)
    pulse[CELLS // 2, CELLS // 2] = 1.0
    return pulse


def _symbol(response: Tensor) -> Tensor:
    """Fourier transform of a response to the pulse, about the pulse."""
    padded = torch.nn.functional.pad(response, (0, WAVES - CELLS, 0, WAVES - CELLS))
    half = CELLS // 2
    symbol: Tensor = torch.fft.fft2(padded.roll((-half, -half), (-2, -1)))
    return symbol
