"""Diagrams of calibrated distributions: coverage by lead, PIT histograms, reliability of probabilities."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fields.variables import VARIABLES
from stationpde.plots.style import COLOURS, FAINT, INK, hour_ticks, sheet

__all__ = ["draw_uncertainty"]

# Nominal shares, with the marks that tell their lines apart without colour.
_LEVELS = {"0.9": "o", "0.8": "s", "0.5": "^"}
_EVENTS = ("#0072b2", "#d55e00", "#009e73")
# Bins of fewer forecasts say little of a frequency.
_FEWEST = 30
_COLUMNS = 3


def draw_uncertainty(result: Mapping[str, Any], output: str | os.PathLike[str]) -> Path:
    """Draw how well distributions are calibrated: for each variable coverage by lead and PIT, then reliability.

    Parameters
    ----------
    result : what `stationpde.evaluation.distribution_scores` returns, with the group ``lead``
    output : the picture to write; its ending decides the format
    """
    scores, by_lead = result["scores"]["run"], result["by"]["lead"]
    events = result["events"]["run"]
    names = list(scores)
    rows = -(-len(names) // _COLUMNS)
    total = 2 * rows + (1 if events else 0)
    with sheet(output, total, _COLUMNS, (9.0, 2.1 * total)) as (figure, axes):
        for number, name in enumerate(names):
            row, column = divmod(number, _COLUMNS)
            _coverage(axes[row, column], by_lead, name)
            _pit(axes[rows + row, column], scores[name]["pit"], name)
        for number, (event, entry) in enumerate(events.items()):
            _reliability(axes[-1, number], event, entry, _EVENTS[number % len(_EVENTS)])
        used = {*((n // _COLUMNS + part, n % _COLUMNS) for n in range(len(names)) for part in (0, rows)),
                *((total - 1, n) for n in range(len(events)))}  # fmt: skip
        for (row, column), panel in np.ndenumerate(axes):
            panel.set_visible((row, column) in used)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=4)
        figure.suptitle("Coverage by lead, PIT and reliability", x=0.01, ha="left", fontsize=11)
    return Path(output)


def _coverage(axes: Any, by_lead: Mapping[str, Any], name: str) -> None:
    hours = [float(label.split()[0]) for label, part in by_lead.items() if name in part]
    for level, mark in _LEVELS.items():
        shares = [100 * part[name]["coverage"][level] for part in by_lead.values() if name in part]
        axes.axhline(100 * float(level), color=FAINT, lw=0.9, ls="--", label="nominal" if level == "0.9" else None)
        axes.plot(hours, shares, marker=mark, ms=4, lw=1.4, color=_colour(name), label=f"{100 * float(level):g} %")
    axes.set_ylim(30, 100)
    axes.set_title(f"{VARIABLES[name].long_name}: coverage [%]", fontsize=9)
    hour_ticks(axes)
    axes.set_xlabel("hours ahead")


def _pit(axes: Any, pit: list[float], name: str) -> None:
    share = np.asarray(pit) * len(pit)
    edges = (np.arange(len(pit)) + 0.5) / len(pit)
    axes.bar(edges, share, width=0.92 / len(pit), color=_colour(name), alpha=0.75)
    axes.axhline(1.0, color=FAINT, lw=0.9, ls="--")
    axes.set_ylim(0, max(1.6, 1.1 * float(share.max())))
    axes.set_title(f"{VARIABLES[name].long_name}: PIT", fontsize=9)
    axes.set_xlabel("probability of a lower value")


def _reliability(axes: Any, event: str, entry: Mapping[str, Any], colour: str) -> None:
    parts = [part for part in entry["reliability"] if part["count"] >= _FEWEST]
    axes.plot([0, 100], [0, 100], color=FAINT, lw=0.9, ls="--")
    if parts:
        size = 8 + 60 * np.sqrt([part["count"] / max(p["count"] for p in parts) for part in parts])
        x, y = ([100 * part[key] for part in parts] for key in ("forecast", "observed"))
        axes.plot(x, y, lw=1.2, color=colour)
        axes.scatter(x, y, s=size, color=colour, edgecolors=INK, linewidths=0.5, zorder=3)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    word, _, rest = event.partition(" ")
    name = VARIABLES[word].long_name.removesuffix(" at 2 m").removeprefix("Air ").capitalize()
    axes.set_title(f"{name} {rest}", fontsize=8)
    axes.set_xlabel("forecast [%]")
    axes.set_ylabel("observed [%]")


def _colour(name: str) -> str:
    return COLOURS.get(name, INK)
