"""Rows that the guide is fitted on: predictors and targets of windows of the training split, batch by batch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.windows import Split, StationSeries, WindowDataset, Windows, WindowSpec
from stationpde.guide.predictors import GuidePredictors

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["FOLDS", "GuideBatches", "PredictorFunction", "Report", "Rows"]

Array = np.ndarray[Any, Any]
Report = Callable[[str, int, int], None]
"""Progress callback: name of the task, how much of it is done, and how much there is."""
PredictorFunction = Callable[[Tensor, Tensor, slice | None], GuidePredictors]
"""From observed histories ``[batch, time, station, channel]`` (SI, NaN = missing) and issue times ``[batch]``, at the
stations of a slice, or at all."""
StationChoice = Callable[[int], slice]
"""From the number of a batch to the stations whose rows are made of it."""
# Consecutive parts of the training period, each of which is left out once.
FOLDS = 5
# Enough for some hundred predictors; more rows only cost time.
_MOST_ROWS, _MOST_WINDOWS, _BATCH = 400_000, 3600, 32
# With all rows asked for, a network of few stations has more windows: as many as make so many rows.
_ALL_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A batch of windows of one part of the period.

    Attributes
    ----------
    part : number of the part of the training period
    number : number of the batch in its pass
    stations : the stations of the rows, in the order of the network
    time : issue times, seconds since 1970, UTC
    pooled, local : predictors, see `GuidePredictors`
    target : scaled departures of the observed future from the reference; NaN = not observed
    shown : stations that were not hidden; None where all were shown
    """

    part: int
    number: int
    stations: slice
    time: Int64[Tensor, " batch"]
    pooled: Float[Tensor, "batch station predictor"]
    local: Float[Tensor, "batch station local"]
    target: Float[Tensor, "batch station lead channel"]
    shown: Bool[Tensor, "batch station"] | None


class GuideBatches:
    """Windows evenly through the training split, as rows; each batch lies in one part of the period.

    Parameters
    ----------
    series : the record
    split : of the record; only its training part is read
    spec : steps of a window's history and future
    predictors_of : computes predictors and reference of histories
    scale : of observed departures at each station, SI
    places : row and column in the region and altitude of each station
    report : progress callback of each pass; an exception that it raises ends the fit
    takes_all : every window up to a million rows, and gaps between two observed leads bridged in linear fits
    """

    def __init__(
        self,
        series: StationSeries,
        split: Split,
        spec: WindowSpec,
        predictors_of: PredictorFunction,
        scale: Float[Tensor, "station channel"],
        places: Float[Tensor, "station 3"],
        report: Report,
        takes_all: bool = False,
    ) -> None:
        windows = Windows.of(series, spec, split, require=("train",))
        self.predictors_of, self.scale, self.places, self.report = predictors_of, scale, places, report
        self.takes_all = takes_all
        most = max(_MOST_WINDOWS, _ALL_ROWS // len(places)) if takes_all else _MOST_WINDOWS
        self.starts = sampled(windows.train, windows.steps_of_day, most)
        self.parts = np.arange(len(self.starts)) * FOLDS // max(1, len(self.starts))
        self.dataset = WindowDataset(series, self.starts, spec)
        self.most: int | None = None
        # The shared fit takes every n-th station of a window, others in the next window.
        self.every = max(1, -(-len(self.starts) * len(places) // _MOST_ROWS))

    def rows(self, task: str, hidden_share: float = 0.0, stations_of: StationChoice | None = None) -> Iterator[Rows]:
        """Iterate over all batches.

        Parameters
        ----------
        task : name of the pass for the progress callback
        hidden_share : of the stations, drawn for each window, that are hidden from the predictors
        stations_of : gives the stations of a batch; all by default
        """
        batches = self.batches()
        for number, (part, starts) in enumerate(batches):
            self.report(task, number, len(batches))
            batch = self.dataset.at(torch.as_tensor(starts))
            history, shown = batch.history, None
            if hidden_share > 0.0:
                shown = torch.rand(history.shape[0], history.shape[2]) >= hidden_share
                history = torch.where(shown[:, None, :, None], history, torch.nan)
            chosen = slice(None) if stations_of is None else stations_of(number)
            inputs = self.predictors_of(history, batch.issue_time, chosen)
            # Observed variables are guessed: a mean of relative humidity is not that of q at a mean of temperature.
            target = ((batch.future[:, :, chosen] - inputs.reference) / self.scale[chosen]).movedim(1, 2)
            shown = None if shown is None else shown[:, chosen]
            yield Rows(part, number, chosen, batch.issue_time, inputs.pooled, inputs.local, target, shown)

    def batches(self) -> list[tuple[int, Array]]:
        """List the batches of a pass: the part, and the first steps of the windows."""
        starts_of = [self.starts[self.parts == part] for part in range(FOLDS)]
        every = [
            (part, starts[n : n + _BATCH])
            for part, starts in enumerate(starts_of)
            for n in range(0, len(starts), _BATCH)
        ]
        return every[: self.most]

    def limited(self, most: int) -> GuideBatches:
        """Return the same rows, of the first so many batches."""
        first = copy.copy(self)
        first.most = most
        return first

    def linear_target(self, rows: Rows) -> Float[Tensor, "batch station lead channel"]:
        """Return the targets of a linear fit, which takes a row where every lead was observed."""
        return bridged(rows.target) if self.takes_all else rows.target

    def pooled_stations(self, number: int) -> slice:
        """Return the stations of batch ``number`` that count in the shared fit."""
        return slice(number % self.every, None, self.every)


def bridged(target: Float[Tensor, "batch station lead channel"]) -> Float[Tensor, "batch station lead channel"]:
    """Fill gaps between two observed leads linearly; what has no observed lead on one side stays missing."""
    steps = list(target.unbind(-2))
    ahead: list[tuple[Tensor, Tensor]] = []  # value and distance of the next observed lead, from the last lead on
    value, distance = torch.full_like(steps[0], torch.nan), torch.zeros_like(steps[0])
    for step in reversed(steps):
        there = torch.isfinite(step)
        value, distance = torch.where(there, step, value), torch.where(there, 0.0, distance + 1.0)
        ahead.append((value, distance))
    filled = [steps[0]]
    for step, (following, until) in zip(steps[1:], reversed(ahead[:-1]), strict=True):
        between = filled[-1] + (following - filled[-1]) / (until + 1.0)
        filled.append(torch.where(torch.isfinite(step), step, between))
    return torch.stack(filled, dim=-2)


def sampled(starts: Array, steps_of_day: int, most: int = _MOST_WINDOWS) -> Array:
    """Select windows evenly through the record, with every hour of issue among them."""
    stride = max(1, -(-len(starts) // most))
    while math.gcd(stride, steps_of_day) > 1:
        stride += 1
    return starts[::stride]
