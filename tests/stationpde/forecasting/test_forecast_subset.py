"""Networks that lack variables: trained, forecast, scored, drawn and reported with what they have."""

from __future__ import annotations

import re

import numpy as np
import pytest
import xarray as xr

from extra_records import NAMES, extra_run, extra_series
from fields import store
from fields.errors import DataError
from fields.variables import STATE_VARIABLES, cf_attributes
from pde_ops import Grid2D
from small_network import places, small_config, weather
from small_run import dataset
from stationpde.data import load_series
from stationpde.data.opening import open_observations
from stationpde.errors import UsageError
from stationpde.evaluation.evaluate import EvaluationRequest, evaluate_run
from stationpde.extras.fit import fit_extras
from stationpde.forecasting.forecast import ForecastRequest, forecast
from stationpde.forecasting.output import FORMATS, write_forecast
from stationpde.model.pde_branch import system_of
from stationpde.plots.maps import draw_forecast_map
from stationpde.plots.series import draw_series
from stationpde.report.page import write_page
from stationpde.report.view import build_run_view
from stationpde.runs.loading import load_run
from stationpde.training.estimate import dry_run
from stationpde.training.session import train
from stationpde.uncertainty.calibrate import calibrate_run

QUICK = ("train.max_steps=1", "train.validate_windows=2", "train.batch=2")


def stored(folder, names):
    series = weather(places(8), 260, gaps=0.0)
    values = {n: (("time", "station"), series.values[..., STATE_VARIABLES.index(n)], cf_attributes(n)) for n in names}
    whole = dataset(slice(0, 1))
    coords = {"time": series.time.astype("datetime64[s]").astype("datetime64[ns]"), "station": list(series.stations.id)}
    coords |= {n: ("station", getattr(series.stations, n), whole[n].attrs) for n in ("lat", "lon", "alt")}
    coords["wigos"] = ("station", [f"0-20008-0-{i}" for i in range(8)])
    return store.write_store(xr.Dataset(values, coords), folder / "obs.zarr")


def trained(folder, names):
    obs, config = stored(folder, names), small_config(overrides=QUICK)
    series = load_series(str(obs), config.data, complete=True)
    train(config, series, folder / "run")
    return obs, series, load_run(folder / "run")


def test_a_network_of_temperature_alone_trains_and_forecasts(tmp_path):
    obs, series, run = trained(tmp_path, ("t",))
    assert series.reference == ("u", "v", "p", "rh")
    assert run.model.config.data.scored == ("t",) and set(run.model.config.data.missing) == {"u", "v", "p", "rh"}
    result = forecast([run], str(obs), ForecastRequest(quantiles=()))
    assert [name for name in STATE_VARIABLES if name in result] == ["t"]
    assert np.isfinite(result["t"].values).all() and 230 < float(result["t"].mean()) < 320
    assert result["wigos"].values.tolist() == [f"0-20008-0-{i}" for i in range(8)]
    for ending in FORMATS:
        write_forecast(result, tmp_path / f"forecast{ending}")
    table = (tmp_path / "forecast.csv").read_text()
    assert "t[degC]" in table and "0-20008-0-3" in table
    assert str(xr.open_dataset(tmp_path / "forecast.nc")["wigos"].values[2]) == "0-20008-0-2"


def test_terms_of_the_equations_go_with_the_wind_and_vapour():
    config = small_config().fitted_to(("u", "v", "rh"))
    grid = Grid2D.plane(8, 9, dx=3e4)
    left = system_of(config, grid).term_names
    assert not left & {"advection", "coriolis", "friction", "condensation"} and "laplacian" in left
    assert system_of(small_config(), grid).term_names >= {"coriolis", "friction", "condensation"}


