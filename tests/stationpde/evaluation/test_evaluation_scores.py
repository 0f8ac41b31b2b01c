"""Scores against numbers worked out by hand and against the package `scores`."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fields.windows.torch_data import Batch
from stationpde.errors import TrainingDivergedError
from stationpde.evaluation.error_sums import ErrorAccumulator, ErrorStatistics
from stationpde.evaluation.metrics import elevation_bands, groups_of, normalised_mse, scores_by, skill
from stationpde.evaluation.scoring import score

VARIABLES = ("u", "v", "p", "t", "rh")
STEP = 10800
NOON = 1_700_000_000 // 86400 * 86400 + 43200


def batch_of(future: torch.Tensor, issue: list[int]) -> Batch:
    history = torch.zeros(len(issue), 2, *future.shape[2:])
    return Batch(history, future, torch.tensor(issue), STEP, torch.arange(len(issue)))


def accumulated(forecast, future, issue, scored=VARIABLES) -> ErrorAccumulator:
    days = [t // 86400 for t in issue]
    names = [f"S{i}" for i in range(future.shape[2])]
    found = ErrorAccumulator(names, scored, future.shape[1], STEP, (min(days), max(days)))
    found.add(forecast, batch_of(future, issue))
    return found


def level(*values: float) -> torch.Tensor:
    """u, v, p, t, rh in SI."""
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture
def by_hand() -> ErrorAccumulator:
    """One window, one lead, two stations; the second station's pressure and temperature are missing."""
    future = torch.stack([level(1, 2, 100000, 280, 0.5), level(3, 4, torch.nan, torch.nan, 1.0)])[None, None]
    forecast = torch.stack([level(2, 0, 100300, 278, 0.7), level(3, 5, 90000, 250, 1.2)])[None, None]
    return accumulated(forecast, future, [NOON])


def test_scores_are_those_worked_out_by_hand_in_shown_units(by_hand):
    found = scores_by(by_hand.statistics().total, VARIABLES)
    # 1e-12: sums of a few numbers in double precision
    assert (found["u"].mse, found["u"].mae, found["u"].bias) == pytest.approx((0.5, 0.5, 0.5), abs=1e-12)
    assert (found["v"].mse, found["v"].mae, found["v"].bias) == pytest.approx((2.5, 1.5, -0.5), abs=1e-12)
    assert (found["p"].mse, found["p"].count, found["p"].unit) == (pytest.approx(9.0, abs=1e-9), 1, "hPa")
    assert (found["t"].mse, found["t"].bias, found["t"].unit) == (pytest.approx(4.0, abs=1e-9), -2.0, "K")


def test_humidity_is_clipped_before_it_is_scored(by_hand):
    found = scores_by(by_hand.statistics().total, VARIABLES)["rh"]
    assert (found.mse, found.unit) == (pytest.approx(200.0, abs=1e-9), "%")  # 20 % and, after clipping 120 %, 0 %


def test_a_target_that_was_not_observed_is_never_scored(by_hand):
    counts = by_hand.statistics().station[0]
    assert counts.tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 1]]


@pytest.fixture(scope="module")
def random_case():
    rng = np.random.default_rng(0)
    issue = [NOON + STEP * k for k in range(20)]
    shape = (20, 4, 3, 5)
    scale = np.array([3, 3, 500, 4, 0.1])
    future = np.array([0, 0, 95000, 285, 0.5]) + scale * rng.normal(size=shape)
    forecast = future + scale * rng.normal(size=shape)
    future[rng.random(shape) < 0.2] = np.nan
    return torch.tensor(forecast), torch.tensor(future), issue


