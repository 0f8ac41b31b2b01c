"""Shares that go by days of validation: safe with few, free with many, and what they rest on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stationpde.guide.shares import ShareSums, fitted_shares, prior_shares, shares_by_days

LEADS, CHANNELS, MEMBERS = 3, 5, 4
DAY = 86400


def products(seed=0, rows=400, size=(1.0, 0.7, 1.5, 1.0)):
    """Return sums of products of errors that are alike in part, ``[lead, channel, member, member]``."""
    draw = torch.Generator().manual_seed(seed)
    shared = torch.randn(LEADS, CHANNELS, rows, 1, generator=draw, dtype=torch.float64)
    errors = shared + torch.randn(LEADS, CHANNELS, rows, MEMBERS, generator=draw, dtype=torch.float64)
    errors = errors * torch.tensor(size, dtype=torch.float64)
    return errors.mT @ errors


def error_of(shares, sums):
    return torch.einsum("mlc,lcmn,nlc->lc", shares, sums, shares)


def test_without_a_day_shares_are_the_prior_and_nothing_else():
    prior = prior_shares(2, 1)
    shares, weight = shares_by_days(torch.zeros(LEADS, CHANNELS, MEMBERS, MEMBERS, dtype=torch.float64), 0.0, prior)
    torch.testing.assert_close(shares, prior[:, None, None].expand(-1, LEADS, CHANNELS))
    assert 0.0 < weight < 1.0


def test_with_years_of_days_shares_are_those_of_the_lead_and_variable_alone():
    sums = products()
    shares, weight = shares_by_days(sums, 1e7, prior_shares(3, 0))
    alone = torch.stack([fitted_shares(sums[n : n + 1])[:, 0] for n in range(LEADS)], dim=1)
    torch.testing.assert_close(shares, alone, rtol=0.0, atol=1e-4)
    assert weight < 1e-6


@given(st.integers(0, 50), st.floats(0.0, 400.0))
def test_shares_are_a_mean_whatever_the_days(seed, days):
    shares, _ = shares_by_days(products(seed, rows=5), days, prior_shares(2, 1))
    assert (shares >= 0.0).all()
    torch.testing.assert_close(shares.sum(0), torch.ones(LEADS, CHANNELS, dtype=torch.float64))


def test_the_fewer_the_days_the_nearer_to_the_prior():
    sums, prior = products(), prior_shares(3, 0)
    away = [(shares_by_days(sums, days, prior)[0] - prior[:, None, None]).abs().sum() for days in (1.0, 10.0, 100.0)]
    assert away[0] < away[1] < away[2]


def test_a_simple_forecast_that_nothing_beats_gets_the_shares():
    # Persistence, the third of four, errs a tenth as much as the others.
    sums = products(1, size=(1.0, 1.0, 0.1, 1.0))
    shares, _ = shares_by_days(sums, 6.0, prior_shares(2, 1))
    assert (shares[2] > 0.8).all()
    persistence = torch.zeros_like(shares).index_fill_(0, torch.tensor([2]), 1.0)
    assert (error_of(shares, sums) < 1.1 * error_of(persistence, sums)).all()


def test_a_late_lead_does_not_decide_for_an_early_one():
    sums = products(2, size=(0.2, 1.0, 1.0, 1.0))
    late = products(3, size=(1.0, 1.0, 1.0, 0.2))
    sums[1:] = 100.0 * late[1:]
    early = shares_by_days(sums, 20.0, prior_shares(3, 0))[0][:, 0]
    half_way = fitted_shares(sums)[:, 0]
    assert (early[0] > early[3]).all() and (half_way[0] < half_way[3]).all()


def test_a_variable_that_was_never_observed_gets_the_shares_of_the_others():
    sums = products(4, size=(1.0, 0.3, 1.0, 1.0))
    sums[:, 2] = 0.0
    shares, _ = shares_by_days(sums, 30.0, prior_shares(3, 0))
    assert torch.isfinite(shares).all() and (shares[1, :, 2] > 0.5).all()


@pytest.mark.parametrize(("learned", "simple"), [(2, 3), (0, 3), (1, 0)])
def test_the_prior_adds_up_to_one(learned, simple):
    prior = prior_shares(learned, simple)
    assert float(prior.sum()) == pytest.approx(1.0) and prior.shape == (learned + simple + 1,)
    assert (prior[:learned] == prior[-1]).all()


def test_days_are_counted_and_not_windows_and_ranks_add_up():
    parts = [ShareSums(2, 1, 5) for _ in range(2)]
    times = torch.arange(40) * (DAY // 8) + 20_000 * DAY  # five days, eight windows each
    for part, chosen in zip(parts, (times[::2], times[1::2])):
        part.count_days(chosen)
    whole = ShareSums(2, 1, 5)
    whole.windows_of_day = parts[0].windows_of_day + parts[1].windows_of_day
    assert whole.evidence[:2] == (40.0, 5.0)
    assert parts[0].evidence[:2] == (20.0, 5.0)
