"""Training of one run, or of several that differ in their seed alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stationpde.training.session import TrainOptions, TrainResult, train

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.config import Config

__all__ = ["train_seeds"]


def train_seeds(
    config: Config, series: StationSeries, run_dir: str | Path, seeds: Sequence[int] | None = None, *,
    options: TrainOptions | None = None, watcher: Callable[[Any], None] | None = None, began: float | None = None,
) -> list[TrainResult]:  # fmt: skip
    """Train one run in ``run_dir``, or for each seed one in ``run_dir/seed-N``.

    Parameters
    ----------
    seeds : the values of ``train.seed``; None trains one run with that of the configuration
    options : ``max_seconds`` is the time of all runs together
    began : the value of `time.monotonic` from which ``max_seconds`` counts; the time of the call by default
    """
    options = options or TrainOptions()
    began = time.monotonic() if began is None else began
    jobs = [(config, Path(run_dir))]
    if seeds is not None:
        jobs = [(config.with_overrides([f"train.seed={seed}"]), Path(run_dir) / f"seed-{seed}") for seed in seeds]
    results = []
    for settings, folder in jobs:
        remaining = options.max_seconds
        if remaining is not None:
            remaining = max(0.0, remaining - (time.monotonic() - began))
        limited = replace(options, max_seconds=remaining)
        results.append(train(settings, series, folder, options=limited, watcher=watcher))
    return results
