"""CF datasets: NetCDF and foreign zarr, recognised by standard names, never decoded by a codec that runs code."""

import json
import os

import numpy as np
import pytest
import xarray as xr

from fields import store
from fields.errors import DataError
from reader_files import Weather, open_source, read_all


def dataset(weather: Weather, dims=("time", "station")) -> xr.Dataset:
    def laid(values):
        return values if dims[0] == "time" else values.T

    return xr.Dataset(
        {
            "temp2m": (dims, laid(weather.t + 273.15), {"standard_name": "air_temperature", "units": "K"}),
            "ps": (dims, laid(weather.p), {"units": "hPa"}),
            "relative_humidity": (dims, laid(weather.rh), {"units": "%", "standard_name": "relative_humidity"}),
            "u10": (dims, laid(weather.u), {"units": "m s-1"}),
            "v10": (dims, laid(weather.v), {"units": "m s-1"}),
            "colour": (dims, laid(weather.v)),
        },
        {
            "time": weather.time.astype("datetime64[ns]"),
            "station": weather.ids,
            "latitude": ("station", weather.lat, {"units": "degrees_north"}),
            "longitude": ("station", weather.lon, {"units": "degrees_east"}),
            "elevation": ("station", weather.alt, {"units": "m"}),
        },
    )


@pytest.fixture
def weather() -> Weather:
    return Weather(6, 48)


WRITERS = {
    "classic.nc": lambda ds, path: ds.to_netcdf(path, format="NETCDF3_64BIT", engine="netcdf4"),
    "four.nc": lambda ds, path: ds.to_netcdf(path, engine="netcdf4"),
    "two.zarr": lambda ds, path: ds.to_zarr(path, zarr_format=2, consolidated=True),
    "bare.zarr": lambda ds, path: ds.to_zarr(path, zarr_format=2, consolidated=False),
    "three.zarr": lambda ds, path: ds.to_zarr(path, zarr_format=3, consolidated=False),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dims", [("time", "station"), ("station", "time")])
@pytest.mark.parametrize("name", WRITERS)
def test_every_container_and_order_of_dimensions_reads_the_same(tmp_path, weather, name, dims):
    WRITERS[name](dataset(weather, dims), tmp_path / name)
    source = open_source(tmp_path / name, tmp_path)
    tables = read_all(source)
    assert source.reader == "dataset"
    assert np.allclose(tables["t"], weather.t + 273.15, atol=1e-3)
    assert np.allclose(tables["p"], weather.p, atol=1e-3)
    assert source.units["p"] == "hPa"
    assert source.network.ids.tolist() == weather.ids
    assert np.allclose(source.network.alt, weather.alt)


def test_what_is_left_out_is_said(tmp_path, weather):
    dataset(weather).to_netcdf(tmp_path / "o.nc")
    report = open_source(tmp_path / "o.nc", tmp_path).findings()
    assert "left out: colour" in [notice.what for notice in report.notices]


def test_a_store_of_ours_can_be_ingested_again(tmp_path, weather, stations):
    store.write_store(stations, tmp_path / "own.zarr")
    tables = read_all(open_source(tmp_path / "own.zarr", tmp_path))
    assert np.allclose(tables["t"], stations["t"].values)


def test_a_variable_without_units_asks_for_them(tmp_path, weather):
    ds = dataset(weather)
    del ds["ps"].attrs["units"]
    ds.to_netcdf(tmp_path / "o.nc")
    with pytest.raises(DataError, match="no units") as caught:
        open_source(tmp_path / "o.nc", tmp_path)
    assert "--unit p=hPa" in caught.value.do
    assert open_source(tmp_path / "o.nc", tmp_path, units={"p": "hPa"}).units["p"] == "hPa"


def test_a_grid_is_refused(tmp_path):
    ds = xr.Dataset({"t2m": (("time", "lat", "lon"), np.zeros((2, 3, 4)), {"units": "K"})})
    ds.to_netcdf(tmp_path / "grid.nc")
    with pytest.raises(DataError, match="dimensions"):
        open_source(tmp_path / "grid.nc", tmp_path)


def test_stations_without_positions_are_refused(tmp_path, weather):
    dataset(weather).drop_vars("elevation").to_netcdf(tmp_path / "o.nc")
    with pytest.raises(DataError, match="no variable gives alt"):
        open_source(tmp_path / "o.nc", tmp_path)


def test_positions_that_change_in_time_are_refused(tmp_path, weather):
    ds = dataset(weather)
    ds["latitude"] = (("time", "station"), np.broadcast_to(weather.lat, (48, 6)).copy())
    ds.to_netcdf(tmp_path / "o.nc")
    with pytest.raises(DataError) as caught:
        open_source(tmp_path / "o.nc", tmp_path)
    assert caught.value.code == "SPDE-D023"


def test_a_calendar_of_360_days_is_refused(tmp_path, weather):
    ds = dataset(weather).assign_coords(time=("time", np.arange(48.0), {"units": "hours since 2000-01-01",
                                                                       "calendar": "360_day"}))  # fmt: skip
    ds.to_netcdf(tmp_path / "o.nc")
    with pytest.raises(DataError, match="ordinary calendar"):
        open_source(tmp_path / "o.nc", tmp_path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_netcdf_file_is_refused(tmp_path, weather, share):
    dataset(weather).to_netcdf(tmp_path / "o.nc", engine="netcdf4")
    size = (tmp_path / "o.nc").stat().st_size
    os.truncate(tmp_path / "o.nc", int(size * share))
    with pytest.raises(DataError):
        read_all(open_source(tmp_path / "o.nc", tmp_path))


def test_a_zarr_array_packed_with_pickle_is_never_decoded(tmp_path, weather):
    dataset(weather).to_zarr(tmp_path / "two.zarr", zarr_format=2, consolidated=False)
    meta = tmp_path / "two.zarr" / "ps" / ".zarray"
    about = json.loads(meta.read_text())
    meta.write_text(json.dumps({**about, "filters": [{"id": "pickle"}]}))
    with pytest.raises(DataError, match="could run code") as caught:
        open_source(tmp_path / "two.zarr", tmp_path)
    assert caught.value.code == "SPDE-D101"


@pytest.mark.parametrize(
    "change", [{"shape": [10**9, 10**9]}, {"chunks": [10**6, 10**6]}, {"shape": [-1, 3]}, {"shape": "all"}]
)
def test_a_zarr_array_of_absurd_size_is_refused(tmp_path, weather, change):
    dataset(weather).to_zarr(tmp_path / "two.zarr", zarr_format=2, consolidated=False)
    meta = tmp_path / "two.zarr" / "ps" / ".zarray"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), **change}))
    with pytest.raises(DataError):
        open_source(tmp_path / "two.zarr", tmp_path)