@pytest.mark.slow
def test_a_dry_run_says_what_follows(tmp_path):
    obs, config = stored(tmp_path, ("p", "t", "rh")), small_config(overrides=QUICK)
    series = load_series(str(obs), config.data, complete=True)
    lines = "\n".join(dry_run(config, series).lines())
    assert re.search(r"not observed +u, v \(calm\): not scored, not forecast; not in the equations: advection", lines)


def test_humidity_without_temperature_and_nothing_at_all_are_refused(tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    config = small_config()
    with pytest.raises(DataError, match="humidity without temperature"):
        load_series(str(stored(tmp_path / "a", ("p", "rh"))), config.data, complete=True)
    with pytest.raises(DataError, match="none of u, v, p, t, rh"):
        load_series(str(stored(tmp_path / "b", ("u",))), config.data, complete=True)


def test_a_forecast_still_needs_what_its_run_was_trained_on(tmp_path):
    obs = stored(tmp_path, ("t", "rh"))
    with pytest.raises(DataError, match="u is missing everywhere"), open_observations(str(obs)):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("names", [("u", "v"), ("p", "t", "rh"), ("u", "v", "t", "rh"), ("p",)], ids="".join)
def test_a_subset_goes_through_every_command(names, tmp_path):
    obs, series, run = trained(tmp_path, names)
    calibrate_run(run, series)
    result = forecast([run], str(obs), ForecastRequest(members=3))
    assert {name for name in STATE_VARIABLES if name in result} == set(names)
    assert {f"{name}_quantile" for name in names} <= set(result)
    assert ("ff" in result) == ("u" in names)
    against = ("persistence", "climatology", "ridge", "ridge_nb", "yesterday")
    scores = evaluate_run(run, series, EvaluationRequest(against=against, uncertainty=True, significance=True))
    for entry in scores["scores"].values():
        assert {name for name, value in entry.items() if isinstance(value, dict)} == set(names)
        assert all(np.isfinite(entry[name]["mse"]) for name in names)
    view = build_run_view(run, str(obs), windows=4)
    assert view.moment.names == names
    page = write_page(view, tmp_path / "report.html").read_text()
    assert "0-20008-0-3" in page
    draw_series(view.moment, None, tmp_path / "series.png")
    draw_forecast_map(view.moment, view.relief, tmp_path / "map.png", variable=names[-1])
    absent = next(name for name in STATE_VARIABLES if name not in names)
    with pytest.raises(UsageError, match=f"no variable '{absent}'"):
        draw_forecast_map(view.moment, view.relief, tmp_path / "none.png", variable=absent)


@pytest.mark.slow
def test_extra_variables_are_in_the_forecast_and_need_not_be_in_its_observations(tmp_path):
    series = extra_series()
    run = extra_run(tmp_path / "run", series)
    fit_extras(run, series)
    values = {n: (("time", "station"), series.values[..., c], cf_attributes(n)) for c, n in enumerate(STATE_VARIABLES)}
    more = {n: (("time", "station"), series.extras.values[..., c], cf_attributes(n)) for c, n in enumerate(NAMES)}
    coords = {"time": series.time.astype("datetime64[s]").astype("datetime64[ns]"), "station": list(series.stations.id)}
    coords |= {n: ("station", getattr(series.stations, n)) for n in ("lat", "lon", "alt")}
    results = [forecast([run], xr.Dataset({**values, **extra}, coords)) for extra in (more, {})]
    for result in results:
        assert set(NAMES) <= set(result) and {"gust_quantile", "precip_quantile"} <= set(result)
        assert (result["precip"].values >= 0).all() and (result["precip_quantile"].values >= 0).all()
        assert result["radiation"].attrs["units"] == "W m-2"
    assert not np.array_equal(results[0]["gust"].values, results[1]["gust"].values)
    write_forecast(results[0], tmp_path / "forecast.csv")
    heading = (tmp_path / "forecast.csv").read_text().partition("\n")[0]
    assert "gust[m/s]" in heading and "radiation[W/m2]" in heading and "precip_q0.9[mm]" in heading
