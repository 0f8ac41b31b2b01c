"""Compare each station with its neighbours and with its own record: another unit or sign, dead sensors, twins.

Values of one station may be plausible and wrong: degrees Fahrenheit among Celsius, a lost sign, an anemometer that has
stood still for years, a zero written for "missing". Each passes every limit, and each differs from what the stations
around it report. All findings are warnings: the values are stored as they are, and the message names the stations.

Thresholds, of the sample that the unit gate keeps (`fields.ingest.gate`). They were raised until windows of 1 to 30
days of INMET, ISD and METAR (60 to 2,214 stations) gave no warning but of one station that is 30 K off; valleys under
an inversion came to 12 K, and to a correlation of -0.6 in a single day:

* temperature, brought to one altitude with 6.5 K/km: in the median 15 K and six times the network's spread from the
  median of three to five stations within 300 km; or a correlation with it below -0.6 in at least 48 values;
* temperatures of exactly 0 in their unit and 8 K from the neighbours: at least five and 1 % of a station's values, and
  more than all others between -3 and 3;
* relative humidity: at least five values and 1 % of a station's are above 0 and at most 1 %, or exactly 0;
* wind: not one value above 0 in at least 48, while fewer than a quarter of the neighbours' are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.checks.remedy import mend_or_drop
from fields.checks.values import Subject
from fields.constants import earth_radius, lapse_standard
from fields.errors import ProblemReport, counted
from fields.units import conversion, to_si

__all__ = ["Sample", "check_neighbours"]

Array = np.ndarray[Any, Any]

# Rows that are compared, and the fewest values of a station that tell anything.
_MOST_ROWS = 256
_FEWEST_VALUES = 20
_FEWEST_CALMS = 48
_FEW_CALMS = 0.25  # share of the neighbours' values
_NEIGHBOURS, _FEWEST_NEIGHBOURS, _NEARBY_M = 5, 3, 300e3
# Temperatures: kelvin, spreads of the network; a difference beyond the third is another unit of the whole column,
# which `check_values` names.
_FAR_K, _FAR_SPREADS, _BEYOND_K = 15.0, 6.0, 120.0
_CONTRARY, _LEAST_CHANGE_K, _FEWEST_PAIRS = -0.6, 1.5, 48
# A unit explains a difference of which it leaves no more than this share.
_LEFT_OVER = 0.34
_LOWEST_HUMIDITY = 0.01
_FEW, _FEW_SHARE = 5, 0.01
_ZERO_FAR_K, _BESIDE_ZERO = 8.0, 3.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Values ``[time, station]`` of a variable in its declared unit, NaN where missing."""

    values: Array
    unit: str

    def rows(self) -> Array:
        """Return at most 256 rows, evenly chosen."""
        chosen = np.linspace(0, len(self.values) - 1, min(len(self.values), _MOST_ROWS)).round().astype(int)
        return np.asarray(self.values[np.unique(chosen)])

    def in_si(self, name: str) -> Array:
        """Return these rows in SI."""
        return np.asarray(to_si(name, self.rows().astype(np.float64), self.unit))


def check_neighbours(
    samples: Mapping[str, Sample], lat: Array, lon: Array, alt: Array, subject: Subject
) -> ProblemReport:
    """Report stations whose temperature, humidity or wind cannot be what it is said to be.

    Parameters
    ----------
    samples : by variable
    lat, lon, alt : degrees and metres, NaN where unknown
    """
    report = ProblemReport()
    near = _Neighbourhood.of(np.asarray(lat, np.float64), np.asarray(lon, np.float64), np.asarray(alt, np.float64))
    if "t" in samples:
        _check_temperature(report, samples["t"], near, subject)
    if "rh" in samples:
        _check_humidity(report, samples["rh"], subject)
    if "ff" in samples or {"u", "v"} <= samples.keys():
        _check_calm(report, samples, near, subject)
    return report


