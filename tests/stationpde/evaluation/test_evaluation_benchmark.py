"""A benchmark on a dozen made-up stations: cells, resumption, cheats, stale and foreign cells."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from small_benchmark import TINY, plan_of
from small_network import places, small_series, weather
from stationpde.baselines.registry import Baseline, baselines
from stationpde.errors import CorruptArtefactError, UsageError
from stationpde.evaluation.ablations import Ablation, ablation_models, parts_of
from stationpde.evaluation.benchmark import run_benchmark
from stationpde.evaluation.cells import read_cell
from stationpde.evaluation.contestants import contestant
from stationpde.evaluation.page import slug, update_page
from stationpde.evaluation.protocols import protocol
from stationpde.evaluation.tables import markdown
from stationpde.plots.errors import draw_benchmark, models_to_draw


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A benchmark of a rule, a peer that learns from two seeds, and the model."""
    plan = plan_of(tmp_path_factory.mktemp("bench"), "persistence", "dlinear", "default", seeds=(0, 1))
    results, _ = run_benchmark(plan, small_series())
    return plan, results


class Cheat:
    def predict(self, batch):
        return batch.future.nan_to_num(0.5)


@pytest.fixture
def cheat():
    baselines.add("cheat", Baseline("cheat", "Cheat", "", "rule", lambda config, source: Cheat()), owner="test")
    yield "cheat"
    baselines.remove("cheat")


def test_the_result_has_means_over_seeds_seeds_and_protocol(finished):
    made = finished[1].to_dict()
    assert set(made["pooled"]) == {"default", "persistence", "dlinear"} and set(made["seeds"]) == {"0", "1"}
    for variable in ("u", "v", "p", "t", "rh"):
        two = [made["seeds"][seed]["dlinear"][variable]["mse"] for seed in "01"]
        pooled = made["pooled"]["dlinear"][variable]
        assert pooled["mse"] == pytest.approx(sum(two) / 2) and pooled["mse_std"] == pytest.approx(
            abs(two[0] - two[1]) / 2**0.5
        )
        assert made["pooled"]["persistence"][variable]["mse_std"] == 0.0
    assert made["protocol"] == "w2k-like" and made["models"]["dlinear"]["horizons"]["24"]["cpu_seconds"] > 0


def test_a_model_may_have_seeds_of_its_own(finished):
    plan, _ = finished
    results, _ = run_benchmark(replace(plan, own_seeds={"dlinear": (1,)}), small_series())
    made = results.to_dict()
    assert made["pooled"]["dlinear"]["t"]["seeds"] == 1 and made["pooled"]["default"]["t"]["seeds"] == 2
    assert made["pooled"]["dlinear"]["t"]["mse"] == made["seeds"]["1"]["dlinear"]["t"]["mse"]
    rows = {line.split(" | ")[0][2:]: line for line in markdown(results).partition("### MAE")[0].splitlines()}
    assert rows["StationPDE"].count("±") == 5 and "±" not in rows["DLinear"]


def test_a_model_may_have_a_training_of_its_own_beside_those_with_the_table_s_cap():
    plan = plan_of(Path("x"), "paper", "paper:recipe_paper", "paper:ten_epochs", "dlinear", overrides=(), cap=900.0)
    tasks = {task.model: task for task in plan.tasks() if task.seed == 0}
    assert {name: task.cap for name, task in tasks.items()} == {
        "paper": plan.cap, "paper:recipe_paper": None, "paper:ten_epochs": None, "dlinear": plan.cap,
    }  # fmt: skip
    assert [tasks[name].name for name in ("paper", "paper:recipe_paper", "paper:ten_epochs")] == [
        "w2k-like-24h-paper-seed0", "w2k-like-24h-paper-recipe_paper-seed0", "w2k-like-24h-paper-ten_epochs-seed0",
    ]  # fmt: skip
    train = {name: contestant(name).config(task).train for name, task in tasks.items()}
    printed, ten = train["paper:recipe_paper"], train["paper:ten_epochs"]
    assert (printed.lr, printed.batch, printed.epochs) == (1e-4, 32, 10)
    assert ten.epochs == 10 and ten.lr == train["paper"].lr and ten.batch == train["paper"].batch


def test_a_training_of_its_own_is_the_cell_that_recipe_and_cap_of_a_whole_table_give():
    own = next(task for task in plan_of(Path("x"), "paper:recipe_paper").tasks() if task.seed == 0)
    whole = next(task for task in plan_of(Path("x"), "paper", recipe="paper", cap=None).tasks() if task.seed == 0)
    assert own.name == whole.name
    assert contestant(own.model).settings(own, "f") == contestant(whole.model).settings(whole, "f")


