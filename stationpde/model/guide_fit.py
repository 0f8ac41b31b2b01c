"""Fitting a model's guide: rows from the training split of a record, made with the model's lift and statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fields.windows import Split, StationSeries, WindowSpec
from stationpde.guide import FitCost, Guide, GuideBatches, NetworkFitSettings, Report, fit_cost, fit_guide

if TYPE_CHECKING:
    from stationpde.model.model import StationPDEModel

__all__ = ["fit_model_guide", "guide_batches", "guide_cost"]


def no_progress(task: str, done: int, total: int) -> None:
    """Ignore progress: no-op callback."""


def guide_batches(
    model: StationPDEModel, series: StationSeries, split: Split, report: Report = no_progress
) -> GuideBatches:
    """Return the rows that the guide of a model is fitted on."""
    data, sites = model.config.data, model.sites
    spec = WindowSpec(data.history, data.horizon)
    places = sites.features.position
    return GuideBatches(
        series, split, spec, model.predictors_of, sites.observed_scale, places, report,
        takes_all=model.config.model.guide_rows == "all",
    )  # fmt: skip


def fit_model_guide(model: StationPDEModel, series: StationSeries, split: Split, report: Report = no_progress) -> None:
    """Fit a model's guide, if it has one, on the training split of a record, and nothing else.

    Parameters
    ----------
    report : progress callback; an exception that it raises ends the fit, and the guide stays without effect
    """
    if not isinstance(model.guide, Guide):
        return
    settings, batches = _network_settings(model), guide_batches(model, series, split, report)
    was_training = model.training
    model.eval()
    fit_guide(model.guide, batches, settings)
    model.train(was_training)


def guide_cost(model: StationPDEModel, series: StationSeries, split: Split) -> FitCost:
    """Measure parts of the fit of a model's guide, and return what the whole will cost."""
    if not isinstance(model.guide, Guide):
        return FitCost(0.0, 0)
    was_training = model.training
    model.eval()
    cost = fit_cost(model.guide, guide_batches(model, series, split), _network_settings(model))
    model.train(was_training)
    return cost


def _network_settings(model: StationPDEModel) -> NetworkFitSettings:
    train = model.config.train
    return NetworkFitSettings(train.seed, model.config.model.guide_epochs, train.station_dropout)
