"""Pictures: each is drawn, shows what it was given, and never stands half written."""

import numpy as np
import pytest
import xarray as xr

from fields.errors import DataError
from fields.variables import cf_attributes
from reported_run import HOSTILE, reported_view
from stationpde.api import StationPDE
from stationpde.errors import UsageError
from stationpde.plots.errors import draw_error_by_altitude, draw_error_by_lead, rmse
from stationpde.plots.maps import Frame, draw_forecast_map, draw_frame
from stationpde.plots.parts import (
    draw_altitude_weight,
    draw_parts,
    read_altitude_weights,
    read_scores,
    relative_increase,
    whole_of,
)
from stationpde.plots.physics import coefficient_label, draw_physics, grouped_physics
from stationpde.plots.router import draw_router
from stationpde.plots.series import draw_series, station_number
from stationpde.plots.shares import draw_shares
from stationpde.plots.style import check_picture, sheet
from stationpde.plots.transport import draw_redistribution, redistribution
from stationpde.report.view import OURS


def ink(path) -> float:
    """Compute the share of the pixels that are not paper."""
    from matplotlib.image import imread

    return float((imread(path)[..., :3].min(axis=-1) < 0.97).mean())


# ---- what the numbers are --------------------------------------------------------------------------------------


def test_relative_increase_is_per_cent_over_the_whole_model():
    scores = {"default": {"t": 2.0, "p": 4.0}, "default-no_pde": {"t": 3.0, "p": 4.0}, "default-no_head": {"t": 1.0}}
    assert relative_increase(scores, "default") == {
        "default-no_pde": {"t": 50.0, "p": 0.0},
        "default-no_head": {"t": -50.0},
    }


