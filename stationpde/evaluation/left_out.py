"""Stations that no model has seen: left out of training altogether, forecast, and scored on their own observations.

Our model forecasts at any place: its field is read there. A forecaster of stations has to be interpolated: its
forecasts at the stations it knows are lifted to the place, with the hydrostatic law and the lapse rate of the forecast
itself taken out and put back (`fields.lift_methods`, ``detrended``), the best lift that there is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.geometry import LocalMetric
from fields.lift_methods import LiftSettings, StationLift
from fields.series import Stations, StationSeries
from fields.torch_data import Batch
from fields.variables import STATE_VARIABLES
from stationpde.errors import UsageError
from stationpde.learner import ModelLearner
from stationpde.state import clipped
from stationpde.training.source import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float

    from stationpde.baselines.registry import Predictor

__all__ = ["LeftOut", "left_out_numbers"]

Array = np.ndarray[Any, Any]
_BITS = 10
_FEWEST = 3


def left_out_numbers(stations: Stations, one_in: int) -> Array:
    """Numbers of the stations to leave out: one in so many along a curve through the network, so that all parts of it
    lose some and none loses its neighbours with it.

    Raises
    ------
    UsageError
        If fewer than three would be left out, or fewer than three be left.
    """
    xy = LocalMetric.around(stations.lat, stations.lon).xy(stations.lat, stations.lon)
    low, extent = xy.min(axis=0), max(float(np.ptp(xy, axis=0).max()), 1.0)
    cell = np.minimum((xy - low) / extent * 2**_BITS, 2**_BITS - 1).astype(np.int64)
    # Bits of both coordinates in turn: neighbours on this curve are neighbours on the map, mostly.
    place = sum(((cell[:, axis] >> bit) & 1) << (2 * bit + axis) for bit in range(_BITS) for axis in (0, 1))
    order = np.lexsort((np.arange(len(stations)), place))
    chosen = np.sort(order[one_in // 2 :: one_in])
    if one_in < 2 or len(chosen) < _FEWEST or len(stations) - len(chosen) < _FEWEST:
        raise UsageError(
            f"one in {one_in} of {len(stations)} stations cannot be left out", code="SPDE-B022",
            do=f"--leave-out 5; at least {_FEWEST} stations are left out and {_FEWEST} are kept",
        )  # fmt: skip
    return chosen


class _Asked(WindowSource):
    """Windows whose histories are those of stations that report, and whose futures those of the ones left out."""

    def __init__(self, kept: WindowSource, asked: StationSeries) -> None:
        super().__init__(asked, kept.windows)
        self.kept = kept

    def batch(self, starts: Array) -> Batch:
        """The windows that begin at these steps."""
        return replace(super().batch(starts), history=self.kept.batch(starts).history)


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """A record without some of its stations, and the windows at those that were left out."""

    kept: WindowSource
    asked: WindowSource

    @classmethod
    def of(cls, source: WindowSource, one_in: int) -> LeftOut:
        """One station in so many is left out."""
        series = source.series
        gone = np.isin(np.arange(len(series.stations)), left_out_numbers(series.stations, one_in))
        kept = WindowSource(series.take(~gone), source.windows)
        return cls(kept, _Asked(kept, series.take(gone)))

    def forecaster(self, trained: Predictor) -> Predictor:
        """What was trained on the stations that are kept, as a forecaster of those that are not."""
        kept, asked = self.kept.series.stations, self.asked.series.stations
        if isinstance(trained, ModelLearner):
            return _Read(trained, kept, asked)
        return _Interpolated(trained, kept, asked)


class _Read:
    """Our model at places that never report."""

    def __init__(self, trained: ModelLearner, kept: Stations, asked: Stations) -> None:
        places = (
            np.concatenate(pair) for pair in zip((kept.lat, kept.lon, kept.alt), (asked.lat, asked.lon, asked.alt))
        )
        both = Stations((*kept.id, *asked.id), *places)
        self.learner = ModelLearner(trained.model.at(both, reporters=len(kept)).eval())
        self.asked = len(asked)

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """The forecast at the places alone."""
        size = (*batch.history.shape[:2], self.asked, batch.history.shape[3])
        history = torch.cat([batch.history, batch.history.new_full(size, torch.nan)], dim=2)
        return self.learner.predict(replace(batch, history=history))[:, :, -self.asked :]


class _Interpolated:
    """A forecaster of stations, its forecasts lifted to the places."""

    def __init__(self, trained: Predictor, kept: Stations, asked: Stations) -> None:
        self.trained = trained
        here, there = ((s.lat, s.lon, s.alt) for s in (kept, asked))
        placed = all(np.isfinite(s.alt).all() for s in (kept, asked))
        self.lift = StationLift.between(here, there, LiftSettings("detrended" if placed else "idw"))

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """The forecasts of the stations around, lifted."""
        made = self.trained.predict(batch)
        rows = made.double().numpy().reshape(-1, *made.shape[2:])
        means = self.lift({name: rows[..., c] for c, name in enumerate(STATE_VARIABLES)}).values
        lifted = np.stack([means[name] for name in STATE_VARIABLES], axis=-1)
        return clipped(torch.from_numpy(lifted).to(made).unflatten(0, made.shape[:2]))
