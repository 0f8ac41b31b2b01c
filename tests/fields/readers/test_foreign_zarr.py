"""The gate before foreign zarr stores: what honest writers make passes and reads the same, single lies do not."""

import json
import socket
import struct
import zlib

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

from fields.errors import DataError
from fields.readers import check_array, check_foreign_store
from fields.readers.chunk_sizes import _zstd_size
from fields.readers.safety import unreadable
from fields.readers.zarr_codecs import Refusal, item_size, number_size

VALUES = np.round(np.random.default_rng(0).normal(285, 8, (60, 12)), 1).astype(np.float32)

VERSION_2 = {
    "none": (None, None),
    "blosc": (numcodecs.Blosc(), None),
    "zlib_shuffle": (numcodecs.Zlib(), [numcodecs.Shuffle(4)]),
    "gzip_as_filter": (None, [numcodecs.GZip()]),
    "lz4_delta": (numcodecs.LZ4(), [numcodecs.Delta("<f4")]),
    "scaled": (numcodecs.Zstd(), [numcodecs.FixedScaleOffset(280, 10, "f4", "i2"), numcodecs.Delta("i2")]),
    "quantized": (numcodecs.Zstd(), [numcodecs.Quantize(1, "<f4")]),
    "rounded": (numcodecs.Blosc(), [numcodecs.BitRound(12)]),
    "widened": (numcodecs.Zstd(), [numcodecs.AsType("<f8", "<f4")]),
    "checksums": (numcodecs.CRC32(), [numcodecs.Adler32()]),
    "packed_then_checked": (numcodecs.Adler32(), [numcodecs.Fletcher32(), numcodecs.Zstd()]),
}


def plain(path, version=3, **options):
    zarr.create_group(path, zarr_format=version)
    array = zarr.create_array(
        path / "t", data=None, shape=VALUES.shape, dtype="f4", chunks=(30, 12), zarr_format=version, **options
    )
    array[:] = VALUES
    return path


def rewrite(path, **change):
    """Change keys in the description of the array, whichever version it is."""
    file = next(p for p in (path / "t" / ".zarray", path / "t" / "zarr.json") if p.exists())
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    return path


def read_back(path, version):
    return np.asarray(zarr.open_array(path / "t", mode="r", zarr_format=version)[:])


@pytest.mark.parametrize("name", VERSION_2)
def test_what_version_2_writes_passes(tmp_path, name):
    compressor, filters = VERSION_2[name]
    path = plain(tmp_path / "x.zarr", 2, compressors=compressor, filters=filters)
    assert check_foreign_store(path) == 2
    np.testing.assert_allclose(read_back(path, 2), VALUES, atol=0.06)


VERSION_3 = {
    "default": {},
    "gzip": {"compressors": [GzipCodec()]},
    "zstd_checked": {"compressors": [ZstdCodec(), Crc32cCodec()]},
    "blosc_sharded": {"compressors": [BloscCodec(), Crc32cCodec()], "chunks": (10, 6), "shards": (30, 12)},
    "turned": {"filters": [TransposeCodec(order=(1, 0))]},
    "first_index": {"serializer": ShardingCodec(chunk_shape=(10, 6), index_location="start"), "compressors": None},
}


@pytest.mark.parametrize("name", VERSION_3)
def test_what_version_3_writes_passes(tmp_path, name):
    options = {"chunks": (30, 12), **VERSION_3[name]}
    zarr.create_group(tmp_path / "x.zarr")
    array = zarr.create_array(tmp_path / "x.zarr" / "t", shape=VALUES.shape, dtype="f4", **options)
    array[:] = VALUES
    assert check_foreign_store(tmp_path / "x.zarr") == 3
    check_array(tmp_path / "x.zarr" / "t")
    np.testing.assert_array_equal(read_back(tmp_path / "x.zarr", 3), VALUES)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
