"""Lift: persistence of the lifted field, read at the stations; shows the loss of lift and readout alone."""

from __future__ import annotations

from functools import partial

from stationpde.baselines.field_forecast import FieldForecast
from stationpde.baselines.registry import Baseline

__all__ = ["BASELINE"]

BASELINE = Baseline(
    "lift", "Lift (field persistence)", "the lifted field, kept", "rule", partial(FieldForecast.of, equations=False)
)
