"""The physics-guided lift: its equations and losses by hand, repeatable fits, and errors before anything is fitted."""

import numpy as np
import pytest
import torch

from fields import store
from fields.constants import Omega, R_d, T_standard
from fields.errors import DataError, ResourceError, UsageError
from fields.lift import pinn, pinn_lift
from fields.lift.crossval import cross_validate
from fields.lift.folds import fold_estimates, folds_of, two_weeks
from fields.lift.methods import LiftSettings, StationLift
from fields.lift.pinn import PinnData, PinnNetwork, combined, evaluated, fit, residuals
from fields.lift.pinn_lift import PinnLift, require_enough, window_steps
from fields.lift.pinn_settings import PinnSettings
from fields.lift.record import lift_to_store
from station_records import make_stations

DAY = 86400.0
QUICK = PinnSettings(steps=6)
NAMES = ("u", "v", "p", "t", "rh")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(pinn, "_BATCH", 128)


def flow(stations: int = 12, times: int = 10, coriolis: bool = True) -> PinnData:
    """A wind and pressure in balance: π falls northwards as a uniform west wind wants it."""
    xy = np.random.default_rng(0).uniform(-3e5, 3e5, (stations, 2))
    u = np.full((times, stations), 8.0)
    f = 2 * Omega * np.sin(np.radians(45.0))
    log_pressure = np.broadcast_to(-f * 8.0 * xy[:, 1] / (R_d * T_standard), u.shape)
    return PinnData.of(np.arange(times) * 3600.0, xy, 45.0, u, 0.0 * u, log_pressure, coriolis=coriolis)


# ---- equations and losses -----------------------------------------------------------------------------------------


def test_derivatives_that_go_along_are_those_of_autograd():
    network = PinnNetwork(flow(), torch.Generator().manual_seed(0)).double()
    place = torch.tensor([[1800.0, 1e5, -5e4], [7200.0, -2e5, 0.0]], dtype=torch.float64)
    values, slopes = network.with_derivatives(place)
    torch.testing.assert_close(values, network(place))
    for point in range(2):
        expected = torch.autograd.functional.jacobian(lambda at: network(at[None])[0], place[point])
        torch.testing.assert_close(slopes[:, point].T, expected)


def test_the_equations_of_motion_by_hand():
    values = torch.tensor([[3.0, -2.0, 70.0]])
    by_t, by_x, by_y = torch.tensor([[0.1, 0.2, 9.0]]), torch.tensor([[1.0, 2.0, 5.0]]), torch.tensor([[4.0, 6.0, 7.0]])
    divergence, along, across = residuals(values, torch.stack([by_t, by_x, by_y]), torch.tensor([0.5]))
    assert divergence.item() == pytest.approx(1.0 + 6.0)
    assert along.item() == pytest.approx(0.1 + 3.0 * 1.0 - 2.0 * 4.0 + 5.0 + 0.5 * 2.0)
    assert across.item() == pytest.approx(0.2 + 3.0 * 2.0 - 2.0 * 6.0 + 7.0 + 0.5 * 3.0)


@pytest.mark.parametrize("coriolis", [True, False])
def test_a_wind_in_balance_satisfies_them_with_the_coriolis_term_alone(coriolis):
    data = flow(coriolis=coriolis)
    f = 2 * Omega * np.sin(np.radians(45.0))
    slopes = torch.zeros(3, 1, 3)
    slopes[2, 0, 2] = -f * 8.0
    at_45 = data.coriolis[data.place[:, 2].abs().argmin()][None]
    parts = residuals(torch.tensor([[8.0, 0.0, 0.0]]), slopes, at_45)
    unbalanced = 0.0 if coriolis else -f * 8.0
    assert [part.item() for part in parts] == pytest.approx([0.0, 0.0, unbalanced], abs=2e-5)
    assert (data.coriolis > 0).all() if coriolis else (data.coriolis == 0).all()


def test_the_coriolis_parameter_is_that_of_the_latitude():
    xy = np.array([[0.0, 0.0], [0.0, 1.1119e6], [1e5, -1.1119e6], [0.0, 5e5], [2e5, 0.0]])  # ten degrees
    nothing = np.zeros((5, 5))
    data = PinnData.of(np.arange(5.0), xy, -30.0, nothing, nothing, nothing, coriolis=True)
    expected = [2 * Omega * np.sin(np.radians(lat)) for lat in (-30.0, -20.0, -40.0)]
    np.testing.assert_allclose(data.coriolis[:3].numpy(), expected, rtol=1e-4)


def test_losses_weigh_themselves_and_as_published_a_small_one_is_driven_up():
    for published, expected in ((False, [0.25, 0.75]), (True, [(2 * 1 * 4 - 10) / 16, (2 * 3 * 4 - 10) / 16])):
        losses = torch.tensor([1.0, 3.0], requires_grad=True)
        total = combined(losses, published)
        total.backward()
        assert total.item() == pytest.approx(10.0 / 4.0)
        assert losses.grad.tolist() == pytest.approx(expected)


