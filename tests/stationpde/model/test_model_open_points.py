"""Each point that the paper leaves open, as the whole model treats it (see the table in docs/design-decisions.md)."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from fields.grid.gridspec import GridSpec
from fields.windows.series import Stations, StationSeries
from fields.windows.windows import Split
from plain_forward import advance_once
from small_network import STEP, VARIANTS, places, small_config, small_model, small_series, weather, wild, windows
from stationpde.config.tree import Config
from stationpde.model.climate import StateStatistics
from stationpde.model.closure import CLOSURE_SCALES
from stationpde.model.model import StationPDEModel
from stationpde.model.task import ModelLearner
from stationpde.physics.state import STATE, to_observed, to_state

ROOT = Path(__file__).parents[3]
BARE = ("model.station_head=false", "model.data_branch=false", "model.closure=false")


def climate(model, times):
    """Return what the stations would observe if the weather were the climatology."""
    return to_observed(model.sites.base(times).double()).float()


def test_zero_anomaly_forecasts_the_climatology():
    config = small_config("default", ("model.data_branch=false",))
    model = small_model(config)
    issue = torch.tensor([1_672_531_200 + 30 * STEP])
    times = issue[:, None] + torch.arange(-4, 1) * STEP
    forecast = model(climate(model, times), issue)
    expected = model.sites.base(issue[:, None] + torch.arange(1, 3) * STEP)
    # Ψ in single precision: 1e-4 K in theta is some parts in 1e5 of its spread.
    torch.testing.assert_close(forecast.state / model.sites.scale, expected / model.sites.scale, rtol=0, atol=1e-3)


def test_a_linear_ramp_is_read_exactly_at_every_station():
    model = small_model()
    row, column = model.region.grid.position(model.sites.stations.lat, model.sites.stations.lon)
    ny, nx = model.region.grid.shape
    ramp = torch.arange(ny)[:, None] * 2.0 + torch.arange(nx) * 3.0
    read = model.sites.read(ramp.expand(1, 1, ny, nx))[0, :, 0]
    torch.testing.assert_close(read.double(), torch.as_tensor(2 * row + 3 * column), rtol=0, atol=1e-4)


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_the_lift_keeps_constants_whatever_is_missing(variant):
    model = small_model(small_config(variant))
    state = torch.full((1, 2, 12, 5), 7.0)
    state[0, 0, ::2] = torch.nan
    fields, share = model.sites.lifted(state, state)
    torch.testing.assert_close(fields, torch.full_like(fields, 7.0))
    assert float(share[0, 0].min()) < 1.0
    torch.testing.assert_close(share[0, 1], torch.ones_like(share[0, 1]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_first_field_is_the_latest_lifted_one_at_the_start(variant):
    model = small_model(small_config(variant))
    batch = windows(model.config, [3, 9])
    analysis = model.analyse(batch.history, batch.issue_time)
    times = batch.issue_time[:, None] + torch.arange(-4, 1) * STEP
    departures = to_state(batch.history, model.sites.pressure) - model.sites.base(times)
    latest = model.sites.lifted(batch.history, departures)[0][:, -1]
    if model.sites.detrends:
        latest = latest - model.base(batch.issue_time).movedim(-1, -2).reshape(latest.shape)
    torch.testing.assert_close(analysis.field[:, :5], model.scaling(latest), rtol=0, atol=1e-5)


def test_a_gate_of_zero_keeps_the_latest_field_whatever_the_encoder_says():
    model = small_model()
    wild(model)
    batch = windows(model.config, [3])
    before = model.analyse(batch.history, batch.issue_time).field
    with torch.no_grad():
        model.encoder.gate.network.last.convolution.bias.fill_(-200.0)
    closed = model.analyse(batch.history, batch.issue_time).field
    fresh = small_model().analyse(batch.history, batch.issue_time).field
    assert not torch.allclose(before, fresh, atol=1e-3)
    torch.testing.assert_close(closed, fresh, rtol=0, atol=1e-6)


def test_the_closure_bound_exceeds_nine_tenths_of_the_hourly_tendencies_of_real_stations(shared_data):
    with np.load(shared_data / "inmet_south" / "observations.npz") as file:
        hourly = torch.as_tensor(file["obs"][: int(0.6 * file["obs"].shape[0])]).double()
    observed = hourly * torch.tensor([1.0, 1.0, 100.0, 1.0, 0.01]) + torch.tensor([0.0, 0.0, 0.0, 273.15, 0.0])
    state = to_state(observed, observed[..., 2].nanmean(dim=0))
    change = (state.diff(dim=0).abs() / 3600.0).numpy()
    for c, name in enumerate(STATE):
        there = change[..., c][np.isfinite(change[..., c])]
        # The scales are that quantile to one digit.
        assert np.quantile(there, 0.9) < 1.02 * CLOSURE_SCALES[name], name


def at_rest(stations, steps=12):
    """Make a record of still air of the standard atmosphere."""
    t = 288.15 - 0.0065 * stations.alt
    p = 101325.0 * (t / 288.15) ** 5.25588  # ICAO (1993)
    still = np.stack([0 * t, 0 * t, p, t, 0 * t + 0.3], axis=-1)
    time = 1_672_531_200 + STEP * np.arange(steps, dtype=np.int64)
    return StationSeries(time, np.repeat(still[None], steps, axis=0), stations, STEP)


@pytest.mark.parametrize("force", ["false", "true"])
def test_a_static_atmosphere_stays_at_rest_over_any_terrain(force):
    stations = places(14, seed=8)
    series = at_rest(Stations(stations.id, stations.lat, stations.lon, stations.alt * 2.0))
    config = small_config("default", (*BARE, "model.guide=none", f"pde.pressure_gradient={force}"))
    model = StationPDEModel.build(config, StateStatistics.of(series, Split.of(12), config))
    batch = windows(config, [0], series)
    observed = model(batch.history, batch.issue_time).observed.detach()
    # Single precision of a pressure of 1e5 Pa leaves 0.03 Pa; over 100 km and 12 h that is less than 1 cm/s.
    assert float(observed[..., :2].abs().max()) < 0.01
    torch.testing.assert_close(observed[..., 2], batch.future[..., 2], rtol=0, atol=1.0)


def test_surface_pressure_over_terrain_is_not_read_back_but_its_departure_is():
    series = at_rest(places(14, seed=8))
    errors = {}
    for state in ("raw", "anomaly"):
        config = small_config("paper", (*BARE, f"model.state={state}", "pde.rule=none"))
        model = StationPDEModel.build(config, StateStatistics.of(series, Split.of(12), config))
        batch = windows(config, [0], series)
        observed = model(batch.history, batch.issue_time).observed[..., 2]
        errors[state] = float((observed - batch.future[..., 2]).abs().max().detach())
    assert errors["anomaly"] < 1.0
    assert errors["raw"] > 100.0


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_an_anchored_readout_reproduces_the_last_observation_at_the_issue_time(variant):
    model = small_model(small_config(variant, ('model.inputs=["departure"]', "model.station_head=false")))
    model.anchor.now.data.fill_(1.0)
    model.anchor.yesterday.data.zero_()
    batch = windows(model.config, [3, 9])
    analysis = model.analyse(batch.history, batch.issue_time)
    state = model.read(analysis.field, analysis, batch.issue_time, 1)
    expected = to_state(batch.history[:, -1], model.sites.pressure)
    there = torch.isfinite(expected)
    error = ((state - expected) / model.sites.scale)[there]
    assert there.any() and not there.all()
    # Single precision of a pressure of 1e5 Pa.
    assert float(error.abs().max()) < 1e-3
    assert torch.isfinite(state).all()


def test_the_head_starts_as_nothing_and_its_scale_as_the_change_of_one_step():
    model = small_model()
    batch = windows(model.config, [3, 9])
    bare = small_model(small_config("default", ("model.station_head=false",)))
    bare.load_state_dict({k: v for k, v in model.state_dict().items() if k in bare.state_dict()})
    torch.testing.assert_close(
        model(batch.history, batch.issue_time).state, bare(batch.history, batch.issue_time).state
    )
    torch.testing.assert_close(model.head.scale.data, torch.as_tensor(model.statistics.change_std).float())


def test_networks_see_scaled_departures_and_the_loss_scales_wind_by_station():
    model, paper = small_model(), small_model(small_config("paper"))
    statistics = model.statistics
    np.testing.assert_allclose(model.scaling.scale.flatten(), statistics.anomaly_std, rtol=1e-6)
    np.testing.assert_allclose(paper.scaling.scale.flatten(), statistics.std, rtol=1e-6)
    np.testing.assert_allclose(paper.scaling.centre.flatten(), statistics.mean, rtol=1e-6)
    np.testing.assert_allclose(model.sites.scale[:, :2], statistics.station_std[:, :2], rtol=1e-6)
    assert bool((paper.sites.scale == paper.sites.scale[:1]).all())


def lattice(height=8, width=9):
    """Place stations exactly at the cells of a grid."""
    lat, lon = np.meshgrid(np.linspace(44.0, 52.0, height), np.linspace(0.0, 12.0, width), indexing="ij")
    names = tuple(f"L{i:02d}" for i in range(lat.size))
    return Stations(names, lat.ravel(), lon.ravel(), np.zeros(lat.size))


def test_a_field_that_moves_one_cell_in_an_interval_is_forecast_without_lag(monkeypatch):
    stations = lattice()
    monkeypatch.setattr(GridSpec, "around", partial(GridSpec.around, margin=0.0))  # cells at the very stations
    config = small_config("paper", (
        *BARE, "lift.method=idw", "lift.k=4", f"pde.dt={STEP}", "pde.rule=none", "pde.max_wind=20",
        "pde.advection=semi_lagrangian", "pde.without=['laplacian', 'coriolis', 'friction', 'condensation']",
    ))  # fmt: skip
    row = np.arange(stations.lat.size) // 9
    column = np.arange(stations.lat.size) % 9
    cell = np.deg2rad(8.0 / 7) * 6_371_008.8
    values = np.zeros((7, stations.lat.size, 5))
    values[..., 1], values[..., 2], values[..., 4] = cell / STEP, 1e5, 0.3
    for step in range(7):
        blob = np.exp(-((row - (step - 1.0)) ** 2) / 2.0 - (column - 4.0) ** 2 / 6.0)
        values[step, :, 3] = 280.0 + 5.0 * blob
    series = StationSeries(1_672_531_200 + STEP * np.arange(7, dtype=np.int64), values, stations, STEP)
    model = StationPDEModel.build(config, StateStatistics.of(weather(stations, 24), Split.of(24), config))
    batch = windows(config, [0], series)
    observed = model(batch.history, batch.issue_time).observed[0].detach()
    truth = batch.future[0, ..., 3]
    inner = torch.as_tensor((row > 1) & (row < 7))
    for lead in range(2):
        error = (observed[lead, inner, 3] - truth[lead, inner]).abs().max()
        late = (observed[lead, inner, 3] - values_at(values, 4 + lead, inner)).abs().max()
        # A whole cell is carried without interpolation; one step late would be off by degrees.
        assert float(error) < 0.02 * (1 + 9 * lead)
        assert float(late) > 1.0


def values_at(values, step, chosen):
    return torch.as_tensor(values[step, :, 3], dtype=torch.float32)[chosen]


def test_the_station_residual_does_not_feed_back():
    model = small_model()
    batch = windows(model.config, [3, 9])
    before = model(batch.history, batch.issue_time, keep_fields=True)
    with torch.no_grad():
        model.head.last.bias.add_(5.0)
    after = model(batch.history, batch.issue_time, keep_fields=True)
    assert torch.equal(before.fields, after.fields)
    shift = (after.state - before.state) / model.head.scale
    torch.testing.assert_close(shift, torch.full_like(shift, 5.0), rtol=1e-3, atol=2e-2)


def test_the_field_feeds_back():
    model = small_model()
    batch = windows(model.config, [3])
    analysis = model.analyse(batch.history, batch.issue_time)
    first = advance_once(model, analysis.field, batch.issue_time + STEP, 1)
    second = advance_once(model, first, batch.issue_time + 2 * STEP, 2)
    fields = model(batch.history, batch.issue_time, keep_fields=True).fields
    torch.testing.assert_close(fields[:, 1], model.full_field(second, batch.issue_time + 2 * STEP))


def test_an_elevation_model_gives_the_cells_their_altitude(tmp_path):
    lat, lon = np.linspace(40.0, 56.0, 65), np.linspace(-4.0, 17.0, 85)
    height = 200.0 + 40.0 * (lat[:, None] - 40.0) + 10.0 * (lon + 4.0)
    np.savez(tmp_path / "relief.npz", lat=lat, lon=lon, elev_m=height)
    config = small_config(overrides=(f"grid.dem='{tmp_path / 'relief.npz'}'",))
    region = ModelLearner.of(config, small_series(), Split.of(len(small_series()))).model.region
    y, x = np.meshgrid(region.grid.lat, region.grid.lon, indexing="ij")
    # A plane is its own mean over a cell, but for the southern half's being wider: 0.004 degrees of 40 m each.
    np.testing.assert_allclose(region.altitude, 200.0 + 40.0 * (y - 40.0) + 10.0 * (x + 4.0), atol=0.25)


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_factors_and_scales_are_not_decayed(recipe):
    model = small_model(small_config(recipe))
    groups = model.parameter_groups(0.1)
    free = {id(p) for group in groups if group["weight_decay"] == 0.0 for p in group["params"]}
    named = dict(model.named_parameters())
    assert sum(len(group["params"]) for group in groups) == len(named)
    for name, parameter in named.items():
        if re.search(r"gamma|raw|tau|\.scale$|anchor", name):
            assert id(parameter) in free, name


def test_every_open_point_of_the_page_names_tests_that_exist():
    page = (ROOT / "docs" / "design-decisions.md").read_text(encoding="utf-8")
    section = page.partition("## The model")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and "`test_" in line]
    assert len(rows) >= 25
    defined = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        defined |= set(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    for row in rows:
        assert re.search(r"\((M|C|P)\)", row), row
        missing = [name for name in re.findall(r"`(test_\w+)`", row) if name not in defined]
        assert not missing, missing


def test_every_switch_that_the_page_names_is_in_the_configuration():
    page = (ROOT / "docs" / "design-decisions.md").read_text(encoding="utf-8")
    section = page.partition("## The model")[2].partition("\n## ")[0]
    tree = Config().tree()
    for name in set(re.findall(r"`((?:data|grid|lift|model|pde|loss|train)\.\w+)", section)):
        part, _, key = name.partition(".")
        assert key in tree[part], name


def test_small_series_has_gaps():
    assert 0.0 < np.isnan(small_series().values).mean() < 0.1