def test_texts_times_flags_and_groups_pass(tmp_path, version, consolidated):
    ids = np.array(["Åre", "b" * 150, ""], object)
    ds = xr.Dataset(
        {"name": ("station", ids), "code": ("station", ids.astype("U")), "flag": ("station", [True, False, True]),
         "began": ("station", np.array(["2021-01-01"] * 3, "M8[ns]")), "crs": ((), "GEOGCS" * 500)},
    )  # fmt: skip
    ds.to_zarr(tmp_path / "x.zarr", zarr_format=version, consolidated=consolidated)
    ds.to_zarr(tmp_path / "x.zarr", group="inner", zarr_format=version, consolidated=consolidated)
    assert check_foreign_store(tmp_path / "x.zarr") == version


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compressor": {"id": "zlib", "level": 1, "decoder": "x"}}, "unknown key 'decoder'"),
        ({"compressor": {"name": "zlib"}}, "packed with 'None'"),
        ({"filters": {"id": "delta"}}, "no list"),
        ({"filters": [{"id": "delta", "dtype": "|O"}]}, "plain number"),
        ({"filters": [{"id": "delta", "dtype": "<f4", "astype": [["a", "O"]]}]}, "a table or a list"),
        ({"filters": [{"id": "shuffle"}] * 9}, "9 stages"),
        ({"compressor": {"id": "zlib"}, "filters": [{"id": "gzip"}]}, "compressed twice"),
        ({"compressor": {"id": "shuffle"}, "filters": [{"id": "gzip"}]}, "follows the compression"),
        ({"filters": [{"id": "vlen-utf8"}]}, "texts"),
        ({"dtype": "|O"}, "texts"),
        ({"dtype": [["a", "<f4"]]}, "records"),
        ({"dtype": "|V8"}, "plain number"),
        ({"zarr_format": 3}, "format"),
        ({"chunks": [30]}, "no array has"),
        ({"shape": [True, 12]}, "no array has"),
        ({"chunks": [0, 12]}, "chunks have no length"),
        ({"attributes": {}}, "unknown key 'attributes'"),
    ],
)
def test_a_description_of_version_2_that_is_not_understood_is_refused(tmp_path, change, message):
    path = rewrite(plain(tmp_path / "x.zarr", 2, compressors=None), **change)
    with pytest.raises(DataError, match=message):
        check_foreign_store(path)


SHARD = {"chunk_shape": [10, 6], "codecs": [{"name": "bytes"}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codecs": [{"name": "bytes", "id": "bytes"}]}, "unknown key 'id'"),
        ({"codecs": [{"id": "bytes"}]}, "unknown key 'id'"),
        ({"codecs": ["pickle"]}, "packed with 'pickle'"),
        ({"codecs": [{"name": "numcodecs.bytes"}]}, "packed with 'numcodecs.bytes'"),
        ({"codecs": [{"name": "zlib"}]}, "packed with 'zlib'"),
        ({"codecs": [{"name": "bytes"}, {"name": "bytes"}]}, "once"),
        ({"codecs": [{"name": "gzip"}]}, "once"),
        ({"codecs": []}, "no list"),
        ({"codecs": [{"name": "sharding_indexed", "configuration": {**SHARD, "chunk_shape": [7, 6]}}]}, "whole chunks"),
        ({"codecs": [{"name": "sharding_indexed", "configuration": {**SHARD, "codecs": [
            {"name": "sharding_indexed", "configuration": SHARD}]}}]}, "inside shards"),
        ({"codecs": [{"name": "sharding_indexed", "configuration": {**SHARD, "index_codecs": [
            {"name": "bytes"}, {"name": "gzip"}]}}]}, "index"),
        ({"codecs": [{"name": "sharding_indexed", "configuration": SHARD}, {"name": "gzip"}]}, "once"),
        ({"storage_transformers": [{"name": "x"}]}, "transformers"),
        ({"chunk_grid": {"name": "rectilinear"}}, "not known"),
        ({"chunk_key_encoding": {"name": "plug-in"}}, "not known"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [30, 0]}}}, "chunks have no length"),
        ({"data_type": {"name": "structured", "configuration": {"fields": []}}}, "not known"),
        ({"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 10**12}}}, "at most"),
        ({"must_be_new": {"must_understand": False}}, "unknown key 'must_be_new'"),
        ({"node_type": "table"}, "kind"),
    ],
)  # fmt: skip
def test_a_description_of_version_3_that_is_not_understood_is_refused(tmp_path, change, message):
    path = rewrite(plain(tmp_path / "x.zarr"), **change)
    with pytest.raises(DataError, match=message):
        check_foreign_store(path)
    with pytest.raises(DataError, match=message):
        check_array(path / "t")


