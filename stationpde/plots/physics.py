"""Pictures of learned coefficients: κ, r_m, λ_c with their units, and the update factors γ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stationpde.plots.style import COLOURS, FAINT, INK, sheet

__all__ = ["coefficient_label", "draw_physics", "grouped_physics"]

_SYMBOLS = {"kappa": "κ", "lambda": "λ", "gamma": "γ"}
_SUFFIXES = {"theta": "θ"}


def coefficient_label(name: str) -> str:
    """Format ``kappa_theta`` as κ θ; other names stay as they are."""
    head, _, tail = name.partition("_")
    symbol = _SYMBOLS.get(head)
    if symbol is None:
        return name
    return " ".join(filter(None, (symbol, " ".join(_SUFFIXES.get(word, word) for word in tail.split("_")))))


def grouped_physics(coefficients: Mapping[str, Any]) -> dict[str, list[str]]:
    """Group names of coefficients by unit, in their order: coefficients of one unit share an axis."""
    groups: dict[str, list[str]] = {}
    for name, coefficient in coefficients.items():
        groups.setdefault(coefficient.unit, []).append(name)
    return groups


def draw_physics(coefficients: Mapping[str, Any], output: str | os.PathLike[str]) -> Path:
    """Draw learned coefficients, a panel for each unit.

    Parameters
    ----------
    coefficients : objects with ``value`` and ``unit`` by name, as `stationpde.StationPDE.physics` returns them
    output : the picture to write; its ending decides the format
    """
    groups = grouped_physics(coefficients)
    widths = [max(1.0, 0.5 * len(names)) for names in groups.values()]
    size = (sum(widths) + 0.7 * len(groups) + 0.3, 2.8)
    with sheet(output, 1, max(len(groups), 1), size, width_ratios=widths or [1]) as (_, axes):
        for place, (unit, names) in zip(axes[0], groups.items()):
            values = [coefficients[name].value for name in names]
            channel = [name.rpartition("_")[2] for name in names]
            place.bar(range(len(names)), values, 0.6, color=[COLOURS.get(c, FAINT) for c in channel])
            for number, value in enumerate(values):
                place.annotate(f"{value:.3g}", (number, value), (0, 2), textcoords="offset points", ha="center",
                               fontsize=8, color=INK)  # fmt: skip
            place.set_xticks(range(len(names)), [coefficient_label(name) for name in names],
                             rotation=35 if len(names) > 3 else 0)  # fmt: skip
            place.set_title(f"[{unit}]" if unit != "1" else "factors")
            place.margins(y=0.15)
            place.set_xlim(-0.5 - 0.5 / len(names), len(names) - 0.5 + 0.5 / len(names))
            place.set_ylim(bottom=min(0.0, 1.15 * min(values)))  # a mean wind has a sign
            place.grid(visible=False, axis="x")
    return Path(output)
