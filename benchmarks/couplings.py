"""``python -m benchmarks.couplings``: would the equations improve a field of guesses?

Guesses of the guide at the stations, lifted lead by lead, are the best fields available. Each term of the surface
equations is computed on them with the forecast wind and read back at the stations; the share of the guesses'
errors that it explains, with a coefficient for every lead and variable from least squares on validation, is what
stepping the equations from such fields could gain. Written into ``docs/results.md``.
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
from stationpde.data import WindowSource, load_series
from stationpde.evaluation import (
    LONG_NAMES,
    ErrorAccumulator,
    Task,
    commit,
    compare,
    contestant,
    grid,
    windows_to_score,
)
from stationpde.guide import ShareSums
from stationpde.model import ModelLearner
from stationpde.physics import WIND, P
from stationpde.seeding import seed_everything

# Of validation, each left out once; the pressure slope is taken across this many km, as the extended equations do.
_BLOCKS, _ACROSS_KM = 4, 315.0
_DAY, _BATCH = 86_400, 32

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """Windows of a split: mean guesses, truth and reference of the guesses ``[window, lead, station, channel]``, SI."""

    guess: Tensor
    truth: Tensor
    reference: Tensor
    issue: Tensor


@torch.no_grad()
def section(path: Path) -> str:
    """Return the section as Markdown."""
    began = time.process_time()
    config = contestant("default").config(Task("w2k-like", 24, "default", 0, "former"))
    series = load_series(str(path), config.data, quality="gross", command="benchmark")
    source = WindowSource.of(series, config)
    seed_everything(config.train.seed, "init")
    learner = ModelLearner.of(config, series, source.windows.split)
    with torch.enable_grad():
        learner.prepare(source, lambda *_: None)
    learner.model.eval()
    shares = _shares(learner, source)
    validation = _guesses(learner, source, source.part("val"), shares)
    test = _guesses(learner, source, windows_to_score(source), shares)
    terms = Terms(learner)
    rows = []
    for name, make in terms.named().items():
        on_blocks, on_test = gains(validation, test, make)
        cells = [
            f"{100 * b:+.1f} / {100 * c.gain:+.1f} %{'' if c.is_significant else ' n.s.'}"
            for b, c in zip(on_blocks, _compared(source, test, on_test), strict=True)
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
        """Return the terms by their names in the table."""
        return {
            "the field itself (smoothing)": lambda g: [self._read(self._field(g)) - self._scaled(g)],
            "transport by the forecast wind": self._transport,
            "diffusion": lambda g: [self._read(laplacian(self._field(g), grid=self.grid) * self.grid.dy**2)],
            "slope of the forecast pressure": self._slope,
            "all of them": lambda g: [t for make in list(self.named().values())[:4] for t in make(g)],
        }

    def _scaled(self, guesses: Guesses) -> Tensor:
        return (guesses.guess - guesses.reference) / self.sites.observed_scale

    def _field(self, guesses: Guesses) -> Tensor:
        field, _ = self.sites.lift(self._scaled(guesses).contiguous())
        return torch.nan_to_num(field)

    def _read(self, fields: Tensor) -> Tensor:
        values: Tensor = self.sites.read(fields)
        return values

    def _transport(self, guesses: Guesses) -> list[Tensor]:
        wind = torch.cat([guesses.guess[..., WIND], torch.zeros_like(guesses.guess[..., P:])], dim=-1)
        u, v = torch.nan_to_num(self.sites.lift(wind.contiguous())[0])[:, :, WIND].unbind(dim=2)
        field = self._field(guesses)
        carried = [advection(field[:, :, c], u, v, grid=self.grid) for c in range(field.shape[2])]
        return [self._read(torch.stack(carried, dim=2) * -self.seconds)]

    def _slope(self, guesses: Guesses) -> list[Tensor]:
        cells = min(max(1, round(1e3 * _ACROSS_KM / self.grid.dy)), min(self.grid.ny, self.grid.nx) - 1)
        pressure = self._field(guesses)[:, :, P : P + 1]
        length = cells * self.grid.dy
        slopes = [op(pressure, grid=self.grid, radius=cells) * length for op in (gradient_scale_x, gradient_scale_y)]
        return [self._read(one).expand(guesses.guess.shape) for one in slopes]


def gains(validation: Guesses, test: Guesses, make: Callable[[Guesses], list[Tensor]]) -> tuple[list[float], Tensor]:
    """Return the gain on blocks of ``validation`` by variable, and the corrected guesses of ``test``."""
    x, x_test = torch.stack(make(validation), dim=-1).double(), torch.stack(make(test), dim=-1).double()
    rest = (validation.truth - validation.guess).double()
    block = torch.arange(len(rest)) * _BLOCKS // len(rest)
    leads, channels = rest.shape[1], rest.shape[3]
    better, on_blocks = test.guess.clone(), []
    for c in range(channels):
        before = after = 0.0
        for lead in range(leads):
            terms, left = x[:, lead, :, c], rest[:, lead, :, c]
            for n in range(_BLOCKS):
                error = left[block == n] - terms[block == n] @ _weights(terms[block != n], left[block != n])
                before += float(left[block == n].square().nansum())
                after += float(error.square().nansum())
            better[:, lead, :, c] += (x_test[:, lead, :, c] @ _weights(terms, left)).to(better.dtype)
        on_blocks.append(1.0 - after / before)
    return on_blocks, better


def _weights(x: Tensor, y: Tensor) -> Tensor:
    """Solve least squares over observed values."""
    there = torch.isfinite(y)
    x, y = x[there], y[there]
    products = x.T @ x
    steady = products + 1e-3 * torch.diag(products.diagonal() + 1e-12)
    solution: Tensor = torch.linalg.solve(steady, x.T @ y)
    return solution


def _shares(learner: ModelLearner, source: WindowSource) -> Tensor:
    """Fit the shares of linear guess and perceptrons on validation, without the field."""
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
        reference = learner.model.predictors_of(batch.history, batch.issue_time).reference
        parts.append(((shares[:, None, :, None] * guided).sum(dim=0), batch.future, reference, batch.issue_time))
    return Guesses(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def _compared(source: WindowSource, test: Guesses, better: Tensor):  # type: ignore[no-untyped-def]
    """Comparisons of corrected with plain guesses on the test windows, variable by variable."""
    config = contestant("default").config(Task("w2k-like", 24, "default", 0, "former"))
    starts = windows_to_score(source)
    days = (int(test.issue[0]) // _DAY, int(test.issue[-1]) // _DAY)
    data, ids = config.data, source.series.stations.id
    statistics = []
    for forecast in (better, test.guess):
        errors = ErrorAccumulator(ids, data.scored, data.horizon, data.step_seconds, days)
        for first in range(0, len(starts), _BATCH):
            errors.add(forecast[first : first + _BATCH], source.batch(starts[first : first + _BATCH]))
        statistics.append(errors.statistics())
    return list(compare(*statistics).values())


if __name__ == "__main__":
    write_section("couplings", __doc__, section)
