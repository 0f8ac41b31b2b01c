"""Fractions of the day and the year, and the harmonics built on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fields.errors import DataError
from fields.times import require_era
from fields.windows.time_features import annual_harmonics, day_fraction, month_of, year_fraction
from series_records import START

HOUR = 3600


def calendar(seconds):
    """Compute month and fraction of the year with the calendar of numpy."""
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


def test_harmonics_are_the_documented_ones():
    time = np.array([START + 40 * 86_400 + 6 * HOUR])
    phase, angle = 2 * np.pi * year_fraction(time), 2 * np.pi * 0.25
    annual = [np.cos(phase), np.sin(phase)]
    products = [a * b for a in annual for b in (np.cos(angle), np.sin(angle))]
    np.testing.assert_allclose(annual_harmonics(time, 1, True, np), annual + products)
