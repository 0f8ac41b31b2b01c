"""How much of a history was observed, and how often stations report."""

import numpy as np
import pytest

from stationpde.data.history_coverage import HistoryCoverage, reporting_step

HOUR = 3600


def history(moments: int = 8, stations: int = 10) -> np.ndarray:
    return np.ones((moments, stations, 5), np.float32)


def test_a_whole_history_and_one_moment():
    values = history()
    assert HistoryCoverage.of(values).present == 1.0
    values[:-1] = np.nan
    coverage = HistoryCoverage.of(values)
    assert coverage.present == coverage.values == pytest.approx(1 / 8) and coverage.moments == 8


def test_silent_stations_count_in_the_network_and_not_in_the_history():
    values = history()
    values[2:, 2:] = np.nan
    coverage = HistoryCoverage.of(values)
    assert coverage.present == 1.0 and coverage.values == pytest.approx(0.2 + 0.8 * 2 / 8)


def test_a_variable_that_few_stations_observe_is_judged_by_these():
    values = history()
    values[:, 2:, 2] = np.nan  # pressure at two of ten stations, as in MeteoNet
    assert HistoryCoverage.of(values).present == 1.0
    values[:, :, 2] = np.nan
    coverage = HistoryCoverage.of(values)
    assert coverage.unseen == ("p",) and coverage.present == pytest.approx(4 / 5)
    assert HistoryCoverage.of(values, reference=("p",)).present == 1.0


def test_the_thinnest_variable_is_named():
    values = history()
    values[:-1, :, 3] = np.nan
    coverage = HistoryCoverage.of(values)
    assert coverage.thinnest == "t" and coverage.by_variable["t"] == pytest.approx(1 / 8)


def test_stations_of_the_network_that_are_not_there_count_as_missing():
    values = history(stations=2)
    assert HistoryCoverage.of(values, network=np.array([0, 1, -1, -1])).values == pytest.approx(0.5)


def test_a_gap_does_not_lengthen_the_step_and_one_busy_station_does_not_shorten_it():
    seconds = np.arange(48) * HOUR
    every_third = np.zeros((48, 10), bool)
    every_third[::3] = True
    every_third[[3, 9, 12], :5] = False
    assert reporting_step(seconds, every_third) == 3 * HOUR
    every_fifth = np.zeros((48, 10), bool)
    every_fifth[::5] = True
    every_fifth[:, 0] = True
    assert reporting_step(seconds, every_fifth) == 5 * HOUR


def test_two_reports_are_no_step():
    reports = np.zeros((48, 3), bool)
    reports[[0, 30]] = True
    assert reporting_step(np.arange(48) * HOUR, reports) is None
