"""Scores of variables beside the state, next to persistence, the climatology and a ridge on the history of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields.variables import to_display
from stationpde.baselines import baseline, without_test
from stationpde.evaluation.scoring import thinned
from stationpde.extras import ExtraForecaster, bounded, extra_source, sunlight
from stationpde.model import ModelLearner
from stationpde.uncertainty import SampledDistributions

if TYPE_CHECKING:
    from stationpde.config import Config
    from stationpde.data import WindowSource
    from stationpde.extras import ExtraForecasts
    from stationpde.model import StationPDEModel

__all__ = ["EXTRA_REFERENCES", "extra_scores"]

Array = np.ndarray[Any, Any]

EXTRA_REFERENCES = ("persistence", "climatology", "ridge")
"""Baselines that every extra variable is held against; all are fitted in moments."""
INTERVALS = (0.5, 0.8, 0.9)
_MOST_WINDOWS = 2000
_BATCH = 16


def extra_scores(
    model: StationPDEModel, extras: ExtraForecasts, source: WindowSource, config: Config, starts: Array
) -> dict[str, Any]:
    """Compute scores of the extra variables on test windows, in display units, all stations and leads together.

    Returns
    -------
    By variable: ``run`` and each reference with ``mse``, ``mae``, ``bias`` and ``count``, the references with the
    run's ``skill``; ``coverage`` of the intervals of 50, 80 and 90 %. A variable without a target is left out.
    """
    names = [name for name in extras.names if source.series.extras and name in source.series.extras.variables]
    forecaster, learner = ExtraForecaster.of(model, extras), ModelLearner(model.eval())
    alone = {name: extra_source(source, name) for name in names}
    references = {
        name: {one: baseline(one).make(config, without_test(alone[name])) for one in EXTRA_REFERENCES} for name in names
    }
    sums = {name: {one: np.zeros(4) for one in ("run", *EXTRA_REFERENCES)} for name in names}
    inside = {name: np.zeros(len(INTERVALS)) for name in names}
    step, chosen = source.series.step_seconds, thinned(starts, _MOST_WINDOWS)
    for first in range(0, len(chosen), _BATCH):
        part = chosen[first : first + _BATCH]
        batch, windows = source.batch(part), {name: alone[name].batch(part) for name in names}
        reports = {name: windows[name].history[..., 0].numpy() for name in names}
        with torch.inference_mode():
            values, quantiles = forecaster.predict(
                learner.predict(batch), batch.history, reports, batch.issue_time.numpy()
            )
        valid = batch.issue_time.numpy()[:, None] + step * np.arange(1, source.windows.spec.horizon + 1)
        sun = sunlight(valid, source.series.stations)
        for name in names:
            target = _shown(name, windows[name].future[..., 0].numpy())
            sums[name]["run"] += _errors(_shown(name, values[name]), target)
            for one, predictor in references[name].items():
                forecast = bounded(name, predictor.predict(windows[name])[..., 0].numpy(), sun)
                sums[name][one] += _errors(_shown(name, forecast), target)
            if name in quantiles:
                inside[name] += _covered(name, quantiles[name], windows[name].future[..., 0].numpy())
    return {
        name: {**_entry(sums[name]), "coverage": _coverage(inside[name], sums[name]["run"][3], extras.fitted[name])}
        for name in names
        if sums[name]["run"][3]
    }


def _shown(name: str, values: Array) -> Array:
    return np.asarray(to_display(name, np.asarray(values, np.float64)))


def _errors(forecast: Array, target: Array) -> Array:
    """Return the sums of squared, absolute and plain errors, and their number."""
    there = np.isfinite(target)
    error = (forecast - target)[there]
    return np.array([(error**2).sum(), np.abs(error).sum(), error.sum(), error.size])


def _covered(name: str, quantiles: Array, target: Array) -> Array:
    """Return how many targets lie within each of the central intervals, their ends included."""
    distributions = SampledDistributions({name: quantiles})
    there = np.isfinite(target)
    counts = []
    for share in INTERVALS:
        ends = distributions.quantiles(name, (0.5 - share / 2, 0.5 + share / 2))
        counts.append(np.count_nonzero((target >= ends[..., 0] - 1e-6) & (target <= ends[..., 1] + 1e-6) & there))
    return np.array(counts, np.float64)


def _coverage(inside: Array, count: float, one: Any) -> dict[str, float]:
    return {f"{share:g}": float(n / count) for share, n in zip(INTERVALS, inside)} if one.has_quantiles else {}


def _entry(sums: dict[str, Array]) -> dict[str, Any]:
    entry: dict[str, dict[str, Any]] = {}
    for name, (squares, sizes, plain, count) in sums.items():
        means = {key: float(total / count) for key, total in (("mse", squares), ("mae", sizes), ("bias", plain))}
        entry[name] = {**means, "count": int(count)}
        if name != "run":
            entry[name]["skill"] = float(1.0 - sums["run"][0] / squares) if squares > 0 else 0.0
    return entry
