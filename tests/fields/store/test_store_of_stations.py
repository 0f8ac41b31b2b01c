"""A store that a program wrote, with other units, order or ids than ingest writes, is not computed with."""

import numpy as np
import pytest

from fields import store
from fields.errors import DataError
from fields.synthetic import make_network


def in_celsius(ds):
    ds["t"] = ds["t"] - 273.15
    ds["t"].attrs["units"] = "degC"
    return ds


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (in_celsius, "SPDE-D032", "`t` is in [degC], a store holds [K]"),
        (lambda ds: ds.isel(time=slice(None, None, -1)), "SPDE-D035", "not in order"),
        (lambda ds: ds.isel(time=[0, 1, 1, 2]), "SPDE-D035", "not each once"),
        (lambda ds: ds.isel(station=[0, 0, 1]), "SPDE-D033", "is there twice"),
    ],
)
def test_it_is_refused_with_what_is_wrong(tmp_path, spoil, code, words):
    store.write_store(spoil(make_network(stations=4, days=1, seed=0)), tmp_path / "odd.zarr")
    with pytest.raises(DataError) as refused:
        store.open_stations(tmp_path / "odd.zarr")
    assert refused.value.code == code and words in str(refused.value)
    assert "stationpde data validate" in refused.value.do


def test_one_without_units_is_taken_as_si(tmp_path):
    ds = make_network(stations=4, days=1, seed=0)
    del ds["t"].attrs["units"]
    store.write_store(ds, tmp_path / "plain.zarr")
    assert np.isfinite(store.open_stations(tmp_path / "plain.zarr")["t"]).any()
