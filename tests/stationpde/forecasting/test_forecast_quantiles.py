"""Forecasts of a calibrated run: quantiles and probabilities in every file, wider where no station stands."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fields import store
from fields.errors import DataError
from small_network import small_config, small_series
from small_run import dataset
from stationpde import StationPDE
from stationpde.data import WindowSource
from stationpde.errors import CorruptArtefactError, UsageError
from stationpde.evaluation import EvaluationRequest, evaluate_run
from stationpde.forecasting.uncertain import DEFAULT_LEVELS
from stationpde.runs.loading import load_run
from stationpde.runs.run_directory import RunDirectory
from stationpde.runs.run_summary import inspect
from stationpde.training.session import train
from stationpde.uncertainty import copula
from stationpde.uncertainty.calibrate import calibrate_run
from stationpde.uncertainty.calibration import CALIBRATION, calibration_of

NAMES = ("u", "v", "p", "t", "rh", "ff")
PLACES = pd.DataFrame({"name": ["hill"], "lat": [48.0], "lon": [6.0], "alt": [1400.0]})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run whose validation has nine days, calibrated."""
    folder = tmp_path_factory.mktemp("calibrated") / "run"
    keys = ("train.max_steps=2", "train.validate_windows=2", "train.batch=2", "data.split=[0.5, 0.3, 0.2]")
    train(small_config("default", keys), small_series(), folder)
    calibrate_run(load_run(folder), small_series())
    return folder


@pytest.fixture(scope="module")
def forecast(run):
    return StationPDE.load(run).forecast(dataset(), stations=PLACES, exceed="wind_speed > 5 m/s", members=8)


def test_quantiles_and_the_speed_of_the_wind_come_with_units_and_names(forecast):
    assert forecast["quantile"].values.tolist() == list(DEFAULT_LEVELS)
    assert forecast["quantile"].attrs["units"] == "1"
    for name in NAMES:
        values = forecast[f"{name}_quantile"]
        assert values.dims == ("quantile", "time", "station")
        assert values.attrs["standard_name"] == forecast[name].attrs["standard_name"]
        assert values.attrs["units"] == forecast[name].attrs["units"]
        assert np.isfinite(values).all() and (values.diff("quantile") >= 0).all()
    assert forecast["ff"].attrs["standard_name"] == "wind_speed"
    np.testing.assert_array_equal(forecast["ff"], forecast["ff_quantile"].sel(quantile=0.5))
    assert float(forecast["rh_quantile"].max()) <= 1.0 and float(forecast["ff_quantile"].min()) >= 0.0


def test_the_best_estimate_stays_as_it_was(run, forecast):
    plain = StationPDE.load(run).forecast(dataset(), stations=PLACES, quantiles=())
    assert "quantile" not in plain.coords and "ff" not in plain
    for name in NAMES[:5]:
        np.testing.assert_array_equal(plain[name], forecast[name])


def test_a_shorter_forecast_has_the_first_steps_of_a_longer_one(run, forecast):
    short = StationPDE.load(run).forecast(dataset(), stations=PLACES, horizon=1, exceed="wind_speed > 5 m/s", members=8)
    for name in ("t_quantile", "ff_quantile", "ff_above_5_m_s", "ff"):
        np.testing.assert_allclose(short[name], forecast[name].isel(time=[0]), rtol=1e-5)
    assert short["t_member"].sizes["time"] == 1


def test_quantiles_end_where_the_calibration_does(run, forecast):
    steps = forecast.sizes["time"]
    long = StationPDE.load(run).forecast(
        dataset(), stations=PLACES, horizon=steps + 2, accept=("beyond-horizon",), members=8, exceed="ff > 5 m/s"
    )
    for name in ("t_quantile", "ff_above_5_m_s", "t_member", "ff"):
        np.testing.assert_array_equal(long[name].isel(time=slice(0, steps)), forecast[name])
        assert np.isnan(long[name].isel(time=slice(steps, None))).all()
    assert np.isfinite(long["t"]).all()
    assert any(f"end {steps} steps ahead" in sentence for sentence in long.attrs["warnings"])