CONSOLIDATED = [
    {"metadata": {"g/.zgroup": {"zarr_format": 2, "consolidated_metadata": {"metadata": {"t": {}}}}}},
    {"metadata": {}, "more": 1},
    {"metadata": {"t/.zcode": {}}},
    {"metadata": {"t/.zarray": {"shape": [1]}}},
]


@pytest.mark.parametrize("about", CONSOLIDATED)
def test_consolidated_metadata_are_held_to_the_same_rules(tmp_path, about):
    path = plain(tmp_path / "x.zarr", 2)
    (path / ".zmetadata").write_text(json.dumps(about))
    with pytest.raises(DataError):
        check_foreign_store(path)


@pytest.mark.parametrize("index", [struct.pack("<QQ", 2**40, 8), struct.pack("<QQ", 0, 2**40), b"short"])
def test_an_index_that_points_outside_its_shard_is_refused(tmp_path, index):
    codecs = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [30, 12], "codecs": [{"name": "bytes"}],
                                                             "index_codecs": [{"name": "bytes"}]}}]  # fmt: skip
    path = rewrite(plain(tmp_path / "x.zarr"), codecs=codecs)
    (path / "t" / "c" / "0" / "0").write_bytes(index)
    with pytest.raises(DataError, match="shard") as caught:
        check_foreign_store(path)
    assert caught.value.code == "SPDE-D104"


def test_metadata_in_capitals_are_refused(tmp_path):
    path = plain(tmp_path / "x.zarr", 2)
    (path / "t" / ".ZARRAY").write_text("{}")
    with pytest.raises(DataError, match="case of letters"):
        check_foreign_store(path)


def test_a_socket_in_a_store_is_refused(tmp_path, monkeypatch):
    path = plain(tmp_path / "x.zarr", 2)
    monkeypatch.chdir(path)  # the name of a socket may have 100 letters
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        with pytest.raises(DataError, match="no regular file"):
            check_foreign_store(path)


def test_the_limit_of_the_user_holds_for_a_chunk(tmp_path):
    path = plain(tmp_path / "x.zarr", 2)
    with pytest.raises(DataError, match="--max-bytes") as caught:
        check_foreign_store(path, max_bytes=1000)
    assert caught.value.code == "SPDE-D105"


@pytest.mark.parametrize("level", [1, 19])
def test_the_size_of_zstd_frames_is_known_before_they_are_inflated(level):
    import pyarrow as pa

    content = b"weather " * 50_000
    frame = numcodecs.Zstd(level, checksum=level == 19).encode(content)
    assert _zstd_size(frame) == len(content)
    assert _zstd_size(frame + frame) == 2 * len(content)
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(content)
    endless = out.getvalue().to_pybytes()  # a stream does not know its size
    assert len(content) <= (_zstd_size(endless) or 0) <= len(content) + 2**17
    assert _zstd_size(frame + b"garbage") is None


def test_types_are_plain_numbers_or_short_texts():
    sizes = {"<f4": 4, "|b1": 1, "u1": 1, "float64": 8, "int16": 2, "bool": 1, "complex64": 8}
    assert {text: number_size(text) for text in sizes} == sizes
    assert item_size("<U12") == (48, False)
    assert item_size("<M8[ns]") == (8, False)
    assert item_size("|O") == (8, True)
    for text in ("O", "f3", "i4,i4", "V8", "<U9999999", None, 4, "float128"):
        with pytest.raises(Refusal):
            number_size(text) if text != "<U9999999" else item_size(text)


def test_what_a_library_says_on_pickles_is_not_repeated():
    problem = RuntimeError("Pickle.decode is disabled, enable it by setting ALLOW_UNSAFE_PICKLE_DECODE")
    error = unreadable("x.zarr", problem)
    assert error.code == "SPDE-D101"
    assert "ALLOW" not in str(error) and "enable" not in str(error)
    assert unreadable("x.nc", zlib.error("Error -3")).code == "SPDE-D103"
