"""Checks that a forecast does not depend on its target, made before its scores are used.

A forecast may depend on the histories and the issue times of a batch, and a fit on training and validation.
`require_blind` changes all other content of a batch and requires the same forecast; `without_test` removes the test
split from the data that a model is fitted to.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fields.windows import Batch
from stationpde.baselines.registry import Predictor
from stationpde.data import WindowSource
from stationpde.errors import StationPDEError

__all__ = ["LeakError", "leaks", "require_blind", "without_test"]

# A window forecast alone may differ from the same in a batch by rounding, but not by so much of the forecasts' spread.
_ROUNDING = 1e-3


class LeakError(StationPDEError):
    """A forecast depends on data that are not available at the time of issue."""

    code = "SPDE-B020"


def without_test(source: WindowSource) -> WindowSource:
    """Return the same windows with the test split set to missing, for fitting and training."""
    series = source.series
    values = series.values.copy()
    values[source.windows.split.slice("test")] = np.nan
    return WindowSource(replace(series, values=values, fingerprint=series.fingerprint), source.windows)


@torch.no_grad()
def leaks(forecaster: Predictor, batch: Batch) -> list[str]:
    """List what a forecast depends on and should not; empty for a correct forecaster.

    Parameters
    ----------
    forecaster : the forecaster to check
    batch : windows with a future; two or more, so that dependence on other windows is detected
    """
    forecast = forecaster.predict(batch)
    noise = torch.randn(batch.future.shape, generator=torch.Generator().manual_seed(0)).to(batch.future)
    others = {
        "a future that is missing": replace(batch, future=torch.full_like(batch.future, torch.nan)),
        "a future of noise": replace(batch, future=noise),
        "the futures of other windows": replace(batch, future=batch.future.flip(0)),
        "the number of the window": replace(batch, index=batch.index.flip(0) + 1),
    }
    dependences = [what for what, other in others.items() if not _same(forecast, forecaster.predict(other))]
    if len(batch) > 1 and not _close(forecast[:1], forecaster.predict(_first(batch)), forecast):
        dependences.append("the other windows of the batch")
    return dependences


def require_blind(forecaster: Predictor, batch: Batch, name: str = "the forecaster") -> None:
    """Refuse a forecaster whose forecast depends on its target.

    Raises
    ------
    LeakError
        If the forecast changes with anything but the histories and the issue times.
    """
    dependences = leaks(forecaster, batch)
    if dependences:
        raise LeakError(
            f"{name} forecasts from what it cannot know: its forecast changes with {', '.join(dependences)}",
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
