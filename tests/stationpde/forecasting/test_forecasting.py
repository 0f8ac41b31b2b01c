"""A trained run used: forecasts from any observations, at any station, into any file, one run or several."""

import copy
import json
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from fields import store
from fields.errors import DataError
from fields.qc import Flag
from fields.variables import STATE_VARIABLES
from small_network import small_series
from small_run import HOURS, LAST, dataset, table
from stationpde import StationPDE
from stationpde.data import read_window
from stationpde.errors import CorruptArtefactError, StaleDataError, UsageError
from stationpde.forecasting.forecast import ForecastRequest, forecast, request_for
from stationpde.forecasting.watch import changes
from stationpde.runs.loading import LoadedRun, load_run

NAMES = ["u", "v", "p", "t", "rh"]


@pytest.fixture(scope="module")
def model(small_runs):
    return StationPDE.load(small_runs.first)


@pytest.fixture(scope="module")
def latest(model, small_runs):
    return model.forecast(small_runs.store)


def test_a_notebook_user_gets_a_dataset_with_units(latest):
    assert {name: latest[name].attrs["units"] for name in NAMES} == {
        "u": "m s-1", "v": "m s-1", "p": "Pa", "t": "K", "rh": "1",
    }  # fmt: skip
    assert latest["t"].dims == ("time", "station") and latest.sizes == {"time": 2, "station": 12}
    assert latest["lead"].values.tolist() == [HOURS, 2 * HOURS]
    assert all(np.isfinite(latest[name]).all() for name in NAMES)
    assert float(latest["t"].min()) > 200.0 and float(latest["rh"].max()) <= 1.0


def test_the_latest_window_is_where_it_starts_and_another_can_be_asked_for(model, latest, small_runs):
    assert str(latest["issue_time"].values)[:19] == str(np.datetime64(LAST, "s"))
    earlier = model.forecast(small_runs.store, at=np.datetime64(LAST - 10 * 21600, "s"))
    same = model.forecast(dataset(slice(None, -10)))
    xr.testing.assert_allclose(earlier[NAMES].drop_vars("issue_time"), same[NAMES].drop_vars("issue_time"))
    with pytest.raises(DataError, match="no station reports at"):
        model.forecast(small_runs.store, at="2030-01-01T00:00")


def test_a_table_is_forecast_from_as_a_store_is(model, latest, tmp_path):
    from_table = model.forecast(table(slice(-40, None), tmp_path / "obs.csv"))
    # Three decimals in the table: half a thousandth of a kelvin, of a hectopascal and of a per cent.
    for name, room in {"u": 5e-3, "t": 5e-3, "p": 1.0, "rh": 1e-4}.items():
        np.testing.assert_allclose(from_table[name].values, latest[name].values, atol=room)


@pytest.mark.parametrize("altitude", [1e6, -1e6, np.inf])
@pytest.mark.parametrize("of", ["place", "station"])
def test_an_altitude_that_no_place_has_is_named_and_not_forecast_at(model, altitude, of):
    ds, places = dataset(), None
    if of == "place":
        places = pd.DataFrame({"name": ["hill"], "lat": [45.5], "lon": [6.0], "alt": [altitude]})
    else:
        heights = ds["alt"].values.copy()
        heights[3] = altitude
        ds = ds.assign_coords(alt=("station", heights, ds["alt"].attrs))
    with pytest.raises(DataError, match=r"the altitude of station '(hill|S03)' is .* m, allowed are -450") as caught:
        model.forecast(ds, stations=places)
    assert caught.value.code == "SPDE-D015" and "train" not in caught.value.do


def test_new_stations_get_a_forecast_from_the_field_and_leave_the_others_alone(model, small_runs, tmp_path):
    (tmp_path / "new.csv").write_text("name,lat,lon,alt\nhill,48.5,6.1,700\nvalley,47.2,5.5,\n")
    extended = model.forecast(small_runs.store, stations=tmp_path / "new.csv")
    new = extended.sel(station=["hill", "valley"])
    assert new["known"].values.tolist() == [0, 0] and np.isfinite(new["alt"]).all()
    assert all(np.isfinite(new[name]).all() for name in NAMES)
    audit = json.loads(extended.attrs["physics_audit"])
    assert audit["unknown"] == 2 and audit["stations"] == 14
    is_trained = extended["station"].isin(small_series().stations.id)
    xr.testing.assert_allclose(extended.isel(station=is_trained.values)[NAMES], model.forecast(small_runs.store)[NAMES])


