"""Batches, climatology and filling on tensors: the same numbers as numpy, any device, no NaN in a gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.utils.data import DataLoader

from fields.windows.climatology import Climatology
from fields.windows.torch_data import ClimatologyTable, WindowDataset, fill_history, keep
from fields.windows.windows import Split, Windows, WindowSpec
from series_records import make_record

SPEC = WindowSpec(8, 4)


@pytest.fixture(scope="module")
def record():
    return make_record(3600, 5, missing=0.1)


@pytest.fixture(scope="module")
def windows(record):
    return Windows.of(record, SPEC)


def test_a_batch_holds_slices_of_the_record(record, windows):
    data = WindowDataset(record, windows.val, SPEC)
    batch = data.__getitems__([5, 0, 7])
    starts = windows.val[[5, 0, 7]]
    for i, start in enumerate(starts):
        assert np.array_equal(batch.history[i].numpy(), record.values[start : start + 8], equal_nan=True)
        assert np.array_equal(batch.future[i].numpy(), record.values[start + 8 : start + 12], equal_nan=True)
    assert batch.issue_time.tolist() == record.time[starts + 7].tolist() and batch.issue_time.dtype == torch.int64
    assert batch.index.tolist() == windows.val[[5, 0, 7]].tolist() and batch.step_seconds == 10_800
    assert len(batch) == 3 and len(data) == len(windows.val)


def test_changing_a_batch_leaves_the_record_alone(record, windows):
    before = record.fingerprint
    batch = WindowDataset(record, windows.train, SPEC)[0]
    untouched = record.values[:12].copy()
    batch.history.zero_()
    batch.future.zero_()
    assert np.array_equal(record.values[:12], untouched, equal_nan=True) and record.fingerprint == before


def test_a_batch_without_future_serves_inference(record):
    batch = WindowDataset(record, np.array([len(record) - 8]), WindowSpec(8, 0))[0]
    assert batch.future.shape == (1, 0, 5, 5) and batch.issue_time.item() == record.time[-1]


def test_a_batch_moves_as_a_whole(record, windows):
    moved = WindowDataset(record, windows.train, SPEC)[0].to("meta")
    assert {x.device.type for x in (moved.history, moved.future, moved.issue_time, moved.index)} == {"meta"}
    assert moved.step_seconds == 10_800


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_hands_out_the_batches_that_a_sampler_requests(record, windows, workers):
    data = WindowDataset(record, windows.train, SPEC)
    sampler = [[3, 9], [4], [8, 1, 2]]
    batches = list(DataLoader(data, batch_sampler=sampler, collate_fn=keep, num_workers=workers))
    assert [batch.index.tolist() for batch in batches] == [windows.train[i].tolist() for i in sampler]
    assert torch.equal(batches[2].history.nan_to_num(), data.__getitems__([8, 1, 2]).history.nan_to_num())


OPTIONS = [{}, {"by_month": True}, {"annual": 1}, {"annual": 2, "daily": True}]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_climatology_is_the_same_on_tensors(record, options):
    climatology = Climatology.of(record, Split.of(len(record), (0.9, 0.05, 0.05)), **options)
    assert climatology.annual == options.get("annual", 0)
    times = record.time[:3000].reshape(3, 1000)
    on_tensors = ClimatologyTable(climatology).at(torch.from_numpy(times))
    # The phase of the year in float32 has 1e-7 of error, times an amplitude of at most some hundred Pa.
    np.testing.assert_allclose(on_tensors.numpy(), climatology.at(times), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_climatology_follows_its_device(record, options):
    module = ClimatologyTable(Climatology.of(record, Split.of(len(record), (0.9, 0.05, 0.05)), **options)).to("meta")
    assert module(torch.zeros(2, 3, dtype=torch.int64, device="meta")).device.type == "meta"


class Filled(torch.nn.Module):
    def __init__(self, climatology):
        super().__init__()
        self.climatology = ClimatologyTable(climatology)

    def forward(self, history, time):
        return fill_history(history, self.climatology(time))


def test_climatology_and_filling_export_and_give_the_same(record, windows):
    climatology = Climatology.of(record, Split.of(len(record), (0.9, 0.05, 0.05)), annual=1, daily=True)
    batch = WindowDataset(record, windows.test, SPEC).__getitems__([0, 1, 2])
    times = batch.issue_time[:, None] + torch.arange(-7, 1) * batch.step_seconds
    module = Filled(climatology)
    program = torch.export.export(module, (batch.history, times)).module()
    assert torch.equal(program(batch.history, times), module(batch.history, times))
    other = WindowDataset(record, windows.train, SPEC).__getitems__([700, 3, 90])  # other gaps, another season
    times = other.issue_time[:, None] + torch.arange(-7, 1) * batch.step_seconds
    assert torch.equal(program(other.history, times), module(other.history, times))


def test_gaps_are_filled_linearly_then_by_the_last_value_then_by_the_climatology():
    nan = np.nan
    history = np.array([[nan, nan, 2.0, nan, nan, 5.0, nan], [nan] * 7], np.float32).T[:, :, None]
    climatology = np.full_like(history, -1.0)
    climatology[1] = -2.0
    filled = fill_history(torch.from_numpy(history), torch.from_numpy(climatology))
    assert filled[:, 0, 0].tolist() == [-1.0, -2.0, 2.0, 3.0, 4.0, 5.0, 5.0]
    assert filled[:, 1, 0].tolist() == [-1.0, -2.0] + [-1.0] * 5


HISTORIES = st.one_of(st.just(np.nan), st.just(np.inf), st.floats(-9, 9, width=32))


def interpolated(column, climatology):
    """Fill one column by `np.interp`, which also continues with the last value."""
    steps, there = np.arange(len(column)), np.isfinite(column)
    if not there.any():
        return climatology
    filled = np.interp(steps, steps[there], column[there], left=np.nan)
    return np.where(np.isnan(filled), climatology, filled)


@given(arrays(np.float32, (7, 6), elements=HISTORIES))
def test_filling_is_linear_interpolation_and_leaves_observations_alone(history):
    climatology = np.linspace(20, 30, history.size, dtype=np.float32).reshape(history.shape)
    filled = fill_history(*(torch.from_numpy(x)[..., None] for x in (history, climatology)))[..., 0].numpy()
    expected = np.stack([interpolated(*pair) for pair in zip(history.T, climatology.T)], axis=1)
    # The weight is rounded in float32; values are below 9.
    np.testing.assert_allclose(filled, expected, rtol=1e-6, atol=2e-6)
    there = np.isfinite(history)
    assert np.array_equal(filled[there], history[there]) and filled.dtype == np.float32


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_stations_that_drop_out_leave_a_finite_history(share):
    series = make_record(16, 50)
    values = series.values.copy()
    values[:, : int(50 * share)] = np.nan
    climatology = torch.from_numpy(Climatology.fit(series.time, series.values, series.step_seconds).at(series.time))
    filled, gone = fill_history(torch.from_numpy(values), climatology), int(50 * share)
    assert torch.isfinite(filled).all() and torch.equal(filled[:, :gone], climatology[:, :gone])


def test_gradients_of_a_filled_history_are_finite_and_reach_what_was_observed():
    history = torch.tensor([torch.nan, 1.0, torch.nan, 3.0, torch.nan]).reshape(5, 1, 1).requires_grad_()
    climatology = torch.zeros(5, 1, 1, requires_grad=True)
    fill_history(history, climatology).sum().backward()
    assert history.grad.flatten().tolist() == [0.0, 1.5, 0.0, 2.5, 0.0]
    assert climatology.grad.flatten().tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
