"""The one type of places: named positions on the Earth in degrees and metres, for stations, points and cells alike.

`Places` is what rooms hand to each other. `fields.windows.Stations` is the same class under the name that models use
for a network. Positions in another form have types of their own: `fields.readers.Network` (units of the source) and
`fields.lift.profiles.LocalPositions` (metres east and north of a region's middle).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fields.errors import UsageError

if TYPE_CHECKING:
    import xarray as xr

    from fields.grid import LocalMetric

__all__ = ["Places", "PlacesLike", "coordinates_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Named places, each array float64 ``[place]``.

    The constructor converts the arrays and checks that there is one value for each name. It does not check ranges,
    because ingest reports impossible positions by station (`fields.checks`) and a grid has limits of its own
    (`fields.grid.check_places`).

    Parameters
    ----------
    id : names of the places, in the order of the arrays
    lat, lon : degrees north and east
    alt : metres above the sea; NaN where it is unknown
    name, wigos : names in words and WIGOS station identifiers, empty texts where unknown; an empty tuple for none
    """

    id: tuple[str, ...]
    lat: Array
    lon: Array
    alt: Array
    name: tuple[str, ...] = field(default=(), kw_only=True)
    wigos: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", tuple(str(name) for name in self.id))
        for label in ("name", "wigos"):
            texts = tuple(str(text) for text in getattr(self, label))
            object.__setattr__(self, label, texts if any(texts) else ())
            if texts and len(texts) != len(self.id):
                raise UsageError(
                    f"{len(self.id)} stations need one {label} each, there are {len(texts)}", code="SPDE-D150"
                )
        for name in ("lat", "lon", "alt"):
            try:
                values = np.ascontiguousarray(getattr(self, name), np.float64)
            except (TypeError, ValueError):
                raise UsageError(
                    f"`{name}` of places is a number for each, not {str(getattr(self, name))[:60]}", code="SPDE-D150",
                    do="degrees and metres as numbers; NaN where unknown",
                ) from None  # fmt: skip
            object.__setattr__(self, name, values)
            if values.shape != (len(self.id),):
                raise UsageError(
                    f"{len(self.id)} stations need one {name} each, there are {values.shape}", code="SPDE-D150"
                )

    def __len__(self) -> int:
        return len(self.id)

    @property
    def coordinates(self) -> tuple[Array, Array, Array]:
        """Latitude, longitude [degrees] and altitude [m]."""
        return self.lat, self.lon, self.alt

    def take(self, index: NDArray[Any] | Sequence[int] | slice) -> Places:
        """Return the places chosen by number, mask or slice, in that order."""
        chosen = np.arange(len(self))[index if isinstance(index, slice) else np.asarray(index)]
        name, wigos = (tuple(texts[i] for i in chosen) if texts else () for texts in (self.name, self.wigos))
        return Places(
            tuple(self.id[i] for i in chosen), self.lat[chosen], self.lon[chosen], self.alt[chosen],
            name=name, wigos=wigos,
        )  # fmt: skip

    def labels_of(self, ids: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return names and WIGOS identifiers of other places by their ids; empty texts for those that are not here."""
        rows = {name: i for i, name in enumerate(self.id)}
        name, wigos = (
            tuple(texts[rows[one]] if one in rows else "" for one in ids) if texts else ()
            for texts in (self.name, self.wigos)
        )  # fmt: skip
        return name, wigos

    def xy(self, metric: LocalMetric) -> Array:
        """Return metres east and north of the middle of a region, ``[place, 2]``."""
        return metric.xy(self.lat, self.lon)

    @classmethod
    def from_dataset(cls, ds: xr.Dataset) -> Places:
        """Read the stations of a dataset with coordinates ``station``, ``lat``, ``lon`` and ``alt``."""
        columns = (np.asarray(ds[name].values, np.float64) for name in ("lat", "lon", "alt"))
        name, wigos = (
            tuple(map(str, ds[label].values)) if label in ds.coords and ds[label].dims == ("station",) else ()
            for label in ("name", "wigos")
        )
        return cls(tuple(map(str, ds["station"].values)), *columns, name=name, wigos=wigos)


# Where names do not matter, latitude, longitude [degrees] and altitude [m] may be passed as a tuple; an altitude may be
# one number for all.
PlacesLike = Places | tuple[ArrayLike, ArrayLike, ArrayLike]


def coordinates_of(places: PlacesLike) -> tuple[Array, Array, Array]:
    """Return latitude, longitude [degrees] and altitude [m], each float64 ``[place]``."""
    lat, lon, alt = places.coordinates if isinstance(places, Places) else places
    lat, lon = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in (lat, lon))
    return lat, lon, np.broadcast_to(np.asarray(alt, dtype=np.float64), lat.shape)
