"""Committed cells of the benchmarks: none of them is stale, and one of other settings is found out."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from stationpde.config import removed
from stationpde.config.removed import RemovedKey
from stationpde.evaluation.benchmark import Bench, BenchmarkPlan
from stationpde.evaluation.cells import read_cell

CELLS = Path(__file__).parents[3] / "benchmarks" / "cells"
FILES = sorted(CELLS.rglob("*.json"))


def bench_for(path, cell, **plan):
    """Return the bench of a record that has the fingerprint of a cell's, without the record."""
    chosen = BenchmarkPlan(
        "unused", cell.task.protocol, (cell.task.model,), path.parent, cells=path.parent, keep_stale=True, **plan
    )
    return Bench(chosen, SimpleNamespace(fingerprint=cell.about["data"]["fingerprint"]))


def stale_among(paths, change=lambda task: task):
    """Return the names of cells that the benchmark would compute again for the same tasks, or for changed ones."""
    stale = []
    for path in paths:
        cell = read_cell(path)
        bench = bench_for(path, cell)
        assert path.stem == cell.task.name and bench.finished(change(cell.task)) is not None
        stale += bench.stale
    return stale


def test_no_committed_cell_is_stale():
    assert len(FILES) > 150
    assert stale_among(FILES) == []


@pytest.mark.parametrize("override", ["model.hidden=17", "train.lr=0.003", "data.max_missing=0.8", "pde.max_wind=50"])
def test_a_cell_of_another_setting_is_stale(override):
    names = ("w2k-like-24h-default-seed0", "w2k-like-24h-paper-seed0", "w2k-like-24h-paper-seed1")
    paths = [CELLS / f"{name}.json" for name in names]
    assert stale_among(paths, lambda task: replace(task, overrides=(override,))) == list(names)


def test_a_removed_key_at_another_constant_would_make_cells_stale(monkeypatch):
    paths = [CELLS / "w2k-like-24h-default-seed0.json", CELLS / "w2k-like-24h-mlp_nb-seed0.json"]
    monkeypatch.setattr(removed, "REMOVED", {**removed.REMOVED, "train.clip": RemovedKey(2.0, "for a test")})
    assert stale_among(paths) == [path.stem for path in paths]
