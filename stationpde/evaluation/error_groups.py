"""Errors by lead, hour of the day, altitude, weather and station, beside the best other model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stationpde.evaluation.metrics import groups_of, skill
from stationpde.evaluation.results import HorizonResults

__all__ = ["ErrorGroup", "better_stations", "error_groups", "rival"]

Array = np.ndarray[Any, Any]
# Largest number of rows for leads and hours; of more, so many are shown, evenly spaced.
_MOST_LEADS, _MOST_HOURS = 6, 8
_THIRDS = ("steady", "changing", "most changing")


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """MSE of the subject on a group of targets, and its gain over the rival, by variable."""

    by: str
    label: str
    mse: dict[str, float]
    gain: dict[str, float]


def rival(results: HorizonResults) -> str | None:
    """Return the best model apart from the subject, its ablations and variants; None if there is no other."""
    others = [name for name, cells in results.cells.items() if name != results.subject and not _ours(cells)]
    return min(others, key=results.nmse) if others else None


def error_groups(results: HorizonResults, altitude: Array) -> Iterator[ErrorGroup]:
    """Yield errors of the subject by lead, hour of validity, altitude, and third of the issue days.

    Days are ordered by the squared error of persistence in pressure, that is by how much the weather changes until the
    forecast ends; they are left out where persistence was not scored.
    """
    other = rival(results)
    mine = results.statistics(results.subject)
    theirs = mine if other is None else results.statistics(other)
    for by, most in (("lead", _MOST_LEADS), ("hour", _MOST_HOURS), ("elevation", None)):
        labels, subject_sums = groups_of(mine, by, altitude)
        _, rival_sums = groups_of(theirs, by, altitude)
        for number in _spread(len(labels), most):
            yield _group(by, labels[number], subject_sums[:, number], rival_sums[:, number], mine.variables)
    for label, days in _thirds(results):
        yield _group("days", label, mine.day[:, days].sum(1), theirs.day[:, days].sum(1), mine.variables)


def better_stations(results: HorizonResults) -> dict[str, tuple[int, int]]:
    """Count stations where the MSE of the subject is below the rival's, and stations compared, by variable."""
    other = rival(results)
    if other is None:
        return {}
    mine, theirs = results.statistics(results.subject).station, results.statistics(other).station
    both = (mine[0] > 0) & (theirs[0] > 0)
    below = both & (mine[1] < theirs[1])
    return {name: (int(below[:, c].sum()), int(both[:, c].sum())) for c, name in enumerate(results.variables)}


def _ours(cells: Any) -> bool:
    return bool(cells[0].about["model_kind"] == "ours")


def _group(by: str, label: str, subject_sums: Array, rival_sums: Array, variables: tuple[str, ...]) -> ErrorGroup:
    with np.errstate(invalid="ignore", divide="ignore"):
        mse, reference = subject_sums[1] / subject_sums[0], rival_sums[1] / rival_sums[0]
    gains = {name: skill(float(mse[c]), float(reference[c])) for c, name in enumerate(variables)}
    return ErrorGroup(by, label, {name: float(mse[c]) for c, name in enumerate(variables)}, gains)


def _spread(many: int, most: int | None) -> list[int]:
    """Return all numbers below ``many``, or ``most`` of them from the first to the last."""
    if most is None or many <= most:
        return list(range(many))
    return sorted({round(i * (many - 1) / (most - 1)) for i in range(most)})


def _thirds(results: HorizonResults) -> Iterator[tuple[str, Array]]:
    if "persistence" not in results.cells or "p" not in results.variables:
        return
    still = results.statistics("persistence").day[:, :, results.variables.index("p")]
    days = np.flatnonzero(still[0] > 0)
    if len(days) < 2 * len(_THIRDS):
        return
    order = days[np.argsort(still[1, days] / still[0, days], kind="stable")]
    yield from zip(_THIRDS, np.array_split(order, len(_THIRDS)), strict=True)
