"""Quality control of variables beside the state."""

from __future__ import annotations

import numpy as np

from fields.qc import Flag, check_extra


def test_impossible_rain_is_flagged_and_a_shower_is_not():
    rain = np.zeros((72, 2), np.float32)
    rain[10, 0], rain[20, 0], rain[30, 1] = 45.0, -3.0, 700.0
    flags = check_extra("precip", rain, 1.0)
    assert flags[10, 0] == 0
    assert flags[20, 0] == flags[30, 1] == int(Flag.RANGE)
    assert np.count_nonzero(flags) == 2


def test_weeks_without_rain_and_nights_without_sun_are_no_stuck_sensor():
    assert not check_extra("precip", np.zeros((24 * 30, 1), np.float32), 1.0).any()
    hour = np.arange(24 * 10) % 24
    sun = np.maximum(0.0, 900.0 * np.sin((hour - 6) / 12 * np.pi)) + np.random.default_rng(0).random(240)
    assert not check_extra("radiation", np.where(hour % 24 < 6, -1.5, sun)[:, None].astype(np.float32), 1.0).any()


def test_a_stuck_and_a_leaping_anemometer_are_flagged():
    gust = 6.0 + np.random.default_rng(1).random((240, 1)).astype(np.float32)
    gust[100:130] = 7.25
    gust[200] = 80.0
    flags = check_extra("gust", gust, 1.0)
    assert (flags[100:130] == int(Flag.PERSISTENCE)).all()
    assert flags[200, 0] == int(Flag.STEP)
    assert np.count_nonzero(flags) == 31


def test_nothing_observed_is_nothing_flagged():
    assert not check_extra("visibility", np.full((50, 3), np.nan, np.float32), 1.0).any()
