"""MasterGNN+: attention and the term of the critics by hand, and what detaching the forecast changes."""

import pytest
import torch
from torch import nn

from neural_baseline_cases import made, on_the_equator, random, source
from stationpde.baselines.mastergnn import Calendar, ViewAttention, turned_round
from stationpde.baselines.station_graph import StationGraph, place_features
from stationpde.model.learner import LocalReducer


@pytest.mark.parametrize("count", [1, 2, 30])
def test_any_number_of_stations(count):
    learner, given = made("mastergnn", count=count), source(count=count)
    learner.module.eval()
    with torch.no_grad():
        forecast = learner.predict(given.batch(given.windows.val[:2]))
    assert forecast.shape == (2, 8, count, 5) and torch.isfinite(forecast).all()


def test_attention_is_that_of_the_joined_vector():
    stations = on_the_equator(0.0, 2.0, 5.0)
    graph = StationGraph.of_places(stations, 2)
    torch.manual_seed(0)
    view = ViewAttention(graph, 4, 3)
    nn.init.constant_(view.of_length, -0.7)
    values, context = random(1, 3, 4), place_features(stations)
    a = torch.cat([view.at.weight[0], view.of.weight[0], view.of_length])
    projected = values[0] @ view.into.weight.T
    with torch.no_grad():
        ours = view(values, context)[0]
        for i in range(3):
            score = [
                a @ torch.cat([projected[i], context[i], projected[j], context[j], view.length[i, edge][None]])
                for edge, j in enumerate(graph.sources[i].tolist())
            ]
            alpha = nn.functional.leaky_relu(torch.stack(score), 0.2).softmax(dim=0)
            torch.testing.assert_close(ours[i], alpha @ projected[graph.sources[i]], rtol=1e-4, atol=1e-5)


def test_month_weekday_and_hour_of_a_time():
    # 2024-02-29 was a Thursday.
    time = torch.tensor([1_709_208_000 + 3600, 0])
    assert [part.tolist() for part in Calendar.numbers(time)] == [[1, 0], [3, 3], [13, 0]]


def adversarial(learner, forecast, target):
    return learner.adversarial(forecast, target, LocalReducer())


def test_the_term_of_the_critics_is_the_weighted_cross_entropy():
    learner = made("mastergnn")
    critics, places = learner.opposed.critics, learner.opposed.network.places
    forecast, target = random(3, 8, 7, 5), random(3, 8, 7, 5, seed=1)
    with torch.no_grad():
        term = adversarial(learner, forecast, target)
        losses, away = [], []
        for verdict, real, fake in zip(
            critics.verdicts, critics.features(target, places), critics.features(forecast, places)
        ):
            logits = torch.cat([verdict(real), verdict(fake)])
            labels = torch.cat([torch.ones(len(real), 1), torch.zeros(len(fake), 1)])
            losses.append(nn.functional.binary_cross_entropy_with_logits(logits, labels))
            away.append((real.mean(dim=0) - fake.mean(dim=0)).square().sum())
    torch.testing.assert_close(term, (torch.stack(away).softmax(dim=0) * torch.stack(losses)).sum())
    assert [len(part) for part in critics.features(target, places)] == [3, 3 * 7, 3 * 8]


def test_the_critics_train_the_forecast_against_themselves():
    learner = made("mastergnn")
    forecast, target = random(2, 8, 7, 5).requires_grad_(), random(2, 8, 7, 5, seed=1)
    adversarial(learner, forecast, target).backward()
    critics = {name: p.grad.clone() for name, p in learner.opposed.critics.named_parameters()}
    assert all(grad.abs().sum() > 0 for grad in critics.values())
    before = float(adversarial(learner, forecast, target))
    with torch.no_grad():
        # Descent on the forecast's own gradient makes the critics' task harder.
        step = 1e-2 / forecast.grad.abs().max()
        assert float(adversarial(learner, forecast - step * forecast.grad, target)) > before
        for name, parameter in learner.opposed.critics.named_parameters():
            parameter -= 1e-3 * critics[name]
        assert float(adversarial(learner, forecast, target)) < before


def test_as_published_the_critics_train_nothing_but_themselves():
    given = source()
    batch = given.batch(given.windows.train[:2])
    for published in (False, True):
        learner = made("mastergnn", published_detached_forecast=published)
        forecast, _ = learner.forecast(batch)
        adversarial(learner, forecast, learner.inputs.scaled(batch.future)).backward()
        reached = [p.grad is not None for p in learner.opposed.network.parameters()]
        assert not any(reached) if published else all(reached)
        assert all(p.grad.abs().sum() > 0 for p in learner.opposed.critics.parameters())


def test_what_was_not_observed_tells_the_critics_nothing():
    learner = made("mastergnn")
    forecast = random(2, 8, 7, 5)
    nothing = torch.full_like(forecast, torch.nan)
    same = adversarial(learner, forecast, forecast)
    torch.testing.assert_close(adversarial(learner, forecast, nothing), same)
    assert torch.isfinite(same)


def test_critics_are_no_part_of_validation_and_learn_three_times_as_fast():
    learner, given = made("mastergnn"), source()
    batch = given.batch(given.windows.val[:2])
    learner.module.eval()
    losses = learner.losses(batch, LocalReducer())
    assert float(losses.total) == float(losses.error) and float(losses.penalty) == 0.0
    critics = {id(p) for p in learner.opposed.critics.parameters()}
    for group in learner.parameter_groups(0.1):
        assert group.get("lr_scale", 1.0) == (3.0 if id(group["params"][0]) in critics else 1.0)


def test_turning_round_changes_the_gradient_alone():
    values = random(3).requires_grad_()
    turned = turned_round(values)
    turned.sum().backward()
    assert torch.equal(turned, values) and torch.equal(values.grad, -torch.ones(3))