def test_stations_that_are_silent_are_still_forecast_and_counted(model):
    partial = model.forecast(dataset().isel(station=slice(6, None)))
    audit = json.loads(partial.attrs["physics_audit"])
    assert partial.attrs["network_present"] == pytest.approx(audit["network_present"]) and audit["present"] <= 6
    assert all(np.isfinite(partial[name]).all() for name in NAMES) and partial["present"].values[:6].sum() == 0


def test_the_audit_tells_courant_number_humidity_and_the_network(latest):
    audit = json.loads(latest.attrs["physics_audit"])
    assert audit["courant"] > 0.0 and audit["courant_limit"] == 1.0
    assert 0.0 <= audit["rh_clipped"] <= 1.0 and audit["rh_low"] <= audit["rh_high"]
    assert audit["q_negative"] == 0.0 and audit["finite"] is True and 0.0 < audit["network_present"] <= 1.0


def test_several_runs_give_their_mean_and_spread(small_runs):
    both = StationPDE.load(small_runs.first, small_runs.second).forecast(small_runs.store)
    one, two = (StationPDE.load(run).forecast(small_runs.store) for run in (small_runs.first, small_runs.second))
    np.testing.assert_allclose(both["t"], (one["t"] + two["t"]) / 2, atol=1e-4)
    # The standard deviation of two numbers is their distance over the square root of two; float32 of 290 K.
    np.testing.assert_allclose(both["t_spread"], np.abs(one["t"] - two["t"]) / 2**0.5, atol=1e-4)
    # Where the guide, the same for both seeds, is all of a variable's forecast, there is no spread; never so for all.
    assert both.attrs["members"] == 2
    assert max(float(both[f"{name}_spread"].max()) for name in ("u", "v", "p", "t", "rh")) > 0.0


@pytest.mark.parametrize("ending", ["zarr", "nc", "parquet", "csv"])
def test_a_forecast_is_written_in_every_format(latest, tmp_path, ending):
    path = StationPDE.write(latest, tmp_path / f"fc.{ending}")
    expected = latest["t"].values
    if ending == "csv":
        frame = pd.read_csv(path)
        assert {"t[degC]", "p[hPa]", "rh[%]", "lead[h]"} <= set(frame.columns), frame.columns
        np.testing.assert_allclose(frame["t[degC]"].to_numpy() + 273.15, expected.ravel(), atol=0.006)
    elif ending == "parquet":
        np.testing.assert_array_equal(pd.read_parquet(path)["t"].to_numpy(), expected.ravel())
    else:
        with store.open_store(path) if ending == "zarr" else xr.open_dataset(path) as written:
            np.testing.assert_array_equal(written["t"].values, expected)
            assert written["t"].attrs["units"] == "K" and "physics_audit" in written.attrs
    with pytest.raises(UsageError, match="exists"):
        StationPDE.write(latest, path)
    StationPDE.write(latest, path, force=True)


def test_an_unknown_ending_says_which_there_are(latest, tmp_path):
    with pytest.raises(UsageError, match="no ending") as refused:
        StationPDE.write(latest, tmp_path / "fc.xlsx")
    assert ".parquet" in refused.value.do


def test_data_that_are_too_old_have_an_error_of_their_own(small_runs):
    runs = (load_run(small_runs.first),)
    assert forecast(runs, small_runs.store, ForecastRequest(max_age=7200, now=LAST + 3600)).sizes["time"] == 2
    with pytest.raises(StaleDataError, match=r"2\.5 h before") as refused:
        forecast(runs, small_runs.store, ForecastRequest(max_age=7200, now=LAST + 9000))
    assert refused.value.exit_code == 75 and refused.value.where == str(small_runs.store)
    with pytest.raises(StaleDataError, match="30 days before"):
        forecast(runs, small_runs.store, ForecastRequest(max_age=7200, now=LAST + 30 * 86400))


