"""Statistics of the training split: exact where data abound, cautious where they are few, blind to what comes later."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from series_records import START, make_record

from fields.errors import DataError, UsageError
from fields.normalize import (
    Climatology,
    Statistics,
    change_std,
    channel_moments,
    fill_history,
    floors,
    station_moments,
)
from fields.time_features import annual_harmonics, day_fraction, month_of, require_era, year_fraction
from fields.windows import Split

HOUR = 3600


# ---- time -------------------------------------------------------------------------------------------------------


def calendar(seconds):
    """Month and fraction of the year by numpy's own calendar."""
    times = np.asarray(seconds, np.int64).astype("datetime64[s]")
    first = times.astype("datetime64[Y]").astype("datetime64[s]")
    length = (times.astype("datetime64[Y]") + 1).astype("datetime64[s]") - first
    return times.astype("datetime64[M]").astype(np.int64) % 12 + 1, (times - first) / length


@given(arrays(np.int64, 20, elements=st.integers(-3_786_912_000, 4_133_980_799)))
def test_the_calendar_agrees_with_that_of_numpy_from_1850_to_2100(seconds):
    month, fraction = calendar(seconds)
    assert np.array_equal(month_of(seconds), month)
    assert np.array_equal(year_fraction(seconds), fraction)


@pytest.mark.parametrize("day", ["2024-02-28T23:59:59", "2024-02-29", "2024-03-01", "2024-12-31T23:00", "1900-03-01"])
def test_leap_days_and_the_ends_of_years_are_in_their_place(day):
    seconds = np.datetime64(day, "s").astype(np.int64)
    month, fraction = calendar(seconds)
    assert month_of(seconds) == month and year_fraction(seconds) == fraction and 0 <= fraction < 1


def test_the_fraction_of_the_day_keeps_seconds_that_float32_would_lose():
    seconds = np.array([1_700_000_000, 1_700_000_001], np.int64)
    assert np.float32(seconds[0]) == np.float32(seconds[1])
    assert np.diff(day_fraction(seconds).astype(np.float32))[0] * 86_400 == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("time", ["1677-09-22", "1849-12-31", "2101-01-01", "2262-04-11"])
def test_times_outside_the_era_are_refused(time):
    with pytest.raises(DataError) as caught:
        require_era(np.datetime64(time, "s").astype(np.int64))
    assert caught.value.exit_code == 3


# ---- climatology ------------------------------------------------------------------------------------------------


def cycle_record(days=400, stations=3, *, annual=0.0, product=0.0, noise=0.0, step=3 * HOUR, start=START):
    """Values [time, station, 2] = level + daily cycle (+ annual), and the function that makes them."""
    time = start + np.arange(0, days * 86_400, step)
    level = np.array([[280.0, 5.0], [290.0, 7.0], [300.0, 9.0]])[:stations]

    def truth(t):
        daily, year = 2 * np.pi * day_fraction(t)[..., None, None], 2 * np.pi * year_fraction(t)[..., None, None]
        return level + 4 * np.cos(daily) + np.cos(year - 0.3) * (annual + product * np.sin(daily))

    rng = np.random.default_rng(0)
    values = (truth(time) + noise * rng.standard_normal((time.size, stations, 2))).astype(np.float32)
    return time, values, truth


def test_a_daily_cycle_is_found_and_looked_up_at_times_of_any_shape():
    time, values, truth = cycle_record()
    found = Climatology.fit(time, values, 3 * HOUR)
    later = (START + 900 * 86_400 + 3 * HOUR * np.arange(24)).reshape(2, 3, 4)
    assert found.slots == 8 and found.at(later).shape == (2, 3, 4, 3, 2)
    np.testing.assert_allclose(found.at(later), truth(later), rtol=1e-6)


def test_a_phase_that_is_not_that_of_midnight_is_kept():
    time, values, truth = cycle_record(start=START + HOUR)  # 01, 04, 07 … UTC
    found = Climatology.fit(time, values, 3 * HOUR)
    assert found.origin == HOUR
    np.testing.assert_allclose(found.at(time[:50]), truth(time[:50]), rtol=1e-6)


@pytest.mark.parametrize("hours", [5, 36])
def test_a_step_that_does_not_divide_the_day_has_finer_hours(hours):
    time, values, truth = cycle_record(step=hours * HOUR)
    found = Climatology.fit(time, values, hours * HOUR, shrink=0.0)
    np.testing.assert_allclose(found.at(time[:60]), truth(time[:60]), rtol=1e-6)


