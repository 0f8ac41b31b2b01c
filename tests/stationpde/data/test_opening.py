"""Open every kind of source through one function: the same values, one meaning of quality, advice that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from fields import store
from fields.errors import DataError, UsageError
from fields.ingest import IngestOptions
from fields.qc import Flag
from fields.readers import ReadOptions
from fields.synthetic.network import make_network
from fields.variables import STATE_VARIABLES
from small_run import dataset, table
from stationpde.config import Config
from stationpde.data import (
    QUALITIES,
    WindowRequest,
    describe_quality,
    load_series,
    open_observations,
    read_window,
)
from weather2k_array import write_weather2k

SIX_HOURLY = Config.preset("tiny").with_overrides(["data.step=6h", "data.max_missing=1.0"]).data
T = STATE_VARIABLES.index("t")


def sources(folder: Path) -> dict[str, Any]:
    """Return the same forty steps as each kind of source."""
    ds = dataset(slice(-40, None))
    celsius = ds.assign(t=(ds["t"] - 273.15).assign_attrs(ds["t"].attrs | {"units": "degC"}))
    path = table(slice(-40, None), folder / "obs.csv")
    (folder / "many").mkdir()
    (folder / "many" / "obs.csv").write_bytes(path.read_bytes())
    return {
        "store": store.write_store(ds, folder / "obs.zarr"),
        "file": path,
        "folder": str(folder / "many"),
        "dataset": ds,
        "foreign dataset": celsius,
    }


def test_every_kind_of_source_gives_the_same_record_and_the_same_window(tmp_path):
    # Without the tests of quality control: a record of forty steps must not lose values to them.
    options = IngestOptions(quality=False)
    request = WindowRequest(6 * 3600, 5)
    expected = dataset(slice(-40, None)).to_dataarray().transpose("time", "station", "variable").values
    for kind, source in sources(tmp_path).items():
        series = load_series(source, SIX_HOURLY, options=options)
        # Three decimals in the table: half a thousandth of a hectopascal.
        np.testing.assert_allclose(series.values, expected, rtol=1e-5, atol=6e-4, err_msg=kind)
        window = read_window(source, request, options)
        np.testing.assert_array_equal(window.values, series.values[-5:], err_msg=kind)


@pytest.mark.parametrize("kind", ["store", "dataset"])
def test_one_setting_decides_which_flags_count_for_records_and_windows(tmp_path, kind):
    ds = dataset(slice(-40, None))
    flags = np.zeros(ds["t"].shape, np.uint8)
    flags[-1, 0], flags[-1, 1], flags[-1, 2] = int(Flag.BUDDY), int(Flag.RANGE), int(Flag.DOUBTFUL)
    ds = ds.assign(t=ds["t"].fillna(280.0), t_flag=(("time", "station"), flags))
    source = store.write_store(ds, tmp_path / "obs.zarr") if kind == "store" else ds
    missing = {"full": [True, True, False], "gross": [False, True, False]}
    for quality in QUALITIES:
        settings = SIX_HOURLY.model_copy(update={"quality": quality})
        record = load_series(source, settings)
        window = read_window(source, WindowRequest(6 * 3600, 5, quality=quality))
        for values in (record.values, window.values):
            assert np.isnan(values[-1, :3, T]).tolist() == missing[quality]
    # An option of a command comes before the setting.
    assert np.isnan(load_series(source, SIX_HOURLY, quality="gross").values[-1, :3, T]).tolist() == missing["gross"]


def test_each_setting_of_quality_has_a_phrase_of_its_own():
    assert len({describe_quality(quality) for quality in QUALITIES}) == len(QUALITIES)


def test_the_synthetic_network_has_flags_that_the_setting_counts_and_takes_stand_ins():
    hourly = Config.preset("demo").data
    full, gross = (load_series("demo", hourly, quality=quality) for quality in QUALITIES)
    assert np.isnan(full.values).sum() > np.isnan(gross.values).sum()
    swapped = Config.preset("demo").with_overrides(
        ['data.missing={p = "standard-atmosphere"}', 'data.scored=["u", "v", "t", "rh"]']
    )
    assert load_series("demo", swapped.data).reference == ("p",)


def test_open_observations_name_their_store_and_whether_they_are_made_up(tmp_path):
    path = store.write_store(make_network(4, 3), tmp_path / "net.zarr")
    with open_observations(path) as opened:
        card = opened.card()
        assert opened.is_synthetic and opened.label == str(path) and card is not None and card.stations == 4
    with open_observations(dataset()) as opened:
        assert not opened.is_synthetic and opened.store is None and opened.card() is None


def test_a_scratch_store_lasts_as_long_as_its_context(tmp_path):
    source = table(slice(-40, None), tmp_path / "obs.csv")
    with open_observations(source) as opened:
        scratch = opened.store
        assert scratch is not None and scratch.is_dir() and np.isfinite(opened.dataset["t"].values).any()
    assert not scratch.exists()
    assert list(tmp_path.iterdir()) == [source]


# ---- errors and advice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["nowhere.zarr", Path("nowhere.csv")])
def test_a_path_that_is_not_there_has_one_error_for_every_command(source):
    with pytest.raises(UsageError, match="neither a dataset nor a store or file 'nowhere") as record:
        load_series(source, SIX_HOURLY)
    with pytest.raises(UsageError) as window:
        read_window(source, WindowRequest(3600, 5))
    assert record.value.code == window.value.code == "SPDE-D156"


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("train", "stationpde train weather2k --obs PATH"),
        ("benchmark", "stationpde benchmark PATH"),
        ("ablate", "stationpde ablate PATH"),
        ("evaluate", "--obs PATH   with the path of its files"),
        ("forecast", "--obs PATH   with the path of its files"),
        ("report", "--obs PATH   with the path of its files"),
        ("plot w-alt", "stationpde plot w-alt PATH -o OUT.png"),
    ],
)
def test_advice_for_absent_data_is_written_for_the_command(command, advice):
    with pytest.raises(DataError) as refused, open_observations("weather2k", command=command):
        pass
    assert refused.value.do == advice and refused.value.code == "SPDE-D155"


def test_an_array_without_times_is_ingested_first_for_commands_that_take_no_start(tmp_path):
    path = write_weather2k(tmp_path / "data.npy")
    with pytest.raises(DataError) as refused:
        load_series(str(path), SIX_HOURLY, command="benchmark")
    assert refused.value.do.startswith(f"stationpde data ingest {path} -o data.zarr --start 2017-01-01 --time-zone UTC")
    assert refused.value.do.endswith(f"; then the same as now with data.zarr in place of {path}")


def test_no_advice_names_a_scratch_folder(tmp_path):
    source = table(slice(-40, None), tmp_path / "obs.csv")
    options = IngestOptions(read=ReadOptions(units={"p": "Pa"}))
    with pytest.raises(DataError) as refused, open_observations(source, options=options):
        pass
    advice = str(refused.value) + "".join(problem.do for problem in refused.value.problems)
    assert f"stationpde data ingest {source} -o obs.zarr" in advice and "/stationpde-" not in advice


def test_the_advised_ingest_replaces_nothing_and_says_what_follows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = table(slice(-40, None), tmp_path / "obs.csv")
    (tmp_path / "obs.zarr").mkdir()
    options = IngestOptions(read=ReadOptions(units={"p": "Pa"}))
    for cache in (None, tmp_path / "run"):
        with pytest.raises(DataError) as refused, open_observations(source, options=options, cache=cache):
            pass
        ingest, _, then = refused.value.do.partition("; ")
        assert ingest == f"stationpde data ingest {source} -o obs-2.zarr --unit p=hPa"
        assert then == f"then the same as now with obs-2.zarr in place of {source}"


def test_a_dataset_in_memory_is_saved_before_it_is_ingested():
    ds = dataset(slice(-40, None))
    ds["p"].attrs["units"] = "hPa"
    with pytest.raises(DataError) as refused, open_observations(ds):
        pass
    assert refused.value.do.startswith("save the dataset as dataset.nc, then stationpde data ingest dataset.nc -o ")
    assert refused.value.do.endswith("in place of the dataset") and "/stationpde-" not in str(refused.value)


def test_a_dataset_without_stations_is_refused():
    empty: xr.Dataset = dataset().isel(station=slice(0, 0))
    with pytest.raises(DataError) as refused, open_observations(empty):
        pass
    assert refused.value.code == "SPDE-D025"


@pytest.mark.parametrize("name", ["demo", "weather2k"])
def test_a_path_that_exists_is_read_even_if_it_has_the_name_of_a_dataset(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    store.write_store(dataset(), tmp_path / name)
    with open_observations(Path(name)) as opened:
        assert opened.store == Path(name) and not opened.is_synthetic
    with open_observations("demo") as opened:
        assert opened.store is None and opened.is_synthetic
