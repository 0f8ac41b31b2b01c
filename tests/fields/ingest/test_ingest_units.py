"""Unit slips: each is refused with the command that mends it, the command is typed, and the store is right."""

import re
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from cli.main import app
from fields import store
from fields.errors import DataError
from fields.ingest.pipeline import ingest_files
from reader_files import Weather, write_npz, write_rows


def foot(metres):
    return metres / 0.3048


def knots_of_storms(rows):
    """Turn rows into a windy network in knots, faster than any network is in metres a second."""
    for row in rows:
        row["u"], row["v"] = (row["u"] + 12) * 1.943844, (row["v"] - 12) * 1.943844


def change(name, function):
    def apply(rows):
        for row in rows:
            row[name] = function(row[name])

    return apply


def exchange(rows):
    for row in rows:
        row["lat"], row["lon"] = row["lon"] + 110, row["lat"]


def reduce_to_sea(rows):
    for row in rows:
        row["p"] = row["p"] * (1 - 2.25577e-5 * row["alt"]) ** -5.2559


SLIPS = {
    "pascal": (change("p", lambda p: p * 100), "p=Pa", "SPDE-D012"),
    "inches of mercury": (change("p", lambda p: p / 33.8639), "p=inHg", "SPDE-D012"),
    "kelvin": (change("t", lambda t: t + 273.15), "t=K", "SPDE-D012"),
    "fahrenheit": (change("t", lambda t: (t + 18) * 1.8 + 32), "t=degF", "SPDE-D012"),
    "fraction": (change("rh", lambda rh: rh / 100), "rh=1", "SPDE-D012"),
    "feet": (change("alt", foot), "alt=ft", "SPDE-D015"),
    "0 to 360": (change("lon", lambda lon: lon % 360), "lon=0-360", "SPDE-D014"),
}


def slipped(tmp_path, slip):
    # High ground, so that feet and reduced pressures tell.
    weather = Weather(12, 240)
    rows = weather.rows()
    slip(rows)
    return write_rows(tmp_path / "obs.csv", rows), weather


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_refused_and_the_command_in_the_message_mends_it(tmp_path, name):
    slip, option, code = SLIPS[name]
    path, weather = slipped(tmp_path, slip)
    with pytest.raises(DataError) as caught:
        ingest_files(path, tmp_path / "o.zarr")
    problem = next(p for p in (caught.value.problems or [caught.value]) if p.code == code)
    assert f"--unit {option}" in problem.do
    assert not (tmp_path / "o.zarr").exists()
    outcome = CliRunner().invoke(app, shlex.split(problem.do)[1:])
    assert outcome.exit_code == 0, outcome.output
    stored = store.open_store(tmp_path / "o.zarr")
    shift = 18 if name == "fahrenheit" else 0
    assert np.allclose(stored["p"].values, weather.p * 100, rtol=1e-4)
    assert np.allclose(stored["t"].values, weather.t + 273.15 + shift, atol=0.01, equal_nan=True)
    assert np.allclose(stored["alt"].values, weather.alt, atol=0.1)
    assert np.allclose(stored["lon"].values, weather.lon, atol=1e-4)


def test_sea_level_pressure_given_as_station_pressure_is_found_and_mended(tmp_path):
    path, weather = slipped(tmp_path, reduce_to_sea)
    with pytest.raises(DataError, match="reduced to the sea") as caught:
        ingest_files(path, tmp_path / "o.zarr")
    command = caught.value.do[caught.value.do.index("stationpde") :]
    assert "--pressure sea-level" in command
    assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 0
    stored = store.open_store(tmp_path / "o.zarr")
    # Brought back with the temperature of the day instead of the standard one: a few hPa at 1,500 m.
    assert np.nanmax(np.abs(stored["p"].values - weather.p * 100)) < 800
    assert {"p", "psl"} <= set(stored.data_vars)


def test_wind_in_knots_of_a_windy_network_is_found(tmp_path):
    path, _ = slipped(tmp_path, knots_of_storms)
    with pytest.raises(DataError) as caught:
        ingest_files(path, tmp_path / "o.zarr")
    assert caught.value.code in ("SPDE-D011", "SPDE-D012")


