"""What CF attributes say beyond the unit: another quantity, valid values, quality flags, extremes over time."""

import numpy as np
import pytest
import xarray as xr

from fields.errors import DataError
from reader_files import Weather, open_source, read_all

WEATHER = Weather(5, 48)
DIMS = ("time", "station")


def dataset(**attributes) -> xr.Dataset:
    """Build a CF dataset; ``t={...}`` adds attributes to a variable."""
    speed = np.hypot(WEATHER.u, WEATHER.v)
    direction = np.degrees(np.arctan2(-WEATHER.u, -WEATHER.v)) % 360
    units = {"t": "degC", "p": "hPa", "ff": "m s-1", "dd": "degree"}
    values = {"t": WEATHER.t, "p": WEATHER.p, "ff": speed, "dd": direction}
    places = {"lat": WEATHER.lat, "lon": WEATHER.lon, "alt": WEATHER.alt}
    return xr.Dataset(
        {n: (DIMS, x.copy(), {"units": units[n], **attributes.get(n, {})}) for n, x in values.items()},
        {"time": WEATHER.time.astype("datetime64[ns]"), "station": WEATHER.ids,
         **{n: ("station", x, {"units": "m" if n == "alt" else "degrees"}) for n, x in places.items()}},
    )  # fmt: skip


def opened(tmp_path, ds, encoding=None, **options):
    ds.to_netcdf(tmp_path / "obs.nc", encoding=encoding or {})
    return open_source(tmp_path / "obs.nc", tmp_path, **options)


@pytest.mark.parametrize(
    ("name", "standard"),
    [("t", "soil_temperature"), ("t", "air_temperature_anomaly"), ("t", "wet_bulb_temperature"),
     ("dd", "wind_to_direction")],
)  # fmt: skip
def test_a_name_does_not_count_where_the_standard_name_tells_of_another_quantity(tmp_path, name, standard):
    source = opened(tmp_path, dataset(**{name: {"standard_name": standard}}))
    assert name not in source.variables
    problem = next(p for p in source.findings() if p.code == "SPDE-D129")
    assert standard in problem.what and problem.severity == "warning"


@pytest.mark.parametrize("standard", ["air_temperature", "temperature", "2m temperature", ""])
def test_loose_standard_names_do_no_harm(tmp_path, standard):
    source = opened(tmp_path, dataset(t={"standard_name": standard}))
    assert "t" in source.variables and not [p for p in source.findings() if p.code == "SPDE-D129"]


def test_a_dew_point_called_t_is_read_as_dew_point_alone(tmp_path):
    source = opened(tmp_path, dataset(t={"standard_name": "dew_point_temperature"}))
    assert "td" in source.variables and "t" not in source.variables


def test_a_gust_called_ff_is_read_as_gust_alone(tmp_path):
    source = opened(tmp_path, dataset(ff={"standard_name": "wind_speed_of_gust"}))
    assert "gust" in source.variables and "ff" not in source.variables


def test_where_the_wind_goes_is_read_when_it_is_declared(tmp_path):
    source = opened(tmp_path, dataset(dd={"standard_name": "wind_to_direction"}), units={"dd": "towards"})
    assert "dd" in source.variables


@pytest.mark.parametrize(
    "bounds", [{"valid_range": [-40.0, 12.0]}, {"valid_max": 12.0}, {"valid_min": -40, "valid_max": 12}]
)
def test_values_outside_the_valid_range_are_missing_and_counted(tmp_path, bounds):
    source = opened(tmp_path, dataset(t=bounds))
    table = read_all(source)["t"]
    beyond = WEATHER.t > 12.0
    assert beyond.any() and np.isnan(table[beyond]).all() and np.allclose(table[~beyond], WEATHER.t[~beyond])
    assert any(p.code == "SPDE-D018" and "valid range" in p.what for p in source.findings())


def test_the_valid_range_of_packed_numbers_is_unpacked(tmp_path):
    packed = {"t": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}}
    source = opened(tmp_path, dataset(t={"valid_range": np.array([-5000, 200], "int16")}), packed)
    table = read_all(source)["t"]
    assert np.array_equal(np.isnan(table), np.round((WEATHER.t - 10) / 0.01) > 200)


@pytest.mark.parametrize(
    "bounds", [{"valid_range": "abc"}, {"valid_max": [1.0, 2.0, 3.0]}, {"valid_range": [5.0, 5.0]}]
)
def test_odd_valid_ranges_are_no_range(tmp_path, bounds):
    assert np.allclose(read_all(opened(tmp_path, dataset(t=bounds)))["t"], WEATHER.t)


def test_quality_flags_and_extremes_over_time_are_told(tmp_path):
    ds = dataset(t={"ancillary_variables": "t_qc"}, p={"cell_methods": "time: maximum (interval: 1 day)"})
    ds["t_qc"] = (DIMS, np.ones(WEATHER.t.shape, "i1"), {"flag_values": np.array([1, 4], "i1"), "flag_meanings": "a b"})
    told = " ".join(p.what for p in opened(tmp_path, ds).findings())
    assert "quality flags of t are not read: t_qc" in told and "p is a maximum over time" in told


@pytest.mark.parametrize("attribute", [{"scale_factor": 0.0}, {"add_offset": float("nan")}])
def test_a_scale_that_unpacks_to_nothing_is_refused(tmp_path, attribute):
    with pytest.raises(DataError, match="unpacks to nothing") as caught:
        opened(tmp_path, dataset(t=attribute))
    assert caught.value.code == "SPDE-D103"