# ---- fits ---------------------------------------------------------------------------------------------------------


def test_a_fit_is_repeatable_and_another_seed_gives_another_one():
    data, seconds, xy = flow(), np.arange(3) * 3600.0, np.zeros((2, 2))
    one, same = (evaluated(fit(data, QUICK), seconds, xy) for _ in range(2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, evaluated(fit(data, PinnSettings(steps=6, seed=1)), seconds, xy))


def test_a_fit_comes_nearer_to_what_was_observed():
    # Shear in balance: f u = −∂π/∂y, so that errors and residuals ask for the same.
    xy, seconds = np.random.default_rng(1).uniform(-3e5, 3e5, (20, 2)), np.arange(12) * 7200.0
    y, still = xy[:, 1] / 3e5, np.zeros((12, 1))
    f = 2 * Omega * np.sin(np.radians(45.0))
    u, log_pressure = 8.0 + 4.0 * y + still, -f * 3e5 * (8.0 * y + 2.0 * y**2) / (R_d * T_standard) + still
    data = PinnData.of(seconds, xy, 45.0, u, 0.0 * u, log_pressure, coriolis=True)
    errors = []
    for steps in (1, 150):
        fields = evaluated(fit(data, PinnSettings(steps=steps)), seconds, xy)
        errors.append([np.abs(fields[0] - u).mean(), np.abs(fields[2] - log_pressure).mean()])
    assert errors[1][0] < 0.85 * errors[0][0] and errors[1][1] < 0.6 * errors[0][1]


def test_what_was_not_observed_does_not_count():
    data = flow()
    gappy = PinnData.of(
        np.arange(3.0), np.eye(3)[:, :2] * 1e5, 45.0, *(np.where(np.eye(3) > 0, np.nan, 4.0) for _ in range(3)),
        coriolis=False,
    )  # fmt: skip
    assert len(gappy.place) == 6 and torch.isfinite(gappy.mean).all()
    assert len(data.place) == 120


# ---- lift ---------------------------------------------------------------------------------------------------------


def observations(times: int = 24, stations: int = 14):
    ds = make_stations(times, stations)
    values = {name: ds[name].values.astype(np.float32) for name in NAMES}
    return values, tuple(ds[name].values for name in ("lat", "lon", "alt")), np.arange(times) * 3600.0


def test_temperature_and_humidity_are_those_of_the_detrended_lift_and_gaps_stay_missing():
    values, places, seconds = observations()
    values["u"][4] = np.nan
    others, targets = tuple(p[:10] for p in places), tuple(p[10:] for p in places)
    seen = {name: array[:, :10] for name, array in values.items()}
    lifted = PinnLift.between(others, targets, QUICK, LiftSettings())(seen, seconds)
    plain = StationLift.between(others, targets, LiftSettings("detrended"))(seen)
    for name in ("t", "rh"):
        np.testing.assert_array_equal(lifted.values[name], plain.values[name])
    assert np.isnan(lifted.values["u"][4]).all() and np.isfinite(np.delete(lifted.values["u"], 4, 0)).all()
    assert lifted.values["p"].shape == plain.values["p"].shape and lifted.values["p"].dtype == np.float32


def test_pressure_is_restored_at_the_altitude_of_the_target():
    values, places, seconds = observations()
    lat, lon = places[0], places[1]
    at = (np.repeat(lat[:1], 2), np.repeat(lon[:1], 2), np.array([0.0, 800.0]))
    lifted = PinnLift.between(places, at, QUICK, LiftSettings())(values, seconds)
    share = lifted.values["p"][:, 1] / lifted.values["p"][:, 0]
    assert share.min() > 0.89 and share.max() < 0.925  # 800 m of air between 270 and 310 K


def test_pressure_at_sea_level_has_no_altitude_to_restore():
    values, places, seconds = observations()
    values["p"] = np.full_like(values["p"], 1.01e5)
    lifted = PinnLift.between(places, places, QUICK, LiftSettings())(values, seconds, station_pressure=False)
    np.testing.assert_allclose(lifted.values["p"], 1.01e5, rtol=2e-3)


def test_too_little_is_refused_before_anything_is_fitted():
    values, (lat, lon, _), _ = observations()
    with pytest.raises(UsageError, match="p is not among the variables"):
        require_enough({name: values[name] for name in ("u", "v")}, lat, lon, 24)
    few = {name: array[:, :4] for name, array in values.items()}
    with pytest.raises(DataError, match="needs 5 stations") as caught:
        require_enough(few, lat[:4], lon[:4], 24)
    assert caught.value.code == "SPDE-D086"
    with pytest.raises(DataError, match="at different places"):
        require_enough(values, np.full_like(lat, 1.0), np.full_like(lon, 2.0), 24)
    with pytest.raises(DataError, match="needs 5 times"):
        require_enough(values, lat, lon, 4)


def test_a_window_with_too_few_stations_is_missing_and_told(caplog):
    values, places, seconds = observations()
    for name in ("u", "v"):
        values[name][:, 3:] = np.nan
    lifted = PinnLift.between(places, places, QUICK, LiftSettings())(values, seconds)
    assert np.isnan(lifted.values["u"]).all() and np.isfinite(lifted.values["t"]).all()
    assert "too few for a network" in caplog.text


def test_what_it_takes_is_measured_first_and_thirty_minutes_are_the_most():
    values, places, seconds = observations()
    guided = PinnLift.between(places, places, QUICK, LiftSettings())
    cost = guided.cost(values, seconds, 3)
    assert cost.networks == 3 and cost.seconds > 0 and cost.memory > 1e8
    assert "3 networks" in str(cost) and "GB of memory" in str(cost)
    long = PinnLift.between(places, places, PinnSettings(steps=10**9), LiftSettings())
    with pytest.raises(ResourceError, match="30 are allowed") as caught:
        long.cost(values, seconds, 1)
    assert caught.value.do.startswith("--steps ")


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"seed": -1}, {"days": 15.0}, {"steps": 2.5}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(UsageError):
        PinnSettings(**wrong)


