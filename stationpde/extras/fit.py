"""Fit forecasts of extra variables to a run: weights on training, shrinkage and quantiles on validation."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields.errors import DataError
from fields.progress import Tracker, Watcher
from fields.times import DAY
from fields.windows import Climatology, SplitName
from stationpde.data import WindowSource
from stationpde.extras.file import write_extras
from stationpde.extras.forecasts import ExtraForecast, ExtraForecasts
from stationpde.extras.kinds import sunlight, to_level, weight_of
from stationpde.extras.predictors import OWN, SHARED, own_predictors, shared_predictors
from stationpde.extras.record import extra_source
from stationpde.model import ModelLearner
from stationpde.uncertainty import LEVELS

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.model import StationPDEModel
    from stationpde.runs import LoadedRun

__all__ = ["fit_extras"]

Array = np.ndarray[Any, Any]

_MOST_WINDOWS: Mapping[SplitName, int] = {"train": 480, "val": 320}
# Rows of a split; those of neighbouring stations and leads add little.
_MOST_ROWS = 250_000
_BATCH = 16
# Strengths that are tried, as shares of the sum of squares of each predictor.
_STRENGTHS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_LEAST_SPREAD = 1e-3
# Cases of validation without which there are no quantiles, and those of a bin.
_FEWEST_CASES, _CASES_OF_BIN, _MOST_BINS = 100, 600, 10


def fit_extras(run: LoadedRun, series: StationSeries, watcher: Watcher | None = None) -> ExtraForecasts | None:
    """Fit the variables of ``data.extra`` to a run and write them into it; None where there are none.

    Parameters
    ----------
    run : a trained run
    series : the record that it was trained on, read with its extra variables
    watcher : is called with progress events

    Raises
    ------
    DataError
        If the record is another one, or lacks a variable.
    """
    config = run.model.config
    if not config.data.extra:
        return None
    if series.fingerprint != run.record.get("data_fingerprint"):
        raise DataError(
            "extra variables are fitted on the record that the run was trained on, and this is another",
            code="SPDE-T122", where=str(run.path), do=f"stationpde calibrate {shlex.quote(str(run.path))}",
        )  # fmt: skip
    source = WindowSource.of(series, config)
    model = run.model if run.model.sites.stations.id == series.stations.id else run.model.at(series.stations)
    climates: dict[str, _Climate] = {name: _Climate.of(source, name) for name in config.data.extra}
    counts = {part: len(source.part(part, most)) for part, most in _MOST_WINDOWS.items()}
    report = Tracker(watcher)
    rows: dict[str, dict[str, _Rows]] = {}
    for part, before in zip(_MOST_WINDOWS, (0, counts["train"]), strict=True):
        starts = source.part(part, _MOST_WINDOWS[part])
        rows[part] = _collected(model, source, starts, climates, _Counter(report, before, sum(counts.values())))
    fitted: dict[str, ExtraForecast] = {
        name: _fitted(climate, rows["train"][name], rows["val"][name], source) for name, climate in climates.items()
    }
    facts = {
        "checkpoint": run.checkpoint, "windows": counts,
        **{key: run.record.get(key) for key in ("config_hash", "seed", "data_fingerprint")},
    }  # fmt: skip
    extras = ExtraForecasts(series.stations, fitted, facts)
    write_extras(extras, run.path)
    return extras


@dataclass(frozen=True, slots=True)
class _Counter:
    """Progress of one of several parts."""

    report: Tracker
    before: int
    total: int

    def __call__(self, done: int) -> None:
        self.report("extras", self.before + done, self.total, "windows")


@dataclass(frozen=True, slots=True, eq=False)
class _Climate:
    """Climatology of a variable's level on training, and the spread of its departures."""

    name: str
    source: WindowSource
    climatology: Climatology
    spread: float

    @classmethod
    def of(cls, source: WindowSource, name: str) -> _Climate:
        alone = extra_source(source, name)
        series, steps = alone.series, source.windows.split.slice("train")
        time, values = series.time[steps], series.values[steps][..., 0]
        levels = to_level(name, values, sunlight(time, series.stations)).astype(np.float32)[..., None]
        if not np.isfinite(levels).any():
            raise DataError(f"no station reports {name} in the training period", code="SPDE-T122",
                            do="data.extra names what the network reports")  # fmt: skip
        climatology = Climatology.fit(time, levels, series.step_seconds, annual=1)
        spread = float(np.nanstd(levels - climatology.at(time)))
        return cls(name, alone, climatology, max(spread, _LEAST_SPREAD))


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Cases of a regression by lead: predictors ``[case, lead, predictor]``, targets and weights ``[case, lead]``.

    ``climate_levels`` is the climatology's level, ``departure`` the target in scaled departures from it.
    """

    predictors: Array
    departure: Array
    weight: Array
    climate_levels: Array


def _collected(
    model: StationPDEModel, source: WindowSource, starts: Array, climates: dict[str, _Climate],
    progress: Callable[[int], None],
) -> dict[str, _Rows]:  # fmt: skip
    """Collect the cases of every variable in forecasts of chosen windows, of stations in turn if all are too many."""
    learner, stations = ModelLearner(model.eval()), source.series.stations
    spec, step, count = source.windows.spec, source.series.step_seconds, len(source.series.stations)
    width = max(1, min(count, _MOST_ROWS // (len(starts) * spec.horizon)))
    parts: dict[str, list[tuple[Array, ...]]] = {name: [] for name in climates}
    for first in range(0, len(starts), _BATCH):
        chosen = starts[first : first + _BATCH]
        batch = source.batch(chosen)
        with torch.inference_mode():
            shared = shared_predictors(model, learner.predict(batch), batch.history, batch.issue_time)
        issue = batch.issue_time.numpy()
        valid = issue[:, None] + step * np.arange(1, spec.horizon + 1, dtype=np.int64)
        past = issue[:, None] + step * np.arange(1 - spec.history, 1, dtype=np.int64)
        suns = sunlight(past, stations), sunlight(valid, stations)
        places = (np.arange(width) + (first + np.arange(len(chosen)))[:, None] * width) % count
        for name, climate in climates.items():
            alone = climate.source.batch(chosen)
            climate_levels = [climate.climatology.at(time)[..., 0] for time in (past, valid)]
            before, after = (
                (to_level(name, values[..., 0].numpy(), sun) - level) / climate.spread
                for values, sun, level in zip((alone.history, alone.future), suns, climate_levels, strict=True)
            )
            histories = own_predictors(before, spec.horizon, step)
            tables = (np.concatenate([shared, histories], axis=-1), after, weight_of(name, suns[1]), climate_levels[1])
            for window, stand in enumerate(places):
                parts[name].append(tuple(table[window][:, stand].astype(np.float32) for table in tables))
        progress(min(first + _BATCH, len(starts)))
    return {
        name: _Rows(*(np.concatenate(table, axis=1).swapaxes(0, 1) for table in zip(*listed, strict=True)))
        for name, listed in parts.items()
    }


def _fitted(climate: _Climate, train: _Rows, val: _Rows, source: WindowSource) -> ExtraForecast:
    """Fit weights of every lead at several strengths and keep those that are best on validation, or none."""
    tried = [np.zeros((train.departure.shape[1], SHARED + OWN)), *_weights(train)]
    errors = [_error(val, weights) for weights in tried]
    best = int(np.argmin(errors))
    centres, curves = _curves(climate, val, tried[best], source.series.step_seconds)
    facts = {
        "strength": None if best == 0 else _STRENGTHS[best - 1],
        "gain": 0.0 if errors[0] == 0.0 else 1.0 - errors[best] / errors[0],
        "cases": int(np.isfinite(train.departure).sum()),
    }
    return ExtraForecast(climate.name, climate.climatology, climate.spread, tried[best], centres, curves, facts)


def _weights(rows: _Rows) -> Sequence[Array]:
    """Return weights ``[lead, predictor]`` for every strength."""
    every = [np.zeros((rows.departure.shape[1], SHARED + OWN)) for _ in _STRENGTHS]
    for lead in range(rows.departure.shape[1]):
        there = np.isfinite(rows.departure[:, lead]) & (rows.weight[:, lead] > 0.0)
        x, y = rows.predictors[there, lead].astype(np.float64), rows.departure[there, lead].astype(np.float64)
        weighted = x * rows.weight[there, lead, None]
        gram, product = weighted.T @ x, weighted.T @ y
        diagonal = np.diag(gram) + 1e-6 * max(float(np.trace(gram)), 1e-12)
        for strength, weights in zip(_STRENGTHS, every, strict=True):
            weights[lead] = np.linalg.solve(gram + strength * np.diag(diagonal), product)
    return every


def _error(rows: _Rows, weights: Array) -> float:
    """Return the weighted squared error of departures."""
    there = np.isfinite(rows.departure)
    missed = np.where(there, rows.departure, 0.0) - np.einsum("nlp,lp->nl", rows.predictors, weights)
    return float((rows.weight * missed**2)[there].sum())


def _curves(climate: _Climate, rows: _Rows, weights: Array, step_seconds: int) -> tuple[Array, Array]:
    """Return centres ``[day, bin]`` of forecast levels, and quantiles of the observed ones ``[day, bin, LEVELS]``."""
    forecast = rows.climate_levels + climate.spread * np.einsum("nlp,lp->nl", rows.predictors, weights)
    observed = rows.climate_levels + climate.spread * rows.departure
    leads = np.arange(forecast.shape[1])
    days = [leads[leads * step_seconds // DAY == day] for day in range(int(leads[-1] * step_seconds // DAY) + 1)]
    cases = [np.isfinite(observed[:, day]) & (rows.weight[:, day] > 0.0) for day in days]
    fewest = min(int(there.sum()) for there in cases)
    bins = 0 if fewest < _FEWEST_CASES else int(np.clip(fewest // _CASES_OF_BIN, 1, _MOST_BINS))
    centres, curves = np.zeros((len(days), bins)), np.zeros((len(days), bins, len(LEVELS)))
    for number, (day, there) in enumerate(zip(days, cases, strict=True)):
        x, y = forecast[:, day][there], observed[:, day][there]
        groups = np.array_split(np.argsort(x, kind="stable"), bins) if bins else []
        for at, group in enumerate(groups):
            centres[number, at] = x[group].mean()
            curves[number, at] = np.quantile(y[group], LEVELS)
        if bins:
            # Equal forecasts in two bins would leave no slope between them.
            centres[number] = np.maximum.accumulate(centres[number] + 1e-9 * np.arange(bins))
    return centres, curves
