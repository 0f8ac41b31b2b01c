"""Physics: the lifted field stepped by the surface equations with fixed coefficients, without learning or closure.

Coefficients are those with which the configuration's equations start: diffusivity from the grid, friction and
condensation as in the section ``pde``.
"""

from __future__ import annotations

from functools import partial

from stationpde.baselines.field_forecast import FieldForecast
from stationpde.baselines.registry import Baseline

__all__ = ["BASELINE"]

BASELINE = Baseline(
    "physics",
    "Physics (surface PDE)",
    "the surface equations of the configuration, coefficients fixed",
    "rule",
    partial(FieldForecast.of, equations=True),
)
