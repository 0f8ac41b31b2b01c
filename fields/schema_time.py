"""Time axes: sorted, regular, in UTC, and the mend for those that are not.

Own checks come first, because the libraries below answer unsorted and repeated times with obscure errors.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr

from .errors import DataError, ProblemReport, UsageError, locate
from .quality_flags import Flag, flag_attributes

__all__ = ["check_times", "regrid", "summer_time_jumps", "usual_step"]

Array = np.ndarray[Any, Any]

_HOUR = 3600
_EARLIEST, _LATEST = np.datetime64("1850-01-01"), np.datetime64("2101-01-01")
_SUNDAY = 6
# Months in which the clocks of the world are changed.
_CLOCK_MONTHS = (2, 3, 4, 9, 10, 11)


def _seconds(times: Array) -> Array:
    return np.asarray(times).astype("datetime64[s]").astype(np.int64)


def usual_step(times: Array) -> int:
    """The most common positive distance between neighbouring times, in seconds; 0 for a single time."""
    gaps = np.diff(np.unique(_seconds(times)))
    if gaps.size == 0:
        return 0
    values, counts = np.unique(gaps, return_counts=True)
    return int(values[np.argmax(counts)])


def check_times(times: Array, source: str, command: str, *, step: float | None = None) -> ProblemReport:
    """Check a time axis: real times of this era, increasing, each once, on a regular step, without summer time.

    Parameters
    ----------
    times : datetime64, as they stand in the data
    source, command : for messages
    step : the declared step in seconds, by default the usual one
    """
    report = ProblemReport()
    where = locate(source, "time")
    times = np.asarray(times)
    unknown = np.isnat(times)
    if unknown.any():
        report.error("SPDE-D010", f"{int(unknown.sum()):,} times are not times", where=where,
                     do="mend or drop these rows; the format is declared in a column map")  # fmt: skip
    known = times[~unknown]
    strange = known[(known < _EARLIEST) | (known >= _LATEST)]
    if strange.size:
        report.error("SPDE-D010", f"{strange.size:,} times are outside the era of stations", where=where,
                     why=f"{str(strange[0])[:19]}, allowed 1850 to 2100",
                     do="declare the format and reference of time in a column map (--map)")  # fmt: skip
    if not report.ok or known.size == 0:
        return report
    seconds = _seconds(known)
    if np.any(np.diff(seconds) < 0):
        report.error("SPDE-D035", "times are not in order", where=where,
                     why=f"{int((np.diff(seconds) < 0).sum()):,} steps back",
                     do="sort them: schema_time.regrid, or ingest the source again")  # fmt: skip
    distinct, counts = np.unique(seconds, return_counts=True)
    _check_clock(report, seconds, where, command)
    if np.any(counts > 1):
        first = distinct[counts > 1][0]
        report.error("SPDE-D034", f"{int((counts > 1).sum()):,} times occur more than once", where=where,
                     why=f"first {_text(first)}, {counts[counts > 1][0]} times",
                     do=f"{command} --on-duplicate first")  # fmt: skip
    _check_step(report, distinct, int(step) if step else usual_step(known), where, command)
    return report


def _check_step(report: ProblemReport, distinct: Array, step: int, where: str, command: str) -> None:
    if step <= 0 or distinct.size < 2:
        return
    gaps = np.diff(distinct)
    stray = gaps % step != 0
    if stray.any():
        report.error("SPDE-D036", f"{int(stray.sum()):,} steps are not multiples of {_span(step)}", where=where,
                     why=f"first after {_text(distinct[:-1][stray][0])}: {_span(int(gaps[stray][0]))}",
                     do=f"{command} --step {_span(step)}")  # fmt: skip
    elif np.any(gaps > step):
        absent = int((gaps // step - 1).sum())
        report.warning("SPDE-D027", f"{absent:,} times are absent in {int((gaps > step).sum()):,} gaps", where=where,
                       why=f"longest {_span(int(gaps.max()))} after {_text(distinct[:-1][np.argmax(gaps)])}",
                       do=f"{command} --step {_span(step)} fills them as missing")  # fmt: skip


def summer_time_jumps(times: Array) -> tuple[Array, Array]:
    """Days on which a clock seems to be set forward (an hour absent) and back (an hour repeated).

    Times are those of all rows in order, repeated times included. Clocks are changed in the night before a Sunday
    in spring and autumn; an hour absent on any other day is a gap, an hour repeated there a duplicate.
    """
    seconds = _seconds(np.asarray(times))
    step = usual_step(np.asarray(times))
    if step == 0 or _HOUR % step:
        return np.empty(0, "datetime64[D]"), np.empty(0, "datetime64[D]")
    distinct, counts = np.unique(seconds, return_counts=True)
    gaps = np.diff(distinct)
    forward = distinct[:-1][gaps == step + _HOUR] + step
    # Once an hour is repeated, so are all its steps and nothing else on that day.
    typical = np.median(counts)
    doubled = distinct[counts >= 2 * typical]
    hours, inside = np.unique(doubled // _HOUR, return_counts=True)
    back = hours[inside * step == _HOUR] * _HOUR
    return _clock_days(forward), _clock_days(back)


def _clock_days(seconds: Array) -> Array:
    night = seconds + 2 * _HOUR  # some clocks are set at midnight, so that the last hour of Saturday is repeated
    days = night.astype("datetime64[s]").astype("datetime64[D]")
    weekday = (days.astype(np.int64) + 3) % 7  # 1 January 1970 was a Thursday
    month = days.astype("datetime64[M]").astype(np.int64) % 12 + 1
    return days[(weekday == _SUNDAY) & np.isin(month, _CLOCK_MONTHS) & (night % 86_400 < 6 * _HOUR)]


def _check_clock(report: ProblemReport, seconds: Array, where: str, command: str) -> None:
    forward, back = summer_time_jumps(seconds.astype("datetime64[s]"))
    if back.size or forward.size > 1:
        days = ", ".join(map(str, [*forward[:2], *back[:2]]))
        report.error("SPDE-D037", "the clock is set forward or back: times are local, with summer time", where=where,
                     why=f"{forward.size} hours absent and {back.size} repeated in the small hours of Sundays ({days})",
                     do=f"{command} --time-zone Europe/Paris (the zone whose clock wrote these times)")  # fmt: skip


def regrid(
    ds: xr.Dataset, step: int, *, tolerance: int = 0, on_duplicate: Literal["error", "first", "mean"] = "error"
) -> tuple[xr.Dataset, ProblemReport]:
    """Put a dataset on a regular time axis: sort, resolve duplicates, fill gaps with missing values.

    Parameters
    ----------
    ds : dimensions time and station; any order of times
    step : of the new axis, seconds
    tolerance : how far from an axis time a value may have been taken, seconds; others are dropped and counted
    on_duplicate : what to do where two values of a station meet on one axis time and contradict each other; equal
        ones are merged without asking

    Returns
    -------
    The dataset on ``step``, with ``<name>_flag`` (`Flag.TIME`) where a value was moved or chosen, and a report.
    """
    if step <= 0 or tolerance < 0 or 2 * tolerance > step:
        raise UsageError(f"no axis has step {step} s and tolerance {tolerance} s", code="SPDE-D001")
    report = ProblemReport()
    seconds = _seconds(ds["time"].values)
    if seconds.size == 0:
        raise DataError("there are no times in the data", code="SPDE-D025")
    where = locate(str(ds.attrs.get("source", "")), "time")
    if np.any(np.diff(seconds) < 0):
        report.notice("SPDE-D035", "times were not in order and are sorted", where=where)
    order = np.argsort(seconds, kind="stable")
    seconds = seconds[order]
    slot = np.rint(seconds / step).astype(np.int64)
    distance = np.abs(seconds - slot * step)
    kept = distance <= tolerance
    if not kept.all():
        report.warning("SPDE-D036", f"{int((~kept).sum()):,} times are not within {_span(tolerance)} of a multiple of "
                       f"{_span(step)} and are dropped", where=where)  # fmt: skip
    if not kept.any():
        raise DataError(
            f"no time lies within {_span(tolerance)} of a multiple of {_span(step)}", code="SPDE-D036", where=where
        )
    rows, slot, distance = order[kept], slot[kept], distance[kept]
    first, count = int(slot[0]), int(slot[-1] - slot[0]) + 1
    axis = (np.arange(first, first + count) * step).astype("datetime64[s]").astype("datetime64[ns]")
    made = ds.drop_dims("time").assign_coords(time=("time", axis, ds["time"].attrs))
    conflicts = 0
    for name in [str(n) for n in ds.data_vars if "time" in ds[n].dims and not str(n).endswith("_flag")]:
        values = np.asarray(ds[name].transpose("time", "station").values)[rows]
        merged, touched, conflict = _merge(values, slot - first, distance, count, on_duplicate)
        conflicts += conflict
        made[name] = (("time", "station"), merged, ds[name].attrs)
        if touched.any():
            made[f"{name}_flag"] = (("time", "station"), touched * np.uint8(int(Flag.TIME)), flag_attributes(name))
    if conflicts and on_duplicate == "error":
        report.error("SPDE-D034", f"{conflicts:,} values contradict another of the same station and time", where=where,
                     do="choose: --on-duplicate first or --on-duplicate mean")  # fmt: skip
    elif slot.size > np.unique(slot).size:
        report.notice(
            "SPDE-D034", f"{slot.size - np.unique(slot).size:,} repeated times are merged ({on_duplicate})", where=where
        )
    absent = count - np.unique(slot).size
    if absent:
        report.notice("SPDE-D027", f"{absent:,} of {count:,} times are absent and filled as missing", where=where)
    made.attrs = {**ds.attrs, "step_seconds": int(step)}
    return made, report


def _merge(values: Array, slot: Array, distance: Array, count: int, on_duplicate: str) -> tuple[Array, Array, int]:
    """Rows to axis times. Of several values the one nearest in time counts, then the first, or their mean."""
    stations = values.shape[1]
    merged = np.full((count, stations), np.nan, np.float32)
    touched = np.zeros((count, stations), bool)
    once = np.bincount(slot, minlength=count)[slot] == 1
    merged[slot[once]] = values[once]
    touched[slot[once]] = (distance[once] > 0)[:, None] & np.isfinite(values[once])
    conflict = 0
    for place in np.unique(slot[~once]):
        group = np.flatnonzero(slot == place)
        group = group[np.argsort(distance[group], kind="stable")]
        block = values[group].astype(np.float64)
        known = np.isfinite(block)
        some = known.any(axis=0)
        chosen = np.where(some, block[known.argmax(axis=0), np.arange(stations)], np.nan)
        differs = some & np.any(known & (block != chosen), axis=0)
        if on_duplicate == "mean":
            total = np.where(known, block, 0.0).sum(axis=0)
            chosen = np.where(differs, total / np.maximum(known.sum(axis=0), 1), chosen)
        conflict += int(differs.sum())
        merged[place] = chosen
        touched[place] = differs | (some & (distance[group][known.argmax(axis=0)] > 0))
    return merged, touched, conflict


def _text(seconds: Any) -> str:
    return str(np.datetime64(int(seconds), "s")).replace("T", " ")


def _span(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", _HOUR), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
