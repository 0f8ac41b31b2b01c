"""Test scores of the distributions about the forecasts of a run, beside references dressed by the same code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.times import DAY
from stationpde.evaluation.distribution_sums import COVERED, EVENTS, DistributionSums
from stationpde.evaluation.metrics import elevation_bands
from stationpde.evaluation.significance import compare_days, drawn_days
from stationpde.uncertainty import VARIABLES, ClimatologyForecaster, Dressed, calibrate_forecaster, coupled, shown

if TYPE_CHECKING:
    from fields.windows import Batch, Stations, StationSeries
    from stationpde.baselines import Predictor
    from stationpde.config import Config
    from stationpde.data import WindowSource
    from stationpde.uncertainty import Calibration, Copula, Distributions

__all__ = ["CLIMATOLOGY", "add_scenarios", "coverage_test", "distribution_scores", "thresholds_of"]

Array = np.ndarray[Any, Any]

CLIMATOLOGY = "climatology quantiles"
"""Name of the reference of observed quantiles by station, hour and month."""
_BATCH = 16
_LEVEL = 0.95
# Scenarios of a window and stations of an energy score: one of thousands of dimensions tells no more.
_SCENARIOS = 20
_MOST_STATIONS = 150


def distribution_scores(
    calibration: Calibration, forecasters: Mapping[str, Predictor], blind: WindowSource, source: WindowSource,
    config: Config, starts: Array, by: tuple[str, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """Compute scores of the distributions of a run and of references on test windows.

    Parameters
    ----------
    calibration : of the forecaster ``run``; the others are dressed here
    forecasters : point forecasters by name, ``run`` among them
    blind : the windows of training and validation, without a test
    source, starts : the windows to score
    by : groups, of ``lead``, ``hour``, ``station`` and ``elevation``

    Returns
    -------
    ``scores``, ``energy`` and ``events`` by forecaster, ``calibrated`` of the run, ``by`` group, and ``compared``, the
    gain in CRPS over each reference with its significance
    """
    series = source.series
    stations, names = series.stations, tuple(calibration.marginals)
    dressed: dict[str, Any] = {"run": Dressed(forecasters["run"], calibration, stations)}
    for name, forecaster in forecasters.items():
        if name != "run":
            dressed[name] = Dressed(forecaster, calibrate_forecaster(forecaster, blind, config), stations)
    dressed[CLIMATOLOGY] = ClimatologyForecaster(blind, names)
    days = series.time[starts + config.data.history - 1] // DAY
    limits = thresholds_of(series, blind.windows.split.val)
    span = (int(days.min()), int(days.max()))
    sums = {
        name: DistributionSums(stations.id, names, config.data.horizon, series.step_seconds, span, limits)
        for name in dressed
    }
    for first in range(0, len(starts), _BATCH):
        batch = source.batch(starts[first : first + _BATCH])
        for name, forecaster in dressed.items():
            distributions = forecaster.distributions(batch)
            sums[name].add(distributions, batch)
            copula = None if name == CLIMATOLOGY else forecaster.calibration.copula
            if copula is not None:
                add_scenarios(sums[name], distributions, copula, stations, batch)
    mine = sums["run"]
    return {
        "scores": {name: _scores(one) for name, one in sums.items()},
        "energy": _energy(sums),
        "events": {name: one.event_scores() for name, one in sums.items()},
        "calibrated": {
            name: {f"{level:g}": coverage_test(mine.inside[0, :, c], mine.inside[1 + i, :, c], level)
                   for i, level in enumerate(COVERED)}
            for c, name in enumerate(mine.names)
        },
        "by": {group: _grouped(mine, group, series) for group in by},
        "compared": {
            name: {
                v: compare_days(mine.daily["lead"][..., c].sum(axis=2), one.daily["lead"][..., c].sum(axis=2)).to_dict()
                for c, v in enumerate(mine.names)
            }
            for name, one in sums.items()
            if name != "run"
        },
    }  # fmt: skip


def add_scenarios(
    sums: DistributionSums, distributions: Distributions, copula: Copula, stations: Stations, batch: Batch
) -> None:
    """Add the energy scores of a batch, at most at `_MOST_STATIONS` stations, evenly spaced in the record."""
    few = np.unique(np.linspace(0, len(stations) - 1, min(_MOST_STATIONS, len(stations))).round().astype(int))
    levels = (np.arange(_SCENARIOS) + 0.5) / _SCENARIOS
    quantiles = {name: distributions.quantiles(name, levels)[:, :, few] for name in sums.names}
    targets = shown(batch.future[:, :, few].numpy())
    for window, issue in enumerate(batch.issue_time.tolist()):
        drawn = coupled({n: q[window] for n, q in quantiles.items()}, copula, stations.take(few), (issue,))
        sums.add_scenarios(drawn, targets[window], issue // DAY)


def _energy(sums: Mapping[str, DistributionSums]) -> dict[str, Any]:
    """Return the mean energy score of each forecaster and variable, and the gain of the run with its significance."""
    mine = sums["run"]
    entries: dict[str, Any] = {}
    for name, one in sums.items():
        count, total = one.energy.sum(axis=1)
        if not count.any():
            continue
        entries[name] = {v: {"energy": float(total[c] / count[c])} for c, v in enumerate(one.names) if count[c]}
        for c, v in enumerate(one.names) if name != "run" else ():
            if count[c] and np.array_equal(mine.energy[0, :, c], one.energy[0, :, c]):
                entries[name][v]["gain"] = compare_days(mine.energy[..., c], one.energy[..., c]).to_dict()
    return entries


def thresholds_of(series: StationSeries, end: int) -> Array:
    """Return the threshold of each event at each station from the training steps, ``[event, station]``."""
    values = shown(series.values[:end])
    limits = np.full((len(EVENTS), len(series.stations)), np.nan)
    for number, (name, level, _) in enumerate(EVENTS):
        column = values[..., VARIABLES.index(name)]
        observed = np.isfinite(column).any(axis=0)
        limits[number, observed] = np.nanquantile(column[:, observed], level, axis=0)
    return limits


def coverage_test(counts: Array, inside: Array, nominal: float) -> dict[str, Any]:
    """Test whether an interval covers its nominal share, by a bootstrap of blocks of days.

    Parameters
    ----------
    counts, inside : targets of each day, and those of them that the interval holds
    nominal : share that it is to hold

    Returns
    -------
    ``coverage`` with its 95 % interval ``low``, ``high``, and ``calibrated``: whether the nominal share lies in it
    """
    used = counts > 0
    counts, inside = counts[used], inside[used]
    if not len(counts):
        return {"coverage": None, "low": None, "high": None, "calibrated": None}
    drawn = drawn_days(len(counts))
    shares = inside[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(shares, [0.5 - _LEVEL / 2, 0.5 + _LEVEL / 2])
    return {
        "coverage": float(inside.sum() / counts.sum()), "low": float(low), "high": float(high),
        "calibrated": bool(low <= nominal <= high),
    }  # fmt: skip


def _scores(sums: DistributionSums) -> dict[str, Any]:
    whole = sums.total["lead"].sum(axis=1)
    entries = {name: sums.scores(whole[:, c]) for c, name in enumerate(sums.names)}
    return {name: entry for name, entry in entries.items() if entry is not None}


def _grouped(sums: DistributionSums, by: str, series: StationSeries) -> dict[str, Any]:
    if by == "lead":
        groups = {f"{hours:g} h": sums.total["lead"][:, g] for g, hours in enumerate(sums.lead_hours)}
    elif by == "hour":
        step, hourly = sums.step_seconds / 3600, sums.total["hour"]
        groups = {f"{step * slot:02g} UTC": hourly[:, slot] for slot in range(hourly.shape[1])}
    elif by == "station":
        groups = {name: sums.total["station"][:, g] for g, name in enumerate(sums.stations)}
    else:
        bands = elevation_bands(series.stations.alt)
        groups = {name: sums.total["station"][:, inside].sum(axis=1) for name, inside in bands.items()}
    scored = {label: {v: sums.scores(rows[:, c]) for c, v in enumerate(sums.names)} for label, rows in groups.items()}
    return {label: {v: one for v, one in part.items() if one is not None} for label, part in scored.items()}
