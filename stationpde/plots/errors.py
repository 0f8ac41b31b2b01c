"""Pictures of errors: by lead for the models of a run or of a benchmark, and against the stations' altitude."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.variables import VARIABLES, display_unit
from stationpde.plots.style import FAINT, INK, MODELS, hour_ticks, sheet

if TYPE_CHECKING:
    from stationpde.evaluation import ErrorStatistics, HorizonResults

__all__ = ["draw_benchmark", "draw_error_by_altitude", "draw_error_by_lead", "models_to_draw", "rmse"]

Array = np.ndarray[Any, Any]


def rmse(sums: Array) -> Array:
    """Compute root mean square errors from sums ``[row, …]``; NaN where nothing was observed.

    Row 0 has the counts, row 1 the sums of squared errors.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(np.where(sums[0] > 0, sums[1] / sums[0], np.nan))


def draw_error_by_lead(
    scores: Mapping[str, ErrorStatistics], output: str | os.PathLike[str], titles: Mapping[str, str] | None = None
) -> Path:
    """Draw root mean square errors by lead, a panel for each variable; the first model is drawn in front.

    Parameters
    ----------
    scores : errors by name of the forecaster
    output : the picture to write; its ending decides the format
    titles : labels of the forecasters, by name; the name itself where there is none
    """
    first = next(iter(scores.values()))
    many = len(first.variables)
    columns = many if many < 4 else 3
    rows = -(-many // columns)
    with sheet(output, rows, columns, (2.9 * columns, 2.5 * rows + 0.5)) as (figure, axes):
        for panel, variable in enumerate(first.variables):
            place = axes.flat[panel]
            for number, (name, sums) in enumerate(scores.items()):
                colour = MODELS[number % len(MODELS)]
                values = rmse(sums.lead)[:, sums.variables.index(variable)]
                label = (titles or {}).get(name, name)
                place.plot(sums.lead_hours, values, color=colour, lw=2.2 if number == 0 else 1.4, label=label,
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


def models_to_draw(horizon: HorizonResults, most: int = 4) -> list[str]:
    """Choose the models to draw: the subject, the best ``most`` of the others, and a rule as the limit of skill."""
    subject = horizon.subject
    rule = next((name for name in ("climatology", "persistence") if name in horizon.cells and name != subject), None)
    ours = {name for name, cells in horizon.cells.items() if cells[0].about["model_kind"] == "ours"}
    others = sorted((name for name in horizon.cells if name not in ours | {subject, rule}), key=horizon.nmse)
    return [subject, *others[:most], *([] if rule is None else [rule])]


def draw_benchmark(horizon: HorizonResults, output: str | os.PathLike[str]) -> Path:
    """Draw the errors by lead of the models that `models_to_draw` chooses, means over their seeds."""
    models = models_to_draw(horizon)
    titles = {name: str(horizon.cells[name][0].about["title"]) for name in models}
    return draw_error_by_lead({name: horizon.statistics(name) for name in models}, output, titles)


def draw_error_by_altitude(statistics: ErrorStatistics, altitude: Array, output: str | os.PathLike[str]) -> Path:
    """Draw each station's root mean square error against its altitude, with the median of bands of altitude."""
    many = len(statistics.variables)
    each = rmse(statistics.station)
    with sheet(output, 1, many, (2.5 * many + 0.6, 2.9)) as (_, axes):
        for panel, variable in enumerate(statistics.variables):
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
    """Compute medians over groups of stations of similar altitude, about eight groups of at least four."""
    finite = np.flatnonzero(np.isfinite(values))
    order = finite[np.argsort(altitude[finite], kind="stable")]
    groups = np.array_split(order, max(1, min(8, len(order) // 4)))
    pairs = [(np.median(altitude[g]), np.median(values[g])) for g in groups if len(g)]
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
