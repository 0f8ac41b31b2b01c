"""Errors of a lift: learned at hidden stations, right in size, larger far away, written and scored."""

import numpy as np
import pytest

from fields import store
from fields.errors import DataError
from fields.grid import LocalMetric
from fields.lift import LIFT_METHODS, FieldStore, LiftSettings, StationLift, cross_validate, lift_to_store, remoteness
from fields.lift.crossval import left_out_estimates
from fields.lift.error_scores import _scores, score_errors
from fields.lift.lift_error import HiddenErrors, LiftError, gaussian_crps, moment_factor
from fields.places import Places
from station_records import make_stations


def network(count=60, seed=1):
    draw = np.random.default_rng(seed)
    return Places(
        tuple(f"S{i}" for i in range(count)), draw.uniform(44, 48, count), draw.uniform(5, 11, count),
        draw.uniform(0, 900, count),
    )  # fmt: skip


def smooth_record(places, steps=80, seed=2, reach_km=150.0):
    """Draw fields whose correlation falls with distance, so that errors grow with it."""
    metric = LocalMetric.around(places.lat, places.lon)
    xy = metric.xy(places.lat, places.lon) / 1e3
    gap = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
    root = np.linalg.cholesky(np.exp(-gap / reach_km) + 1e-6 * np.eye(len(places)))
    return (np.random.default_rng(seed).standard_normal((steps, len(places))) @ root.T).astype(np.float32) * 3.0


def test_remoteness_counts_the_nearest_station_and_leaves_out_what_is_excluded():
    places = Places(
        ("a", "b", "c"), np.array([45.0, 45.0, 45.0]), np.array([7.0, 7.1, 9.0]), np.array([0.0, 0.0, 600.0])
    )
    itself = np.eye(3, dtype=bool)
    columns = remoteness(places, places, excluded=itself)
    metric = LocalMetric.around(places.lat, places.lon)
    apart = np.diff(metric.xy(places.lat, places.lon)[:2], axis=0)[0, 0] / 1e3
    np.testing.assert_allclose(columns[:2, 1], np.log1p(apart / 50.0))
    assert columns[2, 1] > columns[0, 1]
    np.testing.assert_allclose(columns[2, 2], 2.0)  # both neighbours lie 600 m below
    np.testing.assert_allclose(remoteness(places, places)[:, 1], 0.0)


def test_coefficients_are_those_that_errors_were_drawn_with():
    draw = np.random.default_rng(0)
    columns = np.c_[np.ones(4000), draw.uniform(0, 1, (4000, 3))]
    beta = np.array([-1.0, 2.0, 0.5, 0.0])
    squares = np.exp(columns @ beta) * draw.chisquare(20, 4000) / 20
    fitted = HiddenErrors(columns, squares, np.arange(4000), np.ones(4000)).coefficients()
    np.testing.assert_allclose(fitted, beta, atol=0.06)


def test_a_broken_sensor_does_not_widen_all():
    columns, squares = np.ones((50, 4)), np.ones(50)
    squares[7] = 1e6
    fitted = HiddenErrors(columns, squares, np.arange(50), np.ones(50)).coefficients()
    assert np.exp(fitted.sum()) < 2.0


def test_few_stations_have_a_level_and_no_slope():
    columns = np.c_[np.ones(5), np.arange(5.0), np.zeros((5, 2))]
    fitted = HiddenErrors(columns, np.exp(np.arange(5.0)), np.arange(5), np.ones(5)).coefficients()
    np.testing.assert_array_equal(fitted[1:], 0.0)


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_errors_grow_with_distance_and_hold_what_new_places_show(method):
    every = network(120)
    values = smooth_record(every, 160)
    near, far = every.take(slice(0, 80)), every.take(slice(80, 120))
    metric = LocalMetric.around(every.lat, every.lon)
    settings = LiftSettings(method, w_alt=0.0)
    learned = LiftError.learn({"u": values[:80, :80]}, near, settings, metric=metric)
    deviation = learned.at("u", far.coordinates, near, metric)
    lifted = StationLift.between(near, far, settings, metric=metric)({"u": values[80:, :80]}).values["u"]
    inside = np.abs(lifted - values[80:, 80:]) <= 1.6449 * deviation
    assert 0.85 < inside.mean() < 0.95
    remote = learned.at("u", (np.array([52.0]), np.array([15.0]), np.array([300.0])), near, metric)
    assert remote > deviation.max()


def test_cells_in_pieces_are_those_at_once(monkeypatch):
    from fields.lift import lift_error

    places = network(30)
    metric = LocalMetric.around(places.lat, places.lon)
    learned = LiftError.learn({"u": smooth_record(places)}, places, LiftSettings("idw"), metric=metric)
    cells = tuple(np.random.default_rng(0).uniform(low, high, 50) for low, high in ((44, 48), (5, 11), (0, 900)))
    whole = learned.at("u", cells, places, metric)
    monkeypatch.setattr(lift_error, "_CELLS_AT_ONCE", 7)
    np.testing.assert_array_equal(learned.at("u", cells, places, metric), whole)


