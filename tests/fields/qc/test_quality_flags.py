"""Single tests of quality control: what each one flags, and what it must leave alone."""

import numpy as np
import pytest

from fields import qc
from fields.qc.buddy import estimate, find_neighbours
from fields.qc.flags import MASKING, Flag
from fields.qc.quality_tests import fails_persistence, fails_step
from fields.qc.robust import medians, rolling_median, without_cycle
from fields.store import mask_flagged
from fields.variables import VARIABLES
from station_records import make_stations


@pytest.fixture(scope="module")
def clean():
    return make_stations(1200, 25, seed=2)


def flagged(ds, name, flag=MASKING):
    return (qc.check_quality(ds)[f"{name}_flag"].values & int(flag)) > 0


def test_a_clean_network_is_left_alone(clean):
    flags = qc.check_quality(clean)
    for name in ("u", "v", "p", "t", "rh"):
        # Gaussian noise passes limits of seven spreads; a few windows may wander.
        assert ((flags[f"{name}_flag"].values & int(MASKING)) > 0).mean() < 0.002


@pytest.mark.parametrize(
    ("name", "value"),
    [("t", 180.0), ("t", 340.0), ("p", 29000.0), ("p", 111000.0), ("rh", -0.01), ("rh", 1.06), ("u", 120.0)],
)
def test_the_impossible_fails_the_range_test(clean, name, value):
    ds = clean.copy(deep=True)
    ds[name][100, 3] = value
    failed = flagged(ds, name, Flag.RANGE)
    assert failed[100, 3] and failed.sum() == 1


def test_air_a_little_above_saturation_is_doubtful_and_kept(clean):
    ds = clean.copy(deep=True)
    ds["rh"] = 0.96 + 0.05 * (ds["rh"] - ds["rh"].mean())  # fog everywhere
    ds["rh"][100, 3] = 1.02
    assert flagged(ds, "rh", Flag.DOUBTFUL)[100, 3]
    assert np.isfinite(mask_flagged(ds.assign(qc.check_quality(ds).data_vars))["rh"].values[100, 3])


def test_infinite_values_are_coded_missing(clean):
    ds = clean.copy(deep=True)
    ds["t"][50, 2] = np.inf
    assert flagged(ds, "t", Flag.CODE)[50, 2]


def test_a_spike_fails_and_a_front_passes(clean):
    ds = clean.copy(deep=True)
    ds["t"][300, 4] += 12.0
    ds["t"][600:, :] -= 12.0  # a front that crosses the whole network
    failed = flagged(ds, "t", Flag.STEP)
    assert failed[300, 4] and not failed[598:603].any() and not failed[299, 4] and not failed[301, 4]


def test_a_spike_beside_a_gap_is_left_to_the_neighbours(clean):
    ds = clean.copy(deep=True)
    ds["t"][301, 4] = np.nan
    ds["t"][300, 4] += 25.0
    assert flagged(ds, "t", Flag.BUDDY)[300, 4]


@pytest.mark.parametrize("name", ["p", "t", "rh", "u"])
def test_a_stuck_sensor_fails_over_the_whole_run(clean, name):
    ds = clean.copy(deep=True)
    ds[name][400:430, 5] = float(ds[name][400, 5])
    if name == "u":
        ds["u"][400:430, 5] = 4.0
    failed = flagged(ds, name, Flag.PERSISTENCE)
    assert failed[400:430, 5].all() and failed.sum() == 30


def test_missing_values_inside_a_stuck_run_do_not_hide_it(clean):
    ds = clean.copy(deep=True)
    ds["t"][400:430, 5] = 288.0
    ds["t"][410:413, 5] = np.nan
    assert flagged(ds, "t", Flag.PERSISTENCE)[400:430, 5].sum() == 27


def test_calm_nights_and_fog_are_not_stuck(clean):
    ds = clean.copy(deep=True)
    ds["u"][500:540, 6] = 0.0
    ds["v"][500:540, 6] = 0.0
    ds["rh"][500:540, 6] = 1.0
    flags = qc.check_quality(ds)
    for name in ("u", "v", "rh"):
        assert not (flags[f"{name}_flag"].values & int(Flag.PERSISTENCE)).any()


def test_an_anemometer_that_stands_still_for_weeks_is_stuck(clean):
    ds = clean.copy(deep=True)
    ds["u"][200:600, 6] = 0.0
    ds["v"][200:600, 6] = 0.0
    assert flagged(ds, "u", Flag.PERSISTENCE)[200:600, 6].all()


