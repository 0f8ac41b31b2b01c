"""Survey a source in one pass over all blocks: check its declared units, count what each station reports.

Every value goes through the unit gate, which keeps a sample for its checks; the values of every station are counted,
over the whole record and over the part that training may see.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.errors import ProblemReport, locate
from fields.ingest.gate import UnitGate
from fields.places import Places
from fields.readers import Progress, Source
from fields.times import to_datetime64
from fields.units import to_si
from fields.variables import PressureKind

__all__ = ["Survey", "positions_of", "survey"]

Array = np.ndarray[Any, Any]
# A variable that most of the network lacks says nothing about a single station's quality.
_MOSTLY_MISSING = 0.5


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


def survey(
    source: Source, *, rows: int, training: float, command: str, trust: Collection[str], progress: Progress
) -> Survey:
    """Read a source once, check its values and count what each station reports.

    Parameters
    ----------
    rows : number of steps in a block
    training : share of the record, from its beginning, over which stations' gaps are counted
    command : the command to which messages add options
    trust : variables whose values the user vouches for
    progress : called after every block
    """
    gate = UnitGate(dict(source.units), list(source.network.ids), source.label, command, trust)
    count = source.axis.count
    border = int(np.ceil(count * training))
    seconds = source.axis.seconds
    counts = {name: np.zeros(len(source.network), np.int64) for name in source.variables}
    early = {name: np.zeros(len(source.network), np.int64) for name in source.variables}
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        times = to_datetime64(seconds[start:stop])
        for name, values in source.read(start, stop).items():
            there = ~np.isnan(gate.convert(name, values, times=times).values)
            counts[name] += there.sum(axis=0)
            early[name] += there[: max(0, border - start)].sum(axis=0)
        progress("check", stop, count, "steps")
    positions = positions_of(source)
    report = ProblemReport()
    report.extend(source.findings())
    report.extend(gate.report(positions.lat, positions.lon, positions.alt, pressure_kind=_pressure_kind(source)))
    result = Survey(report, positions, counts, early, count, border)
    _report_missing(result, source, command)
    return result


def _pressure_kind(source: Source) -> PressureKind:
    # A separate sea-level pressure is its own variable; what is called p is then at the station.
    return PressureKind.STATION if "p" in source.variables else source.pressure_kind


def _report_missing(surveyed: Survey, source: Source, command: str) -> None:
    """Add findings about variables that are missing everywhere, or almost."""
    report = surveyed.report
    reference = f"{command} --missing p={PressureKind.STANDARD_ATMOSPHERE.option}"
    for name in surveyed.absent_variables():
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
