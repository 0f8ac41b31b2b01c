"""`benchmark`, `evaluate` and `ablate` as commands on a synthetic network: JSON, tables, resumption, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FAST = ["data.history=4", "data.horizon=2", "grid.height=8", "model.hidden=4", "model.encoder_hidden=4",
        "model.head_hidden=8", "model.guide_networks=0",
        "train.batch=4", "train.epochs=2", "train.checkpoint_every=2",
        "pde.backend=torch"]  # fmt: skip


def words(*line: object, steps: int = 3) -> list[str]:
    pairs = [*FAST, f"train.max_steps={steps}"]
    return [*map(str, line), *(part for pair in pairs for part in ("--set", pair))]


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    from fields.synthetic.network import write_network

    return write_network(tmp_path_factory.mktemp("net") / "net.zarr", stations=8, days=20)


def test_a_benchmark_of_any_store_needs_no_further_settings_and_prints_one_object(network, tmp_path, stationpde):
    code, out, _ = stationpde(*words("benchmark", network, "--models", "persistence,default", "-o", tmp_path, "--json"))
    results = json.loads(out)
    assert code == 0 and results["protocol"] == "w2k-like" and set(results["pooled"]) == {"default", "persistence"}
    assert set(results["pooled"]["default"]["t"]) >= {"mse", "mae", "mse_std"} and list(results["seeds"]) == ["0"]
    assert "| temperature (K²) |" in Path(results["files"]["table"]).read_text()
    run = next((tmp_path / "runs").iterdir())
    code, out, _ = stationpde("evaluate", run, "--obs", network, "--quality", "gross", "--against", "persistence",
                              "--by", "lead,elevation", "--significance", "--json")  # fmt: skip
    scores = json.loads(out)
    assert code == 0 and list(scores["by"]) == ["lead", "elevation"] and "6 h" in scores["by"]["lead"]
    # The same windows, weights and sums as in the cell, which keeps nine digits.
    assert scores["scores"]["run"]["t"]["mse"] == pytest.approx(results["pooled"]["default"]["t"]["mse"], rel=1e-6)
    assert {"gain", "low", "p"} <= set(scores["compared"]["persistence"]["u"])
    assert all(Path(path).stat().st_size for path in results["files"]["pictures"])
    # Fewer windows: so many, evenly spaced, or by the old option one in so many.
    line = ("evaluate", run, "--obs", network, "--quality", "gross", "--json")
    every = scores["data"]["windows"]["test"]
    code, out, err = stationpde(*line, "--windows", 3)
    assert code == 0 and json.loads(out)["data"]["windows"]["test"] == 3 < every and "deprecated" not in err
    code, out, err = stationpde(*line, "--stride", 2)
    # The offset of the first window may cost one.
    assert code == 0 and abs(2 * json.loads(out)["data"]["windows"]["test"] - every) <= 1
    assert "warning: --stride is deprecated; use --windows" in err


@pytest.mark.parametrize(
    ("options", "seconds"), [(["--cap", "2min"], 120.0), (["--cap", "none"], None), ([], None)]
)
def test_the_recipe_of_the_paper_has_the_cap_that_is_typed(network, tmp_path, stationpde, options, seconds):
    line = words("benchmark", network, "--models", "persistence", "--recipe", "paper", "-o", tmp_path, "--json")
    code, out, _ = stationpde(*line, *options)
    assert code == 0 and json.loads(out)["cap_cpu_seconds"] == seconds


def test_a_cap_ends_the_training_of_the_recipe_of_the_paper(network, tmp_path, stationpde):
    line = words("benchmark", network, "--models", "dlinear", "--recipe", "paper", "-o", tmp_path, "--cap", "2min")
    code, _, err = stationpde(*line)
    assert code == 0, err
    cell = json.loads(next((tmp_path / "cells").iterdir()).read_text())
    assert cell["cap"] == 120.0 and cell["recipe"] == "paper"


def test_an_unknown_model_or_protocol_exits_with_the_nearest_name(network, tmp_path, stationpde):
    code, _, err = stationpde("benchmark", network, "--models", "persistance", "-o", tmp_path)
    assert code in (2, 4) and "persistence" in err
    code, _, err = stationpde("benchmark", network, "--protocol", "w2k", "-o", tmp_path)
    assert code == 2 and "w2k-like" in err
    code, _, err = stationpde("benchmark", network, "--models", "persistence,dlinear@x", "-o", tmp_path)
    assert code == 2 and "--models" in err and "0:5" in err


def test_a_time_limit_exits_75_and_keeps_what_is_finished(network, tmp_path, stationpde):
    line = words("benchmark", network, "--models", "persistence,default", "-o", tmp_path)
    code, _, err = stationpde(*line, "--max-time", "0s")
    assert code == 75 and "of 2 cells are finished" in err
    assert "No cell" in (tmp_path / "results.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(500)  # three processes that import torch and train, on a machine that may be busy
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_benchmark_that_was_stopped_goes_on_to_the_same_numbers(network, tmp_path, number):
    other = ["--cap", "none", "--models", "persistence,default", "--json"]

    def line(out: Path) -> list[str]:
        return [sys.executable, "-m", "cli", *words("benchmark", network, "-o", out, steps=12), *other]

    whole = subprocess.run(line(tmp_path / "whole"), capture_output=True, encoding="utf-8", check=True)
    process = subprocess.Popen(line(tmp_path / "stopped"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs, end = tmp_path / "stopped" / "runs", time.monotonic() + 100
    while not list(runs.glob("*default*/checkpoints/step-*")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, number)
    assert process.wait() == (75 if number == signal.SIGTERM else -9)
    again = subprocess.run(line(tmp_path / "stopped"), capture_output=True, encoding="utf-8", check=True)
    assert json.loads(again.stdout)["pooled"] == json.loads(whole.stdout)["pooled"]


@pytest.mark.slow
def test_cells_in_other_processes_have_the_same_numbers(network, tmp_path, stationpde):
    line = words("benchmark", network, "--models", "dlinear,default", "--cap", "none", "--json")
    code, alone, _ = stationpde(*line, "-o", tmp_path / "one")
    assert code == 0
    code, together, _ = stationpde(*line, "-o", tmp_path / "two", "--jobs", 2)
    assert code == 0 and json.loads(together)["pooled"] == json.loads(alone)["pooled"]


def test_a_part_that_is_not_there_is_refused_before_anything_is_read(tmp_path, stationpde):
    code, _, err = stationpde("ablate", "nowhere.zarr", "--parts", "no_pde,no_diffusoin", "-o", tmp_path / "out")
    assert code == 2 and "did you mean 'no_diffusion'?" in err and "condensation" in err
    assert not (tmp_path / "out").exists()


def test_a_term_of_the_equations_is_a_part(tmp_path, stationpde):
    code, _, err = stationpde("ablate", "nowhere.zarr", "--parts", "coriolis,r_m", "-o", tmp_path / "out")
    assert code == 2 and "SPDE-D156" in err  # its names were taken, and the record is missed


@pytest.mark.slow
@pytest.mark.timeout(900)  # some twenty models, two or three trainings each, on a machine that may be busy
def test_all_models_finish_and_a_residual_is_kept_with_its_units(network, tmp_path, stationpde):
    line = words("benchmark", network, "--models", "all", "--cap", "none", "-o", tmp_path, "--json", steps=2)
    code, out, err = stationpde(*line, "--set", "loss.residual=0.01")
    assert code == 0, err
    pooled = json.loads(out)["pooled"]
    assert {"default", "field", "paper", "cdpnet", "dgformer", "mastergnn", "weathergft", "lift"} <= set(pooled)
    for model in ("default", "cdpnet"):
        cell = json.loads((tmp_path / "cells" / f"w2k-like-24h-{model}-seed0.json").read_text())
        assert cell["training"]["physics"]["lambda_friction_u"]["unit"] == "1/d"
    dgformer = json.loads((tmp_path / "cells" / "w2k-like-24h-dgformer-seed0.json").read_text())
    assert "physics" not in dgformer["training"]


@pytest.mark.slow
def test_ablate_writes_table_numbers_and_figure(network, tmp_path, stationpde):
    line = words("ablate", network, "--parts", "no_pde", "--seeds", "0", "--cap", "none", "-o", tmp_path, "--json")
    code, out, _ = stationpde(*line)
    results = json.loads(out)
    assert code == 0 and set(results["ablation"]["increase"]["no_pde"]) == {"u", "v", "p", "t", "rh"}
    assert all(Path(path).stat().st_size for path in results["files"].values())
