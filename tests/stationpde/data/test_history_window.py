"""The history that a forecast starts from: its times, those with a zone, and those that have not come yet."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fields import store
from fields.errors import DataError
from small_network import STEP
from small_run import LAST, dataset, table
from stationpde.data import WindowRequest, read_window
from stationpde.data.history_window import CLOCK_SKEW
from stationpde.errors import StaleDataError

REQUEST = WindowRequest(STEP, 5, now=LAST + 60)
AHEAD = LAST + 40 * STEP


def with_future_row(ahead=AHEAD, stations=(2,)):
    """Return the last steps of the record and one row that some stations date in the future."""
    ds = dataset(slice(-40, None))
    late = ds.isel(time=[-1]).assign_coords(time=np.array([ahead], "datetime64[s]").astype("datetime64[ns]"))
    others = np.setdiff1d(np.arange(ds.sizes["station"]), stations)
    for name in late.data_vars:
        late[name][:, others] = np.nan
    return xr.concat([ds, late], "time")


@pytest.mark.parametrize(
    ("unit", "zone", "is_foreign"),
    [("us", "UTC", False), ("ns", "UTC", False), ("ns", "Europe/Paris", False), ("ns", "Europe/Paris", True)],
)
def test_times_with_a_zone_start_where_times_in_utc_do(unit, zone, is_foreign):
    plain = dataset(slice(-40, None))
    if is_foreign:  # in other units it passes through a file
        plain = plain.assign(t=(plain["t"] - 273.15).assign_attrs(plain["t"].attrs | {"units": "degC"}))
    index = pd.DatetimeIndex(plain["time"].values).as_unit(unit).tz_localize("UTC").tz_convert(zone)
    zoned = plain.assign_coords(time=index)
    expected = read_window(plain, REQUEST)
    window = read_window(zoned, REQUEST)
    assert window.issue_time == expected.issue_time == LAST
    np.testing.assert_array_equal(window.values, expected.values)


@pytest.mark.parametrize("kind", ["dataset", "store", "table"])
def test_a_row_of_the_future_is_not_the_latest_and_is_named(kind, tmp_path, caplog):
    source = with_future_row()
    if kind == "store":
        source = store.write_store(source, tmp_path / "obs.zarr")
    elif kind == "table":
        source = table(slice(-40, None), tmp_path / "obs.csv")
        lines = source.read_text().splitlines()
        cells = lines[-10].split(",")
        cells[1] = "2099-01-01T00:00:00"
        source.write_text("\n".join([*lines, ",".join(cells)]) + "\n")
    with caplog.at_level(logging.WARNING):
        window = read_window(source, WindowRequest(STEP, 5, now=LAST + 60, max_age=3600))
    assert window.issue_time == LAST
    name = dataset()["station"].values[2]
    when = "2099-01-01 00:00:00" if kind == "table" else str(np.datetime64(AHEAD, "s")).replace("T", " ")
    said = [record.getMessage() for record in caplog.records if "in the future" in record.getMessage()]
    assert len(said) == 1 and f"station {name}" in said[0] and when in said[0]


def test_a_row_of_the_future_does_not_hide_that_the_rest_is_old():
    with pytest.raises(StaleDataError):
        read_window(with_future_row(), WindowRequest(STEP, 5, now=LAST + 2 * 3600, max_age=3600))


@pytest.mark.parametrize("kind", ["dataset", "table"])
def test_only_rows_of_the_future_are_nothing_to_start_from(kind, tmp_path):
    source = dataset(slice(-40, None)) if kind == "dataset" else table(slice(-40, None), tmp_path / "obs.csv")
    with pytest.raises(DataError, match="in the future") as caught:
        read_window(source, WindowRequest(STEP, 5, now=LAST - 1000 * STEP))
    assert "--at TIME" in caught.value.do


def test_clocks_may_differ_by_some_minutes():
    for ahead, issue in ((LAST + STEP, LAST + STEP), (LAST + STEP + 60, LAST)):
        ds = with_future_row(ahead=LAST + STEP)
        now = LAST + STEP - CLOCK_SKEW - (ahead - LAST - STEP)
        assert read_window(ds, WindowRequest(STEP, 5, now=now, max_age=2 * STEP)).issue_time == issue


def test_an_archive_is_replayed_from_the_present_that_is_given():
    ds = dataset(slice(-60, None))
    then = LAST - 10 * STEP
    assert read_window(ds, WindowRequest(STEP, 5, now=then, max_age=3600)).issue_time == then


def test_a_time_that_is_asked_for_may_be_any():
    assert read_window(with_future_row(), WindowRequest(STEP, 2, at=AHEAD, now=LAST)).issue_time == AHEAD
