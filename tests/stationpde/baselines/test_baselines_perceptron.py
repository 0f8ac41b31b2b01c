"""The perceptrons and DLinear: sizes, what they see, and that the training loop trains and restores them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from baseline_records import KINDS, record, source_of
from stationpde.baselines import baseline
from stationpde.baselines.dlinear import DLinear
from stationpde.baselines.inputs import StationInputs
from stationpde.baselines.station_mlp import StationMLP
from stationpde.config.tree import Config
from stationpde.model.learner import LocalReducer
from stationpde.runs.checkpoint import load_weights
from stationpde.training.session import train

LEARNERS = ("mlp", "mlp_nb", "dlinear")


def _size(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_perceptron_has_the_size_of_the_reference():
    config, source = Config.preset("weather2k"), source_of(record())[1]
    given = config, source.series.stations, StationInputs.of(source)

    # (80 own + 40 of neighbours + 32 of time + 13 of the station) x 512, 512 x 512, 512 x 40, and biases.
    assert _size(StationMLP(*given, 8)) == 368_168
    assert _size(StationMLP(*given, 0)) == 368_168 - 40 * 512
    # Sine and cosine of the year at eight leads.
    assert _size(StationMLP(*given, 8, season=False)) == 368_168 - 16 * 512


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_forecasts_any_network(name, kind):
    config, source = source_of(record(kind))
    batch = source.batch(source.windows.train[:4])
    learner = baseline(name).make(config, source)

    losses = learner.losses(batch, LocalReducer())
    losses.total.backward()
    learner.module.eval()

    assert torch.isfinite(learner.predict(batch)).all()
    assert learner.predict(batch).shape == batch.future.shape
    assert all(parameter.grad is not None for parameter in learner.module.parameters())


@pytest.mark.parametrize("name", LEARNERS)
def test_a_step_takes_a_share_of_the_rows_of_many_windows(name):
    config, source = source_of(record(), "train.station_dropout=0.7")
    batch = source.batch(source.windows.train[:8])
    learner = baseline(name).make(config, source)
    history, rows = learner.history(batch), torch.tensor([3, 17, 5])
    learner.module.eval()
    with torch.no_grad():
        whole = learner.network(history, batch.issue_time)
        # Rows of five stations: window 0 station 3, window 3 station 2, window 1 station 0.
        some = learner.network(history, batch.issue_time, rows)
        torch.testing.assert_close(some, whole[[0, 3, 1], :, [3, 2, 0]], rtol=1e-5, atol=1e-6)
        seen = []
        learner.network.register_forward_pre_hook(lambda _, given: seen.append(given[2:]))
        learner.module.train()
        losses = [learner.losses(batch, LocalReducer()).total for _ in range(2)]
        learner.module.eval()
        learner.losses(batch, LocalReducer())

    assert [len(given[0]) for given in seen[:2]] == [12, 12] and losses[0] != losses[1]
    assert len(set(seen[0][0].tolist())) == 12 and seen[2] == ()


def test_only_the_perceptron_with_neighbours_sees_them():
    config, source = source_of(record())
    batch = source.batch(source.windows.train[:1])
    changed = source.batch(source.windows.train[:1])
    changed.history[:, -1, 0] += 5.0

    differ = {}
    for name in ("mlp", "mlp_nb"):
        learner = baseline(name).make(config, source)
        learner.module.eval()
        with torch.no_grad():
            differ[name] = (learner.predict(changed) - learner.predict(batch)).abs().amax(dim=(0, 1, 3)) > 1e-4

    assert differ["mlp"].tolist() == [True, False, False, False, False]
    # Five stations are all neighbours of each other.
    assert differ["mlp_nb"].all()


@pytest.mark.parametrize("name", ["mlp", "mlp_nb"])
def test_a_perceptron_without_the_season_sees_the_hour_alone(name):
    config, source = source_of(record())
    batch = source.batch(source.windows.train[:2])
    differ = {}
    for season in baseline(name).switches["season"]:
        learner = baseline(name).make(config, source, season=season)
        learner.module.eval()
        with torch.no_grad():
            now, later, next_step = (
                learner.network(learner.history(batch), batch.issue_time + wait)
                for wait in (0, 100 * 86_400, source.series.step_seconds)
            )
        differ[season] = [not torch.allclose(now, then, atol=1e-6) for then in (later, next_step)]

    assert differ == {True: [True, True], False: [False, True]}


def test_dlinear_starts_as_the_mean_of_the_history():
    torch.manual_seed(0)
    network = DLinear(16, 8)
    history = torch.randn(3, 16, 5)
    with torch.no_grad():
        network.trend.bias.zero_(), network.rest.bias.zero_()

    made = network(history)

    torch.testing.assert_close(made, history.mean(dim=1, keepdim=True).expand(-1, 8, -1))
    assert _size(network) == 2 * (16 * 8 + 8)


@pytest.mark.parametrize(("history", "average"), [(48, 25), (16, 15), (5, 5), (1, 1)])
def test_dlinear_smooths_with_the_ends_repeated(history, average):
    network = DLinear(history, 2)
    series = torch.arange(history, dtype=torch.float64).square()[None, None]
    half = (average - 1) // 2
    padded = np.pad(series[0, 0].numpy(), half, mode="edge")
    expected = np.convolve(padded, np.ones(average) / average, mode="valid")

    assert network.average == average
    np.testing.assert_allclose(network._smooth(series)[0, 0].numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_loop_trains_a_learner_and_a_checkpoint_restores_it(name, tmp_path):
    rate = max(baseline(name).rates)
    settings = ("train.epochs=4", "train.batch=4", f"train.lr={rate}", "train.patience=9", "train.schedule=one_cycle")
    config, source = source_of(record(), *settings)
    made = []

    def build(config, source):
        made.append(baseline(name).make(config, source))
        return made[-1]

    result = train(config, source.series, tmp_path / "run", build=build)

    torch.manual_seed(99)
    restored, fresh = (baseline(name).make(config, source) for _ in range(2))
    restored.module.load_state_dict(load_weights(result.checkpoint))
    for learner in (made[-1], restored, fresh):
        learner.module.eval()
    batch = source.batch(source.windows.val[:4])
    assert torch.equal(restored.predict(batch), made[-1].predict(batch))
    errors = [float(learner.losses(batch, LocalReducer()).total.detach()) for learner in (restored, fresh)]
    assert errors[0] < 0.9 * errors[1]
