"""The three lifts: exact where physics allows, finite whatever is missing, sober about units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fields.constants import R_d, g, p_standard
from fields.errors import DataError, UsageError
from fields.grid.gridspec import GridSpec
from fields.lift import station_altitude
from fields.lift.bilinear import GridReadout
from fields.lift.methods import LIFT_METHODS, LiftSettings, StationLift, altitude_weight


def network(seed=0, count=30):
    draw = np.random.default_rng(seed)
    return draw.uniform(40, 47, count), draw.uniform(0, 9, count), draw.uniform(0, 2500, count)


def atmosphere(altitude, level, lapse, sea_level=101000.0):
    """Return temperature linear in altitude and the pressure that is hydrostatic with it."""
    t = level - lapse * altitude
    isothermal = abs(lapse) < 1e-6  # where the logarithm below loses its digits
    factor = -g * altitude / (R_d * level) if isothermal else g / (R_d * lapse) * np.log(t / level)
    return t, sea_level * np.exp(factor)


def on_grid(places, method="detrended", height=12, **settings):
    grid = GridSpec.around(places[0], places[1], height=height)
    altitude = station_altitude(*places, grid)
    chosen = LiftSettings(method, **settings)
    lift = StationLift.between(places, (*grid.cells(), altitude.ravel()), chosen, metric=grid.metric)
    return lift, grid, altitude


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000), count=st.integers(4, 40), level=st.floats(250.0, 305.0),
    lapse=st.sampled_from([0.0, 0.0065, 0.0098, -0.003]) | st.floats(-0.0115, 0.0115),
)  # fmt: skip
def test_an_atmosphere_linear_in_altitude_is_lifted_and_read_back_exactly(seed, count, level, lapse):
    places = network(seed, count)
    t, p = atmosphere(places[2], level, lapse)
    lift, grid, altitude = on_grid(places)
    lifted = lift({"t": t[None], "p": p[None], "rh": np.full((1, count), 0.6)})
    expected_t, expected_p = atmosphere(altitude.ravel(), level, lapse)
    # The fit assumes a scatter of 1e-5 of the usual: what remains is of that order in slope times altitude.
    np.testing.assert_allclose(lifted.values["t"][0], expected_t, atol=1e-4)
    np.testing.assert_allclose(lifted.values["p"][0], expected_p, rtol=1e-7)

    fields = {name: array.reshape(1, *grid.shape) for name, array in lifted.values.items()}
    slopes = {name: plane.along_z[..., 0] for name, plane in lifted.planes.items()}
    back = GridReadout.of(grid, altitude, places, lift.altitude_range)(fields, slopes).values
    np.testing.assert_allclose(back["t"][0], t, atol=1e-4)
    np.testing.assert_allclose(back["p"][0], p, rtol=1e-7)
    np.testing.assert_allclose(back["rh"][0], 0.6, atol=1e-6)


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_only_the_detrended_lift_sees_through_the_relief(method):
    places = network()
    t, p = atmosphere(places[2], 288.0, 0.0065)
    lift, _, _ = on_grid(places, method)
    # Targets a kilometre above what the stations' mean would say.
    target = StationLift.between(places, (*(a[:5] for a in places[:2]), places[2][:5] + 1000.0), lift.settings)
    error = np.abs(
        target({"p": p[None], "t": t[None]}).values["p"][0] - atmosphere(places[2][:5] + 1000, 288.0, 0.0065)[1]
    )
    assert (error.max() < 1.0) == (method == "detrended")


@pytest.mark.parametrize("name", ["u", "t", "p", "rh"])
@pytest.mark.parametrize("method", ["idw", "detrended"])
def test_a_station_is_given_back_exactly_where_it_stands(name, method):
    places = network()
    draw = np.random.default_rng(5)
    t, p = atmosphere(places[2], 288.0, 0.005)
    values = {
        "u": draw.normal(0, 4, (3, 30)),
        "t": t + draw.normal(0, 2, (3, 30)),
        "p": p + draw.normal(0, 200, (3, 30)),
        "rh": draw.uniform(0.2, 1.0, (3, 30)),
    }
    lift = StationLift.between(places, places, LiftSettings(method))
    np.testing.assert_allclose(lift(values).values[name], values[name], rtol=1e-9)


def test_without_temperature_pressure_follows_the_standard_atmosphere():
    places = network()
    p = p_standard * (1 - 0.0065 * places[2] / 288.15) ** (g / (R_d * 0.0065))
    lift, _, altitude = on_grid(places)
    pressure = lift({"p": p[None]}).values["p"][0]
    expected = p_standard * (1 - 0.0065 * altitude.ravel() / 288.15) ** (g / (R_d * 0.0065))
    np.testing.assert_allclose(pressure, expected, rtol=1e-8)


def test_a_barometer_without_thermometer_still_counts():
    places = network()
    t, p = atmosphere(places[2], 285.0, 0.006)
    t[::2] = np.nan
    lift, _, altitude = on_grid(places)
    lifted = lift({"t": t[None], "p": p[None]})
    np.testing.assert_allclose(lifted.values["p"][0], atmosphere(altitude.ravel(), 285.0, 0.006)[1], rtol=1e-7)
    assert lifted.coverage["p"].min() > 0.99 > lifted.coverage["t"].max()


def test_pressure_reduced_to_the_sea_has_no_profile():
    places = network()
    lift, _, _ = on_grid(places)
    flat = lift({"p": np.full((1, 30), 101300.0), "t": np.full((1, 30), 280.0)}, station_pressure=False)
    np.testing.assert_allclose(flat.values["p"], 101300.0, rtol=1e-12)
    assert "p" not in flat.planes


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_the_more_stations_drop_out_the_worse_it_gets_but_never_nan(method):
    draw = np.random.default_rng(0)
    places = network(count=120)
    t, p = atmosphere(places[2], 288.0, 0.006)
    wave = 4 * np.sin(places[0]) + 3 * np.cos(places[1])
    values = {"t": np.tile(t + wave, (60, 1)), "p": np.tile(p, (60, 1)) + 50 * draw.normal(size=(60, 120))}
    targets = network(seed=9, count=50)
    truth = atmosphere(targets[2], 288.0, 0.006)[0] + 4 * np.sin(targets[0]) + 3 * np.cos(targets[1])
    lift = StationLift.between(places, targets, LiftSettings(method))
    errors = []
    for share in (0.0, 0.2, 0.5, 0.8):
        gone = draw.random((60, 120)) < share
        lifted = lift({name: np.where(gone, np.nan, array) for name, array in values.items()})
        assert np.isfinite(lifted.values["t"]).all() and np.isfinite(lifted.values["p"]).all()
        errors.append(np.sqrt(np.mean((lifted.values["t"] - truth) ** 2)))
    assert errors[0] < errors[2] < errors[3]
    assert errors[1] < 1.2 * errors[2]


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_a_moment_without_any_station_is_missing_and_leaves_its_neighbours_alone(method):
    places = network()
    t, p = atmosphere(places[2], 288.0, 0.006)
    values = {"t": np.tile(t, (3, 1)), "p": np.tile(p, (3, 1))}
    for array in values.values():
        array[1] = np.nan
    lift, _, _ = on_grid(places, method)
    lifted = lift(values)
    for name in values:
        assert np.isnan(lifted.values[name][1]).all() and (lifted.coverage[name][1] == 0).all()
        assert np.isfinite(lifted.values[name][[0, 2]]).all()


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_a_station_that_never_reports_has_no_say(method):
    places = network()
    t, _ = atmosphere(places[2], 288.0, 0.006)
    t[7] = np.nan
    others = np.arange(30) != 7
    with_it, grid, altitude = on_grid(places, method, k=30)
    without = StationLift.between(
        tuple(a[others] for a in places),
        (*grid.cells(), altitude.ravel()),
        LiftSettings(method, k=29),
        metric=grid.metric,
    )
    left, right = with_it({"t": t[None]}).values["t"], without({"t": t[None, others]}).values["t"]
    np.testing.assert_allclose(left, right, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize("method", LIFT_METHODS)
def test_a_handful_of_stations_still_makes_a_field(method, count, caplog):
    places = network(count=count)
    t, p = atmosphere(places[2], 288.0, 0.0065)
    lift, _, _ = on_grid(places, method)
    lifted = lift({"t": t[None], "p": p[None], "rh": np.full((1, count), 0.5), "u": np.ones((1, count))})
    assert all(np.isfinite(array).all() for array in lifted.values.values())
    assert f"there are {count} stations" in caplog.text


def test_no_station_is_a_data_error():
    with pytest.raises(DataError) as caught:
        StationLift.between(([], [], []), ([1.0], [1.0], [0.0]))
    assert caught.value.exit_code == 3


def test_humidity_stays_a_fraction_however_high_the_target():
    places = network()
    rh = np.clip(0.2 + 4e-4 * places[2], 0, 1)
    lift = StationLift.between(places, (places[0], places[1], np.full(30, 9000.0)), LiftSettings())
    humidity = lift({"rh": rh[None]}).values["rh"]
    assert humidity.min() >= 0.0 and humidity.max() <= 1.0


@pytest.mark.parametrize(("text", "weight"), [("5 km/m", 5000.0), ("5 m/m", 5.0), ("0.3 km/m", 300.0), (7.0, 7.0)])
def test_the_weight_of_altitude_is_read_with_its_unit(text, weight):
    assert altitude_weight(text) == pytest.approx(weight)


@pytest.mark.parametrize("text", ["5", "5 km", "five km/m", "5 km/s", "-5 km/m", "inf km/m", "", "__import__('os')/m"])
def test_a_weight_without_a_proper_unit_is_refused_with_what_to_type(text):
    with pytest.raises(UsageError) as caught:
        altitude_weight(text)
    assert "5 km/m" in caught.value.do and "5 m/m" in caught.value.do


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="terrain_idw") as caught:
        LiftSettings("terain_idw")
    assert caught.value.do == "--method terrain_idw"


@pytest.mark.parametrize("wrong", [{"k": 0}, {"power": 0.0}, {"epsilon_m": 0.0}, {"w_alt": -1.0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UsageError):
        LiftSettings("idw", **wrong)


def test_beyond_the_network_the_horizontal_slope_does_not_go_on_for_ever():
    places = network(count=60)
    t = 288.0 - 0.0065 * places[2] + 2.0 * (places[0] - 43.0)
    far = StationLift.between(places, ([48.0, 60.0, 80.0], [4.5, 4.5, 4.5], [0.0, 0.0, 0.0]), LiftSettings())
    kelvin = far({"t": t[None]}).values["t"][0]
    assert kelvin[0] > 290.0
    assert kelvin[1:].max() < 305.0  # the plane itself would give 322 and 362 K
