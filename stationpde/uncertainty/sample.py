"""Errors of forecasts on windows that nothing was trained on, with the signals of their issue times: one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from fields.errors import DataError
from fields.times import DAY, format_span
from stationpde.uncertainty.signals import VARIABLES, Signals, shown, signals_of

if TYPE_CHECKING:
    from fields.windows import Batch
    from stationpde.data import WindowSource

__all__ = ["FEWEST_DAYS", "Forecaster", "Sample", "chosen_windows", "outlook"]

Array = np.ndarray[Any, Any]

FEWEST_DAYS = 5
"""Days of issue without which there is nothing to calibrate on."""
_MOST_WINDOWS = 600
# Targets of a variable; errors of neighbouring stations, leads and windows add little to those of other days.
_MOST_TARGETS = 400_000
_BATCH = 16


class Forecaster(Protocol):
    """A forecaster of stations; one that mixes guesses may also have ``outlook(batch)``, which returns them as well."""

    def predict(self, batch: Batch) -> Tensor:
        """Return forecasts ``[batch, lead, station, variable]`` in SI."""
        ...


def outlook(forecaster: Forecaster, batch: Batch) -> tuple[Array, Array | None]:
    """Return the forecasts of a batch in SI, and the guesses that they mix where the forecaster has them."""
    with torch.no_grad():
        whole = getattr(forecaster, "outlook", None)
        forecast, guesses = (forecaster.predict(batch), None) if whole is None else whole(batch)
    return forecast.double().cpu().numpy(), None if guesses is None else guesses.double().cpu().numpy()


def chosen_windows(starts: Array, most: int = _MOST_WINDOWS) -> Array:
    """Choose at most ``most`` windows, evenly spaced and of every hour of the day."""
    if len(starts) <= most:
        return starts
    return starts[np.linspace(0, len(starts) - 1, most).round().astype(np.int64)]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Targets of chosen windows and stations in display units, and the signals of their forecasts.

    Attributes
    ----------
    signals : of every window at its chosen stations
    targets : ``[window, lead, station, variable]``, NaN where nothing was observed
    station : number in the record of every chosen station, ``[window, station]``
    day : day of issue of every window, days since 1970
    stations : number of stations of the record
    """

    signals: Signals
    targets: Array
    station: Array
    day: Array
    stations: int

    @classmethod
    def collect(
        cls, forecaster: Forecaster, source: WindowSource, starts: Array,
        progress: Callable[[int], None] | None = None, fewest_days: int = FEWEST_DAYS,
    ) -> Sample:  # fmt: skip
        """Collect the errors of forecasts of windows: the same stations in turn where all would be too many.

        Raises
        ------
        DataError
            If the windows are of fewer than ``fewest_days`` days.
        """
        series, spec = source.series, source.windows.spec
        count = len(series.stations)
        issued = series.time[starts + spec.history - 1] // DAY
        if len(np.unique(issued)) < fewest_days:
            raise DataError(
                f"the validation windows are of {len(np.unique(issued))} days; a calibration needs {fewest_days}",
                code="SPDE-Q001", where=f"{len(series):,} steps of {format_span(series.step_seconds)}",
                do="give a longer record, or a larger share for validation in data.split",
            )  # fmt: skip
        width = max(1, min(count, _MOST_TARGETS // (len(starts) * spec.horizon)))
        parts, targets, numbers = [], [], []
        for first in range(0, len(starts), _BATCH):
            batch = source.batch(starts[first : first + _BATCH])
            forecast, guesses = outlook(forecaster, batch)
            whole = signals_of(
                batch.history.numpy(), forecast, batch.issue_time.numpy(), batch.step_seconds, series.stations.lon,
                guesses,
            )  # fmt: skip
            future = shown(batch.future.numpy())
            for place in range(len(batch)):
                chosen = np.sort((np.arange(width) + (first + place) * width) % count)
                parts.append(whole.window(place).take(chosen))
                targets.append(future[place][:, chosen])
                numbers.append(chosen)
            if progress is not None:
                progress(min(first + _BATCH, len(starts)))
        return cls(_joined(parts), np.stack(targets), np.stack(numbers), issued, count)

    def errors(self, name: str) -> Array:
        """Return target minus forecast of a variable, ``[window, lead, station]``; NaN without a target."""
        c = VARIABLES.index(name)
        difference: Array = self.targets[..., c] - self.signals.forecast[..., c]
        return difference


def _joined(parts: list[Signals]) -> Signals:
    def join(name: str) -> Array:
        return np.concatenate([getattr(part, name) for part in parts])

    spread = None if parts[0].spread is None else join("spread")
    names = ("forecast", "departure", "change", "network_change", "age", "angle", "season")
    return Signals(**{name: join(name) for name in names}, spread=spread)
