"""A plan of a benchmark on a dozen made-up stations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from small_network import SMALL
from stationpde.evaluation.benchmark import BenchmarkPlan

TINY = (
    *(pair for pair in SMALL if "dropout" not in pair), "grid.height=8", "lift.k=4", "model.hidden=4",
    "model.encoder_hidden=4", "model.dilations=[1,2]", "model.head_hidden=8", "model.guide_networks=1",
    "model.guide_hidden=8", "model.guide_epochs=1", "train.max_steps=3", "train.epochs=2",
)  # fmt: skip


def plan_of(out: Path, *models: str, **changes) -> BenchmarkPlan:
    """Plan a benchmark of models on `small_series`, small enough for seconds."""
    return replace(BenchmarkPlan("made-up", "w2k-like", models, out, overrides=TINY, cap=None), **changes)