def test_a_record_that_is_too_short_says_what_is_needed(model):
    with pytest.raises(DataError, match="needs 5 steps"):
        model.forecast(dataset(slice(-3, None)))


def test_values_that_no_air_has_are_dropped_and_counted(model):
    ds = dataset()
    ds["t"][-1, 3] = 5000.0
    cleaned = model.forecast(ds)
    assert json.loads(cleaned.attrs["physics_audit"])["rejected"] == 1 and np.isfinite(cleaned["t"]).all()
    with pytest.raises(DataError, match="another unit"):
        model.forecast(ds.assign(t=(ds["t"] - 273.15).assign_attrs(ds["t"].attrs)))


def test_fields_of_a_forecast_are_on_the_grid_in_si(model, small_runs):
    grid = model.field(small_runs.store)
    assert grid["theta"].dims == ("time", "lat", "lon") and grid["theta"].attrs["units"] == "K"
    assert np.isfinite(grid["t"]).all() and float(grid["data_weight"].min()) >= 0.0


def test_learned_coefficients_come_with_their_units(model):
    physics = model.physics()
    assert physics["r_m"].unit and physics["gamma_p"].unit == "1" and float(physics["kappa_theta"].value) > 0


def test_a_damaged_checkpoint_is_not_forecast_with(small_runs, tmp_path):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(small_runs.first, run)
    for weights in run.glob("checkpoints/*/model.safetensors"):
        content = bytearray(weights.read_bytes())
        content[len(content) // 2] ^= 1
        weights.write_bytes(content)
    with pytest.raises(CorruptArtefactError):
        StationPDE.load(run)


def test_a_run_that_is_watched_for_tells_each_change_once(tmp_path):
    path = tmp_path / "obs.csv"
    seen, wait = [], threading.Event()

    def grow() -> None:
        for text in ("a", "ab"):
            wait.wait(0.2)
            path.write_text(text)

    writer = threading.Thread(target=grow)
    writer.start()
    for entries in changes(path, 0.02):
        seen.append(entries[0][1])
        if seen[-1] == 2:
            break
    writer.join()
    assert seen in ([1, 2], [2])  # each state once, and never one that still grew


def test_a_history_is_masked_by_the_setting_of_the_run(small_runs):
    flags = np.zeros(dataset()["t"].shape, np.uint8)
    flags[-1, 0], flags[-1, 1] = int(Flag.BUDDY), int(Flag.RANGE)
    flagged = dataset().assign(t_flag=(("time", "station"), flags))
    run = load_run(small_runs.first)
    lenient = with_quality(run, "gross")
    windows = {q: read_window(flagged, request_for((r,), ForecastRequest())) for q, r in
               {"full": run, "gross": lenient}.items()}  # fmt: skip
    missing = {q: np.isnan(window.values[-1, :2, STATE_VARIABLES.index("t")]).tolist() for q, window in windows.items()}
    assert missing == {"full": [True, True], "gross": [False, True]}
    assert forecast((run,), flagged).attrs["quality"] == "values: all quality tests"
    assert forecast((lenient,), flagged).attrs["quality"] == "values: gross errors removed only"
    with pytest.raises(UsageError, match=r"data\.quality"):
        forecast((run, lenient), flagged)


def test_the_synthetic_network_is_forecast_from_by_its_name(small_runs):
    made_up = forecast((load_run(small_runs.first),), "demo")
    assert int(made_up["present"].sum()) > 50 and "SY001" in made_up["station"].values
    assert str(made_up["issue_time"].values)[:10] == "2023-05-29"


def with_quality(run: LoadedRun, quality: str) -> LoadedRun:
    """Return the run as if it had been trained with another setting of quality."""
    model = copy.copy(run.model)
    model.config = run.model.config.with_overrides([f"data.quality={quality}"])
    return replace(run, model=model)


def test_a_forecast_needs_no_gradient_and_changes_no_weight(small_runs):
    run = load_run(small_runs.first)
    before = torch.cat([p.flatten().clone() for p in run.model.parameters()])
    forecast((run,), small_runs.store)
    assert not any(p.requires_grad for p in run.model.parameters())
    assert torch.equal(before, torch.cat([p.flatten() for p in run.model.parameters()]))
