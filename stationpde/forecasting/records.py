"""A run on a whole record that may not be its own: the gates of evaluation, report and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields.errors import counted
from fields.times import format_time
from stationpde.forecasting.acceptance import SEEN_TIMES
from stationpde.forecasting.audit import clamped_share
from stationpde.forecasting.gates import Gates, check_clamped, check_network, check_values
from stationpde.forecasting.places import with_altitudes

if TYPE_CHECKING:
    from fields.windows import Batch, Stations, StationSeries
    from stationpde.data import WindowSource
    from stationpde.model import StationPDEModel
    from stationpde.runs import LoadedRun
    from stationpde.uncertainty import Calibration

__all__ = ["check_sample", "check_uncalibrated", "check_unseen", "model_for_record"]

Array = np.ndarray[Any, Any]

# Moments of a record that are compared with the climatology of training.
_MOST_MOMENTS = 200


def model_for_record(run: LoadedRun, series: StationSeries, gates: Gates) -> StationPDEModel:
    """Return the model of a run at the stations of a record, which pass the gates first.

    Raises
    ------
    DataError
        If the record is of a foreign network, and that was not accepted.
    """
    model, stations = run.model, series.stations
    check_network(gates, model.statistics.stations, model.region, stations, np.ones(len(stations), bool))
    chosen = np.unique(np.linspace(0, len(series) - 1, _MOST_MOMENTS).astype(int))
    check_values(gates, model.statistics, stations, series.values[chosen], series.time[chosen], series.reference)
    gates.close()
    if _are_alike(model.sites.stations, stations):
        return model
    return model.at(with_altitudes(model, stations))


def check_unseen(gates: Gates, run: LoadedRun, source: WindowSource, starts: Array) -> None:
    """Refuse test windows with forecast times that the run was trained or validated on: their scores are no test.

    Parameters
    ----------
    source : windows of the record, which may be another cut of the one that was trained on
    starts : first steps of the windows to score
    """
    series, spec = source.series, source.windows.spec
    if series.fingerprint == run.record.get("data_fingerprint"):
        return
    first, last = run.record.get("trained_from"), run.record.get("trained_until")
    if first is None or last is None:
        gates.warn("the run does not say which times it was trained on: the test windows may be among them")
        return
    begins = series.time[starts + min(spec.history, spec.length - 1)]
    ends = series.time[starts + spec.length - 1]
    seen = int(((begins <= last) & (ends >= first)).sum())
    if seen:
        gates.refuse(
            SEEN_TIMES, "SPDE-T121",
            f"{seen:,} of {counted(len(starts), 'test window')} lie in times that the run was trained on",
            why=f"training and validation saw {format_time(first)} to {format_time(last)}: such scores are no test",
            do="give the record of training, or one that goes on after it",
        )  # fmt: skip
    gates.close()


def check_uncalibrated(gates: Gates, calibration: Calibration, source: WindowSource, starts: Array) -> None:
    """Refuse test windows with forecast times that a calibration was fitted on: their coverage is no test."""
    first, last = calibration.facts.get("fitted_from"), calibration.facts.get("fitted_until")
    if first is None or last is None:
        return
    spec, time = source.windows.spec, source.series.time
    begins, ends = time[starts + min(spec.history, spec.length - 1)], time[starts + spec.length - 1]
    seen = int(((begins <= last) & (ends >= first)).sum())
    if seen:
        gates.refuse(
            SEEN_TIMES, "SPDE-T121",
            f"{seen:,} of {counted(len(starts), 'test window')} lie in times that the run was calibrated on",
            why=f"the calibration saw {format_time(first)} to {format_time(last)}: such coverage is no test",
            do="calibrate on the record of training, or give one that goes on after the calibration",
        )  # fmt: skip
    gates.close()


@torch.inference_mode()
def check_sample(gates: Gates, model: StationPDEModel, batch: Batch) -> None:
    """Refuse a record from some windows of which the model forecasts what no air has."""
    check_clamped(gates, clamped_share(model(batch.history, batch.issue_time)))
    gates.close()


def _are_alike(one: Stations, other: Stations) -> bool:
    return one.id == other.id and all(
        np.array_equal(a, b) for a, b in zip(one.coordinates, other.coordinates, strict=True)
    )
