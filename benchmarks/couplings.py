"""``python -m benchmarks.couplings``: would the equations improve a field that the guesses have made?

The guide's guesses at the stations, lifted lead by lead, are fields as good as any known here. Each term of the surface
equations is computed on them with the forecast wind and read back at the stations; what it explains of the guesses'
errors, with a coefficient of its own for every lead and variable from least squares on validation, is what one could
gain by stepping the equations from such fields. Written into ``docs/results.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.section import write_section
from pde_ops.ops import advection, gradient_scale_x, gradient_scale_y, laplacian
from stationpde.data import load_series
from stationpde.evaluation.cells import commit
from stationpde.evaluation.contestants import Task, contestant
from stationpde.evaluation.scoring import windows_to_score
from stationpde.evaluation.significance import compare
from stationpde.evaluation.statistics import ErrorAccumulator
from stationpde.evaluation.tables import LONG_NAMES, grid
from stationpde.learner import ModelLearner
from stationpde.shares import ShareSums
from stationpde.training.seeding import seed_everything
from stationpde.training.source import WindowSource

# Of validation, each left out once; the pressure slope is taken across this many km, as the extended equations do.
_BLOCKS, _ACROSS_KM = 4, 315.0
_DAY, _BATCH = 86_400, 32

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """Windows of a split: mean guesses, truth and climatology ``[window, lead, station, channel]``, SI."""

    guess: Tensor
    truth: Tensor
    usual: Tensor
    issue: Tensor


@torch.no_grad()
def section(path: Path) -> str:
    """The section as Markdown."""
    began = time.process_time()
    config = contestant("default").config(Task("w2k-like", 24, "default", 0))
    series = load_series(str(path), config.data, quality="gross", command="benchmark")
    source = WindowSource.of(series, config)
    seed_everything(config.train.seed, "init")
    learner = ModelLearner.of(config, series, source.windows.split)
    with torch.enable_grad():
        learner.prepare(source, lambda *_: None)
    learner.model.eval()
    shares = _shares(learner, source)
    known = _guesses(learner, source, source.part("val"), shares)
    asked = _guesses(learner, source, windows_to_score(source), shares)
    terms = Terms(learner)
    rows = []
    for name, make in terms.named().items():
        on_blocks, on_test = gains(known, asked, make)
        cells = [
            f"{100 * b:+.1f} / {100 * c.gain:+.1f} %{'' if c.is_significant else ' n.s.'}"
            for b, c in zip(on_blocks, _compared(source, asked, on_test), strict=True)
        ]
        rows.append([name, *cells])
    about = (
        "The mean of the guide's guesses, lifted lead by lead; terms of the equations on these fields, each with a "
        "coefficient for every lead and variable from least squares on validation: how much lower the MSE is with "
        f"them, on {_BLOCKS} blocks of validation, each left out in turn / on the test windows. *n.s.*: not "
        "significant on test at 5 % by a block bootstrap over weeks of issue days and by Diebold and Mariano."
    )
    table = grid(["term", *(LONG_NAMES[v] for v in config.data.scored)], rows)
    facts = f"`python -m benchmarks.couplings`, {time.process_time() - began:.0f} CPU s, seed 0, commit {commit()}."
    return "\n\n".join(["## What the equations would add to a field of guesses", about, table, facts])


class Terms:
    """Terms of the equations on fields of scaled departures, per forecast interval, read at the stations."""

    def __init__(self, learner: ModelLearner) -> None:
        self.model = learner.model
        self.grid, self.sites = self.model.region.pde_grid, self.model.sites
        self.seconds = learner.config.data.step_seconds

    def named(self) -> dict[str, Callable[[Guesses], list[Tensor]]]:
        """What a table calls them, and how they are made."""
        return {
            "the field itself (smoothing)": lambda g: [self._read(self._field(g)) - self._scaled(g)],
            "transport by the forecast wind": self._transport,
            "diffusion": lambda g: [self._read(laplacian(self._field(g), grid=self.grid) * self.grid.dy**2)],
            "slope of the forecast pressure": self._slope,
            "all of them": lambda g: [t for make in list(self.named().values())[:4] for t in make(g)],
        }

    def _scaled(self, given: Guesses) -> Tensor:
        return (given.guess - given.usual) / self.sites.observed_scale

    def _field(self, given: Guesses) -> Tensor:
        found, _ = self.sites.lift(self._scaled(given).contiguous())
        return torch.nan_to_num(found)

    def _read(self, fields: Tensor) -> Tensor:
        found: Tensor = self.sites.read(fields)
        return found

    def _transport(self, given: Guesses) -> list[Tensor]:
        wind = torch.cat([given.guess[..., :2], torch.zeros_like(given.guess[..., 2:])], dim=-1)
        u, v = torch.nan_to_num(self.sites.lift(wind.contiguous())[0])[:, :, :2].unbind(dim=2)
        field = self._field(given)
        carried = [advection(field[:, :, c], u, v, grid=self.grid) for c in range(field.shape[2])]
        return [self._read(torch.stack(carried, dim=2) * -self.seconds)]

    def _slope(self, given: Guesses) -> list[Tensor]:
        cells = min(max(1, round(1e3 * _ACROSS_KM / self.grid.dy)), min(self.grid.ny, self.grid.nx) - 1)
        pressure = self._field(given)[:, :, 2:3]
        length = cells * self.grid.dy
        found = [op(pressure, grid=self.grid, radius=cells) * length for op in (gradient_scale_x, gradient_scale_y)]
        return [self._read(one).expand(given.guess.shape) for one in found]


def gains(known: Guesses, asked: Guesses, make: Callable[[Guesses], list[Tensor]]) -> tuple[list[float], Tensor]:
    """Gain on blocks of ``known`` by variable, and the corrected guesses of ``asked``."""
    x, x_asked = torch.stack(make(known), dim=-1).double(), torch.stack(make(asked), dim=-1).double()
    rest = (known.truth - known.guess).double()
    block = torch.arange(len(rest)) * _BLOCKS // len(rest)
    leads, channels = rest.shape[1], rest.shape[3]
    better, on_blocks = asked.guess.clone(), []
    for c in range(channels):
        before = after = 0.0
        for lead in range(leads):
            own, left = x[:, lead, :, c], rest[:, lead, :, c]
            for n in range(_BLOCKS):
                error = left[block == n] - own[block == n] @ _weights(own[block != n], left[block != n])
                before += float(left[block == n].square().nansum())
                after += float(error.square().nansum())
            better[:, lead, :, c] += (x_asked[:, lead, :, c] @ _weights(own, left)).to(better.dtype)
        on_blocks.append(1.0 - after / before)
    return on_blocks, better


def _weights(x: Tensor, y: Tensor) -> Tensor:
    """Least squares over what was observed."""
    there = torch.isfinite(y)
    x, y = x[there], y[there]
    products = x.T @ x
    steady = products + 1e-3 * torch.diag(products.diagonal() + 1e-12)
    found: Tensor = torch.linalg.solve(steady, x.T @ y)
    return found


def _shares(learner: ModelLearner, source: WindowSource) -> Tensor:
    """Shares of linear guess and perceptrons on validation, without the field."""
    guide = learner.model.guide
    assert guide is not None
    sums = ShareSums(guide.share.shape[0], guide.horizon, guide.channels)
    for batch, guided in _batches(learner, source, source.part("val")):
        sums.add(tuple(guided), batch.future, learner.model.sites.observed_scale)
    return sums.shares().float()


def _batches(learner: ModelLearner, source: WindowSource, starts: Array):  # type: ignore[no-untyped-def]
    for first in range(0, len(starts), _BATCH):
        batch = source.batch(starts[first : first + _BATCH])
        yield batch, learner.model.analyse(batch.history, batch.issue_time).guided


def _guesses(learner: ModelLearner, source: WindowSource, starts: Array, shares: Tensor) -> Guesses:
    parts = []
    for batch, guided in _batches(learner, source, starts):
        level = learner.model.predictors_of(batch.history, batch.issue_time).level
        usual = learner.model.usual(batch.issue_time, batch.future.shape[1], level)
        parts.append(((shares[:, None, :, None] * guided).sum(dim=0), batch.future, usual, batch.issue_time))
    return Guesses(*(torch.cat(found) for found in zip(*parts, strict=True)))


def _compared(source: WindowSource, asked: Guesses, better: Tensor):  # type: ignore[no-untyped-def]
    """Comparisons of corrected with plain guesses on the test windows, variable by variable."""
    config, starts = contestant("default").config(Task("w2k-like", 24, "default", 0)), windows_to_score(source)
    days = (int(asked.issue[0]) // _DAY, int(asked.issue[-1]) // _DAY)
    data, ids = config.data, source.series.stations.id
    found = []
    for forecast in (better, asked.guess):
        own = ErrorAccumulator(ids, data.scored, data.horizon, data.step_seconds, days)
        for first in range(0, len(starts), _BATCH):
            own.add(forecast[first : first + _BATCH], source.batch(starts[first : first + _BATCH]))
        found.append(own.statistics())
    return list(compare(*found).values())


if __name__ == "__main__":
    write_section("couplings", __doc__, section)