def test_an_hour_that_a_station_never_saw_is_its_mean_and_the_cycle_of_the_network():
    time, values, truth = cycle_record()
    values[(time % 86_400) == 12 * HOUR, 1] = np.nan
    noon = np.array([START + 12 * HOUR])
    found = Climatology.fit(time, values, 3 * HOUR).at(noon)
    np.testing.assert_allclose(found, truth(noon), rtol=1e-6)


def test_a_station_without_values_gets_the_mean_of_the_network_and_its_cycle():
    time, values, truth = cycle_record()
    values[:, 2] = np.nan
    found = Climatology.fit(time, values, 3 * HOUR).at(time[:8])
    np.testing.assert_allclose(found[:, 2], truth(time[:8])[:, :2].mean(axis=1), rtol=1e-6)


def test_few_values_are_drawn_towards_the_network_and_many_are_not():
    time, values, _ = cycle_record(noise=0.0)
    noon = (time % 86_400) == 12 * HOUR
    odd = values.copy()
    odd[noon, 0] += 10.0  # this station is warm at noon, and says so on every day
    usual = Climatology.fit(time, values, 3 * HOUR).at(time[4:5])[0, 0, 0]
    many = Climatology.fit(time, odd, 3 * HOUR).at(time[4:5])[0, 0, 0]
    odd[np.flatnonzero(noon)[2:], 0] = np.nan  # or on two days only
    few = Climatology.fit(time, odd, 3 * HOUR).at(time[4:5])[0, 0, 0]
    assert many - usual > 9.8 and 2.0 < few - usual < 5.0


def test_annual_harmonics_and_their_product_with_the_day_are_found():
    time, values, truth = cycle_record(days=430, annual=8.0, product=2.0, noise=0.5)
    later = START + 600 * 86_400 + 3 * HOUR * np.arange(400)
    errors = []
    for options in ({}, {"annual": 1}, {"annual": 1, "daily": True}):
        found = Climatology.fit(time, values, 3 * HOUR, **options)
        errors.append(np.sqrt(np.mean((found.at(later) - truth(later)) ** 2)))
    # 430 values an hour with noise 0.5 leave some hundredths.
    assert errors[0] > 2.0 > errors[1] > 0.3 and errors[2] < 0.1


def test_a_station_with_few_values_takes_the_season_from_the_network():
    time, values, truth = cycle_record(days=430, annual=8.0, noise=0.5)
    values[200:, 1] = np.nan  # 25 days
    found = Climatology.fit(time, values, 3 * HOUR, annual=1)
    error = found.at(time)[:, 1] - truth(time)[:, 1]
    assert np.abs(error).max() < 1.5  # of a range of 16


def test_less_than_a_year_gets_no_harmonics():
    time, values, _ = cycle_record(days=200, annual=8.0)
    found = Climatology.fit(time, values, 3 * HOUR, annual=2, daily=True)
    assert found.annual == 0 and not found.daily and found.waves.shape[0] == 0


def test_months_have_tables_of_their_own_and_an_unseen_month_is_still_answered():
    time, values, truth = cycle_record(days=365, annual=8.0)
    found = Climatology.fit(time, values, 3 * HOUR, by_month=True)
    assert found.table.shape == (12, 8, 3, 2)
    july = time[(month_of(time) == 7)]
    # A month's mean of a wave of amplitude 8 is off by a quarter of it at the month's ends.
    assert np.abs(found.at(july) - truth(july)).max() < 3.0
    part = month_of(time) != 7
    found = Climatology.fit(time[part], values[part], 3 * HOUR, by_month=True)
    assert np.isfinite(found.at(july)).all()
    assert np.abs(found.at(july).mean(axis=(0, 2)) - values[part].mean(axis=(0, 2))).max() < 1.0


def test_a_climatology_of_some_stations_is_part_of_that_of_all():
    time, values, _ = cycle_record(days=430, annual=8.0)
    found = Climatology.fit(time, values, 3 * HOUR, annual=1)
    assert np.array_equal(found.take([2, 0]).at(time[:9]), found.at(time[:9])[:, [2, 0]])


def test_months_with_harmonics_and_no_values_are_refused():
    time, values, _ = cycle_record(days=10)
    with pytest.raises(UsageError):
        Climatology.fit(time, values, 3 * HOUR, by_month=True, annual=1)
    with pytest.raises(DataError):
        Climatology.fit(time, values * np.nan, 3 * HOUR)


