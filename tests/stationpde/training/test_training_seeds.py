"""Runs that differ in their seed alone: directories, settings and the time that they share."""

from pathlib import Path

import pytest

from stationpde.config import Config
from stationpde.training import TrainOptions, seeds


@pytest.fixture
def calls(monkeypatch):
    """Record what would be trained; each call takes four seconds of a clock that stands still otherwise."""
    now, recorded = [100.0], []

    def train(config, series, run_dir, *, options, watcher):
        recorded.append((config.train.seed, Path(run_dir), options.max_seconds))
        now[0] += 4.0
        return run_dir

    monkeypatch.setattr(seeds, "train", train)
    monkeypatch.setattr(seeds.time, "monotonic", lambda: now[0])
    return recorded


def test_each_seed_is_trained_in_a_directory_of_its_own(calls):
    results = seeds.train_seeds(Config.preset("tiny"), None, "runs", [3, 5])
    assert [(seed, folder) for seed, folder, _ in calls] == [(3, Path("runs/seed-3")), (5, Path("runs/seed-5"))]
    assert results == [Path("runs/seed-3"), Path("runs/seed-5")]


def test_without_seeds_there_is_one_run_with_the_seed_of_the_configuration(calls):
    seeds.train_seeds(Config.preset("tiny").with_overrides(["train.seed=7"]), None, "runs")
    assert calls == [(7, Path("runs"), None)]


def test_the_time_limit_is_that_of_all_runs_together_and_counts_from_the_start_of_the_job(calls):
    seeds.train_seeds(Config.preset("tiny"), None, "r", [0, 1, 2], options=TrainOptions(max_seconds=9.0), began=97.0)
    assert [left for *_, left in calls] == [6.0, 2.0, 0.0]
