"""Describe a record in a data card: on one screen and as a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields.constants import earth_radius
from fields.errors import printable
from fields.qc import MASKING, Flag
from fields.times import format_span, format_time
from fields.variables import STATE_VARIABLES, VARIABLES, PressureKind, display_unit, to_display

__all__ = ["DataCard", "VariableCard", "data_card"]

Array = np.ndarray[Any, Any]

_ROWS = 4096
# Bins between the hard limits that a first pass counts values in; a second pass looks into those of the percentiles.
_BINS = 2000
_SHARES = (0.01, 0.5, 0.99)


@dataclass(frozen=True, slots=True)
class VariableCard:
    """One variable, in display units: shares of missing and flagged values, percentiles, and flags by test."""

    name: str
    long_name: str
    unit: str
    missing: float
    flagged: float
    low: float
    p01: float
    median: float
    p99: float
    high: float
    flags: dict[str, int]


@dataclass(frozen=True, slots=True)
class DataCard:
    """Summary of a record; ``missing`` counts what was not observed, ``flagged`` what was observed and failed."""

    title: str
    source: str
    reader: str
    stations: int
    times: int
    first: str
    last: str
    step_seconds: int
    pressure_kind: PressureKind
    latitude: tuple[float, float]
    longitude: tuple[float, float]
    altitude: tuple[float, float, float]
    spacing_km: float
    variables: tuple[VariableCard, ...]
    complete_stations: int
    worst_stations: tuple[tuple[str, float], ...]
    fingerprint: str = ""
    bytes_on_disk: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the card for machines; unknown figures are None."""
        return _without_nan(asdict(self))

    def lines(self) -> list[str]:
        """Return the card for people, as lines."""
        low, middle, high = self.altitude
        apart = f", typically {self.spacing_km:.0f} km apart" if self.spacing_km == self.spacing_km else ""
        heights = f"{low:.0f} to {high:.0f} m, median {middle:.0f} m" if middle == middle else "unknown"
        width = 1 + max([5, *(len(v.name) for v in self.variables)])
        out = [
            printable(self.title or self.source or "station record"),
            f"  source     {printable(self.source)} (reader {printable(self.reader)}), pressure: {self.pressure_kind}",
            f"  stations   {self.stations:,}{apart}; latitude "
            f"{self.latitude[0]:.2f} to {self.latitude[1]:.2f}, longitude {self.longitude[0]:.2f} to "
            f"{self.longitude[1]:.2f}",
            f"  altitude   {heights}",
            f"  times      {self.times:,} from {self.first} to {self.last} UTC, "
            f"every {format_span(self.step_seconds, ' ')}",
        ]
        if self.fingerprint:
            out.append(f"  store      {self.bytes_on_disk / 1e6:.1f} MB, fingerprint {self.fingerprint[:12]}")
        columns = "".join(f"{head:>9}" for head in ("missing", "flagged", "lowest", "1 %", "median", "99 %", "highest"))
        out += ["", f"  {'':<{width}}{'unit':<6}{columns}"]
        for v in self.variables:
            cells = "".join(f"{x:>9.1f}" for x in (v.low, v.p01, v.median, v.p99, v.high))
            out.append(f"  {v.name:<{width}}{v.unit:<6}{v.missing:>9.1%}{v.flagged:>9.2%}{cells}")
        absent = [name for name in STATE_VARIABLES if name not in {v.name for v in self.variables}]
        if absent:
            out += ["", f"  absent {', '.join(absent)}: a model is trained without them and does not forecast them"]
        failed = [
            f"{v.name}: " + ", ".join(f"{k} {n:,}" for k, n in v.flags.items() if n)
            for v in self.variables
            if any(v.flags.values())
        ]
        if failed:
            out += ["", "  flags  " + "; ".join(failed)]
        if self.worst_stations:
            worst = ", ".join(f"{printable(name)} {share:.0%}" for name, share in self.worst_stations)
            whole = "1 station lacks" if self.complete_stations == 1 else f"{self.complete_stations:,} stations lack"
            out.append(f"  gaps   {whole} less than 5 %; most gaps: {worst}")
        return out


def data_card(ds: xr.Dataset, *, path: Path | None = None) -> DataCard:
    """Describe a record, reading it block by block.

    Parameters
    ----------
    ds : the in-memory form, opened with ``masked=False`` so that flagged values are counted as flagged
    path : of the store, for its size and fingerprint
    """
    names = [n for n in (*STATE_VARIABLES, *VARIABLES) if n in ds]
    names = list(dict.fromkeys(names))
    tallies = {name: _Tally(name, ds.sizes["station"]) for name in names}
    for block in _blocks(ds, names):
        for name in names:
            tallies[name].add(block[name], block.get(f"{name}_flag"))
    for block in _blocks(ds, names):
        for name in names:
            tallies[name].count_within_bins(block[name], block.get(f"{name}_flag"))
    times = ds.sizes["time"]
    counted = [tallies[n].present for n in names if n in STATE_VARIABLES and tallies[n].present.any()]
    gaps = 1 - np.mean(counted, axis=0) / max(times, 1) if counted else np.ones(ds.sizes["station"])
    order = np.argsort(-gaps, kind="stable")[:5]
    lat, lon, alt = (np.asarray(ds[c].values, float) for c in ("lat", "lon", "alt"))
    finite = alt[np.isfinite(alt)]
    heights = (float(finite.min()), float(np.median(finite)), float(finite.max())) if finite.size else (np.nan,) * 3
    stamps = [format_time(t, "minute") for t in ds["time"].values[[0, -1]]] if times else ["", ""]
    step = int(ds.attrs.get("step_seconds") or 0)
    return DataCard(
        title=str(ds.attrs.get("title", "")), source=str(ds.attrs.get("source", "")),
        reader=str(ds.attrs.get("reader", "")), stations=ds.sizes["station"], times=times, first=stamps[0],
        last=stamps[1], step_seconds=step, pressure_kind=PressureKind.of(ds.attrs),
        latitude=(float(lat.min()), float(lat.max())), longitude=_longitudes(lon),
        altitude=heights, spacing_km=_spacing(lat, lon),
        variables=tuple(tallies[name].card(times) for name in names),
        complete_stations=int((gaps < 0.05).sum()),
        worst_stations=tuple((str(ds["station"].values[i]), float(gaps[i])) for i in order if gaps[i] >= 0.05),
        **_store_facts(path),
    )  # fmt: skip


