"""The guide's perceptrons: what they can learn, which stations have embeddings, and how a fit is ended and repeated."""

import pytest
import torch

from fields.windows.windows import Split
from small_network import small_config, small_model, small_series, windows
from stationpde.guide.network import GuideNetwork
from stationpde.guide.network_fit import NetworkFitSettings, fit_network
from stationpde.guide.rows import Rows
from stationpde.model.guide_fit import fit_model_guide, guide_batches

NETWORKS, HIDDEN, EPOCHS = 2, 24, 25


class MadeRows:
    """Rows of a synthetic law, in place of those of a model."""

    def __init__(self, law, gaps=0.0, batches=8):
        drawn = torch.Generator().manual_seed(0)
        self.x = torch.randn(batches, 32, 8, 5, generator=drawn)
        self.y = law(self.x)
        self.y[torch.rand(self.y.shape, generator=drawn) < gaps] = torch.nan
        self.places = torch.randn(8, 3, generator=drawn)
        self.reports = []

    def report(self, task, done, total):
        self.reports.append((task, done, total))

    def pooled_stations(self, number):
        return slice(number % 2, None, 2)

    def rows(self, task, hidden_share=0.0, stations_of=lambda number: slice(None)):
        for number, (x, y) in enumerate(zip(self.x, self.y)):
            time, chosen = torch.arange(32) * 10_800 + number * 86_400, stations_of(number)
            shown = torch.rand(32, 8) >= hidden_share
            yield Rows(0, number, chosen, time, x[:, chosen], x[:, chosen, :1], y[:, chosen], shown[:, chosen])


def errors(network, rows):
    shown = torch.ones(rows.x.shape[1], 8, 1, dtype=torch.bool)
    guesses = [network(x, torch.arange(32) * 10_800, rows.places, torch.arange(8), shown) for x in rows.x]
    left = torch.stack(guesses).unflatten(-1, rows.y.shape[-2:]) - rows.y
    return float(left.nan_to_num().square().mean())


def curved(x):
    """Return a product and a bend, which no linear fit of these inputs can follow."""
    return torch.stack([x[..., 0] * x[..., 1], x[..., 2].abs() - 0.8], dim=-1)[..., None, :]


def fitted(rows, epochs=EPOCHS, seed=0):
    network = GuideNetwork(5, 8, 2, HIDDEN, NETWORKS)
    fit_network(network, rows, NetworkFitSettings(seed, epochs, hidden_share=0.0))
    return network


def test_perceptrons_learn_what_no_linear_fit_can():
    rows = MadeRows(curved)
    # 1,024 rows, half of the stations of each window: most of the variance, not all of it.
    assert errors(fitted(rows), rows) < 0.5 * float(rows.y.square().mean())


def test_targets_that_are_missing_are_left_out():
    network = fitted(MadeRows(curved, gaps=0.4))
    assert all(torch.isfinite(tensor).all() for tensor in network.buffers())


def test_a_fit_is_repeated_by_its_seed_and_its_perceptrons_differ():
    one, same, other = (fitted(MadeRows(curved), epochs=1, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.first_weight, same.first_weight) and torch.equal(one.embedding, same.embedding)
    assert not torch.allclose(one.first_weight, other.first_weight)
    assert not torch.allclose(one.first_weight[0], one.first_weight[1])


def test_a_fit_tells_how_far_it_is():
    rows = MadeRows(curved)
    fitted(rows, epochs=3)
    steps = [done for task, done, _ in rows.reports if task == "perceptrons"]
    # 1,024 rows in the smallest batches, of 32.
    assert steps == list(range(96)) and {total for *_, total in rows.reports} == {96}


def test_a_station_that_is_not_known_has_no_numbers_of_its_own():
    network = fitted(MadeRows(curved), epochs=3)
    assert network.embedding.abs().max() > 0.0
    x, time, place = torch.randn(1, 8, 5), torch.tensor([0]), torch.randn(8, 3)
    trained_on = torch.ones(1, 8, 1, dtype=torch.bool)
    trained_on[0, 3] = False
    before = network(x, time, place, torch.arange(8), trained_on)
    network.embedding.mul_(-5.0)
    after = network(x, time, place, torch.arange(8), trained_on)
    assert torch.equal(before[0, 3], after[0, 3]) and not torch.allclose(before[0, 2], after[0, 2])


def test_an_absurd_predictor_does_not_run_away_with_a_guess():
    network = fitted(MadeRows(curved), epochs=1)
    assert network.scaled(torch.full((1, 5), 1e6)).max() == network.scaled(torch.full((1, 5), 1e9)).max() < 10.0


def test_the_time_of_the_year_is_not_told():
    network = fitted(MadeRows(curved), epochs=1)
    x, place, trained_on = torch.randn(1, 8, 5), torch.randn(8, 3), torch.ones(1, 8, 1, dtype=torch.bool)
    winter, summer = (
        network(x, torch.tensor([days * 86_400]), place, torch.arange(8), trained_on) for days in (10, 192)
    )  # fmt: skip
    assert torch.equal(winter, summer)


class Enough(Exception):
    pass


@pytest.mark.parametrize("stage", ["shared fit", "fit of each station", "gather", "perceptrons"])
def test_a_fit_that_is_ended_leaves_a_guide_that_says_nothing(stage):
    def report(task, done, total):
        if task == stage:
            raise Enough

    model = small_model()
    with pytest.raises(Enough):
        fit_model_guide(model, small_series(), Split.of(len(small_series())), report)
    batch = windows(model.config, [3])
    with torch.no_grad():
        forecast = model.eval()(batch.history, batch.issue_time)
    assert not model.guide.fitted
    torch.testing.assert_close(forecast.state, forecast.unguided, rtol=2e-6, atol=0.0)


@pytest.mark.parametrize("reference", ["climatology", "last_day"])
def test_a_share_of_the_stations_is_hidden_from_the_rows(reference):
    """Check that a hidden station is filled from the field around it, as a new one is."""
    model = small_model(small_config(overrides=(f"model.guide_reference={reference}",)))
    batches = guide_batches(model, small_series(), Split.of(len(small_series())))
    torch.manual_seed(0)
    with torch.no_grad():
        whole, less = (list(batches.rows("rows", hidden)) for hidden in (0.0, 0.3))
    shown = torch.cat([rows.shown.flatten() for rows in less])
    # Five standard deviations of so many draws.
    assert abs(float(shown.float().mean()) - 0.7) < 5 * (0.21 / len(shown)) ** 0.5
    changed = torch.cat([(a.pooled != b.pooled).any(-1)[~b.shown] for a, b in zip(whole, less)])
    assert changed.all()
    # The level of a hidden station is that of the field; wind has none.
    same = slice(None) if reference == "climatology" else slice(0, 2)
    pairs = [(a.target[..., same].nan_to_num(), b.target[..., same].nan_to_num()) for a, b in zip(whole, less)]
    assert all(torch.equal(a, b) for a, b in pairs)
