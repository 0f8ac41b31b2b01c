"""Pictures of the shares of guesses, simple forecasts and field in a forecast, by variable and lead."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stationpde.physics import OBSERVED
from stationpde.plots.style import FAINT, SYMBOLS, sheet

__all__ = ["MEMBER_COLOURS", "draw_shares"]

# Learned members in strong colours, simple forecasts in greys.
MEMBER_COLOURS = {
    "linear guess": "#0072b2", "perceptrons": "#56b4e9", "field": "#d55e00",
    "lifted field": "#e69f00", "persistence": "#51606e", "yesterday": "#8b98a5", "climatology": "#c9d0d6",
}  # fmt: skip


def draw_shares(
    values: np.ndarray[Any, Any], members: Sequence[str], lead_hours: Sequence[float],
    output: str | os.PathLike[str], about: str = "",
) -> Path:  # fmt: skip
    """Draw the shares as stacked bars, a panel for each variable.

    Parameters
    ----------
    values : shares ``[member, lead, variable]``, which add up to one
    members : names of the forecasts that are mixed
    lead_hours : hours ahead of each lead
    output : the picture to write; its ending decides the format
    about : a sentence on what the shares rest on, written below
    """
    values = np.asarray(values, np.float64)
    places = np.arange(len(lead_hours))
    ticks = places[:: max(1, -(-len(places) // 5))]
    with sheet(output, 1, values.shape[2], (10.5, 3.2), sharey=True) as (figure, axes):
        for channel, panel in enumerate(axes[0]):
            below = np.zeros(len(places))
            for member, share in zip(members, values[:, :, channel]):
                panel.bar(places, share, 0.86, bottom=below, color=MEMBER_COLOURS.get(member, FAINT), label=member)
                below += share
            panel.set_title(SYMBOLS[OBSERVED[channel]])
            panel.set_xticks(ticks, [f"{lead_hours[place]:g}" for place in ticks])
            panel.set_xlabel("hours ahead")
            panel.set_ylim(0.0, 1.0)
            panel.grid(visible=False, axis="x")
        axes[0, 0].set_ylabel("share of the forecast")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(labels), borderpad=0.1)
        if about:
            figure.supxlabel(about, fontsize=8, color=FAINT, x=0.01, ha="left")
    return Path(output)
