"""Check time axes: sorted, each time once, on a regular step, in UTC.

These checks come before any library sees the times, because xarray and zarr answer unsorted and repeated times with
obscure errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fields.errors import ProblemReport, locate
from fields.times import ERA, format_span, format_time, most_common_step, summer_time_jumps, to_seconds

__all__ = ["check_times"]

Array = np.ndarray[Any, Any]


def check_times(times: Array, source: str, command: str, *, step: float | None = None) -> ProblemReport:
    """Check a time axis: real times of this era, increasing, each once, on a regular step, without summer time.

    Parameters
    ----------
    times : datetime64, as they stand in the data
    source : name of the data, for messages
    command : command line to which messages add the option that mends a problem
    step : the declared step in seconds, by default the most common one
    """
    report = ProblemReport()
    where = locate(source, "time")
    times = np.asarray(times)
    unknown = np.isnat(times)
    if unknown.any():
        report.error("SPDE-D010", f"{int(unknown.sum()):,} times are not times", where=where,
                     do="mend or drop these rows; the format is declared in a column map")  # fmt: skip
    valid = times[~unknown]
    strange = valid[(valid < ERA[0]) | (valid >= ERA[1])]
    if strange.size:
        report.error("SPDE-D010", f"{strange.size:,} times are outside the era of stations", where=where,
                     why=f"{format_time(strange[0])}, allowed 1850 to 2100",
                     do=f"declare format and reference of time in a column map: {command} --map FILE.toml")  # fmt: skip
    if not report.ok or valid.size == 0:
        return report
    seconds = to_seconds(valid)
    if np.any(np.diff(seconds) < 0):
        report.error("SPDE-D035", "times are not in order", where=where,
                     why=f"{int((np.diff(seconds) < 0).sum()):,} steps back",
                     do="sort the times in the source, or ingest the source again")  # fmt: skip
    distinct, counts = np.unique(seconds, return_counts=True)
    _check_clock(report, seconds, where, command)
    if np.any(counts > 1):
        first = distinct[counts > 1][0]
        report.error("SPDE-D034", f"{int((counts > 1).sum()):,} times occur more than once", where=where,
                     why=f"first {format_time(first)}, {counts[counts > 1][0]} times",
                     do=f"{command} --on-duplicate first")  # fmt: skip
    _check_step(report, distinct, int(step) if step else most_common_step(valid), where, command)
    return report


def _check_step(report: ProblemReport, distinct: Array, step: int, where: str, command: str) -> None:
    if step <= 0 or distinct.size < 2:
        return
    gaps = np.diff(distinct)
    stray = gaps % step != 0
    if stray.any():
        report.error("SPDE-D036", f"{int(stray.sum()):,} steps are not multiples of {format_span(step)}", where=where,
                     why=f"first after {format_time(distinct[:-1][stray][0])}: {format_span(int(gaps[stray][0]))}",
                     do=f"{command} --step {format_span(step)}")  # fmt: skip
    elif np.any(gaps > step):
        absent, longest = int((gaps // step - 1).sum()), int(np.argmax(gaps))
        report.warning("SPDE-D027", f"{absent:,} times are absent in {int((gaps > step).sum()):,} gaps", where=where,
                       why=f"longest {format_span(int(gaps[longest]))} after {format_time(distinct[longest])}",
                       do=f"{command} --step {format_span(step)}   fills them as missing")  # fmt: skip


def _check_clock(report: ProblemReport, seconds: Array, where: str, command: str) -> None:
    forward, back = summer_time_jumps(seconds.astype("datetime64[s]"))
    if back.size or forward.size > 1:
        days = ", ".join(map(str, [*forward[:2], *back[:2]]))
        report.error("SPDE-D037", "the clock is set forward or back: times are local, with summer time", where=where,
                     why=f"{forward.size} hours absent and {back.size} repeated in the small hours of Sundays ({days})",
                     do=f"{command} --time-zone Europe/Paris   or the zone whose clock wrote these times")  # fmt: skip
