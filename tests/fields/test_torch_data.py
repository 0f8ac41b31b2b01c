"""Batches and the torch faces: the same numbers as numpy, on any device, without a NaN in a gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from series_records import make_record
from torch.utils.data import DataLoader

from fields import normalize
from fields.normalize import Climatology
from fields.torch_data import ClimatologyTable, WindowDataset, fill_history, keep
from fields.windows import Split, Windows, WindowSpec, gather

SPEC = WindowSpec(8, 4)


@pytest.fixture(scope="module")
def record():
    return make_record(3600, 5, missing=0.1)


@pytest.fixture(scope="module")
def windows(record):
    return Windows.of(record, SPEC)


def test_a_batch_holds_what_numpy_gathers(record, windows):
    data = WindowDataset(record, windows.val, SPEC)
    batch = data.__getitems__([5, 0, 7])
    history, future, issued = gather(record, windows.val[[5, 0, 7]], SPEC)
    assert np.array_equal(batch.history.numpy(), history, equal_nan=True)
    assert np.array_equal(batch.future.numpy(), future, equal_nan=True)
    assert batch.issue_time.tolist() == issued.tolist() and batch.issue_time.dtype == torch.int64
    assert batch.index.tolist() == windows.val[[5, 0, 7]].tolist() and batch.step_seconds == 10_800
    assert len(batch) == 3 and len(data) == len(windows.val)


def test_changing_a_batch_leaves_the_record_alone(record, windows):
    before = record.fingerprint
    batch = WindowDataset(record, windows.train, SPEC)[0]
    kept = record.values[:12].copy()
    batch.history.zero_()
    batch.future.zero_()
    assert np.array_equal(record.values[:12], kept, equal_nan=True) and record.fingerprint == before


def test_a_batch_without_future_serves_inference(record):
    batch = WindowDataset(record, np.array([len(record) - 8]), WindowSpec(8, 0))[0]
    assert batch.future.shape == (1, 0, 5, 5) and batch.issue_time.item() == record.time[-1]


def test_a_batch_moves_as_a_whole(record, windows):
    moved = WindowDataset(record, windows.train, SPEC)[0].to("meta")
    assert {x.device.type for x in (moved.history, moved.future, moved.issue_time, moved.index)} == {"meta"}
    assert moved.step_seconds == 10_800


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_hands_out_the_batches_that_a_sampler_asks_for(record, windows, workers):
    data = WindowDataset(record, windows.train, SPEC)
    asked = [[3, 9], [4], [8, 1, 2]]
    found = list(DataLoader(data, batch_sampler=asked, collate_fn=keep, num_workers=workers))
    assert [batch.index.tolist() for batch in found] == [windows.train[i].tolist() for i in asked]
    assert torch.equal(found[2].history.nan_to_num(), data.__getitems__([8, 1, 2]).history.nan_to_num())


OPTIONS = [{}, {"by_month": True}, {"annual": 1}, {"annual": 2, "daily": True}]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_climatology_is_the_same_on_tensors(record, options):
    usual = Climatology.of(record, Split.of(len(record), (0.9, 0.05, 0.05)), **options)
    assert usual.annual == options.get("annual", 0)
    times = record.time[:3000].reshape(3, 1000)
    found = ClimatologyTable(usual).at(torch.from_numpy(times))
    # The phase of the year in float32 has 1e-7 of error, times an amplitude of at most some hundred Pa.
    np.testing.assert_allclose(found.numpy(), usual.at(times), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_climatology_follows_its_device(record, options):
    module = ClimatologyTable(Climatology.of(record, Split.of(len(record), (0.9, 0.05, 0.05)), **options)).to("meta")
    assert module(torch.zeros(2, 3, dtype=torch.int64, device="meta")).device.type == "meta"


class Filled(torch.nn.Module):
    def __init__(self, usual):
        super().__init__()
        self.usual = ClimatologyTable(usual)

    def forward(self, history, time):
        return fill_history(history, self.usual(time))


def test_climatology_and_filling_export_and_give_the_same(record, windows):
    usual = Climatology.of(record, Split.of(len(record), (0.9, 0.05, 0.05)), annual=1, daily=True)
    batch = WindowDataset(record, windows.test, SPEC).__getitems__([0, 1, 2])
    times = batch.issue_time[:, None] + torch.arange(-7, 1) * batch.step_seconds
    module = Filled(usual)
    program = torch.export.export(module, (batch.history, times)).module()
    assert torch.equal(program(batch.history, times), module(batch.history, times))
    other = WindowDataset(record, windows.train, SPEC).__getitems__([700, 3, 90])  # other gaps, another season
    times = other.issue_time[:, None] + torch.arange(-7, 1) * batch.step_seconds
    assert torch.equal(program(other.history, times), module(other.history, times))


HISTORIES = st.one_of(st.just(np.nan), st.just(np.inf), st.floats(-9, 9, width=32))


@given(arrays(np.float32, (2, 7, 3, 2), elements=HISTORIES))
def test_filling_is_the_same_on_tensors(history):
    usual = np.linspace(20, 30, history.size, dtype=np.float32).reshape(history.shape)
    found = fill_history(torch.from_numpy(history), torch.from_numpy(usual))
    # The weight is rounded in float32 either way; values are below 9.
    np.testing.assert_allclose(found.numpy(), normalize.fill_history(history, usual), rtol=1e-6, atol=2e-6)


def test_gradients_of_a_filled_history_are_finite_and_reach_what_was_observed():
    history = torch.tensor([torch.nan, 1.0, torch.nan, 3.0, torch.nan]).reshape(5, 1, 1).requires_grad_()
    usual = torch.zeros(5, 1, 1, requires_grad=True)
    fill_history(history, usual).sum().backward()
    assert history.grad.flatten().tolist() == [0.0, 1.5, 0.0, 2.5, 0.0]
    assert usual.grad.flatten().tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
