"""Damage done for real: flipped bits, cut, emptied and missing files. All of it is found; none of it reads as NaN."""

import json
import os
import shutil

import numpy as np
import pytest

from fields import store
from fields.errors import CorruptStoreError, UsageError
from fields.store.manifest import MANIFEST, SCHEMA_VERSION, Manifest, file_entry
from station_records import make_stations


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "x.zarr"
    return store.write_store(make_stations(48, 6), path)


@pytest.fixture
def victim(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "x.zarr")


def all_files(path):
    return sorted(p for p in path.rglob("*") if p.is_file())


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(content)


def flips_detected(pristine, victim, count, seed):
    """Count how many of ``count`` single flipped bits, anywhere in the store, `verify_store` reports."""
    rng = np.random.default_rng(seed)
    sizes = np.array([p.stat().st_size for p in all_files(pristine)])
    detected = 0
    for _ in range(count):
        # Half of them anywhere in the bytes, half in a random file, so that small files get their share.
        chances = sizes / sizes.sum() if rng.random() < 0.5 else None
        index = rng.choice(sizes.size, p=chances)
        path = all_files(victim)[index]
        bit = int(rng.integers(sizes[index] * 8))
        flip(path, bit)
        detected += not store.verify_store(victim).ok
        flip(path, bit)
    assert store.verify_store(victim).ok
    return detected


def test_each_of_a_hundred_flipped_bits_is_detected(pristine, victim):
    assert flips_detected(pristine, victim, 100, seed=0) == 100


@pytest.mark.slow
def test_each_of_a_thousand_flipped_bits_is_detected(pristine, victim):
    assert flips_detected(pristine, victim, 1000, seed=1) == 1000


def test_a_flip_in_a_chunk_is_an_error_on_reading_even_without_verification(victim):
    path = victim / "t" / "c" / "0" / "0"
    flip(path, path.stat().st_size * 4)  # the middle of the compressed values
    with pytest.raises(CorruptStoreError, match="chunk 0,0 of `t` was changed") as caught:
        store.open_store(victim, verify="none")["t"].values  # noqa: B018
    assert caught.value.exit_code == 5
    assert store.open_store(victim, verify="none")["p"].notnull().all()  # the rest is still there


@pytest.mark.parametrize(
    ("harm", "code", "words"),
    [
        (lambda p: p.unlink(), "SPDE-D051", "chunk 0,0 of `t` is missing"),
        (lambda p: p.write_bytes(b""), "SPDE-D052", "chunk 0,0 of `t` is empty"),
        (lambda p: p.write_bytes(p.read_bytes()[:-7]), "SPDE-D052", "chunk 0,0 of `t` has another size"),
    ],
    ids=["missing", "empty", "truncated"],
)
def test_a_lost_or_cut_chunk_is_named_on_opening(victim, harm, code, words):
    harm(victim / "t" / "c" / "0" / "0")
    with pytest.raises(CorruptStoreError, match=words) as caught:
        store.open_store(victim)
    assert caught.value.code == code
    assert "x.zarr › t › chunk 0,0" in str(caught.value)


def test_a_chunk_that_vanishes_after_opening_is_an_error_and_not_nan(victim):
    ds = store.open_store(victim)
    (victim / "t" / "c" / "0" / "0").unlink()
    with pytest.raises(CorruptStoreError, match="is missing"):
        ds["t"].values  # noqa: B018


@pytest.mark.parametrize("part", range(0, 16, 3))
@pytest.mark.parametrize("name", ["zarr.json", "t/zarr.json", MANIFEST])
def test_truncated_metadata_is_refused(victim, name, part):
    path = victim / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * part // 16])
    with pytest.raises(CorruptStoreError):
        store.open_store(victim)


def test_several_damages_are_reported_together(victim):
    for name in ("t", "p", "u"):
        (victim / name / "c" / "0" / "0").unlink()
    with pytest.raises(CorruptStoreError) as caught:
        store.open_store(victim)
    assert len(caught.value.problems) == 3


def test_a_store_without_manifest_is_refused(victim):
    (victim / MANIFEST).unlink()
    with pytest.raises(CorruptStoreError, match="no _manifest") as caught:
        store.open_store(victim)
    assert "--reader dataset" in caught.value.do


def test_a_zarr_2_store_is_sent_to_the_reader_of_foreign_data(tmp_path, stations):
    stations.to_zarr(tmp_path / "v2.zarr", zarr_format=2)
    with pytest.raises(CorruptStoreError, match="zarr 2") as caught:
        store.open_store(tmp_path / "v2.zarr")
    assert caught.value.exit_code == 5