def test_exchanged_coordinates_are_found(tmp_path):
    path, _ = slipped(tmp_path, exchange)
    with pytest.raises(DataError, match="exchanged") as caught:
        ingest_files(path, tmp_path / "o.zarr")
    assert caught.value.code == "SPDE-D013"
    # The command in the message puts them right.
    assert CliRunner().invoke(app, shlex.split(caught.value.do)[1:]).exit_code == 0
    stored = store.open_store(tmp_path / "o.zarr")
    lat, lon = stored["lat"].values, stored["lon"].values
    assert lon.min() > 105 and lon.max() < 125 and np.abs(lat).max() < 60


def test_several_slips_are_reported_together(tmp_path):
    def both(rows):
        SLIPS["pascal"][0](rows)
        SLIPS["kelvin"][0](rows)

    path, _ = slipped(tmp_path, both)
    with pytest.raises(DataError, match="2 problems") as caught:
        ingest_files(path, tmp_path / "o.zarr")
    assert [p.do.split()[-1] for p in caught.value.problems] == ["p=Pa", "t=K"]
    # One command mends them all.
    command = caught.value.do.removeprefix("all at once: ")
    assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 0


def test_a_unit_that_measures_something_else_is_refused(tmp_path):
    outcome = CliRunner().invoke(app, ["data", "ingest", str(write_npz(tmp_path / "o.npz", Weather())), "-o",
                                       str(tmp_path / "o.zarr"), "--unit", "p=knots"])  # fmt: skip
    assert outcome.exit_code == 3
    assert "does not measure" in outcome.output


@pytest.mark.parametrize("sentinel", [-9999.0, 9999.0, 32766.0, -999.9])
def test_numeric_codes_for_missing_become_missing_and_are_counted(tmp_path, sentinel):
    weather = Weather(6, 120)
    weather.t[3:9, 2] = sentinel
    result = ingest_files(write_npz(tmp_path / "o.npz", weather), tmp_path / "o.zarr")
    stored = store.open_store(tmp_path / "o.zarr")
    assert np.isnan(stored["t"].values[3:9, 2]).all()
    assert (stored["t_flag"].values[3:9, 2] & 64).all()
    assert any(re.match(r"6 of [\d,]+ values of t are codes for missing", n.what) for n in result.report.notices)


def test_infinite_values_become_missing_and_are_flagged(tmp_path):
    weather = Weather(6, 120)
    weather.t[3, 2], weather.p[4, 1] = np.inf, -np.inf
    ingest_files(write_npz(tmp_path / "o.npz", weather), tmp_path / "o.zarr")
    stored = store.open_store(tmp_path / "o.zarr")
    assert np.isnan(stored["t"].values[3, 2])
    assert np.isnan(stored["p"].values[4, 1])
    assert stored["t_flag"].values[3, 2] & 64


def test_impossible_values_are_flagged_and_kept_beneath_the_flag(tmp_path):
    weather = Weather(6, 120)
    weather.rh[5, 1], weather.t[6, 2], weather.p[7, 3] = 140.0, -95.0, 250.0
    ingest_files(write_npz(tmp_path / "o.npz", weather), tmp_path / "o.zarr")
    masked, unmasked = store.open_store(tmp_path / "o.zarr"), store.open_store(tmp_path / "o.zarr", masked=False)
    for name, place in (("rh", (5, 1)), ("t", (6, 2)), ("p", (7, 3))):
        assert np.isnan(masked[name].values[place])
        assert np.isfinite(unmasked[name].values[place])
        assert unmasked[f"{name}_flag"].values[place] & 1


def test_values_that_a_user_vouches_for_pass_with_a_warning(tmp_path):
    weather = Weather(6, 120)
    weather.t += 45
    path = write_npz(tmp_path / "o.npz", weather)
    with pytest.raises(DataError):
        ingest_files(path, tmp_path / "o.zarr")
    outcome = CliRunner().invoke(app, ["data", "ingest", str(path), "-o", str(tmp_path / "o.zarr"), "--trust", "t"])
    assert outcome.exit_code == 0, outcome.output
