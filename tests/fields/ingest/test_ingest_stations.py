"""Stations whose values are plausible and wrong: told by comparison with the neighbours and with their own record."""

import numpy as np
import pytest

from fields import store
from fields.checks import twin_stations
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import ReadOptions
from reader_files import Weather, write_npz, write_rows

WEATHER = Weather(8, 96)
# Near enough to one another to be compared, and so cool that Fahrenheit is plausible as Celsius.
WEATHER.lat, WEATHER.lon = 45 + (WEATHER.lat - 46) / 4, 6 + WEATHER.lon / 4
WEATHER.t = WEATHER.t - 8
ODD = "S003"


def told(tmp_path, change=lambda i, row: None, more=()):
    """Ingest rows that a function changed, and return the warnings by code, each with place and advice."""
    rows = WEATHER.rows()
    for i, row in enumerate(rows):
        change(i, row)
    result = ingest_files(write_rows(tmp_path / "obs.csv", [*rows, *more]), tmp_path / "o.zarr", IngestOptions())
    return {p.code: f"{p.what}; {p.where}; {p.do}" for p in result.report.warnings}


def at_one(**changes):
    """Return a function that changes columns of one station."""
    return lambda i, row: row.update({n: f(row) for n, f in changes.items()}) if row["station"] == ODD else None


def test_nothing_is_said_of_a_network_in_order(tmp_path):
    assert told(tmp_path) == {}


def test_one_station_in_fahrenheit_is_told_with_its_name(tmp_path):
    message = told(tmp_path, at_one(t=lambda row: row["t"] * 1.8 + 32))["SPDE-D042"]
    assert "looks like degF" in message and f"station {ODD}" in message and f"--drop {ODD}" in message


def test_a_station_whose_temperature_lost_its_sign_is_told(tmp_path):
    message = told(tmp_path, at_one(t=lambda row: -row["t"]))["SPDE-D042"]
    assert "sign" in message and f"station {ODD}" in message


def test_a_station_far_from_its_neighbours_is_told_without_a_guess(tmp_path):
    message = told(tmp_path, at_one(t=lambda row: row["t"] - 22))["SPDE-D042"]
    assert "far from that of the neighbours" in message and f"station {ODD}" in message


def test_a_high_station_is_no_cold_one(tmp_path):
    assert "SPDE-D042" not in told(tmp_path, at_one(alt=lambda row: 3200.0, t=lambda row: row["t"] - 18))


def test_humidity_that_becomes_a_fraction_in_mid_record_is_told(tmp_path):
    def later_a_fraction(i, row):
        row["rh"] /= 100 if i > 600 else 1

    assert "does the unit change to a fraction" in told(tmp_path, later_a_fraction)["SPDE-D042"]


def test_zeros_for_missing_humidities_are_told(tmp_path):
    message = told(tmp_path, lambda i, row: row.update(rh=0.0) if i % 9 == 0 else None)["SPDE-D018"]
    assert "is 0 written for missing?" in message and "› rh" in message


def test_zeros_for_missing_temperatures_are_told(tmp_path):
    def warm_with_zeros(i, row):
        is_lost = row["station"] == ODD and row["time"][11:13] in ("11", "14", "17")
        row["t"] = 0.0 if is_lost else row["t"] + 16

    message = told(tmp_path, warm_with_zeros)["SPDE-D018"]
    assert "is 0 written for missing?" in message and f"station {ODD}" in message


def test_a_frost_is_not_taken_for_missing_temperatures(tmp_path):
    def cold_and_whole(i, row):
        row["t"] = float(round(row["t"] - 12)) if row["station"] == ODD else row["t"]

    assert "SPDE-D018" not in told(tmp_path, cold_and_whole)


@pytest.mark.parametrize("is_one", [True, False], ids=["one", "all"])
def test_an_anemometer_that_never_turns_is_told(tmp_path, is_one):
    still = at_one(u=lambda row: 0.0, v=lambda row: 0.0) if is_one else lambda i, row: row.update(u=0.0, v=0.0)
    message = told(tmp_path, still)["SPDE-D026"]
    assert "without any wind" in message and (f"station {ODD}" in message) == is_one


def test_a_calm_day_is_no_dead_anemometer(tmp_path):
    assert "SPDE-D026" not in told(tmp_path, lambda i, row: row.update(u=0.0, v=0.0) if i < 700 else None)


def test_one_station_under_two_ids_is_told_wherever_it_is_said_to_stand(tmp_path):
    rows = [row for row in WEATHER.rows() if row["station"] == ODD]
    message = told(tmp_path, more=[{**row, "station": "X"} for row in rows])["SPDE-D024"]
    assert "one under two ids" in message and "--drop X" in message
    elsewhere = [{**row, "station": "X", "lat": row["lat"] + 0.5} for row in rows]
    assert "--drop X" in told(tmp_path.joinpath("b").mkdir() or tmp_path / "b", more=elsewhere)["SPDE-D024"]


def test_two_stations_at_one_place_with_values_of_their_own_are_no_twins():
    values = {"t": np.random.default_rng(0).normal(size=(60, 3))}
    assert twin_stations(values, np.full(3, 45.0), np.full(3, 6.0)) == []
    values["t"][:, 2] = values["t"][:, 0]
    values["t"][::30, 2] += 1
    assert twin_stations(values, np.full(3, 45.0), np.full(3, 6.0)) == [(0, 2)]


def test_what_is_told_changes_no_value(tmp_path):
    obs = np.stack([WEATHER.u, WEATHER.v, WEATHER.p, WEATHER.t, WEATHER.rh], axis=-1).astype(np.float32)
    obs[:, 3, 3] = obs[:, 3, 3] * 1.8 + 32
    result = ingest_files(write_npz(tmp_path / "o.npz", WEATHER, obs=obs), tmp_path / "o.zarr", IngestOptions())
    assert "SPDE-D042" in result.report.codes()
    assert np.allclose(store.open_store(result.path)["t"].values, obs[:, :, 3] + 273.15, atol=0.01)


def test_a_second_station_left_out_does_not_bring_back_the_first(tmp_path):
    rows = [row for row in WEATHER.rows() if row["station"] == ODD]
    path = write_rows(tmp_path / "obs.csv", [*WEATHER.rows(), *({**row, "station": "X"} for row in rows)])
    result = ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=ReadOptions(drop=("S001",))))
    assert "--drop S001,X" in next(p.do for p in result.report.warnings if p.code == "SPDE-D024")
