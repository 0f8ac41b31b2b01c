"""Wind components, humidity and pressure by MetPy against the formulas written out, compass points and inverses."""

import subprocess
import sys
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import given

import derivation_oracles as oracles
from fields import derive
from fields.errors import DataError

SHAPE = (500, 60)


@pytest.fixture(scope="module")
def block() -> dict[str, np.ndarray]:
    """Draw a block of single-precision observations with gaps and calm air, as ingest derives from."""
    rng = np.random.default_rng(0)
    temperature = rng.normal(285.0, 15.0, SHAPE)
    values = {
        "ff": np.where(rng.random(SHAPE) < 0.1, 0.0, rng.gamma(2.0, 2.0, SHAPE)), "dd": rng.uniform(0, 360, SHAPE),
        "t": temperature, "td": temperature - rng.gamma(1.0, 5.0, SHAPE), "psl": rng.normal(101300.0, 1000.0, SHAPE),
    }  # fmt: skip
    for table in values.values():
        table[rng.random(SHAPE) < 0.05] = np.nan
    values["alt"] = rng.uniform(-50.0, 3500.0, SHAPE[1])
    return {name: table.astype(np.float32) for name, table in values.items()}


@pytest.mark.parametrize(
    ("direction", "u", "v"),
    [(0, 0, -5), (90, -5, 0), (180, 0, 5), (270, 5, 0), (360, 0, -5)],
    ids=["north", "east", "south", "west", "north again"],
)
def test_wind_from_a_compass_point_blows_to_the_opposite_one(direction, u, v):
    wind = derive.wind_components(np.array([5.0]), np.array([float(direction)]))
    np.testing.assert_allclose(np.ravel(wind), [u, v], atol=1e-14)  # sines of whole quarters, in double precision


@pytest.mark.parametrize("direction", [0.0, 360.0, np.nan, 123.0])
def test_calm_air_has_no_direction_and_no_components(direction):
    u, v = derive.wind_components(np.array([0.0]), np.array([direction]))
    assert u[0] == 0.0 and v[0] == 0.0


def test_a_direction_that_is_missing_in_moving_air_leaves_the_wind_missing():
    u, v = derive.wind_components(np.array([3.0, np.nan]), np.array([np.nan, 90.0]))
    assert np.isnan([u, v]).all()


def test_an_impossible_direction_gives_wind_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        u, v = derive.wind_components(np.array([5.0, 5.0]), np.array([810.0, 360.0]))
    np.testing.assert_allclose([u, v], [[-5.0, 0.0], [0.0, -5.0]], atol=1e-14)


@given(st.floats(0.1, 60.0), st.floats(0.5, 360.0))
def test_speed_and_direction_are_recovered(speed, direction):
    wind = derive.wind_components(np.float64(speed), np.float64(direction))
    np.testing.assert_allclose(derive.wind_speed_direction(*wind), [speed, direction], rtol=1e-12)


def test_wind_components_of_a_block_are_those_of_the_formula_to_the_last_bit(block):
    derived = derive.wind_components(block["ff"], block["dd"])
    for component, expected in zip(derived, oracles.wind_components(block["ff"], block["dd"]), strict=True):
        assert component.dtype == np.float32
        np.testing.assert_array_equal(component, expected)


def test_humidity_of_a_block_is_that_of_the_formula(block):
    derived = derive.relative_humidity(block["t"], block["td"])
    assert derived.dtype == np.float32
    # In single precision the exponents of some 20 lose two digits: 1e-3 % of humidity, as in the table of tolerances.
    np.testing.assert_allclose(derived, oracles.relative_humidity(block["t"], block["td"]), atol=1e-5)
    double = block["t"].astype(float), block["td"].astype(float)
    np.testing.assert_allclose(derive.relative_humidity(*double), oracles.relative_humidity(*double), rtol=1e-10)


def test_station_pressure_of_a_block_is_that_of_the_formula(block):
    columns = block["psl"], block["t"], block["alt"][None, :]
    derived = derive.station_pressure(*columns)
    assert derived.dtype == np.float32
    # A power of 5.26 of a rounded ratio: some units in the last place, 0.008 Pa each.
    np.testing.assert_allclose(derived, oracles.station_pressure(*columns), rtol=1e-6)
    double = tuple(column.astype(float) for column in columns)
    np.testing.assert_allclose(derive.station_pressure(*double), oracles.station_pressure(*double), rtol=1e-10)


@pytest.mark.parametrize(
    ("formula", "columns", "name"),
    [
        (derive.wind_components, ("ff", "dd"), "wind_components"),
        (derive.wind_speed_direction, ("ff", "dd"), "wind_direction"),
        (derive.relative_humidity, ("t", "td"), "relative_humidity_from_dewpoint"),
        (derive.station_pressure, ("psl", "t", "alt"), "height_to_pressure_std"),
    ],
)
def test_formulas_are_metpys_with_units(block, monkeypatch, formula, columns, name):
    import metpy.calc

    calls = []
    original = getattr(metpy.calc, name)

    def watched(*quantities):
        calls.extend(quantity.units for quantity in quantities)
        return original(*quantities)

    monkeypatch.setattr(metpy.calc, name, watched)
    formula(*(block[column] for column in columns))
    assert calls


