"""Read Weather2K arrays (station, channel, time), mapped from disk, by block of time.

Two releases exist, told apart by their number of channels; channel orders are those of the authors' tables. Times are
not in the file: the length of the two releases gives them, any other length must be accompanied by ``--start``, and by
``--step`` if it is not that of the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fields.errors import DataError, locate, printable
from fields.readers.axis import Axis
from fields.readers.registry import Reader
from fields.readers.safety import map_npy, open_binary, read_npy_header, shown
from fields.readers.source import EveryNthStep, Network, ReadOptions, Source, Workspace
from fields.times import Zone, format_span, parse_time

__all__ = ["READER", "RELEASES", "Release"]

_START = "2017-01-01"
# One report gives Beijing time; the files do not say.
_ZONE = "UTC+8"
_LIST = "idx2stat.txt"
_LARGEST_LIST = 4 << 20
_UNITS = {"p": "hPa", "t": "degC", "rh": "%", "dd": "degrees", "ff": "m/s"}


@dataclass(frozen=True, slots=True)
class Release:
    """Release of the data: its channels, and the length and step of the whole record."""

    title: str
    channels: int
    length: int
    step: int
    places: dict[str, int]


RELEASES = (
    Release("Weather2K, public release (13 channels, 3-hourly)", 13, 13_632, 3 * 3600,
            {"p": 3, "t": 4, "rh": 7, "dd": 9, "ff": 10}),
    Release("Weather2K-R, version 1.0 (23 channels, hourly)", 23, 40_896, 3600,
            {"p": 3, "t": 4, "rh": 8, "dd": 15, "ff": 16}),
)  # fmt: skip


class Weather2kSource(Source):
    """Weather2K array mapped from disk."""

    def __init__(self, path: Path, options: ReadOptions, work: Workspace) -> None:
        super().__init__()
        self.reader, self.label = "weather2k", shown(path)
        array, header = map_npy(path)
        if header.dtype.kind != "f" or len(header.shape) != 3:
            raise DataError(
                f"{self.label} is {header.dtype} of shape {header.shape}; Weather2K is float (station, channel, time)",
                code="SPDE-D140",
            )
        release = next((r for r in RELEASES if r.channels == header.shape[1]), None)
        if release is None:
            raise DataError(
                f"{self.label} has {header.shape[1]} channels; the releases have 13 and 23",
                code="SPDE-D140",
                where=f"shape {header.shape}, expected (station, 13 or 23, time)",
            )
        if 0 in header.shape:
            raise DataError(f"{self.label} is empty: its shape is {header.shape}", code="SPDE-D025")
        self._array, self._release = array, release
        self.about = release.title
        zone = Zone.parse(options.zone or _ZONE)
        self.zone = zone.name
        self.axis = self._axis(header.shape[2], options, zone, work)
        self.network = self._network(path)
        self.units = {**_UNITS, "lat": "degrees", "lon": "degrees", "alt": "m"}
        self.units |= {name: unit for name, unit in options.units.items() if name in self.units}
        self.report.notice("SPDE-D141", f"read as {release.title}", where=self.label)
        if options.zone is None:
            self.report.notice(
                "SPDE-D141", f"times are taken as {_ZONE}, which the file does not say", where=self.label,
                do=work.command.with_options(("--time-zone", "UTC")) + "   if they are UTC",
            )  # fmt: skip

    def _axis(self, length: int, options: ReadOptions, zone: Zone, work: Workspace) -> Axis:
        release = self._release
        step = format_span(release.step)
        if length != release.length and options.start is None:
            raise DataError(
                f"{self.label} has {length:,} times; {release.title} has {release.length:,}, so the times are unknown",
                code="SPDE-D142",
                where=f"{self.label} holds no times, only their order",
                do=f"{work.command.with_options(('--start', _START), ('--time-zone', 'UTC'))}   with the real start "
                f"and zone, and the step if it is not {step}",
            )
        if length != release.length and options.step is None:
            self.report.notice("SPDE-D141", f"times are taken as {step} apart, as in the release", where=self.label)
        start = parse_time(_START) if options.start is None else options.start
        first, _ = zone.to_utc(np.asarray([start]), self.label)
        return Axis(int(first[0]), options.step or release.step, length)

    def _network(self, path: Path) -> Network:
        first = np.array(self._array[:, :3, 0], np.float64)
        last = np.array(self._array[:, :3, -1], np.float64)
        moved = np.any((first != last) & ~(np.isnan(first) & np.isnan(last)), axis=1)
        count = len(first)
        ids = _station_numbers(path.with_name(_LIST), count)
        if ids is None:
            width = len(str(count - 1))
            ids = [f"{i:0{width}d}" for i in range(count)]
        if moved.any():
            raise DataError(
                "stations move or change altitude in time",
                code="SPDE-D023",
                where=locate(self.label, stations=[ids[i] for i in np.flatnonzero(moved)], out_of=count),
                do="check that channels 0, 1 and 2 are latitude, longitude and altitude",
            )
        return Network(np.asarray(ids, dtype=str), first[:, 0], first[:, 1], first[:, 2])

    def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Read the variables [time, station] of the steps ``start`` to ``stop``."""
        return {
            name: np.ascontiguousarray(self._array[:, channel, start:stop].T)
            for name, channel in self._release.places.items()
        }


def _station_numbers(path: Path, count: int) -> list[str] | None:
    """Read the station numbers of ``idx2stat.txt`` (lines ``index number``, or numbers alone); None if it is absent."""
    if not path.is_file():
        return None
    with open_binary(path) as file:
        raw = file.read(_LARGEST_LIST + 1)
    if len(raw) > _LARGEST_LIST or b"\0" in raw:
        raise DataError(f"{shown(path)} is not a list of stations", code="SPDE-D143")
    rows = [line.replace(",", " ").replace(":", " ").split() for line in raw.decode("latin-1").splitlines()]
    rows = [row for row in rows if row]
    if all(len(row) == 1 for row in rows):
        numbers = [row[0] for row in rows]
    else:
        try:
            by_index = {int(row[0]): row[1] for row in rows}
            numbers = [by_index[i] for i in range(count)]
        except (ValueError, IndexError, KeyError):
            raise DataError(
                f"{shown(path)} does not give a number to each of {count} stations", code="SPDE-D143",
                do=f"correct or remove {printable(path)}",
            ) from None  # fmt: skip
    if len(numbers) != count or len(set(numbers)) != count:
        raise DataError(
            f"{shown(path)} lists {len(set(numbers))} different stations, the array has {count}", code="SPDE-D143",
            do=f"correct or remove {printable(path)}",
        )  # fmt: skip
    return numbers


def open_weather2k(path: Path, options: ReadOptions, work: Workspace) -> Source:
    """Open a Weather2K array as a source."""
    source = Weather2kSource(path, options, work)
    return EveryNthStep(source, options.every) if options.every > 1 else source


def _recognises(path: Path) -> int:
    if path.is_dir():
        return 0
    with open_binary(path) as file:
        if file.read(6) != b"\x93NUMPY":
            return 0
        file.seek(0)
        header = read_npy_header(file, shown(path))
    has_channels = len(header.shape) == 3 and header.shape[1] in (13, 23) and header.dtype.kind == "f"
    return 3 if has_channels else 1


READER = Reader("weather2k", "Weather2K arrays (both releases)", _recognises, open_weather2k)
