from __future__ import annotations

import numpy as np

from fields.windows import Stations
from stationpde.extras.kinds import LEAST_SUN, bounded, sunlight, to_level, to_value

EQUATOR = Stations(("E",), np.array([0.0]), np.array([0.0]), np.array([0.0]))
EQUINOX = 1_679_356_800  # 21 March 2023, 00 UTC
HOURS = EQUINOX + 3600 * np.arange(25)


def test_sunlight_is_that_of_the_hour_before_and_nothing_at_night():
    sun = sunlight(HOURS, EQUATOR)[:, 0]
    assert (sun[[0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 24]] == 0).all()
    assert 1330 < sun.max() < 1361 and int(np.argmax(sun)) in (12, 13)
    # Half a turn of the sun: the mean of its sine over twelve hours is 2 / pi.
    np.testing.assert_allclose(sun[:24].sum() / 12, 1361 * 2 / np.pi, rtol=0.01)


def test_radiation_goes_to_a_share_of_the_sunlight_and_back():
    sun = sunlight(HOURS, EQUATOR)
    values = 0.6 * sun
    levels = to_level("radiation", values, sun)
    assert np.isnan(levels[sun < LEAST_SUN]).all()
    np.testing.assert_allclose(levels[sun >= LEAST_SUN], 0.6)
    np.testing.assert_allclose(to_value("radiation", np.full_like(sun, 0.6), sun), values)


def test_values_stay_within_what_a_variable_can_be():
    sun = np.array([0.0, 500.0])
    np.testing.assert_array_equal(bounded("precip", np.array([-1.0, 2.0]), sun), [0.0, 2.0])
    np.testing.assert_array_equal(bounded("cloud", np.array([-0.1, 1.4]), sun), [0.0, 1.0])
    np.testing.assert_array_equal(bounded("radiation", np.array([30.0, -5.0]), sun), [0.0, 0.0])
    np.testing.assert_array_equal(bounded("sunshine", np.array([600.0, 600.0]), sun), [0.0, 600.0])
