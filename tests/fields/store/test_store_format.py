"""What a finished store is: CF attributes, checksums, equal content, readable by others."""

import json
import warnings

import numpy as np
import pytest
import xarray as xr

from fields import store
from fields.errors import UsageError
from fields.qc.flags import Flag
from fields.store.layout import Layout, choose_layout
from fields.store.manifest import MANIFEST, Manifest


@pytest.fixture
def written(tmp_path, stations):
    return store.write_store(stations, tmp_path / "x.zarr")


def test_what_is_written_is_read_back_to_the_last_bit(written, stations):
    back = store.open_store(written).load()
    xr.testing.assert_equal(back, stations)
    assert back["t"].dtype == np.float32
    assert back["t"].attrs == stations["t"].attrs
    assert list(back.data_vars) == list(stations.data_vars)
    assert back.attrs["pressure_kind"] == "station"
    assert back["station"].dtype.kind == "U"
    assert back["time"].dtype == np.dtype("datetime64[ns]")


def test_missing_values_stay_missing_and_nothing_else_becomes_missing(tmp_path, stations):
    stations["t"][3:9, 2] = np.nan
    stations["p"][:] = np.nan  # a chunk of fill values only must still be a chunk
    back = store.open_store(store.write_store(stations, tmp_path / "x.zarr")).load()
    xr.testing.assert_equal(back, stations)


def test_another_zarr_reader_opens_a_store_without_a_warning(written, stations):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        foreign = xr.open_zarr(written).load()
    np.testing.assert_array_equal(foreign["t"].values, stations["t"].values)
    np.testing.assert_array_equal(foreign["time"].values, stations["time"].values)
    assert set(foreign.coords) == set(stations.coords)


def test_every_array_carries_a_checksum_and_cf_attributes(written):
    for name in ("t", "p", "lat", "station", "time"):
        meta = json.loads((written / name / "zarr.json").read_text())
        assert meta["zarr_format"] == 3
        assert "crc32c" in json.dumps(meta["codecs"])
    assert json.loads((written / "t" / "zarr.json").read_text())["attributes"]["standard_name"] == "air_temperature"


def test_the_fingerprint_depends_on_content_and_not_on_history(tmp_path, stations):
    first = store.write_store(stations, tmp_path / "a.zarr")
    again = store.write_store(stations.assign_attrs(history="read on another day"), tmp_path / "b.zarr")
    other = stations.copy(deep=True)
    other["t"][5, 5] += 0.1
    changed = store.write_store(other, tmp_path / "c.zarr")
    assert store.fingerprint(first) == store.fingerprint(again)
    assert store.fingerprint(first) != store.fingerprint(changed)


def test_flagged_values_are_hidden_by_default_and_kept_in_the_store(tmp_path, stations):
    flags = np.zeros(stations["t"].shape, np.uint8)
    flags[4, 1], flags[5, 1] = Flag.STEP, Flag.DOUBTFUL
    stations["t_flag"] = (("time", "station"), flags)
    path = store.write_store(stations, tmp_path / "x.zarr")
    hidden, observed = store.open_store(path)["t"].values, store.open_store(path, masked=False)["t"].values
    assert np.isnan(hidden[4, 1]) and np.isnan(hidden).sum() == 1  # a doubtful value is kept
    np.testing.assert_array_equal(observed, stations["t"].values)


def test_a_store_opens_lazily_in_blocks_of_whole_shards(written):
    ds = store.open_store(written, chunks={"time": 24})
    assert ds["t"].chunks[0] == (24, 24, 24)
    assert ds["t"].chunks[1] == (12,)


def test_the_manifest_lists_every_file_of_the_store(written):
    manifest = Manifest.load(written)
    files = {p.relative_to(written).as_posix() for p in written.rglob("*") if p.is_file()}
    assert files == {*manifest.files, MANIFEST}
    assert manifest.versions["zarr"] and manifest.kind == "stations"
    assert store.verify_store(written).ok and len(store.verify_store(written)) == 0


