"""Survey a source in one pass over all blocks: check its declared units, count what each station reports.

Every value goes through the unit gate, which keeps a sample for its checks; the values of every station are counted,
over the whole record and over the part that training may see.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.errors import ProblemReport, counted, locate
from fields.ingest.gate import UnitGate
from fields.places import Places
from fields.readers import Progress, Reports, Source, step_of_most
from fields.times import DAY, format_duration, format_span, format_time, to_datetime64
from fields.units import to_si
from fields.variables import PressureKind

__all__ = ["Survey", "positions_of", "survey"]

Array = np.ndarray[Any, Any]
# A variable that most of the network lacks says nothing about a single station's quality.
_MOSTLY_MISSING = 0.5
# Steps of an axis that is too short for gaps to mean anything.
_SHORT_AXIS = 24
# Reports are counted by the number of their step modulo this, which multiples of a step from 2 to 60 divide.
_PHASES = 120
# Reports nearly all of which lie within this span [s] of the hour are hourly ones.
_HOUR, _JITTER, _NEARLY_ALL = 3600, 600, 0.9


@dataclass(frozen=True, slots=True)
class Survey:
    """Findings of the survey, and for each variable the counts ``[station]`` of values, in all and in training."""

    report: ProblemReport
    positions: Places
    counts: dict[str, Array]
    training_counts: dict[str, Array]
    steps: int
    training_steps: int

    def silent(self) -> Array:
        """Mark the stations that never report anything."""
        return np.all([count == 0 for count in self.counts.values()], axis=0)

    def absent_variables(self) -> list[str]:
        """List variables that the source names but never reports."""
        return [name for name, count in self.counts.items() if not count.any()]

    def missing_rate(self) -> Array:
        """Compute the share of the training period that a station lacks, of the variable that it lacks most.

        Variables that the median station lacks for the most part do not count.
        """
        rates = {name: 1 - count / max(1, self.training_steps) for name, count in self.training_counts.items()}
        reported = [rate for rate in rates.values() if np.median(rate) < _MOSTLY_MISSING]
        return np.max(reported or list(rates.values()), axis=0)


def positions_of(source: Source) -> Places:
    """Convert the stations' positions to degrees and metres by their declared units."""
    network = source.network
    columns = (np.asarray(to_si(n, getattr(network, n), source.units[n]), np.float64) for n in ("lat", "lon", "alt"))
    return Places(tuple(network.ids), *columns)


def _completed(positions: Places, others: Places, report: ProblemReport, label: str) -> Places:
    """Return the positions with those of stations of the same name in ``others`` where one is missing."""
    row = {name: i for i, name in enumerate(others.id)}
    rows = np.array([row.get(name, -1) for name in positions.id])
    columns = {}
    for name in ("lat", "lon", "alt"):
        values = np.array(getattr(positions, name))
        lost = ~np.isfinite(values) & (rows >= 0)
        values[lost] = getattr(others, name)[rows[lost]]
        columns[name] = values
        if lost.any():
            ids = [positions.id[i] for i in np.flatnonzero(lost)]
            report.notice("SPDE-D008", f"no {name} is given for {', '.join(ids[:3])}: that of training is kept",
                          where=locate(label, name, stations=ids, out_of=len(positions)))  # fmt: skip
    return Places(positions.id, columns["lat"], columns["lon"], columns["alt"])


def survey(
    source: Source, *, rows: int, training: float, command: str, trust: Collection[str], progress: Progress,
    accept: Collection[str] = (), is_step_declared: bool = False, places: Places | None = None,
) -> Survey:  # fmt: skip
    """Read a source once, check its values and count what each station reports.

    Parameters
    ----------
    rows : number of steps in a block
    training : share of the record, from its beginning, over which stations' gaps are counted
    command : the command to which messages add options
    trust : variables whose values the user vouches for
    progress : called after every block
    accept : what the user accepts, see `fields.ingest.ACCEPTABLE`
    is_step_declared : whether the user names the step of the axis, and is not told of a better one
    places : of stations that a model was trained on, for positions that the source lacks
    """
    gate = UnitGate(dict(source.units), list(source.network.ids), source.label, command, trust)
    count = source.axis.count
    border = int(np.ceil(count * training))
    seconds = source.axis.seconds
    counts = {name: np.zeros(len(source.network), np.int64) for name in source.variables}
    early = {name: np.zeros(len(source.network), np.int64) for name in source.variables}
    reports = np.zeros(count, np.int64)
    by_phase = np.zeros((_PHASES, len(source.network)), np.int64)
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        reporting = np.zeros((stop - start, len(source.network)), bool)
        times = to_datetime64(seconds[start:stop])
        for name, values in source.read(start, stop).items():
            there = ~np.isnan(gate.convert(name, values, times=times).values)
            counts[name] += there.sum(axis=0)
            early[name] += there[: max(0, border - start)].sum(axis=0)
            reporting |= there
        reports[start:stop] = reporting.sum(axis=1)
        for phase in range(min(_PHASES, stop - start)):
            by_phase[(start + phase) % _PHASES] += reporting[phase::_PHASES].sum(axis=0)
        progress("check", stop, count, "steps")
    report, positions = ProblemReport(), positions_of(source)
    if places is not None:
        positions = _completed(positions, places, report, source.label)
    report.extend(source.findings())
    report.extend(gate.report(positions.lat, positions.lon, positions.alt, pressure_kind=_pressure_kind(source)))
    result = Survey(report, positions, counts, early, count, border)
    _report_missing(result, source, command)
    _report_future(report, source)
    _report_like_ids(report, source)
    _report_empty_steps(report, reports, source, command, "sparse-axis" in accept)
    if not is_step_declared:
        _report_finer_stations(report, reports, by_phase, source, command)
    return result


