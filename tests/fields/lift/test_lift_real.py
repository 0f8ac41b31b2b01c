"""The lift on real weather: a forecast model's own grid, and a storm with more than half the pressure missing."""

import numpy as np
import pytest

from fields.constants import R_d, g, lapse_standard
from fields.grid import Elevation
from fields.grid.gridspec import GridSpec
from fields.lift import station_altitude
from fields.lift.methods import LIFT_METHODS, LiftSettings, StationLift


@pytest.fixture(scope="module")
def arpege(shared_data):
    folder = shared_data / "arpege_nw"
    air, wind, sea = (np.load(folder / f"arpege_{name}_NW.npz") for name in ("2m", "10m", "P_sea_level"))
    lat, lon = air["lat"][::-1], air["lon"]
    grid = GridSpec(lat[0], lat[-1], lon[0], lon[-1], len(lat), len(lon))
    altitude = Elevation.open(folder / "NW_masks.npz").on(grid).ravel()
    fields = {"t": air["2t"], "u": wind["10u"], "v": wind["10v"], "rh": air["r"] / 100}
    fields = {name: array[:, ::-1].reshape(25, -1) for name, array in fields.items()}
    # Pressure at the ground under the mean temperature of the layer down to the sea.
    layer = fields["t"] + lapse_standard * altitude / 2
    fields["p"] = sea["msl"][:, ::-1].reshape(25, -1) * np.exp(-g * altitude / (R_d * layer))
    return grid, altitude, fields


def rmse_on_its_grid(arpege, method, count=150):
    grid, altitude, fields = arpege
    chosen = np.random.default_rng(0).choice(grid.size, count, replace=False)
    lat, lon = grid.cells()
    lift = StationLift.between(
        (lat[chosen], lon[chosen], altitude[chosen]), (lat, lon, altitude), LiftSettings(method), metric=grid.metric
    )
    lifted = lift({name: array[:, chosen].astype(np.float32) for name, array in fields.items()}).values
    return {name: float(np.sqrt(np.mean((lifted[name] - fields[name]) ** 2))) for name in fields}


def test_arpege_sampled_at_points_is_recovered_on_its_own_grid(arpege):
    scores = {method: rmse_on_its_grid(arpege, method) for method in LIFT_METHODS}
    assert scores["detrended"]["p"] < 0.1 * scores["idw"]["p"]
    assert scores["detrended"]["p"] < 40.0  # Pa; the field itself varies by 400 Pa
    assert scores["detrended"]["t"] < 0.85 * scores["idw"]["t"] < 1.0
    assert scores["detrended"]["rh"] < scores["idw"]["rh"]
    assert scores["detrended"]["u"] < 1.5 and scores["detrended"]["v"] < 1.5


def test_more_points_give_a_better_field(arpege):
    errors = [rmse_on_its_grid(arpege, "detrended", count)["t"] for count in (60, 150, 400)]
    assert errors[0] > errors[1] > errors[2]


@pytest.fixture(scope="module")
def storm(shared_data):
    archive = np.load(shared_data / "metar_1993" / "observations.npz")
    placed = np.isfinite(archive["alt_m"])
    obs = archive["obs"][:, placed]
    places = tuple(archive[name][placed].astype(float) for name in ("lat", "lon", "alt_m"))
    return {"p": obs[..., 2] * 100, "t": obs[..., 3] + np.float32(273.15), "u": obs[..., 0]}, places


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_a_storm_with_more_than_half_the_pressure_missing_is_lifted_without_a_hole(storm, method):
    values, places = storm
    assert np.isnan(values["p"]).mean() > 0.5
    grid = GridSpec.around(places[0], places[1], height=48)  # from the Aleutians to Maine, across the antimeridian
    assert grid.east > 180.0 > grid.west
    altitude = station_altitude(*places, grid)
    lift = StationLift.between(places, (*grid.cells(), altitude.ravel()), LiftSettings(method), metric=grid.metric)
    lifted = lift(values, station_pressure=False)
    for name, array in values.items():
        assert np.isfinite(lifted.values[name]).all()
        assert lifted.values[name].min() >= np.nanmin(array) - 25.0
    # Where all neighbours of a cell lack pressure it is taken from farther away, and the coverage says so.
    assert (lifted.coverage["p"] == 0).any()
    assert lifted.coverage["p"].mean() < 0.6 < lifted.coverage["u"].mean()


def test_the_lapse_of_a_real_cold_outbreak_is_an_ordinary_one(storm):
    values, places = storm
    east = (places[1] > -130) & (places[0] < 50)
    places = tuple(a[east] for a in places)
    lift = StationLift.between(places, tuple(a[:1] for a in places), LiftSettings())
    slope = lift({"t": values["t"][:, east]}).planes["t"].along_z
    assert (slope > -0.0085).all() and (slope < -0.005).all()
