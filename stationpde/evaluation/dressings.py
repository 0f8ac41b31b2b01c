"""Ways to dress the point forecasts of a table: the project's calibration, plain references, and climatology."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from fields.lift import LiftSettings, StationLift, remoteness
from fields.times import DAY
from fields.variables import STATE_VARIABLES
from stationpde.evaluation.left_out import LeftOut
from stationpde.model import ModelLearner
from stationpde.uncertainty import (
    REFERENCES,
    VARIABLES,
    Calibration,
    ClimatologyForecaster,
    Distributions,
    Dressed,
    calibrate_forecaster,
    chosen_windows,
    fit_reference,
    learn_inflation,
    outlook,
    shown,
    signals_of,
)

if TYPE_CHECKING:
    from fields.windows import Batch, Stations
    from stationpde.baselines import Predictor
    from stationpde.config import Config
    from stationpde.data import WindowSource
    from stationpde.evaluation.contestants import Contestant
    from stationpde.uncertainty import Copula, Probabilistic

__all__ = ["CALIBRATED", "QUANTILES", "Dressing", "dressings_of", "put_on"]

Array = np.ndarray[Any, Any]

CALIBRATED, QUANTILES = "calibrated", "quantiles"
_REFERENCES: Mapping[str, tuple[str, ...]] = {
    "persistence": (CALIBRATED, "conformal"),
    "ridge_nb": (CALIBRATED, "gaussian", "conformal"),
    "blend": (CALIBRATED, "gaussian", "conformal", "emos"),
    "climatology": (QUANTILES,),
}
_BATCH, _FOLDS = 16, 5


class Dressing(Protocol):
    """A forecaster of distributions."""

    def distributions(self, batch: Batch) -> Probabilistic:
        """Return the distributions of a batch."""
        ...


def dressings_of(model: Contestant, *, left_out: bool = False) -> tuple[str, ...]:
    """List the ways in which the forecasts of a model are dressed.

    At stations left out, a peer has the errors that it makes where stations are hidden from its interpolation.
    """
    if left_out:
        names = (CALIBRATED,) if model.peer is None else ("gaussian", "conformal")
        return () if model.name == "climatology" else names
    return _REFERENCES.get(model.name, (CALIBRATED,))


def put_on(
    kind: str, predictor: Predictor | None, blind: WindowSource, config: Config, split: LeftOut | None
) -> tuple[Dressing, Copula | None]:
    """Dress the forecasts of a model, on windows without a test; with the dependence that its scenarios have, if any.

    Parameters
    ----------
    kind : one of `dressings_of`
    predictor : fitted on ``blind``; None for the climatology
    split : stations left out; the windows of ``blind`` are then those of the reporting ones
    """
    if kind == QUANTILES:
        names = [name for name in VARIABLES if name in config.data.scored or name == "ff"]
        return ClimatologyForecaster(blind, names), None
    assert predictor is not None
    stations = blind.series.stations
    if kind in REFERENCES:
        if split is not None:
            return _fitted(kind, predictor, blind, config, _hidden_errors, split.forecaster(predictor), split), None
        return _fitted(kind, predictor, blind, config, _errors, predictor, None), None
    calibration = calibrate_forecaster(predictor, blind, config)
    if split is None:
        return Dressed(predictor, calibration, stations), calibration.copula
    assert isinstance(predictor, ModelLearner)
    starts = chosen_windows(blind.windows["val"])
    widening = learn_inflation(predictor.model, blind, starts, calibration.marginals)
    calibration = replace(calibration, inflation=widening)
    return _AtPlaces.of(predictor, calibration, stations, split.left_out.series.stations), calibration.copula


@dataclass(frozen=True, slots=True, eq=False)
class _AtPlaces:
    """Distributions of StationPDE at places that never report."""

    learner: ModelLearner
    calibration: Calibration
    places: Stations
    columns: Array

    @classmethod
    def of(cls, trained: ModelLearner, calibration: Calibration, reporting: Stations, places: Stations) -> _AtPlaces:
        both = type(reporting)(
            (*reporting.id, *places.id),
            *(np.concatenate(pair) for pair in zip(reporting.coordinates, places.coordinates, strict=True)),
        )
        learner = ModelLearner(trained.model.at(both, reporters=len(reporting)).eval())
        return cls(learner, calibration, places, remoteness(places, reporting))

    def distributions(self, batch: Batch) -> Distributions:
        count = len(self.places)
        nothing = batch.history.new_full((*batch.history.shape[:2], count, batch.history.shape[3]), torch.nan)
        whole = replace(batch, history=torch.cat([batch.history, nothing], dim=2))
        forecast, guesses = outlook(self.learner, whole)
        longitude = self.learner.model.sites.stations.lon
        signals = signals_of(
            whole.history.numpy(), forecast, batch.issue_time.numpy(), batch.step_seconds, longitude, guesses
        ).take(np.arange(forecast.shape[2] - count, forecast.shape[2]))
        marginals, widening = self.calibration.marginals, self.calibration.inflation
        nowhere = np.full(count, -1)
        spreads = {n: m.spread(signals, nowhere, widening.at(n, self.columns)) for n, m in marginals.items()}
        return Distributions(((marginals, spreads),))


Collect = Callable[["Predictor", "WindowSource", Array], dict[str, Array]]


def _fitted(
    kind: Any, predictor: Predictor, blind: WindowSource, config: Config, collect: Collect, forecaster: Predictor,
    split: LeftOut | None,
) -> Dressing:  # fmt: skip
    starts = chosen_windows(blind.windows["val"])
    collected = collect(predictor, blind, starts)
    number = {name: VARIABLES.index(name) for name in VARIABLES if name in config.data.scored or name == "ff"}
    best, spread, error = (
        {name: collected[part][..., c] for name, c in number.items()} for part in ("forecast", "spread", "error")
    )
    error = {name: values for name, values in error.items() if np.isfinite(values).any()}
    stations = blind.series.stations if split is None else split.left_out.series.stations
    slot = blind.series.time[starts + blind.windows.spec.history - 1] % DAY // blind.series.step_seconds
    return fit_reference(
        forecaster, stations, kind, error, slot, pool=split is not None, forecasts=best, spreads=spread
    )  # fmt: skip


def _errors(predictor: Predictor, source: WindowSource, starts: Array) -> dict[str, Array]:
    """Return forecasts, spreads and errors ``[window, lead, station, variable]`` in display units."""
    parts: dict[str, list[Array]] = {"forecast": [], "spread": [], "error": []}
    for first in range(0, len(starts), _BATCH):
        batch = source.batch(starts[first : first + _BATCH])
        forecast, guesses = outlook(predictor, batch)
        signals = signals_of(
            batch.history.numpy(), forecast, batch.issue_time.numpy(), batch.step_seconds,
            source.series.stations.lon, guesses,
        )  # fmt: skip
        change = np.broadcast_to(signals.change[:, None], signals.forecast.shape)
        parts["forecast"].append(signals.forecast)
        parts["spread"].append(change if signals.spread is None else signals.spread)
        parts["error"].append(shown(batch.future.numpy()) - signals.forecast)
    return {name: np.concatenate(values) for name, values in parts.items()}


def _hidden_errors(predictor: Predictor, source: WindowSource, starts: Array) -> dict[str, Array]:
    """Return the same where a fifth of the stations at a time is hidden from the interpolation of the forecasts."""
    stations = source.series.stations
    fold = np.random.default_rng(0).permutation(len(stations)) % _FOLDS
    lifts = []
    for number in range(_FOLDS):
        near, far = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        here, there = stations.take(near), stations.take(far)
        is_placed = bool(np.isfinite(stations.alt).all())
        lifts.append((near, far, StationLift.between(here, there, LiftSettings("detrended" if is_placed else "idw"))))
    parts = []
    for first in range(0, len(starts), _BATCH):
        batch = source.batch(starts[first : first + _BATCH])
        forecast, _ = outlook(predictor, batch)
        rows = forecast.reshape(-1, *forecast.shape[2:])
        lifted = np.full(rows.shape, np.nan)
        for near, far, lift in lifts:
            means = lift({name: rows[:, near, c] for c, name in enumerate(STATE_VARIABLES)}).values
            lifted[:, far] = np.stack([means[name] for name in STATE_VARIABLES], axis=-1)
        parts.append(shown(batch.future.numpy()) - shown(lifted.reshape(forecast.shape)))
    error = np.concatenate(parts)
    return {"forecast": error, "spread": error, "error": error}