def test_a_link_inside_a_foreign_store_is_refused(tmp_path, weather):
    dataset(weather).to_zarr(tmp_path / "two.zarr", zarr_format=2, consolidated=False)
    (tmp_path / "two.zarr" / "ps" / "9.9").symlink_to("/etc/hostname")
    with pytest.raises(DataError, match="is a link"):
        open_source(tmp_path / "two.zarr", tmp_path)


def with_units_of_time(path, weather, units, calendar="standard"):
    netcdf = pytest.importorskip("netCDF4")
    dataset(weather).to_netcdf(path, encoding={"time": {"units": "hours since 2021-03-01", "dtype": "float64"}})
    with netcdf.Dataset(path, "a") as file:
        file["time"].units, file["time"].calendar = units, calendar
    return path


@pytest.mark.parametrize(
    ("units", "calendar", "says"),
    [
        ("hours since 2021-03-01 00:00 EST", "standard", "can be read in several ways"),
        ("hours since 01-02-2021", "standard", "can be read in several ways"),
        ("months since 2021-01-01", "standard", "months since"),
        ("hours since 2021-03-01", "noleap", "calendar noleap"),
        ("seconds since 1970-01-01", "standard", "1s apart"),
        ("hours since 1704-03-01", "standard", "outside the era"),
    ],
)
def test_units_of_time_that_leave_times_open_are_refused(tmp_path, weather, units, calendar, says):
    path = with_units_of_time(tmp_path / "obs.nc", weather, units, calendar)
    with pytest.raises(DataError, match=says):
        open_source(path, tmp_path)


@pytest.mark.parametrize(
    ("units", "first"),
    [
        ("hours since 2021-3-1 0:0:0", "2021-03-01T00"), ("hours since 2021-03-01 00:00:00 +02:00", "2021-02-28T22"),
        ("hours since 2021-03-01T00:00:00Z", "2021-03-01T00"), ("hours since 2021-03-01 00:00:0.0", "2021-03-01T00"),
    ],
)  # fmt: skip
def test_a_reference_of_time_may_have_an_offset(tmp_path, weather, units, first):
    source = open_source(with_units_of_time(tmp_path / "obs.nc", weather, units), tmp_path)
    assert np.datetime64(source.axis.start, "s") == np.datetime64(first)


def test_a_declared_clock_is_applied(tmp_path, weather):
    dataset(weather).to_netcdf(tmp_path / "obs.nc")
    source = open_source(tmp_path / "obs.nc", tmp_path, zone="UTC+8")
    assert np.datetime64(source.axis.start, "s") == np.datetime64("2021-02-28T16:00") and source.zone == "UTC+8"


@pytest.mark.parametrize("named", [True, False])
def test_two_variables_of_one_meaning_that_differ_are_refused(tmp_path, weather, named):
    ds = dataset(weather).rename(temp2m="t2m")
    ds["tas"] = ds["t2m"] + 1
    for name in ("t2m", "tas"):
        ds[name].attrs = {"units": "K", **({"standard_name": "air_temperature"} if named else {})}
    ds.to_netcdf(tmp_path / "two.nc")
    with pytest.raises(DataError, match="'t2m' and 'tas' could both be t"):
        open_source(tmp_path / "two.nc", tmp_path)
    ds.rename(tas="t").to_netcdf(tmp_path / "named.nc")
    ds.assign(tas=ds["t2m"]).to_netcdf(tmp_path / "same.nc")
    if named:
        assert np.allclose(read_all(open_source(tmp_path / "named.nc", tmp_path))["t"], weather.t + 274.15, atol=1e-3)
    assert np.allclose(read_all(open_source(tmp_path / "same.nc", tmp_path))["t"], weather.t + 273.15, atol=1e-3)
