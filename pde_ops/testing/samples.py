"""Inputs to try an operator on: random values within its domain, on small grids with every border."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..boundaries import Boundary, Rim
from ..grid import Grid2D
from ..operator import Operator

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BORDERS", "constant_inputs", "difference", "inputs", "latlon", "other_inputs", "plane", "typical"]

_Choice = tuple[int, tuple[float, float]]
_chosen: ContextVar[_Choice] = ContextVar("chosen", default=(0, (0.02, 0.98)))
"""What is added to every seed, and the part of the domain that values are drawn from."""

BORDERS: dict[str, Boundary] = {
    "periodic": Boundary("periodic", "periodic"),
    "zero_gradient": Boundary("zero_gradient", "zero_gradient"),
    "reflecting": Boundary("reflecting", "reflecting"),
    "nudged": Boundary(rim=Rim(width=2, timescale=3600.0)),
    "periodic-reflecting": Boundary("periodic", "reflecting"),
    "reflecting-zero_gradient": Boundary("reflecting", "zero_gradient"),
    "zero_gradient-periodic": Boundary("zero_gradient", "periodic"),
}
"""Every kind of border, and mixtures in which each kind meets each other one, along x and then y."""


def plane(boundary: str = "periodic", ny: int = 7, nx: int = 8) -> Grid2D:
    """Small flat grid with unequal spacings and rotation."""
    return Grid2D.plane(ny, nx, dx=20e3, dy=15e3, f=1e-4, boundary=BORDERS[boundary])


def latlon(boundary: str = "periodic", ny: int = 7, nx: int = 8, *, south: float = 40.0) -> Grid2D:
    """Small latitude-longitude grid on which dx varies strongly: 3 degrees a row."""
    lat, lon = south + 3.0 * np.arange(ny), 2.0 * np.arange(nx)
    return Grid2D.from_latlon(lat, lon, boundary=BORDERS[boundary])


@contextmanager
def other_inputs(seed: int, part: tuple[float, float] = (0.02, 0.98)) -> Iterator[None]:
    """Have every check inside draw other numbers, from a part of each domain given as shares of its width."""
    token = _chosen.set((seed, part))
    try:
        yield
    finally:
        _chosen.reset(token)


def inputs(
    record: Operator, grid: Grid2D, *, lead: tuple[int, ...] = (), dtype: torch.dtype = torch.float64, seed: int = 0
) -> list[Tensor]:
    """Random arrays ``[*lead, y, x]``, one per input, uniform within the domain and normal where there is none."""
    shift, (start, stop) = _chosen.get()
    generator = torch.Generator().manual_seed(seed + 1000 * shift)
    arrays = []
    for name in record.inputs:
        shape = (*lead, grid.ny, grid.nx)
        if name in record.domain:
            low, high = record.domain[name]
            share = torch.rand(shape, generator=generator, dtype=torch.float64)
            value = low + (high - low) * (start + (stop - start) * share)
        else:
            value = torch.randn(shape, generator=generator, dtype=torch.float64)
        arrays.append(value.to(dtype))
    return arrays


def constant_inputs(record: Operator, grid: Grid2D) -> dict[str, list[Tensor]]:
    """Return uniform inputs where kinks are met: all at the low end, the middle, the high end, and nearest to zero."""
    picks: dict[str, Callable[[float, float], float]] = {
        "lowest": lambda low, high: low,
        "middle": lambda low, high: 0.5 * (low + high),
        "highest": lambda low, high: high,
        "zero": lambda low, high: min(max(0.0, low), high),
    }
    shape = (grid.ny, grid.nx)
    return {
        label: [torch.full(shape, pick(*record.domain.get(n, (-1.0, 1.0))), dtype=torch.float64) for n in record.inputs]
        for label, pick in picks.items()
    }


def typical(record: Operator, grid: Grid2D) -> float:
    """Return the largest magnitude of the result on random inputs: what "zero to round-off" is measured against."""
    return float(torch.as_tensor(record(*inputs(record, grid, seed=99), grid=grid)).abs().max())


def difference(left: Tensor, right: Tensor, scale: float | None = None) -> float:
    """Return the largest distance of two arrays relative to ``scale``, by default the larger magnitude of the two."""
    if scale is None:
        scale = max(float(left.abs().max()), float(right.abs().max()))
    distance = float((left - right).abs().max())
    return 0.0 if distance == 0.0 else distance / scale if scale > 0.0 else float("inf")
