"""Read CF datasets: NetCDF files and zarr stores of others, with dimensions time and station in either order."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields.errors import DataError, ProblemReport, counted, printable
from fields.readers.absent_chunks import AbsentChunks, absent_chunks
from fields.readers.dataset_attributes import (
    check_packing,
    is_other_quantity,
    report_attributes,
    require_upward,
    valid_bounds,
)
from fields.readers.foreign_zarr import check_foreign_store, is_zarr
from fields.readers.registry import Reader
from fields.readers.rows import RowSource, warn_of_half_precision, with_unique_stations
from fields.readers.safety import MAX_RATIO, RATIO_FLOOR, check_ratio, file_kind, shown, unreadable
from fields.readers.source import EveryNthStep, Network, ReadOptions, Source, Workspace
from fields.times import Zone, utc_seconds
from fields.variables import COORDINATES, VARIABLES, PressureKind

__all__ = ["READER", "DatasetSource"]

Array = np.ndarray[Any, Any]

# Names that files use beside the CF standard names of `fields.variables`.
_ALIASES = {
    "u": ("u10", "wind_u", "uas"), "v": ("v10", "wind_v", "vas"), "p": ("ps", "sp", "pressure", "station_pressure"),
    "t": ("t2m", "tas", "temperature", "air_temp"), "rh": ("hurs", "rhum", "humidity"), "psl": ("msl", "mslp", "slp"),
    "td": ("d2m", "dewpoint", "tdew"), "ff": ("wspd", "sfcwind"), "dd": ("wdir", "wind_dir"), "precip": ("pr", "tp"),
    "gust": ("wsgsmax", "fg10", "i10fg", "wind_gust"), "radiation": ("rsds", "swdown", "global_radiation"),
    "cloud": ("clt", "tcc", "cloud_cover"), "visibility": ("vis",), "snow": ("snd", "snow_depth"),
    "sunshine": ("sund",),
    "lat": ("latitude",), "lon": ("longitude",), "alt": ("altitude", "elevation", "elev", "height", "alt_m"),
}  # fmt: skip
_STANDARD = {"p": ("air_pressure",), "alt": ("altitude", "height_above_mean_sea_level")}
_NAMES = ("name", "station_name", "platform_name")
_WIGOS = ("wigos", "wigos_id", "wigos_station_identifier")
_IDS = ("station_id", "station", "id", "site", "platform_id", "station_name")
# The reference of CF units of time: year first, and a zone only as UTC or an offset.
_REFERENCE = re.compile(
    r"\bsince\s+[+-]?\d{3,}-\d{1,2}-\d{1,2}(?:[T ]+\d{1,2}(?::\d{1,2}(?::\d{1,2}(?:\.\d*)?)?)?)?"
    r"\s*(?:Z|UTC|GMT|[+-]?\d{1,2}(?::?\d{2})?)?\s*$",
    re.IGNORECASE,
)
_READ_FAULTS = (
    OSError, RuntimeError, ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, MemoryError,
)  # fmt: skip


class DatasetSource(RowSource):
    """Observations of an open dataset."""

    def __init__(
        self, ds: xr.Dataset, label: str, options: ReadOptions, work: Workspace, folder: Path | None = None
    ) -> None:
        self.reader, self.label = "dataset", label
        self.about = printable(ds.attrs.get("title", "CF dataset"))[:200]
        names, others = _find(ds, VARIABLES, label, options)
        if options.pressure_kind == PressureKind.SEA_LEVEL and "p" in names:
            names = {("psl" if name == "p" else name): var for name, var in names.items() if name != "psl"}
        time, station = _dims(ds, names, label)
        self._ds, self._names, self._dims = ds, names, (time, station)
        self._absent: dict[str, AbsentChunks] = {}
        places, _ = _find(ds, COORDINATES, label, options)
        self._positions = {*places.values(), time}
        network = _network(ds, places, station, label)
        require_upward(ds[places["alt"]], f"{label} › {printable(places['alt'])}")
        units = {name: _unit(ds, var, name, label, options) for name, var in names.items()}
        for name, var in places.items():
            default = "m" if name == "alt" else "degrees"
            units[name] = options.units.get(name) or str(ds[var].attrs.get("units", default))
        # CF times are UTC; files that keep another clock do not say so, but the user may.
        zone = Zone.parse(options.zone or "UTC")
        seconds, _ = zone.to_utc(_seconds(ds, time, label), label)
        super().__init__(seconds, network, units, options, work)
        self.zone = zone.name
        if folder is not None:
            self._absent = self._absent_chunks(folder)
        self._valid = {name: valid_bounds(ds[var]) for name, var in names.items()}
        self._invalid: dict[str, int] = {}
        for name, var in others.items():
            standard = printable(ds[var].attrs["standard_name"])[:60]
            self.report.warning(
                "SPDE-D129", f"the variable '{printable(var)}' is not read: it is {standard}, not {name}", where=label,
                do="--unit dd=towards   if it is where the wind goes" if name == "dd" else "correct its standard_name",
            )  # fmt: skip
        for name, var in names.items():
            if np.dtype(ds[var].encoding.get("dtype", ds[var].dtype)) == np.float16:
                warn_of_half_precision(self.report, label, name)
            check_packing(ds[var], f"{label} › {printable(var)}")
            report_attributes(self.report, ds, var, name, label)
        reduced = "psl" in names and "p" not in names
        self.pressure_kind = PressureKind.SEA_LEVEL if reduced else PressureKind.STATION
        read = {*names.values(), *places.values()}
        left = [str(v) for v in ds.data_vars if v not in read and ds[v].dtype.kind == "f"]
        if left:
            self.report.notice("SPDE-D145", f"left out: {', '.join(map(printable, left[:12]))}", where=label)

    def rows(self, index: Array) -> dict[str, Array]:
        """Read the variables ``[row, station]`` of the rows at these positions."""
        span: Any = index
        if index.size and np.array_equal(index, np.arange(index[0], index[0] + index.size)):
            span = slice(int(index[0]), int(index[0]) + index.size)  # far cheaper than a list for files
        blocks = {}
        for name, var in self._names.items():
            try:
                block = self._ds[var].isel({self._dims[0]: span}).transpose(*self._dims).values
            except _READ_FAULTS as problem:
                raise unreadable(f"{self.label} › {printable(var)}", problem) from None
            low, high = self._valid[name]
            invalid = (block < low) | (block > high)
            if name in self._absent:
                stations = np.arange(block.shape[1])
                order = [index if dim == self._dims[0] else stations for dim in self._ds[var].dims]
                lost = self._absent[name].mask(*order)
                block = np.where(lost if self._ds[var].dims == self._dims else lost.T, np.nan, block)
                invalid &= ~np.isnan(block)
            self._invalid[name] = self._invalid.get(name, 0) + int(invalid.sum())
            blocks[name] = np.where(invalid, np.float32(np.nan), np.asarray(block, np.float32))
        return blocks

    def _absent_chunks(self, folder: Path) -> dict[str, AbsentChunks]:
        """Find chunks that a store lacks and that its fill value would pass off as observations; refuse lost places."""
        lacking: dict[str, AbsentChunks] = {}
        shown_as = {var: name for name, var in self._names.items()}
        for var in map(str, self._ds.variables):
            chunks = absent_chunks(folder / var) if self._ds[var].dtype.kind in "fiuM" else None
            declared = self._ds[var].encoding.get("_FillValue")
            if chunks is None or (declared is not None and chunks.fill == declared):
                continue
            if var in shown_as:
                lacking[shown_as[var]] = chunks
                self.report.warning(
                    "SPDE-D103", f"{shown_as[var]} lacks {counted(chunks.count, 'chunk')}: read as missing, and not as "
                    f"its fill value {printable(chunks.fill)[:20]}",
                    where=f"{self.label} › {printable(var)}",
                    do="copy the store again; or, if that value is meant, write it with write_empty_chunks=True",
                )  # fmt: skip
            elif var in self._positions:
                raise DataError(
                    f"{self.label} › {printable(var)} lacks {counted(chunks.count, 'chunk')}",
                    code="SPDE-D103", do="copy the store again",
                )  # fmt: skip
        return lacking

    def findings(self) -> ProblemReport:
        """Return the findings, with counts of values that the file itself calls invalid."""
        report = ProblemReport(super().findings())
        for name, count in self._invalid.items():
            if count:
                report.notice("SPDE-D018", f"{count:,} values of {name} are outside the valid range of the file",
                              where=f"{self.label} › {printable(self._names[name])}")  # fmt: skip
        return report


def _find(
    ds: xr.Dataset, table: Any, label: str, options: ReadOptions
) -> tuple[dict[str, str], dict[str, str]]:  # fmt: skip
    """Match our names to the dataset's: by the same name, by CF standard name, by a common alias.

    Returns
    -------
    The variables that are meant, and those that are called so while their standard name tells of another quantity.

    Raises
    ------
    DataError
        If several variables could be meant, none has our name, and they differ.
    """
    numbers = [str(var) for var in ds.variables if ds[var].dtype.kind in "fiu" and not str(var).endswith("_flag")]
    matched: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, row in table.items():
        standards = (row.standard_name, *_STANDARD.get(name, ()))
        called = [[var for var in numbers if ds[var].attrs.get("standard_name") == standard] for standard in standards]
        aliased = [[var for var in numbers if var.lower() in names] for names in ((name,), _ALIASES.get(name, ()))]
        if not str(options.units.get(name, "")).endswith("towards"):  # declared as what it is
            strange = [var for group in aliased for var in group if is_other_quantity(ds[var], standards)]
            aliased = [[var for var in group if var not in strange] for group in aliased]
            others |= dict(zip((name,), strange))
        candidates = next((group for group in (*called, *aliased) if group), [])
        if name in candidates:
            candidates = [name]
        for other in candidates[1:]:
            _require_same(ds, (candidates[0], other), name, label)
        if candidates:
            matched[name] = candidates[0]
    used = set(matched.values())
    return matched, {name: var for name, var in others.items() if name not in matched and var not in used}


def _require_same(ds: xr.Dataset, pair: tuple[str, str], name: str, label: str) -> None:
    first, second = (ds[var] for var in pair)
    same = first.dims == second.dims and first.attrs.get("units") == second.attrs.get("units")
    try:
        same = same and np.array_equal(first.values, second.values, equal_nan=True)
    except _READ_FAULTS as problem:
        raise unreadable(f"{label} › {printable(pair[1])}", problem) from None
    if not same:
        raise DataError(
            f"{label}: the variables '{printable(pair[0])}' and '{printable(pair[1])}' could both be {name}, and they "
            "differ",
            code="SPDE-D128",
            do=f"call the one that is meant {name}, or remove the other",
        )


def _dims(ds: xr.Dataset, names: dict[str, str], label: str) -> tuple[str, str]:
    if not names:
        there = ", ".join(printable(v) for v in list(ds.data_vars)[:12])
        raise DataError(
            f"{label} holds none of {', '.join(VARIABLES)}",
            code="SPDE-D146",
            where=f"it holds {there or 'nothing'}; variables are recognised by standard_name or name",
        )
    shared = [tuple(map(str, ds[var].dims)) for var in names.values()]
    first = shared[0]
    if len(first) != 2 or any(set(dims) != set(first) for dims in shared):
        raise DataError(
            f"{label}: variables have the dimensions {sorted(set(shared))}",
            code="SPDE-D146",
            where="expected time and station; grids are lifted, not ingested",
        )
    time = next((d for d in first if d.lower() in ("time", "valid_time", "date") or _is_time(ds, d)), None)
    if time is None:
        raise DataError(f"{label}: neither of {first} is a time", code="SPDE-D146")
    return time, next(d for d in first if d != time)


def _is_time(ds: xr.Dataset, dim: str) -> bool:
    return dim in ds.coords and ds[dim].dtype.kind == "M"


def _seconds(ds: xr.Dataset, time: str, label: str) -> Array:
    if time not in ds.variables:
        raise DataError(f"{label}: the dimension {printable(time)} has no values", code="SPDE-D146")
    where = f"{label} › {printable(time)}"
    reference = ds[time].encoding.get("units")
    if isinstance(reference, str) and not _REFERENCE.search(reference):
        # Libraries drop a zone that they do not know, and read 01-02-2021 as the second of January.
        raise DataError(
            f"{where} counts in '{printable(reference)[:60]}', which can be read in several ways", code="SPDE-D010",
            do="write the units of time as 'seconds since 1970-01-01 00:00:00', with +02:00 behind it if that is meant",
        )  # fmt: skip
    return utc_seconds(ds[time], where)


def _unit(ds: xr.Dataset, var: str, name: str, label: str, options: ReadOptions) -> str:
    unit = options.units.get(name) or ds[var].attrs.get("units")
    if not isinstance(unit, str) or not unit.strip():
        raise DataError(
            f"{label} › {printable(var)} has no units attribute",
            code="SPDE-D007",
            do=f"declare it: --unit {name}={VARIABLES[name].file_units[0]}",
        )
    return unit


def _network(ds: xr.Dataset, places: dict[str, str], station: str, label: str) -> Network:
    absent = [name for name in ("lat", "lon", "alt") if name not in places]
    if absent:
        raise DataError(f"{label}: no variable gives {' and '.join(absent)} of the stations", code="SPDE-D008",
                        do="add them with the standard names latitude, longitude and surface_altitude")  # fmt: skip
    positions = []
    for name in ("lat", "lon", "alt"):
        values = ds[places[name]]
        if values.dims != (station,):
            raise DataError(
                f"{label} › {printable(places[name])} has the dimensions {values.dims}, expected ({station},)",
                code="SPDE-D023" if len(values.dims) > 1 else "SPDE-D146",
            )
        positions.append(np.asarray(values.values, np.float64))
    ids = _ids(ds, station, label)
    lat, lon, alt = positions
    return Network(ids, lat, lon, alt, _texts(ds, _NAMES, station), _texts(ds, _WIGOS, station))


def _texts(ds: xr.Dataset, names: tuple[str, ...], station: str) -> Array | None:
    """Return the first variable of texts among some names, one for each station; None without any."""
    for name in names:
        if name in ds.variables and ds[name].dims == (station,) and ds[name].dtype.kind in "SUOT":
            values = (v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in ds[name].values.tolist())
            return np.asarray([text.strip()[:200] for text in values], dtype=str)
    return None


def _ids(ds: xr.Dataset, station: str, label: str) -> Array:
    for name in (*_IDS, station):
        if name in ds.variables and ds[name].dims == (station,):
            values = ds[name].values
            if values.dtype.kind == "S":
                values = np.char.decode(values, "latin-1")
            ids = np.asarray([str(v).strip() for v in values], dtype=str)
            if any(len(i) > 200 for i in ids):
                raise DataError(f"{label} › {printable(name)}: an id of more than 200 characters", code="SPDE-D033")
            return ids
    width = len(str(max(ds.sizes[station] - 1, 0)))
    return np.asarray([f"{i:0{width}d}" for i in range(ds.sizes[station])], dtype=str)


def _open(path: Path, max_bytes: int) -> xr.Dataset:
    label = shown(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # foreign conventions; what matters is checked here
        try:
            if path.is_dir():
                version = check_foreign_store(path, max_bytes)
                return xr.open_zarr(path, chunks=None, consolidated=False, zarr_format=version)
            engine = "netcdf4" if file_kind(path) in ("netcdf", "hdf5") else None
            if engine is None:
                raise DataError(f"{label} is not NetCDF: it is {file_kind(path)}", code="SPDE-D121")
            ds = xr.open_dataset(path, engine=engine)
        except _READ_FAULTS as problem:
            if "decode time units" in str(problem):
                raise DataError(
                    f"{label}: {printable(problem).partition('. Try')[0][:200]}", code="SPDE-D010",
                    do="write times as 'seconds since 1970-01-01 00:00:00'; months and years are no fixed span",
                ) from None  # fmt: skip
            raise unreadable(label, problem) from None
    _check_netcdf(ds, path, label)
    return ds


def _check_netcdf(ds: xr.Dataset, path: Path, label: str) -> None:
    size = path.stat().st_size
    inflated = sum(int(np.prod(v.shape, dtype=object)) * v.dtype.itemsize for v in _all(ds))
    if inflated > RATIO_FLOOR and inflated > MAX_RATIO * size:
        check_ratio(inflated, size, label)


def _all(ds: xr.Dataset) -> Iterable[xr.Variable]:
    return ds.variables.values()


def open_dataset(path: Path, options: ReadOptions, work: Workspace) -> Source:
    """Open a CF dataset as a source."""
    folder = path if path.is_dir() else None
    opened = DatasetSource(_open(path, options.max_bytes), shown(path), options, work, folder)
    source = with_unique_stations(opened, options, work)
    return EveryNthStep(source, options.every) if options.every > 1 else source


def _recognises(path: Path) -> int:
    if path.is_dir():
        return 3 if is_zarr(path) else 0
    return 3 if file_kind(path) in ("netcdf", "hdf5") else 0


READER = Reader("dataset", "CF NetCDF files and zarr stores of others", _recognises, open_dataset)
