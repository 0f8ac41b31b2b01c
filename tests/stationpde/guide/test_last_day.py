"""The level of the last day: invariance to the season, when it is used, and its effect on guesses."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fields.windows.series import StationSeries
from fields.windows.windows import Split
from small_network import STEP, places, small_config, small_model, small_series, weather, windows
from stationpde.config.tree import Config
from stationpde.guide.last_day import LastDay, covers_full_year
from stationpde.model.climate import StateStatistics
from stationpde.model.guide_fit import fit_model_guide
from stationpde.model.model import StationPDEModel
from stationpde.physics.state import to_observed
from stationpde.physics.surroundings import View
from stationpde.runs.loading import _model_of


def drawn(seed=0):
    draw = torch.Generator().manual_seed(seed)
    make = lambda *shape: torch.randn(shape, generator=draw, dtype=torch.float64)
    return make(2, 16, 3, 5), View(make(2, 16, 3, 5), make(2, 3, 12, 5), make(2, 3, 12, 5), make(2, 3, 12, 5))


@given(st.lists(st.floats(-30.0, 30.0), min_size=3, max_size=3))
def test_a_season_that_shifts_everything_alike_leaves_the_predictors_alone(shifts):
    departures, view = drawn()
    shift = torch.tensor([0.0, 0.0, *shifts], dtype=torch.float64)
    there = View(view.centre + shift, view.around, view.change_3h, view.change_12h)
    day = LastDay(8)
    plain, seen = day.subtract_level(departures, view)
    moved, seen_there = day.subtract_level(departures + shift, there)
    # Rounding of sums of eight values that are shifted by up to thirty.
    torch.testing.assert_close(moved, plain, rtol=0.0, atol=1e-13)
    torch.testing.assert_close(seen_there.centre, seen.centre, rtol=0.0, atol=1e-13)
    assert seen_there.around is view.around


def test_the_mean_of_the_last_day_is_nothing_and_wind_is_left_as_it_is():
    departures, view = drawn(1)
    rest, seen = LastDay(8).subtract_level(departures, view)
    torch.testing.assert_close(rest[:, -8:, :, 2:].mean(dim=1), torch.zeros(2, 3, 3, dtype=torch.float64))
    assert torch.equal(rest[..., :2], departures[..., :2]) and torch.equal(seen.centre[..., :2], view.centre[..., :2])


def test_the_level_is_the_mean_departure_of_observed_variables():
    base = torch.tensor([2.0, 1.0, 95_000.0, 295.0, 0.009], dtype=torch.float64).expand(2, 16, 3, 5)
    departures = drawn(2)[0] * torch.tensor([1.0, 1.0, 300.0, 3.0, 1e-3])
    level = LastDay(8).level(departures, base)
    direct = (to_observed(base + departures) - to_observed(base))[:, -8:].mean(dim=1)
    torch.testing.assert_close(level[..., 2:], direct[..., 2:])
    assert (level[..., :2] == 0.0).all()


@pytest.mark.parametrize(("days", "used"), [(20.0, True), (350.0, True), (364.9, False), (800.0, False)])
def test_it_is_used_where_training_has_not_met_every_season(days, used):
    config = Config.preset("weather2k")
    assert covers_full_year(days) != used
    assert (LastDay.of(config, days) is not None) == used
    assert LastDay.of(config.with_overrides(["model.guide_reference=climatology"]), days) is None
    assert LastDay.of(config.with_overrides(["model.guide_reference=last_day"]), days) == LastDay(8)


def test_a_day_is_counted_in_steps_and_is_no_longer_than_the_history():
    hourly = Config.preset("meteonet").with_overrides(["model.guide_reference=last_day"])
    assert LastDay.of(hourly, 0.0) == LastDay(24)
    assert LastDay.of(hourly.with_overrides(["data.history=6"]), 0.0) == LastDay(6)


def test_the_length_of_training_is_kept_with_the_statistics():
    statistics = StateStatistics.of(small_series(), Split.of(len(small_series())), small_config())
    # 72 of 120 steps of six hours.
    assert statistics.days == 71 / 4
    again = StateStatistics.from_tensors(statistics.stations.id, statistics.tensors())
    assert again.days == statistics.days


def autumn() -> StationSeries:
    """Make weather with much noise that gets twelve kelvin colder when the training period ends."""
    series = weather(places())
    values = series.values.copy()
    values[..., 3] += np.random.default_rng(1).normal(size=values.shape[:2]) * 1.5
    values[Split.of(len(series)).val :, :, 3] -= 12.0
    return StationSeries(series.time, values, series.stations, series.step_seconds)


def test_guesses_follow_a_season_that_training_has_not_met():
    series, errors = autumn(), {}
    split = Split.of(len(series))
    for reference in ("climatology", "last_day"):
        config = small_config(overrides=(f"model.guide_reference={reference}", "model.guide_networks=0"))
        model = StationPDEModel.build(config, StateStatistics.of(series, split, config)).eval()
        fit_model_guide(model, series, split)
        batch = windows(config, range(split.test, len(series) - 7), series)
        with torch.no_grad():
            guided = model.analyse(batch.history, batch.issue_time).guided[0]
        errors[reference] = float((guided - batch.future)[..., 3].square().nanmean())
    assert errors["last_day"] < 0.5 * errors["climatology"]


def test_a_silent_station_has_the_level_of_the_field():
    model = small_model(small_config(overrides=("model.guide_reference=last_day",)))
    batch = windows(model.config, [3])
    history = batch.history.clone()
    history[:, :, 4] = torch.nan
    with torch.no_grad():
        reference = model.predictors_of(history, batch.issue_time).reference
        level = reference - to_observed(model.sites.base(batch.issue_time[:, None] + torch.arange(1, 3) * STEP))
    assert torch.isfinite(level).all() and (level[..., 4, 2:] != 0.0).all()


def test_a_run_of_before_the_length_was_kept_guesses_about_the_climatology(tmp_path):
    model = small_model(small_config(overrides=("model.guide_season=none",)))  # no run of then knew it
    assert model.first_guess.last_day is not None
    tensors = {name: value for name, value in model.state_dict().items() if name != "kept.days"}
    assert _model_of(model.config, tensors, tmp_path).first_guess.last_day is None