@dataclass(frozen=True, slots=True)
class _Neighbourhood:
    """Indices ``[station, 5]`` of the nearest other stations, whether each is near enough, and altitudes [m]."""

    index: Array
    usable: Array
    alt: Array

    @classmethod
    def of(cls, lat: Array, lon: Array, alt: Array) -> _Neighbourhood:
        from scipy.spatial import cKDTree

        count = lat.size
        placed = np.flatnonzero(np.isfinite(lat) & np.isfinite(lon))
        index = np.zeros((count, _NEIGHBOURS), np.intp)
        usable = np.zeros((count, _NEIGHBOURS), bool)
        if placed.size > 1:
            phi, turn = np.radians(lat[placed]), np.radians(lon[placed])
            sphere = np.stack([np.cos(phi) * np.cos(turn), np.cos(phi) * np.sin(turn), np.sin(phi)], axis=-1)
            number = min(_NEIGHBOURS + 1, placed.size)
            chord = 2.0 * np.sin(_NEARBY_M / earth_radius / 2.0)
            distance, nearest = cKDTree(sphere).query(sphere, k=number)
            # Stations at one place come in any order: the station itself is taken out wherever it stands.
            itself = nearest == np.arange(placed.size)[:, None]
            itself[~itself.any(axis=1), -1] = True
            others = nearest[~itself].reshape(placed.size, number - 1)
            index[placed, : number - 1] = placed[others]
            usable[placed, : number - 1] = distance[~itself].reshape(placed.size, number - 1) <= chord
        return cls(index, usable, np.where(np.isfinite(alt), alt, 0.0))

    def median(self, table: Array) -> Array:
        """Return the median ``[time, station]`` of the neighbours' values; NaN where fewer than three report."""
        around = np.where(self.usable[None], table[:, self.index], np.nan)
        around.sort(axis=2)  # NaN last
        number = np.isfinite(around).sum(axis=2)
        low, high = (np.take_along_axis(around, at[..., None], 2)[..., 0]
                     for at in (np.maximum(number - 1, 0) // 2, np.minimum(number // 2, _NEIGHBOURS - 1)))  # fmt: skip
        return np.where(number >= _FEWEST_NEIGHBOURS, (low + high) / 2.0, np.nan)


def _check_temperature(report: ProblemReport, sample: Sample, near: _Neighbourhood, subject: Subject) -> None:
    rise = lapse_standard * near.alt
    t = sample.in_si("t") + rise
    around = near.median(t)
    level = _middle(t - around)
    if not np.isfinite(level).any():
        return
    spread = 1.4826 * float(np.nanmedian(np.abs(level - np.nanmedian(level))))
    with np.errstate(invalid="ignore"):
        far = (np.abs(level) > max(_FAR_K, _FAR_SPREADS * spread)) & (np.abs(level) < _BEYOND_K)
    contrary = _correlation(t, around) < _CONTRARY
    read_as = _other_unit(t - rise, around - rise, level, sample.unit) if far.any() else np.zeros(far.size, bool)
    other = "degF" if sample.unit != "degF" else "degC"
    for mask, what in (
        (contrary, "falls where that of the neighbours rises: is its sign lost?"),
        (far & read_as & ~contrary, f"looks like {other} among neighbours in {sample.unit}"),
        (far & ~read_as & ~contrary, "lies far from that of the neighbours"),
    ):
        if mask.any():
            first = int(np.flatnonzero(mask)[0])
            report.warning(
                "SPDE-D042", f"{counted(int(mask.sum()), 'station')}: temperature {what}",
                where=subject.where("t", mask),
                why=f"{subject.ids(mask)[0]} is {level[first]:+.1f} K from the stations around it, in the median",
                do=_mend(mask, subject),
            )  # fmt: skip
    with np.errstate(invalid="ignore"):
        size = np.abs(sample.rows())
        zero = (size == 0) & (np.abs(t - around) > _ZERO_FAR_K)
        zero &= zero.sum(axis=0) > ((size > 0) & (size <= _BESIDE_ZERO)).sum(axis=0)  # a frost passes through 1 and -1
    _report_few(report, zero, np.isfinite(t), "t", "temperatures of exactly 0 lie far from the neighbours'", subject)


def _other_unit(t: Array, around: Array, level: Array, unit: str) -> Array:
    """Return the stations that Fahrenheit taken for Celsius, or the contrary, explains."""
    fahrenheit, celsius = conversion("t", "degF"), conversion("t", "degC")
    declared, true = (fahrenheit, celsius) if unit == "degF" else (celsius, fahrenheit)
    reread = true.to_si(declared.from_si(t))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(_middle(reread - around)) < _LEFT_OVER * np.abs(level))


def _check_humidity(report: ProblemReport, sample: Sample, subject: Subject) -> None:
    rh = conversion("rh", sample.unit).to_si(sample.values)
    present = np.isfinite(rh)
    what = "humidities are exactly 0, which no air near the ground has"
    _report_few(report, rh == 0, present, "rh", what, subject)
    with np.errstate(invalid="ignore"):
        tiny = (rh > 0) & (rh <= _LOWEST_HUMIDITY)
    changed = _many(tiny, present)
    if changed.any():
        report.warning(
            "SPDE-D042", f"{int(tiny[:, changed].sum()):,} humidities are at most 1 % beside others in per cent: "
            "does the unit change to a fraction in the record?",
            where=subject.where("rh", changed), why=f"{tiny[:, changed].mean():.0%} of the values looked at",
            do=f"multiply these values by 100 in the source{_or_drop(changed, subject)}",
        )  # fmt: skip


def _check_calm(
    report: ProblemReport, samples: Mapping[str, Sample], near: _Neighbourhood, subject: Subject
) -> None:  # fmt: skip
    name = "ff" if "ff" in samples else "u, v"
    parts = [samples[part].values for part in name.split(", ")]
    if parts[0].shape != parts[-1].shape:
        return
    speed = np.abs(parts[0]) + np.abs(parts[-1])  # 0 where the wind is
    present = np.isfinite(speed)
    with np.errstate(invalid="ignore"):
        still = (present.sum(axis=0) >= _FEWEST_CALMS) & ~np.any(speed != 0, axis=0, where=present)
    if not still.any():
        return
    dead = np.zeros(still.size, bool)
    for station in np.flatnonzero(still).tolist():
        others = near.index[station][near.usable[station]]
        around = speed[present[:, station]][:, others[~still[others]]]
        around = around[np.isfinite(around)]
        dead[station] = still.all() or (around.size >= _FEWEST_CALMS and np.mean(around == 0) < _FEW_CALMS)
    if dead.any():
        report.warning(
            "SPDE-D026", f"{counted(int(dead.sum()), 'station')} without any wind: does the anemometer turn?",
            where=subject.where(name, dead), why="every speed is 0, and the neighbours report wind" if not dead.all()
            else "every speed is 0",
            do="blank out these values in the source" + _or_drop(dead, subject),
        )  # fmt: skip


def _report_few(
    report: ProblemReport, odd: Array, present: Array, name: str, what: str, subject: Subject
) -> None:  # fmt: skip
    many = _many(odd, present)
    if many.any():
        report.warning(
            "SPDE-D018", f"{int(odd[:, many].sum()):,} {what}: is 0 written for missing?",
            where=subject.where(name, many), why=f"{odd[:, many].mean():.0%} of the values looked at",
            do="leave these cells empty in the source" + _or_drop(many, subject),
        )  # fmt: skip


def _many(odd: Array, present: Array) -> Array:
    """Return the stations with at least five odd values that are at least 1 % of theirs, but not all of them."""
    number, total = odd.sum(axis=0), present.sum(axis=0)
    return np.asarray((number >= _FEW) & (number >= _FEW_SHARE * total) & (number < total))


def _middle(table: Array) -> Array:
    """Return the median of every station with enough values, else NaN."""
    enough = np.isfinite(table).sum(axis=0) >= _FEWEST_VALUES
    middle = np.full(table.shape[1], np.nan)
    if enough.any():
        middle[enough] = np.nanmedian(table[:, enough], axis=0)
    return middle


def _correlation(one: Array, two: Array) -> Array:
    """Return the correlation of every station's values with the other table's; NaN where there is too little."""
    both = np.isfinite(one) & np.isfinite(two)
    count = both.sum(axis=0)
    parts = []
    for table in (one, two):
        plain = np.where(both, table, 0.0)
        parts.append(np.where(both, plain - plain.sum(axis=0) / np.maximum(count, 1), 0.0))
    squares = [(part**2).sum(axis=0) for part in parts]
    strong = (count >= _FEWEST_PAIRS) & np.all([s > _LEAST_CHANGE_K**2 * count for s in squares], axis=0)
    size = np.sqrt(squares[0] * squares[1])
    return np.where(strong, (parts[0] * parts[1]).sum(axis=0) / np.where(size > 0, size, 1.0), np.nan)


def _mend(odd: Array, subject: Subject) -> str:
    return "correct these values in the source" + _or_drop(odd, subject)


def _or_drop(odd: Array, subject: Subject) -> str:
    """Write the second half of an advice: to leave the stations out, where that can be typed."""
    return mend_or_drop(odd, subject).removeprefix("correct them in the list of stations")
