"""Choose the stations of a source that a store will hold, and give those without an altitude that of the terrain."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fields.errors import DataError, UsageError, counted, locate, printable
from fields.grid import Elevation, unwrap_longitude
from fields.ingest.survey import positions_of
from fields.readers import ReadOptions, SelectedStations, Source, SourceView
from fields.units import conversion

__all__ = ["chosen_stations", "parse_bbox", "with_terrain"]

Array = np.ndarray[Any, Any]
Box = tuple[float, float, float, float]
_MOST_NAMED = 5


def parse_bbox(text: str) -> Box:
    """Read ``W,S,E,N`` in degrees; a west beyond the east is a box across the 180th meridian."""
    try:
        west, south, east, north = (float(part) for part in text.split(","))
    except ValueError:
        west = south = east = north = float("nan")
    if not (-180 <= west <= 360 and -180 <= east <= 360 and -90 <= south < north <= 90 and west != east):
        raise UsageError(f"'{printable(text)[:60]}' is no box of west, south, east and north in degrees",
                         code="SPDE-D109", do="--bbox 5,43,8,49   with south below north")  # fmt: skip
    return west, south, east, north


def chosen_stations(source: Source, options: ReadOptions) -> Source:
    """Return the source with the stations that ``bbox``, ``only`` and ``drop`` leave.

    Ids that are not there are a warning. A box takes stations on its edge, and leaves out those without a position.

    Raises
    ------
    UsageError
        If no station is left.
    """
    ids = source.network.ids
    keep = np.ones(len(ids), bool)
    if options.bbox is not None:
        keep &= _inside(source, options.bbox)
    if options.only:
        _warn_of_unknown(source, options.only, "take")
        keep &= np.isin(ids, options.only)
    if options.drop:
        _warn_of_unknown(source, options.drop, "leave out")
        keep &= ~np.isin(ids, options.drop)
    if keep.all():
        return source
    if not keep.any():
        raise UsageError("no station is left of those that were chosen", code="SPDE-D109",
                         where=locate(source.label, stations=ids), do=_what_there_is(source, options))  # fmt: skip
    return SelectedStations(source, np.flatnonzero(keep))


def _inside(source: Source, box: Box) -> Array:
    west, south, east, north = box
    places = positions_of(source)
    width = east - west if east > west else east - west + 360.0
    lon = unwrap_longitude(places.lon, west + width / 2.0)
    slack = 1e-6  # a tenth of a metre: degrees were rounded on the way
    with np.errstate(invalid="ignore"):
        in_latitude = (places.lat >= south - slack) & (places.lat <= north + slack)
        inside: Array = in_latitude & (lon >= west - slack) & (lon <= west + width + slack)
    return inside


def _what_there_is(source: Source, options: ReadOptions) -> str:
    if options.bbox is None:
        return "name stations of the source"
    places = positions_of(source)
    if not (np.isfinite(places.lat).any() and np.isfinite(places.lon).any()):
        return "leave --bbox out: no station has a position"
    corners = (np.nanmin(places.lon), np.nanmin(places.lat), np.nanmax(places.lon), np.nanmax(places.lat))
    west, south, east, north = (f"{corner:.2f}" for corner in corners)
    return f"give a box of west, south, east and north; the stations lie in {west},{south},{east},{north}"


def _warn_of_unknown(source: Source, names: Collection[str], verb: str) -> None:
    """Warn of ids that the source does not have, with the nearest one that it has."""
    there = [str(name) for name in source.network.ids]
    unknown = sorted(set(names) - set(there))
    if not unknown:
        return
    near = difflib.get_close_matches(unknown[0], there, n=1)
    listed = ", ".join(map(printable, unknown[:_MOST_NAMED]))
    source.report.warning(
        "SPDE-D109", f"there is no station {listed} to {verb}", where=locate(source.label, stations=there),
        do=f"did you mean {printable(near[0])}?" if near else "name stations of the source",
    )  # fmt: skip


class _WithAltitudes(SourceView):
    """View of a source with other altitudes, in its unit."""

    def __init__(self, inner: Source, alt: Array) -> None:
        super().__init__(inner)
        self.network = replace(inner.network, alt=alt)

    def read(self, start: int, stop: int) -> dict[str, Array]:
        """Read the same values."""
        return self._inner.read(start, stop)


def with_terrain(source: Source, dem: str | None) -> Source:
    """Give stations without an altitude that of an elevation model at their position; others keep theirs.

    Raises
    ------
    DataError
        If one of these stations lies beyond the model.
    """
    if dem is None:
        return source
    places = positions_of(source)
    lost = ~np.isfinite(places.alt) & np.isfinite(places.lat) & np.isfinite(places.lon)
    if not lost.any():
        source.report.notice("SPDE-D008", "every station has an altitude: the elevation model is not needed",
                             where=locate(source.label, "alt"))  # fmt: skip
        return source
    model = Elevation.open(Path(dem))
    beyond = lost.copy()
    beyond[lost] = ~model.covers(places.lat[lost], places.lon[lost])
    ids = source.network.ids
    if beyond.any():
        raise DataError(
            f"{model.name} does not reach {counted(int(beyond.sum()), 'station')} without an altitude",
            code="SPDE-D082", where=locate(source.label, "alt", stations=ids[beyond], out_of=len(ids)),
            do="give an elevation model of this region",
        )  # fmt: skip
    alt = np.array(source.network.alt, np.float64)
    metres = model.at(places.lat[lost], places.lon[lost])
    alt[lost] = conversion("alt", source.units["alt"]).from_si(metres)
    source.report.notice(
        "SPDE-D008", f"{counted(int(lost.sum()), 'station')} without an altitude: that of {model.name} is taken",
        where=locate(source.label, "alt", stations=ids[lost], out_of=len(ids)),
    )  # fmt: skip
    return _WithAltitudes(source, alt)
