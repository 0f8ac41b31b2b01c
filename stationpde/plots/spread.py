"""Maps of the width of a forecast's intervals, and of the probability that a threshold is exceeded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.times import format_time
from fields.variables import VARIABLES
from stationpde.errors import UsageError
from stationpde.plots.maps import Frame, draw_frame
from stationpde.plots.style import INK, sheet, unit_of

if TYPE_CHECKING:
    from stationpde.forecasting import Moment
    from stationpde.plots.relief import Relief
    from stationpde.uncertainty import Threshold

__all__ = ["draw_spread"]

_INTERVAL = (0.1, 0.9)


def draw_spread(
    moment: Moment, relief: Relief, output: str | os.PathLike[str], *, variable: str = "t", lead: int | None = None,
    threshold: Threshold | None = None,
) -> Path:  # fmt: skip
    """Draw the width of the interval of 80 % at one lead, and beside it the probability of a threshold.

    Parameters
    ----------
    moment : the forecast, with its distributions on cells
    relief : altitudes under the map
    output : the picture to write; its ending decides the format
    variable : one that has a distribution; ``ff`` is the speed of the wind
    lead : step ahead, from 1; the last by default
    threshold : what the probability is of; None draws the width alone
    """
    cells = moment.cells
    if cells is None:
        raise UsageError("the forecast has no distributions on cells", code="SPDE-Q013",
                         do="stationpde calibrate RUN --obs STORE; then draw again")  # fmt: skip
    for name in (variable, *(() if threshold is None else (threshold.name,))):
        if name not in cells.names:
            raise UsageError(f"there is no distribution of '{name}'", code="SPDE-R004",
                             do=f"one of {', '.join(cells.names)}")  # fmt: skip
    steps = len(moment.lead_hours)
    number = steps if lead is None else lead
    if not 1 <= number <= steps:
        raise UsageError(f"there is no lead {lead}; leads run from 1 to {steps}", code="SPDE-R004")
    low, high = np.moveaxis(cells.quantiles(variable, _INTERVAL)[number - 1], -1, 0)
    width = high - low
    unit = unit_of(variable, difference=True)
    ends = float(np.nanmin(width)), float(np.nanmax(width))
    panels = [(width, ends if ends[1] - ends[0] > 1e-6 else (0.0, ends[1] + 1.0),
               f"{VARIABLES[variable].long_name}: width of the interval of 80 % [{unit}]")]  # fmt: skip
    if threshold is not None:
        chance = 100.0 * cells.probability(threshold)[number - 1]
        panels.append((chance, (0.0, 100.0), f"Probability of {threshold.text} [%]"))
    frame = Frame(relief)
    rows, columns = (len(panels), 1) if frame.is_flat else (1, len(panels))
    size = frame.size(7.5 if frame.is_flat else 5.2)
    with sheet(output, rows, columns, ((size[0] + 1.0) * columns, (size[1] + 0.8) * rows)) as (figure, axes):
        for place, (values, scale, title) in zip(axes.ravel(), panels, strict=True):
            _panel(figure, place, frame, moment, values, scale, title)
        time = format_time(moment.times[moment.history - 1 + number], "minute")
        when = f"{time} UTC, {moment.lead_hours[number - 1]:g} h ahead"
        figure.suptitle(when, x=0.01, ha="left", fontsize=11)
    return Path(output)


def _panel(
    figure: Any, axes: Any, frame: Frame, moment: Moment, values: Any, scale: tuple[float, float], title: str
) -> None:
    drawn = draw_frame(axes, frame, values, "spread", scale)
    grid, stations = frame.grid, moment.stations
    middle = (grid.west + grid.east) / 2.0
    lon = middle + (stations.lon - middle + 180.0) % 360.0 - 180.0
    axes.plot(lon, stations.lat, "o", ms=2.6, mfc="white", mec=INK, mew=0.6, zorder=5)
    axes.set_title(title, fontsize=9)
    bar = figure.colorbar(drawn, ax=axes, shrink=0.9, pad=0.02, aspect=30)
    bar.outline.set_linewidth(0.4)
