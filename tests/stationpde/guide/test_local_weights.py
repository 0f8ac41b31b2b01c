"""Weights of each station in the linear guess: which stations get them, and in which form they are saved."""

import numpy as np
import pytest
import torch

from fields.windows.series import StationSeries
from fields.windows.windows import Split
from small_network import small_config, small_model, small_series, windows
from stationpde.errors import CorruptArtefactError
from stationpde.guide import fit
from stationpde.guide.network_fit import steps_of
from stationpde.model.guide_fit import fit_model_guide, guide_batches, guide_cost
from stationpde.model.model import StationPDEModel
from stationpde.training.state import module_tensors, take_weights

LINEAR = ("model.guide_networks=0", "model.guide_local=single")
BLOCKS = (*LINEAR, "model.guide_local=blocks")


def series_with_stubborn_stations():
    """Return the record with a wind at each second station that turns round from step to step."""
    series = small_series()
    values = series.values.copy()
    turns = 5.0 * (-1.0) ** np.arange(len(series))
    values[:, ::2, :2] += turns[:, None, None]
    return StationSeries(series.time, values, series.stations, series.step_seconds)


def fitted(overrides, series=None):
    series = series or small_series()
    model = small_model(small_config(overrides=overrides))
    fit_model_guide(model, series, Split.of(len(series)))
    return model


def forecast(model):
    batch = windows(model.config, range(3))
    with torch.no_grad():
        return model(batch.history, batch.issue_time).observed


def again(model):
    tensors = {name: value.clone() for name, value in module_tensors(model).items()}
    return StationPDEModel.from_tensors(model.config, model.statistics.stations.id, tensors).eval()


def test_predictors_of_some_stations_are_those_of_all():
    model = small_model()
    batch = windows(model.config, range(4))
    with torch.no_grad():
        whole = model.predictors_of(batch.history, batch.issue_time)
        for chosen in (slice(None), slice(1, None, 3), slice(4, 9)):
            part = model.predictors_of(batch.history, batch.issue_time, chosen)
            assert torch.equal(part.pooled, whole.pooled[:, chosen])
            assert torch.equal(part.local, whole.local[:, chosen])
            assert torch.equal(part.reference, whole.reference[:, :, chosen])


def test_rows_of_a_pass_are_those_of_the_chosen_stations():
    batches = guide_batches(small_model(), small_series(), Split.of(len(small_series())))
    with torch.no_grad():
        pairs = zip(batches.rows("all"), batches.rows("some", stations_of=lambda _: slice(2, 5)), strict=True)
        for whole, some in pairs:
            torch.testing.assert_close(some.target, whole.target[:, 2:5], rtol=0.0, atol=0.0, equal_nan=True)
            assert torch.equal(some.pooled, whole.pooled[:, 2:5]) and some.stations == slice(2, 5)


def test_stations_that_gain_nothing_have_no_weights_and_a_checkpoint_is_smaller(monkeypatch):
    monkeypatch.setattr(fit, "_LEAST_GAIN", 1.0)  # no forecast is without error
    model, single = fitted(BLOCKS), fitted(LINEAR)
    assert model.guide.fitted and model.guide.local.shape == (0, *single.guide.local.shape[1:])
    assert torch.equal(model.guide.pooled, single.guide.pooled)
    assert torch.equal(forecast(again(model)), forecast(model))


def test_stations_that_differ_have_weights_in_half_precision():
    series = series_with_stubborn_stations()
    model, single = fitted(BLOCKS, series), fitted(LINEAR, series)
    assert model.guide.local.shape == single.guide.local.shape and model.guide.local.dtype == torch.float16
    assert model.guide.local.abs().max() > 0.05
    # Half precision has three digits, far more than the fit.
    torch.testing.assert_close(model.guide.local.float(), single.guide.local, rtol=2e-3, atol=1e-5)
    assert torch.equal(forecast(again(model)), forecast(model))


def test_a_sample_of_the_stations_decides_for_all(monkeypatch):
    monkeypatch.setattr(fit, "LOCAL_SAMPLE", 5)
    monkeypatch.setattr(fit, "LOCAL_GROUP", 7)
    series = series_with_stubborn_stations()
    model = fitted(BLOCKS, series)
    assert len(model.guide.local) == 12 and model.guide.local.abs().amax((1, 2)).min() > 0.0


def test_a_run_resumes_with_the_weights_that_its_fit_chose(monkeypatch, tmp_path):
    monkeypatch.setattr(fit, "_LEAST_GAIN", 1.0)
    model = fitted(BLOCKS)
    weights = {name: value.clone() for name, value in module_tensors(model).items()}
    other = small_model(small_config(overrides=BLOCKS), seed=1)
    take_weights(other, weights, tmp_path)
    assert len(other.guide.local) == 0 and torch.equal(forecast(other), forecast(model))


def test_weights_of_another_form_are_refused(tmp_path):
    model = fitted(BLOCKS, series_with_stubborn_stations())
    weights = {name: value.clone() for name, value in module_tensors(model).items()}
    for wrong in (weights["guide.local"][:5], weights["guide.local"].double(), weights["guide.local"][..., :3]):
        with pytest.raises(CorruptArtefactError, match=r"guide\.local"):
            take_weights(small_model(model.config), {**weights, "guide.local": wrong}, tmp_path)
    with pytest.raises(CorruptArtefactError, match=r"guide\.local"):
        take_weights(small_model(small_config(overrides=LINEAR)), weights, tmp_path)


def test_the_cost_of_a_fit_counts_every_pass_and_changes_nothing():
    model = small_model(small_config(overrides=("model.guide_networks=1", "model.guide_hidden=8")))
    before = {name: value.clone() for name, value in model.guide.state_dict().items()}
    cost = guide_cost(model, small_series(), Split.of(len(small_series())))
    assert cost.seconds > 0.0 and cost.further_bytes > 0
    assert all(torch.equal(value, before[name]) for name, value in model.guide.state_dict().items())
    batches = guide_batches(model, small_series(), Split.of(len(small_series())))
    assert len(batches.limited(1).batches()) == 1 < len(batches.batches()) == len(list(batches.rows("all")))


def test_steps_of_the_perceptrons_are_those_that_are_counted():
    calls = []
    model = small_model(small_config(overrides=("model.guide_networks=1", "model.guide_hidden=8")))
    series, split = small_series(), Split.of(len(small_series()))
    fit_model_guide(model, series, split, lambda task, done, total: calls.append((task, done, total)))
    steps = [(done, total) for task, done, total in calls if task == "perceptrons"]
    rows = sum(batch.pooled.shape[0] * batch.pooled.shape[1] for batch in guide_batches(model, series, split).rows("r"))
    assert len(steps) == steps[0][1] == steps_of(rows, model.config.model.guide_epochs)[1]
