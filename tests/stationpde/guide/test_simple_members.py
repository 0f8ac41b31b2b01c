"""Simple forecasts among the shares: the rules of the peers, gaps, models without a guide, checkpoints."""

import numpy as np
import pytest
import torch

from fields.windows.windows import Split
from small_network import STEP, learner, small_config, small_model, small_series, windows
from stationpde.baselines.inputs import StationInputs
from stationpde.baselines.persistence import Persistence
from stationpde.baselines.yesterday import Yesterday
from stationpde.data.window_source import WindowSource
from stationpde.guide.rows import bridged
from stationpde.guide.simple import SIMPLE, simple_forecasts
from stationpde.model.guide_fit import guide_batches
from stationpde.model.mixing import shares_of
from stationpde.model.model import StationPDEModel

TRAVEL = ("model.simple_members=true", "model.shares=by_days", "model.guide_rows=all")


def test_they_are_the_peers_of_the_same_name_where_nothing_is_missing():
    config = small_config()
    source = WindowSource.of(small_series(), config)
    batch = source.batch(source.windows.val)
    whole = torch.isfinite(batch.history).all(dim=1)[:, None].expand(-1, 2, -1, -1)
    inputs = StationInputs.of(source)
    unused = torch.full_like(batch.history, 1e9)
    members = simple_forecasts(batch.history, unused, inputs.climatology_at(batch.issue_time, 2), STEP)
    for name, peer in (("persistence", Persistence), ("yesterday", Yesterday)):
        forecast = peer(config, inputs).predict(batch)
        assert whole.any() and torch.equal(members[SIMPLE.index(name)][whole], forecast[whole])


def test_a_gap_is_bridged_by_the_last_value_and_silence_by_the_field():
    history = torch.full((1, 5, 2, 5), torch.nan)
    history[0, 2, 0] = 7.0
    field = torch.arange(5.0)[None, :, None, None].expand(1, 5, 2, 5)
    persisted = simple_forecasts(history, field, torch.zeros(1, 2, 2, 5), STEP)[0]
    assert (persisted[:, :, 0] == 7.0).all() and (persisted[:, :, 1] == 4.0).all()


def test_an_hour_that_lies_before_the_history_takes_the_climatology():
    history, climatology = torch.ones(1, 2, 1, 5), torch.full((1, 4, 1, 5), 9.0)
    yesterday = simple_forecasts(history, history, climatology, STEP)[1]
    assert yesterday[0, :, 0, 0].tolist() == [9.0, 9.0, 1.0, 1.0]


def test_a_gap_between_two_leads_is_filled_on_a_line_and_the_ends_stay_missing():
    line = torch.arange(6.0)[None, None, :, None].expand(2, 3, 6, 5).clone()
    gaps = line.clone()
    gaps[0, 0, 2:4] = torch.nan
    gaps[0, 1, :2] = torch.nan
    gaps[1, 2, 4:] = torch.nan
    filled = bridged(gaps)
    torch.testing.assert_close(filled[0, 0], line[0, 0])
    assert torch.isnan(filled[0, 1, :2]).all() and torch.isnan(filled[1, 2, 4:]).all()
    there = torch.isfinite(gaps)
    assert torch.equal(filled[there], gaps[there])


@pytest.fixture(scope="module")
def travelling():
    made = learner(small_config(overrides=TRAVEL))
    made.model.eval()
    made.calibrate([windows(made.config, range(60, 80))], lambda sums: sums)
    return made.model


def test_all_members_have_a_share_and_what_they_rest_on_is_kept(travelling):
    shares = shares_of(travelling)
    assert shares.members == ("linear guess", "perceptrons", *SIMPLE, "field")[-len(shares.members) :] or (
        shares.members == ("linear guess", *SIMPLE, "field")
    )
    np.testing.assert_allclose(shares.values.sum(axis=0), 1.0, atol=1e-6)
    assert shares.values.min() > -1e-6
    # Twenty windows, four a day, the first in the middle of a day or not.
    assert shares.evidence.windows == 20.0 and 5.0 <= shares.evidence.days <= 6.0 and 0.0 < shares.evidence.prior < 1.0
    tensors = {name: value.clone() for name, value in travelling.state_dict().items()}
    again = StationPDEModel.from_tensors(travelling.config, travelling.statistics.stations.id, tensors)
    assert shares_of(again).evidence == shares.evidence