class _Tally:
    """Running counts of one variable: gaps, flags, extremes, and what exact percentiles need.

    A histogram says in which bin each percentile lies; within a bin, values are counted one by one. The middle of the
    bin would not do: most hours have no rain at all, and a median of half a bin would be rain.
    """

    def __init__(self, name: str, stations: int) -> None:
        self.name = name
        self.row = VARIABLES[name]
        self.present = np.zeros(stations, np.int64)
        self.missing = self.flagged = self.values = 0
        self.low, self.high = np.inf, -np.inf
        self.histogram = np.zeros(_BINS, np.int64)
        self.flags = np.zeros(256, np.int64)
        self._bins: dict[int, tuple[list[Array], list[Array]]] | None = None

    def add(self, values: Array, flags: Array | None) -> None:
        there = np.isfinite(values)
        self.values += values.size
        self.missing += int((~there).sum())
        good = there
        if flags is not None:
            bad = (flags & int(MASKING)) > 0
            self.flagged += int((there & bad).sum())
            self.flags += np.bincount(flags.ravel(), minlength=256)
            good = there & ~bad
        self.present += good.sum(axis=0)
        chosen = values[good]
        if chosen.size:
            self.low, self.high = min(self.low, float(chosen.min())), max(self.high, float(chosen.max()))
            self.histogram += np.bincount(self._bin_of(chosen), minlength=_BINS)

    def _bin_of(self, values: Array) -> Array:
        low, high = self.row.hard
        share = (values.astype(np.float64) - low) / (high - low)
        return np.clip((share * _BINS).astype(np.int64), 0, _BINS - 1)

    def count_within_bins(self, values: Array, flags: Array | None) -> None:
        """Count the values of a block, one by one, in the bins of the percentiles."""
        if self._bins is None:
            below = np.cumsum(self.histogram)
            self._bins = {int(np.searchsorted(below, share * below[-1])): ([], []) for share in _SHARES if below[-1]}
        good = np.isfinite(values)
        if flags is not None:
            good &= (flags & int(MASKING)) == 0
        chosen = values[good]
        numbers = self._bin_of(chosen)
        for number, (distinct, counts) in self._bins.items():
            inside, many = np.unique(chosen[numbers == number], return_counts=True)
            distinct.append(inside)
            counts.append(many)

    def card(self, times: int) -> VariableCard:
        shown = lambda x: float(to_display(self.name, x))
        empty = self.histogram.sum() == 0
        points = [np.nan] * 3 if empty else [shown(self._percentile(share)) for share in _SHARES]
        ends = [np.nan] * 2 if empty else [shown(self.low), shown(self.high)]
        each = {str(flag.name).lower(): int(self.flags[np.arange(256) & int(flag) > 0].sum()) for flag in Flag}
        return VariableCard(
            self.name, self.row.long_name, display_unit(self.name), self.missing / max(self.values, 1),
            self.flagged / max(self.values, 1), ends[0], points[0], points[1], points[2], ends[1], each,
        )  # fmt: skip

    def _percentile(self, share: float) -> float:
        """Return the smallest value that at least this share of the values does not exceed."""
        assert self._bins is not None
        below = np.cumsum(self.histogram)
        rank = share * below[-1]
        number = int(np.searchsorted(below, rank))
        values, inverse = np.unique(np.concatenate(self._bins[number][0]), return_inverse=True)
        counts = np.bincount(inverse, np.concatenate(self._bins[number][1]))
        before = below[number] - self.histogram[number]
        return float(values[min(np.searchsorted(before + np.cumsum(counts), rank), values.size - 1)])


def _blocks(ds: xr.Dataset, names: list[str]) -> Iterator[dict[str, Array]]:
    columns = [n for name in names for n in (name, f"{name}_flag") if n in ds]
    for start in range(0, ds.sizes["time"], _ROWS):
        block = ds[columns].isel(time=slice(start, start + _ROWS)).compute()
        yield {n: np.asarray(block[n].values) for n in columns}


def _longitudes(lon: Array) -> tuple[float, float]:
    """Return the western and eastern ends; across the 180th meridian the eastern one exceeds 180."""
    if np.ptp(lon) > 180 and np.ptp(lon % 360) < 180:
        lon = lon % 360
    return float(lon.min()), float(lon.max())


def _spacing(lat: Array, lon: Array) -> float:
    """Return the median distance to the nearest other station [km]."""
    if lat.size < 2:
        return float("nan")
    from scipy.spatial import cKDTree

    phi, lam = np.deg2rad(lat), np.deg2rad(lon)
    sphere = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=1)
    apart, _ = cKDTree(sphere).query(sphere, k=2)
    return float(np.median(apart[:, 1]) * earth_radius / 1e3)


def _store_facts(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    from fields.store.api import fingerprint

    size = sum(p.stat().st_size for p in Path(path).rglob("*") if p.is_file())
    return {"fingerprint": fingerprint(path), "bytes_on_disk": size}


def _without_nan(value: Any) -> Any:
    """Replace NaN, which JSON lacks, by None."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and np.isnan(value) else value
