"""Peers of the model: rules of thumb, closed-form fits and networks, on the same windows, masks and statistics."""

from stationpde.baselines.registry import Baseline as Baseline
from stationpde.baselines.registry import Predictor as Predictor
from stationpde.baselines.registry import baseline as baseline
from stationpde.baselines.registry import baselines as baselines
from stationpde.baselines.registry import names as names
