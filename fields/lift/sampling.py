"""Time series from a field store at any latitude, longitude and altitude."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from fields import atomic, store
from fields.errors import CorruptStoreError, DataError, UsageError, printable
from fields.grid import GridSpec
from fields.lift.bilinear import GridReadout, bilinear_weights
from fields.lift.record import ERROR, FACTOR, LIFTED, SLOPE
from fields.places import Places, PlacesLike, coordinates_of
from fields.readers import open_binary
from fields.times import format_iso, format_time, parse_time, to_datetime64
from fields.variables import PressureKind, display_unit, to_display

__all__ = ["FieldStore", "read_points", "refuse_existing", "write_series"]

# Moments that are read at once.
_BLOCK = 1024
_MOST_POINTS = 1_000_000
_MOST_BYTES = 1 << 28


def refuse_existing(path: Path | None, force: bool) -> None:
    """Refuse to overwrite an existing file without ``force``."""
    if path is not None and path.exists() and not force:
        raise UsageError(
            f"{printable(path)} exists", code="SPDE-D003", do="add --force (in Python: force=True) to replace it"
        )


class FieldStore:
    """An open field store, to be read at places."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.ds = store.open_store(path)
        about = self.ds.attrs.get("grid")
        if about is None or not {"lat", "lon"} <= set(self.ds.dims):
            raise CorruptStoreError(
                f"{printable(path)} holds no lifted fields",
                code="SPDE-D088",
                do=f"stationpde field lift {shlex.quote(printable(path))} OUT.zarr",
            )
        self.grid = GridSpec(**json.loads(about))
        self.altitude: NDArray[np.float64] = self.ds["alt"].values
        self.variables = tuple(name for name in LIFTED if name in self.ds)
        self.station_pressure = PressureKind.of(self.ds.attrs) != PressureKind.SEA_LEVEL

    def readout(self, places: PlacesLike) -> GridReadout:
        """Build the readout at places; a place whose altitude is NaN gets that of the grid."""
        low, high = self.ds.attrs.get("station_altitude_range", (-np.inf, np.inf))
        lat, lon, alt = coordinates_of(places)
        weights, _ = bilinear_weights(self.grid, lat, lon)
        ground, _ = weights.apply(self.altitude.ravel(), coverage=False)
        alt = np.where(np.isfinite(alt), alt, ground)
        return GridReadout.of(self.grid, self.altitude, (lat, lon, alt), (low, high))

    def read(
        self, readout: GridReadout, times: slice, variables: tuple[str, ...] | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """Read variables at the places of a readout: ``[time, place]``, SI.

        Parameters
        ----------
        readout : from `readout`
        times : the moments to read
        variables : their names; all by default
        """
        names = variables or self.variables
        # Pressure is brought to another altitude with the temperature of the same column.
        needed = dict.fromkeys((*names, *(("t",) if "p" in names and "t" in self.variables else ())))
        slopes = [name + SLOPE for name in needed if name + SLOPE in self.ds]
        part = self.ds[[*needed, *slopes]].isel(time=times).load()
        means = readout(
            {name: part[name].values for name in needed},
            {name.removesuffix(SLOPE): part[name].values for name in slopes},
            station_pressure=self.station_pressure,
        )
        return {name: means.values[name] for name in names}

    def error(self, name: str, moment: int) -> NDArray[np.float64]:
        """Return one standard deviation of the error of a variable at a moment, ``[lat, lon]``, SI.

        Raises
        ------
        DataError
            If the store holds none: it was written without, or before errors were.
        """
        if name + ERROR not in self.ds:
            raise DataError(
                f"the store holds no error of {name}", code="SPDE-D088",
                do="lift its stations again: stationpde field lift STORE OUT.zarr --force",
            )  # fmt: skip
        error: NDArray[np.float64] = self.ds[name + ERROR].values.astype(np.float64)
        return error * float(self.ds[name + FACTOR][moment])

    def blocks(self) -> Iterator[slice]:
        """Yield the steps of the record in pieces of bounded length."""
        length = self.ds.sizes["time"]
        for start in range(0, length, _BLOCK):
            yield slice(start, min(start + _BLOCK, length))

    def moment(self, text: str | None) -> int:
        """Find the index of the moment nearest to a time written as text; None is the last moment.

        Raises
        ------
        DataError
            If the text is no time, or one outside the record.
        """
        times = self.ds["time"].values
        if text is None:
            return len(times) - 1
        try:
            requested = to_datetime64(parse_time(text))
        except UsageError:
            raise DataError(f"'{text}' is no time", code="SPDE-D089", do=f"--at {_last(times)}") from None
        gap = np.abs(times - requested)
        index = int(gap.argmin())
        step = np.median(np.diff(times)) if len(times) > 1 else np.timedelta64(1, "h")
        if gap[index] > step:
            raise DataError(
                f"{text} is outside the record, which runs from {times[0]} to {times[-1]}",
                code="SPDE-D089",
                do=f"--at {_last(times)}",
            )
        return index


def _last(times: NDArray[Any]) -> str:
    return format_time(times[-1], "minute").replace(" ", "T")


# Beginnings of names under which tables hold an altitude.
_HEIGHTS = ("alt", "elev", "height", "hgt", "z_m")
# Those that are altitudes beside a column called alt as well; the height of an instrument is not.
_ALTITUDES = ("alt", "elev")


def read_points(path: str | os.PathLike[str]) -> Places:
    """Read places from a CSV with the columns ``lat``, ``lon`` and, optionally, ``alt`` [m] and ``name``.

    The column of names may also be called ``station`` or ``id``.

    Raises
    ------
    DataError
        If a column is missing or a value is no coordinate; the line is named.
    """
    label = printable(Path(path).name)
    rows: list[tuple[str, float, float, float]] = []
    with _text_of(path) as file:
        table = csv.DictReader(file)
        columns = {(name or "").strip().lower(): name for name in table.fieldnames or ()}
        named = [(name or "").strip().lower() for name in table.fieldnames or ()]
        twice = next((name for name in ("lat", "lon", "alt") if named.count(name) > 1), None)
        if twice:
            raise DataError(f"{label} has the column {twice} twice", code="SPDE-D090", do="remove one of them")
        height = next((name for name in named if name.startswith(_HEIGHTS) or name == "z"), None)
        other = next((name for name in named if name.startswith(_ALTITUDES) and name != "alt"), None)
        if "alt" in columns and other:
            raise DataError(f"{label} has two columns of altitude, alt and {printable(other)}", code="SPDE-D090",
                            do="remove the one that is not meant; alt is in metres")  # fmt: skip
        if "alt" not in columns and height:
            raise DataError(
                f"{label} has a column '{printable(height)}' and none called alt", code="SPDE-D090",
                do="name it alt, in metres, or remove it to read at the altitude of the grid",
            )  # fmt: skip
        absent = [name for name in ("lat", "lon") if name not in columns]
        if absent and len(named) == 1 and any(mark in named[0] for mark in ";\t|"):
            raise DataError(f"{label} has no commas between its columns", code="SPDE-D090",
                            do="separate columns by commas and write numbers with a decimal point")  # fmt: skip
        if absent:
            raise DataError(f"{label} has no column {', '.join(absent)}", code="SPDE-D090", do="name them lat,lon,alt")
        heading = next((columns[key] for key in ("name", "station", "id") if key in columns), "")
        for row in table:
            place = f"{label} line {table.line_num}"
            if len(rows) >= _MOST_POINTS:
                raise DataError(f"{label} has more than {_MOST_POINTS:,} places", code="SPDE-D090")
            if None in row:
                raise DataError(
                    f"{place} has {len(table.fieldnames or ()) + len(row[None])} cells and the heading "
                    f"{len(table.fieldnames or ())}", code="SPDE-D090", do="correct that line",
                )  # fmt: skip
            name = (row.get(heading) or f"{len(rows)}").strip()
            rows.append((name, *(_number(row, columns, key, place) for key in ("lat", "lon", "alt"))))  # type: ignore[arg-type]
    if not rows:
        raise DataError(f"{label} holds no places", code="SPDE-D090")
    names, lat, lon, alt = zip(*rows)
    return Places(tuple(map(printable, names)), np.array(lat), np.array(lon), np.array(alt))


def _text_of(path: str | os.PathLike[str]) -> io.StringIO:
    """Open a table as text; what is no regular file, and bytes that are no UTF-8, are refused with the reason."""
    with open_binary(Path(path)) as file:
        head = file.read(_MOST_BYTES + 1)
    label = printable(Path(path).name)
    if len(head) > _MOST_BYTES:
        raise DataError(f"{label} has more than {_MOST_BYTES:,} bytes", code="SPDE-D090", do="give fewer places")
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = head.count(b"\n", 0, problem.start) + 1
        raise DataError(f"{label} line {line} is not UTF-8 text", code="SPDE-D090", do="save it as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{label} holds a NUL byte, which no table does", code="SPDE-D090", do="save it as UTF-8 text")
    return io.StringIO(text, newline="")


def _number(row: dict[str, str], columns: dict[str, str], key: str, place: str) -> float:
    raw = (row.get(columns.get(key, "")) or "").strip()
    if key == "alt" and not raw:
        return np.nan
    low, high = {"lat": (-90.0, 90.0), "lon": (-180.0, 360.0), "alt": (-500.0, 9000.0)}[key]
    try:
        value = float(raw)
    except ValueError:
        value = np.nan
    if not low <= value <= high:
        raise DataError(
            f"{place}: {key} is '{printable(raw)}', allowed {low:.0f} to {high:.0f}", code="SPDE-D090",
            do="correct that line",
        )  # fmt: skip
    return value


def write_series(fields: FieldStore, points: Places, output: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Read all moments at the places, and write them to a file or return them.

    Parameters
    ----------
    fields : the field store
    points : the places; an altitude of NaN means that of the grid
    output : path of a CSV that is written in pieces, one line for each moment and place; None returns the series

    Returns
    -------
    Units, places with whether they lie in the grid, and the path or the series; for JSON
    """
    readout = fields.readout(points)
    answer: dict[str, Any] = {
        "units": {name: display_unit(name) for name in fields.variables},
        "points": [
            {"name": n, "lat": float(a), "lon": float(o), "alt": round(float(z), 1), "inside": bool(i)}
            for n, a, o, z, i in zip(points.id, points.lat, points.lon, readout.places.z, readout.inside)
        ],
    }
    if output is None:
        parts = [fields.read(readout, block) for block in fields.blocks()]
        answer["time"] = [format_iso(t) for t in fields.ds["time"].values]
        answer["series"] = {
            name: to_display(name, np.concatenate([part[name] for part in parts]).astype(float)).T.round(4).tolist()
            for name in fields.variables
        }
        return answer
    target = Path(output)
    with (
        atomic.machine_faults(target),
        atomic.staged_file(target) as scratch,
        scratch.open("w", newline="", encoding="utf-8") as file,
    ):
        _write_csv(file, fields, readout, points)
    answer["output"] = str(target)
    return answer


def _write_csv(file: TextIO, fields: FieldStore, readout: GridReadout, points: Places) -> None:
    out = csv.writer(file)
    units = [f"{name}[{display_unit(name)}]" for name in fields.variables]
    out.writerow(["time", "name", "lat", "lon", "alt[m]", "inside", *units])
    places = [
        [name, f"{lat:.6g}", f"{lon:.7g}", f"{alt:.1f}", int(inside)]
        for name, lat, lon, alt, inside in zip(points.id, points.lat, points.lon, readout.places.z, readout.inside)
    ]
    for block in fields.blocks():
        part = fields.read(readout, block)
        shown = np.stack([to_display(name, part[name].astype(float)) for name in fields.variables], axis=-1)
        for time, row in zip(fields.ds["time"].values[block], shown):
            stamp = format_iso(time)
            for place, numbers in zip(places, row):
                out.writerow([stamp, *place, *("" if np.isnan(x) else f"{x:.2f}" for x in numbers)])
