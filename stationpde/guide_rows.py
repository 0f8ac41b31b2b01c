"""Rows that the guide is fitted on: predictors and targets of windows of the training split, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.series import StationSeries
from fields.torch_data import WindowDataset
from fields.windows import Split, Windows, WindowSpec

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

    from stationpde.model import StationPDEModel

__all__ = ["FOLDS", "GuideBatches", "Report", "Rows"]

Array = np.ndarray[Any, Any]
Report = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""
# Consecutive parts of the training period, each of which is left out once.
FOLDS = 5
# Enough for some hundred predictors; more rows only cost time.
_MOST_ROWS, _MOST_WINDOWS, _BATCH = 400_000, 3600, 32


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A batch of windows of one part of the period."""

    part: int
    number: int
    time: Int64[Tensor, " batch"]
    pooled: Float[Tensor, "batch station predictor"]
    local: Float[Tensor, "batch station own"]
    target: Float[Tensor, "batch station lead channel"]
    shown: Bool[Tensor, "batch station"] | None


class GuideBatches:
    """Windows evenly through the training split, and what a model makes of them; each batch lies in one part.

    Parameters
    ----------
    report : told how far each pass is; what it raises ends the fit
    """

    def __init__(self, model: StationPDEModel, series: StationSeries, split: Split, report: Report) -> None:
        data = model.config.data
        spec = WindowSpec(data.history, data.horizon)
        windows = Windows.of(series, spec, split, require=("train",))
        self.model, self.report = model, report
        self.starts = sampled(windows.train, windows.steps_of_day)
        self.parts = np.arange(len(self.starts)) * FOLDS // max(1, len(self.starts))
        self.dataset = WindowDataset(series, self.starts, spec)
        # A share of the stations in each window, another in the next, is enough for what they share.
        self.every = max(1, -(-len(self.starts) * len(model.statistics.stations) // _MOST_ROWS))

    def passed(self, what: str, hidden: float = 0.0) -> Iterator[Rows]:
        """All batches; with ``hidden``, that share of the stations is drawn for each window and not shown."""
        chosen = [self.starts[self.parts == part] for part in range(FOLDS)]
        batches = [(part, own[n : n + _BATCH]) for part, own in enumerate(chosen) for n in range(0, len(own), _BATCH)]
        for number, (part, starts) in enumerate(batches):
            self.report(what, number, len(batches))
            batch = self.dataset.at(torch.as_tensor(starts))
            history, shown = batch.history, None
            if hidden > 0.0:
                shown = torch.rand(history.shape[0], history.shape[2]) >= hidden
                history = torch.where(shown[:, None, :, None], history, torch.nan)
            given = self.model.predictors_of(history, batch.issue_time)
            # Observed variables are guessed: a mean of relative humidity is not that of q at a mean of temperature.
            usual = self.model.usual(batch.issue_time, batch.future.shape[1], given.level)
            target = ((batch.future - usual) / self.model.sites.observed_scale).movedim(1, 2)
            yield Rows(part, number, batch.issue_time, given.pooled, given.local, target, shown)

    def some(self, number: int) -> slice:
        """The stations of a batch that count where all stations share."""
        return slice(number % self.every, None, self.every)


def sampled(starts: Array, steps_of_day: int) -> Array:
    """Windows evenly through the record, with every hour of issue among them."""
    stride = max(1, -(-len(starts) // _MOST_WINDOWS))
    while math.gcd(stride, steps_of_day) > 1:
        stride += 1
    return starts[::stride]
