"""Read arrays in an npz archive: ``obs[time, station, variable]`` with the names, times and stations beside it."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fields.errors import DataError, locate, printable
from fields.readers.registry import Reader
from fields.readers.rows import RowSource, warn_of_half_precision, with_unique_stations
from fields.readers.safety import check_zip, open_binary, shown, stream_npy_member
from fields.readers.source import EveryNthStep, Network, ReadOptions, Source, Workspace
from fields.times import Zone, parse_time
from fields.variables import VARIABLES, PressureKind

__all__ = ["READER"]

# The units that such archives are documented to use.
_UNITS = {"u": "m/s", "v": "m/s", "ff": "m/s", "dd": "degrees", "p": "hPa", "psl": "hPa", "t": "degC", "td": "degC",
          "rh": "%", "precip": "mm", "gust": "m/s", "radiation": "W/m**2", "cloud": "%", "visibility": "m",
          "snow": "cm", "sunshine": "min"}  # fmt: skip
_NEEDED = ("obs", "variables", "time", "station_id", "lat", "lon", "alt_m")
_SMALL = 64 << 20
_MOST_STATIONS = 1_000_000
# Numbers below that are indices, or hours or days since another moment: as seconds they are of 1970 to 1973.
_LIKE_INDICES = 10**8


class ArraySource(RowSource):
    """Array whose first axis is time, in any order."""

    def __init__(self, path: Path, options: ReadOptions, work: Workspace) -> None:
        self.reader, self.label, self.about = "arrays", shown(path), "npz archive of observations"
        with open_binary(path) as file, check_zip(file, shown(path), options.max_bytes) as archive:
            parts = _small_parts(archive, self.label)
            observed = stream_npy_member(archive, "obs.npy", self.label, _scratch(work.folder))
        names = [str(name) for name in parts["variables"].ravel()]
        if observed.ndim != 3 or observed.dtype.kind not in "fiu":
            raise DataError(
                f"{self.label} › obs is {observed.dtype} of shape {observed.shape}; "
                "expected numbers [time, station, variable]",
                code="SPDE-D144",
            )
        self._observed = observed
        network = _network(parts, self.label)
        zone = Zone.parse(options.zone or "UTC")
        times = _times(parts["time"], self.label)
        lengths = (len(times), len(network), len(names))
        if observed.shape != lengths:
            raise DataError(
                f"{self.label} › obs has shape {observed.shape}, its times, stations and variables are {lengths}",
                code="SPDE-D144",
            )
        renamed = {"p": "psl"} if options.pressure_kind == PressureKind.SEA_LEVEL else {}
        labels = [renamed.get(name, name) for name in names]
        twice = [name for name in labels if name in VARIABLES and labels.count(name) > 1]
        if twice:
            raise DataError(f"{self.label} › variables: {twice[0]} is there more than once", code="SPDE-D128",
                            do="rename or remove one of them, and save the archive again")  # fmt: skip
        self._places = {name: i for i, name in enumerate(labels) if name in VARIABLES}
        if not self._places:
            raise DataError(f"{self.label} › variables: none of {', '.join(map(printable, names))} is known",
                            code="SPDE-D144")  # fmt: skip
        seconds, _ = zone.to_utc(times, self.label)
        units = {name: options.units.get(name, _UNITS[name]) for name in self._places}
        places = {name: options.units.get(name, "m" if name == "alt" else "degrees") for name in ("lat", "lon", "alt")}
        super().__init__(seconds, network, {**units, **places}, options, work)
        self.zone = zone.name
        if observed.dtype == np.float16:
            warn_of_half_precision(self.report, self.label, "obs")
        self.pressure_kind = PressureKind.SEA_LEVEL if renamed else PressureKind.STATION
        left = [name for name in labels if name not in VARIABLES]
        if left:
            self.report.notice("SPDE-D145", f"left out: {', '.join(map(printable, left))}", where=self.label)

    def rows(self, index: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Read the variables ``[row, station]`` of the rows at these positions."""
        lump = self._observed[index] if index.size else self._observed[:0]
        return {name: np.asarray(lump[:, :, i], np.float32) for name, i in self._places.items()}


