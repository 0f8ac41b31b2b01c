"""The guide: its fit against direct solutions, its absence in training, and new stations."""

import numpy as np
import pytest
import torch

from fields.windows.windows import Split, WindowSpec
from small_network import learner, places, small_config, small_model, small_series, weather, windows
from stationpde.guide.fit import Sums, fit_guide
from stationpde.guide.guide import INITIAL_SHARE, Guide
from stationpde.guide.network_fit import NetworkFitSettings
from stationpde.guide.predictors import GuidePredictors
from stationpde.guide.rows import FOLDS, GuideBatches, sampled
from stationpde.model.guide_fit import fit_model_guide
from stationpde.model.model import StationPDEModel
from stationpde.model.task import ModelLearner


def sums_of(x, y):
    """Add up rows ``[part, row, f]`` and targets ``[part, row, lead, channel]``."""
    xy = torch.einsum("prf,prlc->pflc", x, y)
    return Sums(x.mT @ x, xy, y.square().sum(1))


def drawn(seed=0, parts=FOLDS, rows=60):
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(parts, rows, 4, generator=drawn, dtype=torch.float64)
    law = torch.randn(4, 2, 3, generator=drawn, dtype=torch.float64)
    noise = 0.1 * torch.randn(parts, rows, 2, 3, generator=drawn, dtype=torch.float64)
    return x, torch.einsum("prf,flc->prlc", x, law) + noise, law


def test_a_weak_fit_finds_the_law_behind_the_rows():
    x, y, law = drawn()
    whole, folds = sums_of(x, y).cross_validated((1e-6, 10.0))
    # 300 rows with noise of 0.1: weights are off by 0.1 / sqrt(300) or so.
    assert torch.allclose(whole, law.flatten(-2), atol=0.03)
    assert folds.shape == (FOLDS, 4, 6)


def test_the_error_on_a_part_left_out_is_that_of_its_rows():
    x, y, _ = drawn(1)
    sums = sums_of(x, y)
    weights = sums.solve(0.01, without=2)
    direct = (torch.einsum("rf,flc->rlc", x[2], weights) - y[2]).square().sum((0, 1))
    torch.testing.assert_close(sums.errors(weights, 2), direct)
    y[2] += 5.0  # the part left out has no effect
    torch.testing.assert_close(sums_of(x, y).solve(0.01, without=2), weights)


def test_a_guide_is_fitted_on_tensors_without_a_model():
    series, scale = weather(places(), gaps=0.0), torch.tensor([1.0, 1.0, 300.0, 4.0, 0.1]).expand(12, 5)

    def latest_and_change(history, issue_time, chosen):
        history = history[:, :, chosen]
        now, change = history[:, -1], history[:, -1] - history[:, -2]
        pooled = torch.cat([torch.ones_like(now[..., :1]), change / scale], dim=-1)
        return GuidePredictors(pooled, pooled[..., :1], now[:, None].expand(-1, 2, -1, -1))

    split, spec, places_of = Split.of(len(series)), WindowSpec(5, 2), torch.zeros(12, 3)
    batches = GuideBatches(series, split, spec, latest_and_change, scale, places_of, lambda *_: None)
    guide = Guide(6, 1, 12, 2, 5)
    fit_guide(guide, batches, NetworkFitSettings(seed=0, epochs=0, hidden_share=0.0))
    assert guide.fitted
    persistence, fitted = [], []
    for rows in batches.rows("check"):
        guess = guide(rows.pooled, rows.local, rows.time, places_of, torch.arange(12), None)[0].movedim(1, 2)
        persistence.append(rows.target.square().mean((0, 1, 2)))
        fitted.append((guess - rows.target).square().mean((0, 1, 2)))
    # The change of the last step predicts part of what travelling waves and the daily cycle do next.
    assert (torch.stack(fitted).mean(0) < 0.8 * torch.stack(persistence).mean(0)).all()


def test_a_guide_that_was_not_fitted_changes_nothing():
    config = small_config()
    whole, less = small_model(config), small_model(config.ablated("no_guide"))
    batch = windows(config, [1, 7])
    with torch.no_grad():
        one, other = (model(batch.history, batch.issue_time).state for model in (whole, less))
    # Through observed variables and back: a few roundings of single precision.
    torch.testing.assert_close(one, other, rtol=2e-6, atol=0.0)


@pytest.fixture(scope="module")
def fitted():
    return learner().model


def test_the_guide_is_better_than_the_field_alone(fitted):
    series = small_series()
    batch = windows(fitted.config, range(80, 110))
    alone = small_model(fitted.config)
    truth = torch.as_tensor(series.values[85:117])
    errors = []
    for model in (fitted.eval(), alone):
        with torch.no_grad():
            observed = model(batch.history, batch.issue_time).observed
        error = torch.nan_to_num(observed - batch.future) / truth.nan_to_num().std(dim=(0, 1))
        errors.append(float(error.square().mean()))
    assert errors[0] < 0.8 * errors[1]


