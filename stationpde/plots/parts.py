"""What parts are worth: MSE without them, and with other weights of altitude (the paper's Fig. 3 c and d)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fields import atomic
from fields.errors import DataError, printable
from fields.variables import STATE_VARIABLES, VARIABLES
from stationpde.plots.style import COLOURS, FAINT, INK, SYMBOLS, sheet

__all__ = ["draw_altitude_weight", "draw_parts", "read_scores", "relative_increase", "whole_of"]

Scores = Mapping[str, Mapping[str, float]]


def read_scores(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """MSE by model and variable from ``results.json`` of `stationpde ablate` or `benchmark`.

    From ``ablation.json``, which has relative increases alone, MSE in parts of the whole model's.

    Raises
    ------
    DataError
        If the file is no such table.
    """
    found = atomic.read_json(Path(path))
    try:
        if "increase" in found:
            parts = {part: {n: 1.0 + float(x) for n, x in own.items()} for part, own in found["increase"].items()}
            whole, known = str(found["variant"]), {name for own in parts.values() for name in own}
            ones = {name: 1.0 for name in STATE_VARIABLES if name in known}
            return {whole: ones, **{f"{whole}-{part}": own for part, own in parts.items()}}
        scores = {
            model: {name: float(own[name]["mse"]) for name in STATE_VARIABLES if name in own}
            for model, own in found["pooled"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise DataError(
            f"{printable(path)} holds no table of models and variables", code="SPDE-R012",
            do="stationpde ablate STORE -o DIR writes DIR/results.json",
        ) from problem  # fmt: skip
    return scores


def whole_of(scores: Scores) -> str:
    """The name of the whole model: ``default`` or ``paper``, whichever the others are named after."""
    named = [name for name in ("default", "paper") if name in scores]
    return named[0] if named else next(iter(scores))


def relative_increase(scores: Scores, full: str) -> dict[str, dict[str, float]]:
    """By how many per cent MSE grows without each part: from ``{part: {variable: mse}}``, ``full`` the whole model."""
    whole = scores[full]
    return {
        part: {name: 100.0 * (mse / whole[name] - 1.0) for name, mse in own.items() if whole.get(name)}
        for part, own in scores.items()
        if part != full
    }


def draw_parts(
    scores: Scores, output: str | os.PathLike[str], *, full: str = "default", titles: Mapping[str, str] | None = None
) -> Path:
    """Draw the relative increase of MSE without each part, a group of bars for each.

    Parameters
    ----------
    scores : ``{part: {variable: mse}}`` with the whole model among them
    full : the name of the whole model
    """
    found = relative_increase(scores, full)
    variables = list(dict.fromkeys(name for own in found.values() for name in own))
    with sheet(output, 1, 1, (1.6 + 1.15 * max(len(found), 2), 3.6)) as (_, axes):
        place, width = axes[0, 0], 0.8 / max(len(variables), 1)
        for number, name in enumerate(variables):
            at = np.arange(len(found)) + (number - (len(variables) - 1) / 2) * width
            heights = [own.get(name, np.nan) for own in found.values()]
            place.bar(at, heights, width * 0.9, color=COLOURS.get(name, FAINT), label=SYMBOLS.get(name, name))
        _cut_tall_bars(place, found)
        place.axhline(0.0, color=INK, lw=0.8)
        labels = [(titles or {}).get(part, part.removeprefix(f"{full}-")).replace("_", " ") for part in found]
        place.set_xticks(np.arange(len(found)), labels, rotation=20, ha="right", rotation_mode="anchor")
        place.grid(visible=False, axis="x")
        place.set_ylabel("MSE against the whole model [%]")
        place.set_title("(c) increase of MSE without a part", pad=22)
        place.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=5, borderpad=0.1, handlelength=1.0)
    return Path(output)


def _cut_tall_bars(place: Any, found: Mapping[str, Mapping[str, float]]) -> None:
    """A part without which nothing works must not flatten all others: its bars leave the frame, with their number."""
    values = np.array([x for own in found.values() for x in own.values() if np.isfinite(x)])
    if values.size < 5:
        return
    usual = float(np.percentile(np.abs(values), 80))
    if np.abs(values).max() <= 4.0 * usual:
        return
    place.set_ylim(min(0.0, 1.1 * max(float(values.min()), -2.0 * usual)), 2.0 * usual)
    for bar in place.patches:
        if bar.get_height() > 2.0 * usual:
            place.text(bar.get_x() + bar.get_width() / 2, 1.97 * usual, f"{bar.get_height():.0f}", rotation=90,
                       ha="center", va="top", fontsize=7, color="white")  # fmt: skip


def draw_altitude_weight(
    scores: Mapping[float, Mapping[str, float]], output: str | os.PathLike[str], *, chosen: float = 5.0
) -> Path:
    """Draw MSE over the weight of altitude in the lift, each variable relative to its value at ``chosen``.

    Parameters
    ----------
    scores : ``{w_alt [km/m]: {variable: mse}}``
    chosen : the weight that is in use; the paper's
    """
    weights = sorted(scores)
    reference = scores[chosen if chosen in scores else weights[0]]
    with sheet(output, 1, 1, (5.4, 3.5)) as (_, axes):
        place = axes[0, 0]
        for name in reference:
            ratio = [scores[w][name] / reference[name] for w in weights]
            place.plot(range(len(weights)), ratio, marker="o", ms=4, lw=1.6, color=COLOURS.get(name, FAINT),
                       ls="--" if name == "v" else "-", label=VARIABLES[name].long_name)  # fmt: skip
        if chosen in weights:
            place.axvline(weights.index(chosen), color=FAINT, lw=0.8, ls=":")
        place.set_xticks(range(len(weights)), [f"{w:g}" for w in weights])
        place.set_xlabel("weight of altitude in the lift, $w_{alt}$ [km/m]")
        place.set_ylabel(f"MSE / MSE at {chosen:g} km/m")
        place.set_title("(d) sensitivity to the weight of altitude")
        place.legend(loc="best")
    return Path(output)