def test_a_threshold_beyond_what_a_variable_may_be_is_certain(forecast):
    never = ("ff < 0 m/s", "rh > 100 %", "rh > 101 %", "p < 0 hPa")
    always = ("ff >= 0 m/s", "rh <= 100 %", "ff > -1 kt")
    for text, expected in [(text, 0.0) for text in never] + [(text, 1.0) for text in always]:
        np.testing.assert_array_equal(forecast.exceedance(text), expected, err_msg=text)


def test_chosen_levels_are_those_of_the_forecast(run, forecast):
    two = StationPDE.load(run).forecast(dataset(), stations=PLACES, quantiles=[0.9, 0.1])
    assert two["quantile"].values.tolist() == [0.1, 0.9]
    np.testing.assert_array_equal(two["t_quantile"], forecast["t_quantile"].sel(quantile=[0.1, 0.9]))


def test_a_probability_agrees_with_the_quantiles(forecast):
    limit = float(forecast["t_quantile"].sel(quantile=0.9)[0, 0])
    chance = forecast.exceedance(f"t > {limit} K")
    assert float(chance[0, 0]) == pytest.approx(0.1, abs=1e-3)
    below = forecast.exceedance(f"t < {limit} K")
    np.testing.assert_allclose(chance + below, 1.0, atol=1e-6)
    np.testing.assert_array_equal(forecast["ff_above_5_m_s"], forecast.exceedance("wind_speed > 5 m/s"))


def test_scenarios_have_the_quantiles_of_every_margin_and_repeat(run, forecast):
    levels = [(i + 0.5) / 8 for i in range(8)]
    again = StationPDE.load(run).forecast(dataset(), stations=PLACES, quantiles=levels, members=8)
    for name in NAMES:
        values = forecast[f"{name}_member"]
        assert values.dims == ("member", "time", "station")
        np.testing.assert_allclose(np.sort(values, axis=0), again[f"{name}_quantile"], rtol=1e-5)
        np.testing.assert_array_equal(values, again[f"{name}_member"])
    assert forecast["member"].attrs["standard_name"] == "realization"


@pytest.mark.parametrize("count", [1, -3, 10**6, 2.5, True])
def test_a_number_of_scenarios_that_is_none_is_refused(run, count):
    with pytest.raises(UsageError, match="scenarios are 2 to") as problem:
        StationPDE.load(run).forecast(dataset(), members=count)
    assert problem.value.code == "SPDE-Q014"


def test_every_file_holds_quantiles_and_probabilities(forecast, tmp_path):
    StationPDE.write(forecast, tmp_path / "fc.nc")
    StationPDE.write(forecast, tmp_path / "fc.zarr")
    StationPDE.write(forecast, tmp_path / "fc.parquet")
    StationPDE.write(forecast, tmp_path / "fc.csv")
    with xr.open_dataset(tmp_path / "fc.nc") as netcdf:
        np.testing.assert_array_equal(netcdf["ff_quantile"], forecast["ff_quantile"])
        assert float(abs(netcdf.exceedance("ff > 5 m/s") - forecast["ff_above_5_m_s"]).max()) < 0.1
    np.testing.assert_array_equal(store.open_store(tmp_path / "fc.zarr")["t_quantile"], forecast["t_quantile"])
    wide, text = pd.read_parquet(tmp_path / "fc.parquet"), pd.read_csv(tmp_path / "fc.csv")
    expected = forecast["t_quantile"].sel(quantile=0.05).values.ravel()
    np.testing.assert_array_equal(wide["t_q0.05"], expected)
    np.testing.assert_allclose(text["t_q0.05[degC]"], expected - 273.15, atol=0.006)
    np.testing.assert_array_equal(wide["p_m8"], forecast["p_member"].sel(member=8).values.ravel())
    assert {"ff[m/s]", "t_m1[degC]", "rh_q0.95[%]", "ff_above_5_m_s"} <= set(text.columns)


def test_a_fan_chart_is_drawn_and_packed_for_the_report(run, tmp_path):
    from stationpde.forecasting.moment import BAND_LEVELS, moment_of
    from stationpde.plots.series import draw_series
    from stationpde.report.content import _series

    loaded = load_run(run)
    moment = moment_of(loaded.model, small_series(), 100, calibration=calibration_of(loaded))
    assert set(moment.bands) == set(NAMES)
    for name in NAMES:
        assert moment.bands[name].shape == (2, 12, len(BAND_LEVELS)) and (np.diff(moment.bands[name]) >= 0).all()
    with_fan, without = (
        draw_series(one, None, tmp_path / f"{n}.png").read_bytes()
        for n, one in enumerate((moment, replace(moment, bands={})))
    )
    assert with_fan != without
    assert all(len(ends) == len(BAND_LEVELS) for ends in _series(moment)["bands"].values())
    assert all(ends == [] for ends in _series(replace(moment, bands={}))["bands"].values())


