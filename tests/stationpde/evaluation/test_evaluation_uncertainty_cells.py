"""Cells of distributions: of every kind of model, resumed, read back, and never confused with those of point scores."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from small_benchmark import plan_of
from small_network import places, weather
from stationpde.errors import CorruptArtefactError
from stationpde.evaluation.contestants import Task, contestant
from stationpde.evaluation.dressings import dressings_of
from stationpde.evaluation.uncertainty_benchmark import UncertaintyBench, run_uncertainty
from stationpde.evaluation.uncertainty_cells import cell_path, pooled, read_uncertainty_cell, settings_of
from stationpde.evaluation.uncertainty_tables import uncertainty_markdown
from stationpde.uncertainty.levels import LEVELS
from stationpde.uncertainty.simple import _emos, _past_errors

DAYS = 70


@pytest.fixture(scope="module")
def series():
    return weather(places(), steps=8 * DAYS)


@pytest.fixture(scope="module")
def finished(series, tmp_path_factory):
    out = tmp_path_factory.mktemp("uncertainty")
    return plan_of(out, "persistence", "climatology", "ridge_nb"), out


@pytest.fixture(scope="module")
def results(finished, series):
    return run_uncertainty(finished[0], series)


def test_every_model_is_dressed_in_its_ways(results):
    models = results["horizons"]["24"]["models"]
    assert list(models) == [
        "persistence calibrated", "persistence conformal", "climatology quantiles", "ridge_nb calibrated",
        "ridge_nb gaussian", "ridge_nb conformal",
    ]  # fmt: skip
    for entry in models.values():
        for score in entry["scores"].values():
            assert score["crps"] > 0 and 0 <= score["coverage"]["0.8"] <= 1
            assert math.isclose(sum(score["pit"]), 1.0, abs_tol=1e-6)
        assert set(entry["by"]) == {"lead", "hour", "elevation", "station"}
    assert not results["failed"]


def test_a_second_start_computes_nothing_and_says_the_same(finished, series, results, monkeypatch):
    monkeypatch.setattr(UncertaintyBench, "compute", lambda *rest: pytest.fail("computed again"))
    assert json.dumps(run_uncertainty(finished[0], series)) == json.dumps(results)


def test_groups_add_up_to_the_whole(finished, results):
    plan, _ = finished
    task = next(task for task in plan.tasks() if task.model == "ridge_nb")
    sums = read_uncertainty_cell(cell_path(plan.cell_folder / "uncertainty", task, "gaussian")).sums
    for group in ("station", "hour"):
        np.testing.assert_allclose(sums.total[group].sum(axis=1), sums.total["lead"].sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(sums.daily["lead"][0].sum(axis=(0, 1)), sums.total["lead"][0].sum(axis=0))


def test_seeds_are_pooled_without_counting_a_day_twice(finished, results):
    plan, _ = finished
    task = next(task for task in plan.tasks() if task.model == "persistence")
    cell = read_uncertainty_cell(cell_path(plan.cell_folder / "uncertainty", task, "calibrated"))
    both = pooled([cell, cell])
    np.testing.assert_allclose(both.total["lead"], 2 * cell.sums.total["lead"])
    np.testing.assert_allclose(both.daily["lead"], cell.sums.daily["lead"])


def test_tables_name_every_model_and_the_command(results):
    text = uncertainty_markdown({**results, "command": "stationpde benchmark x --uncertainty"})
    assert text.count("Ridge with neighbours, gaussian") == 4 and "`stationpde benchmark x --uncertainty`" in text


def test_a_damaged_cell_is_refused_with_what_to_do(finished, results, tmp_path):
    plan, _ = finished
    task = next(task for task in plan.tasks() if task.model == "persistence")
    whole = cell_path(plan.cell_folder / "uncertainty", task, "calibrated").read_text()
    for number, damage in enumerate((whole[:-40], whole.replace('"inside"', '"outside"'), "[]", '{"kind": 1}')):
        path = tmp_path / f"{number}.json"
        path.write_text(damage)
        with pytest.raises(CorruptArtefactError, match="no finished cell") as caught:
            read_uncertainty_cell(path)
        assert "remove it" in caught.value.do


def test_cells_are_recognised_by_model_dressing_and_data():
    task = Task("w2k-like", 24, "ridge_nb")
    assert len({settings_of(task, kind, data) for kind in ("gaussian", "conformal") for data in ("a", "b")}) == 4


def test_a_peer_has_no_calibration_where_no_station_stands():
    assert dressings_of(contestant("ridge_nb"), left_out=True) == ("gaussian", "conformal")
    assert dressings_of(contestant("default"), left_out=True) == ("calibrated",)
    assert dressings_of(contestant("climatology"), left_out=True) == ()
    assert dressings_of(contestant("blend")) == ("calibrated", "gaussian", "conformal", "emos")


@pytest.mark.slow
def test_stations_left_out_have_distances_and_wider_intervals(series, tmp_path):
    plan = plan_of(tmp_path, "default", "persistence", leave_out=4)
    part = run_uncertainty(plan, series)["horizons"]["24"]
    assert list(part["models"]) == ["persistence gaussian", "persistence conformal", "default calibrated"]
    assert part["ours"] == "default calibrated" and part["compared"]["persistence gaussian"]["crps"]
    assert part["models"]["default calibrated"]["by"]["distance"]
    assert part["models"]["default calibrated"]["energy"]


@pytest.mark.slow
def test_the_blend_is_dressed_by_emos(series, tmp_path):
    part = run_uncertainty(plan_of(tmp_path, "blend"), series)["horizons"]["24"]
    assert list(part["models"]) == [f"blend {kind}" for kind in ("calibrated", "gaussian", "conformal", "emos")]
    for entry in part["models"].values():
        assert entry["scores"]["t"]["crps"] > 0


def test_emos_recovers_the_law_that_errors_were_drawn_from():
    draw = np.random.default_rng(0)
    forecast, spread = draw.normal(280.0, 5.0, 5000), draw.uniform(0.5, 4.0, 5000)
    target = 14.0 + 0.95 * forecast + np.sqrt(0.25 + 0.64 * spread**2) * draw.standard_normal(5000)
    a, b, c, d = _emos(forecast, target - forecast, spread, 0.1)
    assert a + b * 280.0 == pytest.approx(280.0, abs=0.1) and b == pytest.approx(0.95, abs=0.02)
    assert np.exp(d) == pytest.approx(0.8, rel=0.1) and np.exp(c) == pytest.approx(0.5, rel=0.4)


def test_past_errors_are_of_the_hour_and_of_all_stations_where_one_has_few():
    draw = np.random.default_rng(1)
    slot = np.arange(1600) % 2
    error = draw.standard_normal((1600, 1, 3)) * (1.0 + 2.0 * slot[:, None, None])
    error[100:, :, 2] = np.nan
    table = _past_errors(error, slot, "gaussian", pool=False)
    upper = int(np.argmin(np.abs(LEVELS - 0.9)))
    np.testing.assert_allclose(table[0, 0, :2, upper], norm.ppf(LEVELS[upper]), rtol=0.1)
    np.testing.assert_allclose(table[1, 0, :2, upper], 3.0 * norm.ppf(LEVELS[upper]), rtol=0.1)
    np.testing.assert_array_equal(table[:, :, 2], _past_errors(error, slot, "gaussian", pool=True)[:, :, 0])
    counted = _past_errors(error, slot, "conformal", pool=False)
    assert (np.diff(counted, axis=-1) >= 0).all()
    np.testing.assert_allclose(counted[0, 0, 0], table[0, 0, 0], atol=0.45)
