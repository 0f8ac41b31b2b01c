"""Maps of a forecast agree with it at the stations, and are the fields themselves without a guide."""

import torch

from fields.windows.series import Stations
from small_network import learner, places, small_config, small_model, wild, windows


def forecast_of(model, starts=(3, 9)):
    batch = windows(model.config, list(starts))
    with torch.no_grad():
        forecast = model.eval()(batch.history, batch.issue_time, keep_fields=True)
        return forecast, model.maps(forecast, batch.issue_time)


def misfit(model, fields, forecast, issue):
    """Return the difference of fields from the forecasts at the stations, in the scales of the loss."""
    leads = torch.arange(1, fields.shape[1] + 1)
    valid = issue[:, None] + leads * model.config.data.step_seconds
    departures = fields - model.base(valid).movedim(-1, -2).reshape(fields.shape)
    away = model.sites.read(departures) + model.sites.base(valid) - forecast.state
    return (away / model.sites.scale).square().mean(dim=(0, 1, 2)).sqrt()


def test_a_map_is_nearer_to_the_stations_than_the_field_that_was_carried():
    model = learner().model
    forecast, maps = forecast_of(model)
    issue = windows(model.config, [3, 9]).issue_time
    before, after = misfit(model, forecast.fields, forecast, issue), misfit(model, maps, forecast, issue)
    # Inverse distances smooth, so that a part stays.
    assert (after < 0.7 * before).all()


def test_without_a_guide_and_simple_forecasts_a_map_is_the_field():
    model = small_model(small_config(overrides=("model.simple_members=false",)).ablated("no_guide"))
    wild(model, 0.1)
    forecast, maps = forecast_of(model)
    assert torch.equal(maps, forecast.fields)


def test_a_map_of_the_detrended_lift_is_the_field():
    forecast, maps = forecast_of(learner(small_config("detrended")).model)
    assert torch.equal(maps, forecast.fields)


def test_places_that_never_report_do_not_change_the_map():
    model = learner().model
    stations, few = model.sites.stations, places(3)
    names = (*stations.id, *(f"new{n}" for n in range(3)))
    where = [
        torch.cat([torch.as_tensor(getattr(s, n)) for s in (stations, few)]).numpy() for n in ("lat", "lon", "alt")
    ]
    batch = windows(model.config, [3])
    more = torch.cat([batch.history, torch.full_like(batch.history[:, :, :3], torch.nan)], dim=2)
    with torch.no_grad():
        one = model.eval().maps(model(batch.history, batch.issue_time, keep_fields=True), batch.issue_time)
        there = model.at(Stations(names, *where), reporters=len(stations))
        other = there.maps(there(more, batch.issue_time, keep_fields=True), batch.issue_time)
    size = one.amax(dim=(0, 1, 3, 4)) - one.amin(dim=(0, 1, 3, 4))
    assert ((one - other).abs().amax(dim=(0, 1, 3, 4)) <= 1e-5 * size).all()
