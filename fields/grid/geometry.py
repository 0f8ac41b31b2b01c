r"""Metric of a region: positions in metres from latitude and longitude, and checks of both.

A network spans a region, not the globe, and the paper measures distance in it with one cosine:

.. math:: x = R \cos(\varphi_m)\,(\lambda - \lambda_m), \qquad y = R\,(\varphi - \varphi_m)

with the Earth's radius :math:`R` [m], the region's middle latitude :math:`\varphi_m` (half-way between its southernmost
and its northernmost place) and middle longitude :math:`\lambda_m`, so that a region across the antimeridian needs no
special case. Derivatives on the grid do not use this metric: they use the true spacing of each row (`GridSpec.dx`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fields.constants import earth_radius
from fields.errors import DataError

__all__ = [
    "LARGEST_LATITUDE", "LocalMetric", "check_places", "great_circle", "middle_longitude", "unwrap_longitude",
]  # fmt: skip

# Beyond it the rows of a latitude-longitude grid shrink faster than its cells resolve.
LARGEST_LATITUDE = 85.0
# Half a turn: beyond it "east of" has no meaning in a region.
LARGEST_SPAN = 180.0

Array = NDArray[np.float64]


def middle_longitude(lon: ArrayLike) -> float:
    """Return the middle of the shortest arc that holds all longitudes [degrees], in -180 to 180."""
    around = np.sort(np.unique(np.mod(np.asarray(lon, dtype=np.float64), 360.0)))
    gaps = np.diff(around, append=around[0] + 360.0)
    start = (int(np.argmax(gaps)) + 1) % around.size
    span = 360.0 - float(gaps.max())
    return float(np.mod(around[start] + span / 2.0 + 180.0, 360.0) - 180.0)


def unwrap_longitude(lon: ArrayLike, middle: float) -> Array:
    """Return the same longitudes [degrees], written within half a turn of ``middle``."""
    degrees = np.asarray(lon, dtype=np.float64)
    return middle + np.mod(degrees - middle + 180.0, 360.0) - 180.0


def great_circle(lat: ArrayLike, lon: ArrayLike, other_lat: ArrayLike, other_lon: ArrayLike) -> Array:
    """Return the distance of places [degrees] along the globe, metres; for far places, which no region holds."""
    phi, other_phi = np.radians(lat), np.radians(other_lat)
    half_turn = np.radians(np.asarray(other_lon, np.float64) - np.asarray(lon, np.float64)) / 2.0
    chord = np.sin((other_phi - phi) / 2.0) ** 2 + np.cos(phi) * np.cos(other_phi) * np.sin(half_turn) ** 2
    return np.asarray(2.0 * earth_radius * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0))), np.float64)


def check_places(lat: ArrayLike, lon: ArrayLike, what: str = "stations") -> None:
    """Check that a regional grid can hold the places.

    Parameters
    ----------
    lat, lon : degrees
    what : the word for the places in messages

    Raises
    ------
    DataError
        If there is no place, if one is not a finite number or beyond 360 degrees of longitude, if one lies beyond 85
        degrees of latitude, or if they span more than half the globe.
    """
    lat, lon = np.asarray(lat, dtype=np.float64), np.asarray(lon, dtype=np.float64)
    if lat.size == 0:
        raise DataError(f"there are no {what} to lift from", code="SPDE-D070", do="choose a store with stations")
    if not (np.isfinite(lat).all() and np.isfinite(lon).all()):
        lost = int((~(np.isfinite(lat) & np.isfinite(lon))).sum())
        raise DataError(f"{lost} of {lat.size} {what} have no position", code="SPDE-D071", do="drop or place them")
    if (np.abs(lon) > 360.0).any():
        raise DataError(f"{what} reach {float(lon[np.abs(lon).argmax()]):g} degrees of longitude", code="SPDE-D071",
                        do="correct their longitudes: -180 to 180, or 0 to 360")  # fmt: skip
    farthest = float(np.abs(lat).max())
    if farthest > LARGEST_LATITUDE:
        raise DataError(
            f"{what} reach {farthest:.2f} degrees of latitude; a latitude-longitude grid ends at "
            f"{LARGEST_LATITUDE:.0f}",
            code="SPDE-D072",
            do="use a projection: give projected coordinates, or leave the polar stations out",
        )
    span = float(np.ptp(unwrap_longitude(lon, middle_longitude(lon))))
    if span > LARGEST_SPAN:
        raise DataError(
            f"{what} span {span:.0f} degrees of longitude; one region holds at most {LARGEST_SPAN:.0f}",
            code="SPDE-D073",
            do="split the network into regions",
        )


@dataclass(frozen=True, slots=True)
class LocalMetric:
    """Metric of one region (paper), defined by its middle latitude and longitude [degrees]."""

    lat: float
    lon: float

    @classmethod
    def around(cls, lat: ArrayLike, lon: ArrayLike) -> LocalMetric:
        """Return the metric of the region that holds these places [degrees]."""
        check_places(lat, lon)
        lat = np.asarray(lat, dtype=np.float64)
        return cls(float(lat.min() + lat.max()) / 2.0, middle_longitude(lon))

    def xy(self, lat: ArrayLike, lon: ArrayLike) -> Array:
        """Convert latitude and longitude [degrees] to metres east and north of the region's middle, ``[..., 2]``."""
        lat = np.asarray(lat, dtype=np.float64)
        east = np.radians(unwrap_longitude(lon, self.lon) - self.lon) * np.cos(np.radians(self.lat))
        north = np.radians(lat - self.lat)
        return earth_radius * np.stack(np.broadcast_arrays(east, north), axis=-1)
