"""What a learner fits before the first step: once for a run, told while it lasts, ended when the run is."""

import os
import signal

import pytest
import torch

from stationpde.data.window_source import WindowSource
from stationpde.errors import Interrupted, ResourceError
from stationpde.evaluation.budget import Ledger
from stationpde.evaluation.fitting import ModelFitter
from stationpde.runs.checkpoint import load_weights
from stationpde.training.session import train
from training_learner import LinearLearner, small_config, small_series


class PreparedLearner(LinearLearner):
    """Fits the number of calls of `prepare`, which all learners of a test share."""

    def __init__(self, series, calls, during=lambda done: None):
        super().__init__(series)
        self.module.register_buffer("prepared", torch.zeros(()))
        self.calls, self.during = calls, during

    def prepare(self, source, report):
        self.calls.append(len(source.windows.train))
        for done in range(5):
            self.during(done)
            report("numbers", done, 5)
        self.module.prepared.fill_(len(self.calls))


def builder(calls, during=lambda done: None):
    return lambda config, source: PreparedLearner(source.series, calls, during)


class Stopping(PreparedLearner):
    """Is told to stop in its first step."""

    def losses(self, batch, reducer):
        os.kill(os.getpid(), signal.SIGTERM)
        return super().losses(batch, reducer)


def test_a_run_is_prepared_once_and_a_checkpoint_holds_what_was_fitted(tmp_path):
    calls, config, run = [], small_config("train.max_steps=6"), tmp_path / "run"
    with pytest.raises(Interrupted, match="after step"):
        train(config, small_series(), run, build=lambda config, source: Stopping(source.series, calls))
    done = train(config, small_series(), run, build=builder(calls))
    assert len(calls) == 1 and calls[0] > 0
    assert float(load_weights(done.checkpoint)["prepared"]) == 1.0


def test_preparing_is_told_before_training(tmp_path):
    told = []
    train(small_config("train.max_steps=2"), small_series(), tmp_path / "run", build=builder([]), watcher=told.append)
    assert told[0].stage == "guide" and told[0].note == "numbers" and told[0].total == 5
    assert "train" in {event.stage for event in told}


def test_a_run_that_is_stopped_while_it_is_prepared_says_so_and_begins_anew(tmp_path):
    def stop(done):
        if done == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    config, run, calls = small_config("train.max_steps=2"), tmp_path / "run", []
    with pytest.raises(Interrupted, match="stopped by SIGTERM before the first step") as caught:
        train(config, small_series(), run, build=builder(calls, stop))
    assert caught.value.exit_code == 75 and caught.value.do.endswith("it begins anew")
    assert train(config, small_series(), run, build=builder(calls)).steps == 2
    assert len(calls) == 2


def test_a_benchmark_charges_the_preparation_and_ends_one_that_is_beyond_its_cap(tmp_path):
    config, source, calls = small_config(), WindowSource.of(small_series(), small_config()), []
    ledger = Ledger(tmp_path / "run" / ".spent.json")

    def slowly(done):
        sum(n * n for n in range(200_000))

    made = ModelFitter(tmp_path)._prepared(config, source, tmp_path / "run", builder(calls, slowly), ledger, cap=60.0)
    assert ledger.spent["prepare"] > 0.0 and float(made(config, source).module.prepared) == 1.0
    with pytest.raises(ResourceError) as caught:
        ModelFitter(tmp_path)._prepared(config, source, tmp_path / "other", builder(calls, slowly), ledger, cap=1e-3)
    assert caught.value.code == "SPDE-B011"
