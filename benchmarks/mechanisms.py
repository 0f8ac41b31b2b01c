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
from fields.variables import STATE_VARIABLES
from stationpde.data import load_series
from stationpde.evaluation.cells import commit
from stationpde.evaluation.contestants import Task, contestant
from stationpde.evaluation.scoring import windows_to_score
from stationpde.evaluation.significance import Comparison, compare
from stationpde.evaluation.statistics import ErrorAccumulator, ErrorStatistics
from stationpde.evaluation.tables import LONG_NAMES, grid
from stationpde.guide_fit import POOLED_STRENGTHS, Sums, pooled_sums
from stationpde.guide_rows import FOLDS, GuideBatches
from stationpde.model import StationPDEModel
from stationpde.statistics import StateStatistics
from stationpde.training.source import WindowSource

# What is left out, and how a table calls it.
MECHANISMS = {
    "the lifted field altogether": ("field",),
    "its surroundings (gradients over 150 to 700 km)": ("surroundings",),
    "its tendencies (memory of 3 to 24 h)": ("tendency",),
    "products with the regime (relaxation and transport by wind and pressure slope)": ("regime",),
    "products with cloud proxies (insolation)": ("cloud",),
    "products with the hour": ("hour",),
    "products with the place": ("place",),
}
_DAY = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Weights without some predictors (their rows are zero), and squared errors on blocks left out, over variance."""

    weights: Tensor
    blocks: dict[str, float]


@torch.no_grad()
def section(path: Path) -> str:
    """The section as Markdown."""
    began = time.process_time()
    config = contestant("default").config(Task("w2k-like", 24, "default", 0))
    series = load_series(str(path), config.data, quality="gross", command="benchmark")
    source = WindowSource.of(series, config)
    model = StationPDEModel.build(config, StateStatistics.of(series, source.windows.split, config)).eval()
    sums = pooled_sums(GuideBatches(model, series, source.windows.split, lambda *_: None))
    origins = model.predictors.origins(5)
    dropped = {"nothing": (), **MECHANISMS}
    fits = {name: fitted(sums, origins, gone) for name, gone in dropped.items()}
    scores = scored(model, source, {name: fit.weights for name, fit in fits.items()})
    whole = scores["nothing"]
    effects = {name: compare(whole, own) for name, own in scores.items() if name != "nothing"}
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
    """The fit of each variable without predictors that are made of ``gone``, its strength from blocks left out."""
    kept = torch.tensor([n for n, made_of in enumerate(origins) if not made_of & set(gone)])
    weights, blocks = [], {}
    for name, own in zip(STATE_VARIABLES, sums, strict=True):
        part = Sums(own.xx[:, kept][:, :, kept], own.xy[:, kept], own.yy)
        found, folds = part.fitted(POOLED_STRENGTHS)
        each = folds.unflatten(-1, own.yy.shape[1:])
        blocks[name] = sum(float(part.errors(each[b], b)) for b in range(FOLDS)) / float(own.yy.sum())
        full = torch.zeros(own.xy.shape[1:], dtype=own.xy.dtype)
        full[kept] = found.unflatten(-1, own.yy.shape[1:])
        weights.append(full)
    return Fit(torch.cat(weights, dim=-1).float(), blocks)


def scored(model: StationPDEModel, source: WindowSource, weights: dict[str, Tensor]) -> dict[str, ErrorStatistics]:
    """Errors of every set of weights on the test windows, in one pass."""
    data = model.config.data
    starts = windows_to_score(source)
    issue = source.batch(starts[[0, -1]]).issue_time // _DAY
    days = (int(issue[0]), int(issue[1]))
    ids = source.series.stations.id
    found = {n: ErrorAccumulator(ids, data.scored, data.horizon, data.step_seconds, days) for n in weights}
    for first in range(0, len(starts), 32):
        batch = source.batch(starts[first : first + 32])
        given = model.predictors_of(batch.history, batch.issue_time)
        usual = model.usual(batch.issue_time, data.horizon, given.level)
        for name, own in weights.items():
            guess = torch.einsum("bnf,flc->blnc", given.pooled, own)
            found[name].add(usual + guess * model.sites.observed_scale, batch)
    return {name: own.statistics() for name, own in found.items()}


def _row(fits: dict[str, Fit], name: str, effect: dict[str, Comparison]) -> list[str]:
    cells = []
    for variable, c in effect.items():
        blocks = fits[name].blocks[variable] / fits["nothing"].blocks[variable] - 1.0
        test = 1.0 / (1.0 - c.gain) - 1.0
        cells.append(f"{100 * blocks:+.1f} / {100 * test:+.1f} %{'' if c.is_significant else ' n.s.'}")
    return cells


if __name__ == "__main__":
    write_section("mechanisms", __doc__, section)