def test_a_run_that_is_not_calibrated_names_the_command(small_runs):
    model = StationPDE.load(small_runs.first)
    assert "quantile" not in model.forecast(dataset()).coords
    for wish in ({"quantiles": (0.5,)}, {"exceed": ("t < 0 degC",)}):
        with pytest.raises(UsageError, match="not calibrated") as problem:
            model.forecast(dataset(), **wish)
        assert problem.value.do.startswith(f"stationpde calibrate {small_runs.first}")
    with pytest.raises(UsageError, match="no distribution"):
        model.forecast(dataset()).exceedance("t < 0 degC")


def test_a_record_that_is_too_short_is_refused_and_leaves_nothing(small_runs):
    with pytest.raises(DataError, match="a calibration needs 5"):
        calibrate_run(load_run(small_runs.first), small_series())
    assert not (small_runs.first / CALIBRATION).exists()


def test_a_calibration_repeats_to_the_bit_and_is_part_of_what_is_verified(run, tmp_path):
    before = (run / CALIBRATION).read_bytes()
    calibrate_run(load_run(run), small_series())
    assert (run / CALIBRATION).read_bytes() == before
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / CALIBRATION).write_bytes(before.replace(b"0.9", b"0.8", 1))
    assert not inspect(RunDirectory(copy))["ok"]
    with pytest.raises(CorruptArtefactError) as problem:
        StationPDE.load(copy).forecast(dataset())
    assert "stationpde calibrate" in problem.value.do


def test_a_calibration_of_another_run_is_refused_and_that_of_another_checkpoint_does_not_count(run, tmp_path):
    from stationpde.runs.sealed import read_sealed, write_sealed

    copy = shutil.copytree(run, tmp_path / "copy")
    content = read_sealed(copy / CALIBRATION)
    write_sealed(copy / CALIBRATION, {**content, "facts": {**content["facts"], "checkpoint": "step-999"}})
    with pytest.raises(UsageError, match="not calibrated"):
        StationPDE.load(copy).forecast(dataset(), quantiles=(0.5,))
    write_sealed(copy / CALIBRATION, {**content, "facts": {**content["facts"], "seed": 77}})
    with pytest.raises(CorruptArtefactError, match="another run"):
        StationPDE.load(copy).forecast(dataset())
    assert "another run" in inspect(RunDirectory(copy))["files"][CALIBRATION]
    broken = json.loads(json.dumps(content))
    broken["marginals"][0]["table"][0][0][5] = 99.0
    write_sealed(copy / CALIBRATION, broken)
    with pytest.raises(CorruptArtefactError, match="do not increase"):
        StationPDE.load(copy).forecast(dataset())


def test_a_folder_in_place_of_the_calibration_is_to_be_moved_before_anything_is_computed(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / CALIBRATION).unlink()
    (copy / CALIBRATION).mkdir()
    with pytest.raises(CorruptArtefactError, match="no regular file") as problem:
        StationPDE.load(copy).forecast(dataset())
    assert problem.value.do.startswith(f"move {copy / CALIBRATION} away, then stationpde calibrate")
    seen = []
    with pytest.raises(UsageError, match="no regular file"):
        calibrate_run(load_run(copy), small_series(), seen.append)
    assert not seen


