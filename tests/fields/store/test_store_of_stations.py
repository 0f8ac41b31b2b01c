"""A store that a program wrote, with other units, order or ids than ingest writes, is not computed with."""

import numpy as np
import pytest

from fields import store
from fields.errors import DataError, UsageError
from fields.qc import Flag
from fields.synthetic import make_network


def in_celsius(ds):
    ds["t"] = ds["t"] - 273.15
    ds["t"].attrs["units"] = "degC"
    return ds


def celsius_called_kelvin(ds):
    ds["t"] = (ds["t"] - 273.15).assign_attrs(ds["t"].attrs)
    return ds


def written_by_blocks(ds, path):
    """Write a store as another program may: block by block, without the checks of a whole dataset."""
    with store.create(path, ds) as staged:
        for region in staged.blocks():
            block = ds[list(staged.layouts)].isel(region)
            staged.write(block.drop_vars(list(block.coords)), region)


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (in_celsius, "SPDE-D032", "`t` is in [degC], a store holds [K]"),
        (celsius_called_kelvin, "SPDE-D012", "`t` cannot be in [K]: the median is"),
        (lambda ds: ds.assign(p=ds["p"] / 100), "SPDE-D012", "`p` cannot be in [Pa]"),
        (lambda ds: ds.isel(time=slice(None, None, -1)), "SPDE-D035", "not in order"),
        (lambda ds: ds.isel(time=[0, 1, 1, 2]), "SPDE-D035", "not each once"),
        (lambda ds: ds.isel(station=[0, 0, 1]), "SPDE-D033", "is there twice"),
    ],
)
def test_it_is_refused_with_what_is_wrong(tmp_path, spoil, code, words):
    ds = spoil(make_network(stations=4, days=1, seed=0))
    with pytest.raises(DataError) as not_written:
        store.write_store(ds, tmp_path / "refused.zarr")
    assert not_written.value.code == code and words in str(not_written.value)
    assert not list(tmp_path.iterdir())
    written_by_blocks(ds, tmp_path / "odd.zarr")
    with pytest.raises(DataError) as refused:
        store.open_stations(tmp_path / "odd.zarr")
    assert refused.value.code == code and words in str(refused.value)
    assert "stationpde data validate" in refused.value.do


def test_one_without_units_is_taken_as_si(tmp_path):
    ds = make_network(stations=4, days=1, seed=0)
    del ds["t"].attrs["units"]
    store.write_store(ds, tmp_path / "plain.zarr")
    assert np.isfinite(store.open_stations(tmp_path / "plain.zarr")["t"]).any()


def test_impossible_values_that_are_flagged_do_not_count(tmp_path):
    ds = celsius_called_kelvin(make_network(stations=4, days=1, seed=0))
    ds["t_flag"] = (ds["t"].dims, np.full(ds["t"].shape, int(Flag.RANGE), np.uint8))
    for masked in (True, False):
        path = store.write_store(ds, tmp_path / f"{masked}.zarr")
        assert store.open_stations(path, masked=masked).sizes["time"] == 24


@pytest.mark.parametrize("absent", ["lat", "station", "time"])
def test_stations_without_places_names_or_times_are_not_written(tmp_path, absent):
    with pytest.raises(UsageError, match=f"absent: {absent}"):
        store.write_store(make_network(stations=4, days=1, seed=0).drop_vars(absent), tmp_path / "x.zarr")
    assert not list(tmp_path.iterdir())
