"""Which quality flags count is one setting: cells are trained with it, tables state it, and cells stay recognised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from small_network import SMALL, small_series
from stationpde.errors import UsageError
from stationpde.evaluation.ablations import Ablation
from stationpde.evaluation.benchmark import Bench, BenchmarkPlan, run_benchmark
from stationpde.evaluation.contestants import contestant
from stationpde.evaluation.evaluate import EvaluationRequest, evaluate_run
from stationpde.evaluation.tables import markdown
from stationpde.runs import load_run

PHRASES = {"full": "values: all quality tests", "gross": "values: gross errors removed only"}


def plan_of(out: Path, *models: str, **changes) -> BenchmarkPlan:
    overrides = tuple(pair for pair in SMALL if "dropout" not in pair)
    return replace(BenchmarkPlan("made-up", "w2k-like", models, out, overrides=overrides, cap=None), **changes)


@pytest.mark.parametrize("quality", ["full", "gross"])
def test_tables_of_a_benchmark_state_which_values_count(tmp_path, quality):
    plan = plan_of(tmp_path, "persistence", quality=quality)
    results, _ = run_benchmark(plan, small_series())
    assert results.to_dict()["quality"] == quality
    assert PHRASES[quality] in markdown(results) and PHRASES[quality] in (tmp_path / "results.md").read_text()
    assert PHRASES[quality] in Ablation(results, variant="persistence").markdown()


def test_cells_are_trained_with_the_setting_and_recognised_without_it(tmp_path):
    gross, full = plan_of(tmp_path, "default"), plan_of(tmp_path, "default", quality="full")
    model, series = contestant("default"), small_series()
    (task,) = gross.tasks()
    assert gross.config(model, task).data.quality == "gross" and full.config(model, task).data.quality == "full"
    assert gross.tasks() == full.tasks()
    # A run directory belongs to one configuration.
    benches = [Bench(plan, series) for plan in (gross, full)]
    runs = {bench.fitter.run_of(task, bench.source(24)) for bench in benches}
    assert len(runs) == 2


def test_the_setting_of_a_benchmark_has_one_option():
    with pytest.raises(UsageError, match=r"data\.quality") as refused:
        plan_of(Path("x"), "default", overrides=("data.quality=full",))
    assert "--quality" in refused.value.do


def test_an_evaluation_states_the_setting_of_the_run_or_of_the_option(small_runs):
    run, series = load_run(small_runs.first), small_series()
    request = EvaluationRequest(against=(), stride=20)
    assert evaluate_run(run, series, request)["quality"] == "full"
    assert evaluate_run(run, series, replace(request, quality="gross"))["quality"] == "gross"


def test_the_committed_tables_state_which_values_count():
    page = (Path(__file__).parents[3] / "docs" / "results.md").read_text("utf-8")
    data = [line for line in page.splitlines() if line.startswith("| data |")]
    assert len(data) >= 4 and all(line.endswith(f"; {PHRASES['gross']} |") for line in data)