def test_the_former_recipe_keeps_the_cap_and_leaves_the_peers_as_they_are():
    models = ("default", "default:recipe_former", "dlinear")
    tasks = {task.model: task for task in plan_of(Path("x"), *models, overrides=(), cap=900.0).tasks() if not task.seed}
    former, plain, peer = (tasks[name] for name in ("default:recipe_former", "default", "dlinear"))
    assert former.cap == plain.cap == 900.0 and former.name == "w2k-like-24h-default-recipe_former-seed0"
    model = contestant(former.model).config(former).model
    assert not model.simple_members and model.shares == "half_way" and model.guide_rows == "thinned"
    assert contestant("default").config(plain).model.simple_members
    assert contestant(former.model).settings(former, "f") != contestant("default").settings(plain, "f")
    whole = plan_of(Path("x"), "default", "dlinear", recipe="former", overrides=(), cap=900.0).tasks()
    same = {task.model: task for task in whole if not task.seed}
    assert same["dlinear"] == peer
    assert same["default"].name == former.name
    assert contestant("default").settings(same["default"], "f") == contestant(former.model).settings(former, "f")


def test_a_row_without_a_cap_says_how_long_it_was_trained(finished):
    first = finished[1].horizons[0]
    cells = tuple(
        replace(cell, task=replace(cell.task, cap=None), about={**cell.about, "training": {"cpu_seconds": 3600.0}})
        for cell in first.cells["default"]
    )
    uncapped = replace(first, cells={**first.cells, "default": cells})
    text = markdown(replace(finished[1], horizons=(uncapped,), cap=900.0))
    assert "| StationPDE; no cap, 60 CPU-minutes |" in text.partition("### MAE")[0]


@pytest.mark.parametrize(
    ("name", "hint"), [("paper:ten_epoch", "ten_epochs"), ("dlinear:ten_epochs", "--models dlinear")]
)
def test_an_unknown_training_or_one_of_a_peer_is_refused(name, hint):
    with pytest.raises(UsageError) as refused:
        contestant(name)
    assert hint in (refused.value.do or "")


def test_a_horizon_may_have_seeds_of_its_own():
    plan = plan_of(Path("x"), "persistence", "dlinear", "default", horizons=(24, 48), horizon_seeds={24: (0, 1, 2)},
                   own_seeds={"dlinear": (4,)})  # fmt: skip
    seeds = {(t.model, t.hours): [o.seed for o in plan.tasks() if (o.model, o.hours) == (t.model, t.hours)]
             for t in plan.tasks()}  # fmt: skip
    assert seeds["default", 24] == [0, 1, 2] and seeds["default", 48] == [0]
    assert seeds["dlinear", 24] == seeds["dlinear", 48] == [4] and seeds["persistence", 24] == [None]


def test_cells_are_small_files_with_everything_a_table_says(finished):
    plan, _ = finished
    paths = sorted(plan.cell_folder.glob("*.json"))
    assert [p.stem for p in paths] == [
        "w2k-like-24h-default-seed0", "w2k-like-24h-default-seed1", "w2k-like-24h-dlinear-seed0",
        "w2k-like-24h-dlinear-seed1", "w2k-like-24h-persistence",
    ]  # fmt: skip
    assert max(p.stat().st_size for p in paths) < 100_000
    about = json.loads(paths[0].read_text())
    assert {"data", "versions", "commit", "training", "scores", "statistics", "seed"} <= set(about)
    assert "flattened" in about["training"] and about["data"]["split"]["test"]


def test_the_table_has_models_down_from_the_best_on_variables_across_best_bold_second_underlined(finished):
    results = finished[1]
    text = markdown(results)
    table = text.partition("### MSE")[2].partition("### MAE")[0]
    head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    assert head == [
        "model", "u-wind (m²/s²)", "v-wind (m²/s²)", "pressure (hPa²)", "temperature (K²)", "humidity (%²)", "nMSE",
    ]  # fmt: skip
    found = results.horizons[0]
    peers = sorted(("persistence", "dlinear"), key=found.nmse)
    titles = [found.cells[name][0].about["title"] for name in ("default", *peers)]
    assert [row[0] for row in rows] == titles
    for column, name in enumerate(found.variables, 1):
        order = [found.cells[model][0].about["title"] for model in found.ranking(name)]
        cells = {row[0]: row[column] for row in rows}
        assert cells[order[0]].startswith("**") and cells[order[1]].startswith("<u>") and "*" not in cells[order[2]]
    assert "pressure (hPa) |" in text.partition("### MAE")[2]
    said_once = (
        "fingerprint", "seeds | 0, 1", "versions", "split", "CPU s", "Significance of differences",
        "Error by lead, hour, altitude and weather",
    )  # fmt: skip
    for said in (*said_once, "| valid at 00 UTC |"):
        assert said in text


