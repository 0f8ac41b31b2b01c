"""Joint scenarios: margins exactly, dependence as in past errors, and an energy score that is one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_network import places
from stationpde.config.tree import Config
from stationpde.uncertainty.calibrate import calibrate_forecaster
from stationpde.uncertainty.copula import Copula, energy_score, scenarios
from stationpde.uncertainty.dressed import Dressed
from synthetic_errors import known_mean

STATIONS = places(10)
DEPENDENT = Copula(
    ("u", "t"), np.array([[1.0, -0.6], [-0.6, 1.0]]), 0.7 ** np.abs(np.subtract.outer(range(3), range(3))), 300.0, 0.2
)


@pytest.fixture(scope="module")
def known():
    return known_mean()


@pytest.fixture(scope="module")
def calibration(known):
    config = Config.preset("tiny").with_overrides(["data.step=6h", "data.history=8", "data.horizon=3"])
    return calibrate_forecaster(known, known.source, config)


@pytest.fixture(scope="module")
def distributions(known, calibration):
    batch = known.source.batch(known.source.windows["test"][:1])
    return Dressed(known, calibration, known.source.series.stations).distributions(batch)


@given(st.integers(2, 40), st.integers(0, 1000))
def test_scenarios_have_every_quantile_of_every_margin_once(distributions, count, seed):
    drawn = scenarios(distributions, DEPENDENT, STATIONS, count, (seed,))
    for name in ("u", "t"):
        expected = distributions.quantiles(name, (np.arange(count) + 0.5) / count)[0]
        np.testing.assert_array_equal(np.sort(drawn[name], axis=0), np.moveaxis(expected, -1, 0))


def test_the_speed_of_a_scenario_follows_its_components(distributions, calibration):
    drawn = scenarios(distributions, calibration.copula, STATIONS, 30, (0,))
    speed = np.hypot(drawn["u"], drawn["v"])
    np.testing.assert_array_equal(speed.argsort(axis=0), drawn["ff"].argsort(axis=0, kind="stable"))


def test_scenarios_depend_as_the_copula_says():
    scores = DEPENDENT.draw(STATIONS, 3, 4000, (1,))
    one, other = scores[:, 0, 0, 2], scores[:, 1, 0, 2]
    # 4,000 draws: a standard deviation of 0.016 at most.
    assert np.corrcoef(one, other)[0, 1] == pytest.approx(-0.6, abs=0.06)
    assert np.corrcoef(one, scores[:, 0, 1, 2])[0, 1] == pytest.approx(0.7, abs=0.06)
    near = DEPENDENT._spatial(STATIONS)[2, 5]
    assert np.corrcoef(one, scores[:, 0, 0, 5])[0, 1] == pytest.approx(near, abs=0.06)


def test_errors_that_are_independent_are_drawn_so(calibration):
    copula = calibration.copula
    apart = ~np.eye(5, dtype=bool)
    assert np.abs(copula.variable[apart]).max() < 0.15
    near = copula._spatial(STATIONS)[0, 1:]
    assert near.max() < 0.2


def test_a_copula_read_back_draws_the_same(calibration):
    again = Copula.from_dict(calibration.copula.to_dict())
    one, same = (copula.draw(STATIONS, 3, 4, (7,)) for copula in (calibration.copula, again))
    np.testing.assert_array_equal(one, same)
    with pytest.raises(ValueError, match="dependence"):
        Copula.from_dict({**calibration.copula.to_dict(), "range_km": -1.0})


def test_the_energy_score_of_one_dimension_is_the_crps_of_the_package_scores():
    import xarray as xr
    from scores.probability import crps_for_ensemble

    rng = np.random.default_rng(0)
    members, target = rng.normal(size=30), rng.normal()
    theirs = crps_for_ensemble(xr.DataArray(members, dims="member"), xr.DataArray(target), "member", method="ecdf")
    assert energy_score(members[:, None], np.array([target])) == pytest.approx(float(theirs), rel=1e-9)


def test_the_energy_score_of_scenarios_that_are_the_target_is_zero_and_gaps_do_not_count():
    target = np.array([1.0, np.nan, 3.0])
    assert energy_score(np.tile([1.0, 9.0, 3.0], (5, 1)), target) == pytest.approx(0.0, abs=1e-7)
    assert np.isnan(energy_score(np.ones((3, 1)), np.array([np.nan])))


def test_the_energy_score_is_least_for_the_right_dependence():
    rng = np.random.default_rng(1)
    right, wrong = 0.0, 0.0
    cholesky = np.linalg.cholesky([[1.0, 0.9], [0.9, 1.0]])
    for _ in range(400):
        target = cholesky @ rng.normal(size=2)
        joint = rng.normal(size=(60, 2)) @ cholesky.T
        right += energy_score(joint, target)
        wrong += energy_score(np.c_[joint[:, 0], rng.permutation(joint[:, 1])], target)
    assert right < wrong