def test_coverage_at_times_that_the_calibration_has_seen_is_no_test(run, tmp_path):
    from stationpde.runs.sealed import read_sealed, write_sealed

    series, request = small_series(), EvaluationRequest(against=(), windows=4, uncertainty=True)
    facts = calibration_of(load_run(run)).facts
    source = WindowSource.of(series, load_run(run).model.config)
    length = source.windows.spec.length
    assert facts["fitted_from"] == series.time[source.windows["val"][0] + source.windows.spec.history]
    assert facts["fitted_until"] == series.time[source.windows["val"][-1] + length - 1]
    assert evaluate_run(load_run(run), series, request)["uncertainty"]
    copy = shutil.copytree(run, tmp_path / "copy")  # as after `calibrate` on a record that goes on after training
    content = read_sealed(copy / CALIBRATION)
    later = {**facts, "fitted_from": int(facts["fitted_until"]) + 1, "fitted_until": int(series.time[-1])}
    write_sealed(copy / CALIBRATION, {**content, "facts": later})
    with pytest.raises(DataError, match="4 of 4 test windows lie in times that the run was calibrated on") as refused:
        evaluate_run(load_run(copy), series, request)
    assert refused.value.code == "SPDE-T121" and "--accept seen-times" in refused.value.do


def test_scenarios_that_memory_cannot_hold_are_refused_with_what_it_can(run, forecast, monkeypatch):
    monkeypatch.setattr(copula, "_MOST_VALUES", 5 * forecast.sizes["time"] * forecast.sizes["station"] * 3)
    model = StationPDE.load(run)
    with pytest.raises(UsageError, match="8 scenarios of 13 stations") as problem:
        model.forecast(dataset(), stations=PLACES, members=8)
    assert problem.value.code == "SPDE-Q014" and problem.value.do == "--members 3"
    monkeypatch.setattr(copula, "_MOST_PLACES", 4)
    with pytest.raises(UsageError, match="correlation of each with each"):
        model.forecast(dataset(), members=2)


def test_runs_together_have_the_mean_of_their_quantiles(run, forecast, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    both = StationPDE.load(run, other).forecast(dataset(), stations=PLACES)
    np.testing.assert_allclose(both["t_quantile"], forecast["t_quantile"], rtol=1e-6)
    assert "t_spread" in both


def test_a_file_whose_quantiles_were_changed_is_read_as_it_is_or_refused(forecast):
    plain = forecast.copy()  # as from a file: without the whole distributions
    expected = plain.exceedance("t > 5 degC")
    celsius = plain.assign(t_quantile=(plain["t_quantile"] - 273.15).assign_attrs(units="degC"))
    np.testing.assert_allclose(celsius.exceedance("t > 5 degC"), expected, atol=1e-4)
    knots = plain.assign(ff_quantile=(plain["ff_quantile"] / 0.514444).assign_attrs(units="kt"))
    np.testing.assert_allclose(knots.exceedance("ff > 5 m/s"), plain.exceedance("ff > 5 m/s"), atol=1e-3)
    shuffled = plain.isel(quantile=[3, 1, 2, 0, 6, 5, 4])
    np.testing.assert_array_equal(shuffled.exceedance("t > 5 degC"), expected)
    gone = plain.where(plain["station"] != plain["station"][0]).exceedance("t > 5 degC")
    assert np.isnan(gone[:, 0]).all() and np.isfinite(gone[:, 1:]).all()
    for changed in (
        plain.isel(quantile=3), plain.isel(station=0), plain.mean("time"), plain.rename(station="site"),
        plain.assign_coords(quantile=plain["quantile"] * 100), plain.isel(quantile=[1, 1]),
        plain.assign(t_quantile=plain["t_quantile"].drop_attrs()),
    ):  # fmt: skip
        with pytest.raises(UsageError) as problem:
            changed.exceedance("t > 5 degC")
        assert problem.value.code == "SPDE-Q013" and problem.value.do


def test_a_forecast_in_other_units_is_not_written_under_the_heading_of_ours(forecast, tmp_path):
    for name in ("u", "u_quantile"):
        changed = forecast.assign({name: (forecast[name] * 3.6).assign_attrs(units="km/h")})
        with pytest.raises(UsageError, match=r"is in \[km/h\], a forecast has it in \[m s-1\]"):
            StationPDE.write(changed, tmp_path / "fc.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wish", [{"quantiles": 0.0}, {"quantiles": "0.1,0.5"}, {"exceed": 5}])
def test_one_value_in_place_of_several_ends_in_a_typed_error(run, wish):
    with pytest.raises(UsageError):
        StationPDE.load(run).forecast(dataset(), **wish)


def test_one_level_is_a_list_of_one(run):
    assert StationPDE.load(run).forecast(dataset(), quantiles=0.5, exceed=None)["quantile"].values.tolist() == [0.5]
