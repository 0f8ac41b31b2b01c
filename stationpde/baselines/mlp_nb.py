"""The perceptron that also sees the last state of the eight nearest stations."""

from __future__ import annotations

from functools import partial

from stationpde.baselines.registry import Baseline
from stationpde.baselines.station_mlp import MIXED_ROWS, SEASON, mlp_learner

__all__ = ["BASELINE"]

BASELINE = Baseline(
    name="mlp_nb",
    title="MLP with neighbours",
    reference="two hidden layers, shared by all stations, with eight nearest",
    kind="trained",
    make=partial(mlp_learner, neighbours=8),
    rates=(1e-3, 3e-3),
    train=MIXED_ROWS,
    switches=SEASON,
)
