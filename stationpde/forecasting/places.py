"""Places of a forecast: stations of training where they stand now, further stations that report, and requested places.

A station that was moved since training is forecast where the observations say it stands (`merge_stations`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from fields import atomic
from fields.errors import DataError, counted, printable
from fields.grid import check_places
from fields.lift import bilinear_weights, read_points
from fields.variables import COORDINATES
from fields.windows import Stations
from stationpde.errors import UsageError

if TYPE_CHECKING:
    from stationpde.model import StationPDEModel

__all__ = ["merge_stations", "read_stations", "with_altitudes"]

_SAME_ALTITUDE = 100.0
"""Metres up to which a requested place and the station of its name may differ."""


def merge_stations(trained: Stations, observed: Stations, requested: Stations | None = None) -> Stations:
    """Merge the stations of training, at their present places, with further observed and further requested ones."""
    table = {name: (trained.lat[i], trained.lon[i], trained.alt[i]) for i, name in enumerate(trained.id)}
    for i, name in enumerate(observed.id):
        now = (observed.lat[i], observed.lon[i], observed.alt[i])
        # What is not observed of a trained station's place is as it was in training.
        table[name] = tuple(np.where(np.isnan(now), table.get(name, now), now).tolist())
    for i, name in enumerate(requested.id if requested is not None else ()):
        assert requested is not None
        place = (requested.lat[i], requested.lon[i], requested.alt[i])
        if name in table and not np.allclose(table[name][:2], place[:2], atol=1e-3):
            raise DataError(
                f"station '{printable(name)}' stands elsewhere in the observations", code="SPDE-T096",
                where=f"{place[0]:.4f}, {place[1]:.4f} requested, {table[name][0]:.4f}, {table[name][1]:.4f} observed",
                do="give the new station a name of its own",
            )  # fmt: skip
        if name in table and abs(table[name][2] - place[2]) > _SAME_ALTITUDE:  # one that is not known is not larger
            raise DataError(
                f"station '{printable(name)}' stands at another altitude in the observations", code="SPDE-T096",
                where=f"{place[2]:.0f} m requested, {table[name][2]:.0f} m observed",
                do="give the new station a name of its own, or leave its altitude empty",
            )  # fmt: skip
        table.setdefault(name, place)
    lat, lon, alt = (np.array(column, np.float64) for column in zip(*table.values(), strict=True))
    check_places(lat, lon)
    names, wigos = _labels(tuple(table), trained, observed)
    return Stations(tuple(table), lat, lon, alt, name=names, wigos=wigos)


def _labels(ids: tuple[str, ...], *sources: Stations) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names and WIGOS identifiers of stations, the last source that has one counting."""
    labels = [("",) * len(ids)] * 2
    for source in sources:
        for n, texts in enumerate(source.labels_of(ids)):
            labels[n] = tuple(new or old for new, old in zip(texts, labels[n], strict=True)) if texts else labels[n]
    return labels[0], labels[1]


def read_stations(source: Any) -> Stations | None:
    """Read further places to forecast.

    Parameters
    ----------
    source : a CSV or a data frame with ``lat, lon`` and, where known, ``alt`` and ``name``; `Stations`; a dataset;
        None for no further places.

    Raises
    ------
    UsageError, DataError
        If there is no such file, a column is missing, or a name is there twice.
    """
    stations = source if source is None or isinstance(source, Stations) else _read(source)
    twice = [name for name, count in Counter(stations.id if stations is not None else ()).items() if count > 1]
    if twice:
        raise DataError(
            f"the places name {counted(len(twice), 'station')} twice: {', '.join(map(printable, twice[:5]))}",
            code="SPDE-D033", do="give each place a name of its own",
        )  # fmt: skip
    return stations


def _read(source: Any) -> Stations:
    if isinstance(source, xr.Dataset):
        _require_columns(source.variables, ("station", "lat", "lon", "alt"))
        return Stations.from_dataset(source)
    if hasattr(source, "columns"):  # a data frame
        _require_columns(source.columns, ("lat", "lon"))
        names = source["name"] if "name" in source.columns else source.index
        alt = source["alt"] if "alt" in source.columns else np.full(len(source), np.nan)
        return Stations(tuple(map(str, names)), source["lat"], source["lon"], alt)
    path = atomic.as_path(source)
    if not path.is_file():
        raise UsageError(f"there is no file {path}", code="SPDE-T090", do="give a CSV with lat, lon, alt and name")
    return read_points(path)


def _require_columns(present: Any, needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in present]
    if missing:
        raise DataError(
            f"the places have no {', '.join(missing)}", code="SPDE-D090", do="give places with lat, lon, alt and name"
        )


def with_altitudes(model: StationPDEModel, stations: Stations) -> Stations:
    """Fill in the altitude of the model's terrain for stations whose altitude is not known.

    Raises
    ------
    DataError
        If an altitude is one that no place has.
    """
    low, high = COORDINATES["alt"].hard
    odd = np.flatnonzero((stations.alt < low) | (stations.alt > high))
    if odd.size:
        raise DataError(
            f"the altitude of station '{printable(stations.id[odd[0]])}' is {stations.alt[odd[0]]:g} m, allowed are "
            f"{low:g} to {high:g}", code="SPDE-D015",
            do="correct it, or leave it empty: the altitude of the terrain takes its place",
        )  # fmt: skip
    unknown = ~np.isfinite(stations.alt)
    if not unknown.any():
        return stations
    weights, _ = bilinear_weights(model.region.grid, stations.lat, stations.lon)
    ground = weights.apply(model.region.altitude.ravel())[0]
    return replace(stations, alt=np.where(unknown, ground, stations.alt))