def test_a_model_stands_in_the_table_at_the_horizons_that_it_was_run_at(finished):
    first = finished[1].horizons[0]
    less = replace(first, hours=48, cells={name: own for name, own in first.cells.items() if name != "dlinear"})
    table = markdown(replace(finished[1], horizons=(first, less))).partition("### MSE")[2].partition("### MAE")[0]
    labels = [tuple(line.split(" | ")[:2]) for line in table.splitlines()]
    assert labels.count(("| DLinear", "24")) == 1 and ("| DLinear", "48") not in labels
    assert labels.index(("| StationPDE", "48")) == labels.index(("| StationPDE", "24")) + 1


def test_the_picture_shows_our_model_the_best_others_and_the_rule_that_skill_is_measured_by(finished, tmp_path):
    found = finished[1].horizons[0]
    assert models_to_draw(found) == ["default", "dlinear", "persistence"]
    many = replace(found, cells={**found.cells, **dict.fromkeys(("a", "b", "c", "d", "e"), found.cells["dlinear"])})
    assert len(models_to_draw(many)) == 6 and models_to_draw(many)[-1] == "persistence"
    picture = draw_benchmark(found, tmp_path / "errors.png")
    assert picture.stat().st_size > 10_000
    assert "](images/x.png)" in markdown(finished[1], {24: "images/x.png"})


def test_finished_cells_are_not_computed_again(finished):
    plan, results = finished
    before = {p: p.stat().st_mtime_ns for p in plan.cell_folder.iterdir()}
    again, _ = run_benchmark(plan, small_series())
    assert {p: p.stat().st_mtime_ns for p in plan.cell_folder.iterdir()} == before
    assert again.to_dict()["pooled"] == results.to_dict()["pooled"]


def test_a_cell_that_is_lost_is_computed_again_with_the_same_numbers(finished):
    plan, _ = finished
    path = plan.cell_folder / "w2k-like-24h-dlinear-seed1.json"
    before = read_cell(path)
    path.unlink()
    run_benchmark(plan, small_series())
    assert read_cell(path).statistics.to_dict() == before.statistics.to_dict()


def test_cells_of_other_settings_are_computed_again_unless_they_are_to_be_kept(tmp_path):
    plan = plan_of(tmp_path, "persistence")
    run_benchmark(plan, small_series())
    other = replace(plan, overrides=(*TINY, "data.history=6"))
    kept, bench = run_benchmark(replace(other, keep_stale=True), small_series())
    assert bench.stale == ["w2k-like-24h-persistence"] and "other settings" in markdown(kept)
    before = read_cell(plan.cell_folder / "w2k-like-24h-persistence.json").settings_sha256
    run_benchmark(other, small_series())
    assert read_cell(plan.cell_folder / "w2k-like-24h-persistence.json").settings_sha256 != before


def test_cells_of_other_data_are_refused(tmp_path):
    plan = plan_of(tmp_path, "persistence")
    run_benchmark(plan, small_series())
    with pytest.raises(UsageError, match="other data") as problem:
        run_benchmark(plan, weather(places(), seed=9))
    assert problem.value.exit_code == 2


def test_a_file_that_is_no_cell_is_refused(tmp_path):
    plan = plan_of(tmp_path, "persistence")
    plan.cell_folder.mkdir()
    (plan.cell_folder / "w2k-like-24h-persistence.json").write_text('{"kind": "benchmark cell"}')
    with pytest.raises(CorruptArtefactError, match="no finished cell"):
        run_benchmark(plan, small_series())


def test_a_baseline_that_sees_the_future_gets_no_score(tmp_path, cheat):
    plan = plan_of(tmp_path, cheat, "persistence")
    results, bench = run_benchmark(plan, small_series())
    assert "cannot know" in bench.failed["w2k-like-24h-cheat"].message
    assert set(results.to_dict()["pooled"]) == {"persistence"} and "Failed" in markdown(results)


def test_a_model_without_its_package_is_skipped_with_the_reason(tmp_path):
    made = Baseline("absent", "Absent", "", "rule", lambda c, s: Cheat(), needs="no_such_package")
    baselines.add("absent", made, owner="test")
    try:
        results, _ = run_benchmark(plan_of(tmp_path, "persistence", "absent"), small_series())
    finally:
        baselines.remove("absent")
    assert "no_such_package" in results.to_dict()["skipped"]["absent"]


def test_a_finished_cell_counts_where_the_package_of_its_model_is_not_installed(finished, monkeypatch):
    plan, before = finished
    gone = lambda model: "not installed" if model.name == "dlinear" else None
    monkeypatch.setattr(type(contestant("dlinear")), "missing", gone)
    results, bench = run_benchmark(plan, small_series())
    assert results.to_dict()["pooled"] == before.to_dict()["pooled"] and bench.skipped == {}