def _report_future(report: ProblemReport, source: Source) -> None:
    """Tell of times after today: a mistyped year, or a source that holds no observations."""
    first, last = source.axis.start, source.axis.start + (source.axis.count - 1) * source.axis.step
    now = int(time.time())
    if last <= now + DAY:
        return
    what = "every time lies in the future" if first > now else "times lie in the future"
    report.warning("SPDE-D112", f"{what}, up to {format_time(last)} UTC", where=locate(source.label),
                   do="correct the years in the source, or the clock of this machine")  # fmt: skip


def _report_like_ids(report: ProblemReport, source: Source) -> None:
    """Name stations whose ids differ in the case of letters alone: one station that was written in two ways?"""
    spellings: dict[str, list[str]] = {}
    for name in map(str, source.network.ids):
        spellings.setdefault(name.casefold(), []).append(name)
    alike = [names for names in spellings.values() if len(names) > 1]
    if alike:
        report.warning(
            "SPDE-D033", f"{counted(len(alike), 'station')} under ids that differ in the case of letters alone: "
            f"{', '.join(' and '.join(names) for names in alike[:3])}",
            where=locate(source.label), why="they are kept apart",
            do="write each id in one way in the source, if they are one station",
        )  # fmt: skip


def _report_empty_steps(report: ProblemReport, reports: Array, source: Source, command: str, accepted: bool) -> None:
    """Ask about an axis most of whose steps have no report: times misread look like this, and so do long gaps."""
    observed = np.flatnonzero(reports)
    count, step = reports.size, source.axis.step
    if count < _SHORT_AXIS or observed.size == 0 or observed.size >= count * (1 - _MOSTLY_MISSING):
        return
    gaps = np.diff(observed)
    longest = int(np.argmax(gaps)) if gaps.size else 0
    where = f"{format_time(source.axis.start)} to {format_time(source.axis.start + (count - 1) * step)}"
    why = f"{observed.size:,} of {count:,} steps of {format_span(step)} have a report"
    if gaps.size:
        after = format_time(source.axis.start + int(observed[longest]) * step)
        why += f"; the longest gap is {format_duration(float(gaps[longest]) * step)} after {after}"
    do = f"if the times are right: {command} --accept sparse-axis"
    common = int(np.gcd.reduce(gaps)) if gaps.size else 1
    beside = (source.axis.start + observed * step) % _HOUR
    if np.mean(np.minimum(beside, _HOUR - beside) <= _JITTER) > _NEARLY_ALL and step < _HOUR:
        do = f"{command} --step 1h --tolerance {format_span(_JITTER)}   or, {do}"
    elif common > 1:
        do = f"{command} --step {format_span(common * step)}   or, {do}"
    question = ProblemReport()
    question.error("SPDE-D111", "most steps of the time axis are empty", where=locate(source.label, where), why=why,
                   do=do)  # fmt: skip
    report.extend(question.lenient() if accepted else question)


def _report_finer_stations(
    report: ProblemReport, reports: Array, by_phase: Array, source: Source, command: str
) -> None:  # fmt: skip
    """Name the few stations whose reports make the axis finer than the rest of the network needs."""
    axis, slots = source.axis, np.flatnonzero(reports)
    if slots.size < _SHORT_AXIS:
        return

    def reporting_off(step: int, phase: int) -> Array:
        every = step // axis.step
        off = (axis.start + axis.step * np.arange(_PHASES)) % step != phase
        return by_phase[off].any(axis=0) if _PHASES % every == 0 else np.ones(by_phase.shape[1], bool)

    seen = Reports(reports[slots], lambda step, phase: float(reporting_off(step, phase).mean()))
    step = step_of_most(axis.start + axis.step * slots, axis.step, seen)
    if step == axis.step:
        return
    phases = (axis.start + axis.step * slots) % step
    values, index = np.unique(phases, return_inverse=True)
    finer = reporting_off(step, int(values[np.argmax(np.bincount(index, weights=seen.counts))]))
    report.warning(
        "SPDE-D036", f"few reports lie between the steps of {format_span(step)} that most of the network keeps",
        where=locate(source.label, stations=source.network.ids[finer], out_of=finer.size),
        do=f"{command} --step {format_span(step)}   leaves these reports out",
    )  # fmt: skip


def _pressure_kind(source: Source) -> PressureKind:
    # A separate sea-level pressure is its own variable; what is called p is then at the station.
    return PressureKind.STATION if "p" in source.variables else source.pressure_kind


def _report_missing(surveyed: Survey, source: Source, command: str) -> None:
    """Add findings about variables that are missing everywhere, or almost."""
    report = surveyed.report
    reference = f"{command} --missing p={PressureKind.STANDARD_ATMOSPHERE.option}"
    absent = surveyed.absent_variables()
    for name in absent:
        if name == "psl" and "p" in surveyed.counts and "p" not in absent:
            report.notice(
                "SPDE-D019", "psl is missing everywhere: the pressure at the stations is read without it",
                where=locate(source.label, name),
            )  # fmt: skip
            continue
        if name in ("p", "psl"):
            do = reference
        else:
            do = f"leave `{name}` out of the file, or of its column map"
        report.error("SPDE-D019", f"{name} is missing everywhere", where=locate(source.label, name), do=do)
    if "p" not in surveyed.counts and "psl" in surveyed.counts and surveyed.counts["psl"].any():
        share = 1 - surveyed.counts["psl"].sum() / max(1, surveyed.steps * len(source.network))
        if share > _MOSTLY_MISSING:
            report.warning(
                "SPDE-D019", f"sea-level pressure is missing at {share:.0%} of stations and times",
                where=locate(source.label, "psl"),
                do=f"{reference}   takes a reference instead, as the paper does",
            )  # fmt: skip
