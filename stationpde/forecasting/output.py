"""Forecast files: zarr, NetCDF, parquet or CSV by the ending of the name, written whole or not at all.

Zarr, NetCDF and parquet hold SI; CSV is for people and spreadsheets, in hPa, °C and %, with the unit in each heading.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields import atomic, store
from fields.errors import printable
from fields.times import format_iso
from fields.variables import EXTRA_VARIABLES, cf_attributes, display_unit, to_display
from stationpde.errors import UsageError
from stationpde.uncertainty import VARIABLES as DISTRIBUTED

__all__ = ["FORMATS", "check_output", "output_for", "write_forecast"]

_FLAGS = ("known", "inside", "present", "requested")


def check_output(path: Path, force: bool) -> None:
    """Refuse, before any work, an unknown ending or a name that exists already.

    Raises
    ------
    UsageError
        With advice: the endings that can be written, or ``--force``.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(
            f"'{path.name}' has no ending that says what it is", code="SPDE-T097",
            do=f"end the name in one of {', '.join(FORMATS)}",
        )  # fmt: skip
    with atomic.machine_faults(path):
        path.exists()  # a name that is too long or lies below a file is refused in words
    if path.is_dir() and path.suffix.lower() != ".zarr":
        raise UsageError(f"{path} is a directory, --force does not replace it", code="SPDE-T098",
                         do="choose another output")  # fmt: skip
    if path.exists() and not force:
        raise UsageError(f"{path} exists", code="SPDE-T098", do="add --force (in Python: force=True) to replace it")
    atomic.write_probe(path.parent)


def output_for(pattern: str | Path, stamp: str) -> Path:
    """Return the file of one forecast: ``{time}`` in a name becomes its issue time, written as ``stamp``.

    Raises
    ------
    UsageError
        For another word in braces, which would be part of the name as it stands.
    """
    odd = [word for word in re.findall(r"\{+[^{}]*\}+", Path(pattern).name) if word != "{time}"]
    if odd:
        raise UsageError(
            f"'{odd[0]}' in the name of the output stands for nothing", code="SPDE-T097",
            do="write {time} for the issue time, or leave out the braces",
        )  # fmt: skip
    return Path(str(pattern).replace("{time}", stamp))


def write_forecast(ds: xr.Dataset, path: str | Path, *, force: bool = False) -> Path:
    """Write a forecast in the format of the ending."""
    target = atomic.as_path(path)
    if not isinstance(ds, xr.Dataset) or "time" not in ds.dims:
        raise UsageError(
            "that is no forecast: it is no dataset along time", code="SPDE-T120", do="give what `forecast` returned"
        )
    check_output(target, force)
    FORMATS[target.suffix.lower()](ds, target, force)
    return target


def _zarr(ds: xr.Dataset, target: Path, force: bool) -> None:
    # The attribute of the same name stays: a store keeps times along its time axis only.
    store.write_store(ds.drop_vars("issue_time", errors="ignore"), target, force=force, kind="forecast")


def _netcdf(ds: xr.Dataset, target: Path, force: bool) -> None:
    # CF has no attributes that are lists of text: they are joined to one line.
    plain = ds.assign_attrs({k: ", ".join(v) if isinstance(v, list) else v for k, v in ds.attrs.items()})
    times = {"units": "seconds since 1970-01-01", "dtype": "int64", "calendar": "proleptic_gregorian"}
    encoding: dict[Any, Any] = {name: dict(times) for name in ("time", "issue_time") if name in ds}
    for name in ds.data_vars:
        if ds[name].dtype.kind == "f":
            encoding[name] = {"zlib": True, "complevel": 1, "_FillValue": np.float32(np.nan)}
        else:
            encoding[name] = {"_FillValue": None}
    for name in ("lead", "lat", "lon", "alt"):
        if name in ds.coords:
            encoding[name] = {"_FillValue": None}
    with atomic.machine_faults(target), atomic.staged_file(target) as scratch:
        plain.to_netcdf(scratch, engine="netcdf4", encoding=encoding)


