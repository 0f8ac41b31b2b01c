"""Baselines that see all stations at once: any number of them, empty places of the tree, any grid."""

import numpy as np
import pytest
import torch

from fields.windows.series import Stations
from neural_baseline_cases import config, made, network, source
from stationpde.baselines import baseline
from stationpde.baselines.cdpnet import CDPNet, inverse_distance
from stationpde.baselines.corrformer import Corrformer
from stationpde.baselines.multipatchformer import parts_of, patches_of
from stationpde.baselines.station_tree import StationTree, levels_for
from stationpde.baselines.timefilter import patch_of
from stationpde.baselines.timemixer import halvings
from stationpde.baselines.timexer import patch_of as divided_by
from stationpde.evaluation.budget import Pace
from stationpde.model.learner import LocalReducer

TIME = torch.tensor([1_700_000_000, 1_700_500_000])


def scattered(count: int, seed: int = 0) -> Stations:
    lat, lon, alt = np.random.default_rng(seed).random((3, count))
    return Stations(tuple(map(str, range(count))), 40 + 5 * lat, 10 * lon, 1000 * alt)


def corrformer(stations: Stations, tree: StationTree | None = None) -> Corrformer:
    torch.manual_seed(0)
    return Corrformer(stations, 16, 8, 5, 10800, width=16, hidden=16, tree=tree).eval()


def histories(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 16, count, 5, generator=torch.Generator().manual_seed(seed))


# ---- the tree ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7, 103, 512, 513, 1866])
def test_every_station_has_one_leaf_and_little_stays_empty(count):
    tree = StationTree.of(scattered(count))
    assert tree.levels == levels_for(count) and len(tree.places) == np.prod(tree.levels) >= count
    assert sorted(tree.places[tree.places >= 0]) == list(range(count))
    assert np.array_equal(tree.places[tree.leaf_of], np.arange(count))
    assert len(tree.places) <= 1.15 * count + 4


def test_groups_are_nearer_to_each_other_than_stations_at_large():
    stations = scattered(103)
    tree = StationTree.of(stations)
    where = np.stack([stations.lat, stations.lon * np.cos(np.radians(42.5))])
    spread = [where[:, group[group >= 0]].std(axis=1).mean() for group in tree.places.reshape(tree.levels)]
    # A tenth of an area is a third of its side.
    assert np.mean(spread) < 0.45 * where.std(axis=1).mean()


# ---- Corrformer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 103])
def test_corrformer_takes_any_number_of_stations(count):
    network = corrformer(scattered(count))
    with torch.no_grad():
        found = network(histories(count), TIME)
    assert found.shape == (2, 8, count, 5) and torch.isfinite(found).all()


def test_where_the_empty_places_of_a_group_are_does_not_matter():
    stations = scattered(7)
    tree = StationTree.of(stations)
    groups = tree.places.reshape(tree.levels)
    # Empty places first: within each group the stations keep their order.
    turned = np.concatenate([np.concatenate([g[g < 0], g[g >= 0]]) for g in groups])
    assert (turned != tree.places).any()
    with torch.no_grad():
        one = corrformer(stations)(histories(7), TIME)
        other = corrformer(stations, StationTree(tree.levels, turned))(histories(7), TIME)
    # The same sums in float32, in another order.
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_more_empty_places_do_not_matter():
    stations = scattered(7)
    tree = StationTree.of(stations)
    groups = tree.places.reshape(tree.levels)
    wider = np.concatenate([groups, np.full((len(groups), 3), -1)], axis=1)
    levels = (*tree.levels[:-1], wider.shape[1])
    with torch.no_grad():
        one = corrformer(stations)(histories(7), TIME)
        other = corrformer(stations, StationTree(levels, wider.reshape(-1)))(histories(7), TIME)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_corrformer_hears_other_stations():
    stations, given = scattered(7), histories(7)
    changed = given.clone()
    changed[:, :, 3] += 1.0
    network = corrformer(stations)
    with torch.no_grad():
        difference = (network(changed, TIME) - network(given, TIME)).abs().amax(dim=(0, 1, 3))
    assert (difference > 1e-6).all()


def test_windows_taken_a_few_at_a_time_give_the_same_forecast():
    given = source()
    learner = made("corrformer")
    batch = given.batch(given.windows.train[:5])
    learner.module.eval()
    with torch.no_grad():
        whole = learner.forecast(batch)[0]
        learner.network.rows = 14
        torch.testing.assert_close(learner.forecast(batch)[0], whole, rtol=1e-4, atol=1e-5)


