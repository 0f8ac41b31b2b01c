"""Errors by group: groups of targets add up, and gains are those of the sums."""

import numpy as np
import pytest

from stationpde.evaluation.cells import Cell
from stationpde.evaluation.contestants import Task
from stationpde.evaluation.error_groups import better_stations, error_groups, rival
from stationpde.evaluation.error_sums import ErrorStatistics
from stationpde.evaluation.results import HorizonResults

VARIABLES = ("p", "t")
ALTITUDE = np.array([50.0, 150.0, 700.0])


def sums(squared):
    """``[row, group, variable]`` of squared errors with ten targets each; the other rows do not matter here."""
    squared = np.asarray(squared, float)
    return np.stack([np.full(squared.shape, 10.0), squared, squared, squared])


def cell(model, kind="trained", nmse=1.0, *, factor=1.0, day=None, station=None):
    day = factor * np.tile(np.arange(1.0, 10.0)[:, None], (1, 2)) if day is None else day
    station = factor * np.array([[10.0, 20.0], [30.0, 10.0], [5.0, 15.0]]) if station is None else station
    lead, hour = factor * np.full((20, 2), 3.0), factor * np.full((2, 2), 4.0)
    found = ErrorStatistics(VARIABLES, ("A", "B", "C"), tuple(range(1, 21)), (0.0, 12.0), 100, sums(day), sums(lead),
                            sums(station), sums(hour))  # fmt: skip
    scores = {name: {"mse": 1.0, "mae": 1.0, "bias": 0.0, "nmse": nmse, "unit": "K"} for name in VARIABLES}
    about = {"model_kind": kind, "scores": scores, "title": model, "training": {}, "data": {}}
    return (Cell(Task("w2k-like", 24, model, 0), "", about, found),)


@pytest.fixture
def found():
    quiet = np.array([9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0])
    return HorizonResults(24, {
        "default": cell("default", "ours", 0.4, factor=0.5),
        "default-no_pde": cell("default-no_pde", "ours", 0.41),
        "ridge": cell("ridge", nmse=0.6),
        "blend": cell("blend", nmse=0.5),
        "persistence": cell("persistence", "rule", 2.0, day=np.stack([quiet, quiet], axis=1)),
    })  # fmt: skip


def by(found, kind):
    return [group for group in error_groups(found, ALTITUDE) if group.by == kind]


def test_the_rival_is_the_best_that_is_not_ours(found):
    assert rival(found) == "blend"
    assert rival(HorizonResults(24, {"default": found.cells["default"]})) is None


def test_half_the_squared_error_is_a_gain_of_a_half_in_every_group(found):
    groups = list(error_groups(found, ALTITUDE))
    assert {group.by for group in groups} == {"lead", "hour", "elevation", "days"}
    assert all(gain == pytest.approx(0.5) for group in groups for gain in group.gain.values())


def test_bands_of_altitude_are_means_over_their_stations(found):
    low, high = by(found, "elevation")
    assert low.label == "below 200 m" and low.mse == pytest.approx({"p": 1.0, "t": 0.75})
    assert high.mse == pytest.approx({"p": 0.25, "t": 0.75})


def test_days_are_parted_by_how_much_pressure_changes(found):
    # Persistence errs least on the days 1, 3 and 5 (counted from 0), most on 0, 2 and 4.
    mse = {group.label: group.mse["t"] for group in by(found, "days")}
    each = 0.05 * np.arange(1, 10)
    assert mse["steady"] == pytest.approx(each[[1, 3, 5]].mean())
    assert mse["most changing"] == pytest.approx(each[[0, 2, 4]].mean())


def test_without_persistence_days_are_not_parted(found):
    less = HorizonResults(24, {name: cells for name, cells in found.cells.items() if name != "persistence"})
    assert not by(less, "days") and by(less, "lead")


def test_of_many_leads_a_few_are_shown_with_the_first_and_the_last(found):
    shown = [group.label for group in by(found, "lead")]
    assert len(shown) == 6 and shown[0] == "1 h" and shown[-1] == "20 h"


def test_stations_are_counted_where_the_error_is_lower(found):
    assert better_stations(found) == {"p": (3, 3), "t": (3, 3)}
    other = dict(found.cells) | {"blend": cell("blend", nmse=0.5, station=np.array([[1, 90], [90, 90], [90, 1.0]]))}
    assert better_stations(HorizonResults(24, other)) == {"p": (2, 3), "t": (2, 3)}