def test_training_is_without_the_guide(fitted):
    batch = windows(fitted.config, [3])
    with torch.no_grad():
        trained, used = (fitted.train(mode)(batch.history, batch.issue_time) for mode in (True, False))
    assert trained.guided is None and trained.unguided is None
    torch.testing.assert_close(trained.state, used.unguided)
    assert not torch.allclose(used.state, used.unguided)


def test_a_new_station_is_guessed_by_what_all_share(fitted):
    batch = windows(fitted.config, [3])
    stations = fitted.sites.stations
    strangers = type(stations)(tuple(f"new{i}" for i in range(12)), stations.lat, stations.lon, stations.alt)
    silent = torch.full_like(batch.history, torch.nan)
    model = fitted.eval().at(strangers)
    with torch.no_grad():
        assert torch.isfinite(model(batch.history, batch.issue_time).observed).all()
        assert torch.isfinite(model(silent, batch.issue_time).observed).all()
        guessed = model.analyse(batch.history, batch.issue_time).guided
        fitted.guide.local.mul_(3.0)
        again = model.analyse(batch.history, batch.issue_time).guided
        trained = fitted.analyse(batch.history, batch.issue_time).guided
        fitted.guide.local.div_(3.0)
    assert torch.equal(guessed, again)
    assert not torch.allclose(trained, fitted.analyse(batch.history, batch.issue_time).guided)


def test_a_station_that_is_not_shown_is_guessed_as_a_new_one(fitted):
    batch = windows(fitted.config, [3])
    shown = torch.ones(1, 12, dtype=torch.bool)
    shown[0, 4] = False
    with torch.no_grad():
        before = fitted.eval().analyse(batch.history, batch.issue_time, shown).guided
        fitted.guide.local[4].mul_(3.0)
        after = fitted.analyse(batch.history, batch.issue_time, shown).guided
        fitted.guide.local[4].div_(3.0)
    assert torch.equal(before, after)


def test_the_share_is_the_same_for_a_lead_in_a_tensor_and_ends_with_the_horizon(fitted):
    guide = fitted.guide
    guided, field = torch.randn(guide.share.shape[0], 2, 2, 12, 5), torch.randn(2, 12, 5)
    for lead in (1, 2, 3):
        mixed = guide.mix(guided, field, lead)
        torch.testing.assert_close(mixed, guide.mix(guided, field, torch.tensor(lead)))
    assert torch.equal(guide.mix(guided, field, 3), field)


def test_shares_are_those_with_the_least_error_on_windows_set_aside(fitted):
    """Over the whole of what they were fitted on, no other constant share of a variable does better."""
    learner = ModelLearner(fitted.eval())
    batches = [windows(fitted.config, range(80, 95)), windows(fitted.config, range(95, 110))]
    learner.calibrate(iter(batches), lambda sums: sums)
    shares = fitted.guide.share.clone()
    assert ((shares >= 0.0) & (shares <= 1.0)).all()

    def errors() -> torch.Tensor:
        with torch.no_grad():
            left = [fitted(b.history, b.issue_time).observed - b.future for b in batches]
        return torch.cat(left).nan_to_num().square().sum(dim=(0, 1, 2))

    best = errors()
    for other in (0.0, 0.5, 1.0):
        fitted.guide.share.fill_(other)
        # A lead is drawn to the share of its variable, which is not quite the least; never as bad as another constant.
        assert (best <= 1.01 * errors()).all()
    fitted.guide.share.fill_(INITIAL_SHARE / len(fitted.guide.share))


def test_shares_do_not_move_in_training_or_before_the_fit(fitted):
    assert "guide.share" not in dict(fitted.named_parameters())
    unfitted = small_model()
    before = unfitted.guide.share.clone()
    ModelLearner(unfitted).calibrate([windows(unfitted.config, range(80, 84))], lambda sums: sums)
    assert torch.equal(unfitted.guide.share, before)


def test_a_checkpoint_holds_the_fit(fitted):
    tensors = {name: value.clone() for name, value in fitted.state_dict().items()}
    again = StationPDEModel.from_tensors(fitted.config, fitted.statistics.stations.id, tensors).eval()
    batch = windows(fitted.config, [5])
    with torch.no_grad():
        one, other = (model(batch.history, batch.issue_time).state for model in (fitted.eval(), again))
    assert torch.equal(one, other)


def test_a_fit_takes_every_hour_of_issue():
    chosen = sampled(np.arange(10_000), 24)
    assert len(set((chosen % 24).tolist())) == 24


def test_a_record_with_gaps_in_a_variable_is_fitted_for_the_others():
    series = weather(places(), gaps=0.0)
    values = series.values.copy()
    values[..., 2] = np.nan
    model = small_model()
    series = type(series)(series.time, values, series.stations, series.step_seconds)
    fit_model_guide(model, series, Split.of(len(series)))
    weights = model.guide.pooled.unflatten(-1, (2, 5))
    assert torch.isfinite(model.guide.pooled).all() and torch.isfinite(model.guide.local).all()
    assert not weights[..., 2].any() and weights[..., 3].any()
