"""Convert blocks of a file to SI by their declared units: blank out codes for missing, keep a sample, check it.

The survey passes every block of a source through one `UnitGate`, which keeps a sample of each, and asks for the report
once, after the last block. The pass that writes the store converts by another, which keeps nothing. The gate converts
by declaration and reports by plausibility; what looks implausible is never converted differently.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fields.checks import (
    Sample,
    Subject,
    check_coordinates,
    check_daily_cycle,
    check_neighbours,
    check_pressure_profile,
    check_values,
    check_wind_direction,
    sentinel_mask,
    twin_stations,
)
from fields.derive import wind_components
from fields.errors import Problem, ProblemReport, counted
from fields.units import conversion, to_si
from fields.variables import PressureKind

__all__ = ["ConvertedBlock", "UnitGate"]

Array = np.ndarray[Any, Any]

# Steps of each block that are kept for the checks, and the largest number of kept steps.
_ROWS_OF_BLOCK = 64
_MOST_ROWS = 4096
_FAR_SPEEDS = 1.0  # m/s between two winds of one source
_ABOVE = 0.5  # K by which a dew point may exceed the temperature
_MOSTLY = 0.2  # share of values above which that is no matter of single ones


@dataclass(frozen=True, slots=True)
class ConvertedBlock:
    """A block in SI: ``values`` float32 with NaN for missing, ``codes`` where the source wrote a code for missing."""

    values: Array
    codes: Array


@dataclass
class UnitGate:
    """Converter of one source's blocks that keeps enough of them to check their plausibility in `report`.

    Parameters
    ----------
    units : declared unit of every variable
    stations : station ids in the order of the arrays' last axis
    source : name of the file, for messages
    command : the command to which messages add options
    trust : variables whose values the user vouches for; findings about them are warnings
    keeps_sample : whether sample and counts are kept; without them there is nothing to report
    """

    units: Mapping[str, str]
    stations: Sequence[Any] = ()
    source: str = ""
    command: str = "stationpde data ingest SRC -o OUT.zarr"
    trust: Collection[str] = ()
    keeps_sample: bool = True
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    _rows: dict[str, list[tuple[Array, Array, Array]]] = field(default_factory=dict, repr=False)

    @property
    def subject(self) -> Subject:
        """Source, stations and command that the findings name."""
        return Subject(self.source, self.stations, self.command, self.trust)

    def convert(
        self, name: str, values: Array, *, times: Array | None = None, columns: slice | Array | None = None
    ) -> ConvertedBlock:
        """Convert a block ``[time, station]`` of one variable to SI; keep a sample of it for the report.

        Parameters
        ----------
        name : name of the variable
        values : numbers in the declared unit
        times : times of the rows, datetime64; the check of the daily cycle needs them
        columns : stations that the block holds, all by default
        """
        plain = np.asarray(values)
        unit = self.units[name]
        infinite = np.isinf(plain)
        codes = sentinel_mask(name, plain, unit) | infinite
        clean = np.where(codes, np.nan, plain)
        if self.keeps_sample:
            tally = self.counts.setdefault(name, {"values": 0, "missing": 0, "codes": 0, "infinite": 0})
            tally["values"] += plain.size
            tally["missing"] += int(np.isnan(clean).sum())
            tally["codes"] += int(codes.sum())
            tally["infinite"] += int(infinite.sum())
            self._keep_sample(name, clean, times, columns)
        return ConvertedBlock(np.asarray(to_si(name, clean.astype(np.float64), unit)).astype(np.float32), codes)

    def _keep_sample(self, name: str, clean: Array, times: Array | None, columns: slice | Array | None) -> None:
        """Keep a sample of a block's rows for the checks."""
        table = clean if clean.ndim > 1 else clean[:, None]
        if table.shape[0] == 0:
            return
        picked = _sample_rows(table.shape[0])
        every = np.arange(max(len(self.stations), table.shape[1]))
        places = every if columns is None else every[columns]
        when = np.full(picked.size, np.datetime64("NaT"), "datetime64[s]")
        if times is not None:
            when = np.asarray(times)[picked].astype("datetime64[s]")
        rows = self._rows.setdefault(name, [])
        rows.append((when, places, table[picked].astype(np.float32)))
        if len(rows) > _MOST_ROWS // _ROWS_OF_BLOCK and places.size == every.size:
            self._rows[name] = rows[::2]  # thinned evenly: early and late blocks keep equal shares

    def sample(self, name: str) -> tuple[Array, Array]:
        """Return times and values ``[time, station]`` of a variable's sample, in the declared unit."""
        rows = self._rows.get(name, [])
        width = max([len(self.stations), *(int(places.max()) + 1 for _, places, _ in rows if places.size)])
        parts = []
        for _, places, table in rows:
            part = np.full((table.shape[0], width), np.nan, np.float32)
            part[:, places] = table
            parts.append(part)
        times = np.concatenate([when for when, _, _ in rows]) if rows else np.empty(0, "datetime64[s]")
        return times, np.concatenate(parts) if parts else np.empty((0, width), np.float32)

    def report(
        self,
        lat: Array | None = None,
        lon: Array | None = None,
        alt: Array | None = None,
        *,
        pressure_kind: PressureKind = PressureKind.STATION,
    ) -> ProblemReport:
        """Check the sample of all blocks so far; coordinates (degrees, metres) add the checks across stations."""
        report = ProblemReport()
        subject = self.subject
        if lat is not None and lon is not None and alt is not None:
            report.extend(check_coordinates(lat, lon, alt, subject))
        samples = {name: self.sample(name) for name in self._rows}
        for name, (_, values) in samples.items():
            report.extend(check_values(name, values, self.units[name], subject))
        self._check_wind(report, samples)
        self._check_dew_point(report, samples)
        errors = {problem.code for problem in report.errors}
        if alt is not None and "p" in samples and not errors & {"SPDE-D012", "SPDE-D015"}:
            pressure = conversion("p", self.units["p"]).to_si(samples["p"][1].astype(np.float64))
            report.extend(check_pressure_profile(pressure, alt, subject, kind=pressure_kind))
        if "t" in samples and lat is not None and lon is not None and report.ok:
            times, values = samples["t"]
            timed = ~np.isnat(times)
            order = np.argsort(times[timed])
            report.extend(check_daily_cycle(values[timed][order], times[timed][order], lat, lon, subject))
        if lat is not None and lon is not None and report.ok:
            self._check_direction(report, samples, (lat, lon))
            self._check_stations(report, samples, lat, lon, alt)
        self._report_codes(report)
        return report

    def _check_wind(self, report: ProblemReport, samples: Mapping[str, tuple[Array, Array]]) -> None:
        """Check wind components by their speed, whose plausible range is narrower."""
        if not {"u", "v"} <= samples.keys() or self.units["u"] != self.units["v"] or not report.ok:
            return
        u, v = samples["u"][1], samples["v"][1]
        if u.shape == v.shape:
            problems = check_values("ff", np.hypot(u, v), self.units["u"], self.subject, declared_as=("u", "v"))
            report.extend(ProblemReport(problem for problem in problems if problem.severity != "notice"))

        if {"ff", "dd"} <= samples.keys() and samples["ff"][1].shape == u.shape:
            speed = to_si("u", np.hypot(u, v).astype(np.float64), self.units["u"])
            with np.errstate(invalid="ignore"):
                apart = np.abs(speed - to_si("ff", samples["ff"][1].astype(np.float64), self.units["ff"]))
            if np.isfinite(apart).any() and np.nanmedian(apart) > _FAR_SPEEDS:
                report.warning(
                    "SPDE-D128", "u and v are another wind than ff and dd; u and v are read",
                    where=self.subject.where("u, v"), why=f"their speeds differ by {np.nanmedian(apart):.2g} m/s",
                    do="remove the pair that is not meant",
                )  # fmt: skip

    def _check_dew_point(self, report: ProblemReport, samples: Mapping[str, tuple[Array, Array]]) -> None:
        """Check that the dew point is not above the temperature: exchanged columns, or the difference of the two."""
        if not {"t", "td"} <= samples.keys() or not report.ok or samples["t"][1].shape != samples["td"][1].shape:
            return
        t, td = (to_si(name, samples[name][1].astype(np.float64), self.units[name]) for name in ("t", "td"))
        both = np.isfinite(t) & np.isfinite(td)
        share = float(np.mean(td[both] > t[both] + _ABOVE)) if both.any() else 0.0
        if share > _MOSTLY:
            self.subject.add(report, "td", Problem(
                "SPDE-D012", "the dew point is above the temperature", self.subject.where("td"),
                f"{share:.0%} of all values; are t and td exchanged, or is td the difference of the two?",
                f"correct the names of the columns; if the values are right: {self.command} --trust td",
            ))  # fmt: skip

    def _check_direction(
        self, report: ProblemReport, samples: Mapping[str, tuple[Array, Array]], places: tuple[Array, Array]
    ) -> None:
        """Check that the wind turns round lows as it should, if wind and pressure were sampled at the same times."""
        pressure = "p" if "p" in samples else "psl"
        wind: Literal["dd", "u"] = "dd" if "dd" in samples else "u"
        names = (pressure, *(("ff", "dd") if wind == "dd" else ("u", "v")))
        if not set(names) <= samples.keys():
            return
        times = samples[pressure][0]
        if not all(np.array_equal(times, samples[name][0]) for name in names):  # NaT is never equal: no times, no check
            return
        p, first, second = (to_si(n, samples[n][1].astype(np.float64), self.units[n]) for n in names)
        u, v = wind_components(first, second) if wind == "dd" else (first, second)
        declared = self.units.get("dd", "degrees")
        report.extend(check_wind_direction(p, u, v, times, places, self.subject, wind, declared))

    def _check_stations(
        self, report: ProblemReport, samples: Mapping[str, tuple[Array, Array]], lat: Array, lon: Array,
        alt: Array | None,
    ) -> None:  # fmt: skip
        """Compare every station with its neighbours and its own record, and find stations under two ids."""
        height = np.zeros(len(lat)) if alt is None else alt
        tables = {name: Sample(values, self.units[name]) for name, (_, values) in samples.items()}
        report.extend(check_neighbours(tables, lat, lon, height, self.subject))
        pairs = twin_stations({name: table.values for name, table in tables.items()}, lat, lon)
        if pairs:
            second = np.isin(np.arange(len(lat)), [two for _, two in pairs])
            ids = self.subject.ids(np.ones(len(lat), bool))
            named = ", ".join(f"{ids[one]} = {ids[two]}" for one, two in pairs[:3])
            report.warning(
                "SPDE-D024", f"{counted(len(pairs), 'station')} with the values of another: one under two ids?",
                where=self.subject.where("", second), why=named,
                do=f"leave one of each out: {self.subject.dropping(second)}",
            )  # fmt: skip

    def _report_codes(self, report: ProblemReport) -> None:
        """Note how many values were codes for missing."""
        for name, tally in self.counts.items():
            if tally["codes"]:
                report.notice(
                    "SPDE-D018",
                    f"{tally['codes']:,} of {tally['values']:,} values of {name} are codes for missing or not finite",
                    where=self.subject.where(name),
                    why=f"{tally['infinite']:,} of them infinite" if tally["infinite"] else "",
                )


def _sample_rows(rows: int) -> Array:
    """Choose rows of a block, the same ones in every run, at all hours: a fixed stride could fall on midnight alone."""
    if rows <= _ROWS_OF_BLOCK:
        return np.arange(rows)
    return np.sort(np.random.default_rng(rows).choice(rows, _ROWS_OF_BLOCK, replace=False))
