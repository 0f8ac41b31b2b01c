"""Does a forecaster know what it should forecast? Checks that catch one that does, before its scores are believed.

A forecast may depend on the histories and the issue times of a batch, and a fit on training and validation.
`require_blind` changes everything else that a batch holds and wants the same forecast; `without_test` takes the test
split out of what a model is made and trained from, so that there is nothing to find.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fields.torch_data import Batch
from stationpde.baselines.registry import Predictor
from stationpde.errors import StationPDEError
from stationpde.training.source import WindowSource

__all__ = ["LeakError", "leaks", "require_blind", "without_test"]

# A window forecast alone may differ from the same in a batch by rounding, but not by so much of the forecasts' spread.
_ROUNDING = 1e-3


class LeakError(StationPDEError):
    """A forecast depends on what a forecaster cannot know."""

    code = "SPDE-B020"


def without_test(source: WindowSource) -> WindowSource:
    """The same windows of a record whose test split is missing; what fits or trains from it cannot see the test."""
    series = source.series
    values = series.values.copy()
    values[source.windows.split.slice("test")] = np.nan
    return WindowSource(replace(series, values=values, fingerprint=series.fingerprint), source.windows)


@torch.no_grad()
def leaks(forecaster: Predictor, batch: Batch) -> list[str]:
    """What a forecast depends on and should not; empty for an honest forecaster.

    Parameters
    ----------
    batch : windows with a future; two or more, so that one could look into another's history
    """
    made = forecaster.predict(batch)
    noise = torch.randn(batch.future.shape, generator=torch.Generator().manual_seed(0)).to(batch.future)
    others = {
        "a future that is missing": replace(batch, future=torch.full_like(batch.future, torch.nan)),
        "a future of noise": replace(batch, future=noise),
        "the futures of other windows": replace(batch, future=batch.future.flip(0)),
        "the number of the window": replace(batch, index=batch.index.flip(0) + 1),
    }
    found = [what for what, other in others.items() if not _same(made, forecaster.predict(other))]
    if len(batch) > 1 and not _close(made[:1], forecaster.predict(_first(batch)), made):
        found.append("the other windows of the batch")
    return found


def require_blind(forecaster: Predictor, batch: Batch, name: str = "the forecaster") -> None:
    """Refuse a forecaster that knows what it should forecast.

    Raises
    ------
    LeakError
        If the forecast changes with anything but the histories and the issue times.
    """
    found = leaks(forecaster, batch)
    if found:
        raise LeakError(
            f"{name} forecasts from what it cannot know: its forecast changes with {', '.join(found)}",
            do="forecast from `history` and `issue_time` alone, in evaluation mode, without random numbers",
        )


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _close(one: Tensor, other: Tensor, all_of_them: Tensor) -> bool:
    spread = all_of_them.double().flatten(0, 2).std(dim=0)
    away = (one.double() - other.double()).abs()
    # The last digits of single precision, for a variable that is the same everywhere.
    digits = all_of_them.abs().double().amax() * torch.finfo(torch.float32).eps
    return one.shape == other.shape and bool((away <= _ROUNDING * spread + digits).all())


def _first(batch: Batch) -> Batch:
    parts = {name: getattr(batch, name)[:1] for name in ("history", "future", "issue_time", "index")}
    return replace(batch, **parts)