def test_the_forecast_is_the_mean_by_shares_and_beyond_the_horizon_the_field(travelling):
    batch = windows(travelling.config, [90])
    with torch.no_grad():
        forecast = travelling(batch.history, batch.issue_time, 3)
        field = travelling.first_guess  # the members end with the horizon
        assert forecast.guided.shape[2] == travelling.config.data.horizon == field.config.data.horizon
        torch.testing.assert_close(forecast.state[:, 2], forecast.unguided[:, 2])
        values = torch.as_tensor(shares_of(travelling).values)[:-1, :, :].float()
        from stationpde.physics.state import to_observed

        unguided = to_observed(forecast.unguided[:, :2])
        mean = unguided + (values[:, None, :, None] * (forecast.guided - unguided)).sum(0)
    torch.testing.assert_close(forecast.observed[:, :2], mean, rtol=1e-5, atol=1e-4)


def test_a_network_that_falls_silent_is_forecast_all_the_same(travelling):
    batch = windows(travelling.config, [90])
    with torch.no_grad():
        silent = travelling(torch.full_like(batch.history, torch.nan), batch.issue_time).observed
    assert torch.isfinite(silent).all()


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_a_model_without_a_guide_is_mixed_as_well(variant):
    config = small_config(variant, ("model.guide=none", *TRAVEL))
    made = learner(config)
    model = made.model.eval()
    batch = windows(config, range(60, 80))
    with torch.no_grad():
        field = model(batch.history, batch.issue_time).observed
        made.calibrate([batch], lambda sums: sums)
        mixed = model(batch.history, batch.issue_time).observed
    scale = torch.nan_to_num(batch.future).std(dim=(0, 1, 2))
    before, after = ((torch.nan_to_num(x - batch.future) / scale).square().mean() for x in (field, mixed))
    assert shares_of(model).members == (*SIMPLE, "field") and after < 0.9 * before
    # The climatology of the printed state is the same as that of departures.
    climatology = model.analyse(batch.history, batch.issue_time).guided[2]
    assert (climatology[..., 2] > 8e4).all() and made.preparation() is None


def test_a_checkpoint_of_the_former_recipe_holds_what_it_held():
    former = ("model.simple_members=false", "model.shares=half_way", "model.guide_local=single")
    model = small_model(small_config(overrides=former))
    names = set(model.state_dict())
    assert {"guide.fitted", "guide.share", "guide.pooled", "guide.local"} <= names
    assert not any("rests_on" in name or "climatology" in name for name in names if name.startswith(("guide", "sites")))
    assert model.guide.share.shape[0] == model.guide.guesses


def test_the_season_is_told_where_training_holds_it_twice():
    # The rule goes by days of training: the little record is none, a long one is.
    short = small_model(small_config(overrides=("model.guide_season=auto",)))
    assert not short.first_guess.predictors.season
    from stationpde.model.first_guess import FirstGuess

    config = small_config(overrides=("model.guide_season=auto",))
    for days, told in ((430.0, False), (760.0, True)):
        guess = FirstGuess(config, days)
        assert guess.predictors.season is told
        pooled, local = guess.predictors.counts(5, config.data.history)
        assert len(guess.predictors.origins(5)) == pooled
        without = FirstGuess(small_config(overrides=("model.guide_season=none",)), days)
        plain = without.predictors.counts(5, config.data.history)
        assert (pooled - plain[0], local - plain[1]) == ((10, 10) if told else (0, 0))


def test_all_rows_are_taken_when_they_are_asked_for():
    series = small_series()
    model = small_model(small_config(overrides=TRAVEL))
    batches = guide_batches(model, series, Split.of(len(series)))
    with torch.no_grad():
        rows = next(batches.rows("rows"))
    there = [torch.isfinite(target).all(dim=2).float().mean() for target in (rows.target, batches.linear_target(rows))]
    assert batches.takes_all and there[1] >= there[0]
