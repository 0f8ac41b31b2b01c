"""What holds for lift weights whatever the network: convex, constants kept, order of no account, masks renormalised."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fields.lift.methods import LIFT_METHODS, LiftSettings, StationLift
from fields.lift.torch_lift import WeightedMeans
from fields.lift.weights import SparseWeights, inverse_distance_weights

METHODS = sorted(LIFT_METHODS)


@st.composite
def networks(draw, least=1):
    """Draw a network in a region, with two stations at one place at times."""
    draw_from = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(least, 25))
    lat, lon = draw_from.uniform(40, 45, count), draw_from.uniform(175, 185, count)
    alt = draw_from.uniform(-100, 4000, count)
    if draw(st.booleans()) and count > 2:
        lat[1], lon[1], alt[1] = lat[0], lon[0], alt[0]
    return lat, lon, alt, draw_from


def make(network, method, k=10, targets=30):
    lat, lon, alt, draw = network
    places = (draw.uniform(39, 46, targets), draw.uniform(174, 186, targets), draw.uniform(0, 3000, targets))
    return StationLift.between((lat, lon, alt), places, LiftSettings(method, k))


def with_gaps(draw, rows, count, share=0.3):
    values = draw.normal(280.0, 10.0, (rows, count))
    values[draw.random(values.shape) < share] = np.nan
    return values


@pytest.mark.parametrize("method", METHODS)
@given(network=networks(), k=st.integers(1, 12))
def test_weights_are_convex(method, network, k):
    weights = make(network, method, k).weights
    assert (weights.weight >= 0).all()
    # One rounding error for each of the k terms.
    np.testing.assert_allclose(weights.weight.sum(axis=1), 1.0, atol=k * np.finfo(float).eps)
    assert weights.index.min() >= 0 and weights.index.max() < weights.sources


@pytest.mark.parametrize("method", METHODS)
@given(network=networks(), constant=st.floats(-1e5, 1e5))
def test_constants_are_kept_with_or_without_gaps(method, network, constant):
    lift = make(network, method)
    values = np.full((20, lift.weights.sources), constant)
    values[:, 1:][network[3].random((20, lift.weights.sources - 1)) < 0.5] = np.nan
    out, cover = lift.weights.apply(values)
    np.testing.assert_allclose(out, constant, rtol=12 * np.finfo(float).eps, atol=1e-300)
    assert ((cover >= 0) & (cover <= 1 + 1e-12)).all()


@pytest.mark.parametrize("method", METHODS)
@given(network=networks(least=2))
def test_the_order_of_stations_is_of_no_account(method, network):
    lat, lon, alt, draw = network
    targets = (draw.uniform(39, 46, 9), draw.uniform(174, 186, 9), draw.uniform(0, 3000, 9))
    order = draw.permutation(len(lat))
    values = with_gaps(draw, 3, len(lat))
    # With all stations as neighbours no tie decides who is one.
    settings = LiftSettings(method, k=len(lat))
    plain = StationLift.between((lat, lon, alt), targets, settings).weights.apply(values)[0]
    mixed = StationLift.between((lat[order], lon[order], alt[order]), targets, settings)
    np.testing.assert_allclose(mixed.weights.apply(values[:, order])[0], plain, rtol=1e-12)


@given(network=networks(least=2), share=st.floats(0.0, 0.9))
def test_masks_renormalise_the_weights_that_are_left(network, share):
    weights = make(network, "idw").weights
    values = with_gaps(network[3], 20, weights.sources, share)
    out, cover = weights.apply(values)
    dense = np.zeros((weights.targets, weights.sources))
    np.put_along_axis(dense, weights.index.astype(np.int64), weights.weight, axis=1)
    there = np.isfinite(values)
    expected_cover = there @ dense.T
    expected = np.where(there, values, 0.0) @ dense.T
    np.testing.assert_allclose(cover, expected_cover, atol=1e-14)
    seen = expected_cover > 0
    np.testing.assert_allclose(out[seen], (expected / np.where(seen, expected_cover, 1.0))[seen], rtol=1e-9)


@given(network=networks(least=2), share=st.floats(0.0, 1.0))
def test_a_value_is_missing_only_where_every_station_is(network, share):
    weights = make(network, "idw", k=3).weights
    values = with_gaps(network[3], 20, weights.sources, share)
    out, cover = weights.apply(values)
    nobody = np.isnan(values).all(axis=1)
    assert np.isnan(out[nobody]).all() and (cover[nobody] == 0).all()
    assert np.isfinite(out[~nobody]).all()
    low, high = (f(values[~nobody], axis=1) for f in (np.nanmin, np.nanmax)) if (~nobody).any() else ([], [])
    for row, a, b in zip(out[~nobody], low, high):
        assert row.min() >= a - 1e-9 and row.max() <= b + 1e-9


@pytest.mark.parametrize("method", ["idw", "detrended"])
@given(network=networks(least=2))
def test_a_coincident_station_gives_its_value_exactly(method, network):
    lat, lon, alt, draw = network
    lift = StationLift.between((lat, lon, alt), (lat, lon, alt), LiftSettings(method))
    values = draw.normal(280.0, 10.0, (2, len(lat)))
    values[:, 0], values[:, 1] = values[:, 1], values[:, 0].copy()
    same = (lat == lat[0]) & (lon == lon[0])
    values[:, same] = values[:, [0]]
    out, _ = lift.weights.apply(values)
    np.testing.assert_allclose(out, values, rtol=1e-11)
    assert np.array_equal(lift.weights.apply(values.astype(np.float32))[0], values.astype(np.float32))


@given(network=networks(least=3))
def test_in_the_papers_lift_a_coincident_station_dominates_to_within_the_sum_of_eps_over_d(network):
    lat, lon, alt, _ = network
    lift = StationLift.between((lat, lon, alt), (lat[2:3], lon[2:3], alt[2:3]), LiftSettings("terrain_idw"))
    index, weight = lift.weights.index[0], lift.weights.weight[0]
    at_target = weight[index == 2].sum()
    metres = np.hypot(lift.stations.x - lift.stations.x[2], lift.stations.y - lift.stations.y[2])[index[index != 2]]
    assert at_target >= 1.0 - np.sum(1.0 / np.maximum(metres, 1.0)) - 1e-12


def test_co_located_stations_share_and_either_answers_for_both():
    lat, lon, alt = [45.0, 45.0, 46.0], [7.0, 7.0, 8.0], [100.0, 100.0, 900.0]
    lift = StationLift.between((lat, lon, alt), ([45.0], [7.0], [100.0]), LiftSettings("idw"))
    values = np.array([[1.0, 3.0, 50.0], [np.nan, 3.0, 50.0], [1.0, np.nan, 50.0], [np.nan, np.nan, 50.0]])
    out, cover = lift.weights.apply(values)
    np.testing.assert_allclose(out[:, 0], [2.0, 3.0, 1.0, 50.0], rtol=1e-11)
    assert cover[0, 0] == pytest.approx(1.0) and cover[1, 0] == pytest.approx(0.5) and cover[3, 0] < 1e-9


def test_the_printed_formula_is_what_terrain_idw_computes():
    from fields.constants import earth_radius

    lat, lon, alt = np.array([40.0, 41.0, 42.5]), np.array([10.0, 12.0, 11.0]), np.array([100.0, 900.0, 2500.0])
    target = (41.2, 11.1, 1200.0)
    settings = LiftSettings("terrain_idw", k=3, w_alt=5000.0)
    lift = StationLift.between((lat, lon, alt), tuple(np.atleast_1d(x) for x in target), settings)
    mean = np.radians((lat.min() + lat.max()) / 2)
    d = np.sqrt(
        (earth_radius * np.cos(mean) * np.radians(target[1] - lon)) ** 2
        + (earth_radius * np.radians(target[0] - lat)) ** 2
        + (5000.0 * (target[2] - alt)) ** 2
    )
    alpha = 1 / (d + 1.0) / np.sum(1 / (d + 1.0))
    np.testing.assert_allclose(lift.weights.weight[0], alpha[lift.weights.index[0]], rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 11, 12, 63, 64, 65, 200])
@pytest.mark.parametrize("k", [1, 4, 7, 8, 10, 13])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocked_and_plain_loops_agree_with_sums_written_out(rows, k, dtype):
    draw = np.random.default_rng(rows * 100 + k)
    sources, targets = 30, 70  # more targets than a tile of the blocked loop
    index = np.stack([draw.choice(sources, k, replace=False) for _ in range(targets)]).astype(np.int32)
    weight = draw.random((targets, k))
    weights = SparseWeights(index, weight / weight.sum(1, keepdims=True), sources)
    values = with_gaps(draw, rows, sources).astype(dtype)
    out, cover = weights.apply(values)
    w = weights.weight[None] * np.isfinite(values[:, index])
    with np.errstate(invalid="ignore"):
        expected = (w * np.nan_to_num(values[:, index])).sum(-1) / w.sum(-1)
    # A dozen float32 roundings of numbers near 280.
    np.testing.assert_allclose(out, expected, rtol=1e-6 if dtype == np.float32 else 1e-13)
    np.testing.assert_allclose(cover, w.sum(-1), atol=1e-6 if dtype == np.float32 else 1e-14)
    assert out.dtype == dtype
    alone, none = weights.apply(values, coverage=False)
    assert none is None and np.array_equal(alone, out, equal_nan=True)


@settings(max_examples=25)
@given(network=networks(least=2), share=st.floats(0.0, 0.95))
def test_numpy_and_torch_agree(network, share):
    weights = make(network, "idw", k=4).weights
    values = with_gaps(network[3], 40, weights.sources, share).astype(np.float32)
    here, cover = weights.apply(values)
    means, share_there = WeightedMeans(weights)(torch.from_numpy(values))
    np.testing.assert_allclose(means.numpy(), here, rtol=1e-6)
    np.testing.assert_allclose(share_there.numpy(), cover, atol=1e-6)


def test_out_of_range_indices_are_refused():
    with pytest.raises(ValueError, match="sources"):
        SparseWeights(np.array([[0, 3]], np.int32), np.array([[0.5, 0.5]]), 3)


def test_infinitely_far_neighbours_have_no_weight():
    weight = inverse_distance_weights(np.array([[10.0, np.inf], [np.inf, np.inf]]))
    assert weight.tolist() == [[1.0, 0.0], [0.0, 0.0]]
