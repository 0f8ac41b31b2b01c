"""A perceptron on the history of a station, its place and the time, with weights that all stations share."""

from __future__ import annotations

from functools import partial

from stationpde.baselines.registry import Baseline
from stationpde.baselines.station_mlp import MIXED_ROWS, SEASON, mlp_learner

__all__ = ["BASELINE"]

BASELINE = Baseline(
    name="mlp",
    title="MLP",
    reference="two hidden layers, shared by all stations",
    kind="trained",
    make=partial(mlp_learner, neighbours=0),
    rates=(1e-3, 3e-3),
    train=MIXED_ROWS,
    switches=SEASON,
)
