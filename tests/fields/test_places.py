"""The one type of places: one value for each name, selection in order, and its alias for networks."""

import numpy as np
import pytest

from fields.errors import UsageError
from fields.grid import LocalMetric
from fields.lift import LiftSettings, StationLift
from fields.places import Places, coordinates_of
from fields.windows import Stations
from station_records import make_stations

NAMES = ("a", "b", "c")


def three() -> Places:
    return Places(NAMES, [40, 41, 42], [5, 6, 7], [10, np.nan, 30])


def test_arrays_become_float64_and_names_text():
    places = Places((1, 2), np.float32([40, 41]), [5, 6], [7, 8])
    assert places.id == ("1", "2") and len(places) == 2
    assert {array.dtype for array in places.coordinates} == {np.dtype(np.float64)}


@pytest.mark.parametrize("short", ["lat", "lon", "alt"])
def test_a_list_of_the_wrong_length_is_refused(short):
    columns = {name: np.zeros(1 if name == short else 2) for name in ("lat", "lon", "alt")}
    with pytest.raises(UsageError, match=f"one {short} each"):
        Places(("a", "b"), **columns)


@pytest.mark.parametrize("index", [[2, 0], np.array([True, False, True]), slice(1, None)])
def test_places_are_taken_by_number_mask_or_slice(index):
    part = three().take(index)
    assert part.id == tuple(np.array(NAMES)[index])
    assert np.array_equal(part.lat, np.array([40.0, 41.0, 42.0])[index])
    assert np.array_equal(part.alt, np.array([10.0, np.nan, 30.0])[index], equal_nan=True)


def test_stations_of_a_dataset_are_read_with_their_names():
    ds = make_stations(2, 5)
    places = Places.from_dataset(ds)
    assert places.id == tuple(ds["station"].values) and np.array_equal(places.alt, ds["alt"].values)


def test_metres_are_those_of_the_metric():
    places, metric = three(), LocalMetric(41.0, 6.0)
    assert np.array_equal(places.xy(metric), metric.xy(places.lat, places.lon))
    assert places.xy(metric)[1].tolist() == [0.0, 0.0]


def test_one_altitude_serves_all_places_of_a_tuple():
    lat, lon, alt = coordinates_of(([40, 41], [5, 6], 300))
    assert lat.tolist() == [40.0, 41.0] and lon.tolist() == [5.0, 6.0] and alt.tolist() == [300.0, 300.0]


def test_a_lift_takes_places_as_it_takes_tuples():
    stations = Places(NAMES, [40, 41, 42], [5, 6, 7], [10, 20, 30])
    targets = Places(("x",), [40.5], [5.2], [100.0])
    settings = LiftSettings("terrain_idw")
    named = StationLift.between(stations, targets, settings)
    plain = StationLift.between(stations.coordinates, ([40.5], [5.2], 100.0), settings)
    assert np.array_equal(named.weights.weight, plain.weights.weight)


def test_stations_are_places():
    assert Stations is Places
