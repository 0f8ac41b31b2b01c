"""All access to neighbouring cells lives here.

An operator body asks for the surroundings of an array once, ``n = around(a, grid)``, and reads ``n[i, j]``: the
array as seen ``i`` cells to the east and ``j`` cells to the north. On tensors that pads once and slices; on the
symbols of the fused backend it records a stencil. The border of the grid decides what lies outside.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from .boundaries import Parity, pad
from .elementwise import where
from .errors import GridError

__all__ = ["Surroundings", "around", "ddx", "ddy", "face_lengths", "face_mean", "second_x", "second_y", "upwind"]


class Surroundings(Protocol):
    """What :func:`around` returns: shifted copies of one array."""

    def __getitem__(self, offset: tuple[int, int]) -> Any: ...


class _Slices:
    """Shifted views of a padded tensor."""

    def __init__(self, a: Tensor, radius: int, grid: Any, odd: Parity | None) -> None:
        if radius > min(grid.ny, grid.nx):
            raise GridError(f"a stencil of radius {radius} does not fit on {grid.ny} x {grid.nx} cells")
        self._padded = pad(a, radius, grid.boundary, odd)
        self._radius = radius
        self._ny, self._nx = a.shape[-2:]

    def __getitem__(self, offset: tuple[int, int]) -> Tensor:
        east, north = offset
        top, left = self._radius + north, self._radius + east
        return self._padded[..., top : top + self._ny, left : left + self._nx]


class _Uniform:
    """Surroundings of a number: itself everywhere."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __getitem__(self, offset: tuple[int, int]) -> float:
        return self._value


def around(a: Any, grid: Any, radius: int = 1, odd: Parity | None = None) -> Surroundings:
    """Return the surroundings of ``a [..., y, x]``.

    Parameters
    ----------
    radius : how many cells away will be read
    odd : ``"x"`` or ``"y"`` when ``a`` is that component of a vector, which a reflecting wall turns round. Say it
        of what is a component whatever the operator is given, such as the wind of an advection; a scalar argument
        that is called with a component is turned round in addition (:mod:`pde_ops.parity`).
    """
    if isinstance(a, int | float):
        return _Uniform(float(a))
    if isinstance(a, Tensor):
        if a.shape[-2:] != (grid.ny, grid.nx):  # a coefficient, or one value per row
            a = a.expand(*a.shape[:-2], grid.ny, grid.nx)
        return _Slices(a, radius, grid, odd)
    surroundings: Surroundings = a.around(grid, radius, odd)
    return surroundings


def ddx(a: Any, grid: Any, radius: int = 1, odd: Parity | None = None) -> Any:
    """Central difference eastwards over ``±radius`` cells: (a_E - a_W) / (2 r dx)."""
    n = around(a, grid, radius, odd)
    return (n[radius, 0] - n[-radius, 0]) / (2.0 * radius * grid.dx)


def ddy(a: Any, grid: Any, radius: int = 1, odd: Parity | None = None) -> Any:
    """Central difference northwards over ``±radius`` cells: (a_N - a_S) / (2 r dy)."""
    n = around(a, grid, radius, odd)
    return (n[0, radius] - n[0, -radius]) / (2.0 * radius * grid.dy)


def second_x(n: Surroundings, a: Any, grid: Any, radius: int = 1) -> Any:
    """Second difference eastwards over ``±radius`` cells."""
    return (n[radius, 0] - 2.0 * a + n[-radius, 0]) / (radius * grid.dx) ** 2


def second_y(n: Surroundings, a: Any, grid: Any, radius: int = 1) -> Any:
    """Second difference northwards over ``±radius`` cells."""
    return (n[0, radius] - 2.0 * a + n[0, -radius]) / (radius * grid.dy) ** 2


def face_lengths(grid: Any) -> tuple[Any, Any]:
    """Lengths [m] of the northern and the southern face of a cell.

    Meridians converge, so a flux in y passes through faces of different length. The mean of the two rows is
    R cos(φ + Δφ/2) Δλ to second order, and one number for both cells that share the face: what leaves one enters
    the other.
    """
    n = around(grid.dx, grid)
    return face_mean(grid.dx, n[0, 1]), face_mean(grid.dx, n[0, -1])


def face_mean(a: Any, neighbour: Any) -> Any:
    """Return the value on the face between a cell and its neighbour."""
    return 0.5 * (a + neighbour)


def upwind(speed: Any, from_low: Any, from_high: Any) -> Any:
    """Pick the difference on the side the wind comes from: ``from_low`` where the speed is positive."""
    return where(speed > 0.0, from_low, from_high, like=speed)