def test_harmonics_are_the_documented_ones():
    time = np.array([START + 40 * 86_400 + 6 * HOUR])
    phase, angle = 2 * np.pi * year_fraction(time), 2 * np.pi * 0.25
    found = annual_harmonics(time, 1, True, np)
    wanted = [np.cos(phase), np.sin(phase)]
    wanted += [a * b for a in wanted for b in (np.cos(angle), np.sin(angle))]
    np.testing.assert_allclose(found, wanted)


# ---- scales -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"annual": 1, "daily": True}, {"by_month": True}])
def test_absurd_values_after_the_training_split_change_no_statistic(options):
    series = make_record(4000, missing=0.05)
    split = Split.of(len(series))
    poisoned = series.values.copy()
    poisoned[split.val :] = 1e9
    found = []
    for record in (series, replace(series, values=poisoned, fingerprint="")):
        usual = Climatology.of(record, split, **options)
        found.append((usual, Statistics.of(record, split, usual)))
    for clean, spoilt in zip(*found):
        for f in fields(clean):
            assert np.array_equal(getattr(clean, f.name), getattr(spoilt, f.name)), f.name
    # One poisoned step inside the training split is seen: the test can fail.
    poisoned[split.val - 1] = 1e9
    record = replace(series, values=poisoned, fingerprint="")
    assert not np.array_equal(Climatology.of(record, split, **options).table, found[0][0].table)


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


def test_a_station_with_few_values_takes_the_usual_spread():
    values = make_record(500, 5).values.copy()
    values[3:, 0], values[:, 1] = np.nan, np.nan
    mean, std, count = station_moments(values)
    np.testing.assert_allclose(std[0], np.median(std[2:], axis=0))
    np.testing.assert_allclose(mean[1], mean[[0, 2, 3, 4]].mean(axis=0))
    assert count[1].max() == 0 and np.isfinite(mean).all() and np.isfinite(std).all()


def test_a_stuck_sensor_is_scaled_by_a_fifth_of_the_usual_spread():
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
    found = Statistics.of(record, split, Climatology.of(record, split))
    for f in fields(found):
        assert np.isfinite(getattr(found, f.name)).all(), f.name
        assert f.name[-3:] != "std" or getattr(found, f.name).min() > 0
    assert found.station_std[0, 2] == floors(record.variables)[2] == pytest.approx(3.0)  # Pa
    assert channel_moments(np.ones((9, 2, 1), np.float32))[1] == 1.0


def test_the_one_step_change_leaves_gaps_out():
    time = np.array([0, 1, 2, 9, 10]) * HOUR
    values = np.array([0.0, 1.0, np.nan, 100.0, 103.0], np.float32)[:, None, None]
    assert change_std(values, time, HOUR)[0] == pytest.approx(np.sqrt((1 + 9) / 2))


# ---- filling ----------------------------------------------------------------------------------------------------


def test_gaps_are_filled_linearly_then_by_the_last_value_then_by_the_climatology():
    nan = np.nan
    history = np.array([[nan, nan, 2.0, nan, nan, 5.0, nan], [nan] * 7], np.float32).T[:, :, None]
    usual = np.full_like(history, -1.0)
    usual[1] = -2.0
    found = fill_history(history, usual)
    assert found[:, 0, 0].tolist() == [-1.0, -2.0, 2.0, 3.0, 4.0, 5.0, 5.0]
    assert found[:, 1, 0].tolist() == [-1.0, -2.0] + [-1.0] * 5


@given(
    arrays(np.float32, (2, 6, 3, 2), elements=st.one_of(st.just(np.nan), st.just(np.inf), st.floats(-9, 9, width=32)))
)
def test_filling_leaves_nothing_missing_and_what_was_observed_alone(history):
    found = fill_history(history, np.zeros_like(history))
    there = np.isfinite(history)
    assert np.isfinite(found).all() and np.array_equal(found[there], history[there])
    assert found.dtype == np.float32
    # Between its neighbours: nothing is extrapolated.
    bound = np.where(there, np.abs(history), 0).max(axis=1, keepdims=True)
    assert np.all(np.abs(found) <= bound + 1e-5)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_stations_that_drop_out_leave_a_finite_history(share):
    series = make_record(16, 50)
    values = series.values.copy()
    values[:, : int(50 * share)] = np.nan
    usual = Climatology.fit(series.time, series.values, series.step_seconds).at(series.time)
    found = fill_history(values, usual)
    assert np.isfinite(found).all() and np.array_equal(found[:, : int(50 * share)], usual[:, : int(50 * share)])
