"""Errors drawn: by lead for several models, and against the altitude of the stations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.variables import VARIABLES, display_unit
from stationpde.plots.style import FAINT, INK, MODELS, hour_ticks, sheet

if TYPE_CHECKING:
    from stationpde.evaluation.statistics import ErrorStatistics

__all__ = ["draw_error_by_altitude", "draw_error_by_lead", "rmse"]

Array = np.ndarray[Any, Any]


def rmse(sums: Array) -> Array:
    """Root mean square errors of sums ``[row, …]``; NaN where nothing was observed."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(np.where(sums[0] > 0, sums[1] / sums[0], np.nan))


def draw_error_by_lead(
    scores: Mapping[str, ErrorStatistics], output: str | os.PathLike[str], titles: Mapping[str, str] | None = None
) -> Path:
    """Draw root mean square errors by lead, a panel for each variable; the first model is the one that is meant."""
    first = next(iter(scores.values()))
    many = len(first.variables)
    with sheet(output, 1, many, (2.5 * many + 0.6, 3.0)) as (figure, axes):
        for panel, variable in enumerate(first.variables):
            place = axes[0, panel]
            for number, (name, found) in enumerate(scores.items()):
                colour = MODELS[number % len(MODELS)]
                values = rmse(found.lead)[:, found.variables.index(variable)]
                label = (titles or {}).get(name, name)
                place.plot(found.lead_hours, values, color=colour, lw=2.2 if number == 0 else 1.4, label=label,
                           zorder=3 if number == 0 else 2)  # fmt: skip
            place.set_title(VARIABLES[variable].long_name, fontsize=9)
            place.set_xlabel("hours ahead")
            hour_ticks(place)
            place.set_ylabel(f"RMSE [{display_unit(variable, difference=True)}]")
            place.set_ylim(bottom=0.0)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(labels), 6))
    return Path(output)


def draw_error_by_altitude(found: ErrorStatistics, altitude: Array, output: str | os.PathLike[str]) -> Path:
    """Draw each station's root mean square error against its altitude, with the median of bands of altitude."""
    many = len(found.variables)
    each = rmse(found.station)
    with sheet(output, 1, many, (2.5 * many + 0.6, 2.9)) as (_, axes):
        for panel, variable in enumerate(found.variables):
            place, values = axes[0, panel], each[:, panel]
            place.plot(altitude, values, "o", ms=3.2, mfc=MODELS[0], mec="white", mew=0.3, alpha=0.75)
            middle, typical = _medians(altitude, values)
            place.plot(middle, typical, "-", color=INK, lw=1.4)
            place.set_title(VARIABLES[variable].long_name, fontsize=9)
            place.set_xlabel("altitude [m]")
            place.set_ylabel(f"RMSE [{display_unit(variable, difference=True)}]")
            place.set_ylim(bottom=0.0)
        axes[0, 0].text(0.03, 0.03, "a dot a station, line: medians", transform=axes[0, 0].transAxes, fontsize=7,
                        color=FAINT)  # fmt: skip
    return Path(output)


def _medians(altitude: Array, values: Array) -> tuple[Array, Array]:
    """Medians of groups of stations of similar altitude, about eight groups of at least four."""
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(altitude[known], kind="stable")]
    groups = np.array_split(order, max(1, min(8, len(order) // 4)))
    pairs = [(np.median(altitude[g]), np.median(values[g])) for g in groups if len(g)]
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
