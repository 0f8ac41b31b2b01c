"""Damaged, hostile and unfinished checkpoints: all of it is noticed, and the newest whole one is found."""

import json
import os
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from stationpde.errors import CorruptArtefactError
from stationpde.runs import checkpoint_files as files
from stationpde.runs.checkpoint import Checkpoint, load_weights, read_checkpoint, weights_sha256, write_checkpoint
from stationpde.runs.sealed import read_sealed, sealed, write_sealed
from stationpde.runs.tensor_file import check_header, encode, read_tensors

ABOUT = {"versions": {"stationpde": "0.1.0", "torch": "2"}, "threads": 1, "world": 1, "seed": 0}


def content(step: int) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    model = {"weight": torch.randn(4, 3, generator=generator), "count": torch.tensor(7)}
    optim = {"exp_avg/weight": torch.randn(4, 3, generator=generator)}
    return Checkpoint(step, model, optim, {"step": step, "best": None, "score": 0.1})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (5, 10):
        write_checkpoint(tmp_path, content(step), ABOUT)
    return tmp_path


def test_a_checkpoint_comes_back_bit_for_bit(folder):
    found, given = read_checkpoint(folder / "step-10"), content(10)
    assert weights_sha256(found.model) == weights_sha256(given.model)
    assert weights_sha256(found.optim) == weights_sha256(given.optim)
    assert (found.step, found.state) == (10, given.state)
    assert weights_sha256(load_weights(folder / "step-10")) == weights_sha256(given.model)


def test_the_hash_of_weights_sees_names_shapes_and_bits():
    base = {"a": torch.zeros(2, 3)}
    others = [
        {"b": torch.zeros(2, 3)},
        {"a": torch.zeros(3, 2)},
        {"a": -torch.zeros(2, 3)},
        {"a": torch.zeros(2, 3).double()},
    ]
    assert len({weights_sha256(tensors) for tensors in [base, *others]}) == 5


