"""A peer that fits itself within the cap: its cell, stations left out, an end by SIGTERM, and what a cell hangs on."""

import os
import signal
from dataclasses import replace

import pytest

from small_benchmark import plan_of
from small_network import small_series
from stationpde.errors import Interrupted
from stationpde.evaluation.benchmark import run_benchmark
from stationpde.evaluation.contestants import contestant
from stationpde.evaluation.tables import markdown

pytest.importorskip("lightgbm")


@pytest.mark.parametrize("leave_out", [0, 3])
def test_trees_have_a_cell_with_their_time_and_choices(tmp_path, leave_out):
    plan = plan_of(tmp_path, "persistence", "gbdt_nb", cap=0.2, leave_out=leave_out)
    results, bench = run_benchmark(plan, small_series())

    assert not bench.failed
    cell = results.horizons[0].cells["gbdt_nb"][0]
    training = cell.about["training"]
    assert 0.0 < training["cpu_seconds"] < 10.0 and set(training["chosen"]) == {"u", "v", "p", "t", "rh"}
    assert "leaves at" in markdown(results) and "Boosted trees with neighbours" in markdown(results)
    again, _ = run_benchmark(plan, small_series())
    assert again.to_dict()["pooled"] == results.to_dict()["pooled"]


def test_trees_end_at_sigterm_and_the_same_command_goes_on(tmp_path):
    plan, told = plan_of(tmp_path, "gbdt_nb", cap=0.2), []

    def ask_to_stop(event):
        if getattr(event, "stage", "") == "fit":
            told.append(event)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        run_benchmark(plan, small_series(), ask_to_stop)
    parts = next((tmp_path / "runs").glob("*/parts"))
    plan_before = (parts / "plan.json").read_bytes()
    results, _ = run_benchmark(plan, small_series())

    assert told and (parts / "plan.json").read_bytes() == plan_before
    assert len(results.horizons[0].cells["gbdt_nb"]) == 1


def test_a_cell_of_trees_depends_on_data_seed_and_cap_alone(tmp_path):
    task = plan_of(tmp_path, "gbdt_nb", cap=5.0).tasks()[0]
    model = contestant("gbdt_nb")
    settings = model.settings(task, "x")

    assert task.name.endswith("gbdt_nb-seed0") and task.cap == 5.0
    assert settings == model.settings(
        replace(task, overrides=(*task.overrides, "train.lr=0.5", "pde.max_wind=50")), "x"
    )
    for other in (replace(task, seed=1), replace(task, cap=6.0), replace(task, overrides=("data.history=4",))):
        assert settings != model.settings(other, "x")
