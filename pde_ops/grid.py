"""The grid: a regular latitude-longitude (or plane) mesh with metric distances, fixed once.

Rows run south to north, columns west to east. ``dx`` belongs to a row, because a degree of longitude shrinks
towards the pole; ``dy`` is one number.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from .boundaries import Boundary
from .constants import Omega, earth_radius
from .errors import GridError
from .transforms import is_transforming

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

__all__ = ["BoundGrid", "Grid2D"]

MAX_LATITUDE = 85.0  # degrees; beyond it cos φ makes dx collapse and a projected grid is the right tool
ROW_STATICS = ("dx", "lat", "f", "curvature")


@dataclass(frozen=True, slots=True, eq=False)
class BoundGrid:
    """A grid as operator bodies see it: tensors of one dtype on one device.

    Attributes
    ----------
    dx : m, ``[y, 1]``; dy : m
    lat : rad, ``[y, 1]``; f : Coriolis parameter, 1/s, ``[y, 1]``; curvature : tan φ / R, 1/m, ``[y, 1]``
    rim_rate : relaxation rate of a nudged rim, 1/s, ``[y, x]``; zeros without one
    """

    ny: int
    nx: int
    dy: float
    boundary: Boundary
    dx: Tensor
    lat: Tensor
    f: Tensor
    curvature: Tensor
    rim_rate: Tensor


@dataclass(frozen=True, eq=False)
class Grid2D:
    """Geometry of a regular grid, in SI and float64; :meth:`bind` gives its tensors.

    Build one with :meth:`from_latlon` or :meth:`plane`.
    """

    ny: int
    nx: int
    dy: float
    dx: NDArray[np.float64]
    lat: NDArray[np.float64]
    f: NDArray[np.float64]
    curvature: NDArray[np.float64]
    boundary: Boundary = field(default_factory=Boundary)
    _bound: dict[tuple[torch.dtype, torch.device], BoundGrid] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.ny < 2 or self.nx < 2:
            raise GridError(f"a grid needs at least 2 x 2 cells, not {self.ny} x {self.nx}")
        for name in ROW_STATICS:
            row = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            if row.shape != (self.ny,):
                raise GridError(f"grid `{name}` must be {self.ny} numbers, one a row, not of shape {list(row.shape)}")
            if not np.isfinite(row).all():
                raise GridError(f"grid `{name}` must be finite, not {row[~np.isfinite(row)][0]:g}")
            row.setflags(write=False)
            object.__setattr__(self, name, row)
        if not (np.isfinite(self.dy) and self.dy > 0 and (self.dx > 0).all()):
            raise GridError("grid spacings `dx` and `dy` must be positive metres")

    @classmethod
    def from_latlon(
        cls, lat: ArrayLike, lon: ArrayLike, boundary: str | tuple[str, str] | Boundary = "zero_gradient"
    ) -> Grid2D:
        """Build the grid of cell centres at 1-D latitudes (south to north) and longitudes (west to east), degrees."""
        rows, columns = _degrees(lat, "lat"), _degrees(lon, "lon")
        step_lat = _even_step(rows, "lat")
        step_lon = _even_step(np.unwrap(columns, period=360.0), "lon")
        if step_lat < 0:
            raise GridError("latitudes must run south to north", do="flip the rows: lat[::-1], data[..., ::-1, :]")
        if step_lon < 0:
            raise GridError("longitudes must run west to east", do="flip the columns")
        if np.abs(rows).max() > MAX_LATITUDE:
            raise GridError(
                f"latitude {np.abs(rows).max():.1f} is beyond {MAX_LATITUDE}", do="use a projected grid: Grid2D.plane"
            )
        border, circle = Boundary.parse(boundary), (columns.size - 1) * step_lon
        if circle > 360.0 + 1e-6 * step_lon or (border.x == "periodic" and circle > 360.0 - 1e-3 * step_lon):
            raise GridError(
                f"{columns.size} longitudes {step_lon:g} degrees apart go round the Earth and meet the first again",
                do="leave out the columns that repeat others",
            )
        phi = np.deg2rad(rows)
        return cls(
            ny=rows.size,
            nx=columns.size,
            dy=float(earth_radius * np.deg2rad(step_lat)),
            dx=earth_radius * np.cos(phi) * np.deg2rad(step_lon),
            lat=phi,
            f=2.0 * Omega * np.sin(phi),
            curvature=np.tan(phi) / earth_radius,
            boundary=border,
        )

    @classmethod
    def plane(
        cls,
        ny: int,
        nx: int,
        *,
        dx: float,
        dy: float | None = None,
        f: float | Sequence[float] = 0.0,
        boundary: str | tuple[str, str] | Boundary = "zero_gradient",
    ) -> Grid2D:
        """Flat grid with constant spacing [m] and a Coriolis parameter [1/s], constant or one per row."""
        for name, count in (("ny", ny), ("nx", nx)):
            if isinstance(count, bool) or not hasattr(count, "__index__"):
                raise GridError(f"`{name}` must be a whole number of cells, not {count!r}")
        ny, nx = operator.index(ny), operator.index(nx)
        if min(ny, nx) < 2:
            raise GridError(f"a grid needs at least 2 x 2 cells, not {ny} x {nx}")
        try:
            dx, dy = float(dx), float(dx if dy is None else dy)
            rotation = np.broadcast_to(np.asarray(f, dtype=np.float64), (ny,)).copy()
        except (TypeError, ValueError):
            raise GridError(
                f"`dx` and `dy` must be metres and `f` one number or {ny} of 1/s, not {dx!r}, {dy!r} and {f!r}"
            ) from None
        return cls(
            ny=ny,
            nx=nx,
            dy=dy,
            dx=np.full(ny, dx),
            lat=np.zeros(ny),
            f=rotation,
            curvature=np.zeros(ny),
            boundary=Boundary.parse(boundary),
        )

    def with_boundary(self, boundary: str | tuple[str, str] | Boundary) -> Grid2D:
        """Return the same geometry with another border."""
        return replace(self, boundary=Boundary.parse(boundary), _bound={})

    @property
    def cell_area(self) -> NDArray[np.float64]:
        """Area of a cell in each row, m², ``[y]``."""
        return self.dx * self.dy

    def rim_rate(self) -> NDArray[np.float64]:
        """Relaxation rate of the nudged rim, 1/s, ``[y, x]``: (1 - d/width)² / timescale, d cells from the border."""
        rim = self.boundary.rim
        if rim is None:
            return np.zeros((self.ny, self.nx))
        rows, columns = np.arange(self.ny), np.arange(self.nx)
        from_y = np.minimum(rows, rows[::-1])[:, None]
        from_x = np.minimum(columns, columns[::-1])[None, :]
        weight = np.clip(1.0 - np.minimum(from_y, from_x) / rim.width, 0.0, 1.0)
        return weight**2 / rim.timescale

    def bind(self, dtype: torch.dtype, device: torch.device | str) -> BoundGrid:
        """Return the grid's tensors for one dtype and device (made once)."""
        key = (dtype, torch.device(device))
        if key not in self._bound:
            tensors = self._tensors(dtype, key[1])
            if torch._guards.detect_fake_mode(tensors.dx) is not None or is_transforming():
                return tensors  # a fake tensor must not outlive its mode, nor a wrapped one its transform
            self._bound[key] = tensors
        return self._bound[key]

    def _tensors(self, dtype: torch.dtype, device: torch.device) -> BoundGrid:
        rows = {name: torch.tensor(getattr(self, name), dtype=dtype, device=device)[:, None] for name in ROW_STATICS}
        rim = torch.tensor(self.rim_rate(), dtype=dtype, device=device)
        return BoundGrid(ny=self.ny, nx=self.nx, dy=self.dy, boundary=self.boundary, rim_rate=rim, **rows)


def _degrees(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise GridError(f"`{name}` must be a 1-D array of degrees, not {values!r:.80}") from None


def _even_step(values: NDArray[np.float64], name: str) -> float:
    if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
        raise GridError(f"`{name}` must be a 1-D array of at least 2 finite degrees, got shape {values.shape}")
    steps = np.diff(values)
    # Coordinates are often stored as float32: 1e-3 of a step is far above their round-off and far below a slip.
    if np.abs(steps - steps.mean()).max() > 1e-3 * abs(steps.mean()) or steps.mean() == 0.0:
        raise GridError(
            f"`{name}` must be evenly spaced; steps vary from {steps.min():.6g} to {steps.max():.6g} degrees"
        )
    return float(steps.mean())
