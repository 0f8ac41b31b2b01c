r"""Smooth functions with exact derivatives: what schemes are compared with.

A :class:`Smooth` is a function on a piece of the plane or of the sphere. ``a.x`` and ``a.y`` are its derivatives
eastwards and northwards, per metre, exact (automatic differentiation), and functions again:

>>> space = Space.sphere()
>>> a = space.function(lambda east, north: (3 * east).sin() * north.cos())
>>> laplacian = a.x.x + (a.y * space.cos).y / space.cos

On the sphere the two coordinates are longitude and latitude in radians; on the plane, metres.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..constants import earth_radius

if TYPE_CHECKING:
    from torch import Tensor

    Formula = Callable[[Tensor, Tensor], Tensor]

__all__ = ["Smooth", "Space"]


@dataclass(frozen=True, slots=True)
class Space:
    """Where functions live: ``radius`` metres per unit of the northward coordinate, curved or flat."""

    radius: float
    curved: bool

    @classmethod
    def plane(cls) -> Space:
        """Flat space; coordinates in metres."""
        return cls(radius=1.0, curved=False)

    @classmethod
    def sphere(cls) -> Space:
        """Return the Earth; coordinates are longitude and latitude in radians."""
        return cls(radius=float(earth_radius), curved=True)

    @property
    def cos(self) -> Smooth:
        """Cosine of latitude: how much shorter a parallel is than the equator; 1 on the plane."""
        if self.curved:
            return self.function(lambda east, north: torch.cos(north))
        return self.function(lambda east, north: torch.ones_like(north))

    def function(self, formula: Formula) -> Smooth:
        """Make a function from a formula of (east, north) written with torch."""
        return Smooth(self, formula)


class Smooth:
    """A function with exact derivatives and the arithmetic of functions."""

    def __init__(self, space: Space, formula: Formula) -> None:
        self.space = space
        self.formula = formula

    def __call__(self, east: Tensor, north: Tensor) -> Tensor:
        """Return values at coordinates that broadcast against each other."""
        shape = np.broadcast_shapes(east.shape, north.shape)
        return self.formula(east.expand(shape), north.expand(shape)).detach()

    @property
    def x(self) -> Smooth:
        """Derivative eastwards, per metre."""
        cos, radius = self.space.cos, self.space.radius

        def slope(east: Tensor, north: Tensor) -> Tensor:
            return _slope(self.formula, east, north, along=0) / (radius * cos.formula(east, north))

        return Smooth(self.space, slope)

    @property
    def y(self) -> Smooth:
        """Derivative northwards, per metre."""

        def slope(east: Tensor, north: Tensor) -> Tensor:
            return _slope(self.formula, east, north, along=1) / self.space.radius

        return Smooth(self.space, slope)

    def __add__(self, other: Smooth | float) -> Smooth:
        right = self._other(other)
        return Smooth(self.space, lambda e, n: self.formula(e, n) + right(e, n))

    def __mul__(self, other: Smooth | float) -> Smooth:
        right = self._other(other)
        return Smooth(self.space, lambda e, n: self.formula(e, n) * right(e, n))

    def __truediv__(self, other: Smooth | float) -> Smooth:
        right = self._other(other)
        return Smooth(self.space, lambda e, n: self.formula(e, n) / right(e, n))

    def __rtruediv__(self, other: float) -> Smooth:
        return Smooth(self.space, lambda e, n: other / self.formula(e, n))

    def __neg__(self) -> Smooth:
        return Smooth(self.space, lambda e, n: -self.formula(e, n))

    def __sub__(self, other: Smooth | float) -> Smooth:
        return self + (-other)

    def __rsub__(self, other: float) -> Smooth:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __pow__(self, exponent: float) -> Smooth:
        return Smooth(self.space, lambda e, n: self.formula(e, n) ** exponent)

    def apply(self, function: Callable[[Tensor], Tensor]) -> Smooth:
        """Return the function of this function, for instance ``a.apply(torch.exp)``."""
        return Smooth(self.space, lambda e, n: function(self.formula(e, n)))

    def _other(self, other: Smooth | float) -> Formula:
        if isinstance(other, Smooth):
            return other.formula
        return lambda e, n: torch.full_like(e, other)


def _slope(formula: Formula, east: Tensor, north: Tensor, along: int) -> Tensor:
    """Derivative of a formula along one coordinate, itself differentiable."""
    with torch.enable_grad():
        coordinates = [c if c.requires_grad else c.detach().requires_grad_() for c in (east, north)]
        value = formula(*coordinates)
        if not value.requires_grad:
            return torch.zeros_like(value)
        # Formulas act point by point, so the derivative of the sum holds the derivative at every point.
        (slope,) = torch.autograd.grad(value.sum(), coordinates[along], create_graph=True, allow_unused=True)
    return torch.zeros_like(value) if slope is None else slope