def flip(path: Path, bit: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[bit // 8 % len(raw)] ^= 1 << bit % 8
    path.write_bytes(bytes(raw))


def flips(folder: Path, count: int) -> int:
    """How many of ``count`` single-bit changes, spread over all files of a checkpoint, are noticed."""
    rng, path, noticed = np.random.default_rng(0), folder / "step-10", 0
    names = [files.MANIFEST, *files.FILES]
    for number in range(count):
        victim = path / names[number % len(names)]
        bit = int(rng.integers(8 * victim.stat().st_size))
        flip(victim, bit)
        try:
            read_checkpoint(path)
        except CorruptArtefactError:
            noticed += 1
        flip(victim, bit)
    read_checkpoint(path)
    return noticed


def test_each_of_100_flipped_bits_is_noticed(folder):
    assert flips(folder, 100) == 100


@pytest.mark.slow
def test_each_of_1000_flipped_bits_is_noticed(folder):
    assert flips(folder, 1000) == 1000


@pytest.mark.parametrize("name", [files.MANIFEST, *files.FILES])
def test_a_file_cut_at_any_sixteenth_falls_back_to_the_checkpoint_before(folder, name, caplog):
    victim = folder / "step-10" / name
    raw = victim.read_bytes()
    for sixteenth in range(16):
        victim.write_bytes(raw[: len(raw) * sixteenth // 16])
        caplog.clear()
        assert files.newest_valid(folder) == folder / "step-5"
        assert "step-10" in caplog.text and name in caplog.text


@pytest.mark.parametrize("name", [files.MANIFEST, *files.FILES])
def test_a_pipe_in_a_checkpoint_is_not_waited_for(folder, name, caplog):
    victim = folder / "step-10" / name
    victim.unlink()
    os.mkfifo(victim)
    assert files.newest_valid(folder) == folder / "step-5"
    assert "regular file" in caplog.text and name in caplog.text


@pytest.mark.slow
def test_each_of_1000_truncations_is_noticed(folder):
    rng, noticed = np.random.default_rng(1), 0
    names = [files.MANIFEST, *files.FILES]
    for number in range(1000):
        victim = folder / "step-10" / names[number % 4]
        raw = victim.read_bytes()
        victim.write_bytes(raw[: int(rng.integers(len(raw)))])
        noticed += files.newest_valid(folder) == folder / "step-5"
        victim.write_bytes(raw)
    assert noticed == 1000


@pytest.mark.parametrize("change", ["missing file", "extra file", "renamed"])
def test_a_checkpoint_with_other_files_is_refused(folder, change):
    path = folder / "step-10"
    if change == "missing file":
        (path / "optim.safetensors").unlink()
    elif change == "extra file":
        (path / "more.bin").write_bytes(b"")
    else:
        path = path.rename(folder / "step-11")
    with pytest.raises(CorruptArtefactError):
        files.verify(path)


def test_when_all_are_damaged_it_says_so_and_changes_nothing(folder):
    for step in (5, 10):
        flip(folder / f"step-{step}" / "state.json", 3)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    with pytest.raises(CorruptArtefactError, match="all 2 checkpoints are damaged"):
        files.newest_valid(folder)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_a_later_schema_names_the_version_that_is_needed(folder):
    path = folder / "step-10" / files.MANIFEST
    write_sealed(path, {**read_sealed(path), "schema_version": 99, "versions": {"stationpde": "7.5"}})
    with pytest.raises(CorruptArtefactError) as caught:
        files.verify(path.parent)
    assert "stationpde 7.5" in caught.value.do and caught.value.exit_code == 5


def test_what_a_killed_writer_left_is_ignored_and_cleared(folder):
    torn = folder / "step-15.tmp-0123"
    shutil.copytree(folder / "step-10", torn)
    assert files.newest_valid(folder) == folder / "step-10"
    files.clear_scratch(folder)
    assert not torn.exists()


def test_order_is_by_step_and_not_by_name_or_time(tmp_path):
    for step in (100, 9, 20):
        write_checkpoint(tmp_path, content(step), ABOUT)
    assert [p.name for p in files.listed(tmp_path)] == ["step-9", "step-20", "step-100"]


def test_the_last_two_and_the_best_are_kept(tmp_path):
    for step in range(1, 6):
        write_checkpoint(tmp_path, content(step), ABOUT)
    files.prune(tmp_path, keep=["step-2"])
    assert [p.name for p in files.listed(tmp_path)] == ["step-2", "step-4", "step-5"]


def test_a_step_written_again_replaces_the_damaged_one(folder):
    flip(folder / "step-10" / "model.safetensors", 100)
    write_checkpoint(folder, content(10), ABOUT)
    assert files.newest_valid(folder) == folder / "step-10"


# ---- hostile tensor files -------------------------------------------------------------------------------------


def tensor_file(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(start: int, stop: int, dtype: str = "F32", shape: object = (1,)) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape, "data_offsets": [start, stop]}


HOSTILE = {
    "header of 100 MB": {"header": {}, "length": 100 << 20},
    "header longer than the file": {"header": {}, "length": 50},
    "overlapping offsets": {"header": {"a": entry(0, 4), "b": entry(0, 4)}, "data": bytes(8)},
    "gap": {"header": {"a": entry(0, 4), "b": entry(8, 12)}, "data": bytes(12)},
    "data left over": {"header": {"a": entry(0, 4)}, "data": bytes(9)},
    "data missing": {"header": {"a": entry(0, 4)}, "data": bytes(3)},
    "unknown dtype": {"header": {"a": entry(0, 4, "Q32")}, "data": bytes(4)},
    "dtype of another size": {"header": {"a": entry(0, 4, "F64")}, "data": bytes(4)},
    "shape that does not fit": {"header": {"a": entry(0, 4, shape=(2,))}, "data": bytes(4)},
    "negative shape": {"header": {"a": entry(0, 4, shape=(-1, -1))}, "data": bytes(4)},
    "enormous shape": {"header": {"a": entry(0, 4, shape=(1 << 60, 4))}, "data": bytes(4)},
    "shape of text": {"header": {"a": entry(0, 4, shape="11")}, "data": bytes(4)},
    "negative offsets": {"header": {"a": entry(-4, 0)}, "data": bytes(4)},
    "no JSON": {"header": b"\x80\x04not json"},
    "deeply nested": {"header": b"[" * 100_000},
    "a list": {"header": [1, 2]},
    "a name twice": {
        "header": b'{"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, "a": 1}',
        "data": bytes(4),
    },
    "no offsets": {"header": {"a": {"dtype": "F32", "shape": [1]}}, "data": bytes(4)},
    "a name with an escape": {"header": {"\x1b[2J": entry(0, 4)}, "data": bytes(4)},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_tensor_file_is_refused_without_memory(case, tmp_path):
    path = tensor_file(tmp_path / "x.safetensors", **HOSTILE[case])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptArtefactError) as caught:
        read_tensors(path)
    assert caught.value.exit_code == 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # kB


def test_an_honest_tensor_file_is_read(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(encode({"a": torch.arange(6.0).reshape(2, 3), "empty": torch.zeros(0, 2), "n": torch.tensor(3)}))
    assert check_header(path)["a"].shape == (2, 3)
    found = read_tensors(path)
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["n"].item() == 3


@pytest.mark.parametrize("bad", [b"", b"{}", b"[1]", b'{"content": {}, "sha256": "0"}', b"\xff", b"[" * 50_000])
def test_a_file_without_its_seal_is_refused(bad, tmp_path):
    (tmp_path / "x.json").write_bytes(bad)
    with pytest.raises(CorruptArtefactError):
        read_sealed(tmp_path / "x.json")


def test_a_seal_notices_a_changed_space(tmp_path):
    raw = sealed({"a": 1})
    (tmp_path / "x.json").write_bytes(raw.replace(b" ", b"  ", 1))
    with pytest.raises(CorruptArtefactError):
        read_sealed(tmp_path / "x.json")
