"""Draw MSE without parts of the model, and with other weights of altitude (the paper's Fig. 3 c and d)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fields import atomic
from fields.errors import DataError, printable
from fields.variables import STATE_VARIABLES, VARIABLES
from stationpde.config import VARIANTS
from stationpde.plots.style import COLOURS, FAINT, INK, SYMBOLS, sheet

__all__ = [
    "draw_altitude_weight", "draw_parts", "read_altitude_weights", "read_scores", "relative_increase", "whole_of",
]  # fmt: skip

Scores = Mapping[str, Mapping[str, float]]


def read_scores(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read MSE by model and variable from ``results.json`` of `stationpde ablate` or `benchmark`.

    From ``ablation.json``, which has relative increases alone, MSE in parts of the whole model's.

    Raises
    ------
    DataError
        If the file is no such table.
    """
    content = atomic.read_json(Path(path))
    try:
        if "increase" in content:
            increases = content["increase"].items()
            parts = {part: {name: 1.0 + float(x) for name, x in by_variable.items()} for part, by_variable in increases}
            whole, scored = str(content["variant"]), {name for mse in parts.values() for name in mse}
            ones = {name: 1.0 for name in STATE_VARIABLES if name in scored}
            return {whole: ones, **{f"{whole}-{part}": mse for part, mse in parts.items()}}
        scores = {
            model: {name: float(entry[name]["mse"]) for name in STATE_VARIABLES if name in entry}
            for model, entry in content["pooled"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise DataError(
            f"{printable(path)} holds no table of models and variables", code="SPDE-R012",
            do="stationpde ablate STORE -o DIR   writes DIR/results.json",
        ) from problem  # fmt: skip
    return scores


def read_altitude_weights(path: str | os.PathLike[str]) -> dict[float, dict[str, float]]:
    """Read MSE by weight of altitude [km/m] and variable from ``w_alt.json`` of `stationpde plot w-alt`.

    Raises
    ------
    DataError
        If the file is no such table.
    """
    try:
        table = atomic.read_json(Path(path))["mse"]
        return {float(weight): {name: float(mse) for name, mse in entry.items()} for weight, entry in table.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise DataError(
            f"{printable(path)} holds no table of weights and variables", code="SPDE-R012",
            do="stationpde plot w-alt STORE -o F.png   writes RUNS/w_alt.json",
        ) from problem  # fmt: skip


def whole_of(scores: Scores) -> str:
    """Return the name of the whole model: the first variant that has scores, which the others are named after."""
    named = [name for name in VARIANTS if name in scores]
    return named[0] if named else next(iter(scores))


def relative_increase(scores: Scores, whole: str) -> dict[str, dict[str, float]]:
    """Compute by how many per cent MSE grows without each part.

    Parameters
    ----------
    scores : ``{part: {variable: mse}}`` with the whole model among them
    whole : the name of the whole model
    """
    reference = scores[whole]
    return {
        part: {name: 100.0 * (mse / reference[name] - 1.0) for name, mse in entry.items() if reference.get(name)}
        for part, entry in scores.items()
        if part != whole
    }


def draw_parts(
    scores: Scores, output: str | os.PathLike[str], *, full: str = "default", titles: Mapping[str, str] | None = None
) -> Path:
    """Draw the relative increase of MSE without each part, a group of bars for each.

    Parameters
    ----------
    scores : ``{part: {variable: mse}}`` with the whole model among them
    output : the picture to write; its ending decides the format
    full : the name of the whole model
    titles : labels of the parts, by name
    """
    increases = relative_increase(scores, full)
    variables = list(dict.fromkeys(name for entry in increases.values() for name in entry))
    with sheet(output, 1, 1, (1.6 + 1.15 * max(len(increases), 2), 3.6)) as (_, axes):
        place, width = axes[0, 0], 0.8 / max(len(variables), 1)
        for number, name in enumerate(variables):
            at = np.arange(len(increases)) + (number - (len(variables) - 1) / 2) * width
            heights = [entry.get(name, np.nan) for entry in increases.values()]
            place.bar(at, heights, width * 0.9, color=COLOURS.get(name, FAINT), label=SYMBOLS.get(name, name))
        _cut_tall_bars(place, increases)
        place.axhline(0.0, color=INK, lw=0.8)
        labels = [(titles or {}).get(part, part.removeprefix(f"{full}-")).replace("_", " ") for part in increases]
        place.set_xticks(np.arange(len(increases)), labels, rotation=20, ha="right", rotation_mode="anchor")
        place.grid(visible=False, axis="x")
        place.set_ylabel("MSE against the whole model [%]")
        place.set_title("(c) increase of MSE without a part", pad=22)
        place.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=5, borderpad=0.1, handlelength=1.0)
    return Path(output)


def _cut_tall_bars(place: Any, increases: Mapping[str, Mapping[str, float]]) -> None:
    """Cut bars far above the others at the frame and label them: one essential part must not flatten all others."""
    values = np.array([x for entry in increases.values() for x in entry.values() if np.isfinite(x)])
    if values.size < 5:
        return
    typical = float(np.percentile(np.abs(values), 80))
    if np.abs(values).max() <= 4.0 * typical:
        return
    place.set_ylim(min(0.0, 1.1 * max(float(values.min()), -2.0 * typical)), 2.0 * typical)
    for bar in place.patches:
        if bar.get_height() > 2.0 * typical:
            place.text(bar.get_x() + bar.get_width() / 2, 1.97 * typical, f"{bar.get_height():.0f}", rotation=90,
                       ha="center", va="top", fontsize=7, color="white")  # fmt: skip


def draw_altitude_weight(
    scores: Mapping[float, Mapping[str, float]], output: str | os.PathLike[str], *, chosen: float = 5.0
) -> Path:
    """Draw MSE over the weight of altitude in the lift, each variable relative to its value at ``chosen``.

    Parameters
    ----------
    scores : ``{w_alt [km/m]: {variable: mse}}``
    output : the picture to write; its ending decides the format
    chosen : the weight in use, by default the paper's [km/m]
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
