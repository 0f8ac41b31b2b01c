"""Stations left out: nothing of them is used, and the scores say which lift sees through the relief."""

import numpy as np
import pytest
import xarray as xr

from fields.errors import DataError
from fields.lift.crossval import cross_validate, left_out_estimates, scattered_times
from fields.lift.methods import LIFT_METHODS, LiftSettings, StationLift
from station_records import make_stations


def parts(ds, names=("t", "p", "u", "rh")):
    values = {name: ds[name].values.astype(np.float64) for name in names}
    return values, tuple(ds[name].values for name in ("lat", "lon", "alt"))


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_what_a_left_out_station_measured_has_no_influence_on_its_estimate(method):
    values, places = parts(make_stations(6, 14))
    before = left_out_estimates(values, places, LiftSettings(method))
    changed = {name: array.copy() for name, array in values.items()}
    for array in changed.values():
        array[:, 3] = array[:, 3] * 0.97
    after = left_out_estimates(changed, places, LiftSettings(method))
    for name in values:
        np.testing.assert_array_equal(after[name][:, 3], before[name][:, 3])
        assert not np.array_equal(after[name], before[name])


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_an_estimate_is_that_of_a_network_without_the_station(method):
    values, places = parts(make_stations(5, 20))
    estimates = left_out_estimates(values, places, LiftSettings(method, k=6))
    others = np.arange(20) != 8
    rest = StationLift.between(
        tuple(a[others] for a in places), tuple(a[8:9] for a in places), LiftSettings(method, k=6)
    )({name: array[:, others] for name, array in values.items()})
    for name in values:
        # The mean latitude of a smaller network, and the range that humidity's slope ends at, differ a little.
        np.testing.assert_allclose(estimates[name][:, 8], rest.values[name][:, 0], rtol=2e-3, atol=2e-2)


def test_a_block_removes_every_station_within_its_radius():
    lat, lon, alt = np.full(4, 45.0), np.array([7.0, 7.1, 7.2, 9.0]), np.zeros(4)
    values = {"u": np.array([[1.0, 2.0, 3.0, 40.0]])}
    alone = left_out_estimates(values, (lat, lon, alt), LiftSettings("idw"))["u"][0]
    blocked = left_out_estimates(values, (lat, lon, alt), LiftSettings("idw"), block_m=50e3)["u"][0]
    assert alone[0] < 10.0
    np.testing.assert_allclose(blocked[:3], 40.0)


def test_a_block_larger_than_the_network_is_a_data_error():
    with pytest.raises(DataError, match="no station is left"):
        cross_validate(make_stations(4, 6), ["idw"], block_km=5000.0)


def test_one_station_cannot_be_scored():
    with pytest.raises(DataError):
        cross_validate(make_stations(4, 6).isel(station=[0]), ["idw"])


def test_moments_are_spread_over_the_record_and_over_the_hours_of_the_day():
    chosen = scattered_times(17544, 3600.0)
    hours = np.arange(17544)[chosen] % 24
    assert len(hours) <= 700
    counts = np.bincount(hours, minlength=24)
    assert counts.min() >= 0.9 * counts.max()
    assert scattered_times(100, 3600.0) == slice(0, 100, 1)


def test_scores_are_in_the_units_people_read(month):
    scores = cross_validate(month, moments=50)
    assert list(scores.to_dict()) == ["u", "v", "p", "t", "rh"]
    assert all(list(by_method) == list(LIFT_METHODS) for by_method in scores.to_dict().values())
    # Stations up to 1500 m apart in altitude: tens of hPa without a profile, under one with it.
    assert scores.rmse["p"]["idw"] > 10.0 and scores.rmse["p"]["detrended"] < 1.0
    assert scores.rmse["t"]["detrended"] < 0.5 * scores.rmse["t"]["idw"]
    assert 0.5 < scores.rmse["rh"]["idw"] < 20.0
    assert scores.rows()[2][:2] == ["p", "hPa"]


def test_gaps_are_not_scored(month):
    gappy = month.isel(time=slice(0, 48)).copy(deep=True)
    gappy["t"][:, 3] = np.nan
    scores = cross_validate(gappy, ["idw", "detrended"])
    assert scores.count["t"] == 48 * 29
    assert all(np.isfinite(v) for by_method in scores.rmse.values() for v in by_method.values())


def test_a_pressure_that_stands_in_for_observations_is_not_scored(month):
    reference = month.isel(time=slice(0, 24)).assign_attrs(pressure_kind="standard_atmosphere")
    assert list(cross_validate(reference, ["idw"]).to_dict()) == ["u", "v", "t", "rh"]


def test_stations_without_altitude_are_left_out(month, caplog):
    hours = month.isel(time=slice(0, 24))
    hours = hours.assign_coords(alt=hours["alt"].where(hours["station"] != hours["station"][2]))
    assert cross_validate(hours, ["detrended"]).stations == 29
    assert "altitude" in caplog.text


def inmet(shared_data, every):
    archive = np.load(shared_data / "inmet_south" / "observations.npz")
    obs = archive["obs"][::every]
    to_si = {"u": (1, 0), "v": (1, 0), "p": (100, 0), "t": (1, 273.15), "rh": (0.01, 0)}
    return xr.Dataset(
        {
            n: (("time", "station"), obs[..., i] * np.float32(a) + np.float32(b))
            for i, (n, (a, b)) in enumerate(to_si.items())
        },
        coords={
            "time": archive["time"][::every].astype("M8[ns]"),
            "station": archive["station_id"],
            **{n: ("station", archive[k].astype(float)) for n, k in (("lat", "lat"), ("lon", "lon"), ("alt", "alt_m"))},
        },
    )  # fmt: skip


@pytest.mark.parametrize(
    ("every", "block_km"),
    [
        pytest.param(301, None),
        pytest.param(25, None, marks=pytest.mark.slow),
        pytest.param(25, 100.0, marks=pytest.mark.slow),
    ],
)
def test_on_a_real_network_detrending_halves_the_pressure_error_and_cuts_temperature_by_a_fifth(
    shared_data, every, block_km
):
    rmse = cross_validate(inmet(shared_data, every), ["idw", "detrended"], block_km=block_km).rmse
    assert rmse["p"]["detrended"] <= 0.5 * rmse["p"]["idw"]
    assert rmse["t"]["detrended"] <= 0.8 * rmse["t"]["idw"]
    assert rmse["rh"]["detrended"] <= 1.005 * rmse["rh"]["idw"]


def test_stations_under_two_ids_are_told_because_their_scores_are_too_good(caplog):
    ds = make_stations(30, 6)
    twin = ds.isel(station=[2]).assign_coords(station=["twin"])
    cross_validate(xr.concat([ds, twin], "station"), ["idw"])
    assert "1 stations have the values of another" in caplog.text and "= twin" in caplog.text
    caplog.clear()
    cross_validate(ds, ["idw"])
    assert "values of another" not in caplog.text


def test_a_network_in_a_single_point_is_not_sent_to_smaller_blocks():
    ds = make_stations(30, 6)
    ds = ds.assign_coords(lat=ds["lat"] * 0 + 45.0, lon=ds["lon"] * 0 + 6.0)
    with pytest.raises(DataError, match="all 6 stations stand at one place") as caught:
        cross_validate(ds, ["idw"])
    assert "--block-km" not in caught.value.do and "latitude" in caught.value.do


def test_the_order_of_the_dimensions_does_not_matter(month):
    part = month.isel(time=slice(0, 30), station=slice(0, 8))
    scores = [cross_validate(ds, ["idw"]).to_dict() for ds in (part, part.transpose("station", "time"))]
    assert scores[0] == scores[1]