def test_a_store_of_the_future_says_what_it_needs(victim):
    manifest = Manifest.load(victim)
    later = Manifest(
        manifest.kind, manifest.arrays, manifest.files, manifest.fingerprint, manifest.versions,
        schema_version=SCHEMA_VERSION + 1, needs="9.1.0",
    )  # fmt: skip
    (victim / MANIFEST).write_bytes(later.to_bytes())
    with pytest.raises(CorruptStoreError, match=r"needs stationpde ≥ 9\.1\.0") as caught:
        store.open_store(victim)
    assert caught.value.exit_code == 5


def test_a_manifest_that_was_edited_by_hand_is_refused(victim):
    body = json.loads((victim / MANIFEST).read_bytes())
    body["files"]["t/c/0/0"][0] += 1
    (victim / MANIFEST).write_text(json.dumps(body))
    with pytest.raises(CorruptStoreError, match="does not fit its own checksum"):
        store.open_store(victim)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"sha256": 1}', b"\x00\xff", b"null", b'{"sha256":"x","files":3}']
)
def test_a_hostile_manifest_is_refused_in_words(victim, content):
    (victim / MANIFEST).write_bytes(content)
    with pytest.raises(CorruptStoreError):
        store.open_store(victim)


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "t/../../x"])
def test_a_manifest_that_points_outside_the_store_is_refused(victim, name):
    manifest = Manifest.load(victim)
    sly = Manifest(
        manifest.kind, manifest.arrays, {**manifest.files, name: (1, "0")}, manifest.fingerprint, manifest.versions
    )
    (victim / MANIFEST).write_bytes(sly.to_bytes())
    with pytest.raises(CorruptStoreError, match="outside the store"):
        store.open_store(victim)


def resealed(path, name):
    """Write a manifest that fits a file as it is now: anybody can."""
    old = Manifest.load(path)
    entry = file_entry(path / name) if (path / name).is_file() else (0, "0")
    (path / MANIFEST).write_bytes(Manifest.build(old.kind, old.arrays, {**old.files, name: entry}).to_bytes())


CODECS = {
    "pickle": [{"name": "numcodecs.pickle", "configuration": {}}],
    "two_stages": [{"name": "bytes"}, {"name": "gzip"}, {"name": "gzip"}],
}


@pytest.mark.parametrize("kind", CODECS)
def test_a_store_with_a_manifest_that_fits_and_codecs_that_are_not_ours_is_refused(victim, kind):
    file = victim / "t" / "zarr.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "codecs": CODECS[kind]}))
    resealed(victim, "t/zarr.json")
    with pytest.raises(CorruptStoreError) as caught:
        store.open_store(victim)
    assert caught.value.code == "SPDE-D055"


def test_a_store_with_a_manifest_that_fits_and_a_chunk_that_claims_gigabytes_is_refused(victim):
    chunk = victim / "t" / "c" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[4:8] = (2**31 - 1).to_bytes(4, "little")  # the size in the header of blosc
    chunk.write_bytes(content)
    resealed(victim, "t/c/0/0")
    with pytest.raises(CorruptStoreError, match="inflate") as caught:
        store.open_store(victim)
    assert caught.value.code == "SPDE-D055"


@pytest.mark.parametrize("name", [MANIFEST, "zarr.json", "t/zarr.json", "t/c/0/0"])
def test_a_pipe_in_a_store_is_refused_and_not_waited_for(victim, name):
    (victim / name).unlink()
    os.mkfifo(victim / name)
    if name != MANIFEST:
        resealed(victim, name)
    with pytest.raises(CorruptStoreError, match="no regular file"):
        store.open_store(victim)
    assert not store.verify_store(victim).ok


def test_no_clock_matters_to_a_store(victim):
    for path in all_files(victim):
        os.utime(path, (0, 4e9))  # read in 1970, written in 2096
    assert store.verify_store(victim).ok
    assert store.open_store(victim)["t"].notnull().all()


def test_no_store_at_all_is_a_matter_of_usage(tmp_path):
    with pytest.raises(UsageError, match="there is no store"):
        store.open_store(tmp_path / "nothing.zarr")
    (tmp_path / "file.zarr").write_text("hello")
    with pytest.raises(CorruptStoreError, match="is a file"):
        store.open_store(tmp_path / "file.zarr")
    assert not store.verify_store(tmp_path / "file.zarr").ok
