"""Windows as the loop sees them: which there are in an epoch, and batches of them, gathered here or in workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from fields.series import StationSeries
from fields.torch_data import Batch, WindowDataset
from fields.windows import Split, SplitName, Windows, WindowSpec
from stationpde.training.lock import let_go_in_child
from stationpde.training.resources import worker_died

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["WindowSource", "feed"]

Array = np.ndarray[Any, Any]
# A worker gathers a batch in milliseconds; one that is silent for so long is dead or starved.
_WORKER_TIMEOUT = 30.0


class WindowSource:
    """The windows of a record, split in time."""

    def __init__(self, series: StationSeries, windows: Windows) -> None:
        self.series = series
        self.windows = windows
        self._dataset = WindowDataset(series, windows.train, windows.spec)

    @classmethod
    def of(cls, series: StationSeries, config: Config) -> WindowSource:
        """The windows that a configuration asks for.

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
        """Stands for the content of the record."""
        return self.series.fingerprint

    def epoch(self, number: int) -> Array:
        """First steps of the training windows of an epoch."""
        return self.windows.epoch(number)

    def part(self, name: SplitName, most: int | None = None) -> Array:
        """First steps of the windows of a split, at most so many, evenly spaced."""
        starts = self.windows[name]
        if most is None or len(starts) <= most:
            return starts
        return starts[np.linspace(0, len(starts) - 1, most).round().astype(np.int64)]

    def batch(self, starts: Array) -> Batch:
        """The windows that begin at these steps."""
        return self._dataset.at(torch.as_tensor(np.asarray(starts, np.int64)))


class _Batches(Dataset[Batch]):
    def __init__(self, source: WindowSource, starts: list[Array]) -> None:
        self._source, self._starts = source, starts

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Batch:
        return self._source.batch(self._starts[number])


def feed(source: WindowSource, starts: Iterable[Array], workers: int = 0, lock: Path | None = None) -> Iterator[Batch]:
    """Batches in order; with ``workers`` they are gathered ahead of time in other processes."""
    if workers == 0:
        yield from map(source.batch, starts)
        return

    def begin(number: int) -> None:
        # A worker that survives a killed trainer must not keep the run locked.
        if lock is not None:
            let_go_in_child(lock)

    loader = DataLoader(
        _Batches(source, list(starts)),
        batch_size=None,
        num_workers=workers,
        timeout=_WORKER_TIMEOUT,
        worker_init_fn=begin,
        # Its own generator: the loader must not draw from the one that training is seeded with.
        generator=torch.Generator().manual_seed(0),
    )
    # The death of a worker is thrown into whatever the process does at that moment: see `resources.process_faults`.
    # One that dies while its batch is being handed over shows as a connection that ends.
    try:
        yield from loader
    except (EOFError, ConnectionError, FileNotFoundError) as problem:
        raise worker_died(problem) from problem
