"""What a step computes follows from its number: order of windows, learning rate, seeds, averages."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stationpde.config import TrainSection
from stationpde.data.window_source import WindowSource
from stationpde.errors import CorruptArtefactError
from stationpde.seeding import derive, seed_everything
from stationpde.training.averaging import WeightAverage
from stationpde.training.optimiser import Optimiser, learning_rate
from stationpde.training.sampler import Plan, epochs_for
from training_learner import LinearLearner, build_linear, small_config, small_series


def plan(count=50, **options):
    return Plan(lambda epoch: np.arange(count), **{"epochs": 3, "batch": 8, "seed": 0, **options})


@given(
    count=st.integers(1, 60), batch=st.integers(1, 12), world=st.integers(1, 4), epochs=st.integers(1, 3)
)  # fmt: skip
def test_ranks_share_each_batch_and_an_epoch_shows_each_window_once(count, batch, world, epochs):
    plans = [plan(count, batch=batch, epochs=epochs, rank=rank, world=world) for rank in range(world)]
    for epoch in range(epochs):
        first = plans[0].end_of(epoch - 1) if epoch else 0
        seen = []
        for step in range(first, plans[0].end_of(epoch)):
            parts = [p.windows(step) for p in plans]
            assert sorted(np.concatenate(parts)) == sorted(plans[0].whole_batch(step))
            assert batch < world or all(len(part) for part in parts)
            seen.extend(plans[0].whole_batch(step))
        dropped = count - len(seen)
        assert len(set(seen)) == len(seen) and 0 <= dropped < world


def test_a_step_is_the_same_whether_or_not_others_were_asked_for_before():
    straight = [plan().windows(step).tolist() for step in range(plan().total)]
    assert plan().windows(17).tolist() == straight[17]
    assert straight[0] != straight[7]  # another epoch, another order
    assert plan(seed=1).windows(0).tolist() != straight[0]


@pytest.mark.parametrize(("step", "epochs"), [(0, 0), (6, 0), (7, 1), (8, 1), (14, 2), (20, 2), (21, 3)])
def test_complete_epochs_are_counted(step, epochs):
    assert plan().epochs_done(step) == epochs


def test_a_limit_of_steps_ends_the_last_epoch_where_it_falls():
    cut = plan(max_steps=10)
    assert (cut.total, cut.epochs_done(9), cut.epochs_done(10), cut.end_of(1)) == (10, 1, 2, 10)


def test_the_training_stride_rotates_through_all_windows():
    source = WindowSource.of(small_series(), small_config("data.train_stride=3"))
    epochs = [set(source.epoch(number).tolist()) for number in range(3)]
    assert set.union(*epochs) == set(source.windows.train.tolist())
    assert not (epochs[0] & epochs[1])


def test_one_cycle_rises_to_its_peak_and_falls_to_almost_nothing():
    rates = [learning_rate(step, 100, 2e-3) for step in range(100)]
    assert rates[0] == pytest.approx(2e-3 / 25)
    assert max(rates) == pytest.approx(2e-3) and rates.index(max(rates)) == 30
    assert rates[-1] == pytest.approx(2e-7)
    assert rates[:31] == sorted(rates[:31]) and rates[30:] == sorted(rates[30:], reverse=True)


def test_a_constant_rate_is_constant():
    assert {learning_rate(step, 10, 1e-4, "constant") for step in range(10)} == {1e-4}


@given(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_different_places_have_different_seeds(one, other):
    assert (derive(0, *one) == derive(0, *other)) is (one == other)


def test_seeding_a_step_repeats_every_generator():
    def draw():
        seed_everything(3, "step", 1, 2, 0)
        return torch.rand(3).tolist(), np.random.random(), nn.Dropout(0.5)(torch.ones(20)).tolist()

    assert draw() == draw()


def test_the_gradient_is_clipped_to_the_allowed_norm_and_left_alone_below():
    learner = LinearLearner(small_series())
    optimiser = Optimiser(learner.module, learner.parameter_groups(0.0), small_config().train, 10)
    for size, expected in ((10.0, 1.0), (1e-3, None)):
        for parameter in optimiser.parameters:
            parameter.grad = torch.full_like(parameter, size)
        before = optimiser.clip()
        after = math.sqrt(sum(float(p.grad.square().sum()) for p in optimiser.parameters))
        assert after == pytest.approx(expected or before, rel=1e-5)  # float32 sums


def test_steps_are_those_of_torch_s_adamw():
    torch.manual_seed(0)
    ours, theirs = LinearLearner(small_series(), 0.0), LinearLearner(small_series(), 0.0)
    theirs.module.load_state_dict(ours.module.state_dict())
    settings = small_config("train.schedule=constant", "train.lr=0.01").train
    optimiser = Optimiser(ours.module, ours.parameter_groups(0.1), settings, 10)
    oracle = torch.optim.AdamW(theirs.parameter_groups(0.1), lr=0.01)
    for step in range(5):
        for one, other in zip(ours.module.parameters(), theirs.module.parameters(), strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        optimiser.step(step)
        oracle.step()
    for one, other in zip(ours.module.parameters(), theirs.module.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-7)  # float32, another order of operations


def test_the_first_average_follows_and_a_long_one_lags():
    module = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(module.weight)
    average = WeightAverage(module, 0.99)
    nn.init.ones_(module.weight)
    average.update()
    assert average.tensors()["weight"].item() == pytest.approx(1 - 2 / 11)  # d_1 = 2/11
    with average.applied():
        assert module.weight.item() == pytest.approx(1 - 2 / 11)
    assert module.weight.item() == 1.0


def test_no_average_costs_no_memory():
    average = WeightAverage(nn.Linear(2, 2), 0.0)
    average.update()
    assert average.tensors() == {}


def test_moments_of_another_model_are_refused():
    small, config = LinearLearner(small_series()), small_config().train
    optimiser = Optimiser(small.module, small.parameter_groups(0.0), config, 10)
    state = {f"{slot}/net.0.bias": torch.zeros(3) for slot in ("exp_avg", "exp_avg_sq", "step")}
    with pytest.raises(CorruptArtefactError, match=r"net\.0\.bias"):
        optimiser.load(state)


def test_the_learner_of_these_tests_is_one():
    from stationpde.model.learner import Learner

    source = WindowSource.of(small_series(), small_config())
    assert isinstance(build_linear(small_config(), source), Learner)


def test_a_longer_record_is_passed_over_more_often_within_bounds():
    automatic = TrainSection(epochs="auto")
    assert [epochs_for(automatic, days) for days in (10.0, 110.0, 220.0, 438.0, 2000.0)] == [2, 2, 4, 8, 8]
    assert epochs_for(TrainSection(epochs=3), 2000.0) == 3


def test_a_plan_counts_the_days_of_training_alone():
    series = small_series()
    config = small_config().with_overrides(["train.epochs=auto"])
    source = WindowSource.of(series, config)
    assert source.training_days == series.time[: source.windows.split.val].size * series.step_seconds / 86400
    assert Plan.of(source, config.train).epochs == 2  # a few days
