"""Skill at stations left out of training: forecasts at places without reports, scored on the observations there.

StationPDE forecasts at any place: its field is read there. A forecaster of stations has to be interpolated: its
forecasts at the reporting stations are lifted to the place, with the hydrostatic law and the lapse rate of the forecast
subtracted and added back (`fields.lift.methods`, ``detrended``), the best lift of `fields`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.grid import LocalMetric
from fields.lift import LiftSettings, StationLift
from fields.variables import STATE_VARIABLES
from fields.windows import Batch, Stations, StationSeries
from stationpde.data import WindowSource
from stationpde.errors import UsageError
from stationpde.model import ModelLearner
from stationpde.physics import clipped

if TYPE_CHECKING:
    from jaxtyping import Float

    from stationpde.baselines import Predictor

__all__ = ["LeftOut", "left_out_numbers"]

Array = np.ndarray[Any, Any]
_BITS = 10
_FEWEST = 3


def left_out_numbers(stations: Stations, one_in: int) -> Array:
    """Choose the stations to leave out: every ``one_in``-th along a Morton curve through the network.

    All parts of the network lose some stations, and no station loses its neighbours with it.

    Raises
    ------
    UsageError
        If fewer than three would be left out, or fewer than three be left.
    """
    xy = LocalMetric.around(stations.lat, stations.lon).xy(stations.lat, stations.lon)
    low, extent = xy.min(axis=0), max(float(np.ptp(xy, axis=0).max()), 1.0)
    cell = np.minimum((xy - low) / extent * 2**_BITS, 2**_BITS - 1).astype(np.int64)
    # Bits of both coordinates in turn: neighbours on this curve are neighbours on the map, mostly.
    curve = sum(((cell[:, axis] >> bit) & 1) << (2 * bit + axis) for bit in range(_BITS) for axis in (0, 1))
    order = np.lexsort((np.arange(len(stations)), curve))
    chosen = np.sort(order[one_in // 2 :: one_in])
    if one_in < 2 or len(chosen) < _FEWEST or len(stations) - len(chosen) < _FEWEST:
        raise UsageError(
            f"one in {one_in} of {len(stations)} stations cannot be left out", code="SPDE-B022",
            do=f"--leave-out 5; at least {_FEWEST} stations are left out and {_FEWEST} are kept",
        )  # fmt: skip
    return chosen


class _LeftOutWindows(WindowSource):
    """Windows with the histories of the reporting stations and the futures of the stations left out."""

    def __init__(self, reporting: WindowSource, left_out: StationSeries) -> None:
        super().__init__(left_out, reporting.windows)
        self.reporting = reporting

    def batch(self, starts: Array) -> Batch:
        """Return the windows that begin at these steps."""
        return replace(super().batch(starts), history=self.reporting.batch(starts).history)


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """Windows of the reporting stations, for training, and of the stations left out, for scoring."""

    reporting: WindowSource
    left_out: WindowSource

    @classmethod
    def of(cls, source: WindowSource, one_in: int) -> LeftOut:
        """Leave out one station in ``one_in``."""
        series = source.series
        gone = np.isin(np.arange(len(series.stations)), left_out_numbers(series.stations, one_in))
        reporting = WindowSource(series.take(~gone), source.windows)
        return cls(reporting, _LeftOutWindows(reporting, series.take(gone)))

    def forecaster(self, trained: Predictor) -> Predictor:
        """Turn a forecaster trained on the reporting stations into one of the stations left out."""
        reporting, left_out = self.reporting.series.stations, self.left_out.series.stations
        if isinstance(trained, ModelLearner):
            return _FieldForecaster(trained, reporting, left_out)
        return _InterpolatedForecaster(trained, reporting, left_out)


class _FieldForecaster:
    """Forecasts of StationPDE at places that never report, read from its field."""

    def __init__(self, trained: ModelLearner, reporting: Stations, left_out: Stations) -> None:
        here, there = ((s.lat, s.lon, s.alt) for s in (reporting, left_out))
        both = Stations((*reporting.id, *left_out.id), *(np.concatenate(pair) for pair in zip(here, there)))
        self.learner = ModelLearner(trained.model.at(both, reporters=len(reporting)).eval())
        self.places = len(left_out)

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the forecast at the places that do not report."""
        size = (*batch.history.shape[:2], self.places, batch.history.shape[3])
        history = torch.cat([batch.history, batch.history.new_full(size, torch.nan)], dim=2)
        return self.learner.predict(replace(batch, history=history))[:, :, -self.places :]


class _InterpolatedForecaster:
    """Forecasts of a forecaster of stations, lifted to other places."""

    def __init__(self, trained: Predictor, reporting: Stations, left_out: Stations) -> None:
        self.trained = trained
        here, there = ((s.lat, s.lon, s.alt) for s in (reporting, left_out))
        placed = all(np.isfinite(s.alt).all() for s in (reporting, left_out))
        self.lift = StationLift.between(here, there, LiftSettings("detrended" if placed else "idw"))

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Lift the forecasts at the reporting stations to the places."""
        forecast = self.trained.predict(batch)
        rows = forecast.double().numpy().reshape(-1, *forecast.shape[2:])
        means = self.lift({name: rows[..., c] for c, name in enumerate(STATE_VARIABLES)}).values
        lifted = np.stack([means[name] for name in STATE_VARIABLES], axis=-1)
        return clipped(torch.from_numpy(lifted).to(forecast).unflatten(0, forecast.shape[:2]))
