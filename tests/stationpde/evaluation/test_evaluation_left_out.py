"""Stations left out of training: who they are, that nothing of theirs is seen, and how peers are carried to them."""

import numpy as np
import pytest
import torch

from fields.windows.series import Stations
from small_benchmark import plan_of
from small_network import places, small_series
from stationpde.baselines.registry import baseline
from stationpde.data.window_source import WindowSource
from stationpde.errors import UsageError
from stationpde.evaluation.benchmark import run_benchmark
from stationpde.evaluation.contestants import contestant
from stationpde.evaluation.left_out import LeftOut, left_out_numbers
from stationpde.evaluation.tables import markdown


@pytest.fixture(scope="module")
def source():
    plan = plan_of(None, "default")
    config = contestant("default").config(plan.tasks()[0])
    return config, WindowSource.of(small_series(), config)


def test_all_parts_of_a_network_lose_stations_and_none_loses_its_neighbours():
    lat, lon = (part.ravel() for part in np.meshgrid(np.arange(10.0), np.arange(10.0)))
    stations = Stations(tuple(map(str, range(100))), lat, lon, np.zeros(100))
    chosen = left_out_numbers(stations, 4)
    assert len(chosen) == 25 == len(set(chosen.tolist()))
    quarters = 2 * (lat[chosen] > 4.5) + (lon[chosen] > 4.5)
    assert np.bincount(quarters.astype(int), minlength=4).min() >= 4
    # Every one of them has stations that stay within two degrees.
    kept = np.setdiff1d(np.arange(100), chosen)
    gaps = np.hypot(lat[chosen][:, None] - lat[kept], lon[chosen][:, None] - lon[kept])
    assert (np.sort(gaps, axis=1)[:, 2] <= 2.0).all()


@pytest.mark.parametrize(("count", "one_in"), [(12, 1), (12, 6), (4, 2)])
def test_too_few_stations_on_either_side_are_refused(count, one_in):
    with pytest.raises(UsageError) as caught:
        left_out_numbers(places(count), one_in)
    assert caught.value.code == "SPDE-B022" and "--leave-out" in caught.value.do


def test_histories_are_of_those_that_are_kept_and_futures_of_those_that_are_not(source):
    split = LeftOut.of(source[1], 3)
    kept, asked = split.reporting.series.stations.id, split.left_out.series.stations.id
    assert not set(kept) & set(asked) and set(kept) | set(asked) == set(source[1].series.stations.id)
    batch = split.left_out.batch(source[1].windows.test[:2])
    whole = source[1].batch(source[1].windows.test[:2])
    of = {name: n for n, name in enumerate(source[1].series.stations.id)}
    torch.testing.assert_close(batch.history, whole.history[:, :, [of[n] for n in kept]], equal_nan=True)
    torch.testing.assert_close(batch.future, whole.future[:, :, [of[n] for n in asked]], equal_nan=True)


def test_a_peer_is_carried_to_a_place_with_the_pressure_of_its_altitude(source):
    """Persistence of air at rest that follows the hydrostatic law: at any altitude as it would be there."""
    windows = source[1]
    split = LeftOut.of(windows, 3)
    kept, asked = split.reporting.series.stations, split.left_out.series.stations

    def still(stations):
        t = torch.as_tensor(288.15 - 0.0065 * stations.alt)
        p = 101_325.0 * (t / 288.15) ** 5.255876
        zero = torch.zeros_like(t)
        return torch.stack([zero + 3.0, zero - 1.0, p, t, zero + 0.6], dim=-1).float()

    class Fixed:
        def predict(self, batch):
            return still(kept).expand(len(batch), 2, -1, -1)

    made = split.forecaster(Fixed()).predict(split.left_out.batch(windows.windows.test[:3]))
    truth = still(asked).expand_as(made)
    # Single precision of 1e5 Pa, and an exponent of six digits.
    torch.testing.assert_close(made, truth, rtol=2e-4, atol=1e-3)


def test_the_table_is_of_stations_left_out_and_the_cells_are_their_own(tmp_path):
    plan = plan_of(tmp_path, "persistence", "default", leave_out=3)
    results, _ = run_benchmark(plan, small_series())
    text = markdown(results)
    assert "at stations left out of training" in text and "4 stations left out of 12" in text
    names = {path.name for path in plan.cell_folder.iterdir()}
    assert names == {"w2k-like-24h-persistence-left_out3.json", "w2k-like-24h-default-left_out3-seed0.json"}
    again, bench = run_benchmark(plan, small_series())
    assert again.to_dict()["pooled"] == results.to_dict()["pooled"] and not bench.stale


def test_all_stations_and_those_left_out_are_different_tasks(tmp_path):
    whole, less = (plan_of(tmp_path, "ridge_nb", leave_out=n).tasks()[0] for n in (0, 3))
    model = contestant("ridge_nb")
    assert whole.name != less.name and model.settings(whole, "x") != model.settings(less, "x")


def test_persistence_at_a_place_is_that_of_its_neighbours(source):
    config, windows = source
    split = LeftOut.of(windows, 3)
    trained = baseline("persistence").make(config, split.reporting)
    batch = split.left_out.batch(windows.windows.test[:4])
    made = split.forecaster(trained).predict(batch)
    assert made.shape == batch.future.shape and torch.isfinite(made).all()
    known = trained.predict(batch)
    # Wind is a weighted mean of the stations around.
    assert (made[..., 0] <= known[..., 0].amax(dim=2, keepdim=True) + 1e-5).all()
    assert (made[..., 0] >= known[..., 0].amin(dim=2, keepdim=True) - 1e-5).all()