def test_windows_share_a_record_evenly():
    assert window_steps(337, 3600.0, PinnSettings()) == 169
    assert window_steps(336, 3600.0, PinnSettings()) == 336
    assert window_steps(100, 10800.0, PinnSettings(days=1.0)) == 8
    assert two_weeks(17544, 3600.0, 14.0) == slice(8604, 8940)
    assert two_weeks(11, 3600.0, 14.0) == slice(0, 11)


def test_a_record_is_lifted_window_by_window(tmp_path):
    source = store.write_store(make_stations(30, 12), tmp_path / "in.zarr")
    said, settings = [], PinnSettings(steps=4, days=0.75)
    lifted = lift_to_store(source, tmp_path / "out.zarr", pinn=settings, height=6, announce=said.append)
    assert lifted.blocks == 2 and len(said) == 1 and "3 networks" in said[0] and "--no-error" in said[0]
    assert lifted.has_error
    out = store.open_store(lifted.path, verify="full").load()
    assert out.attrs["method"] == "pinn" and '"seed": 0' in out.attrs["pinn_settings"]
    plain = store.open_store(lift_to_store(source, tmp_path / "plain.zarr", height=6).path).load()
    np.testing.assert_allclose(out["t"].values, plain["t"].values, rtol=1e-6)
    assert np.isfinite(out["u"].values).all() and not np.allclose(out["u"].values, plain["u"].values)
    # The level of the network's own errors, the map of the detrended lift's.
    assert (out["u_error"] > 0).all() and not np.allclose(out["u_error"], plain["u_error"])
    np.testing.assert_allclose(out["t_error"], plain["t_error"], rtol=1e-6)


# ---- folds --------------------------------------------------------------------------------------------------------


def test_folds_part_the_network_evenly_and_by_seed():
    fold = folds_of(103, 0)
    assert sorted(np.bincount(fold)) == [20, 20, 21, 21, 21]
    assert not np.array_equal(fold, folds_of(103, 1)) and np.array_equal(fold, folds_of(103, 0))
    assert sorted(folds_of(3, 0)) == [0, 1, 2]


@pytest.mark.parametrize("network", [None, PinnSettings(steps=2)])
def test_a_fold_is_estimated_without_its_stations(network):
    values, places, seconds = observations()
    fold = folds_of(14, 0)
    before = fold_estimates(values, places, LiftSettings(), fold, seconds=seconds, pinn=network)
    changed = {name: np.where(fold == 2, 0.9 * array, array).astype(np.float32) for name, array in values.items()}
    after = fold_estimates(changed, places, LiftSettings(), fold, seconds=seconds, pinn=network)
    for name in NAMES:
        np.testing.assert_array_equal(after[name][:, fold == 2], before[name][:, fold == 2])
        assert not np.array_equal(after[name], before[name])


def test_all_methods_are_scored_on_the_same_folds():
    ds, said = make_stations(24, 14), []
    scores = cross_validate(ds, ("idw", "detrended", "pinn"), pinn=PinnSettings(steps=3), announce=said.append)
    assert scores.folds == 5 and scores.moments == 24 and "5 networks" in said[0]
    assert all(list(by_method) == ["idw", "detrended", "pinn"] for by_method in scores.rmse.values())
    for name in ("t", "rh"):
        assert scores.rmse[name]["pinn"] == scores.rmse[name]["detrended"]
    plain = cross_validate(ds, ("idw",), folds=True)
    assert plain.rmse["u"]["idw"] == scores.rmse["u"]["idw"]
    with pytest.raises(UsageError, match="folds"):
        cross_validate(ds, ("idw",), folds=True, block_km=50.0)


def test_networks_are_refused_before_other_methods_are_scored(monkeypatch):
    monkeypatch.setattr(pinn_lift, "_MOST_MINUTES", 0.0)
    with pytest.raises(ResourceError):
        cross_validate(make_stations(24, 14), ("idw", "pinn"), pinn=PinnSettings(steps=3))
