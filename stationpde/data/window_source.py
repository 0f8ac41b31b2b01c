"""Windows of a record for training and scoring: their first steps by epoch and split, and batches of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields.times import DAY
from fields.windows import Batch, Split, SplitName, StationSeries, WindowDataset, Windows, WindowSpec

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["WindowSource"]

Array = np.ndarray[Any, Any]


class WindowSource:
    """The windows of a record, split in time."""

    def __init__(self, series: StationSeries, windows: Windows) -> None:
        self.series = series
        self.windows = windows
        self._dataset = WindowDataset(series, windows.train, windows.spec)

    @classmethod
    def of(cls, series: StationSeries, config: Config) -> WindowSource:
        """Cut a record into the windows of a configuration.

        Raises
        ------
        DataError
            If the record is too short for a training or a validation window.
        """
        data = config.data
        spec = WindowSpec(data.history, data.horizon, data.train_stride)
        split = Split.of(len(series), data.split)
        return cls(series, Windows.of(series, spec, split, require=("train", "val")))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content of the record."""
        return self.series.fingerprint

    @property
    def training_days(self) -> float:
        """Length of the training period in days."""
        return self.windows.split.val * self.series.step_seconds / DAY

    @property
    def seen_times(self) -> tuple[int, int]:
        """First and last time of training and validation, seconds since 1970."""
        return int(self.series.time[0]), int(self.series.time[self.windows.split.test - 1])

    def epoch(self, number: int) -> Array:
        """Return the first steps of the training windows of an epoch."""
        return self.windows.epoch(number)

    def part(self, name: SplitName, most: int | None = None) -> Array:
        """Return the first steps of the windows of a split; with ``most`` at most so many, evenly spaced."""
        starts = self.windows[name]
        if most is None or len(starts) <= most:
            return starts
        return starts[np.linspace(0, len(starts) - 1, most).round().astype(np.int64)]

    def batch(self, starts: Array) -> Batch:
        """Read the windows that begin at these steps."""
        return self._dataset.at(torch.as_tensor(np.asarray(starts, np.int64)))
