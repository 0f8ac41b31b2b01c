"""Scales of the training split: exact moments, floors, and nothing from after the split."""

from dataclasses import fields, replace

import numpy as np
import pytest

from fields.windows.climatology import Climatology
from fields.windows.scales import Statistics, change_std, channel_moments, floors, station_moments
from fields.windows.windows import Split
from series_records import make_record

HOUR = 3600


@pytest.mark.parametrize("options", [{}, {"annual": 1, "daily": True}, {"by_month": True}])
def test_absurd_values_after_the_training_split_change_no_statistic(options):
    series = make_record(4000, missing=0.05)
    split = Split.of(len(series))
    poisoned = series.values.copy()
    poisoned[split.val :] = 1e9
    fitted = []
    for record in (series, replace(series, values=poisoned, fingerprint="")):
        climatology = Climatology.of(record, split, **options)
        fitted.append((climatology, Statistics.of(record, split, climatology)))
    for clean, spoilt in zip(*fitted):
        for f in fields(clean):
            assert np.array_equal(getattr(clean, f.name), getattr(spoilt, f.name)), f.name
    # One poisoned step inside the training split is seen: the test can fail.
    poisoned[split.val - 1] = 1e9
    record = replace(series, values=poisoned, fingerprint="")
    assert not np.array_equal(Climatology.of(record, split, **options).table, fitted[0][0].table)


def test_moments_are_those_of_the_observed_values():
    values = make_record(500, 70, missing=0.2).values
    flat = values.reshape(-1, 5).astype(np.float64)
    mean, std = channel_moments(values)
    np.testing.assert_allclose(mean, np.nanmean(flat, axis=0), rtol=1e-12)
    np.testing.assert_allclose(std, np.nanstd(flat, axis=0), rtol=1e-12)
    mean, std, count = station_moments(values)
    np.testing.assert_allclose(mean, np.nanmean(values.astype(np.float64), axis=0), rtol=1e-12)
    np.testing.assert_allclose(std, np.nanstd(values.astype(np.float64), axis=0), rtol=1e-10)
    assert np.array_equal(count, np.isfinite(values).sum(axis=0))


def test_a_station_with_few_values_takes_the_median_spread():
    values = make_record(500, 5).values.copy()
    values[3:, 0], values[:, 1] = np.nan, np.nan
    mean, std, count = station_moments(values)
    np.testing.assert_allclose(std[0], np.median(std[2:], axis=0))
    np.testing.assert_allclose(mean[1], mean[[0, 2, 3, 4]].mean(axis=0))
    assert count[1].max() == 0 and np.isfinite(mean).all() and np.isfinite(std).all()


def test_a_stuck_sensor_is_scaled_by_a_fifth_of_the_median_spread():
    values = make_record(500, 7).values.copy()
    values[:, 2, 0] = 0.0
    _, std, _ = station_moments(values)
    assert std[2, 0] == pytest.approx(0.2 * np.median(std[:, 0]))
    others = np.delete(np.arange(7), 2)
    np.testing.assert_allclose(std[others], np.nanstd(values[:, others].astype(np.float64), axis=0), rtol=1e-10)


def test_a_constant_variable_has_a_floor_and_normalises_to_finite_values():
    series = make_record(300)
    values = series.values.copy()
    values[:, :, 2] = 101_325.0
    values[:, :, 3] = np.nan
    record = replace(series, values=values, fingerprint="")
    split = Split.of(300)
    scales = Statistics.of(record, split, Climatology.of(record, split))
    for f in fields(scales):
        assert np.isfinite(getattr(scales, f.name)).all(), f.name
        assert f.name[-3:] != "std" or getattr(scales, f.name).min() > 0
    assert scales.station_std[0, 2] == floors(record.variables)[2] == pytest.approx(3.0)  # Pa
    assert channel_moments(np.ones((9, 2, 1), np.float32))[1] == 1.0


def test_the_one_step_change_leaves_gaps_out():
    time = np.array([0, 1, 2, 9, 10]) * HOUR
    values = np.array([0.0, 1.0, np.nan, 100.0, 103.0], np.float32)[:, None, None]
    assert change_std(values, time, HOUR)[0] == pytest.approx(np.sqrt((1 + 9) / 2))