def test_a_file_that_does_not_belong_is_noticed_and_harmless(written):
    (written / "notes.txt").write_text("mine")
    report = store.verify_store(written)
    assert report.ok and report.codes() == {"SPDE-D057"}


@pytest.mark.parametrize(
    ("dims", "sizes", "expected"),
    [
        (("time", "station"), {"time": 17544, "station": 103}, Layout(("time", "station"), (512, 103), (4096, 103))),
        (("time", "station"), {"time": 40896, "station": 1866}, Layout(("time", "station"), (512, 128), (4096, 256))),
        (("time", "station"), {"time": 5, "station": 2}, Layout(("time", "station"), (5, 2), (5, 2))),
    ],
)
def test_chunks_serve_both_directions(dims, sizes, expected):
    assert choose_layout(dims, sizes) == expected


@pytest.mark.parametrize("cells", [(32, 46), (1000, 1000), (3000, 4000)])
def test_shards_of_grids_are_a_few_megabytes_whatever_the_grid(cells):
    layout = choose_layout(("time", "y", "x"), {"time": 10_000, "y": cells[0], "x": cells[1]})
    # Between a quarter of and twice the 2**22 elements aimed at: rounding to whole steps and rows.
    assert 2**20 <= np.prod(layout.shards) <= 2**23


def test_a_writer_may_choose_the_block_it_works_in():
    layout = choose_layout(("time", "y", "x"), {"time": 1000, "y": 32, "x": 46}, time_block=96)
    assert layout.shard_along("time") == 96


def test_grids_are_stored_as_well(tmp_path):
    field = xr.Dataset(
        {
            "t": (("time", "y", "x"), np.arange(230, 290, dtype=np.float32).reshape(5, 3, 4)),
            "land": (("y", "x"), np.eye(3, 4)),
        },
        coords={"time": np.arange(5).astype("datetime64[h]").astype("datetime64[ns]"), "y": np.arange(3.0)},
    )
    back = store.open_store(store.write_store(field, tmp_path / "f.zarr", kind="fields")).load()
    xr.testing.assert_equal(back, field)


@pytest.mark.parametrize("name", ["with space.zarr", "sépia-気温.zarr", "x" * 240 + ".zarr"])
def test_any_name_that_the_file_system_takes_works(tmp_path, stations, name):
    path = store.write_store(stations, tmp_path / name)
    xr.testing.assert_equal(store.open_store(path).load(), stations)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_name_longer_than_the_file_system_takes_is_refused_in_words(tmp_path, stations):
    with pytest.raises(UsageError, match="name too long") as caught:
        store.write_store(stations, tmp_path / ("x" * 300))
    assert caught.value.exit_code == 2


def test_a_symlinked_folder_and_a_symlinked_store_work(tmp_path, stations):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store.write_store(stations, tmp_path / "link" / "x.zarr")
    (tmp_path / "other.zarr").symlink_to(tmp_path / "real" / "x.zarr")
    xr.testing.assert_equal(store.open_store(tmp_path / "other.zarr").load(), stations)
    warmer = stations.copy(deep=True)
    warmer["t"] += 1
    store.write_store(warmer, tmp_path / "other.zarr", force=True)
    assert (tmp_path / "other.zarr").is_symlink()
    xr.testing.assert_equal(store.open_store(tmp_path / "real" / "x.zarr").load(), warmer)


def test_station_names_with_escape_sequences_are_kept_but_never_printed(tmp_path, stations):
    ids = stations["station"].values.astype("U16")
    ids[3] = "evil\x1b[2J\n=cmd"
    named = stations.assign_coords(station=ids)
    path = store.write_store(named, tmp_path / "x.zarr")
    assert store.open_store(path)["station"].values[3] == ids[3]
    from fields.errors import locate

    assert locate("f", "t", stations=[ids[3]]) == "f › t › station evil\\x1b[2J\\n=cmd"
