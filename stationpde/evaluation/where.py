"""Where the error is: by lead, hour of the day, altitude, weather and station, beside the best other model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stationpde.evaluation.metrics import groups_of, skill
from stationpde.evaluation.results import HorizonResults

__all__ = ["ErrorGroup", "better_stations", "error_groups", "rival"]

Array = np.ndarray[Any, Any]
# Rows of a table that can be taken in at one look; of more leads or hours, so many are shown, evenly spaced.
_MOST_LEADS, _MOST_HOURS = 6, 8
_THIRDS = ("steady", "changing", "most changing")


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Targets that have something in common: the MSE of the subject there, and its gain over the rival."""

    by: str
    label: str
    mse: dict[str, float]
    gain: dict[str, float]


def rival(found: HorizonResults) -> str | None:
    """The best model beside the subject, its own ablations and variants apart; None if it is alone."""
    others = [name for name, cells in found.cells.items() if name != found.subject and not _ours(cells)]
    return min(others, key=found.nmse) if others else None


def error_groups(found: HorizonResults, altitude: Array) -> Iterator[ErrorGroup]:
    """Errors of the subject by lead, hour of validity, altitude, and third of the issue days.

    Days are ordered by the squared error of persistence in pressure, that is by how much the weather changes until the
    forecast ends; they are left out where persistence was not scored.
    """
    other = rival(found)
    mine = found.statistics(found.subject)
    theirs = mine if other is None else found.statistics(other)
    for by, most in (("lead", _MOST_LEADS), ("hour", _MOST_HOURS), ("elevation", None)):
        labels, own = groups_of(mine, by, altitude)
        _, rest = groups_of(theirs, by, altitude)
        for number in _spread(len(labels), most):
            yield _group(by, labels[number], own[:, number], rest[:, number], mine.variables)
    for label, days in _thirds(found):
        yield _group("days", label, mine.day[:, days].sum(1), theirs.day[:, days].sum(1), mine.variables)


def better_stations(found: HorizonResults) -> dict[str, tuple[int, int]]:
    """At how many stations the subject's MSE is below the rival's, and how many were compared, by variable."""
    other = rival(found)
    if other is None:
        return {}
    mine, theirs = found.statistics(found.subject).station, found.statistics(other).station
    both = (mine[0] > 0) & (theirs[0] > 0)
    below = both & (mine[1] < theirs[1])
    return {name: (int(below[:, c].sum()), int(both[:, c].sum())) for c, name in enumerate(found.variables)}


def _ours(cells: Any) -> bool:
    return bool(cells[0].about["model_kind"] == "ours")


def _group(by: str, label: str, own: Array, rest: Array, variables: tuple[str, ...]) -> ErrorGroup:
    with np.errstate(invalid="ignore", divide="ignore"):
        mse, reference = own[1] / own[0], rest[1] / rest[0]
    gains = {name: skill(float(mse[c]), float(reference[c])) for c, name in enumerate(variables)}
    return ErrorGroup(by, label, {name: float(mse[c]) for c, name in enumerate(variables)}, gains)


def _spread(many: int, most: int | None) -> list[int]:
    """All numbers, or ``most`` of them from the first to the last."""
    if most is None or many <= most:
        return list(range(many))
    return sorted({round(i * (many - 1) / (most - 1)) for i in range(most)})


def _thirds(found: HorizonResults) -> Iterator[tuple[str, Array]]:
    if "persistence" not in found.cells or "p" not in found.variables:
        return
    still = found.statistics("persistence").day[:, :, found.variables.index("p")]
    known = np.flatnonzero(still[0] > 0)
    if len(known) < 2 * len(_THIRDS):
        return
    order = known[np.argsort(still[1, known] / still[0, known], kind="stable")]
    yield from zip(_THIRDS, np.array_split(order, len(_THIRDS)), strict=True)
