"""Gust, rain and radiation of a small network: fitted, scored, forecast, and kept in a file that is verified."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from extra_records import NAMES, extra_run, extra_series
from fields.errors import DataError
from fields.windows import Stations
from stationpde.data import WindowSource
from stationpde.errors import CorruptArtefactError
from stationpde.evaluation.extra_scores import EXTRA_REFERENCES, extra_scores
from stationpde.extras.file import EXTRAS, extras_of
from stationpde.extras.fit import fit_extras
from stationpde.extras.forecasts import ExtraForecaster
from stationpde.extras.kinds import sunlight
from stationpde.runs.sealed import read_sealed, write_sealed


@pytest.fixture(scope="module")
def series():
    return extra_series()


@pytest.fixture(scope="module")
def run(series, tmp_path_factory):
    loaded = extra_run(tmp_path_factory.mktemp("extras") / "run", series)
    fit_extras(loaded, series)
    return loaded


def forecasts(run, series, extras, stations=None):
    model = run.model if stations is None else run.model.at(stations)
    source = WindowSource.of(series, run.model.config)
    batch = source.batch(source.windows["test"][:3])
    history = batch.history if stations is None else batch.history.repeat(1, 1, 2, 1)[:, :, : len(stations)]
    with torch.inference_mode():
        output = model(history, batch.issue_time, 2)
    values, quantiles = ExtraForecaster.of(model, extras).predict(
        output.observed, history, {}, batch.issue_time.numpy()
    )
    valid = batch.issue_time.numpy()[:, None] + series.step_seconds * np.arange(1, 3)
    return values, quantiles, sunlight(valid, model.sites.stations)


def test_a_run_forecasts_them_better_than_climatology_and_persistence(run, series):
    source = WindowSource.of(series, run.model.config)
    scores = extra_scores(run.model, extras_of(run), source, run.model.config, source.windows["test"])
    assert tuple(scores) == NAMES
    for name, entry in scores.items():
        assert entry["run"]["count"] > 100 and set(EXTRA_REFERENCES) < set(entry)
        assert entry["climatology"]["skill"] > 0.1 and entry["persistence"]["skill"] > 0.1, name
        ratio = entry["run"]["mse"] / entry["climatology"]["mse"]
        assert entry["climatology"]["skill"] == pytest.approx(1.0 - ratio)


def test_there_is_no_negative_rain_and_no_light_at_night(run, series):
    values, quantiles, sun = forecasts(run, series, extras_of(run))
    assert set(values) == set(NAMES)
    assert (values["precip"] >= 0).all() and (values["gust"] >= 0).all()
    assert (sun == 0).any() and (values["radiation"][sun == 0] == 0).all() and (values["radiation"][sun > 60] > 0).all()
    for name, table in quantiles.items():
        assert (np.diff(table, axis=-1) >= -1e-9).all() and (table >= 0).all(), name
    assert (quantiles["radiation"][sun == 0] == 0).all()


def test_a_new_station_is_forecast_from_those_around_it(run, series):
    here = series.stations
    beside = Stations(("NEW", *here.id), *(np.concatenate([x[:1], x]) for x in here.coordinates))
    values, _, _ = forecasts(run, series, extras_of(run), beside)
    assert all(np.isfinite(table).all() and table.shape[2] == len(beside) for table in values.values())


def test_a_file_reads_as_it_was_written(run):
    first = extras_of(run)
    assert first.names == NAMES and first.facts["checkpoint"] == run.checkpoint
    content = read_sealed(run.path / EXTRAS)
    for part in content["fitted"]:
        table = np.array(part["weights"]["values"]).reshape(part["weights"]["shape"])
        np.testing.assert_array_equal(table, first.fitted[part["name"]].weights)


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c["fitted"][0].update(name="t"),
        lambda c: c["fitted"][0]["weights"].update(shape=[1, 2]),
        lambda c: c["fitted"][0].update(spread=-1.0),
        lambda c: c["fitted"][0]["table"]["values"].pop(),
        lambda c: c.update(format=99),
        lambda c: c["facts"].update(config_hash="0" * 64),
        lambda c: c["stations"].update(id=[]),
    ],
)
def test_a_file_that_no_fit_wrote_is_refused(run, damage):
    path = run.path / EXTRAS
    before = path.read_bytes()
    try:
        content = json.loads(json.dumps(read_sealed(path)))
        damage(content)
        write_sealed(path, content)
        with pytest.raises(CorruptArtefactError) as caught:
            extras_of(run)
        assert caught.value.code == "SPDE-T123" and "stationpde calibrate" in caught.value.do
    finally:
        path.write_bytes(before)


def test_a_changed_byte_is_found(run):
    path = run.path / EXTRAS
    before = path.read_bytes()
    try:
        path.write_bytes(before.replace(b"spread", b"spreaD", 1))
        with pytest.raises(CorruptArtefactError, match="damaged"):
            extras_of(run)
    finally:
        path.write_bytes(before)


def test_another_record_is_refused(run, series):
    values = series.extras.values.copy()
    values[0, 0, 0] = 1.0
    other = replace(series, extras=replace(series.extras, values=values, fingerprint=""), fingerprint="")
    with pytest.raises(DataError) as caught:
        fit_extras(run, other)
    assert caught.value.code == "SPDE-T122"
