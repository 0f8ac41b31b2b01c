"""Borders of the grid, as functional ghost cells.

A border never writes into an array: it builds a wider one, so autograd, batching and compilation see ordinary
tensor operations. Four kinds exist, chosen per axis:

``zero_gradient``
    ghost cells repeat the edge cell: nothing changes across the border.
``periodic``
    ghost cells come from the opposite side.
``reflecting``
    a wall on the cell face: ghost cells mirror the interior. The component of a vector normal to the wall changes
    sign, so that its value on the wall is zero.
``nudged``
    zero-gradient ghosts, and the outer rim of cells is relaxed towards a reference state (Davies 1976).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .errors import GridError

__all__ = ["KINDS", "Axis", "Boundary", "Parity", "Rim", "pad"]

Kind = Literal["zero_gradient", "periodic", "reflecting"]
Axis = Literal["x", "y"]
Parity = Literal["", "x", "y", "xy"]
"""Axes along which a quantity changes sign in a mirror (see :mod:`pde_ops.parity`)."""
KINDS = ("zero_gradient", "periodic", "reflecting", "nudged")


@dataclass(frozen=True, slots=True)
class Rim:
    """The strip along the border that is relaxed to a reference.

    Attributes
    ----------
    width : cells
    timescale : relaxation time in the outermost cells, s; it grows inwards as the inverse square of the weight
    """

    width: int = 4
    timescale: float = 3600.0

    def __post_init__(self) -> None:
        if not isinstance(self.width, int | np.integer) or self.width < 1:
            raise GridError(f"a nudged rim needs a width of at least 1 cell, not {self.width}")
        if not (isinstance(self.timescale, Real) and math.isfinite(self.timescale) and self.timescale > 0.0):
            raise GridError(f"a nudged rim needs a finite positive time scale [s], not {self.timescale}")


@dataclass(frozen=True, slots=True)
class Boundary:
    """Kind of border along each axis, and the rim if there is one."""

    x: Kind = "zero_gradient"
    y: Kind = "zero_gradient"
    rim: Rim | None = None

    def __post_init__(self) -> None:
        for axis, kind in (("x", self.x), ("y", self.y)):
            if kind not in KINDS[:3]:
                raise GridError(f"unknown border '{kind}' along {axis}", do=_choices(str(kind)))
        if self.rim is not None and not isinstance(self.rim, Rim):
            raise GridError(f"`rim` must be a Rim or None, not {self.rim!r}", do="pass Rim(width=4, timescale=3600.0)")

    @property
    def walls(self) -> Parity:
        """Axes across which reflecting walls stand."""
        x, y = self.x == "reflecting", self.y == "reflecting"
        return "xy" if x and y else "x" if x else "y" if y else ""

    @classmethod
    def parse(cls, boundary: str | tuple[str, str] | Boundary) -> Boundary:
        """Read ``"periodic"``, ``("periodic", "reflecting")`` for (x, y), ``"nudged"``, or a Boundary."""
        if isinstance(boundary, Boundary):
            return boundary
        if boundary == "nudged":
            return cls(rim=Rim())
        if not isinstance(boundary, str | tuple | list) or (not isinstance(boundary, str) and len(boundary) != 2):
            raise GridError(f"a border is one name, two for x and y, or a Boundary, not {boundary!r}", do=_choices(""))
        x, y = (boundary, boundary) if isinstance(boundary, str) else boundary
        return cls(x, y)  # type: ignore[arg-type]  # __post_init__ rejects unknown kinds


def _choices(kind: str) -> str:
    if kind == "nudged":
        return "a rim goes all round: pass 'nudged' alone, or Boundary(x=…, y=…, rim=Rim())"
    return f"choose one of {', '.join(KINDS)}"


def pad(a: Tensor, radius: int, boundary: Boundary, odd: Parity | None = None) -> Tensor:
    """Return ``a [..., y, x]`` with ``radius`` ghost cells on every side.

    Parameters
    ----------
    odd : axis along which ``a`` is a vector component, which changes sign in a reflecting wall across that axis;
        ``"xy"`` for a product of two components
    """
    along_x = _extend(a, -1, radius, boundary.x, "x" in (odd or ""))
    return _extend(along_x, -2, radius, boundary.y, "y" in (odd or ""))


def _extend(a: Tensor, dim: int, radius: int, kind: Kind, odd: bool) -> Tensor:
    size = a.shape[dim]
    if kind == "periodic":
        low, high = a.narrow(dim, size - radius, radius), a.narrow(dim, 0, radius)
    elif kind == "reflecting":
        low, high = a.narrow(dim, 0, radius).flip(dim), a.narrow(dim, size - radius, radius).flip(dim)
        if odd:
            low, high = -low, -high
    else:
        shape = [-1] * a.ndim
        shape[dim] = radius
        low, high = a.narrow(dim, 0, 1).expand(shape), a.narrow(dim, size - 1, 1).expand(shape)
    # cat rather than F.pad: replicate padding next to a compiled convolution breaks a stride assertion in backward.
    return torch.cat([low, a, high], dim)
