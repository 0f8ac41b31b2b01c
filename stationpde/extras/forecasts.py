r"""Fitted forecasts of extra variables, and what they give at the stations of a model.

.. math:: \hat x = c + s\, w_\ell^T a, \qquad \text{quantiles read at } \hat x

with the climatology :math:`c` of station and hour, its spread :math:`s`, the predictors :math:`a`, and weights
:math:`w_\ell` of a lead that all stations share. Radiation is regressed as a share of sunlight (`kinds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.lift import LiftSettings, StationLift
from fields.times import DAY
from fields.windows import Climatology, Stations
from stationpde.extras.kinds import sunlight, to_level, to_value
from stationpde.extras.predictors import own_predictors, shared_predictors
from stationpde.uncertainty import LEVELS

if TYPE_CHECKING:
    from stationpde.model import StationPDEModel

__all__ = ["ExtraForecast", "ExtraForecaster", "ExtraForecasts"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class ExtraForecast:
    """Fitted forecast of one variable.

    Attributes
    ----------
    climatology : of the level at each station, one channel
    spread : standard deviation of its departures
    weights : ``[lead, predictor]``
    centres, curves : forecast levels of cases of validation, and the levels that were observed then, for each day
        ahead; ``[day, bin]`` and ``[day, bin, LEVELS]``. Without enough cases there are no bins
    facts : number of cases, shrinkage, and gain on validation over the climatology
    """

    name: str
    climatology: Climatology
    spread: float
    weights: Array
    centres: Array
    curves: Array
    facts: Mapping[str, Any]

    @property
    def has_quantiles(self) -> bool:
        """Whether validation held enough cases for quantiles."""
        return self.centres.shape[1] > 0

    def departures(self, values: Array, time: Array, stations: Stations) -> Array:
        """Return scaled departures of values ``[*time, station]`` from the climatology; NaN where there is none."""
        levels = to_level(self.name, values, sunlight(time, stations))
        return (levels - self.climatology.at(time)[..., 0]) / self.spread

    def levels(self, shared: Array, histories: Array, valid: Array) -> Array:
        """Return the forecast level ``[batch, lead, station]``."""
        leads = np.minimum(np.arange(shared.shape[1]), len(self.weights) - 1)
        predictors = np.concatenate([shared, histories], axis=-1)
        departure = np.einsum("blsp,lp->bls", predictors, self.weights[leads])
        return np.asarray(self.climatology.at(valid)[..., 0] + self.spread * departure)

    def quantile_levels(self, levels: Array, step_seconds: int) -> Array:
        """Return levels at `LEVELS`, ``[batch, lead, station, LEVELS]``, of forecast levels."""
        read = np.empty((*levels.shape, len(LEVELS)))
        for lead in range(levels.shape[1]):
            day = min(lead * step_seconds // DAY, len(self.centres) - 1)
            centres, curve, here = self.centres[day], self.curves[day], levels[:, lead]
            # Beyond the outermost cases the distribution moves along with the forecast.
            beyond = here - np.clip(here, centres[0], centres[-1])
            for at in range(len(LEVELS)):
                read[:, lead, ..., at] = np.interp(here, centres, curve[:, at]) + beyond
        return read


@dataclass(frozen=True, slots=True, eq=False)
class ExtraForecasts:
    """Fitted forecasts of the extra variables of a run, at the stations that it was trained on."""

    stations: Stations
    fitted: Mapping[str, ExtraForecast]
    facts: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Variables that are forecast."""
        return tuple(self.fitted)

    def at(self, stations: Stations, rows: Array) -> ExtraForecasts:
        """Return the forecasts at other stations.

        Parameters
        ----------
        rows : number of each among the training stations; -1 for a new one, which gets the climatology of those
            around it
        """
        if np.array_equal(rows, np.arange(len(self.stations))):
            return self
        here, there = ((s.lat, s.lon, s.alt) for s in (self.stations, stations))
        lift = StationLift.between(here, there, LiftSettings("idw"))
        return replace(
            self, stations=stations,
            fitted={name: replace(one, climatology=_moved(one.climatology, lift, rows))
                    for name, one in self.fitted.items()},
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ExtraForecaster:
    """Forecasts of extra variables at the stations of a model."""

    model: StationPDEModel
    extras: ExtraForecasts

    @classmethod
    def of(cls, model: StationPDEModel, extras: ExtraForecasts) -> ExtraForecaster:
        """Place fitted forecasts at the stations of a model."""
        return cls(model, extras.at(model.sites.stations, model.sites.number.cpu().numpy()))

    def predict(
        self, forecast: Tensor, history: Tensor, reports: Mapping[str, Array], issue_time: Array
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return values ``[batch, lead, station]`` in SI, and their quantiles at `LEVELS`, by name.

        Parameters
        ----------
        forecast : of the state ``[batch, lead, station, channel]``, SI
        history : of the state ``[batch, time, station, channel]``
        reports : history of the extra variables ``[batch, time, station]``; one that is absent was not reported
        issue_time : s since 1970, UTC ``[batch]``
        """
        issue, step = np.asarray(issue_time, np.int64), self.model.config.data.step_seconds
        shared = shared_predictors(self.model, forecast, history, torch.as_tensor(issue, device=forecast.device))
        stations, leads = self.extras.stations, forecast.shape[1]
        valid = issue[:, None] + step * np.arange(1, leads + 1, dtype=np.int64)
        past = issue[:, None] + step * np.arange(1 - history.shape[1], 1, dtype=np.int64)
        sun = sunlight(valid, stations)
        values, quantiles = {}, {}
        for name, one in self.extras.fitted.items():
            reported = reports.get(name, np.full((len(issue), history.shape[1], len(stations)), np.nan))
            histories = own_predictors(one.departures(reported, past, stations), leads, step)
            levels = one.levels(shared, histories, valid)
            values[name] = to_value(name, levels, sun)
            if one.has_quantiles:
                quantiles[name] = to_value(name, one.quantile_levels(levels, step), sun[..., None])
        return values, quantiles


def _moved(climatology: Climatology, lift: StationLift, rows: Array) -> Climatology:
    """Return a climatology at other stations: that of the same station, else of those around."""

    def at(table: Array) -> Array:
        around = lift.weights.apply(np.moveaxis(table, -2, -1))[0]
        table_there = np.where((rows >= 0)[:, None], table[..., np.maximum(rows, 0), :], np.moveaxis(around, -1, -2))
        return np.ascontiguousarray(table_there, np.float32)

    return replace(climatology, table=at(climatology.table), waves=at(climatology.waves))
