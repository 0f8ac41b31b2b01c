"""Exported programs against the model itself, in either format, for both variants."""

import json
import shutil

import pytest

from small_network import VARIANTS, small_config, small_model, small_series, wild
from small_run import small_runs as write_small_runs
from stationpde.errors import CorruptArtefactError, UsageError
from stationpde.forecasting.export import TOLERANCES, Rollout, example_window, export_run, parity
from stationpde.forecasting.programs import programs_of
from stationpde.runs.loading import load_run


@pytest.fixture
def run(small_runs):
    return load_run(small_runs.first, backend="torch")


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_parts_and_the_loop_outside_are_the_model(variant):
    model = small_model(small_config(variant))
    wild(model, 0.05)
    history, issue = example_window(model, seed=2)
    programs = programs_of(model, history, issue)
    rollout = Rollout({name: program.module for name, program in programs.items()}, 2, model.config.substeps)
    # The same operations in the same order, but for the lead, which is a tensor here: float32.
    assert parity(model, rollout, history, issue) <= 1e-5
    assert rollout(history, issue, horizon=5).shape == (1, 5, 12, 5)


def test_a_wrong_format_and_a_place_that_is_taken_are_refused_before_any_work(run, small_runs, tmp_path):
    with pytest.raises(UsageError, match="no format"):
        export_run(run, tmp_path / "x", "tflite")
    with pytest.raises(UsageError, match="exists"):
        export_run(run, small_runs.first)
    with pytest.raises(UsageError, match="is no export"):
        export_run(run, small_runs.first, force=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", ["default", "paper"])
def test_a_program_agrees_with_the_model_to_1e_4(variant, tmp_path):
    run = load_run(write_small_runs(tmp_path / "runs", variant).first, backend="torch")
    exported = export_run(run, tmp_path / "pt2")
    assert exported.difference <= TOLERANCES["pt2"] == 1e-4
    # Another window than the one that it was traced and checked with.
    history, issue = example_window(run.model, seed=5)
    assert parity(run.model, Rollout.load(exported.path), history, issue) <= 1e-4
    about = json.loads((exported.path / "export.json").read_text())
    assert about["programs"]["analysis"]["inputs"] == ["history", "issue_time"]
    assert about["variables"]["p"] == "Pa" and about["stations"]["id"] == list(small_series().stations.id)
    assert about["horizon"] == 2 and about["step_seconds"] == 21600
    program = exported.path / "step.pt2"
    content = bytearray(program.read_bytes())
    content[len(content) // 2] ^= 1
    program.write_bytes(content)
    with pytest.raises(CorruptArtefactError, match="damaged"):
        Rollout.load(exported.path)
    shutil.rmtree(exported.path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", ["default", "paper"])
def test_an_onnx_program_agrees_with_the_model_to_1e_3(variant, tmp_path):
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="the extra `export` is not installed")
    run = load_run(write_small_runs(tmp_path / "runs", variant).first, backend="torch")
    exported = export_run(run, tmp_path / "onnx", "onnx")
    assert exported.difference <= TOLERANCES["onnx"] == 1e-3
    history, issue = example_window(run.model, seed=5)
    assert parity(run.model, Rollout.load(exported.path), history, issue) <= 1e-3
