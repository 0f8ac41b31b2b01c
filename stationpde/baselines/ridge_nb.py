"""Ridge regression for each station and variable that also sees the last state and its change at the neighbours."""

from __future__ import annotations

from functools import partial

from stationpde.baselines.registry import Baseline
from stationpde.baselines.ridge_forecast import fit_ridge

__all__ = ["BASELINE"]

BASELINE = Baseline(
    "ridge_nb",
    "Ridge with neighbours",
    "Hoerl and Kennard (1970), one for each station with its eight nearest",
    "closed_form",
    partial(fit_ridge, neighbours=8),
)
