"""``python -m benchmarks.mechanisms``: what each mechanism is worth to a linear forecast, into ``docs/results.md``.

The guide's shared fit is a forecast in closed form: values of the station, the lifted field, its surroundings and
tendencies, and the products that the terms of the extended equations are made of. One pass over the training windows
gives all sums; leaving a mechanism out is then a smaller system of equations, so that each is judged in seconds, on
blocks of the training period that were left out and on the test windows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.section import write_section
from fields.times import DAY
from fields.variables import STATE_VARIABLES
from stationpde.data import WindowSource, load_series
from stationpde.evaluation import (
    LONG_NAMES,
    Comparison,
    ErrorAccumulator,
    ErrorStatistics,
    Task,
    commit,
    compare,
    contestant,
    grid,
    windows_to_score,
)
from stationpde.guide import FOLDS, POOLED_STRENGTHS, Sums, pooled_sums
from stationpde.model import StateStatistics, StationPDEModel, guide_batches

# Names in the table of what is left out, and the origins of predictors that it stands for.
MECHANISMS = {
    "the lifted field altogether": ("field",),
    "its surroundings (gradients over 150 to 700 km)": ("surroundings",),
    "its tendencies (memory of 3 to 24 h)": ("tendency",),
    "products with the regime (relaxation and transport by wind and pressure slope)": ("regime",),
    "products with cloud proxies (insolation)": ("cloud",),
    "products with the hour": ("hour",),
    "products with the place": ("place",),
}


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Weights without some predictors (their rows are zero), and squared errors on blocks left out, over variance."""

    weights: Tensor
    blocks: dict[str, float]


@torch.no_grad()
def section(path: Path) -> str:
    """Return the section as Markdown."""
    began = time.process_time()
    config = contestant("default").config(Task("w2k-like", 24, "default", 0, "former"))
    series = load_series(str(path), config.data, quality="gross", command="benchmark")
    source = WindowSource.of(series, config)
    model = StationPDEModel.build(config, StateStatistics.of(series, source.windows.split, config)).eval()
    sums = pooled_sums(guide_batches(model, series, source.windows.split))
    origins = model.first_guess.predictors.origins(len(STATE_VARIABLES))
    dropped = {"nothing": (), **MECHANISMS}
    fits = {name: fitted(sums, origins, gone) for name, gone in dropped.items()}
    scores = scored(model, source, {name: fit.weights for name, fit in fits.items()})
    whole = scores["nothing"]
    effects = {name: compare(whole, score) for name, score in scores.items() if name != "nothing"}
    about = (
        f"Relative increase of the MSE of the guide's shared linear fit ({len(origins)} predictors, closed form, no "
        f"seeds) when a mechanism is left out: on {FOLDS} blocks of the training period, each left out in turn / on "
        f"the test windows. *n.s.*: not significant on test at 5 % by a block bootstrap over weeks of issue days and "
        "by Diebold and Mariano. A product counts with everything that it is made of."
    )
    names = [LONG_NAMES[v] for v in whole.variables]
    table = grid(["without", *names], [[name, *_row(fits, name, effects[name])] for name in effects])
    facts = f"`python -m benchmarks.mechanisms`, {time.process_time() - began:.0f} CPU s, commit {commit()}."
    return "\n\n".join(["## What each mechanism is worth in closed form", about, table, facts])


def fitted(sums: list[Sums], origins: list[frozenset[str]], gone: tuple[str, ...]) -> Fit:
    """Fit each variable without predictors that are made of ``gone``, its strength from blocks left out."""
    rows = torch.tensor([n for n, made_of in enumerate(origins) if not made_of & set(gone)])
    weights, blocks = [], {}
    for name, channel_sums in zip(STATE_VARIABLES, sums, strict=True):
        part = Sums(channel_sums.xx[:, rows][:, :, rows], channel_sums.xy[:, rows], channel_sums.yy)
        solution, folds = part.cross_validated(POOLED_STRENGTHS)
        each = folds.unflatten(-1, channel_sums.yy.shape[1:])
        blocks[name] = sum(float(part.errors(each[b], b)) for b in range(FOLDS)) / float(channel_sums.yy.sum())
        full = torch.zeros(channel_sums.xy.shape[1:], dtype=channel_sums.xy.dtype)
        full[rows] = solution.unflatten(-1, channel_sums.yy.shape[1:])
        weights.append(full)
    return Fit(torch.cat(weights, dim=-1).float(), blocks)


def scored(model: StationPDEModel, source: WindowSource, weights: dict[str, Tensor]) -> dict[str, ErrorStatistics]:
    """Compute the errors of every set of weights on the test windows, in one pass."""
    data = model.config.data
    starts = windows_to_score(source)
    issue = source.batch(starts[[0, -1]]).issue_time // DAY
    days = (int(issue[0]), int(issue[1]))
    ids = source.series.stations.id
    errors = {n: ErrorAccumulator(ids, data.scored, data.horizon, data.step_seconds, days) for n in weights}
    for first in range(0, len(starts), 32):
        batch = source.batch(starts[first : first + 32])
        inputs = model.predictors_of(batch.history, batch.issue_time)
        for name, one in weights.items():
            guess = torch.einsum("bnf,flc->blnc", inputs.pooled, one)
            errors[name].add(inputs.reference + guess * model.sites.observed_scale, batch)
    return {name: accumulator.statistics() for name, accumulator in errors.items()}


def _row(fits: dict[str, Fit], name: str, effect: dict[str, Comparison]) -> list[str]:
    cells = []
    for variable, c in effect.items():
        blocks = fits[name].blocks[variable] / fits["nothing"].blocks[variable] - 1.0
        test = 1.0 / (1.0 - c.gain) - 1.0
        cells.append(f"{100 * blocks:+.1f} / {100 * test:+.1f} %{'' if c.is_significant else ' n.s.'}")
    return cells


if __name__ == "__main__":
    write_section("mechanisms", __doc__, section)
