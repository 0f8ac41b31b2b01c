"""The first look at a source: are its units what they are said to be, and which stations report anything?

One pass over all blocks. Every value goes through the unit gate, which keeps a sample for its checks; what is known of
every station is counted, over the whole record and over the part that training may see.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ProblemReport, locate
from .gate import UnitGate
from .readers.clock import to_datetime64
from .readers.source import Progress, Source
from .units_gate import to_si

__all__ = ["Positions", "Survey", "positions_of", "survey"]

Array = np.ndarray[Any, Any]
# A variable that most of the network lacks says nothing about a single station's quality.
_MOSTLY_MISSING = 0.5


@dataclass(frozen=True, slots=True)
class Positions:
    """Latitude and longitude in degrees, altitude in metres."""

    lat: Array
    lon: Array
    alt: Array


@dataclass(frozen=True, slots=True)
class Survey:
    """What the pass found: counts ``[station]`` of known values for each variable, in all and in training."""

    report: ProblemReport
    positions: Positions
    known: dict[str, Array]
    known_in_training: dict[str, Array]
    steps: int
    training_steps: int

    def silent(self) -> Array:
        """Stations that never report anything."""
        return np.all([count == 0 for count in self.known.values()], axis=0)

    def absent_variables(self) -> list[str]:
        """Variables that are there by name only."""
        return [name for name, count in self.known.items() if not count.any()]

    def missing_rate(self) -> Array:
        """Share of the training period that a station lacks: the worst of the variables that the network reports."""
        rates = {name: 1 - count / max(1, self.training_steps) for name, count in self.known_in_training.items()}
        usual = [rate for rate in rates.values() if np.median(rate) < _MOSTLY_MISSING]
        return np.max(usual or list(rates.values()), axis=0)


def positions_of(source: Source) -> Positions:
    """The stations' positions in degrees and metres, by their declared units."""
    network = source.network
    made = (np.asarray(to_si(n, getattr(network, n), source.units[n]), np.float64) for n in ("lat", "lon", "alt"))
    return Positions(*made)


def survey(
    source: Source, *, rows: int, training: float, command: str, trust: Collection[str], progress: Progress
) -> Survey:
    """Read everything once.

    Parameters
    ----------
    rows : steps of a block
    training : share of the record, from its beginning, over which stations are judged
    command, trust : for the gate: the command to which options are added, and variables the user vouches for
    """
    gate = UnitGate(dict(source.units), list(source.network.ids), source.label, command, trust)
    count = source.axis.count
    border = int(np.ceil(count * training))
    seconds = source.axis.seconds
    known = {name: np.zeros(len(source.network), np.int64) for name in source.variables}
    early = {name: np.zeros(len(source.network), np.int64) for name in source.variables}
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        times = to_datetime64(seconds[start:stop])
        for name, values in source.read(start, stop).items():
            there = ~np.isnan(gate.convert(name, values, times=times).values)
            known[name] += there.sum(axis=0)
            early[name] += there[: max(0, border - start)].sum(axis=0)
        progress("check", stop, count, "steps")
    positions = positions_of(source)
    report = ProblemReport()
    report.extend(source.findings())
    report.extend(gate.report(positions.lat, positions.lon, positions.alt, pressure_kind=_pressure_kind(source)))
    made = Survey(report, positions, known, early, count, border)
    _say_what_is_missing(made, source, command)
    return made


def _pressure_kind(source: Source) -> str:
    # A separate sea-level pressure is its own variable; what is called p is then at the station.
    return "station" if "p" in source.variables else source.pressure_kind


def _say_what_is_missing(found: Survey, source: Source, command: str) -> None:
    report = found.report
    for name in found.absent_variables():
        if name in ("p", "psl"):
            do = f"{command} --missing p=standard-atmosphere"
        else:
            do = f"leave `{name}` out of the column map"
        report.error("SPDE-D019", f"{name} is missing everywhere", where=locate(source.label, name), do=do)
    if "p" not in found.known and "psl" in found.known and found.known["psl"].any():
        share = 1 - found.known["psl"].sum() / max(1, found.steps * len(source.network))
        if share > _MOSTLY_MISSING:
            report.warning(
                "SPDE-D019", f"sea-level pressure is missing at {share:.0%} of stations and times",
                where=locate(source.label, "psl"),
                do=f"{command} --missing p=standard-atmosphere   takes a reference instead, as the paper does",
            )  # fmt: skip
