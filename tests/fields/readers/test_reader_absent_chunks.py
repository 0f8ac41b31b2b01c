"""Chunks that a foreign zarr store lacks, and coordinates that count the other way round."""

import numpy as np
import pytest
import xarray as xr

from fields import store
from fields.errors import DataError
from fields.ingest.pipeline import IngestOptions, ingest_files
from reader_files import Weather

WEATHER = Weather(8, 96)
UNITS = {"u": "m s-1", "v": "m s-1", "p": "hPa", "t": "degC", "rh": "%"}


def dataset(**changes):
    """Return the small network as a CF dataset."""
    values = {n: (("time", "station"), getattr(WEATHER, n).astype("f4"), {"units": u}) for n, u in UNITS.items()}
    places = {n: ("station", getattr(WEATHER, n)) for n in ("lat", "lon", "alt")}
    return xr.Dataset({**values, **changes}, {"time": WEATHER.time, "station": WEATHER.ids, **places})


def write_store(path, fill, shards=None, ds=None):
    """Write a zarr 3 store whose chunks of t are 24 hours of 4 stations, with a fill value."""
    about = {"chunks": (24, 4), "fill_value": fill} | ({"shards": shards} if shards else {})
    ds = dataset() if ds is None else ds
    ds.to_zarr(path, zarr_format=3, consolidated=False, encoding={"t": about}, write_empty_chunks=False)
    return path


def ingested(tmp_path, path):
    result = ingest_files(path, tmp_path / "o.zarr", IngestOptions())
    return store.open_store(result.path)["t"].values - 273.15, result.report


@pytest.mark.parametrize("fill", [0.0, 4.5])
@pytest.mark.parametrize("is_turned", [False, True], ids=["time first", "station first"])
def test_a_lost_chunk_is_missing_and_not_its_fill_value(tmp_path, fill, is_turned):
    ds = dataset(t=(("station", "time"), WEATHER.t.T.astype("f4"), {"units": "degC"})) if is_turned else dataset()
    about = {"t": {"chunks": (4, 24) if is_turned else (24, 4), "fill_value": fill}}
    ds.to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False, encoding=about)
    (tmp_path / "a.zarr" / "t" / "c" / ("0" if is_turned else "1") / ("1" if is_turned else "0")).unlink()
    t, report = ingested(tmp_path, tmp_path / "a.zarr")
    lost = np.zeros(t.shape, bool)
    lost[24:48, :4] = True
    assert np.isnan(t[lost]).all() and np.allclose(t[~lost], WEATHER.t[~lost], atol=0.01)
    assert any("lacks 1 chunk" in p.what and str(fill) in p.what for p in report.warnings)


def test_a_chunk_that_a_shard_lacks_is_missing_too(tmp_path):
    ds = dataset()
    ds["t"].values[24:48, :4] = 4.5  # left out when it is written
    t, report = ingested(tmp_path, write_store(tmp_path / "a.zarr", 4.5, (48, 8), ds))
    assert np.isnan(t[24:48, :4]).all() and np.isfinite(t).sum() == t.size - 96
    assert any("lacks 1 chunk" in p.what for p in report.warnings)


@pytest.mark.parametrize("shards", [None, (48, 8)], ids=["chunks", "shards"])
def test_nothing_is_said_of_a_whole_store(tmp_path, shards):
    t, report = ingested(tmp_path, write_store(tmp_path / "a.zarr", 0.0, shards))
    assert np.isfinite(t).all() and "SPDE-D103" not in report.codes()


def test_a_lost_chunk_of_places_is_refused(tmp_path):
    ds = dataset()
    ds.to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False, encoding={"lat": {"fill_value": 45.0}})
    (tmp_path / "a.zarr" / "lat" / "c" / "0").unlink()
    with pytest.raises(DataError, match="lat lacks 1 chunk"):
        ingested(tmp_path, tmp_path / "a.zarr")


def test_longitudes_that_count_westwards_and_latitudes_southwards_are_turned_round(tmp_path):
    ds = dataset()
    ds["lon"].attrs["units"], ds["lat"].attrs["units"] = "degrees_west", "degrees_south"
    ds.to_netcdf(tmp_path / "a.nc")
    got = store.open_store(ingest_files(tmp_path / "a.nc", tmp_path / "o.zarr", IngestOptions()).path)
    assert np.allclose(got["lon"].values, -WEATHER.lon) and np.allclose(got["lat"].values, -WEATHER.lat)


def test_latitudes_are_not_declared_westwards(tmp_path):
    ds = dataset()
    ds["lat"].attrs["units"] = "degrees_west"
    ds.to_netcdf(tmp_path / "a.nc")
    with pytest.raises(DataError, match="which is no known unit"):
        ingest_files(tmp_path / "a.nc", tmp_path / "o.zarr", IngestOptions())


def test_altitudes_that_count_downwards_are_refused(tmp_path):
    ds = dataset()
    ds["alt"].attrs["positive"] = "down"
    ds.to_netcdf(tmp_path / "a.nc")
    with pytest.raises(DataError, match="counts downwards") as caught:
        ingest_files(tmp_path / "a.nc", tmp_path / "o.zarr", IngestOptions())
    assert "the sign of the numbers" in caught.value.do


def test_variables_of_16_bits_are_told(tmp_path):
    ds = dataset(p=(("time", "station"), WEATHER.p.astype("f2"), {"units": "hPa"}))
    write_store(tmp_path / "a.zarr", np.nan, ds=ds)
    report = ingest_files(tmp_path / "a.zarr", tmp_path / "o.zarr", IngestOptions()).report
    assert any("p is stored in 16 bits" in p.what for p in report.warnings)
