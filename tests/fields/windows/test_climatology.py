"""Climatology: exact where data abound, drawn towards the network where they are few."""

import numpy as np
import pytest

from fields.errors import DataError, UsageError
from fields.windows.climatology import Climatology
from fields.windows.time_features import day_fraction, month_of, year_fraction
from series_records import START

HOUR = 3600


def cycle_record(days=400, stations=3, *, annual=0.0, product=0.0, noise=0.0, step=3 * HOUR, start=START):
    """Make values [time, station, 2] = level + daily cycle (+ annual), and return the function behind them too."""
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
    climatology = Climatology.fit(time, values, 3 * HOUR)
    later = (START + 900 * 86_400 + 3 * HOUR * np.arange(24)).reshape(2, 3, 4)
    assert climatology.slots == 8 and climatology.at(later).shape == (2, 3, 4, 3, 2)
    np.testing.assert_allclose(climatology.at(later), truth(later), rtol=1e-6)


def test_a_phase_that_is_not_that_of_midnight_is_kept():
    time, values, truth = cycle_record(start=START + HOUR)  # 01, 04, 07 … UTC
    climatology = Climatology.fit(time, values, 3 * HOUR)
    assert climatology.origin == HOUR
    np.testing.assert_allclose(climatology.at(time[:50]), truth(time[:50]), rtol=1e-6)


@pytest.mark.parametrize("hours", [5, 36])
def test_a_step_that_does_not_divide_the_day_has_finer_hours(hours):
    time, values, truth = cycle_record(step=hours * HOUR)
    climatology = Climatology.fit(time, values, hours * HOUR, shrink=0.0)
    np.testing.assert_allclose(climatology.at(time[:60]), truth(time[:60]), rtol=1e-6)


def test_an_hour_that_a_station_never_saw_is_its_mean_and_the_cycle_of_the_network():
    time, values, truth = cycle_record()
    values[(time % 86_400) == 12 * HOUR, 1] = np.nan
    noon = np.array([START + 12 * HOUR])
    at_noon = Climatology.fit(time, values, 3 * HOUR).at(noon)
    np.testing.assert_allclose(at_noon, truth(noon), rtol=1e-6)


def test_a_station_without_values_gets_the_mean_of_the_network_and_its_cycle():
    time, values, truth = cycle_record()
    values[:, 2] = np.nan
    day = Climatology.fit(time, values, 3 * HOUR).at(time[:8])
    np.testing.assert_allclose(day[:, 2], truth(time[:8])[:, :2].mean(axis=1), rtol=1e-6)


def test_few_values_are_drawn_towards_the_network_and_many_are_not():
    time, values, _ = cycle_record(noise=0.0)
    noon = (time % 86_400) == 12 * HOUR
    odd = values.copy()
    odd[noon, 0] += 10.0  # this station is warm at noon, and says so on every day
    none = Climatology.fit(time, values, 3 * HOUR).at(time[4:5])[0, 0, 0]
    many = Climatology.fit(time, odd, 3 * HOUR).at(time[4:5])[0, 0, 0]
    odd[np.flatnonzero(noon)[2:], 0] = np.nan  # or on two days only
    few = Climatology.fit(time, odd, 3 * HOUR).at(time[4:5])[0, 0, 0]
    assert many - none > 9.8 and 2.0 < few - none < 5.0


def test_annual_harmonics_and_their_product_with_the_day_are_found():
    time, values, truth = cycle_record(days=430, annual=8.0, product=2.0, noise=0.5)
    later = START + 600 * 86_400 + 3 * HOUR * np.arange(400)
    errors = []
    for options in ({}, {"annual": 1}, {"annual": 1, "daily": True}):
        climatology = Climatology.fit(time, values, 3 * HOUR, **options)
        errors.append(np.sqrt(np.mean((climatology.at(later) - truth(later)) ** 2)))
    # 430 values an hour with noise 0.5 leave some hundredths.
    assert errors[0] > 2.0 > errors[1] > 0.3 and errors[2] < 0.1


def test_a_station_with_few_values_takes_the_season_from_the_network():
    time, values, truth = cycle_record(days=430, annual=8.0, noise=0.5)
    values[200:, 1] = np.nan  # 25 days
    climatology = Climatology.fit(time, values, 3 * HOUR, annual=1)
    error = climatology.at(time)[:, 1] - truth(time)[:, 1]
    assert np.abs(error).max() < 1.5  # of a range of 16


def test_less_than_a_year_gets_no_harmonics():
    time, values, _ = cycle_record(days=200, annual=8.0)
    climatology = Climatology.fit(time, values, 3 * HOUR, annual=2, daily=True)
    assert climatology.annual == 0 and not climatology.daily and climatology.waves.shape[0] == 0


def test_months_have_tables_of_their_own_and_an_unseen_month_is_still_answered():
    time, values, truth = cycle_record(days=365, annual=8.0)
    climatology = Climatology.fit(time, values, 3 * HOUR, by_month=True)
    assert climatology.table.shape == (12, 8, 3, 2)
    july = time[(month_of(time) == 7)]
    # A month's mean of a wave of amplitude 8 is off by a quarter of it at the month's ends.
    assert np.abs(climatology.at(july) - truth(july)).max() < 3.0
    part = month_of(time) != 7
    climatology = Climatology.fit(time[part], values[part], 3 * HOUR, by_month=True)
    assert np.isfinite(climatology.at(july)).all()
    assert np.abs(climatology.at(july).mean(axis=(0, 2)) - values[part].mean(axis=(0, 2))).max() < 1.0


def test_a_climatology_of_some_stations_is_part_of_that_of_all():
    time, values, _ = cycle_record(days=430, annual=8.0)
    climatology = Climatology.fit(time, values, 3 * HOUR, annual=1)
    assert np.array_equal(climatology.take([2, 0]).at(time[:9]), climatology.at(time[:9])[:, [2, 0]])


def test_months_with_harmonics_and_no_values_are_refused():
    time, values, _ = cycle_record(days=10)
    with pytest.raises(UsageError):
        Climatology.fit(time, values, 3 * HOUR, by_month=True, annual=1)
    with pytest.raises(DataError):
        Climatology.fit(time, values * np.nan, 3 * HOUR)
