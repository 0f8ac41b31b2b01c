"""Score forecasts of the test windows in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields.errors import DataError
from fields.times import DAY
from stationpde.errors import TrainingDivergedError
from stationpde.evaluation.error_sums import ErrorAccumulator

if TYPE_CHECKING:
    from stationpde.baselines import Predictor
    from stationpde.config import Config
    from stationpde.data import WindowSource

__all__ = ["score", "scored_variables", "thinned", "windows_to_score"]

Array = np.ndarray[Any, Any]
_BATCH = 32


def windows_to_score(source: WindowSource, stride: int = 1) -> Array:
    """Return the first steps of the test windows.

    Raises
    ------
    DataError
        If the record has none.
    """
    starts = source.windows.epoch(0, "test", stride) if stride > 1 else source.windows["test"]
    if starts.size == 0:
        raise DataError(
            "the record has no window to test on", code="SPDE-D153",
            where=f"{len(source.series):,} steps of {source.series.step_seconds} s",
            do="give a longer record, or a larger share for the test in data.split",
        )  # fmt: skip
    return starts


def scored_variables(source: WindowSource, config: Config) -> tuple[str, ...]:
    """Return the variables that were observed and that the configuration scores."""
    series = source.series
    return tuple(
        name
        for name, observed in zip(series.variables, series.scored, strict=True)
        if observed and name in config.data.scored
    )


@torch.no_grad()
def score(
    predictor: Predictor, source: WindowSource, config: Config, starts: Array, *, batch: int = _BATCH,
    progress: Callable[[int, int], None] | None = None, name: str = "the model",
) -> ErrorAccumulator:  # fmt: skip
    """Add up the errors of a forecaster over windows.

    Raises
    ------
    TrainingDivergedError
        If a forecast of an observed target is not finite.
    """
    series, history = source.series, config.data.history
    days = series.time[starts + history - 1] // DAY
    sums = ErrorAccumulator(
        series.stations.id, scored_variables(source, config), config.data.horizon, series.step_seconds,
        (int(days.min()), int(days.max())),
    )  # fmt: skip
    for first in range(0, len(starts), batch):
        windows = source.batch(starts[first : first + batch])
        sums.add(predictor.predict(windows), windows)
        if progress is not None:
            progress(min(first + batch, len(starts)), len(starts))
    if sums.not_finite:
        raise TrainingDivergedError(
            f"{sums.not_finite:,} forecasts of {name} are not finite", code="SPDE-B010",
            do="check its training: stationpde run list",
        )  # fmt: skip
    return sums


def thinned(starts: Array, most: int | None) -> Array:
    """Choose at most ``most`` windows, evenly spaced; None or 0 takes all."""
    if not most or len(starts) <= most:
        return starts
    return starts[np.linspace(0, len(starts) - 1, most).round().astype(np.int64)]
