"""A forecaster that knows what it should forecast is caught; ours know nothing of the kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from baseline_records import READY, record, source_of
from fields.windows.series import StationSeries
from stationpde.baselines import baseline
from stationpde.baselines.leakage import LeakError, leaks, require_blind, without_test
from stationpde.data.window_source import WindowSource

CONFIG, SOURCE = source_of(record())
BATCH = SOURCE.batch(SOURCE.windows.test[:4])


class _Honest:
    def predict(self, batch):
        last = torch.nan_to_num(batch.history[:, -1:])
        return last.expand(-1, batch.future.shape[1], -1, -1)


class _ReadsTheFuture(_Honest):
    def predict(self, batch):
        return super().predict(batch) + 1e-3 * torch.nan_to_num(batch.future)


class _KnowsWhereTheFutureIsMissing(_Honest):
    def predict(self, batch):
        return super().predict(batch) + torch.isnan(batch.future).float()


class _LooksItUpByNumber(_Honest):
    def predict(self, batch):
        return torch.nan_to_num(SOURCE.batch(batch.index.numpy()).future)


class _LooksIntoLaterWindows(_Honest):
    def predict(self, batch):
        # The next window's last step is this one's first lead.
        return torch.nan_to_num(batch.history[:, -1:]).roll(-1, 0).expand(-1, batch.future.shape[1], -1, -1)


class _Random(_Honest):
    def predict(self, batch):
        return super().predict(batch) + torch.rand(1)


@pytest.mark.parametrize(
    ("cheat", "reason"),
    [
        (_ReadsTheFuture, "a future of noise"),
        (_KnowsWhereTheFutureIsMissing, "a future that is missing"),
        (_LooksItUpByNumber, "the number of the window"),
        (_LooksIntoLaterWindows, "the other windows of the batch"),
        (_Random, "the futures of other windows"),
    ],
)
def test_a_forecaster_that_cheats_is_caught(cheat, reason):
    assert reason in leaks(cheat(), BATCH)
    with pytest.raises(LeakError, match=f"the cheat forecasts .*{reason}") as caught:
        require_blind(cheat(), BATCH, "the cheat")
    assert caught.value.code == "SPDE-B020"


def test_an_honest_forecaster_passes():
    assert leaks(_Honest(), BATCH) == []
    require_blind(_Honest(), BATCH)


@pytest.mark.parametrize("name", READY)
def test_our_baselines_do_not_know_the_future(name):
    assert leaks(baseline(name).make(CONFIG, SOURCE), BATCH) == []


def test_our_learners_do_not_know_the_future():
    for name in ("mlp", "mlp_nb", "dlinear"):
        learner = baseline(name).make(CONFIG, SOURCE)
        learner.module.eval()
        assert leaks(learner, BATCH) == [], name


def _shuffled(source: WindowSource) -> WindowSource:
    """The record with the steps of its test split in another order."""
    series: StationSeries = source.series
    values, steps = series.values.copy(), source.windows.split.slice("test")
    values[steps] = np.random.default_rng(0).permutation(values[steps])
    return WindowSource(replace(series, values=values, fingerprint=""), source.windows)


@pytest.mark.parametrize("name", READY)
def test_shuffling_the_future_changes_nothing_before_it(name):
    before = SOURCE.batch(SOURCE.windows.val[-4:])

    made = baseline(name).make(CONFIG, SOURCE).predict(before)
    after_shuffling = baseline(name).make(CONFIG, _shuffled(SOURCE)).predict(before)

    assert torch.equal(made, after_shuffling)


def test_a_record_without_its_test_split_has_the_same_windows_and_name():
    bare = without_test(SOURCE)
    first = SOURCE.windows.split.test

    assert np.isnan(bare.series.values[first:]).all()
    np.testing.assert_array_equal(bare.series.values[:first], SOURCE.series.values[:first])
    assert bare.windows is SOURCE.windows
    assert bare.fingerprint == SOURCE.fingerprint
    assert np.isfinite(SOURCE.series.values[first:]).any()
