"""DGFormer and the graph of stations: their formulas by hand on a few stations, and what the published sign changes."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fields.windows.series import Stations
from neural_baseline_cases import made, on_the_equator, random, source
from stationpde.baselines.dgformer import DGFormer, LearnedGraph, heat_factor, wind_factor
from stationpde.baselines.gated_cell import GatedCell
from stationpde.baselines.station_graph import StationGraph, directions
from stationpde.model.learner import LocalReducer

KM_PER_DEGREE = 6371.0 * math.pi / 180.0


# ---- the graph ---------------------------------------------------------------------------------------------------


def test_a_station_is_its_own_first_source_and_the_nearest_others_follow():
    graph = StationGraph.of_places(on_the_equator(0.0, 1.0, 3.0), 1)
    assert graph.sources.tolist() == [[0, 1], [1, 0], [2, 1]]
    length = graph.distance / KM_PER_DEGREE
    torch.testing.assert_close(length, torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), rtol=2e-3, atol=0)
    towards = directions(on_the_equator(0.0, 1.0, 3.0), graph)
    torch.testing.assert_close(towards[:, 1], torch.tensor([[1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]))
    assert (towards[:, 0] == 0).all()


def test_messages_arrive_at_one_end_and_leave_from_the_other():
    graph = StationGraph.of_places(on_the_equator(0.0, 1.0, 3.0), 1)
    messages = torch.tensor([[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]])[None, :, :, None]
    # Into 0: 1 + 2; out of 0: its own 1 and the 8 of the edge to 1. Out of 1: 2, 4 and 32. Out of 2: 16.
    expected = torch.tensor([3.0 - 9.0, 12.0 - 38.0, 48.0 - 16.0])
    torch.testing.assert_close(graph.arriving_less_leaving(messages)[0, :, 0], expected)


def test_a_graph_of_features_connects_what_is_alike():
    features = np.array([[0.0, 0.0], [5.0, 0.0], [0.1, 0.0], [5.0, 1.0]])
    graph = StationGraph.of_features(features, 1)
    assert graph.sources[:, 1].tolist() == [2, 3, 0, 1]
    torch.testing.assert_close(graph.distance[:, 1], torch.tensor([0.1, 1.0, 0.1, 1.0]))


def test_a_graph_of_many_stations_has_no_square_of_their_number():
    lat, lon = np.random.default_rng(0).random((2, 600)) * 10
    stations = Stations(tuple(map(str, range(600))), lat, lon, np.zeros(600))
    for graph in (StationGraph.of_places(stations, 10), StationGraph.of_features(np.stack([lat, lon], -1), 10)):
        assert graph.sources.shape == graph.distance.shape == (600, 11)
        assert graph.common().shape == (600, 11, 11)


def test_the_gated_cell_is_that_of_torch():
    ours, theirs = GatedCell(3, 4), nn.GRUCell(3, 4)
    theirs.load_state_dict({
        "weight_ih": ours.into.weight, "bias_ih": ours.into.bias,
        "weight_hh": ours.back.weight, "bias_hh": ours.back.bias,
    })  # fmt: skip
    series, hidden = random(2, 5, 3), random(2, 4, seed=1)
    expected = hidden
    for step in range(5):
        expected = theirs(series[:, step], expected)
    torch.testing.assert_close(ours.over(series, hidden), expected)
    torch.testing.assert_close(ours(series[:, 0], hidden), theirs(series[:, 0], hidden))


# ---- DGFormer ----------------------------------------------------------------------------------------------------


def test_heat_reaches_less_far_with_distance_and_farther_as_published():
    distance = torch.tensor([0.0, 258.3])
    torch.testing.assert_close(heat_factor(distance), torch.tensor([0.9, 0.5 / math.e + 0.4]))
    torch.testing.assert_close(heat_factor(distance, True), torch.tensor([0.9, 0.5 * math.e + 0.4]))


def test_the_factor_of_wind_is_that_of_dense_matrices():
    stations = Stations(tuple("abcd"), np.array([0.0, 1.0, 2.0, 0.5]), np.array([0.0, 0.5, 2.0, 3.0]), np.zeros(4))
    graph, wind = StationGraph.of_places(stations, 3), random(2, 4, 2)
    ours = wind_factor(wind, directions(stations, graph), graph.distance, graph.common())
    east_north = np.stack([stations.lon, stations.lat], -1) * KM_PER_DEGREE
    for window in range(2):
        s = np.zeros((4, 4))
        for i in range(4):
            speed, blows = np.hypot(*wind[window, i].numpy()), np.arctan2(*wind[window, i].numpy())
            for j in set(range(4)) - {i}:
                east, north = east_north[j] - east_north[i]
                s[i, j] = speed * abs(np.cos(np.arctan2(east, north) - blows)) / np.hypot(east, north)
        s /= np.linalg.norm(s, axis=1, keepdims=True)
        factor = np.abs(0.5 * s + np.sqrt(1.4 * s @ s.T / 20))
        factor /= np.linalg.norm(factor, axis=1, keepdims=True)
        dense = torch.zeros(4, 4).scatter(1, graph.sources, ours[window]).numpy()
        np.testing.assert_allclose(dense, factor, rtol=0, atol=5e-3)  # the metric is that of the middle latitude


def test_the_wind_along_an_edge_counts_and_that_across_it_does_not():
    stations = on_the_equator(0.0, 1.0)
    graph = StationGraph.of_places(stations, 1)
    arguments = (directions(stations, graph), graph.distance, graph.common())
    along = wind_factor(torch.tensor([[[3.0, 0.0], [-2.0, 0.0]]]), *arguments)
    across = wind_factor(torch.tensor([[[0.0, 3.0], [0.0, 2.0]]]), *arguments)
    # s = (0, 1) in both rows: the row (√0.07, ½), for a station has no source in common with itself but the other.
    share = math.sqrt(1.4 / 20)
    expected = torch.tensor([share, 0.5]) / math.hypot(share, 0.5)
    torch.testing.assert_close(along[0], expected.expand(2, 2))
    assert (across == 0).all()


def learned_graph(published: bool = False) -> tuple[LearnedGraph, StationGraph]:
    stations = on_the_equator(0.0, 2.0, 5.0)
    graph = StationGraph.of_places(stations, 2)
    torch.manual_seed(0)
    return LearnedGraph(stations, graph, 4, published), graph


def test_likeness_is_the_mean_cosine_of_four_weightings_cut_at_zero():
    learned, graph = learned_graph()
    features = random(1, 3, 4)
    cosine = torch.nn.functional.cosine_similarity
    for station in range(3):
        for edge, other in enumerate(graph.sources[station].tolist()):
            views = [cosine(w * features[0, station], w * features[0, other], dim=0) for w in learned.views.T]
            expected = torch.stack(views).mean().clamp(min=0.0)
            torch.testing.assert_close(learned.likeness(features)[0, station, edge], expected, rtol=1e-4, atol=1e-5)
    opposite = torch.stack([features[0, 0], -features[0, 0], features[0, 0]])[None]
    assert learned.likeness(opposite)[0, 0].tolist() == pytest.approx([1.0, 0.0, 1.0], abs=1e-4)


def test_four_fifths_of_a_graph_are_that_of_distances_and_every_row_adds_up_to_one():
    learned, graph = learned_graph()
    features, calm = random(1, 3, 4), torch.zeros(1, 3, 2)
    with torch.no_grad():
        weights, roughness = learned(features, calm)
        alike = learned.likeness(features)
        same = learned(torch.ones(1, 3, 4), calm)[1]
    torch.testing.assert_close(weights[..., :2].sum(dim=2), torch.ones(1, 3, 2))
    start = torch.exp(-graph.distance / graph.distance.mean())
    start = start / start.sum(dim=1, keepdim=True)
    heat = alike * heat_factor(graph.distance)
    expected = 0.8 * start + 0.2 * heat / heat.sum(dim=2, keepdim=True)
    torch.testing.assert_close(weights[..., 1], expected)
    # Without wind the graph of wind is that of distances alone.
    torch.testing.assert_close(weights[..., 2], 0.8 * start[None])
    assert roughness.shape == (1,) and float(roughness) > 0 == float(same)


def test_the_published_sign_gives_the_far_more_weight():
    features, calm = torch.ones(1, 3, 4), torch.zeros(1, 3, 2)
    sound, published = (learned_graph(sign)[0](features, calm)[0][0, 0, :, 1] for sign in (False, True))
    assert published[2] > sound[2] and published[0] < sound[0]


def test_the_published_sign_is_an_option_of_the_baseline():
    sound, published = made("dgformer"), made("dgformer", published_distance_sign=True)
    graphs = [learner.network.network.learned for learner in (sound, published)]
    for graph, sign in zip(graphs, (False, True)):
        torch.testing.assert_close(graph.heat, heat_factor(graph.graph.distance, sign))


def test_smoothness_is_a_fifth_of_the_mean_roughness():
    network = made("dgformer").network.network
    assert float(network.penalty(torch.tensor([6.0, 4.0]))) == pytest.approx(0.2 * 1.5)


def test_the_smoothness_of_rounds_is_that_of_a_batch():
    learner, given = made("dgformer"), source()
    batch = given.batch(given.windows.train[:4])
    learner.module.eval()
    whole = learner.losses(batch, LocalReducer())
    learner.network.rows = 7
    parts = learner.losses(batch, LocalReducer())
    torch.testing.assert_close(parts.total, whole.total, rtol=1e-5, atol=1e-6)
    assert float(whole.penalty) > 0


@pytest.mark.parametrize("count", [1, 2, 30])
def test_any_number_of_stations(count):
    learner, given = made("dgformer", count=count), source(count=count)
    learner.module.eval()
    with torch.no_grad():
        forecast = learner.predict(given.batch(given.windows.val[:2]))
    assert forecast.shape == (2, 8, count, 5) and torch.isfinite(forecast).all()


def test_wind_is_read_in_metres_per_second():
    stations, given = on_the_equator(0.0, 1.0, 3.0), random(1, 4, 3, 5)
    read = []
    for scale in (1.0, 2.0):
        torch.manual_seed(0)
        network = DGFormer(stations, torch.full((3, 5), 7.0), torch.full((3, 5), scale), 4, 2, 10800).eval()
        network.learned.register_forward_pre_hook(lambda module, inputs: read.append(inputs[1]))
        network(given, torch.tensor([0]))
    torch.testing.assert_close(read[0], given[:, -1, :, :2] + 7.0)
    torch.testing.assert_close(read[1], 2.0 * given[:, -1, :, :2] + 7.0)
