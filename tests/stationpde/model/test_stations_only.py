"""Forecasts at stations from the guide alone: the field stays as it was lifted, and shares and maps say so."""

import pytest
import torch

from small_network import learner, small_config, windows
from stationpde.config import Config
from stationpde.errors import ConfigError
from stationpde.forecasting.programs import programs_of
from stationpde.model.mixing import shares_of


def stations_only():
    return learner(small_config().for_stations_only())


def test_no_field_is_evolved_and_none_is_trained():
    config = small_config().for_stations_only()
    model = stations_only().model.eval()
    assert (model.pde_branch, model.data_branch, model.router, model.head) == (None, None, None, None)
    assert config.train.max_steps == 1 and not config.model.evolves
    batch = windows(config, [80, 90])
    with torch.no_grad():
        analysis = model.analyse(batch.history, batch.issue_time)
        fields = model(batch.history, batch.issue_time, keep_fields=True).fields
        times = model.valid_time(batch.issue_time[:, None], torch.arange(1, fields.shape[1] + 1))
        stays = model.full_field(analysis.field[:, None].expand_as(fields), times)
    assert torch.equal(fields, stays)


def test_shares_name_the_field_for_what_it_is_and_leave_most_to_the_guide():
    config = small_config().for_stations_only()
    trained = stations_only()
    trained.model.eval()
    trained.calibrate([windows(config, range(72, 84))], lambda sums: sums)
    shares = shares_of(trained.model)
    assert shares.members[-1] == "lifted field"
    assert shares.values[:-1].sum(axis=0).mean() > 0.5


def test_it_is_exported_without_programs_of_the_equations():
    config = small_config().for_stations_only()
    batch = windows(config, [80])
    assert set(programs_of(stations_only().model, batch.history, batch.issue_time)) == {"analysis", "step"}


def test_without_a_guide_there_is_nothing_that_could_forecast():
    with pytest.raises(ConfigError, match="first guesses") as caught:
        Config.preset("weather2k", "field").for_stations_only()
    assert caught.value.do == "--variant default"
    with pytest.raises(ConfigError, match="first guesses") as caught:
        Config.preset("tiny").ablated("no_guide").for_stations_only()
    assert "--ablate no_guide" in caught.value.do