def _parquet(ds: xr.Dataset, target: Path, force: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, units = _columns(ds), {n: ds[n].attrs.get("units", "") for n in ds.variables}
    units |= {name: units.get(name.rpartition("_")[0], "") for name in columns if name not in units}
    fields = [
        pa.field(name, (array := pa.array(values)).type, metadata={"units": str(units.get(name, ""))})
        for name, values in columns.items()
    ]
    schema = pa.schema(fields, metadata={k: v if isinstance(v, str) else json.dumps(v) for k, v in ds.attrs.items()})
    del array
    table = pa.table([pa.array(values) for values in columns.values()], schema=schema)
    with atomic.machine_faults(target), atomic.staged_file(target) as scratch:
        pq.write_table(table, scratch)


def _csv(ds: xr.Dataset, target: Path, force: bool) -> None:
    columns = _columns(ds)
    heads, shown = [], []
    for name, values in columns.items():
        base = re.sub(r"_(q[0-9.]+|m[0-9]+)$", "", name.removesuffix("_spread"))
        if base in DISTRIBUTED or base in EXTRA_VARIABLES:
            _require_si(ds, base, name)
            spread = name.endswith("_spread")
            heads.append(f"{name}[{display_unit(base, difference=spread)}]")
            shown.append([f"{x:.2f}" for x in to_display(base, values.astype(np.float64), difference=spread)])
        elif values.dtype.kind == "M":
            heads.append(name)
            shown.append([format_iso(x) for x in values])
        else:
            heads.append({"lead": "lead[h]", "alt": "alt[m]"}.get(name, name))
            shown.append([_cell(x) for x in values.tolist()])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(zip(*shown, strict=True))
    with atomic.machine_faults(target):
        atomic.write_file(target, text.getvalue().encode())


def _require_si(ds: xr.Dataset, base: str, column: str) -> None:
    """Refuse a variable that was put into another unit: the heading of its column would be wrong."""
    source = next((name for name in (column, f"{base}_quantile", f"{base}_member") if name in ds), base)
    if column.startswith(f"{base}_m"):
        source = f"{base}_member"
    unit = str(ds[source].attrs.get("units", ""))
    ours = cf_attributes(base)["units"]
    if unit not in ("", ours):
        raise UsageError(
            f"`{column}` is in [{printable(unit[:40])}], a forecast has it in [{ours}]", code="SPDE-T120",
            do="give what `forecast` returned, or write yours with xarray or pandas",
        )  # fmt: skip


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    text = printable(value)
    # A spreadsheet must not run a station's name as a formula.
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") and isinstance(value, str) else text


def _columns(ds: xr.Dataset) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns of the long table: one row for each valid time and station."""
    shape = (ds.sizes["time"], ds.sizes["station"])

    def spread_out(name: str) -> np.ndarray[Any, Any]:
        values = ds[name].values
        if ds[name].dims == ("time",):
            values = values[:, None]
        return np.ascontiguousarray(np.broadcast_to(values, shape)).ravel()

    labels = [label for label in ("name", "wigos") if label in ds.coords]
    names = ["issue_time", "time", "lead", "station", *labels, "lat", "lon", "alt", *_FLAGS]
    names += [str(name) for name in ds.data_vars if name not in _FLAGS and ds[name].ndim <= 2]
    columns = {name: spread_out(name) for name in names}
    columns |= {
        f"{str(name).removesuffix('_quantile')}_q{level:g}": part.transpose("time", "station").values.ravel()
        for name in ds.data_vars
        if ds[name].dims == ("quantile", "time", "station")
        for level, part in zip(ds["quantile"].values.tolist(), ds[name], strict=True)
    }
    columns |= {
        f"{str(name).removesuffix('_member')}_m{number}": part.transpose("time", "station").values.ravel()
        for name in ds.data_vars
        if ds[name].dims == ("member", "time", "station")
        for number, part in zip(ds["member"].values.tolist(), ds[name], strict=True)
    }
    for label in ("station", *labels):
        if columns[label].dtype.kind == "U":
            columns[label] = columns[label].astype(object)
    return columns


FORMATS: dict[str, Callable[[xr.Dataset, Path, bool], None]] = {
    ".zarr": _zarr,
    ".nc": _netcdf,
    ".parquet": _parquet,
    ".csv": _csv,
}
