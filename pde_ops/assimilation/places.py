"""Places of observations, in cells of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GridError, ObservationError, ShapeError
from ..units import registry
from .quantities import Amount, amount_in_si

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ..grid import Grid2D

__all__ = ["Places"]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Places given by row and column; whole numbers are centres of cells, counted from 0.

    Build them with :meth:`from_metres` on a plane, with :meth:`from_degrees` on a globe.
    """

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            try:
                values = np.atleast_1d(np.asarray(getattr(self, name), dtype=np.float64))
            except (TypeError, ValueError):
                raise ShapeError(f"places: `{name}` must be numbers, not {getattr(self, name)!r:.80}") from None
            object.__setattr__(self, name, values)
        if self.rows.ndim != 1 or self.rows.shape != self.columns.shape:
            raise ShapeError(
                f"places need as many rows as columns, each in one dimension, not {list(self.rows.shape)} and "
                f"{list(self.columns.shape)}"
            )
        broken = ~(np.isfinite(self.rows) & np.isfinite(self.columns))
        if broken.any():
            raise ObservationError(
                f"{int(broken.sum())} of {len(self)} places are not finite, the first is number {np.argmax(broken)}"
            )

    @classmethod
    def from_metres(cls, grid: Grid2D, y: Amount, x: Amount) -> Places:
        """Return places given by distances from the south-western corner of a plane grid.

        The centre of the first cell lies half a cell from that corner.
        """
        if np.ptp(grid.dx) > 1e-9 * grid.dx[0]:  # round-off
            raise GridError(
                "the columns of this grid are not equally wide: distances from its corner name no place",
                do="take Places.from_degrees",
            )
        north, east = (amount_in_si(f"places: `{n}`", a, registry.meter)[0] for n, a in (("y", y), ("x", x)))
        return cls(north / grid.dy - 0.5, east / float(grid.dx[0]) - 0.5)

    @classmethod
    def from_degrees(cls, lat_axis: ArrayLike, lon_axis: ArrayLike, lat: ArrayLike, lon: ArrayLike) -> Places:
        """Return places given by latitude and longitude, degrees.

        Parameters
        ----------
        lat_axis, lon_axis : centres of the rows and columns, as given to `Grid2D.from_latlon`
        """
        rows, columns = np.asarray(lat_axis, np.float64), np.unwrap(np.asarray(lon_axis, np.float64), period=360.0)
        if rows.ndim != 1 or columns.ndim != 1 or min(rows.size, columns.size) < 2:
            raise ShapeError("places: `lat_axis` and `lon_axis` must have one dimension and two values or more")
        step_lat, step_lon = (axis[-1] - axis[0] for axis in (rows, columns))
        middle = 0.5 * (columns[0] + columns[-1])
        east = np.remainder(np.asarray(lon, np.float64) - middle + 180.0, 360.0) - 180.0 + middle  # nearest turn
        return cls(
            (np.asarray(lat, np.float64) - rows[0]) * (rows.size - 1) / step_lat,
            (east - columns[0]) * (columns.size - 1) / step_lon,
        )

    def __len__(self) -> int:
        return int(self.rows.size)

    def check_inside(self, owner: str, grid: Grid2D) -> None:
        """Refuse places beyond the outermost cells; along a periodic axis there is no beyond.

        Raises
        ------
        ObservationError
            With the first of them.
        """
        outside = np.zeros(len(self), dtype=bool)
        for position, size, kind in ((self.rows, grid.ny, grid.boundary.y), (self.columns, grid.nx, grid.boundary.x)):
            if kind != "periodic":
                outside |= (position < -0.5 - 1e-9) | (position > size - 0.5 + 1e-9)
        if outside.any():
            first = int(np.argmax(outside))
            raise ObservationError(
                f"{owner}: {int(outside.sum())} of {len(self)} places lie outside the grid of {grid.ny} x {grid.nx} "
                f"cells, the first is number {first} at row {self.rows[first]:.2f}, column {self.columns[first]:.2f}",
                do="leave them out, or take a larger grid",
            )

    def tensor(self) -> Any:
        """Return rows and columns as one array ``[2, place]``."""
        return np.stack([self.rows, self.columns])
