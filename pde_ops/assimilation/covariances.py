r"""Covariances of background errors, as operators on the grid.

A covariance is never built as a matrix: it is given by a root :math:`U` with :math:`B = U U^\top`, applied to a field.
A vector :math:`\chi` of independent standard normal numbers becomes a background error :math:`U \chi`, so that nothing
needs the inverse of :math:`B`, which smooth correlations do not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import DeclarationError, ShapeError
from ..units import Unit, registry
from .quantities import Amount, amount_in_si

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

    from ..grid import Grid2D

__all__ = ["Covariance", "Diagonal", "Gaussian", "Root", "correlation_root"]


class Root(Protocol):
    """A square root of a covariance on a grid."""

    error: Float[Tensor, "y x"]

    def apply(self, chi: Float[Tensor, "piece y x"]) -> Float[Tensor, "piece y x"]:
        """Return background errors, in SI."""


class Covariance(Protocol):
    """What a user says of the background errors of one field."""

    def root(self, owner: str, unit: Unit, grid: Grid2D, like: Tensor) -> Root:
        """Return its square root for a field of that unit."""


@dataclass(frozen=True, slots=True)
class Diagonal:
    """Errors of neighbouring cells have nothing to do with each other.

    Attributes
    ----------
    error : standard deviation, one number or ``[y, x]``; where it is 0 the background is held
    """

    error: Amount

    def root(self, owner: str, unit: Unit, grid: Grid2D, like: Tensor) -> Root:
        """Return the standard deviations as a factor."""
        return _Scaled(_errors(owner, self.error, unit, grid, like))


@dataclass(frozen=True, slots=True)
class Gaussian:
    r"""Errors are alike within a length.

    .. math:: B_{ij} = \sigma_i \sigma_j \exp\left(-\frac{r_{ij}^2}{2 L^2}\right)

    Attributes
    ----------
    error : standard deviation :math:`\sigma`, one number or ``[y, x]``; where it is 0 the background is held
    length : :math:`L`; at that distance the correlation is 0.61, at twice of it 0.14

    Notes
    -----
    The correlation is a product of one along each axis, whose roots are small matrices: an application costs
    :math:`n_y n_x (n_y + n_x)` products. Along a periodic axis all images of a cell count. Where rows have different
    widths (latitude and longitude) the correlation is that of the widths in between; the variance is right everywhere.
    """

    error: Amount
    length: Amount

    def root(self, owner: str, unit: Unit, grid: Grid2D, like: Tensor) -> Root:
        """Return the roots along both axes, and the standard deviations."""
        length, _ = amount_in_si(f"{owner}: `length`", self.length, registry.meter)
        if length.ndim or not (np.isfinite(length) and length > 0.0):
            raise DeclarationError(f"{owner}: `length` must be one finite distance above 0, not {self.length!r:.80}")
        errors = _errors(owner, self.error, unit, grid, like)
        along_y = correlation_root(grid.ny, grid.dy / float(length), grid.boundary.y == "periodic")
        groups, rows = _rows_of_one_width(grid.dx), []
        along_x = []
        for group in groups:
            spacing = float(np.mean(grid.dx[group])) / float(length)
            root = correlation_root(grid.nx, spacing, grid.boundary.x == "periodic")
            along_x.append(torch.as_tensor(root).to(like))
            rows.append((int(group[0]), int(group[-1]) + 1))
        return _Smooth(errors, torch.as_tensor(along_y).to(like), along_x, rows)


class _Scaled:
    """Multiplication by standard deviations."""

    def __init__(self, error: Tensor) -> None:
        self.error = error

    def apply(self, chi: Tensor) -> Tensor:
        return self.error * chi


class _Smooth:
    """Roots of the correlation along rows, then along columns, then standard deviations."""

    def __init__(self, error: Tensor, along_y: Tensor, along_x: list[Tensor], rows: list[tuple[int, int]]) -> None:
        self.error, self.along_y, self.along_x, self.rows = error, along_y, along_x, rows

    def apply(self, chi: Tensor) -> Tensor:
        bands = [chi[..., low:high, :] @ root for root, (low, high) in zip(self.along_x, self.rows, strict=True)]
        return self.error * (self.along_y @ torch.cat(bands, dim=-2))


def correlation_root(cells: int, spacing: float, is_periodic: bool = False) -> NDArray[np.float64]:
    r"""Return the symmetric root of a Gaussian correlation along a line.

    Parameters
    ----------
    spacing : distance of two cells over the correlation length

    Notes
    -----
    The correlation has eigenvalues down to nothing, which round-off may turn negative: those are 0 here. Images of a
    periodic line are added up, which keeps every eigenvalue positive (the wrapped distance alone would not).
    """
    offsets = spacing * np.arange(cells)
    if is_periodic:
        turn = spacing * cells
        reach = min(int(np.ceil(9.0 / turn)) + 1, 5000)  # exp(-9²/2) < 1e-17; beyond thousands all cells are alike
        images = np.arange(-reach, reach + 1)
        sums = np.exp(-0.5 * (offsets[:, None] + turn * images) ** 2).sum(1)
        line = sums / sums[0]
    else:
        line = np.exp(-0.5 * offsets**2)
    number = np.arange(cells)
    values, vectors = np.linalg.eigh(line[np.abs(number[:, None] - number)])
    root: NDArray[np.float64] = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    return root


def _rows_of_one_width(dx: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Group neighbouring rows whose widths differ by less than a hundredth: they share one root."""
    groups, first = [], 0
    for row in range(1, dx.size + 1):
        if row == dx.size or abs(dx[row] / dx[first] - 1.0) > 0.01:
            groups.append(np.arange(first, row))
            first = row
    return groups


def _errors(owner: str, error: Amount, unit: Unit, grid: Grid2D, like: Tensor) -> Tensor:
    values, _ = amount_in_si(f"{owner}: `error`", error, unit, difference=True)
    try:
        full = np.broadcast_to(values, (grid.ny, grid.nx))
    except ValueError:
        raise ShapeError(
            f"{owner}: `error` must be one number or [{grid.ny}, {grid.nx}], not {list(values.shape)}"
        ) from None
    if not np.isfinite(full).all() or (full < 0.0).any() or not (full > 0.0).any():
        raise DeclarationError(
            f"{owner}: `error` must be finite, not below 0, and above 0 somewhere: this covariance is singular "
            "everywhere or none",
            do="give a standard deviation such as '2 K', or leave this control out",
        )
    return torch.as_tensor(full.copy()).to(like)