def test_coarse_rounding_is_not_taken_for_a_stuck_sensor(clean):
    ds = clean.copy(deep=True)
    slow = 288.0 + 3 * np.sin(np.arange(1200) / 200)[:, None] + 0 * ds["t"].values
    whole = np.round(slow + np.random.default_rng(0).normal(0, 0.3, slow.shape))
    runs = fails_persistence(whole.astype(np.float32), VARIABLES["t"], 1.0)
    assert runs.mean() < 0.01


def test_a_value_the_neighbours_contradict_fails_even_in_a_run(clean):
    ds = clean.copy(deep=True)
    ds["t"][700:704, 8] += 15.0
    assert flagged(ds, "t", Flag.BUDDY | Flag.STEP)[700:704, 8].all()


def test_one_bad_station_does_not_condemn_its_neighbours(clean):
    ds = clean.copy(deep=True)
    ds["t"][:, 8] += 30.0 * (np.arange(1200) % 50 > 25)
    failed = flagged(ds, "t")
    assert np.delete(failed, 8, axis=1).mean() < 0.002


def test_a_drifting_sensor_fails_once_it_is_far_off(clean):
    ds = clean.copy(deep=True)
    ds["t"][600:, 9] += np.linspace(0, 10, 600).astype(np.float32)
    failed = flagged(ds, "t", Flag.DRIFT | Flag.BUDDY)
    assert failed[1000:, 9].mean() > 0.9 and not failed[:500, 9].any()


def test_an_exchanged_station_loses_all_its_variables(clean):
    ds = clean.copy(deep=True)
    a, b = int(np.argmin(clean["alt"].values)), int(np.argmax(clean["alt"].values))
    for name in ("u", "v", "p", "t", "rh"):
        values = ds[name].values
        values[500:900, [a, b]] = values[500:900, [b, a]]
    flags = qc.check_quality(ds)
    for name in ("u", "v", "p", "t", "rh"):
        assert ((flags[f"{name}_flag"].values[520:880, [a, b]] & int(MASKING)) > 0).mean() > 0.95


def test_what_the_source_and_the_clock_said_is_kept(clean):
    ds = clean.copy(deep=True)
    ds["t_flag"] = (("time", "station"), np.full(ds["t"].shape, int(Flag.TIME | Flag.STEP), np.uint8))
    flags = qc.check_quality(ds)["t_flag"].values
    assert ((flags & int(Flag.TIME)) > 0).all() and ((flags & int(Flag.STEP)) > 0).mean() < 0.01


def test_flags_hide_values_and_leave_what_was_observed(clean):
    ds = clean.copy(deep=True)
    ds["t"][300, 4] += 40.0
    masked = mask_flagged(ds.assign(qc.check_quality(ds).data_vars))
    assert np.isnan(masked["t"].values[300, 4]) and np.isfinite(ds["t"].values[300, 4])
    assert flagged(ds, "t", Flag.STEP).sum() == 1
    assert masked["t"].attrs == ds["t"].attrs


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (30, 1), (30, 2), (10, 30)])
def test_tiny_records_are_tested_without_an_error(shape):
    flags = qc.check_quality(make_stations(*shape))
    assert flags["t_flag"].shape == shape


def test_a_record_without_values_is_tested_without_an_error(clean):
    empty = clean.isel(time=slice(0, 100)).where(clean["alt"] < -1)
    assert not flagged(empty, "t").any()


def test_neighbours_never_include_the_station_and_survive_co_located_ones():
    lat = np.array([45.0, 45.0, 45.1, 46.0, 10.0])
    index = find_neighbours(lat, np.zeros(5), np.zeros(5)).index
    assert not any(s in index[s] for s in range(5))
    assert (index[4] == -1).all()  # everybody else is too far away


def test_the_estimate_of_the_neighbours_is_close_and_never_their_own_value(clean):
    values = without_cycle(clean["p"].values, 24)
    near = find_neighbours(*(clean[c].values for c in ("lat", "lon", "alt")))
    guess = estimate(values, near)
    assert np.nanstd(values - guess) < 0.2 * np.nanstd(values)
    spoiled = values.copy()
    spoiled[:, 0] = np.nan
    assert np.isfinite(estimate(spoiled, near)[:, 1]).all()
    # A value does not vouch for itself: its own error moves its estimate only through what the record teaches.
    other = values.copy()
    other[50, 3] += 1e4
    assert abs(estimate(other, near)[50, 3] - guess[50, 3]) < 10.0


def test_medians_agree_with_numpy():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 7)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = np.nan
    np.testing.assert_allclose(medians(values), np.nanmedian(values, axis=0), rtol=1e-6)
    rolled = rolling_median(values, 5)
    np.testing.assert_allclose(rolled[10], np.nanmedian(values[8:13], axis=0), rtol=1e-6)


def test_a_step_test_needs_three_values():
    assert not fails_step(np.array([[1.0], [90.0]], np.float32), VARIABLES["t"], 1, 1.0).any()
