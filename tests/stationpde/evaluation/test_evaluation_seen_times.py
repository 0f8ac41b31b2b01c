"""Scores on times that a run was trained on are no test scores."""

import dataclasses
import json

import numpy as np
import pytest

from fields.errors import DataError
from small_network import small_series
from small_run import dataset
from stationpde.evaluation import EvaluationRequest, evaluate_run
from stationpde.report.view import build_run_view
from stationpde.runs import load_run


def cut(series, steps):
    """Return the record's steps in a slice."""
    return dataclasses.replace(series, time=series.time[steps], values=series.values[steps], fingerprint="")


@pytest.fixture(scope="module")
def shorter():
    """A record that ends where the validation of the run ended: its last 30 % were trained on."""
    series = small_series()
    return cut(series, slice(0, int(len(series) * 0.7)))


def test_a_record_whose_test_was_trained_on_is_not_scored(small_runs, shorter):
    run = load_run(small_runs.first)
    with pytest.raises(DataError) as refused:
        evaluate_run(run, shorter, EvaluationRequest(windows=4))
    assert refused.value.code == "SPDE-T121"
    assert "4 of 4 test windows" in str(refused.value) and "--accept seen-times" in refused.value.do


def test_it_is_scored_where_that_is_accepted_and_the_result_says_so(small_runs, shorter):
    result = evaluate_run(load_run(small_runs.first), shorter, EvaluationRequest(windows=4, accept=("seen-times",)))
    assert result["accepted"] == ["seen-times"]
    assert any("was trained on" in sentence for sentence in result["warnings"])


def test_a_report_on_it_is_refused_alike(small_runs, shorter):
    seen = dataset(slice(0, len(shorter)))
    with pytest.raises(DataError) as refused:
        build_run_view(small_runs.first, seen, windows=2, against=())
    assert refused.value.code == "SPDE-T121"
    view = build_run_view(small_runs.first, seen, windows=2, against=(), accept="seen-times")
    assert any("was trained on" in note for note in view.notes)


def test_the_record_of_training_and_one_that_grew_are_scored_in_silence(small_runs):
    series, run = small_series(), load_run(small_runs.first)
    later = series.time + series.step_seconds * len(series)
    grown = dataclasses.replace(
        series, time=np.concatenate([series.time, later]), values=np.concatenate([series.values, series.values]),
        fingerprint="",
    )
    for record in (series, grown):
        result = evaluate_run(run, record, EvaluationRequest(windows=4))
        assert result["accepted"] == [] and not any("trained on" in sentence for sentence in result["warnings"])


def test_a_run_of_before_says_that_it_cannot_tell(small_runs, shorter):
    run = load_run(small_runs.first)
    record = json.loads(json.dumps(run.record))
    del record["trained_from"], record["trained_until"]
    old = dataclasses.replace(run, record=record)
    warnings = evaluate_run(old, shorter, EvaluationRequest(windows=4))["warnings"]
    assert any("does not say which times it was trained on" in sentence for sentence in warnings)