def test_root_mean_square_errors_come_from_sums_and_nothing_observed_is_nan():
    sums = np.array([[4.0, 0.0], [36.0, 0.0], [8.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(rmse(sums), [3.0, np.nan])


def test_scores_of_a_table_are_read_and_anything_else_is_refused(tmp_path):
    good, bad = tmp_path / "results.json", tmp_path / "other.json"
    good.write_text('{"pooled": {"paper": {"t": {"mse": 2, "mae": 1}}, "paper-no_pde": {"t": {"mse": 3}}}}')
    bad.write_text('{"pooled": {"paper": {"t": 2}}}')
    assert (
        read_scores(good) == {"paper": {"t": 2.0}, "paper-no_pde": {"t": 3.0}}
        and whole_of(read_scores(good)) == "paper"
    )
    shares = tmp_path / "ablation.json"
    shares.write_text('{"variant": "paper", "increase": {"no_pde": {"t": 0.5}}, "effect": {}}')
    assert relative_increase(read_scores(shares), "paper") == {"paper-no_pde": {"t": 50.0}}
    for path in (bad, tmp_path / "none.json"):
        with pytest.raises(DataError, match="no table"):
            read_scores(path)


def test_scores_by_weight_of_altitude_are_read_and_anything_else_is_refused(tmp_path):
    good, bad = tmp_path / "w_alt.json", tmp_path / "other.json"
    good.write_text('{"unit": "km/m", "mse": {"0": {"t": 2}, "5": {"t": 1.5}}}')
    bad.write_text('{"mse": [1, 2]}')
    assert read_altitude_weights(good) == {0.0: {"t": 2.0}, 5.0: {"t": 1.5}}
    with pytest.raises(DataError, match="no table of weights"):
        read_altitude_weights(bad)


def test_coefficients_are_named_by_their_symbols_and_grouped_by_unit():
    assert [coefficient_label(n) for n in ("kappa_theta", "lambda_c", "r_m", "gamma_q")] == ["κ θ", "λ c", "r_m", "γ q"]
    groups = grouped_physics(StationPDE(reported_view().run).physics())
    assert groups["km²/h"][0] == "kappa_u" and all(name.startswith("gamma") for name in groups["1"])


def test_fields_reach_the_pixels_without_moving():
    view = reported_view()
    frame, grid = Frame(view.relief), view.relief.grid
    east = np.broadcast_to(np.linspace(0.0, 1.0, grid.width), grid.shape)
    shown = frame.on_pixels(east)
    # Bilinear is exact on a plane; both grids reach from border to border.
    np.testing.assert_allclose(shown[0], np.linspace(0.0, 1.0, shown.shape[1]), atol=1e-12)


def test_a_region_much_wider_than_high_is_flat():
    frame = Frame(reported_view().relief)
    assert not frame.is_flat
    frame.ratio *= 0.1
    assert frame.is_flat and frame.size(1.0)[0] == 1.0


def test_arrows_of_maps_side_by_side_are_of_one_scale():
    from matplotlib.figure import Figure
    from matplotlib.quiver import Quiver

    frame = Frame(reported_view().relief)
    scales = []
    for speed in (1.0, 7.0):
        axes, wind = Figure().subplots(), np.full((2, *frame.grid.shape), speed)
        draw_frame(axes, frame, wind[0], "u", (0.0, 9.0), wind=wind, strength=8.0)
        scales += [arrows.scale for arrows in axes.collections if isinstance(arrows, Quiver)]
    assert len(scales) == 2 and scales[0] == scales[1]


# ---- humidity that the wind carries ----------------------------------------------------------------------------


def carried_network(u: float = 6.0, v: float = 2.0) -> xr.Dataset:
    """Make a moist blob that drifts with a steady wind."""
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(45, 48, 400), rng.uniform(0, 4.4, 400)
    x, y = (lon - 2.2) * 111.2e3 * np.cos(np.radians(46.5)), (lat - 46.5) * 111.2e3
    hours = np.arange(0, 13)
    east, north = x - u * 3600.0 * hours[:, None] + 80e3, y - v * 3600.0 * hours[:, None] + 20e3
    rh = 0.4 + 0.5 * np.exp(-(east**2 + north**2) / (2 * 50e3**2))
    tables = {"rh": rh, "u": np.full_like(rh, u), "v": np.full_like(rh, v), "t": np.full_like(rh, 285.0)}
    tables["p"] = np.full_like(rh, 1e5)
    time = np.datetime64("2020-01-01", "ns") + hours * np.timedelta64(1, "h")
    return xr.Dataset(
        {n: (("time", "station"), x.astype(np.float32), cf_attributes(n)) for n, x in tables.items()},
        coords={"time": time, "station": [f"S{i}" for i in range(400)], "lat": ("station", lat),
                "lon": ("station", lon), "alt": ("station", np.zeros(400))},
    )  # fmt: skip


def test_a_blob_that_drifts_with_the_wind_is_recognised_as_carried():
    case = redistribution(carried_network(), at=1577836800)
    assert case.transported > 0.9 > 0.5 > case.persisting
    assert np.isnan(case.carried[0, 0]) and np.isfinite(case.carried[-1, -1])  # the south-west blows in from outside


def test_a_blob_that_drifts_against_the_wind_is_not():
    ds = carried_network()
    against = ds.assign(u=-ds["u"].assign_attrs(ds["u"].attrs), v=-ds["v"])
    assert redistribution(against, at=1577836800).transported < 0.3


def test_two_moments_that_are_not_there_are_an_error():
    with pytest.raises(DataError, match="no two moments"):
        redistribution(carried_network(), hours=48.0)


# ---- that they are drawn ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_router_errors_and_altitude_are_drawn(tmp_path):
    view = reported_view()
    statistics = view.scored.statistics
    for path in (
        draw_router(view.scored.router, statistics[OURS].lead_hours, tmp_path / "router.png"),
        draw_error_by_lead(statistics, tmp_path / "lead.png"),
        draw_error_by_altitude(statistics[OURS], view.data.series.stations.alt, tmp_path / "altitude.png"),
    ):
        assert ink(path) > 0.02, path.name


@pytest.mark.slow
def test_maps_series_and_physics_are_drawn_whatever_a_station_is_called(tmp_path):
    view = reported_view()
    moment = view.moment
    for path in (
        draw_forecast_map(moment, view.relief, tmp_path / "map.png", variable="rh", lead=2),
        draw_series(moment, HOSTILE[3], tmp_path / "series.png"),
        draw_physics(StationPDE(view.run).physics(), tmp_path / "physics.png"),
    ):
        assert ink(path) > 0.02, path.name


def test_shares_are_drawn_whole_and_say_what_they_rest_on(tmp_path):
    members = ("linear guess", "perceptrons", "persistence", "yesterday", "climatology", "field")
    values = np.random.default_rng(0).dirichlet(np.ones(6), (24, 5)).transpose(2, 0, 1)
    about = "Set on 19 validation windows of 6 days."
    path = draw_shares(values, members, range(1, 25), tmp_path / "shares.png", about)
    # Bars that add up to one fill the panels; without a member a gap would stay.
    assert ink(path) > 0.4
    less = draw_shares(values[:-1], members[:-1], range(1, 25), tmp_path / "less.png")
    assert ink(less) < ink(path) - 0.03


@pytest.mark.slow
def test_parts_altitude_weight_and_transport_are_drawn(tmp_path):
    scores = {"default": {"t": 1.0, "p": 1.0, "u": 1.0}, "default-no_pde": {"t": 1.1, "p": 1.2, "u": 1.0}}
    scores["default-no_data"] = {"t": 30.0, "p": 1.1, "u": 1.3}
    weights = {0.0: {"t": 1.2, "p": 3.0}, 5.0: {"t": 1.0, "p": 1.0}, 20.0: {"t": 1.1, "p": 1.4}}
    for path in (
        draw_parts(scores, tmp_path / "parts.png"),
        draw_altitude_weight(weights, tmp_path / "w_alt.png"),
        draw_redistribution(redistribution(carried_network()), tmp_path / "transport.png"),
    ):
        assert ink(path) > 0.02, path.name


def test_a_picture_may_be_drawn_as_vectors(tmp_path):
    path = draw_altitude_weight({0.0: {"t": 1.2}, 5.0: {"t": 1.0}}, tmp_path / "w.svg")
    assert path.read_text().count("<path") > 10


def test_a_failed_picture_leaves_nothing_and_the_old_one_in_place(tmp_path):
    target = tmp_path / "picture.png"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), sheet(target):
        raise ZeroDivisionError
    assert target.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["picture.png"]


def test_endings_and_existing_files_are_refused_before_any_work(tmp_path):
    with pytest.raises(UsageError, match="ending"):
        check_picture(tmp_path / "map.bmp")
    (tmp_path / "map.png").write_text("old")
    with pytest.raises(UsageError, match="exists"):
        check_picture(tmp_path / "map.png")
    assert check_picture(tmp_path / "map.png", force=True).name == "map.png"


def test_an_unknown_station_is_answered_with_the_nearest():
    assert station_number(reported_view().moment, "SY007") == 7
    with pytest.raises(UsageError, match="did you mean 'SY00"):
        station_number(reported_view().moment, "SY07")
