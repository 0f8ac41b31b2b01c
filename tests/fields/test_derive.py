"""Wind components, humidity and pressure references, against compass points, MetPy and their own inverses."""

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import given

from fields import derive
from fields.errors import DataError


@pytest.mark.parametrize(
    ("direction", "u", "v"),
    [(0, 0, -5), (90, -5, 0), (180, 0, 5), (270, 5, 0), (360, 0, -5)],
    ids=["north", "east", "south", "west", "north again"],
)
def test_wind_from_a_compass_point_blows_to_the_opposite_one(direction, u, v):
    found = derive.wind_components(np.array([5.0]), np.array([float(direction)]))
    np.testing.assert_allclose(np.ravel(found), [u, v], atol=1e-14)  # sines of whole quarters, in double precision


@pytest.mark.parametrize("direction", [0.0, 360.0, np.nan, 123.0])
def test_calm_air_has_no_direction_and_no_components(direction):
    u, v = derive.wind_components(np.array([0.0]), np.array([direction]))
    assert u[0] == 0.0 and v[0] == 0.0


def test_a_direction_that_is_missing_in_moving_air_leaves_the_wind_missing():
    u, v = derive.wind_components(np.array([3.0, np.nan]), np.array([np.nan, 90.0]))
    assert np.isnan([u, v]).all()


@given(st.floats(0.1, 60.0), st.floats(0.5, 360.0))
def test_speed_and_direction_are_recovered(speed, direction):
    found = derive.wind_speed_direction(*derive.wind_components(np.float64(speed), np.float64(direction)))
    np.testing.assert_allclose(found, [speed, direction], rtol=1e-12)


def test_saturation_and_humidity_are_metpys():
    calc = pytest.importorskip("metpy.calc")
    from metpy.units import units

    temperature = np.linspace(230.0, 320.0, 91)
    dew = temperature - np.linspace(0.0, 30.0, 91)
    ours = derive.saturation_vapour_pressure(temperature)
    theirs = calc.saturation_vapor_pressure(temperature * units.K).to("Pa").magnitude
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)  # the table of tolerances: MetPy in double precision
    theirs = calc.relative_humidity_from_dewpoint(temperature * units.K, dew * units.K).to("").magnitude
    np.testing.assert_allclose(derive.relative_humidity(temperature, dew), theirs, rtol=1e-10)


@given(st.floats(230.0, 320.0), st.floats(0.02, 1.0))
def test_the_dew_point_gives_the_humidity_back(temperature, humidity):
    dew = derive.dew_point(np.float64(temperature), np.float64(humidity))
    assert derive.relative_humidity(temperature, dew) == pytest.approx(humidity, rel=1e-9)
    assert dew <= temperature + 1e-9


@given(st.floats(80_000.0, 105_000.0), st.floats(240.0, 315.0), st.floats(-100.0, 4000.0))
def test_reduction_to_the_sea_is_undone(pressure, temperature, altitude):
    reduced = derive.sea_level_pressure(pressure, temperature, altitude)
    assert derive.station_pressure(reduced, temperature, altitude) == pytest.approx(pressure, rel=1e-12)
    assert (reduced > pressure) == (altitude > 0) or altitude == 0 or abs(altitude) < 1e-6


def test_the_standard_atmosphere_reduces_to_its_own_sea_level():
    altitude = np.linspace(0.0, 4000.0, 9)
    temperature = 288.15 - 6.5e-3 * altitude
    reduced = derive.sea_level_pressure(derive.standard_pressure(altitude), temperature, altitude)
    np.testing.assert_allclose(reduced, 101325.0, rtol=1e-12)


def test_the_standard_atmosphere_is_metpys():
    calc = pytest.importorskip("metpy.calc")
    from metpy.units import units

    altitude = np.linspace(0.0, 5000.0, 11)
    theirs = calc.height_to_pressure_std(altitude * units.m).to("Pa").magnitude
    # MetPy rounds the temperature at sea level to 288 K, which shifts 540 hPa at 5 km by 0.3 hPa.
    np.testing.assert_allclose(derive.standard_pressure(altitude), theirs, rtol=1e-3)


def test_a_dataset_gets_what_is_missing_and_keeps_what_was_observed(stations):
    speed, direction = derive.wind_speed_direction(stations["u"], stations["v"])
    raw = stations.drop_vars(["u", "v"]).assign(ff=speed, dd=direction)
    made = derive.with_wind(raw)
    np.testing.assert_allclose(made["u"], stations["u"], atol=2e-6)  # single precision, speeds of 10 m/s
    assert made["u"].dims == ("time", "station") and made["u"].dtype == np.float32
    assert "from wind_speed" in made.attrs["history"]

    raw = stations.copy(deep=True).assign(td=derive.dew_point(stations["t"], stations["rh"]))
    raw["rh"][5, 2] = np.nan
    made = derive.with_humidity(raw)
    assert made["rh"].values[5, 2] == pytest.approx(float(stations["rh"][5, 2]), abs=1e-5)
    assert (made["rh"] == stations["rh"]).sum() >= stations["rh"].size - 1


def test_pressure_comes_from_the_sea_or_from_the_standard_atmosphere(stations):
    psl = derive.sea_level_pressure(stations["p"], stations["t"], stations["alt"])
    raw = stations.drop_vars("p").assign(psl=psl)
    made = derive.with_station_pressure(raw)
    np.testing.assert_allclose(made["p"], stations["p"], rtol=1e-6)
    standard = derive.with_standard_pressure(raw)
    assert standard.attrs["pressure_kind"] == "standard_atmosphere"
    assert standard["p"].dims == ("time", "station") and bool(standard["p"].notnull().all())
    np.testing.assert_allclose(standard["p"][0], derive.standard_pressure(stations["alt"]), rtol=1e-6)


def test_lazy_data_stay_lazy(stations):
    raw = xr.Dataset({"ff": np.hypot(stations["u"], stations["v"]), "dd": stations["rh"] * 360}).chunk(time=24)
    assert derive.with_wind(raw)["u"].chunks is not None


def test_what_cannot_be_derived_names_what_is_absent(stations):
    with pytest.raises(DataError, match="needs t and td, and td is not in the data"):
        derive.with_humidity(stations)
