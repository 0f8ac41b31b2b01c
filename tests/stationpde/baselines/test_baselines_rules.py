"""Rules of thumb, climatology and the field baselines, on cases that can be worked out by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from baseline_records import KINDS, READY, plain, record, source_of
from stationpde.baselines import baseline
from stationpde.baselines.climatology import make as climatology
from stationpde.baselines.inputs import neighbours_of, steps_of
from stationpde.baselines.yesterday import same_hour


def _values(steps: int = 120, stations: int = 3) -> np.ndarray:
    """Values that say where and when they are: 100 times the step plus the station, RH within its range."""
    step, station = np.arange(steps)[:, None], np.arange(stations)[None]
    one = (100.0 * step + station)[..., None] * np.ones(5)
    one[..., 4] = 0.001 * step
    return one


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READY)
def test_every_baseline_forecasts_any_network(name, kind):
    config, source = source_of(record(kind))
    batch = source.batch(source.windows.test[:3])

    made = baseline(name).make(config, source).predict(batch)

    assert made.shape == batch.future.shape
    assert torch.isfinite(made).all()


@pytest.mark.parametrize("name", READY)
def test_a_window_without_a_future_gets_the_configured_leads(name):
    config, source = source_of(record())
    batch = source.batch(source.windows.val[:2])
    forecaster = baseline(name).make(config, source)
    now = type(batch)(batch.history, batch.future[:, :0], batch.issue_time, batch.step_seconds, batch.index)

    assert torch.equal(forecaster.predict(now), forecaster.predict(batch))


def test_persistence_repeats_the_last_observed_value():
    values = _values()
    values[44, 1] = np.nan  # the issue step of the window that begins at 40
    config, source = source_of(plain(values))

    made = baseline("persistence").make(config, source).predict(source.batch(np.array([40])))

    assert made[0, :, 0, 0].tolist() == [4400.0, 4400.0]
    assert made[0, :, 1, 0].tolist() == [4301.0, 4301.0]


def test_persistence_takes_the_usual_value_where_the_whole_history_is_silent():
    values = _values()
    values[40:45, 2, 3] = np.nan
    config, source = source_of(plain(values))
    forecaster = baseline("persistence").make(config, source)

    made = forecaster.predict(source.batch(np.array([40])))

    usual = forecaster.inputs.climatology(torch.as_tensor(source.series.time[[44]]))[0, 2, 3]
    assert made[0, 0, 2, 3] == usual


def test_yesterday_has_the_hour_of_each_lead():
    config, source = source_of(plain(_values()), "data.horizon=6")

    made = baseline("yesterday").make(config, source).predict(source.batch(np.array([40])))

    # Four steps a day; the history is steps 40 to 44, so that leads 45 to 50 repeat steps 41 to 44, then 41 and 42.
    assert made[0, :, 0, 0].tolist() == [4100.0, 4200.0, 4300.0, 4400.0, 4100.0, 4200.0]
    assert same_hour(5, history=6, steps_per_day=4).tolist() == [2, 3, 4, 5, 2]


def test_yesterday_before_a_short_history_is_the_usual_value():
    config, source = source_of(plain(_values()), "data.history=2", "data.horizon=4")
    forecaster = baseline("yesterday").make(config, source)
    batch = source.batch(np.array([40]))

    made = forecaster.predict(batch)

    assert made[0, 2:, 0, 0].tolist() == [4000.0, 4100.0]
    assert torch.equal(made[:, :2], forecaster.inputs.climatology_at(batch.issue_time, 4)[:, :2])


def test_climatology_knows_station_hour_and_month():
    rng = np.random.default_rng(0)
    # Two years of six-hourly values that depend on station, hour and month alone, and additively.
    steps = 4 * 730
    time = 1_672_531_200 + 21600 * np.arange(steps, dtype=np.int64)
    month = time.astype("datetime64[s]").astype("datetime64[M]").astype(int) % 12
    values = rng.normal(size=(1, 3, 5)) + rng.normal(size=(12, 4, 1, 5))[month, np.arange(steps) % 4]
    config, source = source_of(plain(values))
    batch = source.batch(source.windows.test[::97])

    made = climatology(config, source).predict(batch)

    # Additive cells are what an estimate is drawn towards: nothing is lost but single precision.
    torch.testing.assert_close(made, batch.future, rtol=0, atol=2e-5)


def test_neighbours_are_the_nearest_others():
    stations = record().stations
    flat = np.stack([stations.lon * np.cos(np.deg2rad(stations.lat.mean())), stations.lat], axis=1)
    distance = np.linalg.norm(flat[:, None] - flat, axis=-1)
    np.fill_diagonal(distance, np.inf)

    found = neighbours_of(stations, 3)

    assert found.tolist() == np.argsort(distance, axis=1)[:, :3].tolist()
    assert neighbours_of(stations, 99).shape == (5, 4)
    assert neighbours_of(stations.take([0]), 8).shape == (1, 0)


def test_six_hours_are_whole_steps_within_the_history():
    assert [steps_of(21600, 3600, 48), steps_of(21600, 10800, 16), steps_of(21600, 43200, 16)] == [6, 2, 1]
    assert [steps_of(21600, 3600, 3), steps_of(21600, 3600, 1)] == [2, 0]


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_lift_keeps_weather_that_is_the_same_everywhere(variant):
    level = np.array([3.0, -2.0, 95000.0, 288.0, 0.6])
    values = level + np.zeros((120, 6, 5))
    _, source = source_of(plain(values))
    from small_network import small_config

    config = small_config(variant, ("lift.method=idw",))
    batch = source.batch(source.windows.test[:2])

    made = baseline("lift").make(config, source).predict(batch)

    # Ψ and back in single precision: 2e-4 K and 1e-3 % of relative humidity; pressure to its last digits.
    torch.testing.assert_close(made, batch.future, rtol=1e-5, atol=1e-4)


def test_lift_stays_and_physics_moves():
    config, source = source_of(record())
    batch = source.batch(source.windows.test[:3])

    kept, moved = (baseline(name).make(config, source).predict(batch) for name in ("lift", "physics"))

    assert torch.equal(kept[:, 0], kept[:, 1])
    assert (moved[:, 1] - moved[:, 0]).abs().amax() > 0.1
    # The equations carry weather on, they do not make it up: winds stay those of the field, give or take.
    assert moved[..., :2].abs().amax() < 1.5 * kept[..., :2].abs().amax()


def test_an_unknown_baseline_is_answered_with_the_nearest_of_all_imported_or_not():
    code = "from stationpde.baselines.registry import baseline; baseline('timefiltre')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "did you mean 'timefilter'?" in done.stderr
