"""A run on a whole record that may not be its own: the gates of evaluation, report and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from stationpde.forecasting.audit import clamped_share
from stationpde.forecasting.gates import Gates, check_clamped, check_network, check_values
from stationpde.forecasting.places import with_altitudes

if TYPE_CHECKING:
    from fields.windows import Batch, Stations, StationSeries
    from stationpde.model import StationPDEModel
    from stationpde.runs import LoadedRun

__all__ = ["check_sample", "model_for_record"]

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


@torch.inference_mode()
def check_sample(gates: Gates, model: StationPDEModel, batch: Batch) -> None:
    """Refuse a record from some windows of which the model forecasts what no air has."""
    check_clamped(gates, clamped_share(model(batch.history, batch.issue_time)))
    gates.close()


def _are_alike(one: Stations, other: Stations) -> bool:
    return one.id == other.id and all(
        np.array_equal(a, b) for a, b in zip(one.coordinates, other.coordinates, strict=True)
    )
