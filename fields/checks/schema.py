"""Check a dataset of stations against the in-memory form, in one pass with one report.

``validate`` reads block after block, so that a store of any length is checked in bounded memory. It reports and never
changes the data; the readers and the options of ``stationpde data ingest`` mend what a user requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from fields.checks.network import check_coordinates, check_daily_cycle, check_pressure_profile
from fields.checks.time_axis import check_times
from fields.checks.values import Subject, check_values
from fields.errors import DataError, ProblemReport, counted, locate, printable
from fields.times import with_utc_times
from fields.variables import STATE_VARIABLES, VARIABLES, PressureKind, cf_attributes, to_display, variable

__all__ = ["validate"]

Array = np.ndarray[Any, Any]

_ROWS = 4096
_INGEST = "stationpde data ingest SRC -o OUT.zarr"
_LONGEST_NAME = 128
_MOST_STATIONS = 1_000_000
# Fewer than these and interpolation has no neighbours to choose from (k is lowered to what there is).
_FEW_STATIONS = 10
_SAME_PLACE = 1e-5  # degrees, one metre
_SATURATED = 1.0


@dataclass
class _Tally:
    """Counts of one variable, gathered in a pass over its blocks."""

    name: str
    stations: int
    reports_of_station: Array = field(init=False)
    low: float = np.inf
    high: float = -np.inf
    infinite: int = 0
    impossible: int = 0
    above_saturation: int = 0
    worst: float = np.nan

    def __post_init__(self) -> None:
        self.reports_of_station = np.zeros(self.stations, np.int64)

    def add(self, block: Array) -> Array:
        """Count a block ``[time, station]`` and return where it is finite."""
        finite = np.isfinite(block)
        self.reports_of_station += finite.sum(axis=0)
        self.infinite += int(np.isinf(block).sum())
        present = block[finite]
        if present.size:
            self.low, self.high = min(self.low, float(present.min())), max(self.high, float(present.max()))
            row = VARIABLES.get(self.name)
            if row is not None:
                outside = present[(present < row.hard[0]) | (present > row.hard[1])]
                self.impossible += outside.size
                if outside.size:
                    self.worst = float(outside[np.argmax(np.abs(outside - sum(row.hard) / 2))])
                if self.name == "rh":
                    self.above_saturation += int(((present > _SATURATED) & (present <= row.hard[1])).sum())
        return finite


def validate(ds: xr.Dataset, *, source: str = "", command: str | None = None) -> ProblemReport:
    """Check a dataset against the in-memory form.

    Parameters
    ----------
    ds : dimensions time and station, variables in SI; lazy arrays are read block by block
    source : name of the file for messages; by default the ``source`` attribute of the dataset
    command : command line to which messages add the option that mends a problem

    Returns
    -------
    Errors (the data cannot be used as they are), warnings and notices, at most 20 of each.
    """
    where = source or str(ds.attrs.get("source", ""))
    report = ProblemReport()
    if "time" in ds.coords and getattr(ds["time"].dtype, "tz", None) is not None:
        ds = with_utc_times(ds)
    if not _check_structure(report, ds, where):
        return report
    ids = [str(s) for s in ds["station"].values]
    subject = Subject(where, ids, command or f"stationpde data ingest {where or 'SRC'} -o OUT.zarr")
    _check_stations(report, ds, ids, where)
    report.extend(check_times(ds["time"].values, where, subject.command, step=ds.attrs.get("step_seconds")))
    lat, lon, alt = (np.asarray(ds[c].values, np.float64) for c in ("lat", "lon", "alt"))
    report.extend(check_coordinates(lat, lon, alt, subject))
    _check_content(report, ds, subject)
    _check_plausible(report, ds, subject, lat, lon, alt)
    return report


def require_numbers(ds: xr.Dataset) -> None:
    """Refuse variables of texts, objects, spans of time or complex numbers: a conversion would lose what they are.

    Raises
    ------
    DataError
        With the variable, its type and how to convert it.
    """
    for name in VARIABLES:
        if name in ds and ds[name].dtype.kind not in "fiu":
            raise DataError(
                f"{name} is {ds[name].dtype}, not real numbers", code="SPDE-D010",
                where=str(ds.attrs.get("source", "")) or None,
                do=f'convert it: ds["{name}"] = ds["{name}"].astype("float32")',
            )  # fmt: skip


def _check_structure(report: ProblemReport, ds: xr.Dataset, where: str) -> bool:
    for dim in ("time", "station"):
        if dim not in ds.dims or dim not in ds.coords:
            report.error("SPDE-D030", f"the data have no `{dim}` coordinate", where=where,
                         why=f"dimensions {', '.join(map(str, ds.dims)) or 'none'}")  # fmt: skip
        elif ds.sizes[dim] == 0:
            report.error("SPDE-D025", f"there are no {dim}s in the data", where=where, why="0, at least 1 is needed")
    for name in ("lat", "lon", "alt"):
        if name not in ds.coords:
            report.error("SPDE-D008", f"the stations have no `{name}`", where=where)
        elif set(ds[name].dims) == {"time", "station"}:
            report.error("SPDE-D023", "stations move: positions depend on time", where=locate(where, name),
                         do="give a station a new id wherever it moves")  # fmt: skip
        elif ds[name].dims != ("station",):
            report.error("SPDE-D030", f"`{name}` has dimensions {ds[name].dims}, expected ('station',)", where=where)
    if report.ok and ds["time"].dtype.kind != "M":
        single = ds["time"].dtype == np.float32
        why = "float32 resolves times since 1970 only to two minutes" if single else ""
        report.error("SPDE-D010", f"`time` is {ds['time'].dtype}, not a time", where=locate(where, "time"), why=why,
                     do=f"declare its format and reference in a column map: {_INGEST} --map FILE.toml")  # fmt: skip
    if report.ok and ds.sizes["station"] > _MOST_STATIONS:
        report.error("SPDE-D025", f"{ds.sizes['station']:,} stations, at most {_MOST_STATIONS:,}", where=where)
    observed = [n for n in STATE_VARIABLES if n in ds]
    if not observed:
        report.error("SPDE-D031", f"none of {', '.join(STATE_VARIABLES)} is in the data", where=where,
                     why=f"found {', '.join(map(str, ds.data_vars)) or 'nothing'}")  # fmt: skip
    for key in ds.data_vars:
        _check_variable(report, ds, str(key), where)
    return report.ok


def _check_variable(report: ProblemReport, ds: xr.Dataset, name: str, where: str) -> None:
    base = name.removesuffix("_flag")
    if base not in VARIABLES:
        return
    array, place = ds[name], locate(where, name)
    if array.dims != ("time", "station"):
        report.error("SPDE-D030", f"`{name}` has dimensions {array.dims}, expected ('time', 'station')", where=place)
    elif name != base:
        if array.dtype != np.uint8:
            report.error("SPDE-D030", f"`{name}` is {array.dtype}, flags are uint8", where=place)
        return
    elif array.dtype.kind != "f":
        report.error("SPDE-D030", f"`{name}` is {array.dtype}, expected float32", where=place)
    expected, declared = cf_attributes(base)["units"], array.attrs.get("units")
    if declared is not None and declared not in (expected, variable(base).unit):
        report.error("SPDE-D032", f"`{name}` is in [{declared}], a store holds [{expected}]", where=place,
                     do=f"{_INGEST} --unit {base}={declared}   converts it")  # fmt: skip


def _check_stations(report: ProblemReport, ds: xr.Dataset, ids: list[str], where: str) -> None:
    names, counts = np.unique(np.asarray(ids), return_counts=True)
    if names.size < len(ids):
        twice = names[counts > 1]
        report.error("SPDE-D033", f"{twice.size} station ids occur more than once",
                     where=locate(where, "station", stations=twice), why=f"the first {counts[counts > 1][0]} times",
                     do=f"rename or merge them: {_INGEST} --fix   merges those that agree")  # fmt: skip
    odd = [i for i in ids if len(i) > _LONGEST_NAME or printable(i) != i or not i.strip()]
    if odd:
        report.warning("SPDE-D039", f"{len(odd)} station ids are empty, very long or hold control characters",
                       where=locate(where, "station", stations=[i[:_LONGEST_NAME] for i in odd]))  # fmt: skip
    if len(ids) < _FEW_STATIONS:
        report.warning("SPDE-D025", f"only {len(ids)} stations: interpolation uses all of them", where=where)
    keys = np.stack([np.round(np.asarray(ds[c].values, float) / _SAME_PLACE) for c in ("lat", "lon")])
    _, place, stations_at_place = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    shared = stations_at_place[np.ravel(place)] > 1
    if shared.any():
        report.notice("SPDE-D024", f"{int(shared.sum())} stations stand at the same place as another",
                      where=locate(where, stations=np.asarray(ids)[shared], out_of=len(ids)))  # fmt: skip


def _blocks(ds: xr.Dataset, names: list[str]) -> Iterator[dict[str, Array]]:
    for start in range(0, ds.sizes["time"], _ROWS):
        block = ds[names].isel(time=slice(start, start + _ROWS)).compute()
        yield {name: np.asarray(block[name].values) for name in names}


def _check_content(report: ProblemReport, ds: xr.Dataset, subject: Subject) -> None:
    names = [str(n) for n in ds.data_vars if str(n) in VARIABLES]
    stations = ds.sizes["station"]
    tallies = {name: _Tally(name, stations) for name in names}
    observed = [n for n in names if n in STATE_VARIABLES]
    empty_times = 0
    for block in _blocks(ds, names):
        anything = np.zeros(next(iter(block.values())).shape[0], bool)
        for name, values in block.items():
            finite = tallies[name].add(values)
            if name in observed:
                anything |= finite.any(axis=1)
        empty_times += int((~anything).sum())
    if empty_times == ds.sizes["time"]:
        report.error("SPDE-D019", "nothing was observed at all", where=subject.source)
        return
    if empty_times:
        report.notice("SPDE-D028", f"no station reports at {empty_times:,} of {ds.sizes['time']:,} times",
                      where=subject.source, do="windows that need these times are skipped")  # fmt: skip
    for name in names:
        _report_tally(report, tallies[name], subject)
    silent_stations = np.all([tallies[n].reports_of_station == 0 for n in observed], axis=0)
    if silent_stations.any():
        report.notice("SPDE-D020", f"{counted(int(silent_stations.sum()), 'station')} without any report",
                      where=locate(subject.source, stations=subject.ids(silent_stations), out_of=stations),
                      do="nothing: they are left out of training and forecast from the field")  # fmt: skip


def _report_tally(report: ProblemReport, tally: _Tally, subject: Subject) -> None:
    name, where = tally.name, subject.where(tally.name)
    row = variable(name)
    if tally.reports_of_station.sum() == 0:
        standard = f"{subject.command} --missing p={PressureKind.STANDARD_ATMOSPHERE.option}"
        report.error("SPDE-D019", f"{row.long_name.lower()} is missing everywhere", where=where,
                     do=standard if name == "p" else f"leave `{name}` out of the source or its column map")  # fmt: skip
        return
    if tally.infinite:
        report.warning(
            "SPDE-D038", f"{tally.infinite:,} values of {name} are infinite and count as missing", where=where
        )
    if tally.impossible:
        low, high = (to_display(name, bound) for bound in row.hard)
        report.warning("SPDE-D011", f"{tally.impossible:,} values of {name} are outside the physical range",
                       where=where,
                       why=f"{to_display(name, tally.worst):.6g}, allowed {low:.6g} to {high:.6g} {row.display}",
                       do="`stationpde data ingest` flags them by quality control")  # fmt: skip
    if tally.above_saturation:
        report.notice("SPDE-D029", f"{tally.above_saturation:,} humidities are above saturation", where=where,
                      why=f"up to {to_display(name, tally.high):.4g} %, kept and flagged as doubtful")  # fmt: skip
    if tally.low == tally.high and tally.reports_of_station.sum() > 1:
        report.warning("SPDE-D026", f"{row.long_name.lower()} never changes", where=where,
                       why=f"{to_display(name, tally.low):.6g} {row.display} throughout")  # fmt: skip


def _check_plausible(
    report: ProblemReport, ds: xr.Dataset, subject: Subject, lat: Array, lon: Array, alt: Array
) -> None:
    """Check units and the consistency of the network, on a sample of the record spread over all hours."""
    count = ds.sizes["time"]
    picked = np.arange(count)
    if count > _ROWS:
        picked = np.sort(np.random.default_rng(count).choice(count, _ROWS // 2, replace=False))
    names = [n for n in STATE_VARIABLES if n in ds]
    sample = ds[names].isel(time=picked).compute()
    implausible = ProblemReport()
    for name in names:
        values = check_values(name, sample[name].values, variable(name).unit, subject)
        # Impossible values were counted over the whole record.
        implausible.extend(ProblemReport(p for p in values if not (p.code == "SPDE-D011" and "outside" in p.what)))
    kind = PressureKind.of(ds.attrs)
    if "p" in names and kind != PressureKind.STANDARD_ATMOSPHERE and implausible.ok:
        implausible.extend(check_pressure_profile(sample["p"].values, alt, subject, kind=kind))
    if "t" in names and report.ok and implausible.ok:
        times = ds["time"].values[picked]
        implausible.extend(check_daily_cycle(sample["t"].values, times, lat, lon, subject))
    report.extend(implausible)
