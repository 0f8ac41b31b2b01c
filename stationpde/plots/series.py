"""Series of one station: observations before and after the issue, and the forecast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.errors import printable
from fields.times import format_time
from fields.variables import STATE_VARIABLES
from stationpde.errors import UsageError
from stationpde.plots.style import COLOURS, FAINT, INK, hour_ticks, label_of, sheet

if TYPE_CHECKING:
    from stationpde.forecasting import Moment

__all__ = ["draw_series", "station_number"]


# Shares of cases that the bands of a fan chart hold, the widest first; lightness alone tells them apart.
_FAN = ((90, 0.15), (80, 0.15), (50, 0.25))


def station_number(moment: Moment, station: str | None) -> int:
    """Return the index of a station in a forecast; None takes the first that reports."""
    if station is None:
        columns = [STATE_VARIABLES.index(name) for name in moment.names]
        seen = np.isfinite(moment.observed[: moment.history][..., columns]).any(axis=(0, 2))
        return int(np.argmax(seen))
    if station not in moment.stations.id:
        import difflib

        near = difflib.get_close_matches(station, moment.stations.id, n=3)
        hint = f"did you mean {', '.join(map(repr, near))}?" if near else f"the first is {moment.stations.id[0]!r}"
        raise UsageError(f"there is no station '{printable(station)}'", code="SPDE-R003", do=hint)
    return moment.stations.id.index(station)


def draw_series(
    moment: Moment, station: str | None, output: str | os.PathLike[str], others: Mapping[str, Any] | None = None
) -> Path:
    """Draw the forecast at one station with the observations before and after the issue, a panel for each variable.

    Parameters
    ----------
    moment : the forecast with the observations of its times
    station : identifier; None takes the first that reports
    output : the picture to write; its ending decides the format
    others : further forecasts ``[lead, station, variable]`` in shown units, by name
    """
    number = station_number(moment, station)
    place = f"{moment.stations.id[number]}, {moment.stations.alt[number]:.0f} m"
    hours = (moment.times - moment.issue_time) / 3600.0
    ahead = hours[moment.history :]
    height = 8.2 if moment.names == STATE_VARIABLES else 1.8 + 1.3 * len(moment.names)
    with sheet(output, len(moment.names), 1, (7.2, height), sharex=True) as (figure, axes):
        for panel, name in zip(axes[:, 0], moment.names, strict=True):
            row = STATE_VARIABLES.index(name)
            panel.axvspan(hours[0] - 1, 0.0, color="#f1f3f5", zorder=0)
            panel.plot(hours, moment.observed[:, number, row], "o", ms=3, color=INK, label="observed")
            for other, values in (others or {}).items():
                panel.plot(ahead, values[:, number, row], lw=1.2, color=FAINT, ls="--", label=other)
            if name in moment.bands:
                band = moment.bands[name][:, number]
                for pair, (covered, alpha) in enumerate(_FAN):
                    low, high = band[:, pair], band[:, -1 - pair]
                    panel.fill_between(
                        ahead, low, high, color=COLOURS[name], alpha=alpha, lw=0, label=f"{covered} % of cases"
                    )
            panel.plot(ahead, moment.forecast[:, number, row], lw=2.0, color=COLOURS[name], label="forecast")
            panel.set_title(label_of(name), fontsize=9)
            panel.set_xlim(hours[0] - 0.5, hours[-1] + 0.5)
        hour_ticks(axes[-1, 0], most=14)
        axes[-1, 0].set_xlabel(f"hours since {format_time(moment.issue_time, 'minute')} UTC")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=5)
        figure.suptitle(place, x=0.01, ha="left", fontsize=11, parse_math=False)
    return Path(output)
