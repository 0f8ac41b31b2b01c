"""Scores from sums of errors: MSE, MAE, bias, skill and the normalised MSE, with units attached here and only here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fields.normalize import station_moments
from fields.series import StationSeries
from fields.variables import STATE_VARIABLES, display_unit, to_display
from fields.windows import Split
from stationpde.evaluation.statistics import ErrorStatistics

__all__ = [
    "GROUPS",
    "Score",
    "elevation_bands",
    "grouped",
    "normalised_mse",
    "score_of",
    "scores_by",
    "squared_unit",
    "station_scales",
]

Array = np.ndarray[Any, Any]
GROUPS = ("lead", "station", "elevation", "hour")
# Borders of the bands of altitude, m; empty bands are not shown.
_BANDS = (0.0, 200.0, 500.0, 1000.0, 2000.0)


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of one variable: ``mse`` in ``unit`` squared, ``mae`` and ``bias`` (forecast less observation) in it."""

    mse: float
    mae: float
    bias: float
    count: int
    unit: str

    def to_dict(self) -> dict[str, Any]:
        """For files and machines."""
        return asdict(self)


def score_of(sums: Array, variable: str) -> Score:
    """The score of sums ``[row]``; NaN where nothing was observed."""
    count, squared, absolute, signed = (float(x) for x in sums)
    many = count or float("nan")
    unit = display_unit(variable, difference=True)
    return Score(squared / many, absolute / many, signed / many, round(count), unit)


def scores_by(sums: Array, variables: Sequence[str]) -> dict[str, Score]:
    """The scores of sums ``[row, variable]``."""
    return {name: score_of(sums[:, number], name) for number, name in enumerate(variables)}


def skill(mse: float, reference: float) -> float:
    """1 − MSE / MSE of the reference: 1 is perfect, 0 no better than the reference."""
    return 1.0 - mse / reference if reference > 0 else float("nan")


def grouped(found: ErrorStatistics, by: str, altitude: Array) -> dict[str, dict[str, Score]]:
    """Scores of each variable by ``lead`` (hours), ``station``, ``elevation`` (band) or ``hour`` of the day (UTC)."""
    labels, sums = groups_of(found, by, altitude)
    return {label: scores_by(sums[:, number], found.variables) for number, label in enumerate(labels)}


def groups_of(found: ErrorStatistics, by: str, altitude: Array) -> tuple[list[str], Array]:
    """Labels of the groups, and their sums ``[row, group, variable]``."""
    if by == "elevation":
        bands = elevation_bands(altitude)
        sums = np.stack([found.station[:, inside].sum(axis=1) for inside in bands.values()], axis=1)
        return list(bands), sums
    labels = {
        "lead": [f"{hours:g} h" for hours in found.lead_hours],
        "station": list(found.stations),
        "hour": [f"{hour:02g} UTC" for hour in found.hours],
    }[by]
    return labels, getattr(found, by)


def elevation_bands(altitude: Array) -> dict[str, Array]:
    """Masks of the stations in each band of altitude that has any."""
    edges = [-np.inf, *_BANDS[1:], np.inf]
    made = {}
    for low, high in pairwise(edges):
        inside = (altitude >= low) & (altitude < high)
        if inside.any():
            name = (
                f"below {high:g} m" if low == -np.inf else f"{low:g}–{high:g} m" if high < np.inf else f"{low:g} m up"
            )
            made[name] = inside
    return made


def station_scales(series: StationSeries, split: Split) -> Array:
    """Standard deviation of every variable at every station in the training split, in shown units ``[station, 5]``."""
    _, std, _ = station_moments(series.values[split.slice("train")])
    return np.stack([to_display(n, std[:, c], difference=True) for c, n in enumerate(STATE_VARIABLES)], axis=-1)


def normalised_mse(found: ErrorStatistics, scales: Array) -> dict[str, float]:
    """MSE of each variable after division by each station's standard deviation; its mean over variables is nMSE."""
    columns = [STATE_VARIABLES.index(name) for name in found.variables]
    squared = (found.station[1] / np.square(scales[:, columns])).sum(axis=0)
    count = found.station[0].sum(axis=0)
    return {name: float(squared[c] / count[c]) if count[c] else float("nan") for c, name in enumerate(found.variables)}


def squared_unit(unit: str) -> str:
    """How a unit's square is written."""
    return "m²/s²" if unit == "m/s" else f"{unit}²"


def mean_over(values: Mapping[str, float]) -> float:
    """Mean over variables."""
    return float(np.mean(list(values.values()))) if values else float("nan")
