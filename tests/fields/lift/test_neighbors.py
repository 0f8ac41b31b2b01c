"""The nearest stations are found, however they lie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fields.errors import DataError
from fields.lift.neighbors import nearest, usable_neighbours


def by_force(stations, targets, k):
    square = ((targets[:, None] - stations[None]) ** 2).sum(-1)
    return np.sort(square, axis=1)[:, :k]


def found_squares(stations, targets, index):
    return ((targets[:, None] - stations[index]) ** 2).sum(-1)


LAYOUTS = {
    "scattered": lambda r, n: r.uniform(0, 1e6, (n, 2)),
    "line": lambda r, n: np.stack([r.uniform(0, 1e6, n), np.zeros(n)], 1),
    "one place": lambda r, n: np.tile([[3e5, 4e5]], (n, 1)),
    "a crowd and a hermit": lambda r, n: np.concatenate([r.normal(0, 10.0, (n - 1, 2)), [[1e6, 1e6]]]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [2, 7, 300])
@pytest.mark.parametrize("k", [1, 4, 10])
def test_neighbours_are_those_of_an_exhaustive_search(layout, count, k):
    draw = np.random.default_rng(0)
    stations = LAYOUTS[layout](draw, count)
    targets = np.concatenate([draw.uniform(-5e5, 1.5e6, (60, 2)), stations[:5]])
    index = nearest(stations, targets, k)
    assert index.shape == (len(targets), min(k, count)) and index.dtype == np.int32
    # Distances, not indices: stations at one place are the same to a target.
    np.testing.assert_allclose(
        found_squares(stations, targets, index), by_force(stations, targets, min(k, count)), rtol=1e-12, atol=1e-6
    )


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 40), k=st.integers(1, 12))
def test_any_network_is_searched_rightly(seed, count, k):
    draw = np.random.default_rng(seed)
    stations = np.round(draw.normal(0, 10 ** draw.uniform(0, 6), (count, 2)), 1)
    targets = draw.normal(0, 10 ** draw.uniform(0, 7), (12, 2))
    index = nearest(stations, targets, k)
    expected = by_force(stations, targets, min(k, count))
    np.testing.assert_allclose(found_squares(stations, targets, index), expected, rtol=1e-9, atol=1e-9)
    assert all(len(set(row)) == len(row) for row in index.tolist())


def test_excluded_stations_come_last():
    stations = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    excluded = np.array([[True, True, False, False], [False, False, False, True]])
    index = nearest(stations, stations[:2], 3, excluded=excluded)
    assert index[0, :2].tolist() == [2, 3]
    assert index[1].tolist() == [1, 0, 2]


@pytest.mark.parametrize("stations", [1, 2, 9])
def test_fewer_stations_than_neighbours_are_all_used_with_a_warning(stations, caplog):
    assert usable_neighbours(10, stations) == stations
    assert "10 neighbours" in caplog.text


def test_no_station_at_all_is_a_data_error():
    with pytest.raises(DataError) as caught:
        usable_neighbours(10, 0)
    assert caught.value.exit_code == 3
