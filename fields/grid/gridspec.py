"""The regular latitude-longitude grid that a network is lifted to.

The outermost cell centres lie on the region's border, so that every place in the region has cell centres around it
and a bilinear readout is exact on linear fields up to that border. Rows run from south to north. Longitudes
increase eastward without a jump: a region across the antimeridian has longitudes above 180.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fields.constants import earth_radius
from fields.errors import UsageError, is_whole
from fields.grid.geometry import (
    LARGEST_LATITUDE,
    LocalMetric,
    check_places,
    great_circle,
    middle_longitude,
    unwrap_longitude,
)

__all__ = ["GridSpec"]

Array = NDArray[np.float64]

FEWEST_COLUMNS = 8
FEWEST_ROWS = 4


@dataclass(frozen=True, slots=True)
class GridSpec:
    """Regular latitude-longitude grid.

    Parameters
    ----------
    south, north, west, east : outermost cell centres, degrees; ``east`` may exceed 180 where the region crosses the
        antimeridian
    height, width : number of rows and columns
    """

    south: float
    north: float
    west: float
    east: float
    height: int
    width: int

    def __post_init__(self) -> None:
        if not (-LARGEST_LATITUDE <= self.south < self.north <= LARGEST_LATITUDE and self.west < self.east):
            raise UsageError(
                f"a grid needs {-LARGEST_LATITUDE:.0f} <= south < north <= {LARGEST_LATITUDE:.0f} and west < east; "
                f"got {self.south}, {self.north}, {self.west}, {self.east}",
                code="SPDE-D074",
            )
        if not (is_whole(self.height, FEWEST_ROWS) and is_whole(self.width, FEWEST_COLUMNS)):
            raise UsageError(
                f"a grid needs at least {FEWEST_ROWS} rows and {FEWEST_COLUMNS} columns; "
                f"got {self.height} and {self.width}",
                code="SPDE-D075",
                do="take more rows, such as 32",
            )

    @classmethod
    def around(
        cls,
        lat: ArrayLike,
        lon: ArrayLike,
        *,
        height: int = 32,
        width: int | Literal["metres", "degrees"] = "metres",
        margin: float = 0.05,
        min_half_width_m: float = 20e3,
        least_cell_m: float = 0.0,
    ) -> GridSpec:
        """Build the grid around a network.

        Parameters
        ----------
        lat, lon : positions of the stations, degrees
        height : number of rows
        width : number of columns; ``"metres"`` makes cells as wide as high at the mean latitude (paper),
            ``"degrees"`` as wide in degrees as high
        margin : part of the network's extent that is added on every side
        min_half_width_m : least distance from the middle to a border, metres, so that one station, or a line of
            them, still spans a region
        least_cell_m : least size of a cell, metres; a small network gets fewer rows than ``height`` instead
        """
        check_places(lat, lon)
        lat = np.asarray(lat, dtype=np.float64)
        middle = middle_longitude(lon)
        lon = unwrap_longitude(lon, middle)
        south, north = _padded(lat, margin, np.degrees(min_half_width_m / earth_radius))
        south, north = max(south, -LARGEST_LATITUDE), min(north, LARGEST_LATITUDE)
        shrink = np.cos(np.radians((south + north) / 2.0))
        west, east = _padded(lon, margin, np.degrees(min_half_width_m / (earth_radius * shrink)))
        west, east = (np.mod(west + 180.0, 360.0) - 180.0 + offset for offset in (0.0, east - west))
        if least_cell_m > 0.0:
            most = int(np.radians(north - south) * earth_radius / least_cell_m) + 1
            height = min(height, max(most, FEWEST_ROWS))
        if not is_whole(height) or not (width in ("metres", "degrees") or is_whole(width)):
            raise UsageError(
                f"a grid has a whole number of rows and columns, not {height!r} and {width!r}", code="SPDE-D075",
                do='height=32, width="metres"',
            )  # fmt: skip
        rows = max(height, FEWEST_ROWS) - 1
        if width == "metres":
            columns = round((east - west) * shrink / (north - south) * rows) + 1
        elif width == "degrees":
            columns = round((east - west) / (north - south) * rows) + 1
        else:
            columns = int(width)
        return cls(float(south), float(north), float(west), float(east), height, max(columns, FEWEST_COLUMNS))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.height, self.width

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.height * self.width

    @property
    def lat(self) -> Array:
        """Latitude of the cell centres, south to north ``[y]``, degrees."""
        return np.linspace(self.south, self.north, self.height)

    @property
    def lon(self) -> Array:
        """Longitude of the cell centres, west to east ``[x]``, degrees."""
        return np.linspace(self.west, self.east, self.width)

    @property
    def dy(self) -> float:
        """Distance of neighbouring rows, metres."""
        return float(np.radians(self.north - self.south)) * earth_radius / (self.height - 1)

    @property
    def dx(self) -> Array:
        """Distance of neighbouring columns in each row ``[y]``, metres."""
        step = np.radians(self.east - self.west) / (self.width - 1)
        return earth_radius * step * np.cos(np.radians(self.lat))

    @property
    def metric(self) -> LocalMetric:
        """Metric for distances between stations and cells."""
        return LocalMetric((self.south + self.north) / 2.0, (self.west + self.east) / 2.0)

    def cells(self) -> tuple[Array, Array]:
        """Return latitude and longitude [degrees] of every cell ``[y * x]``, row by row."""
        lat, lon = np.meshgrid(self.lat, self.lon, indexing="ij")
        return lat.ravel(), lon.ravel()

    def position(self, lat: ArrayLike, lon: ArrayLike) -> tuple[Array, Array]:
        """Convert places [degrees] to rows and columns; whole numbers from 0 are cell centres from the south-west."""
        lat = np.asarray(lat, dtype=np.float64)
        lon = unwrap_longitude(lon, (self.west + self.east) / 2.0)
        row = (lat - self.south) * ((self.height - 1) / (self.north - self.south))
        column = (lon - self.west) * ((self.width - 1) / (self.east - self.west))
        return row, column

    def contains(self, lat: ArrayLike, lon: ArrayLike) -> NDArray[np.bool_]:
        """Return whether places [degrees] lie in the region, border included to within a millionth of a cell."""
        row, column = self.position(lat, lon)
        slack = 1e-6
        inside = (row >= -slack) & (row <= self.height - 1 + slack)
        return inside & (column >= -slack) & (column <= self.width - 1 + slack)

    def metres_outside(self, lat: ArrayLike, lon: ArrayLike) -> Array:
        """Return how far places [degrees] lie from the nearest place of the region, metres; 0 inside it."""
        lat = np.asarray(lat, dtype=np.float64)
        lon = unwrap_longitude(lon, (self.west + self.east) / 2.0)
        nearest = np.clip(lat, self.south, self.north), np.clip(lon, self.west, self.east)
        return great_circle(lat, lon, *nearest)

    def to_dict(self) -> dict[str, Any]:
        """Return border and size for JSON and store attributes."""
        return asdict(self)


def _padded(places: Array, margin: float, least: float) -> tuple[float, float]:
    low, high = float(places.min()), float(places.max())
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    half = max(half * (1.0 + 2.0 * margin), least)
    return middle - half, middle + half
