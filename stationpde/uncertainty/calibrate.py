"""Calibrate a run on windows that it was not trained on; nothing of it is trained again."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields.errors import DataError
from fields.progress import Tracker, Watcher
from fields.times import DAY, format_time
from stationpde.data import WindowSource
from stationpde.errors import UsageError
from stationpde.model import ModelLearner
from stationpde.uncertainty.calibration import CALIBRATION, Calibration, write_calibration
from stationpde.uncertainty.copula import Copula
from stationpde.uncertainty.fit import fit_marginal
from stationpde.uncertainty.places import Inflation, learn_inflation
from stationpde.uncertainty.sample import Forecaster, Sample, chosen_windows
from stationpde.uncertainty.signals import VARIABLES

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.config import Config
    from stationpde.runs import LoadedRun

__all__ = ["calibrate_forecaster", "calibrate_run"]

Array = np.ndarray[Any, Any]

log = logging.getLogger(__name__)

_TRAINING_WINDOWS = 300
# Share of the trained stations that a record must hold, so that it is one of the run's network.
_LEAST_SHARE = 0.5


def calibrate_run(run: LoadedRun, series: StationSeries, watcher: Watcher | None = None) -> Calibration:
    """Fit the calibration of a run and write it into the run.

    Parameters
    ----------
    run : a run, whose checkpoint is calibrated
    series : the record that it was trained on, of which validation is used; or another, of which the windows later than
        all that training has seen are
    watcher : is called with progress events

    Raises
    ------
    DataError
        If the record is of another network, or has too few windows that training has not seen.
    """
    config = run.model.config
    _require_place(run)
    _require_network(run, series)
    source = WindowSource.of(series, config)
    starts = _unseen_windows(run, source)
    trained_on = series.fingerprint == run.record.get("data_fingerprint")
    model = run.model if run.model.sites.stations.id == series.stations.id else run.model.at(series.stations)
    before = torch.get_num_threads()
    try:
        if config.train.threads:
            torch.set_num_threads(config.train.threads)
        calibration = calibrate_forecaster(
            ModelLearner(model.eval()), source, config, starts, with_training=trained_on, watcher=watcher
        )
        inflation = learn_inflation(model, source, chosen_windows(starts), calibration.marginals)
    finally:
        torch.set_num_threads(before)
    facts = {
        **calibration.facts, "checkpoint": run.checkpoint,
        **{key: run.record.get(key) for key in ("config_hash", "seed", "data_fingerprint")},
        "fitted_on": series.fingerprint, **_times_of(source, starts),
    }  # fmt: skip
    whole = Calibration(calibration.marginals, calibration.stations, inflation, facts, calibration.copula)
    write_calibration(whole, run.path)
    return whole


def calibrate_forecaster(
    forecaster: Forecaster, source: WindowSource, config: Config, starts: Array | None = None, *,
    with_training: bool = True, watcher: Watcher | None = None,
) -> Calibration:  # fmt: skip
    """Fit distributions about the forecasts of any forecaster of stations.

    Parameters
    ----------
    starts : first steps of windows that the forecaster was not trained on; those of validation by default
    with_training : let errors of training have a share in how spread depends on season and weather

    Raises
    ------
    DataError
        If the windows are of too few days, or have too few targets.
    """
    chosen = chosen_windows(source.windows["val"] if starts is None else starts)
    if len(chosen) == 0:
        raise DataError(
            "the record has no window to calibrate on", code="SPDE-Q001",
            where=f"{len(source.series):,} steps of {source.series.step_seconds} s",
            do="give a longer record, or a larger share for validation in data.split",
        )  # fmt: skip
    training = chosen_windows(source.windows["train"], _TRAINING_WINDOWS) if with_training else chosen[:0]
    whole, report = len(chosen) + len(training), Tracker(watcher)
    sample = Sample.collect(forecaster, source, chosen, lambda done: report("calibrate", done, whole, "windows"))
    seen = None
    if len(training):
        seen = Sample.collect(
            forecaster, source, training, lambda done: report("calibrate", len(chosen) + done, whole, "windows"), 1
        )
    horizon = source.windows.spec.horizon
    names = [name for name in VARIABLES if _is_observed(source.series, config, name)]
    fitted = {name: fit_marginal(sample, name, horizon, seen) for name in names}
    marginals = {name: marginal for name, marginal in fitted.items() if marginal is not None}
    if not marginals:
        raise DataError(
            "no variable has enough observed targets in the validation windows to be calibrated", code="SPDE-Q001",
            where=f"{len(source.series):,} steps of {source.series.step_seconds} s", do="give a longer record",
        )  # fmt: skip
    facts = {"windows": len(chosen), "days": len(np.unique(sample.day)), "step_seconds": source.series.step_seconds}
    copula = Copula.fit(sample, marginals, source.series.stations)
    return Calibration(marginals, source.series.stations.id, Inflation({}), facts, copula)


def _is_observed(series: StationSeries, config: Config, name: str) -> bool:
    """Tell whether a variable was observed, and is no stand-in such as the standard atmosphere."""
    if name == "ff":
        return _is_observed(series, config, "u") and _is_observed(series, config, "v")
    return name in config.data.scored and bool(dict(zip(series.variables, series.scored, strict=True))[name])


def _times_of(source: WindowSource, starts: Array) -> dict[str, int]:
    """Return the first and the last time of the forecasts that a calibration is fitted on."""
    time, spec = source.series.time, source.windows.spec
    first, last = min(starts, default=0), max(starts, default=0)
    return {"fitted_from": int(time[first + spec.history]), "fitted_until": int(time[last + spec.length - 1])}


def _require_place(run: LoadedRun) -> None:
    """Refuse to compute what could not be written: a folder or a pipe has the name of the calibration."""
    path = run.path / CALIBRATION
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{path} is no regular file, which a calibration does not replace", code="SPDE-D004",
            do=f"move {shlex.quote(str(path))} away and calibrate again",
        )  # fmt: skip


def _require_network(run: LoadedRun, series: StationSeries) -> None:
    """Refuse a record with few of the trained stations."""
    trained = run.model.statistics.stations
    share = len(set(trained.id) & set(series.stations.id)) / max(len(trained), 1)
    if share < _LEAST_SHARE:
        raise DataError(
            f"the record holds {share:.0%} of the stations that the run was trained on: it is of another network",
            code="SPDE-Q003", where=str(run.path), do="give the record of training, or a later one of the same network",
        )  # fmt: skip


def _unseen_windows(run: LoadedRun, source: WindowSource) -> Array:
    """Return the validation windows of the record of training; of another record, those later than it."""
    series, spec = source.series, source.windows.spec
    if series.fingerprint == run.record.get("data_fingerprint"):
        return source.windows["val"]
    until = run.record.get("trained_until")
    starts = np.concatenate([source.windows[part] for part in ("train", "val", "test")])
    later = np.sort(starts[series.time[starts + spec.history] > until]) if until is not None else starts[:0]
    days = len(np.unique(series.time[later] // DAY))
    if not days:
        reason = "the run does not say what it was trained on" if until is None else (
            f"no window is later than {format_time(until)}, the end of what training has seen"
        )  # fmt: skip
        raise DataError(
            f"these are other data than the run was trained on, and {reason}", code="SPDE-Q001", where=str(run.path),
            do="give the record of training, or one that goes on after it",
        )  # fmt: skip
    return later
