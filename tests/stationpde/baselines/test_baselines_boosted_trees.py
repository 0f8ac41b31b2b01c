"""Boosted trees: a rule that no line can follow, what a row holds, any network, the same trees again, resumption."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from baseline_records import KINDS, plain, record, source_of
from stationpde.baselines import baseline
from stationpde.baselines.gbdt_nb import BoostedTrees, _is_flat
from stationpde.baselines.leakage import leaks
from stationpde.baselines.tree_growth import TreeGrower, TreeShape, _line
from stationpde.baselines.tree_inputs import LeadGroups, TreeInputs, TreeTable
from stationpde.data.window_source import WindowSource
from stationpde.errors import UsageError

pytest.importorskip("lightgbm")

CASES = [(8, [1] * 8), (2, [1, 1]), (24, [3] * 8), (10, [2] * 5), (17, [3] * 5 + [2])]
FEW = (TreeShape(7, 0.3),)


def _fitted(config, source, **keywords):
    trees = BoostedTrees(config, source, FEW)
    trees.fit(source, **keywords)
    return trees


def _table(inputs, targets):
    return TreeTable(inputs.astype(np.float32), targets.astype(np.float32)[:, None, None])


def test_one_tree_of_two_leaves_is_the_step_and_its_means():
    """By hand: below 0.5 the target is 1, above it 4; all of one tree is added, and a constant input gives no line."""
    step = np.repeat([0.0, 1.0], 100)
    inputs = np.column_stack([step, np.ones(200)])
    target = 1.0 + 3.0 * step
    target[:10] = np.nan
    grower = TreeGrower(_table(inputs, target), _table(inputs, target), 1, 0)

    grown = grower.grow(TreeShape(2, 1.0), 1, 0, 0, most_trees=4, seconds=None)
    forecast = grown.slope + grown.offset + grown.booster().predict(inputs)

    assert (grown.slope, grown.offset) == (0.0, pytest.approx((90 + 400) / 190))
    np.testing.assert_allclose(forecast, np.where(step > 0.5, 4.0, 1.0), atol=1e-5)
    assert grown.score < 1e-9


def test_a_line_is_fitted_to_the_rows_that_were_observed():
    inputs, target = np.array([0.0, 1.0, 2.0, 9.0]), np.array([1.0, 3.0, 5.0, np.nan])

    assert _line(inputs, target) == pytest.approx((2.0, 1.0))
    assert _line(np.ones(4), target) == pytest.approx((0.0, 3.0))
    assert _line(inputs, np.full(4, np.nan)) == (0.0, 0.0)


def test_trees_learn_from_neighbours_what_ridge_cannot():
    values = np.random.default_rng(3).normal(size=(600, 3, 5)) * [1, 1, 100, 1, 0.05] + [0, 0, 1e5, 280, 0.5]
    # The others' wind one step later is the size of the first's wind now: no linear map of it.
    values[1:, 1:, 0] = np.abs(values[:-1, :1, 0])
    config, source = source_of(plain(values), "data.horizon=1")
    batch = source.batch(source.windows.test)

    error = {
        "gbdt_nb": (_fitted(config, source).predict(batch) - batch.future)[:, :, 1:, 0],
        "ridge_nb": (baseline("ridge_nb").make(config, source).predict(batch) - batch.future)[:, :, 1:, 0],
    }

    assert error["gbdt_nb"].square().mean() < 0.3 * error["ridge_nb"].square().mean()


def test_a_row_holds_what_the_perceptron_sees():
    _, source = source_of(record())
    inputs = TreeInputs.of(source, 2)
    batch = source.batch(source.windows.train[10:12])

    rows = inputs.rows(batch)

    scaled = inputs.scales.scaled(inputs.scales.filled(batch.history, batch.issue_time))
    hour = 2 * np.pi * (int(batch.issue_time[1]) % 86400) / 86400
    row = rows[5 + 3]  # the second window of the fourth of five stations
    np.testing.assert_allclose(row[:25], scaled[1, :, 3].flatten(), rtol=1e-6)
    np.testing.assert_allclose(row[25:35], scaled[1, -1, inputs.near[3]].flatten(), rtol=1e-6)
    np.testing.assert_allclose(row[35:37], [np.sin(hour), np.cos(hour)], atol=1e-6)
    np.testing.assert_allclose(row[39:52], inputs.places[3])
    assert rows.shape == (10, 53) and row[52] == 0.0
    assert [row[inputs.last_column(c, 5)] for c in range(5)] == scaled[1, -1, 3].float().tolist()


@pytest.mark.parametrize(("leads", "sizes"), CASES)
def test_leads_are_parted_into_at_most_eight_groups(leads, sizes):
    groups = LeadGroups.of(leads)
    places = [groups.place(lead) for lead in range(leads)]

    assert [sum(group == number for group, _ in places) for number in range(len(groups))] == sizes
    for within in range(groups.size):
        drawn = groups.drawn(np.array([within]))[0]
        assert all(groups.place(int(lead))[0] == group for group, lead in enumerate(drawn))


def test_targets_of_a_table_are_those_of_the_drawn_leads():
    _, source = source_of(
        plain(np.random.default_rng(0).normal([0, 0, 1e5, 280, 0.5], size=(160, 2, 5))), "data.horizon=9"
    )
    inputs = TreeInputs.of(source, 2)

    table = inputs.table(source, "train", 10**6, seed=0)
    few = inputs.table(source, "train", 40, seed=0)

    batch = source.batch(source.windows.train)
    future = inputs.scales.scaled(batch.future).transpose(1, 2).flatten(0, 1).float().numpy()
    leads = inputs.groups.drawn(table.inputs[:, -1].astype(int))
    np.testing.assert_array_equal(table.targets, future[np.arange(len(future))[:, None], leads])
    assert set(table.inputs[:, -1]) == {0.0, 1.0} and table.targets.shape[1:] == (5, 5)
    assert 20 < len(few.inputs) < 60


@pytest.mark.parametrize("kind", KINDS)
def test_trees_forecast_any_network_and_know_no_future(kind):
    config, source = source_of(record(kind))
    batch = source.batch(source.windows.test[:4])

    trees = _fitted(config, source)

    assert torch.isfinite(trees.predict(batch)).all() and trees.predict(batch).shape == batch.future.shape
    assert leaks(trees, batch) == []


def test_the_same_seed_grows_the_same_trees_and_another_seed_others():
    config, source = source_of(record())
    batch = source.batch(source.windows.test[:4])
    other = config.with_overrides(["train.seed=1"])

    forecasts = [_fitted(each, source).predict(batch) for each in (config, config, other)]

    assert torch.equal(forecasts[0], forecasts[1]) and not torch.equal(forecasts[0], forecasts[2])


def test_a_variable_that_validation_lacks_still_gets_trees():
    config, source = source_of(record())
    values = source.series.values.copy()
    values[source.windows.split.slice("val"), :, 0] = np.nan
    values[:, :, 1] = np.nan
    bare = WindowSource(replace(source.series, values=values, fingerprint=""), source.windows)

    trees = _fitted(config, bare)

    assert trees.trees[0, 0].text and trees.trees[0, 0].curve == () and trees.trees[0, 1].text == ""
    assert torch.isfinite(trees.predict(bare.batch(source.windows.test[:2]))[..., [0, 2, 3, 4]]).all()


class _StopAsked(Exception):
    pass


def test_a_fit_that_was_stopped_continues_with_the_trees_it_has(tmp_path):
    config, source = source_of(record())
    batch = source.batch(source.windows.test[:4])

    def stop(what, done, total):
        if done == 4:
            raise _StopAsked

    with pytest.raises(_StopAsked):
        _fitted(config, source, folder=tmp_path, report=stop)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    damaged = sorted(before)[0]
    damaged.write_text(damaged.read_text().replace("Tree=0", "Tree=1"))

    resumed = _fitted(config, source, folder=tmp_path)

    assert len(before) == 4
    after = [path for path in before if path.stat().st_mtime_ns == before[path]]
    assert sorted(after) == sorted(before)[1:]
    assert torch.equal(resumed.predict(batch), _fitted(config, source).predict(batch))


def test_the_time_that_is_left_limits_the_trees_and_is_planned_once(tmp_path):
    config, source = source_of(record())
    short = _fitted(config, source, folder=tmp_path, seconds_left=lambda: 1e-3)
    plan = (tmp_path / "plan.json").read_text()
    again = _fitted(config, source, folder=tmp_path, seconds_left=lambda: 1e6)

    # The least number of trees for each of ten targets; what one does not need, another may have.
    assert sum(trees.grown for trees in short.trees.values()) <= 5 * 10
    assert (tmp_path / "plan.json").read_text() == plan
    assert [t.text for t in again.trees.values()] == [t.text for t in short.trees.values()]


def test_the_shape_of_trees_is_chosen_on_validation():
    config, source = source_of(record())
    useless = TreeShape(2, 1e-6)
    trees = BoostedTrees(config, source, (useless, *FEW))

    facts = trees.fit(source)

    assert facts["chosen"]["t"] == "7 leaves at 0.3"
    assert facts["trees"] > 0 and facts["validation_score"] > 0.0


def test_a_curve_is_flat_when_its_last_quarter_gains_little():
    assert _is_flat((1.0, 0.5, 0.5, 0.499)) and not _is_flat((1.0, 0.9, 0.8, 0.7)) and not _is_flat((1.0,))


def test_trees_that_were_not_grown_forecast_nothing():
    config, source = source_of(record())

    with pytest.raises(UsageError, match="0 steps cannot forecast 2") as caught:
        BoostedTrees(config, source).predict(source.batch(source.windows.test[:1]))
    assert caught.value.code == "SPDE-T001"
