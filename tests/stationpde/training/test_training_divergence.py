"""Losses that are not finite: skipped, rolled back, given up; and the scores in physical units."""

import json
import logging

import numpy as np
import pytest
import torch

from fields.windows.torch_data import Batch
from stationpde.data.error_sums import persistence
from stationpde.errors import TrainingDivergedError
from stationpde.runs import checkpoint_files
from stationpde.runs.metrics_log import read_metrics
from stationpde.training.divergence import DivergenceGuard
from stationpde.training.session import train
from stationpde.training.validation import ValidationSums, total_score
from training_learner import LinearLearner, PoisonedLearner, build_linear, small_config, small_series


def poisoned(bad):
    return lambda config, source: PoisonedLearner(source.series, bad)


def test_the_guard_skips_twice_rolls_back_three_times_and_gives_up():
    guard = DivergenceGuard()
    verdicts = [guard.judge(False) for _ in range(12)]
    assert verdicts == [*(["skip", "skip", "roll_back"] * 3), "skip", "skip", "give_up"]


def test_a_good_step_in_between_starts_the_count_again():
    guard = DivergenceGuard()
    assert [guard.judge(ok) for ok in (False, False, True, False, False)] == ["skip", "skip", "good", "skip", "skip"]


def test_a_single_bad_step_is_skipped_and_counted(tmp_path):
    result = train(small_config(), small_series(), tmp_path / "run", build=poisoned(lambda call: call == 6))
    steps = read_metrics(tmp_path / "run" / "metrics.jsonl", "step")
    assert (result.skipped, result.rollbacks) == (1, 0)
    assert [r["step"] for r in steps if r["skipped"]] == [6]
    assert steps[5]["total"] is None and np.isfinite([r["total"] for r in steps if not r["skipped"]]).all()


def test_three_bad_steps_roll_back_to_the_checkpoint_and_halve_the_rate(tmp_path, caplog):
    config = small_config("train.schedule=constant")
    # Checkpoints come every 4 steps: steps 9 to 11 are bad, once.
    result = train(config, small_series(), tmp_path / "run", build=poisoned(lambda call: 9 <= call <= 11))
    steps = read_metrics(tmp_path / "run" / "metrics.jsonl", "step")
    assert result.rollbacks == 1 and "back to step-8 with half the learning rate" in caplog.text
    assert [r["step"] for r in steps] == list(range(1, 43))
    assert {r["lr"] for r in steps[:8]} == {0.01} and {r["lr"] for r in steps[8:]} == {0.005}


def test_a_run_that_stays_bad_ends_with_a_dump_that_names_windows_and_operation(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(TrainingDivergedError) as caught:
        train(small_config(), small_series(), run, build=poisoned(lambda call: call > 9))
    assert caught.value.exit_code == 6
    (path,) = run.glob("diverged-step-*.json")
    dump = json.loads(path.read_text())
    assert str(path) == caught.value.where
    assert len(dump["windows"]) == 8 and dump["rollbacks"] == 3
    assert dump["operation"] == "log" and dump["parameters"] == []
    assert checkpoint_files.newest_valid(run / "checkpoints").name == "step-8"
    assert not (run / "result.json").exists()


def test_a_parameter_that_is_not_finite_is_named(tmp_path):
    def broken(config, source):
        learner = LinearLearner(source.series)
        with torch.no_grad():
            learner.module.net[3].bias[0] = float("nan")
        return learner

    with pytest.raises(TrainingDivergedError, match=r"first not finite: net\.3\.bias"):
        train(small_config(), small_series(), tmp_path / "run", build=broken)
    (path,) = (tmp_path / "run").glob("diverged-step-*.json")
    assert json.loads(path.read_text())["module"].startswith("net.3 ")


def test_a_roll_back_repeats_itself_after_a_kill(tmp_path):
    """The same faults at the same steps give the same weights, however often training was started."""

    def bad(learner_step):
        return 9 <= learner_step <= 11

    first = train(small_config(), small_series(), tmp_path / "a", build=poisoned(bad))
    second = train(small_config(), small_series(), tmp_path / "b", build=poisoned(bad))
    assert first.weights_sha256 == second.weights_sha256


# ---- scores ----------------------------------------------------------------------------------------------------


def batch_of(history, future) -> Batch:
    history, future = torch.as_tensor(history).float(), torch.as_tensor(future).float()
    index = torch.arange(len(history))
    return Batch(history, future, index * 3600, 3600, index)


def test_scores_are_in_hectopascal_kelvin_and_per_cent():
    future = torch.zeros(2, 3, 4, 5) + torch.tensor([1.0, 1.0, 1e5, 280.0, 0.5])
    history = future[:, :1].clone()
    off = future + torch.tensor([2.0, -1.0, 300.0, 4.0, 0.05])
    sums = ValidationSums(("u", "v", "p", "t", "rh"), stations=4)
    sums.add(off, batch_of(history, future))
    found = {name: (round(s.mse, 4), round(s.mae, 4), s.unit) for name, s in sums.scores().items()}
    assert found == {
        "u": (4.0, 2.0, "m/s"), "v": (1.0, 1.0, "m/s"), "p": (9.0, 3.0, "hPa"),
        "t": (16.0, 4.0, "K"), "rh": (25.0, 5.0, "%"),
    }  # fmt: skip


def test_what_was_not_observed_is_not_scored_and_humidity_is_clipped():
    future = torch.full((1, 2, 1, 5), float("nan"))
    future[0, 0, 0] = torch.tensor([0.0, 0.0, 1e5, 280.0, 1.0])
    forecast = torch.zeros(1, 2, 1, 5) + torch.tensor([0.0, 0.0, 1e5, 280.0, 1.3])
    sums = ValidationSums(("t", "rh"), stations=1)
    sums.add(forecast, batch_of(future[:, :1], future))
    scores = sums.scores()
    assert set(scores) == {"t", "rh"} and scores["t"].count == 1 and scores["rh"].mse == 0.0


def test_persistence_is_the_last_value_that_was_seen():
    history = torch.tensor([[1.0, 2.0, float("nan")], [float("nan")] * 3]).reshape(2, 3, 1, 1)
    last = persistence(history)
    assert last[0].item() == 2.0 and torch.isnan(last[1]).all()


def test_a_forecast_that_is_not_finite_spoils_the_score():
    future = torch.ones(1, 1, 1, 5)
    sums = ValidationSums(("u",), stations=1)
    sums.add(future * float("nan"), batch_of(future, future))
    assert np.isnan(total_score(sums.scores()))


def test_sums_of_parts_equal_the_sum_of_the_whole():
    rng = torch.Generator().manual_seed(0)
    future, forecast, history = (torch.rand(6, 3, 4, 5, generator=rng) for _ in range(3))
    whole, parts = ValidationSums(("u", "p"), 4), [ValidationSums(("u", "p"), 4) for _ in range(2)]
    whole.add(forecast, batch_of(history, future))
    for number, part in enumerate(parts):
        part.add(forecast[number::2], batch_of(history[number::2], future[number::2]))
    whole.sums, parts[0].sums = whole.sums, parts[0].sums + parts[1].sums
    assert parts[0].scores()["p"].mse == pytest.approx(whole.scores()["p"].mse, rel=1e-12)


def test_training_beats_persistence_on_waves(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    result = train(small_config("train.epochs=6"), small_series(), tmp_path / "run", build=build_linear)
    assert all(score["skill"] > 0.2 for score in result.validation.values())
