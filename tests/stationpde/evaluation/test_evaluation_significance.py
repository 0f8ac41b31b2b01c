"""Differences that are real are found, and those that are not are not."""

from __future__ import annotations

import numpy as np
import pytest

from stationpde.evaluation.significance import compare_days


def daily(squared: np.ndarray, count: float = 50.0) -> np.ndarray:
    """Daily sums ``[row, day]``."""
    return np.stack([np.full(len(squared), count), count * squared, squared, squared])


def weather(days: int, seed: int, memory: float = 0.7) -> np.ndarray:
    """Daily mean squared errors that go together over some days."""
    rng = np.random.default_rng(seed)
    noise = np.zeros(days)
    for day in range(1, days):
        noise[day] = memory * noise[day - 1] + rng.normal()
    return np.exp(0.3 * noise)


def test_a_forecast_that_is_always_better_is_significantly_better():
    base = weather(200, 0)
    found = compare_days(daily(0.9 * base), daily(base))
    assert found.gain == pytest.approx(0.1, abs=1e-12) and found.is_significant
    assert found.low == pytest.approx(0.1, abs=1e-9) and found.p <= 0.002


def test_exchanging_the_two_turns_the_gain_round_and_keeps_the_p_values():
    one, other = weather(200, 1), 1.05 * weather(200, 2)
    there, back = compare_days(daily(one), daily(other)), compare_days(daily(other), daily(one))
    assert (there.gain > 0) != (back.gain > 0)
    assert there.p == pytest.approx(back.p) and there.p_dm == pytest.approx(back.p_dm)


def test_equal_skill_is_rarely_called_different():
    # 60 pairs of series of the same law: at 5 % three are expected; ten would happen once in 4,000 times.
    found = [compare_days(daily(weather(220, 2 * k)), daily(weather(220, 2 * k + 1))) for k in range(60)]
    assert sum(one.is_significant for one in found) < 10


def test_the_same_forecast_is_no_better_than_itself():
    base = daily(weather(100, 3))
    found = compare_days(base, base)
    assert found.gain == 0.0 and found.p == 1.0 and found.p_dm is None and not found.is_significant


def test_the_test_of_diebold_and_mariano_is_that_of_scores():
    import xarray as xr
    from scores.stats.statistical_tests import diebold_mariano

    one, other = weather(150, 5), weather(150, 6)
    series = xr.DataArray((other - one)[None], dims=("pair", "day"), coords={"pair": [0], "h": ("pair", [2])})
    above = float(diebold_mariano(series, "pair", "h", statistic_distribution="t")["confidence_gt_0"][0])
    assert compare_days(daily(one), daily(other)).p_dm == pytest.approx(2 * min(above, 1 - above), rel=1e-9)


def test_a_week_of_days_is_too_few_to_judge():
    found = compare_days(daily(weather(7, 7)), daily(2 * weather(7, 7)))
    assert found.gain == pytest.approx(0.5) and found.p is None and not found.is_significant


def test_forecasts_of_different_targets_are_not_compared():
    with pytest.raises(ValueError, match="different targets"):
        compare_days(daily(weather(50, 0)), daily(weather(50, 0), count=49.0))
