"""Score quality control: put errors of known place and kind into a real record and count how many are flagged.

A gross error is one that a forecaster sees at a glance; a subtle one is a few times the weather's own variation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from fields.constants import p_standard
from fields.derive import standard_pressure
from fields.qc.control import check_quality
from fields.qc.flags import MASKING
from fields.units import conversion
from fields.variables import from_display

__all__ = ["QualityScore", "quality_report", "seed_errors"]

Array = np.ndarray[Any, Any]

KINDS = ("spike", "stuck", "unit", "swap", "drift")
# Sizes of seeded spikes in display units: (smallest, largest) of gross and of subtle ones.
_SPIKES = {
    "u": ((15.0, 30.0), (7.0, 10.0)), "v": ((15.0, 30.0), (7.0, 10.0)), "p": ((12.0, 30.0), (3.0, 5.0)),
    "t": ((12.0, 25.0), (5.0, 8.0)), "rh": ((50.0, 80.0), (25.0, 40.0)),
}  # fmt: skip
# A drift reaches the second figure; its values count as errors once they are off by the first.
_DRIFTS = {"p": (3.5, 8.0), "t": (3.5, 8.0), "rh": (18.0, 45.0)}
# Unit slips: (the unit of the numbers, the unit they are taken for). Subtle for pressure is one that was reduced to
# the sea at a station so low that it hides.
_SLIPS: dict[str, dict[str, tuple[str, str]]] = {
    "gross": {
        "t": ("degF", "degC"),
        "p": ("mmHg", "hPa"),
        "rh": ("1", "%"),
        "u": ("km/h", "m/s"),
        "v": ("km/h", "m/s"),
    },
    "subtle": {"u": ("kt", "m/s"), "v": ("kt", "m/s")},
}
_DRIFT_DAYS = 60
_SWAP_DAYS = 60
_STUCK_HOURS = {"gross": (48, 240), "subtle": (14, 30)}


@dataclass
class Seeds:
    """A record with errors in it. ``truth[name][time, station]``: 0 untouched, else 1 + index into ``labels``."""

    ds: xr.Dataset
    truth: dict[str, Array]
    labels: list[tuple[str, str]] = field(default_factory=list)

    def label(self, kind: str, grade: str) -> int:
        """Return the number that marks a kind and grade in ``truth``."""
        if (kind, grade) not in self.labels:
            self.labels.append((kind, grade))
        return self.labels.index((kind, grade)) + 1


@dataclass(frozen=True, slots=True)
class QualityScore:
    """Counts of a scored record.

    ``hits`` maps (kind, grade, variable) to flagged and seeded values, ``alarms`` a variable to flagged and all
    untouched values.
    """

    hits: dict[tuple[str, str, str], tuple[int, int]]
    alarms: dict[str, tuple[int, int]]

    def rate(self, *, kind: str | None = None, grade: str | None = None, name: str | None = None) -> float:
        """Return the share of seeded values that were flagged."""
        rows = [
            n for (k, g, v), n in self.hits.items()
            if kind in (None, k) and grade in (None, g) and name in (None, v)
        ]  # fmt: skip
        seeded = sum(total for _, total in rows)
        return sum(hit for hit, _ in rows) / seeded if seeded else float("nan")

    def alarm_rate(self, name: str | None = None) -> float:
        """Return the share of untouched values that were flagged."""
        rows = [n for v, n in self.alarms.items() if name in (None, v)]
        return sum(hit for hit, _ in rows) / max(1, sum(total for _, total in rows))

    def kind_mean(self, grade: str) -> float:
        """Return the mean rate over kinds of error, so that long ones do not outweigh the others."""
        kinds = sorted({k for k, g, _ in self.hits if g == grade})
        return float(np.mean([self.rate(kind=k, grade=grade) for k in kinds]))

    def to_dict(self) -> dict[str, Any]:
        """Return the score for machines."""
        rows = [
            {"kind": k, "grade": g, "variable": v, "seeded": total, "flagged": hit}
            for (k, g, v), (hit, total) in sorted(self.hits.items())
        ]
        grades = {g: {"values": self.rate(grade=g), "kinds": self.kind_mean(g)} for g in ("gross", "subtle")}
        return {"errors": rows, **grades, "untouched": {v: self.alarm_rate(v) for v in self.alarms}}

    def lines(self) -> list[str]:
        """Return the table for people, in per cent flagged."""
        names = list(self.alarms)
        out = [f"{'error':<8}{'grade':<8}{'seeded':>8}  " + "".join(f"{n:>8}" for n in names) + f"{'all':>8}"]
        for kind, grade in sorted({(k, g) for k, g, _ in self.hits}, key=lambda x: (x[1], KINDS.index(x[0]))):
            seeded = sum(total for (k, g, _), (_, total) in self.hits.items() if (k, g) == (kind, grade))
            cells = [self.rate(kind=kind, grade=grade, name=n) for n in names]
            shown = "".join(f"{'-' if np.isnan(c) else format(100 * c, '.1f'):>8}" for c in cells)
            out.append(f"{kind:<8}{grade:<8}{seeded:>8}  {shown}{100 * self.rate(kind=kind, grade=grade):>8.1f}")
        for grade in ("gross", "subtle"):
            out.append(f"{'all':<8}{grade:<8}{'':>8}  values {100 * self.rate(grade=grade):.1f} %, "
                       f"mean over kinds {100 * self.kind_mean(grade):.1f} %")  # fmt: skip
        alarms = "".join(f"{100 * self.alarm_rate(n):>8.2f}" for n in names)
        total = sum(n for _, n in self.alarms.values())
        return [*out, f"{'none':<16}{total:>8}  {alarms}{100 * self.alarm_rate():>8.2f}"]


def quality_report(ds: xr.Dataset, *, seed: int = 0) -> QualityScore:
    """Seed errors into a record, run quality control, and score it.

    Untouched values that the record's own faults make bad count as false alarms, so the rate is an upper bound.
    """
    seeds = seed_errors(ds, seed=seed)
    flags = check_quality(seeds.ds)
    hits: dict[tuple[str, str, str], tuple[int, int]] = {}
    alarms: dict[str, tuple[int, int]] = {}
    for name, truth in seeds.truth.items():
        there = np.isfinite(seeds.ds[name].values)
        flagged = (flags[f"{name}_flag"].values & int(MASKING)) > 0
        clean = there & (truth == 0)
        alarms[name] = int((flagged & clean).sum()), int(clean.sum())
        for number, (kind, grade) in enumerate(seeds.labels, start=1):
            chosen = there & (truth == number)
            if chosen.any():
                hits[kind, grade, name] = int((flagged & chosen).sum()), int(chosen.sum())
    return QualityScore(hits, alarms)


def seed_errors(ds: xr.Dataset, *, seed: int = 0) -> Seeds:
    """Put spikes, stuck runs, unit slips, exchanged stations and drifts into a copy of a record (hourly, SI)."""
    rng = np.random.default_rng(seed)
    names = [n for n in ("u", "v", "p", "t", "rh") if n in ds]
    spoiled = ds[names].copy(deep=True).load()
    seeds = Seeds(spoiled, {n: np.zeros(spoiled[n].shape, np.int16) for n in names})
    shape = spoiled[names[0]].shape
    share = shape[0] * shape[1] / (17544 * 103)  # numbers below are for two years of a hundred stations
    _seed_swaps(seeds, rng, max(1, round(4 * share)))
    for name in names:
        if name == "v":  # seeded with u
            continue
        _seed_runs(seeds, name, rng, "drift", "subtle", max(1, round(10 * share)))
        _seed_runs(seeds, name, rng, "unit", "gross", max(2, round(12 * share)))
        _seed_runs(seeds, name, rng, "unit", "subtle", max(1, round(8 * share)))
        for grade in ("gross", "subtle"):
            _seed_runs(seeds, name, rng, "stuck", grade, max(2, round(25 * share)))
    for name in names:
        _seed_spikes(seeds, name, rng, max(20, round(400 * share)))
    return seeds


def _values(seeds: Seeds, name: str) -> Array:
    return seeds.ds[name].values


def _seed_spikes(seeds: Seeds, name: str, rng: np.random.Generator, count: int) -> None:
    values, truth = _values(seeds, name), seeds.truth[name]
    low, high = (0.0, 1.0) if name == "rh" else (-np.inf, np.inf)
    for grade, bounds in zip(("gross", "subtle"), _SPIKES[name]):
        number, placed = seeds.label("spike", grade), 0
        while placed < count:
            t, s = int(rng.integers(2, values.shape[0] - 2)), int(rng.integers(values.shape[1]))
            if not np.isfinite(values[t, s]) or truth[t - 2 : t + 3, s].any():
                continue
            size = from_display(name, rng.uniform(*bounds), difference=True) * rng.choice([-1.0, 1.0])
            if not low <= values[t, s] + size <= high:
                size = -size
            if not low <= values[t, s] + size <= high:
                continue
            values[t, s] += size
            truth[t, s] = number
            placed += 1


def _seed_runs(seeds: Seeds, name: str, rng: np.random.Generator, kind: str, grade: str, count: int) -> None:
    make = _maker(name, kind, grade)
    if make is None:
        return
    number = seeds.label(kind, grade)
    names = ("u", "v") if name == "u" else (name,)  # the anemometer is one instrument
    rows, stations = seeds.ds.sizes["time"], seeds.ds.sizes["station"]
    placed = tries = 0
    while placed < count and tries < 5000:
        tries += 1
        hours = min(_length(kind, grade, rng), rows // 3)
        t, s = int(rng.integers(0, rows - hours)), int(rng.integers(stations))
        span = slice(t, t + hours)
        if any(seeds.truth[n][span, s].any() or np.isnan(_values(seeds, n)[span, s]).mean() > 0.2 for n in names):
            continue
        before = {n: _values(seeds, n)[span, s].copy() for n in names}
        if kind == "stuck" and _repeats_by_nature(before):
            continue
        alt = float(seeds.ds["alt"].values[s])
        after = {n: make(before[n], alt) for n in names}
        if any(new is None for new, _ in after.values()):
            continue
        for n, (new, wrong) in after.items():
            there = np.isfinite(before[n])
            _values(seeds, n)[span, s] = np.where(there, new, np.nan)
            # What is off by less than counts is neither an error nor untouched.
            seeds.truth[n][span, s] = np.where(wrong & there, number, -1)
        placed += 1


def _repeats_by_nature(before: dict[str, Array]) -> bool:
    """Return True in calm air and fog, where a sensor that repeats itself is not stuck."""
    first = {name: values[np.isfinite(values)][0] for name, values in before.items()}
    return float(np.hypot(first.get("u", 9.0), first.get("v", 9.0))) < 0.5 or first.get("rh", 0.0) > 0.92


def _length(kind: str, grade: str, rng: np.random.Generator) -> int:
    if kind == "stuck":
        return int(rng.integers(*_STUCK_HOURS[grade]))
    if kind == "drift":
        return _DRIFT_DAYS * 24
    return int(rng.integers(24, 240)) if grade == "gross" else int(rng.integers(240, 720))


def _maker(name: str, kind: str, grade: str) -> Callable[[Array, float], tuple[Any, Any]] | None:
    everywhere = lambda x: np.ones(x.shape, bool)
    if kind == "stuck":

        def stuck(x: Array, alt: float) -> tuple[Any, Any]:
            first = x[np.isfinite(x)][0]
            return np.full_like(x, first), x != first

        return stuck
    if kind == "drift":
        if name not in _DRIFTS:
            return None
        least, most = (from_display(name, d, difference=True) for d in _DRIFTS[name])

        def drift(x: Array, alt: float) -> tuple[Any, Any]:
            sign = 1.0 if name != "rh" else -1.0
            off = np.linspace(0.0, most, x.size)
            after = x + sign * off
            if name == "rh":
                after = np.maximum(after, 0.01)
            return after, np.abs(after - x) >= least

        return drift
    slip = _SLIPS[grade].get(name)
    if slip is not None:
        true, declared = (conversion(name, unit) for unit in slip)
        return lambda x, alt: (declared.to_si(true.from_si(x)), everywhere(x))
    if name == "p":
        return lambda x, alt: (
            (x * p_standard / standard_pressure(alt), everywhere(x)) if 40 < alt < 200 else (None, None)
        )
    return None


def _seed_swaps(seeds: Seeds, rng: np.random.Generator, pairs: int) -> None:
    number = seeds.label("swap", "gross")
    alt = np.asarray(seeds.ds["alt"].values, float)
    hours = min(_SWAP_DAYS * 24, seeds.ds.sizes["time"] // 4)
    placed = tries = 0
    used: set[int] = set()
    while placed < pairs and tries < 1000:
        tries += 1
        a, b = (int(i) for i in rng.choice(alt.size, 2, replace=False))
        if abs(alt[a] - alt[b]) < 200 or {a, b} & used:
            continue
        used |= {a, b}
        t = int(rng.integers(0, seeds.ds.sizes["time"] - hours))
        span = slice(t, t + hours)
        for name, truth in seeds.truth.items():
            values = _values(seeds, name)
            values[span, a], values[span, b] = values[span, b].copy(), values[span, a].copy()
            truth[span, [a, b]] = number
        placed += 1
