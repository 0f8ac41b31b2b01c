"""The reported run with distributions about its forecast, and with scores of distributions of a known size."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from reported_run import reported_view
from stationpde.evaluation.distribution_sums import CRPS_LEVELS
from stationpde.forecasting.cells import CellDistributions
from stationpde.report.view import RunView
from stationpde.uncertainty.dressed import SampledDistributions
from stationpde.uncertainty.levels import LEVELS

SHAPE = (5, 6)
SPREAD = {"p": 1.0, "t": 2.0, "rh": 5.0, "ff": 1.5}


def cells_of(leads: int, stations: int) -> CellDistributions:
    """Make normal distributions on cells, wider to the north, behind as many stations."""
    size = SHAPE[0] * SHAPE[1]
    wider = np.r_[np.ones(stations), np.repeat(1.0 + np.arange(SHAPE[0]), SHAPE[1])]
    values = {
        name: 10.0 + spread * wider[None, None, :, None] * norm.ppf(LEVELS) * np.ones((1, leads, stations + size, 1))
        for name, spread in SPREAD.items()
    }
    return CellDistributions(SampledDistributions(values), SHAPE)


def scores_by_lead(hours: tuple[float, ...]) -> dict:
    """Make what `distribution_scores` returns of a run with even PIT and coverage that falls with the lead."""
    one = {"count": 500, "crps": 1.0, "coverage": {"0.5": 0.5, "0.8": 0.8, "0.9": 0.9},
           "width": {"0.5": 1.0, "0.8": 2.0, "0.9": 3.0}, "pit": [0.1] * 10}  # fmt: skip
    names = ("u", "v", "p", "t", "rh", "ff")
    parts = [{"count": 100, "forecast": float(p), "observed": float(p)} for p in CRPS_LEVELS[::10]]
    event = {"count": 500, "brier": 0.1, "frequency": 0.1, "skill": 0.2, "reliability": parts}
    return {
        "scores": {"run": dict.fromkeys(names, one)},
        "events": {"run": {"ff above its 90th percentile": event, "t below its 5th percentile": event}},
        "by": {"lead": {f"{h:g} h": {name: {**one, "coverage": {"0.5": 0.5 - h / 500, "0.8": 0.8 - h / 500,
                                                                "0.9": 0.9 - h / 500}} for name in names}
                        for h in hours}},
    }  # fmt: skip


@lru_cache(maxsize=1)
def uncertain_view() -> RunView:
    """Return the view of the reported run with bands, distributions on cells, and scores."""
    view = reported_view()
    moment = view.moment
    leads, stations = moment.forecast.shape[:2]
    bands = {"t": moment.forecast[:, :, 3, None] + np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])}
    moment = replace(moment, bands=bands, cells=cells_of(leads, stations))
    return replace(view, moment=moment, uncertainty=scores_by_lead(moment.lead_hours))