def test_a_model_that_could_not_run_at_one_horizon_is_named_with_it(finished):
    _, results = finished
    first = results.horizons[0]
    less = replace(first, hours=48, cells={name: own for name, own in first.cells.items() if name != "dlinear"})
    text = markdown(replace(results, horizons=(first, less), skipped={"dlinear": "why", "other": "because"}))
    assert "Not run: dlinear at 48 h (why)." in text and "Not run: other (because)." in text


def test_an_ablation_says_what_a_part_is_worth(tmp_path):
    plan = plan_of(tmp_path, *ablation_models(("no_pde",)))
    found = Ablation(run_benchmark(plan, small_series())[0])
    pooled = found.results.to_dict()["pooled"]
    expected = pooled["default-no_pde"]["t"]["mse"] / pooled["default"]["t"]["mse"] - 1
    assert found.figure_data()["no_pde"]["t"] == pytest.approx(expected)
    assert "without the PDE branch" in found.markdown() and ", with" not in found.markdown()
    assert "24 h, with `model.guide=none`\n" in replace(found, overrides=("model.guide=none",)).markdown()
    assert not contestant("default-no_pde").config(plan.tasks()[1]).model.pde_branch


def test_an_ablation_takes_away_what_the_variant_has():
    assert "no_guide" in parts_of("default") and "no_last_day" not in parts_of("default")
    assert set(parts_of("default")) ^ set(parts_of("field")) == {"no_guide", "with_residual"}
    assert "no_guide" not in parts_of("paper") and "no_closure" in parts_of("paper")
    assert "with_residual" in ablation_models(variant="field")[-1] and "with_residual" not in parts_of("paper")
    assert ablation_models(variant="field")[:2] == ("field", f"field-{parts_of('field')[0]}")


def test_the_row_with_the_residual_shows_what_its_terms_have_learned(finished):
    _, results = finished
    first = results.horizons[0]
    cell = next(iter(first.cells.values()))[0]
    learned = {"lambda_laplacian_u": {"value": 12.5, "unit": "km²/h"}}
    training = {**cell.about["training"], "physics": learned}
    with_terms = replace(cell, about={**cell.about, "training": training})
    cells = {"field": (cell,), "field-with_residual": (with_terms,)}
    ablation = Ablation(replace(results, horizons=(replace(first, cells=cells),)), variant="field")
    text = ablation.markdown()
    assert "with the residual of the equations in the loss" in text and "a decrease speaks for it" in text
    assert "| `lambda_laplacian_u` | 12.50 | km²/h |" in text and text.count("as learned on observations") == 1


def test_a_peer_that_reads_more_than_data_and_training_has_a_cell_for_each():
    def settings(model: str, *overrides: str) -> str:
        task = replace(plan_of(Path("x"), "cdpnet").tasks()[0], model=model)
        return contestant(model).settings(replace(task, overrides=(*task.overrides, *overrides)), "f")

    plain = settings("cdpnet")
    changes = ("grid.height=9", "loss.residual=0.01")
    assert len({plain, *(settings("cdpnet", change) for change in changes)}) == 3
    assert settings("cdpnet", "loss.residual=0.01", "pde.without=['laplacian']") != settings("cdpnet", changes[1])
    # What it does not read, or reads at its default, leaves a cell as it was.
    assert settings("cdpnet", "loss.observed=0.1") == settings("cdpnet", "pde.without=['laplacian']") == plain
    assert settings("dlinear", *changes) == settings("dlinear") and settings("weathergft", "lift.k=4") != plain


def test_a_peers_settings_do_not_change_with_the_models_own_recipe():
    task = plan_of(Path("x"), "dlinear").tasks()[0]
    wider = replace(task, overrides=(*task.overrides, "model.hidden=64"))
    assert contestant("dlinear").settings(task, "f") == contestant("dlinear").settings(wider, "f")
    assert contestant("default").settings(task, "f") != contestant("default").settings(wider, "f")


def test_protocols_are_those_of_the_paper_and_name_what_they_do_not_know():
    assert protocol("w2k-like").steps(24) == 8 and protocol("meteonet-like").steps(96) == 96
    with pytest.raises(UsageError, match="whole number of steps"):
        protocol("w2k-like").steps(25)
    with pytest.raises(UsageError, match="no protocol"):
        protocol("w3k-like")


def test_a_section_of_a_page_takes_the_place_of_its_older_self(tmp_path):
    page = tmp_path / "results.md"
    update_page(page, "one", "first")
    update_page(page, "two", "second")
    update_page(page, "one", "third")
    text = page.read_text()
    assert slug("w2k-like inmet_south/observations.npz left out 5") == "w2k-like-inmet_south-observations-left-out-5"
    assert "first" not in text and text.index("third") < text.index("second") and text.startswith("# Results")