@pytest.mark.parametrize("entry", [["-c", "import fields, fields.derive, fields.ingest"], ["-m", "cli", "--help"]])
def test_metpy_is_not_imported_before_something_is_derived(entry):
    listed = subprocess.run(
        [sys.executable, "-X", "importtime", *entry], capture_output=True, text=True, check=True
    ).stderr
    assert "fields" in listed or "cli" in listed
    assert "metpy" not in listed


@given(st.floats(80_000.0, 105_000.0), st.floats(240.0, 315.0), st.floats(-100.0, 4000.0))
def test_reduction_to_the_sea_is_undone(pressure, temperature, altitude):
    reduced = oracles.sea_level_pressure(pressure, temperature, altitude)
    assert derive.station_pressure(reduced, temperature, altitude) == pytest.approx(pressure, rel=1e-12)
    assert (reduced > pressure) == (altitude > 0) or abs(altitude) < 1e-6


def test_the_standard_atmosphere_has_its_sea_level_pressure_at_every_altitude():
    altitude = np.linspace(0.0, 4000.0, 9)
    temperature = 288.15 - 6.5e-3 * altitude
    derived = derive.station_pressure(np.full(9, 101325.0), temperature, altitude)
    np.testing.assert_allclose(derived, derive.standard_pressure(altitude), rtol=1e-12)


def test_the_standard_atmosphere_is_metpys_but_for_the_temperature_it_rounds():
    from metpy.calc import height_to_pressure_std
    from metpy.units import units

    altitude = np.linspace(0.0, 5000.0, 11)
    theirs = height_to_pressure_std(altitude * units.m).m_as("Pa")
    # MetPy takes 288 K at sea level instead of 288.15 K, which shifts 540 hPa at 5 km by 0.3 hPa.
    np.testing.assert_allclose(derive.standard_pressure(altitude), theirs, rtol=1e-3)


def test_a_dataset_gets_what_is_missing_and_keeps_what_was_observed(stations):
    speed, direction = derive.wind_speed_direction(stations["u"].values, stations["v"].values)
    dims = ("time", "station")
    raw = stations.drop_vars(["u", "v"]).assign(ff=(dims, speed), dd=(dims, direction))
    filled = derive.with_wind(raw)
    np.testing.assert_allclose(filled["u"], stations["u"], atol=2e-6)  # single precision, speeds of 10 m/s
    assert filled["u"].dims == ("time", "station") and filled["u"].dtype == np.float32
    assert "from wind_speed" in filled.attrs["history"]

    raw = stations.copy(deep=True).assign(td=oracles.dew_point(stations["t"], stations["rh"]))
    raw["rh"][5, 2] = np.nan
    filled = derive.with_humidity(raw)
    assert filled["rh"].values[5, 2] == pytest.approx(float(stations["rh"][5, 2]), abs=1e-5)
    assert (filled["rh"] == stations["rh"]).sum() >= stations["rh"].size - 1


def test_pressure_comes_from_the_sea_or_from_the_standard_atmosphere(stations):
    psl = oracles.sea_level_pressure(stations["p"], stations["t"], stations["alt"])
    raw = stations.drop_vars("p").assign(psl=psl)
    filled = derive.with_station_pressure(raw)
    np.testing.assert_allclose(filled["p"], stations["p"], rtol=1e-6)
    assert filled["p"].dims == ("time", "station") and filled.attrs["pressure_kind"] == "station"
    standard = derive.with_standard_pressure(raw)
    assert standard.attrs["pressure_kind"] == "standard_atmosphere"
    assert standard["p"].dims == ("time", "station") and bool(standard["p"].notnull().all())
    np.testing.assert_allclose(standard["p"][0], derive.standard_pressure(stations["alt"]), rtol=1e-6)


def test_lazy_data_stay_lazy_and_give_the_same_values(stations):
    psl = oracles.sea_level_pressure(stations["p"], stations["t"], stations["alt"])
    parts = {"ff": np.hypot(stations["u"], stations["v"]), "dd": stations["rh"] * 360, "psl": psl, "t": stations["t"]}
    eager = xr.Dataset(parts)
    lazy = eager.chunk(time=24)
    for derived in (derive.with_wind, derive.with_station_pressure):
        names = {"with_wind": ("u", "v"), "with_station_pressure": ("p",)}[derived.__name__]
        for name in names:
            assert derived(lazy)[name].chunks is not None
            np.testing.assert_array_equal(derived(lazy)[name].values, derived(eager)[name].values)


def test_what_cannot_be_derived_names_what_is_absent(stations):
    with pytest.raises(DataError, match="needs t and td, and td is not in the data"):
        derive.with_humidity(stations)
