"""Ridge regression for each station and variable on the history of the station, the hour and the season."""

from __future__ import annotations

from functools import partial

from stationpde.baselines.registry import Baseline
from stationpde.baselines.ridge_forecast import fit_ridge

__all__ = ["BASELINE"]

BASELINE = Baseline(
    "ridge", "Ridge", "Hoerl and Kennard (1970), one for each station", "closed_form", partial(fit_ridge, neighbours=0)
)