def test_scores_agree_with_the_package_scores(random_case):
    import xarray as xr
    from scores.continuous import additive_bias, mae, mse

    forecast, future, issue = random_case
    mine = scores_by(accumulated(forecast, future, issue).statistics().total, VARIABLES)
    for channel, (name, factor, bounds) in enumerate(
        [("u", 1, None), ("v", 1, None), ("p", 100, None), ("t", 1, None), ("rh", 0.01, (0, 1))]
    ):
        pair = [x[..., channel].numpy() for x in (forecast, future)]
        shown = [xr.DataArray((x.clip(*bounds) if bounds else x) / factor) for x in pair]
        theirs = [float(f(*shown)) for f in (mse, mae, additive_bias)]
        # 1e-9: temperatures near 285 lose digits when the offset of degC is taken away
        assert [mine[name].mse, mine[name].mae, mine[name].bias] == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("by", ["lead", "station", "hour", "elevation"])
def test_every_grouping_adds_up_to_the_whole(random_case, by):
    found = accumulated(*random_case).statistics()
    labels, sums = groups_of(found, by, np.array([10.0, 300.0, 1500.0]))
    assert sums.shape[1] == len(labels)
    for number in range(len(VARIABLES)):
        assert sums[1, :, number].sum() == pytest.approx(found.total[1, number], rel=1e-12)


def test_hours_are_those_for_which_a_forecast_holds():
    future = level(0, 0, 95000, 280, 0.5).expand(1, 2, 1, 5).clone()
    forecast = future.clone()
    forecast[0, 1, 0, 0] = 3.0  # the second lead: six hours after noon
    found = accumulated(forecast, future, [NOON]).statistics()
    labels, sums = groups_of(found, "hour", np.zeros(1))
    mse = {label: scores_by(sums[:, number], found.variables)["u"].mse for number, label in enumerate(labels)}
    assert mse["18 UTC"] == 9.0 and mse["15 UTC"] == 0.0


def test_bands_hold_every_station_once():
    altitude = np.array([-3.0, 0.0, 199.9, 200.0, 999.0, 2500.0])
    bands = elevation_bands(altitude)
    assert np.sum(list(bands.values()), axis=0).tolist() == [1] * 6 and next(iter(bands)) == "below 200 m"


def test_normalised_mse_divides_by_each_stations_own_spread():
    future = level(0, 0, 95000, 280, 0.5).expand(1, 1, 2, 5).clone()
    forecast = future.clone()
    forecast[..., 0, 0], forecast[..., 1, 0] = 2.0, 3.0
    scales = np.ones((2, 5))
    scales[1, 0] = 3.0
    found = normalised_mse(accumulated(forecast, future, [NOON]).statistics(), scales)
    assert found["u"] == pytest.approx((4.0 + 1.0) / 2, abs=1e-12)


def test_skill_is_one_for_the_perfect_and_zero_for_the_reference():
    assert (skill(0.0, 4.0), skill(4.0, 4.0), skill(8.0, 4.0)) == (1.0, 0.0, -1.0)
    assert np.isnan(skill(1.0, 0.0))


def test_statistics_survive_their_file_to_nine_digits(random_case):
    found = accumulated(*random_case).statistics()
    again = ErrorStatistics.from_dict(found.to_dict())
    for name in ("day", "lead", "station", "hour"):
        np.testing.assert_allclose(getattr(again, name), getattr(found, name), rtol=1e-8)
        assert np.array_equal(getattr(again, name)[0], getattr(found, name)[0])


@pytest.mark.parametrize("change", [{"rows": ["count"]}, {"lead": [[[1.0]]]}, {"stations": ["one"]}])
def test_a_damaged_file_of_statistics_is_refused(random_case, change):
    content = accumulated(*random_case).statistics().to_dict()
    with pytest.raises(ValueError):
        ErrorStatistics.from_dict({**content, **change})


def test_a_forecast_that_is_not_finite_is_an_error_and_not_masked_away():
    from small_network import small_config, small_series
    from stationpde.data.window_source import WindowSource

    config = small_config()
    source = WindowSource.of(small_series(), config)
    nothing = SimpleNamespace(predict=lambda batch: torch.full_like(batch.future, torch.nan))
    with pytest.raises(TrainingDivergedError, match="not finite"):
        score(nothing, source, config, source.windows["test"])
