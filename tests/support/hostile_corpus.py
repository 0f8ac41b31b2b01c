"""Files that somebody made to do harm, or that got broken on the way; built anew for every run of the tests.

Each builder writes one file (or folder) and returns its path. Pickles in them create the canary file when loaded.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HEADER = b"station,time,lat,lon,alt,t\n"
ROW = b"A,2021-01-01T%02d:00,45.0,5.0,100.0,%d.5\n"
TABLE = HEADER + b"".join(ROW % (h, h) for h in range(24))


class Trap:
    """Runs code when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.canary,)


def npy(header: Any, data: bytes = b"", version: tuple[int, int] = (1, 0), claim: int | None = None) -> bytes:
    text = repr(header).encode() if isinstance(header, dict) else header
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    width = "<H" if version == (1, 0) else "<I"
    return b"\x93NUMPY" + bytes(version) + struct.pack(width, len(text) if claim is None else claim) + text + data


def describe(shape: tuple[int, ...], descr: Any = "<f4") -> dict[str, Any]:
    return {"descr": descr, "fortran_order": False, "shape": shape}


def arrays(canary: Path) -> dict[str, bytes]:
    trap = pickle.dumps(np.array([Trap(canary)], object))
    code = b"__import__('pathlib').Path('%s').touch()" % os.fsencode(canary)
    return {
        "pickled_objects.npy": npy(describe((1,), "|O"), trap),
        "bare_pickle.npy": pickle.dumps(Trap(canary), protocol=4),
        "old_pickle.npy": pickle.dumps(Trap(canary), protocol=0),
        "csv_renamed.npy": TABLE,
        "claims_1e12.npy": npy(describe((10**12,))),
        "claims_overflow.npy": npy(describe((2**40, 2**40, 13))),
        "claims_negative.npy": npy(describe((-5, 13, 10))),
        "truncated.npy": npy(describe((3, 13, 100)), bytes(1000)),
        "trailing.npy": npy(describe((3, 13, 10)), bytes(3 * 13 * 10 * 4 + 7)),
        "header_4gb.npy": npy(describe((3, 13, 10)), version=(2, 0), claim=2**32 - 1),
        "header_cut.npy": npy(describe((3, 13, 10)))[:40],
        "header_code.npy": npy(code),
        "header_calls.npy": npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s,)}" % code),
        "header_deep.npy": npy(b"(" * 30_000),
        "header_strange.npy": npy({"descr": "<f4", "shape": (3,)}),
        "records.npy": npy(describe((3,), [("a", "<f4"), ("b", "|O")]), bytes(64)),
        "void.npy": npy(describe((3, 13, 2), "|V4"), bytes(3 * 13 * 2 * 4)),
        "complex.npy": npy(describe((3, 13, 2), "<c8"), bytes(3 * 13 * 2 * 8)),
        "version_9.npy": npy(describe((3, 13, 2)), bytes(312), version=(9, 9)),
        "empty.npy": b"",
        "shape_text.npy": npy({"descr": "<f4", "fortran_order": False, "shape": "(3,)"}),
    }


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def good_parts() -> dict[str, bytes]:
    def saved(array: Any) -> bytes:
        out = io.BytesIO()
        np.save(out, array)
        return out.getvalue()

    return {
        "obs.npy": saved(np.ones((24, 2, 1), np.float32)),
        "variables.npy": saved(np.array(["t"])),
        "time.npy": saved(np.datetime64("2021-01-01T00") + np.arange(24)),
        "station_id.npy": saved(np.array(["A", "B"])),
        "lat.npy": saved(np.array([1.0, 2.0])), "lon.npy": saved(np.array([1.0, 2.0])),
        "alt_m.npy": saved(np.array([1.0, 2.0])),
    }  # fmt: skip


def patched(content: bytes, old: bytes, new: bytes) -> bytes:
    assert old in content
    return content.replace(old, new)


