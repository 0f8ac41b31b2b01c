"""Records and windows: exact cadence, no leak over a border, no gap inside, and every hour of issue in training."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivation_oracles import dew_point
from fields import derive, store
from fields.errors import DataError, ProblemReport, UsageError
from fields.windows.windows import SPLITS, Split, StationSeries, Windows, WindowSpec
from series_records import make_record
from station_records import make_stations

SPEC = WindowSpec(16, 8)


def without_steps(series, dropped):
    steps = np.setdiff1d(np.arange(len(series)), dropped)
    return replace(series, time=series.time[steps], values=series.values[steps], fingerprint="")


# ---- records ----------------------------------------------------------------------------------------------------


def test_stations_and_windows_need_no_torch():
    code = "import sys, fields.windows.windows, fields.windows.scales; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_third_hour_is_selected_and_none_averaged():
    ds = make_stations(72).isel(time=slice(1, None))  # begins at 01 UTC
    series = StationSeries.from_dataset(ds, 3 * 3600)
    assert series.time[0] % 86_400 == 3 * 3600 and series.step_seconds == 10_800 and len(series) == 23
    assert np.array_equal(series.values[:, :, 3], ds["t"].values[2::3])


def test_absent_times_become_missing_rows():
    ds = make_stations(72)
    series = StationSeries.from_dataset(ds.isel(time=np.delete(np.arange(72), [30, 31, 33])), 3 * 3600)
    assert len(series) == 24 and np.all(np.diff(series.time) == 10_800)
    rows = np.isnan(series.values).all(axis=(1, 2))
    assert np.flatnonzero(rows).tolist() == [10, 11]  # hours 30 and 33


def test_a_network_on_a_clock_eight_hours_ahead_keeps_its_own_phase():
    ds = make_stations(24, step_hours=3.0)
    ds = ds.assign_coords(time=ds["time"].values - np.timedelta64(8, "h"))  # 16, 19, 22, 01 … UTC
    series = StationSeries.from_dataset(ds, 3 * 3600)
    assert len(series) == 24 and series.time[0] % 86_400 == 16 * 3600


def test_infinite_values_are_missing():
    ds = make_stations(24)
    ds["t"][3, 2] = np.inf
    series = StationSeries.from_dataset(ds)
    assert np.isnan(series.values[3, 2, 3]) and not np.isinf(series.values).any()


def test_wind_and_humidity_are_derived_where_only_their_sources_are_there():
    ds = make_stations(24)
    speed, direction = ((("time", "station"), x) for x in derive.wind_speed_direction(ds["u"].values, ds["v"].values))
    dew = dew_point(ds["t"].astype(float), ds["rh"].astype(float))
    other = ds.drop_vars(["u", "v", "rh"]).assign(ff=speed, dd=direction, td=dew)
    direct, derived = StationSeries.from_dataset(ds), StationSeries.from_dataset(other)
    # Degrees and logarithms in float32.
    np.testing.assert_allclose(derived.values, direct.values, rtol=1e-4, atol=1e-4)


def test_a_record_reads_the_same_from_a_store_as_from_memory(tmp_path):
    ds = make_stations(100)
    store.write_store(ds, tmp_path / "x.zarr")
    stored = StationSeries.from_dataset(store.open_store(tmp_path / "x.zarr"), 3600)
    direct = StationSeries.from_dataset(ds, 3600)
    assert np.array_equal(stored.values, direct.values, equal_nan=True) and stored.fingerprint == direct.fingerprint
    assert stored.values.dtype == np.float32 and stored.values.flags.c_contiguous


def test_a_single_changed_value_changes_the_fingerprint():
    series = make_record(50)
    values = series.values.copy()
    values[20, 1, 3] += 0.1
    assert replace(series, fingerprint="").fingerprint == series.fingerprint
    assert replace(series, values=values, fingerprint="").fingerprint != series.fingerprint


@pytest.mark.parametrize("spoil", ["drop", "nan"])
def test_a_variable_that_is_missing_everywhere_is_an_error_that_names_the_substitute(spoil):
    ds = make_stations(24)
    ds = ds.drop_vars("p") if spoil == "drop" else ds.assign(p=ds["p"] * np.nan)
    with pytest.raises(DataError) as caught:
        StationSeries.from_dataset(ds)
    assert caught.value.exit_code == 3 and "--missing p=standard-atmosphere" in caught.value.do
    series = StationSeries.from_dataset(ds, missing={"p": "standard-atmosphere"})
    assert series.reference == ("p",) and series.scored == (True, True, False, True, True)
    np.testing.assert_allclose(series.values[5, :, 2], derive.standard_pressure(ds["alt"].values), rtol=1e-6)


def test_data_coarser_than_the_step_are_refused():
    with pytest.raises(DataError, match="every 10800 s"):
        StationSeries.from_dataset(make_stations(24, step_hours=3.0), 3600)


def test_no_station_is_an_error_and_one_is_enough():
    with pytest.raises(DataError) as caught:
        StationSeries.from_dataset(make_stations(24).isel(station=slice(0, 0)))
    assert caught.value.exit_code == 3
    one = StationSeries.from_dataset(make_stations(200).isel(station=[3]))
    assert Windows.of(one, WindowSpec(6, 2)).counts()["train"] == 113


@pytest.mark.parametrize("year", ["1676", "1677", "2262", "2300"])
def test_times_at_the_ends_of_the_clock_are_refused(year):
    seconds = int(np.datetime64(f"{year}-06-01", "s").astype(np.int64))
    with pytest.raises(DataError, match="era of stations") as caught:
        make_record(10, start=seconds)
    assert caught.value.exit_code == 3
    ds = make_stations(3)
    times = seconds + 3600 * np.arange(3)
    with pytest.raises(DataError, match="era of stations"):
        StationSeries.from_dataset(ds.assign_coords(time=times.astype("datetime64[s]")))


def test_stations_are_judged_by_the_training_period_alone():
    series = make_record(100)
    values = series.values.copy()
    values[:50, 0] = np.nan  # half of the record, all before the border
    values[60:, 1] = np.nan  # as much, but after it
    values[:, 2] = np.nan
    report = ProblemReport()
    dense = replace(series, values=values, fingerprint="").without_sparse(0.5, 60, report)
    assert dense.stations.id == ("S1", "S3") and dense.values.shape == (100, 2, 5)
    assert {"SPDE-D020", "SPDE-D041"} == report.codes()
    assert any("u, v, p, t, rh up to 83% missing, allowed 50%" in line for line in report.lines())
    with pytest.raises(DataError, match="no station is left"):
        replace(series, values=np.full_like(values, np.nan), fingerprint="").without_sparse(None)


def test_a_station_left_out_for_its_wind_is_told_by_its_wind():
    series = make_record(100)
    values = series.values.copy()
    values[:, 0, :2] = np.nan
    report = ProblemReport()
    replace(series, values=values, fingerprint="").without_sparse(0.9, 60, report)
    assert any("S0   u, v up to 100% missing, allowed 90%" in line for line in report.lines())


def test_values_of_the_wrong_shape_are_refused():
    with pytest.raises(UsageError):
        replace(make_record(10), values=np.zeros((9, 4, 5)))


# ---- windows ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 100_000))
def test_borders_are_the_floor_of_six_and_seven_tenths(steps):
    split = Split.of(steps)
    assert (split.val, split.test) == (6 * steps // 10, 7 * steps // 10)
    assert Split.of(steps, (6, 1, 3)).bounds("val") == split.bounds("val")


def test_all_steps_of_a_window_lie_inside_one_split_and_all_such_windows_are_there():
    series = make_record(403)
    windows = Windows.of(series, SPEC)
    for name in SPLITS:
        first, stop = windows.split.bounds(name)
        assert windows[name].tolist() == list(range(first, stop - SPEC.length + 1))


def test_no_window_crosses_a_gap_and_the_lost_ones_are_counted():
    series = without_steps(make_record(400), [100, 101])
    windows = Windows.of(series, SPEC)
    assert windows.across_gap == {"train": SPEC.length - 1, "val": 0, "test": 0}
    steps = series.time[windows.train[:, None] + np.arange(SPEC.length)]
    assert np.all(np.diff(steps, axis=1) == series.step_seconds)


def test_windows_without_a_station_at_the_issue_step_are_skipped_and_counted():
    series = make_record(400)
    values = series.values.copy()
    values[50] = np.nan
    windows = Windows.of(replace(series, values=values), SPEC)
    assert windows.without_station["train"] == 1 and 50 - SPEC.history + 1 not in windows.train
    # A reference that is always there is no station.
    values[50, :, 2] = 95_000.0
    windows = Windows.of(replace(series, values=values, reference=("p",)), SPEC)
    assert windows.without_station["train"] == 1


@pytest.mark.parametrize("steps", [5, 24, 120, 229])
def test_a_record_that_is_too_short_states_the_length_that_is_needed(steps):
    with pytest.raises(DataError, match=r"16 \+ 8 = 24 steps") as caught:
        Windows.of(make_record(steps), SPEC)
    assert caught.value.exit_code == 3
    needed = int(caught.value.do.split("at least ")[1].split()[0].replace(",", ""))
    # By rounding 233, 236 and 238 hold the first windows of validation; from 238 on every length does.
    assert needed == 238
    for enough in range(needed, needed + 12):
        assert min(Windows.of(make_record(enough, 1), SPEC).counts().values()) >= 1


def test_a_split_that_is_long_enough_but_full_of_gaps_says_so():
    values = make_record(400).values.copy()
    values[240:280] = np.nan
    with pytest.raises(DataError, match="val split has no gap"):
        Windows.of(replace(make_record(400), values=values), SPEC)


@pytest.mark.parametrize(("step", "stride"), [(3600, 3), (3600, 5), (3600, 9), (10_800, 2), (10_800, 3)])
def test_the_rotating_stride_meets_every_hour_in_each_epoch_and_every_window_in_a_round(step, stride):
    series = make_record(2000, 1, step=step)
    windows = Windows.of(series, WindowSpec(6, 2, stride))
    epochs = [windows.epoch(e) for e in range(stride)]
    assert np.array_equal(np.sort(np.concatenate(epochs)), windows.train)
    assert len({epoch[0] for epoch in epochs}) == stride
    for epoch in epochs:
        hours = (series.time[epoch + 5] % 86_400) // step
        assert len(np.unique(hours)) == 86_400 // step
        assert abs(len(epoch) - len(windows.train) / stride) <= 0.02 * len(windows.train)
    assert np.array_equal(windows.epoch(stride), epochs[0])


def test_impossible_windows_and_shares_are_refused():
    for spec in ((0, 1), (1, -1), (1, 1, 0)):
        with pytest.raises(UsageError):
            WindowSpec(*spec)
    for shares in ((0.5, 0.5), (0, 0.5, 0.5), (0.6, -0.1, 0.5)):
        with pytest.raises(UsageError):
            Split.of(10, shares)
    with pytest.raises(KeyError, match="no split 'dev'"):
        Windows.of(make_record(400), SPEC)["dev"]
