"""Stations that drop out, appear or move between training and forecast; forecasts where no station was trained on."""

import numpy as np
import pytest
import torch

from fields.windows.series import Stations
from fields.windows.windows import Split
from small_network import STEP, places, small_config, small_model, weather, wild, windows
from stationpde.model.analysis import LiftedHistory
from stationpde.model.learner import LocalReducer
from stationpde.model.station_head import STATION_NUMBERS
from stationpde.model.task import ModelLearner
from stationpde.physics.state import to_observed, to_state


def moved(stations, number, north=0.0, up=0.0):
    lat, alt = stations.lat.copy(), stations.alt.copy()
    lat[number] += north
    alt[number] += up
    return Stations(stations.id, lat, stations.lon, alt)


@pytest.fixture(scope="module")
def model():
    built = small_model()
    wild(built, 0.1)
    return built


def test_the_same_stations_give_the_same_forecast(model):
    batch = windows(model.config, [2])
    other = model.at(model.sites.stations)
    assert torch.equal(other(batch.history, batch.issue_time).state, model(batch.history, batch.issue_time).state)
    assert other.encoder is model.encoder
    assert other.sites is not model.sites


@pytest.mark.parametrize("count", [9, 3, 1])
def test_stations_that_left_need_no_retraining(model, count):
    chosen = np.arange(count) * 12 // 9
    other = model.at(model.sites.stations.take(chosen))
    batch = windows(model.config, [2, 9])
    observed = other(batch.history[:, :, chosen], batch.issue_time).observed
    assert observed.shape == (2, 2, count, 5)
    assert torch.isfinite(observed).all()
    assert other.sites.number.tolist() == chosen.tolist()
    # Statistics of a station stay with it.
    torch.testing.assert_close(other.sites.base(batch.issue_time), model.sites.base(batch.issue_time)[:, chosen])
    torch.testing.assert_close(other.sites.scale, model.sites.scale[chosen])


@pytest.mark.parametrize(("north", "up", "same"), [(0.005, 10.0, True), (0.5, 0.0, False), (0.0, 400.0, False)])
def test_a_station_that_was_re_sited_is_met_as_a_new_one(model, north, up, same):
    other = model.at(moved(model.sites.stations, 4, north, up))
    expected = list(range(12))
    expected[4] = 4 if same else -1
    assert other.sites.number.tolist() == expected
    issue = torch.tensor([1_672_531_200])
    unchanged = torch.equal(other.sites.base(issue)[:, 4], model.sites.base(issue)[:, 4])
    assert unchanged == same
    torch.testing.assert_close(other.sites.base(issue)[:, 5:], model.sites.base(issue)[:, 5:])


def test_an_unknown_station_has_an_embedding_of_zero_and_a_known_one_its_own(model):
    other = model.at(moved(model.sites.stations, 4, 0.5))
    features = torch.zeros(1, 4, *model.region.grid.shape)
    fields = torch.zeros(1, 5, 5, *model.region.grid.shape)
    lifted = LiftedHistory(torch.zeros(1, 5), torch.zeros(1, 5, 12, 5), fields, torch.ones_like(fields))
    view = other.sites.surroundings(fields, other.sites.read(fields))
    numbers = other._history_inputs(lifted, features, view, None)[0, :, -STATION_NUMBERS:]
    assert not numbers[4].any()
    torch.testing.assert_close(numbers[5], model.embedding[5])


def test_a_new_station_gets_the_climatology_of_its_altitude(model):
    trained = model.sites.stations
    high = Stations(("new",), trained.lat[:1], trained.lon[:1] + 0.2, trained.alt[:1] + 1000.0)
    both = model.at(Stations((*trained.id, *high.id), *(np.append(getattr(trained, n), getattr(high, n))
                                                      for n in ("lat", "lon", "alt"))))  # fmt: skip
    times = torch.arange(4) * STEP + 1_672_531_200
    seen = to_observed(both.sites.base(times).double())
    below, above = seen[:, 0].mean(0), seen[:, -1].mean(0)
    # A kilometre up: a tenth of the pressure less, some degrees colder.
    assert 0.86 < float(above[2] / below[2]) < 0.91
    assert -10.0 < float(above[3] - below[3]) < -3.0
    assert bool((both.sites.scale > 0).all())


def test_a_new_station_adds_what_it_sees_to_the_field(model):
    trained = model.sites.stations
    lat, lon, alt = (np.append(*pair) for pair in ((trained.lat, 48.0), (trained.lon, 6.5), (trained.alt, 300.0)))
    new = Stations((*trained.id, "new"), lat, lon, alt)
    other = model.at(new)
    batch = windows(model.config, [2])
    silent = torch.cat([batch.history, torch.full_like(batch.history[:, :, :1], torch.nan)], dim=2)
    reporting = silent.clone()
    reporting[:, :, -1] = batch.history[:, :, 0].nan_to_num(nan=0.5)
    reporting[:, :, -1, 3] = 300.0
    without, with_it = (other.analyse(h, batch.issue_time).field for h in (silent, reporting))
    assert float((with_it - without).detach().abs().max()) > 0.1


def test_a_model_in_double_precision_stays_one_at_other_stations():
    model = small_model().double()
    other = model.at(model.sites.stations.take(np.arange(6)))
    batch = windows(model.config, [2])
    forecast = other(batch.history[:, :, :6].double(), batch.issue_time)
    assert forecast.state.dtype == torch.float64


def trained(config, series, steps):
    """Train a model briefly on a record."""
    torch.manual_seed(0)
    fitted = ModelLearner.of(config, series, Split.of(len(series)))
    fitted.module.train()
    optimiser = torch.optim.AdamW(fitted.parameter_groups(1e-4), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        starts = torch.randint(0, 64, (6,), generator=generator).tolist()
        optimiser.zero_grad()
        fitted.losses(windows(config, starts, series), LocalReducer()).total.backward()
        torch.nn.utils.clip_grad_norm_(fitted.module.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return fitted.module.eval()


def test_forecasts_at_stations_left_out_of_training_beat_the_lift_alone():
    everywhere = weather(places(16, seed=5), steps=120, gaps=0.02)
    left_out = np.array([2, 7, 11, 14])
    used = np.setdiff1d(np.arange(16), left_out)
    series = type(everywhere)(everywhere.time, everywhere.values[:, used], everywhere.stations.take(used), STEP)
    config = small_config("default", ("train.station_dropout=0.1", "model.data_branch=true"))
    model = trained(config, series, steps=60)
    other = model.at(everywhere.stations)
    batch = windows(config, range(84, 113, 2), everywhere)
    history = batch.history.clone()
    history[:, :, left_out] = torch.nan  # they do not report: the forecast comes from the field
    with torch.no_grad():
        observed = other(history, batch.issue_time).observed[:, :, left_out]
        # Field persistence: the latest lifted field of the full state, read at the station.
        state = to_state(history, other.sites.pressure)
        fields, _ = other.sites.lifted(history, state)
        lifted = to_observed(other.sites.read(fields[:, -1]))[:, None, left_out]
    truth = batch.future[:, :, left_out]
    for channel, name in enumerate(("u", "v", "p", "t", "rh")):
        mse, lift = ((f[..., channel] - truth[..., channel]).square().nanmean().item() for f in (observed, lifted))
        assert mse < 0.9 * lift, (name, mse, lift)