def _scratch(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "obs.raw"


def _small_parts(archive: zipfile.ZipFile, label: str) -> dict[str, np.ndarray[Any, Any]]:
    there = {info.filename: info for info in archive.infolist()}
    absent = [name for name in _NEEDED if f"{name}.npy" not in there]
    if absent:
        raise DataError(
            f"{label} has no {', '.join(absent)}",
            code="SPDE-D144",
            where=f"it holds {', '.join(printable(name) for name in list(there)[:12])}",
            do="save obs[time, station, variable] with variables, time, station_id, lat, lon and alt_m",
        )
    for name in _NEEDED[1:]:
        if there[f"{name}.npy"].file_size > _SMALL:
            raise DataError(f"{label} › {name} is larger than {_SMALL:,} bytes", code="SPDE-D105")
    return {name: stream_npy_member(archive, f"{name}.npy", label, None) for name in _NEEDED[1:]}


def _network(parts: dict[str, np.ndarray[Any, Any]], label: str) -> Network:
    ids = parts["station_id"]
    if ids.ndim != 1 or ids.dtype.kind not in "USiu" or not 0 < ids.size <= _MOST_STATIONS:
        raise DataError(f"{label} › station_id is {ids.dtype} of shape {ids.shape}", code="SPDE-D144")
    plain = np.char.decode(ids, "latin-1") if ids.dtype.kind == "S" else ids.astype(str)
    plain = np.char.strip(plain)
    places = []
    for name in ("lat", "lon", "alt_m"):
        values = parts[name]
        if values.shape != ids.shape or values.dtype.kind not in "fiu":
            raise DataError(f"{label} › {name} is {values.dtype} of shape {values.shape}, stations are {ids.shape}",
                            code="SPDE-D144")  # fmt: skip
        places.append(values.astype(np.float64))
    if any(len(name) > 200 for name in plain):
        raise DataError(f"{label} › station_id has an id of more than 200 characters", code="SPDE-D033")
    return Network(plain, *places)


def _times(raw: np.ndarray[Any, Any], label: str) -> np.ndarray[Any, Any]:
    """Convert times of any type to seconds on the file's clock."""
    if raw.ndim != 1:
        raise DataError(f"{label} › time has shape {raw.shape}, expected one dimension", code="SPDE-D144")
    if raw.dtype.kind == "M":
        if np.isnat(raw).any():
            raise DataError(f"{label} › time has {int(np.isnat(raw).sum())} empty entries", code="SPDE-D010")
        # Far years would wrap around silently in a finer unit.
        years = raw.astype("datetime64[Y]").astype(np.int64) + 1970
        if years.size and (years.min() < 1678 or years.max() > 2261):
            raise DataError(f"{label} › time: years {years.min()} to {years.max()}, allowed 1678 to 2261",
                            code="SPDE-D010")  # fmt: skip
        return raw.astype("datetime64[s]").astype(np.int64)
    if raw.dtype.kind in "US":
        texts = np.char.decode(raw, "latin-1") if raw.dtype.kind == "S" else raw
        return np.asarray([parse_time(str(text)) for text in texts], np.int64)
    if raw.dtype.kind in "iu" or raw.dtype == np.float64:
        if raw.dtype.kind == "f" and not np.all(np.isfinite(raw)):
            raise DataError(f"{label} › time has entries that are not finite", code="SPDE-D010")
        if raw.size and (raw.min() < -9.2e9 or raw.max() > 9.2e9):
            raise DataError(f"{label} › time is out of range for seconds since 1970", code="SPDE-D010")
        if raw.size and raw.min() >= 0 and raw.max() < _LIKE_INDICES:
            raise DataError(
                f"{label} › time: numbers up to {raw.max():g} are hardly seconds since 1970", code="SPDE-D010",
                do="save it as datetime64[s], or as int64 seconds since 1970",
            )  # fmt: skip
        return np.round(raw).astype(np.int64)
    raise DataError(
        f"{label} › time is {raw.dtype}, which cannot hold seconds exactly",
        code="SPDE-D010",
        where=locate(label, "time"),
        do="save it as datetime64[s] or as int64 seconds since 1970",
    )


def open_arrays(path: Path, options: ReadOptions, work: Workspace) -> Source:
    """Open arrays in an npz archive as a source."""
    source = with_unique_stations(ArraySource(path, options, work), options, work)
    return EveryNthStep(source, options.every) if options.every > 1 else source


def _recognises(path: Path) -> int:
    if path.is_dir():
        return 0
    with open_binary(path) as file:
        if file.read(4) != b"PK\x03\x04":
            return 0
        file.seek(0)
        try:
            names = set(zipfile.ZipFile(file).namelist())
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError, struct.error):
            return 1
    if {"obs.npy", "station_id.npy"} <= names:
        return 3
    return 2 if any(name.endswith(".npy") for name in names) else 0


READER = Reader("arrays", "npz archives with obs[time, station, variable]", _recognises, open_arrays)
