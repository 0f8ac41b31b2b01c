"""CPU time: counted over restarts, planned for, and judged."""

from __future__ import annotations

import json
import time

import pytest

from stationpde.baselines.registry import Baseline, baselines
from stationpde.config.tree import Config
from stationpde.data.window_source import WindowSource
from stationpde.errors import ResourceError
from stationpde.evaluation.budget import (
    BudgetSpent,
    Ledger,
    Pace,
    has_flattened,
    steps_that_fit,
    validation_windows_that_fit,
)
from stationpde.evaluation.contestants import Task, contestant
from stationpde.evaluation.fitting import ModelFitter, _Trial
from training_learner import LinearLearner, small_config, small_series


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_ledger_goes_on_where_the_last_process_stopped(tmp_path):
    path = tmp_path / "spent.json"
    for _ in range(2):
        with Ledger(path).charging("train"):
            work(0.05)
    assert json.loads(path.read_text())["train"] >= 0.1


def test_time_asleep_is_not_charged(tmp_path):
    ledger = Ledger(tmp_path / "spent.json")
    with ledger.charging("train"):
        time.sleep(0.2)
    assert ledger.spent["train"] < 0.1


def test_training_ends_when_the_cap_is_passed_by_a_quarter(tmp_path):
    ledger, told = Ledger(tmp_path / "spent.json"), []
    with ledger.charging("train"):
        watch = ledger.watcher(0.1, told.append)
        watch("first")
        work(0.15)
        with pytest.raises(BudgetSpent):
            watch("second")
    assert told == ["first"]


def test_planned_steps_and_validations_take_the_time_that_there_is():
    pace = Pace(step=0.5, window=0.01, steps_per_epoch=10, validation_windows=100)
    # an epoch takes 5 s of steps and 1 s of validation; one validation is kept for the end
    assert steps_that_fit(pace, 61.0) == 100
    assert steps_that_fit(pace, 0.1) == 1


def test_validation_takes_all_windows_or_as_many_as_a_third_of_the_time_allows():
    pace = Pace(step=4.0, window=0.5, steps_per_epoch=400, validation_windows=1600)
    assert validation_windows_that_fit(pace, 600.0) == 400
    assert validation_windows_that_fit(pace, 9000.0) == 1600
    assert validation_windows_that_fit(pace, 0.1) == 1
    # Two thirds of the time are left for steps, of which each carries its part of the next validation.
    assert steps_that_fit(pace, 600.0, 400) == int(400 / (4.0 + 200 / 400))


def test_a_cell_whose_validation_would_not_fit_is_validated_on_fewer_windows(tmp_path, monkeypatch):
    series, config = small_series(), small_config("train.patience=none")
    source = WindowSource.of(series, config)
    many = len(source.part("val"))
    monkeypatch.setattr(Pace, "read_or_measure", lambda *_: Pace(0.01, 30.0 / many, 10, many))
    made = Baseline("linear", "Linear", "", "trained", lambda config, source: LinearLearner(source.series))
    baselines.add("linear", made, owner="test")
    try:
        fitter = ModelFitter(tmp_path, configure=lambda model, task: config)
        task = Task("w2k-like", 24, "linear", 0, cap=48.0)
        fitter.fit(task, source)
        plan = json.loads((fitter.run_of(task, source) / ".plan.json").read_text())
        used = Config.read(fitter.run_of(task, source) / "config.toml").train.validate_windows
    finally:
        baselines.remove("linear")
    assert plan["windows"] == used == many // 2


@pytest.mark.parametrize("code", ["SPDE-B011", "SPDE-T070"])
def test_a_choice_that_takes_too_long_is_the_worst_and_other_faults_are_told(code, tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "spent.json")
    ledger.spent["search"] = 7.0
    monkeypatch.setattr(Pace, "read_or_measure", lambda *_: Pace(1.0, 0.1, 10, 20))
    caps = []

    class Shop:
        def _train(self, config, source, run, build, ledger, cap, what):
            caps.append(cap)
            raise ResourceError("no", code=code)

    trial = _Trial(Shop(), contestant("dlinear"), Config.preset("tiny"), None, tmp_path, ledger, 50.0)
    if code == "SPDE-B011":
        assert trial.score({"lr": 1e-3}) == 1e30
    else:
        with pytest.raises(ResourceError):
            trial.score({"lr": 1e-3})
    # A fifth of its share, on top of what the search has taken before.
    assert caps == [7.0 + 10.0]


def test_a_pace_is_measured_once(tmp_path):
    first = Pace.read_or_measure(tmp_path / "pace.json", lambda: Pace(1.0, 0.1, 10, 20))
    assert Pace.read_or_measure(tmp_path / "pace.json", lambda: Pace(9.0, 9.0, 9, 9)) == first


@pytest.mark.parametrize(
    ("scores", "stopped", "flat"),
    [
        ([1.0, 0.9, 0.8, 0.7], False, False),
        ([1.0, 0.5, 0.45, 0.449], False, True),
        ([1.0, 0.5], False, False),
        ([1.0, 0.9, 0.8, 0.7], True, True),
    ],
)
def test_a_curve_is_flat_when_its_last_quarter_gains_nothing_or_patience_ran_out(scores, stopped, flat):
    assert has_flattened(scores, stopped) is flat