# ---- CDPNet ------------------------------------------------------------------------------------------------------


def test_weights_of_a_grid_add_up_to_one_and_a_station_on_a_point_has_all_of_it():
    stations = scattered(12)
    weights = inverse_distance(stations, (5, 9))
    assert weights.shape == (45, 12) and torch.isfinite(weights).all()
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(45))
    # The corners of the grid are the extremes of the network: put stations exactly there.
    corner = Stations(tuple("abcd"), np.array([40.0, 40.0, 44.0, 42.0]), np.array([1.0, 5.0, 5.0, 3.0]), np.zeros(4))
    assert inverse_distance(corner, (5, 9))[0, 0] > 0.9999
    # South to north, then west to east: the middle point is the fourth station's.
    assert inverse_distance(corner, (5, 9)).unflatten(0, (5, 9))[2, 4, 3] > 0.9999


@pytest.mark.parametrize("shape", [(4, 11), (9, 5), (6, 6)])
def test_cdpnet_takes_any_grid(shape):
    torch.manual_seed(0)
    network = CDPNet(scattered(7), 16, 8, shape).eval()
    with torch.no_grad():
        found = network(histories(7), TIME, False)
    assert found.shape == (2, 23, 7, 5) and torch.isfinite(found).all()


def test_cdpnet_takes_a_single_station():
    network = CDPNet(scattered(1), 16, 8, (5, 7)).eval()
    with torch.no_grad():
        assert torch.isfinite(network(histories(1), TIME, False)).all()


def test_variables_do_not_mix_in_cdpnet():
    torch.manual_seed(0)
    network = CDPNet(scattered(7), 16, 8, (5, 7)).eval()
    given = histories(7)
    changed = given.clone()
    changed[..., 2] += 1.0
    with torch.no_grad():
        same = torch.isclose(network(given, TIME, False), network(changed, TIME, False), rtol=1e-5, atol=1e-6)
    assert same[..., [0, 1, 3, 4]].all() and not same[..., 2].all()


def test_cdpnet_trains_its_direct_forecast_alone_at_first_and_then_everything():
    given = source()
    learner = made("cdpnet")
    batch = given.batch(given.windows.train[:2])
    evolution = [p for key, p in learner.counted.cdpnet.named_parameters() if not key.startswith("direct")]
    learner.module.train()
    learner.counted.steps.zero_()
    learner.losses(batch, LocalReducer()).total.backward()
    assert all(p.grad is None for p in evolution) and int(learner.counted.steps) == 1 and learner.is_direct_only
    learner.counted.steps.fill_(learner.first)
    assert learner.is_direct_only
    learner.losses(batch, LocalReducer()).total.backward()
    assert all(p.grad is not None for p in evolution) and not learner.is_direct_only
    learner.module.eval()
    learner.losses(batch, LocalReducer())
    assert int(learner.counted.steps) == learner.first + 1


# ---- windows -----------------------------------------------------------------------------------------------------


def test_the_pace_of_a_learner_of_two_stages_is_that_of_the_second():
    built = []

    def build(settings, given):
        built.append(baseline("cdpnet").make(settings, given))
        return built[-1]

    Pace.measure(config(), source(), build)
    assert built[0].first > 4 and not built[0].is_direct_only


def test_patches_follow_the_window():
    assert patches_of(96) == (8, (8, 16, 24, 32)) and patches_of(48) == (4, (4, 8, 12, 16))
    assert patches_of(16) == (2, (2, 3, 4, 5)) and patches_of(1) == (1, (1, 1, 1, 1))
    assert parts_of(96) == (12,) * 8 and parts_of(27) == (3,) * 7 + (6,) and parts_of(3) == (1, 1, 1)
    assert [patch_of(steps) for steps in (16, 48, 7)] == [4, 12, 1]
    assert [halvings(steps) for steps in (3, 8, 16, 48)] == [0, 1, 2, 3]
    assert [divided_by(steps) for steps in (1, 7, 16, 48)] == [1, 1, 8, 16]


def test_the_record_of_these_tests_has_a_station_that_never_spoke():
    assert np.isnan(network().values[:, 2]).all()
