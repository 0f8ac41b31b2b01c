"""Files of valid runs with one change and an intact seal: a typed error or the same result, and nothing else."""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mutations import mutated, outcome
from stationpde.errors import CorruptArtefactError
from stationpde.runs import (
    RunDirectory,
    SavedState,
    inspect,
    load_run,
    read_checkpoint,
    read_metrics,
    read_sealed,
    require_schema,
    summary,
    weights_sha256,
    write_sealed,
)
from stationpde.training.session import TrainResult


@pytest.fixture
def run(small_runs, tmp_path) -> Path:
    return Path(shutil.copytree(small_runs.first, tmp_path / "run"))


def identity_of(run: Path) -> tuple[Any, ...]:
    """What a forecast depends on: weights, configuration and checkpoint."""
    loaded = load_run(run)
    return weights_sha256(loaded.model.state_dict()), loaded.model.config.hash(), loaded.checkpoint


def refused_or_same(result: Callable[[], Any], expected: Any, change: str) -> bool:
    """Return whether a mutation was refused; it fails the test by another result or an untyped error."""
    problem, after = outcome(result, change)
    assert after == expected if problem is None else problem.code.startswith("SPDE-T05"), f"{problem} for {change}"
    return problem is not None


def mutate_sealed(path: Path, seeds: range, result: Callable[[], Any], also: Callable[[], Any] = lambda: None) -> int:
    """Reseal a file with one change after the other; return how many were refused."""
    raw, content, expected, refused = path.read_bytes(), read_sealed(path), result(), 0
    for seed in seeds:
        changed, change = mutated(content, seed)
        write_sealed(path, changed)
        refused += refused_or_same(result, expected, change)
        also()
    path.write_bytes(raw)
    return refused


def mutate_record(run: Path, seeds: range) -> None:
    directory = RunDirectory(run)
    assert mutate_sealed(
        run / "run.json", seeds, lambda: identity_of(run), lambda: (summary(directory), inspect(directory))
    )
    assert inspect(directory)["ok"]


def mutate_best(run: Path, seeds: range) -> None:
    directory = RunDirectory(run)
    assert mutate_sealed(
        run / "best.json", seeds, lambda: (directory.checkpoint("best").name, (directory.best() or {})["score"]),
        lambda: (summary(directory), inspect(directory)),
    )  # fmt: skip


def mutate_result(run: Path, seeds: range) -> None:
    directory = RunDirectory(run)
    # How it was trained is told by this file alone: types and ranges are checked, not the values.
    free = ("weights_sha256", "epochs", "stopped_early", "skipped", "rollbacks")

    def result() -> Any:
        about = TrainResult.from_dict(directory.result()).to_dict()
        return {name: value for name, value in about.items() if name not in free}

    assert mutate_sealed(run / "result.json", seeds, result, lambda: summary(directory))


def mutate_manifest(run: Path, seeds: range) -> None:
    directory = RunDirectory(run)
    path = run / "checkpoints" / "step-2"
    assert mutate_sealed(
        path / "manifest.json", seeds, lambda: (directory.verify(path) and None, read_checkpoint(path).step),
        lambda: inspect(directory),
    )  # fmt: skip


def reseal_file(path: Path, content: bytes) -> None:
    """Write a file of a checkpoint and its size and SHA-256 into the manifest."""
    path.write_bytes(content)
    manifest = read_sealed(path.parent / "manifest.json")
    manifest["files"][path.name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_sealed(path.parent / "manifest.json", manifest)


def mutate_state(run: Path, seeds: range) -> None:
    directory, folder = RunDirectory(run), run / "checkpoints" / "step-2"
    content, refused = json.loads((folder / "state.json").read_bytes()), 0

    def types() -> Any:
        state = require_schema(SavedState, read_checkpoint(folder).state, folder / "state.json")
        return {name: type(getattr(state, name)) for name in SavedState.model_fields if name != "best"}

    expected = types()
    for seed in seeds:
        changed, change = mutated(content, seed)
        reseal_file(folder / "state.json", json.dumps(changed).encode())
        inspect(directory)
        refused += refused_or_same(types, expected, change)
    assert refused > len(seeds) // 3


def mutate_header(run: Path, seeds: range) -> None:
    """Change the header of the weights, whose file is sealed again."""
    path = run / "checkpoints" / "step-2" / "model.safetensors"
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, expected, refused = json.loads(raw[8 : 8 + length]), identity_of(run), 0
    header.pop("__metadata__", None)
    for seed in seeds:
        changed, change = mutated(header, seed)
        if "exchanged" in change:  # two tensors of one shape: a valid file of another model
            continue
        text = json.dumps(changed).encode()
        reseal_file(path, len(text).to_bytes(8, "little") + text + raw[8 + length :])
        refused += refused_or_same(lambda: identity_of(run), expected, change)
    assert refused > len(seeds) // 3


def mutate_metrics(run: Path, seeds: range, caplog: pytest.LogCaptureFixture) -> None:
    directory = RunDirectory(run)
    lines = directory.metrics.read_text().splitlines()
    caplog.set_level(logging.WARNING)
    for seed in seeds:
        number = seed % len(lines)
        changed, change = mutated(json.loads(lines[number]), seed)
        written = [*lines[:number], json.dumps(changed), *lines[number + 1 :]]
        directory.metrics.write_text("\n".join(written) + "\n")
        caplog.clear()
        records, report = read_metrics(directory.metrics), inspect(directory)
        damaged = "metrics.jsonl" in caplog.text
        assert len(records) == len(lines) or damaged or "exchanged" in change or "step" in change, change
        assert not damaged or report["files"]["metrics.jsonl"], change


MUTATE = {
    "run.json": mutate_record, "best.json": mutate_best, "result.json": mutate_result,
    "manifest.json": mutate_manifest, "state.json": mutate_state, "model.safetensors": mutate_header,
}  # fmt: skip
MANY = {"run.json": 1500, "best.json": 1000, "result.json": 1000, "manifest.json": 1500, "state.json": 1500,
        "model.safetensors": 500}  # fmt: skip


@pytest.mark.parametrize("name", MUTATE)
def test_25_mutations_of_a_sealed_file_of_a_run_are_refused_or_change_nothing(run, name):
    MUTATE[name](run, range(25))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTATE)
def test_many_mutations_of_a_sealed_file_of_a_run_are_refused_or_change_nothing(run, name):
    MUTATE[name](run, range(1000, 1000 + MANY[name]))


def test_mutated_lines_of_the_log_are_left_out_with_a_warning(run, caplog):
    mutate_metrics(run, range(20), caplog)


@pytest.mark.slow
def test_500_mutated_lines_of_the_log_are_left_out_with_a_warning(run, caplog):
    mutate_metrics(run, range(1000, 1500), caplog)


def test_a_log_with_a_step_of_any_size_is_checked_without_memory(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "step", "step": 9007199254740000}\n')
    assert "the first is 3" in inspect(RunDirectory(run))["files"]["metrics.jsonl"]


@pytest.mark.parametrize("value", [b"NaN", b"1e999", b"1" * 5000, b"[" * 500 + b"]" * 500])
def test_numbers_without_a_canonical_form_are_damage(run, value):
    (run / "run.json").write_bytes(b'{"content": {"x": ' + value + b'}, "sha256": "0"}')
    with pytest.raises(CorruptArtefactError, match=r"run\.json is damaged"):
        load_run(run)
