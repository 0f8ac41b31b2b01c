"""Scores from sums of errors: MSE, MAE, bias, skill and the normalised MSE. Only this module attaches units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fields.variables import STATE_VARIABLES, display_unit, to_display
from fields.windows import Split, StationSeries, station_moments
from stationpde.evaluation.error_sums import ErrorStatistics

__all__ = [
    "GROUPS",
    "Score",
    "elevation_bands",
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
        """Return the score as JSON-ready values."""
        return asdict(self)


def score_of(sums: Array, variable: str) -> Score:
    """Compute the score from sums ``[row]``; NaN where nothing was observed."""
    count, squared, absolute, signed = (float(x) for x in sums)
    divisor = count or float("nan")
    unit = display_unit(variable, difference=True)
    return Score(squared / divisor, absolute / divisor, signed / divisor, round(count), unit)


def scores_by(sums: Array, variables: Sequence[str]) -> dict[str, Score]:
    """Compute the score of each variable from sums ``[row, variable]``."""
    return {name: score_of(sums[:, number], name) for number, name in enumerate(variables)}


def skill(mse: float, reference: float) -> float:
    """Compute 1 − MSE / MSE of the reference: 1 is perfect, 0 no better than the reference."""
    return 1.0 - mse / reference if reference > 0 else float("nan")


def groups_of(statistics: ErrorStatistics, by: str, altitude: Array) -> tuple[list[str], Array]:
    """Return labels of the groups, and their sums ``[row, group, variable]``."""
    if by == "elevation":
        bands = elevation_bands(altitude)
        sums = np.stack([statistics.station[:, inside].sum(axis=1) for inside in bands.values()], axis=1)
        return list(bands), sums
    labels = {
        "lead": [f"{hours:g} h" for hours in statistics.lead_hours],
        "station": list(statistics.stations),
        "hour": [f"{hour:02g} UTC" for hour in statistics.hours],
    }[by]
    return labels, getattr(statistics, by)


def elevation_bands(altitude: Array) -> dict[str, Array]:
    """Return masks of the stations in each band of altitude that has any."""
    edges = [-np.inf, *_BANDS[1:], np.inf]
    bands = {}
    for low, high in pairwise(edges):
        inside = (altitude >= low) & (altitude < high)
        if inside.any():
            name = (
                f"below {high:g} m" if low == -np.inf else f"{low:g}–{high:g} m" if high < np.inf else f"{low:g} m up"
            )
            bands[name] = inside
    return bands


def station_scales(series: StationSeries, split: Split) -> Array:
    """Compute the standard deviation of each variable and station in training, in display units ``[station, 5]``."""
    _, std, _ = station_moments(series.values[split.slice("train")])
    return np.stack([to_display(n, std[:, c], difference=True) for c, n in enumerate(STATE_VARIABLES)], axis=-1)


def normalised_mse(statistics: ErrorStatistics, scales: Array) -> dict[str, float]:
    """Compute the MSE of errors divided by each station's standard deviation; its mean over variables is nMSE."""
    columns = [STATE_VARIABLES.index(name) for name in statistics.variables]
    squared = (statistics.station[1] / np.square(scales[:, columns])).sum(axis=0)
    count = statistics.station[0].sum(axis=0)
    names = enumerate(statistics.variables)
    return {name: float(squared[c] / count[c]) if count[c] else float("nan") for c, name in names}


def squared_unit(unit: str) -> str:
    """Write the square of a unit."""
    return "m²/s²" if unit == "m/s" else f"({unit})²" if "/" in unit else f"{unit}²"


def mean_over(values: Mapping[str, float]) -> float:
    """Average over variables."""
    return float(np.mean(list(values.values()))) if values else float("nan")
