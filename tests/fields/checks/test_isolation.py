"""One station at a wrong place or altitude is named when its network is read."""

import numpy as np
import pytest

from fields.checks.isolation import check_isolation, check_neighbour_altitudes
from fields.checks.network import check_coordinates
from fields.checks.values import Subject

RNG = np.random.default_rng(4)
COUNT = 30
LAT, LON = RNG.uniform(46.0, 50.0, COUNT), RNG.uniform(2.0, 8.0, COUNT)
ALT = RNG.uniform(50.0, 900.0, COUNT)
SUBJECT = Subject("obs.csv", [f"S{i:02d}" for i in range(COUNT)])


def at(index, lat, lon):
    """Return the coordinates with one station at another place."""
    other_lat, other_lon = LAT.copy(), LON.copy()
    other_lat[index], other_lon[index] = lat, lon
    return other_lat, other_lon


@pytest.mark.parametrize(
    ("lat", "lon", "words"),
    [
        (LON[7], LAT[7], "latitude and longitude exchanged"),
        (-LAT[7], LON[7], "the other sign of latitude"),
        (-LAT[7], -LON[7], "the other sign of both"),
        (-LON[7], LAT[7], "exchanged and the other sign"),
    ],
)
def test_a_station_with_a_slip_in_its_coordinates_is_refused_with_the_slip(lat, lon, words):
    report = check_coordinates(*at(7, lat, lon), ALT, SUBJECT)
    (problem,) = report.errors
    assert problem.code == "SPDE-D013" and words in problem.what and "station S07" in problem.where
    assert f"S07 at {lat:.4f}, {lon:.4f}" in problem.why and "--drop S07" in problem.do


def test_unsigned_longitudes_are_found_although_they_are_near():
    """In Brittany a lost sign moves a station by a few hundred kilometres only."""
    lat, lon = RNG.uniform(47.5, 48.8, 40), RNG.uniform(-4.5, -2.5, 40)
    lon[11] = 4.0
    (problem,) = check_isolation(lat, lon, Subject("obs.csv", range(40))).errors
    assert "the other sign of longitude" in problem.what and "station 11" in problem.where


def test_who_vouches_for_the_places_gets_a_warning():
    trusting = Subject("obs.csv", SUBJECT.stations, trust=("lat",))
    report = check_isolation(*at(7, LON[7], LAT[7]), trusting)
    assert report.ok and "station S07" in report.warnings[0].where


def test_a_lonely_station_that_no_slip_explains_is_told():
    report = check_isolation(*at(7, 64.1, -21.9), SUBJECT)  # Reykjavík
    assert report.ok and report.warnings[0].code == "SPDE-D014"
    assert "km from the nearest" in report.warnings[0].why


def test_networks_of_several_parts_and_of_few_stations_are_not_judged():
    far = LAT.copy()
    far[:10] -= 60.0
    assert len(check_isolation(far, LON, SUBJECT)) == 0
    assert len(check_isolation(*(c[:4] for c in at(2, -40.0, 100.0)), SUBJECT)) == 0


def test_sound_networks_pass_in_silence_also_across_the_antimeridian_and_with_doubles():
    assert len(check_isolation(LAT, LON, SUBJECT)) == 0
    assert len(check_isolation(LAT, (LON + 175.0 + 180.0) % 360.0 - 180.0, SUBJECT)) == 0
    assert len(check_isolation(np.repeat(LAT[:15], 2), np.repeat(LON[:15], 2), SUBJECT)) == 0


@pytest.mark.parametrize("code", [9999.0, -999.0, -9999.0, 99999.0])
def test_an_altitude_that_is_a_code_is_refused_with_station_and_value(code):
    alt = ALT.copy()
    alt[5] = code
    (problem,) = check_coordinates(LAT, LON, alt, SUBJECT).errors
    assert problem.code == "SPDE-D015" and "codes for missing" in problem.what
    assert "station S05" in problem.where and f"{code:.6g} m" in problem.why and "ft" not in problem.do


def test_one_impossible_altitude_does_not_put_a_network_in_feet():
    alt = ALT.copy()
    alt[5] = 9500.0
    (problem,) = check_coordinates(LAT, LON, alt, SUBJECT).errors
    assert problem.what == "altitudes are out of range" and "station S05" in problem.where


def test_a_station_kilometres_above_its_neighbours_is_told():
    alt = ALT.copy()
    alt[5] = 5500.0
    (problem,) = check_neighbour_altitudes(LAT, LON, alt, SUBJECT).warnings
    assert "station S05" in problem.where and "5500 m" in problem.why
    assert len(check_neighbour_altitudes(LAT, LON, ALT, SUBJECT)) == 0


def test_real_networks_pass(shared_data):
    for name in ("inmet_south", "us_isd"):
        with np.load(shared_data / name / "observations.npz", allow_pickle=False) as arrays:
            lat, lon, alt = (np.asarray(arrays[c], float) for c in ("lat", "lon", "alt_m"))
        assert len(check_coordinates(lat, lon, alt, Subject(name))) == 0, name
