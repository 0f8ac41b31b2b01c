"""Calibrations of a forecaster whose errors are known: right, bounded, without a look ahead, and repeatable."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fields.errors import DataError
from fields.lift import remoteness
from fields.windows.windows import Split, Windows
from stationpde.config.tree import Config
from stationpde.data.window_source import WindowSource
from stationpde.uncertainty.calibrate import calibrate_forecaster
from stationpde.uncertainty.calibration import Calibration
from stationpde.uncertainty.dressed import ClimatologyForecaster, Dressed
from stationpde.uncertainty.places import Inflation
from stationpde.uncertainty.regression import log_scale, shrunk_effects
from stationpde.uncertainty.sample import Sample
from stationpde.uncertainty.signals import VARIABLES, shown
from synthetic_errors import NOISE, known_mean

CONFIG = Config.preset("tiny").with_overrides(["data.step=6h", "data.history=8", "data.horizon=3"])


@pytest.fixture(scope="module")
def known():
    return known_mean(loud=2.0)


@pytest.fixture(scope="module")
def calibration(known):
    return calibrate_forecaster(known, known.source, CONFIG)


def coverage(known, calibration, name, levels=(0.1, 0.9)):
    source = known.source
    batch = source.batch(source.windows["test"])
    ends = Dressed(known, calibration, source.series.stations).distributions(batch).quantiles(name, levels)
    target = shown(batch.future.numpy())[..., VARIABLES.index(name)]
    return ((target >= ends[..., 0]) & (target <= ends[..., 1])).mean(axis=(0, 1))


@pytest.mark.parametrize("name", VARIABLES)
def test_intervals_hold_their_share_of_the_test(known, calibration, name):
    # 1,400 values: a standard deviation of 1.1 %, and as much of the fit; those of one station three times that.
    assert coverage(known, calibration, name).mean() == pytest.approx(0.8, abs=0.045)


def test_a_station_of_larger_errors_has_wider_intervals(known, calibration):
    assert coverage(known, calibration, "t")[0] == pytest.approx(0.8, abs=0.12)
    batch = known.source.batch(known.source.windows["test"])
    ends = Dressed(known, calibration, known.source.series.stations).distributions(batch).quantiles("t", [0.1, 0.9])
    width = (ends[..., 1] - ends[..., 0]).mean(axis=(0, 1))
    assert width[0] / width[1:].mean() == pytest.approx(2.0, rel=0.2)


def test_the_scale_is_that_of_the_noise(known, calibration):
    source = known.source
    batch = source.batch(source.windows["test"][:50])
    ends = Dressed(known, calibration, source.series.stations).distributions(batch).quantiles("t", [0.1587, 0.8413])
    assert (ends[..., 1] - ends[..., 0])[:, :, 1:].mean() / 2 == pytest.approx(NOISE[3], rel=0.12)


def test_nothing_of_the_test_and_of_the_future_is_read(known, calibration):
    source = known.source
    series = source.series
    values = series.values.copy()
    border = source.windows.split.test
    values[border:] = np.random.default_rng(1).permutation(values[border:])
    shuffled = WindowSource(replace(series, values=values), source.windows)
    assert calibrate_forecaster(known, shuffled, CONFIG).to_dict() == calibration.to_dict()
    batch = source.batch(source.windows["test"][:4])
    other = replace(batch, future=batch.future.flip(0))
    for forecaster in (
        Dressed(known, calibration, series.stations), ClimatologyForecaster(source, tuple(calibration.marginals))
    ):  # fmt: skip
        one, same = (forecaster.distributions(b).quantiles("t", [0.1, 0.9]) for b in (batch, other))
        np.testing.assert_array_equal(one, same)


def test_a_calibration_read_back_is_the_same_to_the_bit(known, calibration):
    again = Calibration.from_dict(calibration.to_dict())
    batch = known.source.batch(known.source.windows["test"][:3])
    stations = known.source.series.stations
    one, other = (Dressed(known, c, stations).distributions(batch).quantiles("rh", [0.05, 0.95])
                  for c in (calibration, again))  # fmt: skip
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", VARIABLES)
@settings(max_examples=10)
@given(st.lists(st.floats(0.0005, 0.9995), min_size=2, max_size=6), st.integers(0, 100), st.floats(0.1, 30.0))
def test_quantiles_increase_and_stay_within_the_bounds_of_any_input(known, calibration, name, levels, seed, factor):
    rng = np.random.default_rng(seed)
    batch = known.source.batch(known.source.windows["test"][:2])
    mean = batch.history.mean(dim=1, keepdim=True)
    history = mean + (batch.history - mean) * factor
    history[rng.random(history.shape) < 0.3] = np.nan
    dressed = Dressed(known, calibration, known.source.series.stations)
    values = dressed.distributions(replace(batch, history=history)).quantiles(name, sorted(levels))
    assert np.isfinite(values).all() and (np.diff(values, axis=-1) >= 0).all()
    if name in ("rh", "ff"):
        assert values.min() >= 0.0 and (name == "ff" or values.max() <= 100.0)


def test_a_validation_of_few_days_is_refused_with_their_number(known):
    series = known.source.series
    split = Split.of(60, (0.6, 0.25, 0.15))
    short = replace(series, values=series.values[:60], time=series.time[:60])
    source = WindowSource(short, Windows.of(short, known.source.windows.spec, split, require=("train", "val")))
    with pytest.raises(DataError, match="a calibration needs 5") as problem:
        calibrate_forecaster(known, source, CONFIG)
    assert problem.value.code == "SPDE-Q001"


def test_a_sample_of_many_stations_takes_them_in_turn(known, monkeypatch):
    monkeypatch.setattr("stationpde.uncertainty.sample._MOST_TARGETS", 600)
    sample = Sample.collect(known, known.source, known.source.windows["val"][:80])
    assert sample.targets.shape[2] < 10 and set(sample.station.ravel()) == set(range(10))


def test_effects_of_stations_without_a_difference_shrink_to_nothing():
    daily = np.random.default_rng(3).normal(size=(60, 20))
    assert np.abs(shrunk_effects(daily)).max() < 0.1
    daily[:, 4] += 3.0
    assert shrunk_effects(daily)[4] == pytest.approx(3.0, abs=0.4)
    assert shrunk_effects(np.full((5, 3), np.nan)).tolist() == [0.0, 0.0, 0.0]


def test_the_logarithm_of_a_scale_is_regressed():
    rng = np.random.default_rng(0)
    columns = np.c_[np.ones(20000), rng.normal(size=20000)]
    sizes = np.exp(0.5 + 0.8 * columns[:, 1]) * rng.exponential(size=20000)
    assert log_scale(columns, sizes, 2000) == pytest.approx([0.5, 0.8], abs=0.03)


def test_places_are_the_wider_the_farther_they_are(known):
    stations = known.source.series.stations
    near, far = (replace(stations.take([0]), lat=stations.lat[:1] + shift) for shift in (0.05, 3.0))
    widening = Inflation({"t": np.array([0.1, 0.2, 0.0, 0.0])})
    close, remote = (widening.at("t", remoteness(place, stations))[0] for place in (near, far))
    assert 1.0 < close < remote
