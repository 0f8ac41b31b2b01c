"""Errors drawn: by lead for the models of a run or of a benchmark, and against the altitude of the stations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.variables import VARIABLES, display_unit
from stationpde.plots.style import FAINT, INK, MODELS, hour_ticks, sheet

if TYPE_CHECKING:
    from stationpde.evaluation.results import HorizonResults
    from stationpde.evaluation.statistics import ErrorStatistics

__all__ = ["draw_benchmark", "draw_error_by_altitude", "draw_error_by_lead", "models_to_draw", "rmse"]

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
    columns = many if many < 4 else 3
    rows = -(-many // columns)
    with sheet(output, rows, columns, (2.9 * columns, 2.5 * rows + 0.5)) as (figure, axes):
        for panel, variable in enumerate(first.variables):
            place = axes.flat[panel]
            for number, (name, found) in enumerate(scores.items()):
                colour = MODELS[number % len(MODELS)]
                values = rmse(found.lead)[:, found.variables.index(variable)]
                label = (titles or {}).get(name, name)
                place.plot(found.lead_hours, values, color=colour, lw=2.2 if number == 0 else 1.4, label=label,
                           zorder=3 if number == 0 else 2)  # fmt: skip
            place.set_title(f"{VARIABLES[variable].long_name} [{display_unit(variable, difference=True)}]", fontsize=9)
            place.set_xlabel("hours ahead")
            hour_ticks(place)
            place.set_ylim(bottom=0.0)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        empty = axes.flat[many:]
        for place in empty:
            place.set_axis_off()
        if len(empty):
            empty[0].legend(handles, labels, loc="center left", title="Root mean square error", alignment="left")
        else:
            figure.legend(handles, labels, loc="outside upper left", ncols=columns, title="Root mean square error",
                          alignment="left")  # fmt: skip
    return Path(output)


def models_to_draw(found: HorizonResults, most: int = 4) -> list[str]:
    """Return what an eye can follow: the subject, the best of the others, and a rule that tells where skill ends."""
    subject = found.subject
    rule = next((name for name in ("climatology", "persistence") if name in found.cells and name != subject), None)
    ours = {name for name, cells in found.cells.items() if cells[0].about["model_kind"] == "ours"}
    others = sorted((name for name in found.cells if name not in ours | {subject, rule}), key=found.nmse)
    return [subject, *others[:most], *([] if rule is None else [rule])]


def draw_benchmark(found: HorizonResults, output: str | os.PathLike[str]) -> Path:
    """Draw the errors by lead of the models of a benchmark that matter most, means over their seeds."""
    models = models_to_draw(found)
    titles = {name: str(found.cells[name][0].about["title"]) for name in models}
    return draw_error_by_lead({name: found.statistics(name) for name in models}, output, titles)


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