def zips(canary: Path) -> dict[str, bytes]:
    good = good_parts()
    zeros = npy(describe((24, 2, 600_000)), bytes(115_200_000))
    link = zipfile.ZipInfo("link.npy")
    link.external_attr = 0o120777 << 16
    linked = io.BytesIO()
    with zipfile.ZipFile(linked, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    doubled = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(doubled, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("obs.npy", b"one")
        archive.writestr("obs.npy", b"two")
    whole = zip_of(good)
    encrypted = bytearray(whole)
    for mark, shift in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        encrypted[whole.index(mark) + shift] |= 1
    broken = bytearray(whole)
    broken[whole.index(b"obs.npy") + 60] ^= 0xFF
    lying = bytearray(whole)
    struct.pack_into("<I", lying, whole.index(b"PK\x01\x02") + 24, 2**31)
    return {
        "pickled_member.npz": zip_of({**good, "obs.npy": npy(describe((1,), "|O"), pickle.dumps(Trap(canary)))}),
        "pickled_names.npz": zip_of({**good, "station_id.npy": npy(describe((1,), "|O"), pickle.dumps(Trap(canary)))}),
        "bomb.npz": zip_of({**good, "obs.npy": zeros}),
        "parent_name.npz": zip_of({**good, "../../escape.npy": b"x"}),
        "absolute_name.npz": zip_of({**good, "/tmp/escape.npy": b"x"}),
        "drive_name.npz": zip_of({**good, "C:\\escape.npy": b"x"}),
        "symlink.npz": linked.getvalue(),
        "duplicate.npz": doubled.getvalue(),
        "encrypted.npz": bytes(encrypted),
        "lzma.npz": zip_of(good, zipfile.ZIP_LZMA),
        "truncated.npz": whole[: len(whole) // 2],
        "bad_crc.npz": bytes(broken),
        "lying_size.npz": bytes(lying),
        "claims_1e12.npz": zip_of({**good, "obs.npy": npy(describe((10**12, 2, 1)))}),
        "no_directory.npz": b"PK\x03\x04" + bytes(200),
        "member_is_text.npz": zip_of({**good, "obs.npy": TABLE}),
    }


def weights(canary: Path) -> dict[str, bytes]:
    """Make files of models that pose as observations: pickles in torch's two forms, and safetensors that claim much."""
    trap = pickle.dumps(Trap(canary), protocol=2)
    header = b'{"w":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}}'
    return {
        "model.pt": zip_of({"model/data.pkl": trap, "model/version": b"3\n"}, zipfile.ZIP_STORED),
        "legacy.pt": trap,
        "model.pth": trap + bytes(1000),
        "long_header.safetensors": struct.pack("<Q", 100 << 20) + b" " * (100 << 20),
        "claims.safetensors": struct.pack("<Q", len(header)) + header,
    }


def tar_of(*infos: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for info, content in infos:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if content else None)
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def nested(depth: int) -> bytes:
    content = TABLE
    for level in range(depth):
        content = tar_of((member(f"level{level}.tar"), content))
    return content


def huge_extension(kind: bytes) -> bytes:
    """Make a tar whose extended header claims, and has, 150 MB: a careless library reads it whole."""
    info = member("././@LongLink", kind)
    info.size = 150 << 20
    head = info.tobuf(tarfile.GNU_FORMAT)
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(head)]
    # Noise enough to stay below the ratio that is refused anyway.
    piece = (os.urandom(8192) + bytes(1 << 20))[: 1 << 20]
    parts += [packer.compress(piece) for _ in range(151)]
    return b"".join([*parts, packer.flush()])


def archives() -> dict[str, bytes]:
    bomb = gzip.compress(HEADER + bytes(b"0" * 120_000_000))
    good = member("obs.csv"), TABLE
    return {
        "bomb.csv.gz": bomb,
        # The last four bytes of a gzip file are those of its last member: these lie.
        "lying_bomb.csv.gz": bomb + gzip.compress(b"\n"),
        "truncated.csv.gz": gzip.compress(TABLE)[:-12],
        "short.csv.gz": b"\x1f\x8b\x08",
        "parent.tar": tar_of((member("../escape.csv"), TABLE)),
        "absolute.tar": tar_of((member("/tmp/escape.csv"), TABLE)),
        "symlink.tar": tar_of((member("obs.csv", tarfile.SYMTYPE, "/etc/passwd"), b"")),
        "hardlink.tar": tar_of(good, (member("more.csv", tarfile.LNKTYPE, "../../etc/passwd"), b"")),
        "device.tar": tar_of((member("obs.csv", tarfile.CHRTYPE), b"")),
        "pipe.tar": tar_of((member("obs.csv", tarfile.FIFOTYPE), b"")),
        "sparse.tar": tar_of((member("obs.csv", tarfile.GNUTYPE_SPARSE), b"")),
        "duplicate.tar": tar_of(good, (member("obs.csv"), TABLE)),
        "truncated.tar": tar_of(good)[:700],
        "nested.tar": nested(8),
        "long_name.tar.gz": huge_extension(tarfile.GNUTYPE_LONGNAME),
        "pax_header.tar.gz": huge_extension(tarfile.XHDTYPE),
        "parent_member.zip": zip_of({"../escape.csv": TABLE}),
        "bomb_member.zip": zip_of({"obs.csv": HEADER + bytes(b"0" * 50_000_000)}),
    }


def tables() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    noise = rng.integers(1, 256, 200_000, np.uint8).tobytes()
    return {
        "million_columns.csv": b",".join(b"c%d" % i for i in range(1_000_000)) + b"\n",
        "wide_rows.csv": HEADER + b"1" + b",2" * 1_000_000 + b"\n",
        "nul.csv": TABLE + b"A,2021-01-02T00:00,45.0,5.0,100.0,\x001.5\n",
        "utf16.csv": TABLE.decode().encode("utf-16"),
        "endless_line.csv": HEADER + b"9" * 20_000_000,
        "noise.csv": noise,
        "noise_rows.csv": HEADER + noise,
        "program.csv": b"\x7fELF" + noise,
        "picture.csv": b"\x89PNG\r\n\x1a\n" + noise,
        "pickle.csv": pickle.dumps({"a": 1}, protocol=4),
        "bare_cr.csv": TABLE.replace(b"\n", b"\r"),
        "header_only.csv": HEADER,
        "nothing.csv": b"",
        "ragged.csv": TABLE + b"A,2021-01-02T00:00,45.0\n",
        "open_quote.csv": TABLE + b'"A,2021-01-02T00:00,45.0,5.0,100.0,1.5\n' + TABLE[len(HEADER) :],
        "long_id.csv": TABLE + b"X" * 100_000 + b",2021-01-02T00:00,45.0,5.0,100.0,1.5\n",
        "far_year.csv": TABLE + b"A,99999-01-01T00:00,45.0,5.0,100.0,1.5\n",
        "stray_year.csv": TABLE + b"A,1700-01-01T00:00,45.0,5.0,100.0,1.5\n",
        "words.csv": TABLE + b"A,2021-01-02T00:00,45.0,5.0,100.0,warm\n",
        "no_id.csv": TABLE + b",2021-01-02T00:00,45.0,5.0,100.0,1.5\n",
        "huge_number.csv": TABLE + b"A,2021-01-02T00:00,45.0,5.0,100.0," + b"9" * 100_000 + b"x\n",
    }


def parquets() -> dict[str, bytes]:
    import pyarrow as pa
    from pyarrow import parquet

    def written(table: Any) -> bytes:
        out = io.BytesIO()
        parquet.write_table(table, out)
        return out.getvalue()

    columns = ("station", "time", "lat", "lon", "alt", "t")
    good = written(pa.table({name: [f"2021-01-0{i}"] if i < 2 else [1.0] for i, name in enumerate(columns)}))
    many = pa.chunked_array([pa.nulls(1_000_000, pa.float64())] * 20)
    return {
        "truncated.parquet": good[: len(good) // 2],
        "magic_only.parquet": b"PAR1PAR1",
        "footer_noise.parquet": good[:-40] + bytes(range(32)) + good[-8:],
        "footer_claim.parquet": good[:-8] + struct.pack("<I", 2**31) + b"PAR1",
        "rows_of_nothing.parquet": written(pa.table(dict.fromkeys(columns, many))),
        "nested_columns.parquet": written(pa.table({name: [{"a": 1, "b": 2}] for name in columns})),
    }


def maps() -> dict[str, bytes]:
    start = b'[variables]\nt = { column = "t", unit = "degC" }\n'
    return {
        "huge.toml": b"# " + b"x" * 400_000,
        "deep.toml": b"a = " + b"[" * 50_000,
        "binary.toml": bytes(range(256)),
        "broken.toml": start + b"this is no TOML\n",
        "unknown_key.toml": start + b"[fiel]\nseparator = ';'\n",
        "unknown_unit.toml": b'[variables]\nt = { column = "t", unit = "furlong" }\n',
        "backtracking.toml": start + b'[station]\nfrom = "name"\npattern = "(a+)+$"\n',
        "wrong_types.toml": start + b'[file]\nheader_lines = "many"\n',
        "expansion.toml": start + b'[station]\nfrom = "file"\nfile = "~/../$HOME/../etc/passwd"\n',
        "unit_bomb.toml": b'[variables]\nt = { column = "t", unit = "' + b"(" * 30 + b'" }\n',
    }


def stores(folder: Path, canary: Path) -> list[Path]:
    """Folders that pretend to be zarr stores."""
    meta = {"zarr_format": 2, "shape": [24, 2], "chunks": [24, 2], "dtype": "<f4", "compressor": None, "fill_value": 0,
            "order": "C", "filters": None}  # fmt: skip
    changes: dict[str, Any] = {
        "pickle_codec.zarr": {**meta, "dtype": "|O", "filters": [{"id": "pickle"}]},
        "python_codec.zarr": {**meta, "compressor": {"id": "json2"}},
        "huge_shape.zarr": {**meta, "shape": [10**12, 10**6]},
        "huge_chunk.zarr": {**meta, "chunks": [10**9, 10**3]},
        "broken_json.zarr": "{",
        "deep_json.zarr": "[" * 100_000,
        "wrong_type.zarr": [1, 2, 3],
    }
    paths = []
    for name, about in changes.items():
        path = folder / name
        (path / "t").mkdir(parents=True)
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        text = about if isinstance(about, str) else json.dumps(about)
        (path / "t" / ".zarray").write_text(text)
        paths.append(path)
    packed = {"zlib": zlib.compress(bytes(150_000_000)), "gzip": gzip.compress(bytes(150_000_000)),
              "lz4": struct.pack("<I", 2**30) + bytes(100), "blosc": bytes(4) + struct.pack("<I", 2**30) + bytes(100),
              "zstd": b"\x28\xb5\x2f\xfd\x80\x00" + struct.pack("<I", 2**30) + bytes(100)}  # fmt: skip
    for codec, chunk in packed.items():
        path = folder / f"bomb_{codec}.zarr"
        (path / "t").mkdir(parents=True)
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        (path / "t" / ".zarray").write_text(json.dumps({**meta, "compressor": {"id": codec}}))
        (path / "t" / "0.0").write_bytes(chunk)
        paths.append(path)
    paths += hidden_codecs(folder, meta, canary) + staged_bombs(folder, meta)
    three = folder / "codec_v3.zarr"
    (three / "t").mkdir(parents=True)
    (three / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    (three / "t" / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [1], "data_type": "float32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "codecs": [{"name": "numcodecs.pickle", "configuration": {}}],
    }))  # fmt: skip
    return [*paths, three]


def store_2(path: Path, meta: dict[str, Any], chunk: bytes, group: dict[str, Any] | None = None) -> Path:
    """Write a version 2 store of one array with one chunk: the times, which are decoded when the store is opened."""
    (path / "time").mkdir(parents=True)
    (path / ".zgroup").write_text(json.dumps({"zarr_format": 2, **(group or {})}))
    (path / "time" / ".zarray").write_text(json.dumps({"zarr_format": 2, **meta}))
    (path / "time" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["time"], "units": "hours since 2021-01-01"}')
    (path / "time" / "0").write_bytes(chunk)
    return path


def store_3(path: Path, codecs: Any, chunk: bytes, **change: Any) -> Path:
    """Write a version 3 store of one array with one chunk, the times."""
    (path / "time" / "c").mkdir(parents=True)
    (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    about = {
        "zarr_format": 3, "node_type": "array", "shape": [24], "data_type": "float32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [24]}},
        "chunk_key_encoding": {"name": "default"}, "dimension_names": ["time"], "codecs": codecs,
        "attributes": {"units": "hours since 2021-01-01"},
    }  # fmt: skip
    (path / "time" / "zarr.json").write_text(json.dumps({**about, **change}))
    (path / "time" / "c" / "0").write_bytes(chunk)
    return path


def hidden_codecs(folder: Path, meta: dict[str, Any], canary: Path) -> list[Path]:
    """Write stores whose pickles hide where a careless gate does not look."""
    meta = {**meta, "shape": [24], "chunks": [24]}
    trap = pickle.dumps(np.array([Trap(canary)], object))
    objects = {**meta, "dtype": "|O", "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]}
    hidden = {**objects, "attributes": {"_ARRAY_DIMENSIONS": ["time"], "units": "h"}}
    decoy = {
        "metadata": {"time/.zarray": meta},
        "consolidated_metadata": {
            "kind": "inline",
            "must_understand": False,
            "metadata": {"time": hidden},
        },
    }
    nested = {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": {
        "kind": "inline", "must_understand": False, "metadata": {"time": {
            "zarr_format": 3, "node_type": "array", "shape": [1], "data_type": "float32", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
            "codecs": [{"name": "numcodecs.pickle", "id": "bytes"}]}}}}  # fmt: skip
    paths = [
        store_2(folder / "decoy_group.zarr", meta, trap, decoy),
        store_2(folder / "second_filter.zarr", objects, trap),
        store_2(folder / "object_compressor.zarr", {**meta, "dtype": "|O", "compressor": {"id": "pickle"}}, trap),
        store_2(folder / "unknown_key.zarr", {**meta, "decoder": "pickle"}, bytes(192)),
        store_2(folder / "two_names.zarr", {**meta, "compressor": {"id": "pickle", "name": "zlib"}}, trap),
        store_2(folder / "object_filter.zarr", {**meta, "filters": [{"id": "astype", "encode_dtype": "u1",
                                                                     "decode_dtype": "O"}]}, trap),
        store_3(folder / "named_otherwise.zarr", [{"name": "numcodecs.pickle", "id": "bytes"}], trap),
        store_3(folder / "bare_name.zarr", ["numcodecs.pickle"], trap),
        store_3(folder / "inside_shard.zarr", [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [24], "codecs": [{"name": "numcodecs.pickle"}]}}], trap),
        store_3(folder / "index_codec.zarr", [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [24], "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "numcodecs.pickle"}]}}],
            trap),
        store_3(folder / "transformer.zarr", [{"name": "bytes"}], trap, storage_transformers=[{"name": "pickle"}]),
    ]  # fmt: skip
    twice = store_2(folder / "key_twice.zarr", meta, trap)
    text = json.dumps(meta)[:-1] + ', "filters": [{"id": "pickle"}]}'
    (twice / "time" / ".zarray").write_text(text)
    other = store_3(folder / "nested_node.zarr", [{"name": "bytes"}], bytes(192))
    (other / "zarr.json").write_text(json.dumps(nested))
    return [*paths, twice, other]


def staged_bombs(folder: Path, meta: dict[str, Any]) -> list[Path]:
    """Write stores whose chunks become large at a later stage than the first."""
    meta = {**meta, "shape": [24], "chunks": [24]}
    plain = {"name": "bytes", "configuration": {"endian": "little"}}
    packed = {"name": "gzip", "configuration": {"level": 5}}
    once = gzip.compress(bytes(400_000_000), mtime=0)
    zstd = {"id": "zstd", "level": 1}
    frame = b"\x28\xb5\x2f\xfd"
    # A frame without a size: 3,000 blocks that repeat one byte 128 KiB times, and a frame of nothing before it.
    blocks = [struct.pack("<I", (1 << 17) << 3 | 1 << 1 | (i == 2999))[:3] + b"\0" for i in range(3000)]
    endless = frame + b"\x00\x58" + b"".join(blocks)
    small = frame + b"\x20\x01" + struct.pack("<I", 1 << 3 | 1)[:3] + b"x"
    index = struct.pack("<QQ", 0, len(once))
    shard = {"name": "sharding_indexed", "configuration": {
        "chunk_shape": [24], "codecs": [plain, packed],
        "index_codecs": [plain]}}  # fmt: skip
    widen = [{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "<c16"}] * 6
    wide = {**meta, "dtype": "<U16000", "fill_value": "", "shape": [2000], "chunks": [2000]}
    gzips = [
        plain,
        packed,
        packed,
    ]
    lying = [
        plain,
        {**packed, "id": "crc32c"},
    ]
    paths = [
        store_3(folder / "bomb_gzip_twice.zarr", gzips, gzip.compress(once)),
        store_2(folder / "bomb_filter_twice.zarr", {**meta, "filters": [{"id": "gzip"}], "compressor": {"id": "zlib"}},
                zlib.compress(once)),
        store_2(folder / "bomb_filter_only.zarr", {**meta, "filters": [{"id": "gzip"}]}, once),
        store_2(folder / "bomb_members.zarr", {**meta, "compressor": {"id": "gzip"}}, gzip.compress(b"x") + once),
        store_2(folder / "bomb_frames.zarr", {**meta, "compressor": zstd}, small + endless),
        store_2(folder / "bomb_skipped_frame.zarr", {**meta, "compressor": zstd},
                struct.pack("<II", 0x184D2A50, 4) + b"skip" + endless),
        store_2(folder / "bomb_behind_checksum.zarr", {**meta, "filters": [{"id": "gzip"}],
                                                       "compressor": {"id": "adler32"}},
                struct.pack("<I", zlib.adler32(once)) + once),
        store_2(folder / "bomb_widened.zarr", {**meta, "filters": widen}, bytes(192)),
        store_2(folder / "bomb_wide_items.zarr", wide, bytes(192)),
        store_3(folder / "bomb_shard.zarr", [shard], once + index),
    ]  # fmt: skip
    sparse = store_2(folder / "bomb_sparse.zarr", meta, b"")
    os.truncate(sparse / "time" / "0", 4 << 30)
    texts = {**meta, "dtype": "|O", "filters": [{"id": "vlen-utf8"}]}
    paths += [
        sparse,
        store_3(folder / "lying_id.zarr", lying, once),
        store_2(folder / "bomb_texts.zarr", texts, struct.pack("<I", 2**31 - 1) + bytes(100)),
    ]
    pipe = store_2(folder / "pipe.zarr", meta, b"")
    (pipe / "time" / "0").unlink()
    os.mkfifo(pipe / "time" / "0")
    group = store_2(folder / "pipe_group.zarr", meta, bytes(192))
    (group / "time" / ".zattrs").unlink()
    os.mkfifo(group / "time" / ".zattrs")
    return [*paths, pipe, group]


def netcdfs() -> dict[str, bytes]:
    return {
        "noise.nc": b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 40,
        "classic_noise.nc": b"CDF\x01" + bytes(range(256)) * 4,
        "classic_claims.nc": b"CDF\x02" + b"\xff" * 64,
        "cut.nc": b"\x89HDF\r\n\x1a\n",
    }


def build(folder: Path, canary: Path) -> list[Path]:
    """Write the whole corpus; files whose name ends in ``.toml`` are column maps, the rest are sources."""
    paths: list[Path] = []
    parts: list[tuple[str, Callable[[], dict[str, bytes]]]] = [
        ("npy", lambda: arrays(canary)), ("npz", lambda: zips(canary)), ("models", lambda: weights(canary)),
        ("packed", archives), ("csv", tables), ("parquet", parquets), ("toml", maps), ("nc", netcdfs),
    ]  # fmt: skip
    for kind, make in parts:
        (folder / kind).mkdir(parents=True)
        for name, content in make().items():
            path = folder / kind / name
            path.write_bytes(content)
            paths.append(path)
    paths += stores(folder / "zarr", canary)
    (folder / "empty_folder").mkdir()
    (folder / "one.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")
    return [*paths, folder / "empty_folder", folder / "one.csv", folder / "pipe.csv", Path("/dev/zero")]
