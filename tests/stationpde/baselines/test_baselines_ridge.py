"""Ridge regression against plain least squares, its λ, and the blend's weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from baseline_records import plain, record, source_of
from stationpde.baselines import baseline
from stationpde.baselines.ridge_fit import masked_ridge
from stationpde.baselines.ridge_forecast import PENALTIES, RidgeInputs
from stationpde.errors import UsageError
from stationpde.guide.shares import fitted_shares


def _by_least_squares(x: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """The same as an ordinary problem: rows without the target left out, the penalty as rows of its own."""
    there = np.isfinite(y)
    rows = np.vstack([x[there], np.diag(np.sqrt(penalty * x.var(axis=0)))])
    return np.linalg.lstsq(rows, np.concatenate([y[there], np.zeros(x.shape[1])]), rcond=None)[0]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_ridge_with_missing_targets_is_least_squares_on_the_rows_that_are_there(share):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 7)) * np.arange(1, 8), rng.normal(size=(60, 6))
    y[rng.random(y.shape) < share] = np.nan
    y[20:35, 2:4] = np.nan  # a gap that two targets share
    penalties = np.array([[0.1] * 6, [5.0, 5.0, 20.0, 20.0, 1.0, 1.0]])

    found = masked_ridge(x, y, penalties)

    for trial, row in enumerate(penalties):
        expected = np.stack([_by_least_squares(x, y[:, j], row[j]) for j in range(6)], axis=1)
        # Normal equations lose twice the digits of the condition number, here 1e2.
        np.testing.assert_allclose(found[trial], expected, rtol=1e-9, atol=1e-11)


def test_a_target_that_was_never_observed_gets_no_weight():
    x = np.random.default_rng(2).normal(size=(20, 3))
    y = np.column_stack([x[:, 0], np.full(20, np.nan)])

    found = masked_ridge(x, y, np.full((1, 2), 1e-6))

    assert not found[0, :, 1].any()
    np.testing.assert_allclose(found[0, :, 0], [1.0, 0.0, 0.0], atol=1e-6)


def test_a_constant_is_hardly_penalised_and_a_stuck_input_gets_no_weight():
    rng = np.random.default_rng(5)
    free, target = rng.normal(size=(400, 1)), 3.0 + 0.1 * rng.normal(size=(400, 1))
    one = np.ones((400, 1))
    constant = masked_ridge(np.hstack([one, free]), target, np.array([[1000.0]]))[0]
    # λ times the least variance against 400 rows: a fortieth.
    assert constant[0, 0] == pytest.approx(3.0, rel=0.03)
    # A millionth of a usual spread, yet in step with the target: it could explain all of it with a weight of a million.
    stuck = 1e-6 * (target - 3.0)
    found = masked_ridge(np.hstack([one, stuck]), target, np.array([[10.0]]))[0]
    assert abs(found[1, 0]) < 1e-3


def _noise(steps: int = 400, stations: int = 3) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(steps, stations, 5)) * [1, 1, 100, 1, 0.05] + [0, 0, 1e5, 280, 0.5]


def test_neighbours_tell_what_a_station_cannot_know():
    values = _noise()
    # What the first station has now, both others have one step later.
    values[1:, 1], values[1:, 2] = values[:-1, 0], values[:-1, 0]
    config, source = source_of(plain(values), "data.horizon=1")
    batch = source.batch(source.windows.test)

    errors = {}
    for name in ("ridge", "ridge_nb"):
        made = baseline(name).make(config, source).predict(batch)
        errors[name] = (made - batch.future)[:, :, 1:, :2].square().mean().item()

    assert errors["ridge_nb"] < 0.1 * errors["ridge"]


def test_validation_chooses_little_penalty_for_a_law_and_much_for_noise():
    values = _noise()
    values[..., 0] = 3 * np.sin(0.9 * np.arange(len(values)))[:, None]
    config, source = source_of(plain(values), "data.horizon=1")

    fitted = baseline("ridge").make(config, source)

    assert fitted.penalties[0] == PENALTIES[0]
    assert fitted.penalties[3] >= 300.0


def test_inputs_of_the_regression_are_those_described():
    _, source = source_of(record())
    see = RidgeInputs.of(source, 2)
    batch = source.batch(source.windows.train[10:12])

    found = see(batch)

    scaled = see.scaled(batch)
    hour = int(batch.issue_time[1]) % 86400 // 21600
    near = see.neighbours[3]
    last, change = scaled[1, -1, near], scaled[1, -1, near] - scaled[1, -2, near]
    # Four slots of the day; no annual harmonics, as thirty days do not show a year.
    expected = torch.cat([scaled[1, :, 3].flatten(), torch.eye(4)[hour], torch.cat([last, change], dim=-1).flatten()])
    assert torch.equal(found[1, 3], expected)


def test_a_year_of_training_brings_the_season_in():
    _, source = source_of(plain(_noise(steps=4 * 600, stations=1)))

    assert RidgeInputs.of(source, 0).calendar(torch.tensor([0])).shape[1] == 4 + 4 + 8


class _Fixed:
    """Forecasts what it was told, for every window."""

    def __init__(self, source, change):
        self.source, self.change = source, change

    def predict(self, batch):
        return self.change(self.source.batch(batch.index.numpy()).future)


def test_the_blend_follows_the_member_that_is_right():
    values = _noise()
    config, source = source_of(plain(values))

    def members(sign):
        right, wrong = _Fixed(source, lambda y: y), _Fixed(source, lambda y: y + torch.tensor([1, 1, 100, 1, 0.1]))
        return {"ridge_nb": right, "mlp_nb": wrong} if sign else {"ridge_nb": wrong, "mlp_nb": right}

    ridge, mlp = (baseline("blend").make(config, source, members=members(sign)).weights for sign in (True, False))

    torch.testing.assert_close(ridge, torch.ones(2, 5), rtol=0, atol=1e-6)
    torch.testing.assert_close(mlp, torch.zeros(2, 5), rtol=0, atol=1e-6)


def test_the_blend_halves_errors_that_are_opposite():
    values = _noise()
    config, source = source_of(plain(values))
    away = torch.tensor([1, 1, 100, 1, 0.05])
    members = {"ridge_nb": _Fixed(source, lambda y: y + away), "mlp_nb": _Fixed(source, lambda y: y - away)}

    made = baseline("blend").make(config, source, members=members)
    batch = source.batch(source.windows.test[:3])

    torch.testing.assert_close(made.weights, torch.full((2, 5), 0.5))
    # Single precision of 1e5 Pa.
    torch.testing.assert_close(made.predict(batch), batch.future, rtol=1e-6, atol=1e-5)


def _products(*errors):
    """Sums of products ``[lead, channel, member, member]`` of errors ``[lead, channel, row]`` of each member."""
    made = torch.stack([torch.as_tensor(e).double() for e in errors], dim=-1)
    return made.mT @ made


def test_a_lead_is_drawn_to_the_weight_of_its_variable():
    # Errors 1 - w·2 and 3 - w·2 (the first minus the second is -2): alone 1/4 and 3/4 would be best.
    products = _products([[[-1.5]], [[-0.5]]], [[[0.5]], [[1.5]]])

    found = fitted_shares(products)

    # The variable has a half; with a prior of one mean lead each goes half of the way.
    torch.testing.assert_close(found[0], torch.tensor([[0.375], [0.625]]).double(), rtol=0.0, atol=1e-6)


def test_weights_stay_within_the_forecasts_and_equal_ones_share():
    products = _products([[[0.1], [2.0], [1.0]]], [[[1.0], [0.1], [1.0]]])

    found = fitted_shares(products)[0]
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0, 0.5]]).double(), rtol=0.0, atol=1e-6)


def test_of_three_forecasts_the_best_mean_is_found_and_a_useless_one_gets_nothing():
    drawn = torch.Generator().manual_seed(0)
    noise = torch.randn(3, 1, 1, 4000, generator=drawn, dtype=torch.float64)
    apart = fitted_shares(_products(*noise))
    # Errors of equal size that have nothing in common: a third each, to the sampling error of 4,000 rows.
    torch.testing.assert_close(apart, torch.full_like(apart, 1 / 3), rtol=0.0, atol=0.03)
    # The third is the first with more noise.
    spoilt = fitted_shares(_products(noise[0], noise[1], noise[0] + 2.0 * noise[2]))
    assert float(spoilt[2]) < 0.02
    torch.testing.assert_close(spoilt.sum(dim=0), torch.ones(1, 1).double())


def test_a_blend_without_its_members_says_which():
    config, source = source_of(record())

    with pytest.raises(UsageError, match="mlp_nb") as caught:
        baseline("blend").make(config, source, members={"ridge_nb": baseline("persistence").make(config, source)})

    assert caught.value.code == "SPDE-B021"
    assert baseline("blend").members == ("ridge_nb", "mlp_nb")
