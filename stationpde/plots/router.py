"""Weights of the two branches in the forecast, by channel and by lead (the paper's Fig. 3 a and b)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stationpde.physics import STATE
from stationpde.plots.style import CHANNELS, COLOURS, FAINT, INK, hour_ticks, sheet

__all__ = ["draw_router"]

_PHYSICS, _DATA = "#3b6a8f", "#e3b062"


def draw_router(
    weights: np.ndarray[Any, Any], lead_hours: Sequence[float], output: str | os.PathLike[str],
    channels: Sequence[str] = STATE,
) -> Path:  # fmt: skip
    """Draw the mean weights of the two branches.

    Parameters
    ----------
    weights : share of the data-driven branch ``[lead, channel]``; the rest is that of the equations
    lead_hours : hours ahead of each row
    output : the picture to write; its ending decides the format
    channels : names of the columns
    """
    weights = np.asarray(weights, np.float64)
    with sheet(output, 1, 2, (9.0, 3.6), width_ratios=(1.0, 1.2)) as (_, axes):
        _draw_shares(axes[0, 0], weights.mean(axis=0), channels)
        _draw_by_lead(axes[0, 1], weights, lead_hours, channels)
    return Path(output)


def _draw_shares(axes: Any, data: np.ndarray[Any, Any], channels: Sequence[str]) -> None:
    rows = np.arange(len(channels))[::-1]
    axes.barh(rows, 1.0 - data, color=_PHYSICS, height=0.62, label="equations")
    axes.barh(rows, data, left=1.0 - data, color=_DATA, height=0.62, label="data-driven")
    for row, share in zip(rows, data):
        axes.text(0.02, row, f"{1.0 - share:.2f}", va="center", color="white", fontsize=8)
        axes.text(0.98, row, f"{share:.2f}", va="center", ha="right", color=INK, fontsize=8)
    axes.set_yticks(rows, [CHANNELS.get(name, name) for name in channels])
    axes.set_xlim(0.0, 1.0)
    axes.grid(visible=False)
    axes.set_xlabel("mean weight")
    axes.set_title("(a) weights of the two branches", pad=22)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=2, borderpad=0.1)


def _draw_by_lead(
    axes: Any, weights: np.ndarray[Any, Any], lead_hours: Sequence[float], channels: Sequence[str]
) -> None:
    for number, name in enumerate(channels):
        marker = "o" if len(lead_hours) < 40 else ""
        axes.plot(lead_hours, weights[:, number], marker=marker, ms=3, lw=1.6, color=COLOURS.get(name, FAINT),
                  ls="--" if name == "v" else "-", label=CHANNELS.get(name, name))  # fmt: skip
    low, high = float(weights.min()), float(weights.max())
    room = max(0.02, 0.15 * (high - low))
    axes.set_ylim(max(0.0, low - room), min(1.0, high + room))
    axes.set_xlabel("hours ahead")
    hour_ticks(axes)
    axes.set_ylabel("weight of the data-driven branch")
    axes.set_title("(b) by lead", pad=22)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=5, borderpad=0.1, columnspacing=1.0, handlelength=1.2
    )
