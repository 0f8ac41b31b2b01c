"""Scores of distributions against closed forms and the package `scores`, and tests of calibration that can fail."""

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.stats import norm
from scores.probability import crps_for_ensemble

from fields.times import DAY
from stationpde.config.tree import Config
from stationpde.evaluation.distribution_sums import COVERED, CRPS_LEVELS, DistributionSums, crps_of_quantiles
from stationpde.evaluation.uncertain import CLIMATOLOGY, coverage_test, distribution_scores, thresholds_of
from stationpde.uncertainty.calibrate import calibrate_forecaster
from stationpde.uncertainty.dressed import SampledDistributions
from stationpde.uncertainty.levels import LEVELS
from stationpde.uncertainty.signals import VARIABLES, shown
from synthetic_errors import NOISE, known_mean

SIZES = NOISE * [1.0, 1.0, 0.01, 1.0, 100.0]  # in display units


@pytest.fixture(scope="module")
def known():
    return known_mean()


def sums_of(known, narrowed):
    """Score Gaussian distributions of the true mean, as wide as the noise times a factor."""
    source = known.source
    starts, series = source.windows["test"], source.series
    days = series.time[starts + 7] // DAY
    names = VARIABLES[:5]
    limits = thresholds_of(series, source.windows.split.val)
    sums = DistributionSums(series.stations.id, names, 3, series.step_seconds, (days.min(), days.max()), limits)
    for first in range(0, len(starts), 32):
        batch = source.batch(starts[first : first + 32])
        mean = shown(known.predict(batch).numpy())
        values = {name: mean[..., c, None] + narrowed * SIZES[c] * norm.ppf(LEVELS) for c, name in enumerate(names)}
        sums.add(SampledDistributions(values), batch)
    return sums


def verdicts(sums):
    return [
        coverage_test(sums.inside[0, :, c], sums.inside[1 + i, :, c], level)["calibrated"]
        for c in range(len(sums.names)) for i, level in enumerate(COVERED)
    ]  # fmt: skip


def test_a_calibrated_forecaster_passes_and_one_ten_per_cent_too_narrow_fails(known):
    assert np.mean(verdicts(sums_of(known, 1.0))) >= 0.8  # each of them passes in 95 of 100 records
    assert not any(verdicts(sums_of(known, 0.9)))


def test_crps_pit_and_losses_of_a_gaussian_are_those_of_its_closed_form(known):
    sums = sums_of(known, 1.0)
    scores = sums.scores(sums.total["lead"].sum(axis=1)[:, 3])
    assert scores["crps"] == pytest.approx(SIZES[3] / np.sqrt(np.pi), rel=0.02)
    assert scores["pit"] == pytest.approx(np.full(10, 0.1), abs=0.025)
    assert scores["width"]["0.8"] == pytest.approx(2 * norm.ppf(0.9) * SIZES[3], rel=0.01)
    expected = SIZES[3] * norm.pdf(norm.ppf(0.9))
    assert scores["quantile_loss"]["0.9"] == pytest.approx(expected, rel=0.05)
    by_station = sums.total["station"].sum(axis=1)
    np.testing.assert_allclose(by_station, sums.total["lead"].sum(axis=1))
    np.testing.assert_allclose(sums.total["hour"].sum(axis=1), by_station)


def test_crps_of_quantiles_is_that_of_the_package_scores():
    rng = np.random.default_rng(0)
    members, target = np.sort(rng.normal(size=(40, 50)), axis=1), rng.normal(size=40)
    theirs = crps_for_ensemble(
        xr.DataArray(members, dims=("case", "member")), xr.DataArray(target, dims="case"), "member", method="ecdf",
        preserve_dims="all",
    )  # fmt: skip
    np.testing.assert_allclose(crps_of_quantiles(members, target), theirs.values, rtol=1e-12)


def test_crps_of_quantiles_is_near_the_closed_form_of_a_gaussian():
    target = np.array([-2.0, -0.3, 0.0, 1.1, 3.0])
    exact = target * (2 * norm.cdf(target) - 1) + 2 * norm.pdf(target) - 1 / np.sqrt(np.pi)
    quantiles = np.broadcast_to(norm.ppf(CRPS_LEVELS), (5, 50))
    assert crps_of_quantiles(quantiles, target) == pytest.approx(exact, abs=0.005)


def test_brier_scores_and_reliability_are_of_the_events_that_happened(known):
    sums = sums_of(known, 1.0)
    event = sums.event_scores()["t above its 95th percentile"]
    assert 0.0 < event["brier"] < event["frequency"] and event["skill"] > 0
    for part in event["reliability"]:
        if part["count"] > 300:
            assert part["observed"] == pytest.approx(part["forecast"], abs=0.08)


def test_a_run_is_scored_beside_references_dressed_alike(known):
    source = known.source
    config = Config.preset("tiny").with_overrides(["data.step=6h", "data.history=8", "data.horizon=3"])

    class Flat:
        def predict(self, batch):
            return torch.zeros_like(batch.future) + torch.tensor([0.0, 0.0, 95000.0, 285.0, 0.6])

    calibration = calibrate_forecaster(known, source, config)
    result = distribution_scores(
        calibration,
        {"run": known, "flat": Flat()},
        source,
        source,
        config,
        source.windows["test"],
        ("lead", "elevation"),
    )
    assert set(result["scores"]) == {"run", "flat", CLIMATOLOGY}
    mine, flat, usual = (result["scores"][name]["t"] for name in ("run", "flat", CLIMATOLOGY))
    assert mine["crps"] < usual["crps"]
    assert mine["coverage"]["0.8"] == pytest.approx(0.8, abs=0.045) == flat["coverage"]["0.8"]
    gain = result["compared"][CLIMATOLOGY]["t"]
    assert gain["gain"] == pytest.approx(1 - mine["crps"] / usual["crps"]) and gain["significant"]
    assert set(result["energy"]) == {"run", "flat"}
    # Independent errors of one size: the energy score of many dimensions nears their deviation over the root of two.
    assert result["energy"]["run"]["t"]["energy"] == pytest.approx(SIZES[3] / np.sqrt(2), rel=0.1)
    assert list(result["by"]["lead"]) == ["6 h", "12 h", "18 h"]