def test_a_difficult_moment_has_a_larger_error():
    places = network(60)
    values = smooth_record(places, 60)
    metric = LocalMetric.around(places.lat, places.lon)
    learned = LiftError.learn({"u": values}, places, LiftSettings("idw"), metric=metric)
    ordinary = learned.factors({"u": values}, True)["u"]
    rough = learned.factors({"u": 3.0 * values}, True)["u"]
    assert 0.9 < ordinary.mean() < 1.1 and (rough > 1.5 * ordinary).all()
    silent = learned.factors({"u": np.full_like(values, np.nan)}, True)["u"]
    np.testing.assert_array_equal(silent, 1.0)
    assert moment_factor(np.array([2.0]), np.array([0]), 1.0) == 1.0


def test_the_crps_of_a_normal_distribution_is_the_integral():
    from scipy.stats import norm

    x = np.linspace(-40, 40, 400_001)
    for error, deviation in ((0.0, 1.0), (1.3, 0.7), (-4.0, 2.5)):
        step = (norm.cdf(x / deviation) - (x >= error)) ** 2
        np.testing.assert_allclose(
            gaussian_crps(np.array(error), np.array(deviation)), np.trapezoid(step, x), rtol=1e-3
        )


def test_deviations_of_estimates_hold_ninety_of_a_hundred_errors():
    places = network(60)
    values = {"u": smooth_record(places, 150)}
    settings = LiftSettings("idw")
    estimates = left_out_estimates(values, places, settings)
    about = {"fold": None, "block_m": 0.0, "is_guided": False, "station_pressure": True}
    one = score_errors(values, estimates, places, settings, **about)["u"]
    assert 0.62 < one.within_one < 0.75 and 0.86 < one.within_90 < 0.94 and one.crps < 1.01 * one.crps_alone


def test_scores_tell_right_deviations_from_ones_a_tenth_too_narrow():
    draw = np.random.default_rng(4)
    deviation = draw.uniform(0.5, 3.0, (400, 60))
    error = deviation * draw.standard_normal((400, 60))
    right, narrow = (_scores("u", error, factor * deviation, np.arange(60.0)) for factor in (1.0, 0.9))
    np.testing.assert_allclose((right.within_one, right.within_90), (0.6827, 0.9), atol=0.01)
    np.testing.assert_allclose((narrow.within_one, narrow.within_90), (0.6319, 0.8612), atol=0.01)
    assert right.crps < narrow.crps < right.crps_alone


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return store.write_store(make_stations(96, 25), tmp_path_factory.mktemp("error") / "in.zarr")


@pytest.fixture(scope="module")
def lifted(source, tmp_path_factory):
    return lift_to_store(source, tmp_path_factory.mktemp("error") / "out.zarr", height=12, block_steps=32)


def test_a_field_store_holds_an_error_beside_every_field(lifted):
    assert lifted.has_error
    ds = store.open_store(lifted.path)
    for name in lifted.variables:
        error, factor = ds[f"{name}_error"], ds[f"{name}_error_factor"]
        assert error.dims == ("lat", "lon") and error.attrs["units"] == ds[name].attrs["units"]
        assert error.attrs["standard_name"].endswith(" standard_error")
        assert (error > 0).all() and factor.dims == ("time",) and (factor > 0).all()
        assert f"{name}_error" in ds[name].attrs["ancillary_variables"].split()
    fields = FieldStore(lifted.path)
    np.testing.assert_allclose(
        fields.error("t", 3), ds["t_error"].values.astype(float) * float(ds["t_error_factor"][3]), rtol=1e-6
    )


def test_blocks_and_workers_do_not_show_in_the_errors(source, lifted, tmp_path):
    other = lift_to_store(source, tmp_path / "o.zarr", height=12, block_steps=96)
    for name in lifted.variables:
        left, right = (store.open_store(path) for path in (lifted.path, other.path))
        np.testing.assert_array_equal(left[f"{name}_error"], right[f"{name}_error"])
        np.testing.assert_allclose(left[f"{name}_error_factor"], right[f"{name}_error_factor"], rtol=1e-6)


def test_without_errors_the_fields_are_the_same_and_a_map_of_errors_says_what_to_do(source, lifted, tmp_path):
    bare = lift_to_store(source, tmp_path / "bare.zarr", height=12, block_steps=32, error=False)
    left, right = (store.open_store(path) for path in (lifted.path, bare.path))
    assert not bare.has_error and not [name for name in right if "error" in str(name)]
    for name in bare.variables:
        np.testing.assert_array_equal(left[name], right[name])
    fields = FieldStore(bare.path)
    with pytest.raises(DataError, match="no error of t") as caught:
        fields.error("t", 0)
    assert "stationpde field lift" in caught.value.do


def test_two_stations_have_no_error_to_learn(tmp_path):
    source = store.write_store(make_stations(8, 2), tmp_path / "in.zarr")
    assert not lift_to_store(source, tmp_path / "out.zarr", height=6).has_error


def test_cross_validation_scores_errors_of_every_method():
    scores = cross_validate(make_stations(60, 25), error=True)
    for by_method in scores.errors.values():
        assert set(by_method) == set(LIFT_METHODS)
        for one in by_method.values():
            assert 0.0 <= one.within_one <= one.within_90 <= 1.0 and one.crps > 0.0
    assert len(scores.error_rows()[0]) == 2 + 3 * len(LIFT_METHODS)
    assert not cross_validate(make_stations(30, 12), ["idw"]).errors
