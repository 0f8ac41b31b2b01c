"""Gates of a forecast: foreign networks, thin histories and far places are refused, and insisted on by name."""

import copy
import json
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from cli._console import Globals, console
from cli.main import app
from fields import store
from fields.errors import DataError
from fields.ingest import IngestOptions
from fields.readers import ReadOptions
from fields.variables import STATE_VARIABLES
from fields.windows import Split, Stations
from small_network import places, small_config, small_series, weather
from small_run import dataset, table
from stationpde import StationPDE
from stationpde.errors import UsageError
from stationpde.evaluation import EvaluationRequest, evaluate_run
from stationpde.forecasting import ForecastRequest, forecast, watch
from stationpde.forecasting.acceptance import ACCEPTABLE, accepted_names
from stationpde.forecasting.gates import LEAST_HISTORY, Gates, check_clamped
from stationpde.model import StateStatistics, StationPDEModel
from stationpde.report import build_run_view
from stationpde.runs.loading import LoadedRun, load_run

NAMES = list(STATE_VARIABLES)


@pytest.fixture(scope="module")
def model(small_runs):
    return StationPDE.load(small_runs.first)


@pytest.fixture(scope="module")
def plain(model):
    return model.forecast(dataset())


def placed(ds: xr.Dataset, **columns) -> xr.Dataset:
    """Return the dataset with other latitudes, longitudes or altitudes."""
    return ds.assign_coords({name: ("station", np.asarray(v, float), ds[name].attrs) for name, v in columns.items()})


def changed(ds: xr.Dataset, name: str, station: int, value: float) -> xr.Dataset:
    """Return the dataset with one coordinate of one station changed."""
    column = ds[name].values.copy()
    column[station] = value
    return placed(ds, **{name: column})


def silenced(rows: slice, stations: slice = slice(None), names: list[str] = NAMES) -> xr.Dataset:
    """Return the observations without some of their values."""
    ds = dataset().copy(deep=True)
    for name in names:
        ds[name][rows, stations] = np.nan
    return ds


def foreign() -> xr.Dataset:
    """Return the same weather at stations of other names on the other side of the globe."""
    ds = dataset()
    return placed(ds, lat=-ds["lat"].values, lon=ds["lon"].values + 140).assign_coords(
        station=[f"F{i:02d}" for i in range(ds.sizes["station"])]
    )


def warnings_of(ds: xr.Dataset) -> str:
    return " | ".join(ds.attrs.get("warnings", []))


def refusal(call, *codes: str) -> DataError:
    """Return the error of a call that is refused for exactly these reasons."""
    with pytest.raises(DataError) as refused:
        call()
    seen = {problem.code for problem in refused.value.problems} or {refused.value.code}
    assert seen == set(codes), refused.value
    return refused.value


# ---- the network -------------------------------------------------------------------------------------------------


def test_a_foreign_network_is_refused_with_its_figures(model):
    problem = refusal(lambda: model.forecast(foreign()), "SPDE-T113")
    assert "0 of 12 stations" in problem.message and "12 stations are among them" in problem.message
    assert " km away" in problem.where and "--accept foreign-network" in problem.do and problem.exit_code == 3


def test_a_foreign_network_can_be_insisted_on_by_its_name_and_the_file_says_so(model):
    insisted = model.forecast(foreign(), accept="foreign-network")
    assert insisted.attrs["accepted"] == ["foreign-network"] and "0 of 12 stations" in warnings_of(insisted)
    assert all(np.isfinite(insisted[name]).all() for name in NAMES)


def test_the_field_of_a_foreign_network_is_refused_as_well(model):
    refusal(lambda: model.field(foreign()), "SPDE-T113")
    assert model.field(foreign(), accept=["foreign-network"]).attrs["accepted"] == ["foreign-network"]


def test_new_stations_in_the_trained_region_are_forecast_with_a_warning(model):
    renamed = model.forecast(dataset().assign_coords(station=[f"N{i}" for i in range(12)]))
    assert "no station that the run was trained on reports" in warnings_of(renamed)
    assert "accepted" not in renamed.attrs and np.isfinite(renamed["t"]).all()


@pytest.mark.parametrize("shift", [{"lat": -40.0}, {"lon": 40.0}, {"lat": 1.0}])
def test_a_network_that_moved_as_a_whole_is_refused_with_a_station_and_both_places(model, shift):
    ds = dataset()
    moved = placed(ds, **{name: ds[name].values + by for name, by in shift.items()})
    problem = refusal(lambda: model.forecast(moved), "SPDE-T112")
    assert "12 of 12 stations" in problem.message and "station S" in problem.where and "trained at" in problem.where


def test_one_station_with_exchanged_coordinates_is_named_and_the_others_are_forecast_as_before(model, plain):
    ds = dataset()
    lat, lon = float(ds["lat"][3]), float(ds["lon"][3])
    odd = model.forecast(changed(changed(ds, "lat", 3, lon), "lon", 3, lat))
    assert f"station S03 stands at {lon:.2f}, {lat:.2f}, trained at {lat:.2f}, {lon:.2f}" in warnings_of(odd)
    assert int(odd["inside"].sel(station="S03")) == 0


def test_names_that_changed_places_are_refused(model):
    ds = dataset()
    refusal(lambda: model.forecast(ds.assign_coords(station=ds["station"].values[::-1])), "SPDE-T112")


# ---- altitudes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("altitude", [np.nan, 9999.0, -999.0, np.inf, "300 m higher"])
def test_a_trained_station_keeps_its_altitude_where_the_new_one_is_missing_or_impossible(model, plain, altitude):
    trained = float(dataset()["alt"][3])
    given = trained + 301.0 if isinstance(altitude, str) else altitude
    mended = model.forecast(changed(dataset(), "alt", 3, given))
    xr.testing.assert_identical(mended[NAMES].drop_attrs(), plain[NAMES].drop_attrs())
    assert "S03" in warnings_of(mended) and float(mended["alt"].sel(station="S03")) == trained


def test_a_trained_station_without_a_position_keeps_that_of_training(model, plain):
    mended = model.forecast(changed(changed(dataset(), "lat", 3, np.nan), "lon", 3, np.nan))
    xr.testing.assert_identical(mended[NAMES].drop_attrs(), plain[NAMES].drop_attrs())


def test_a_table_without_the_altitude_of_a_trained_station_is_forecast_from(model, plain, tmp_path):
    path = table(slice(-40, None), tmp_path / "obs.csv")
    lines = path.read_text().splitlines()
    cut = [",".join([*cells[:4], "", *cells[5:]]) if (cells := line.split(","))[0] == "S03" else line for line in lines]
    (tmp_path / "cut.csv").write_text("\n".join(cut) + "\n")
    mended = model.forecast(tmp_path / "cut.csv")
    np.testing.assert_allclose(mended["t"], plain["t"], atol=5e-3)  # three decimals in the table
    assert "no alt is given for S03" in warnings_of(mended)


def test_altitudes_in_another_unit_are_refused(model):
    ds = placed(dataset(), alt=dataset()["alt"].values / 0.3048)
    problem = refusal(lambda: model.forecast(ds), "SPDE-T112")
    assert "another altitude" in problem.message


# ---- cadence and history -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [4, 5, 10])
def test_observations_that_miss_the_steps_of_the_model_are_refused(model, hours):
    ds = dataset()
    start = ds["time"].values[0]
    ds = ds.assign_coords(time=start + np.arange(ds.sizes["time"]) * np.timedelta64(hours, "h"))
    with pytest.raises(DataError, match=f"report every {hours}h, the run was trained on steps of 6h") as refused:
        model.forecast(ds)
    assert refused.value.code == "SPDE-T114"


def test_a_history_of_one_moment_is_refused_or_accepted_by_name(model):
    only_last = silenced(slice(None, -1))
    problem = refusal(lambda: model.forecast(only_last), "SPDE-T115")
    assert "only 20% of the history" in problem.message and "5 moments of 6h" in problem.where
    insisted = model.forecast(only_last, accept=("thin-history",))
    audit = json.loads(insisted.attrs["physics_audit"])
    assert insisted.attrs["history_present"] == pytest.approx(0.2) == audit["history_present"]
    assert audit["history_values"] < 0.21 and insisted.attrs["accepted"] == ["thin-history"]


def test_the_history_of_a_sound_record_is_counted(plain):
    audit = json.loads(plain.attrs["physics_audit"])
    assert LEAST_HISTORY < plain.attrs["history_present"] <= 1.0 and audit["moments"] == 5
    seen = np.isfinite(small_series().values[-5:]).mean()
    assert audit["history_values"] == pytest.approx(seen)


@pytest.mark.parametrize("rows", [slice(None), slice(-4, None)], ids=["always", "since the second moment"])
def test_a_network_of_which_most_stations_drop_out_is_forecast_with_a_warning(model, rows):
    """FAULTS: half, or four fifths, of the stations drop out; those that are left have a whole history."""
    partial = model.forecast(silenced(rows, slice(3, None)))
    assert "only 25% of the stations that the run was trained on report" in warnings_of(partial)
    assert "accepted" not in partial.attrs and partial.attrs["history_present"] > 0.9


@pytest.mark.parametrize("name", ["p", "t"])
def test_a_variable_that_nobody_observes_is_refused(model, name):
    problem = refusal(lambda: model.forecast(silenced(slice(None), names=[name])), "SPDE-T115")
    assert f"no value at all of {name}" in problem.message


def test_all_reasons_are_told_at_once(model):
    ds = foreign().isel(time=slice(-4, None, 3))
    longer = xr.concat([foreign().isel(time=slice(None, 1)), ds], "time")
    refusal(lambda: model.forecast(longer), "SPDE-T113", "SPDE-T115")


# ---- values and the forecast itself ------------------------------------------------------------------------------


def test_pressure_of_another_kind_is_refused_at_trained_stations(model):
    ds = dataset()
    reduced = ds["p"] * np.exp(9.80665 * ds["alt"] / (287.05 * 284.0)) * (1.0 - 0.12)
    problem = refusal(lambda: model.forecast(ds.assign(p=reduced.assign_attrs(ds["p"].attrs))), "SPDE-T116")
    assert "standard deviations" in problem.where and problem.message.startswith("p ")


def test_a_forecast_that_is_clamped_in_large_part_is_refused(small_runs):
    run = load_run(small_runs.first)
    broken = copy.deepcopy(run.model)
    with torch.no_grad():
        broken.anchor.now.fill_(1e4)
        broken.guide.share.zero_()
    problem = refusal(lambda: forecast((replace(run, model=broken),), small_runs.store), "SPDE-T118")
    assert "outside what air has" in problem.message and "allowed 5%" in problem.where


def test_the_share_of_clamped_values_has_a_threshold():
    gates = Gates()
    check_clamped(gates, 0.05)
    gates.close()
    check_clamped(gates, 0.78)
    with pytest.raises(DataError, match="78% of the forecast"):
        gates.close()


# ---- horizon and places ------------------------------------------------------------------------------------------


def test_a_horizon_beyond_training_is_refused_or_accepted_and_leaves_the_first_steps_alone(model, plain):
    with pytest.raises(UsageError, match="3 steps ahead were requested, the run was trained for 2") as refused:
        model.forecast(dataset(), horizon=3)
    assert refused.value.code == "SPDE-T111" and "--accept beyond-horizon" in refused.value.do
    longer = model.forecast(dataset(), horizon=3, accept=["beyond-horizon"])
    assert "values may jump" in warnings_of(longer) and longer.sizes["time"] == 3
    for name in NAMES:
        np.testing.assert_array_equal(longer[name].values[:2], plain[name].values)
    assert model.forecast(dataset(), horizon=1).sizes["time"] == 1
    with pytest.raises(UsageError, match="at least, not 0"):
        model.forecast(dataset(), horizon=0)
    with pytest.raises(UsageError, match="100,000 steps ahead were requested, a forecast has 4,096 at most"):
        model.forecast(dataset(), horizon=100_000, accept=["beyond-horizon"])


def test_places_far_outside_or_at_no_altitude_are_refused(model):
    def at(lat, lon, alt):
        return pd.DataFrame({"name": ["x"], "lat": [lat], "lon": [lon], "alt": [alt]})

    problem = refusal(lambda: model.forecast(dataset(), stations=at(20.0, 5.0, 100.0)), "SPDE-T117")
    assert "place 'x' at 20.00, 5.00" in problem.message and "--accept far-places" in problem.do
    assert model.forecast(dataset(), stations=at(20.0, 5.0, 100.0), accept="far-places").attrs["accepted"]
    with pytest.raises(DataError, match=r"altitude 1e\+06 m"):
        model.forecast(dataset(), stations=at(48.0, 5.0, 1e6), accept=ACCEPTABLE)
    near = model.forecast(dataset(), stations=at(51.5, 5.0, 100.0))
    assert "outside the trained region: it gets the value of the border" in warnings_of(near)
    assert "the trained stations at" in warnings_of(model.forecast(dataset(), stations=at(48.0, 5.0, 8000.0)))


def test_requested_places_are_marked(model):
    extended = model.forecast(dataset(), stations=pd.DataFrame({"name": ["x"], "lat": [48.0], "lon": [5.0]}))
    assert extended["requested"].values.tolist() == [0] * 12 + [1]


# ---- several runs, watching, names -------------------------------------------------------------------------------


def elsewhere(run: LoadedRun) -> LoadedRun:
    """Return an untrained run of the same kind for a network 30 degrees further south."""
    home = places()
    away = Stations(home.id, home.lat - 30.0, home.lon, home.alt)
    series, config = weather(away), small_config()
    statistics = StateStatistics.of(series, Split.of(len(series)), config)
    return replace(run, model=StationPDEModel.build(config, statistics).eval(), path=Path("away"))


def test_an_ensemble_of_runs_from_two_networks_is_refused_with_the_run_s_name(small_runs):
    run = load_run(small_runs.first)
    problem = refusal(lambda: forecast((run, elsewhere(run)), small_runs.store), "SPDE-T112")
    assert "away" in problem.where


def test_runs_with_other_substitutes_make_no_ensemble(small_runs):
    run = load_run(small_runs.first)
    other = copy.copy(run.model)
    other.config = run.model.config.with_overrides(
        ['data.missing={p="standard-atmosphere"}', 'data.scored=["u", "v", "t", "rh"]']
    )
    with pytest.raises(UsageError, match=r"data\.missing: none; p=standard-atmosphere"):
        forecast((run, replace(run, model=other)), small_runs.store)


def test_one_run_given_twice_makes_no_ensemble(small_runs):
    run = load_run(small_runs.first)
    with pytest.raises(UsageError, match="is given twice: an ensemble of one run has no spread"):
        forecast((run, load_run(small_runs.first)), small_runs.store)


def test_options_for_raw_files_are_refused_where_a_store_is_read(small_runs):
    run = load_run(small_runs.first)
    for read in (ReadOptions(units={"p": "hPa"}), ReadOptions(zone="UTC+8")):
        with pytest.raises(UsageError, match="is a store, in SI and UTC") as caught:
            forecast((run,), small_runs.store, ForecastRequest(options=IngestOptions(read=read)))
        assert caught.value.code == "SPDE-D158"


def test_an_issue_time_between_the_steps_of_training_is_told(small_runs):
    run, observed = load_run(small_runs.first), dataset()
    step = run.model.config.data.step_seconds
    assert not forecast((run,), observed).attrs.get("warnings")
    later = observed.assign_coords(time=observed["time"] + np.timedelta64(step // 3, "s"))
    warnings = forecast((run,), later).attrs["warnings"]
    assert any("knows no climatology of" in sentence and "earlier, throughout" in sentence for sentence in warnings)


def test_flags_that_became_floats_in_a_notebook_still_count(small_runs):
    run, record = load_run(small_runs.first), store.open_store(small_runs.store).load()
    flagged = record.assign(t_flag=(record["t"].dims, np.zeros(record["t"].shape, np.uint8)))
    whole = forecast((run,), flagged)
    selected = flagged.where(flagged["time"] <= flagged["time"][-1])  # flags are float64 now
    assert selected["t_flag"].dtype.kind == "f"
    np.testing.assert_array_equal(forecast((run,), selected)["t"], whole["t"])


def test_a_watched_file_of_a_foreign_network_is_told_and_waited_out(small_runs, monkeypatch):
    monkeypatch.setattr(watch, "changes", lambda path, seconds: repeat(None))
    run, notes, sources = load_run(small_runs.first), [], [foreign(), dataset()]
    made = watch.forecast_on_change(
        lambda: forecast((run,), sources.pop(0)), Path("obs"), 1.0, count=1, note=notes.append
    )
    assert len(list(made)) == 1 and len(notes) == 1 and notes[0].startswith("SPDE-T113")


def test_an_unknown_name_is_refused_with_the_nearest(model):
    with pytest.raises(UsageError, match="did you mean --accept foreign-network") as refused:
        model.forecast(dataset(), accept=["foreign_network"])
    assert refused.value.code == "SPDE-T110"
    for word in ("force", 3, ["thin-history", ""]):
        with pytest.raises(UsageError):
            accepted_names(word)
    assert accepted_names(None) == frozenset() and accepted_names("thin-history") == {"thin-history"}


def test_the_request_of_before_still_forecasts(small_runs, plain):
    again = forecast((load_run(small_runs.first),), dataset(), ForecastRequest())
    xr.testing.assert_identical(again[NAMES].drop_attrs(), plain[NAMES].drop_attrs())


# ---- records: evaluation, report, command ------------------------------------------------------------------------


def test_an_evaluation_on_a_foreign_record_is_refused(small_runs):
    run, series = load_run(small_runs.first), small_series()
    home = series.stations
    away = Stations(tuple(f"F{i}" for i in range(12)), home.lat - 60.0, home.lon, home.alt)
    other = replace(series, stations=away, fingerprint="")
    request = EvaluationRequest(windows=2)
    refusal(lambda: evaluate_run(run, other, request), "SPDE-T113")
    insisted = evaluate_run(run, other, replace(request, accept=("foreign-network",)))
    assert insisted["accepted"] == ["foreign-network"] and "0 of 12 stations" in insisted["warnings"][0]


def test_an_evaluation_finds_each_station_by_its_name_and_not_by_its_number(small_runs):
    run, series = load_run(small_runs.first), small_series()
    request = EvaluationRequest(by=("station",), windows=4)
    home = evaluate_run(run, series, request)["by"]["station"]
    turned = evaluate_run(run, series.take(np.arange(12)[::-1]), request)["by"]["station"]
    for name, scores in home.items():
        assert turned[name]["t"]["mse"] == pytest.approx(scores["t"]["mse"], rel=1e-3)


def test_a_report_on_a_foreign_record_is_refused(small_runs):
    refusal(lambda: build_run_view(small_runs.first, foreign(), windows=2), "SPDE-T113")
    view = build_run_view(small_runs.first, foreign(), windows=2, against=(), accept="foreign-network")
    assert any("0 of 12 stations" in note for note in view.notes)


@pytest.fixture
def stationpde(capfd, monkeypatch):
    """Return a function that runs a command in this process and returns exit code, stdout and stderr."""
    monkeypatch.setattr(console, "settings", Globals())

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            app([str(word) for word in words])
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_force_replaces_outputs_and_lets_no_network_through(stationpde, small_runs, tmp_path):
    foreign_store = store.write_store(foreign(), tmp_path / "foreign.zarr")
    target = tmp_path / "fc.nc"
    target.write_text("of yesterday")
    line = ["forecast", small_runs.first, "--obs", foreign_store, "--force", "-o", target]
    code, _, err = stationpde(*line)
    assert code == 3 and "SPDE-T113" in err and target.read_text() == "of yesterday"
    code, out, err = stationpde(*line, "--accept", "foreign-network")
    assert code == 0 and "warning: 0 of 12 stations" in err and "history " in out
    with xr.open_dataset(target) as written:
        assert written.attrs["accepted"] == "foreign-network" and written.attrs["history_present"] > 0.5
    for command in ("evaluate", "report"):
        code, _, err = stationpde(command, small_runs.first, "--obs", foreign_store, "--windows", 2)
        assert code == 3 and "SPDE-T113" in err, command
    code, _, err = stationpde(*line, "--accept", "foreing-network")
    assert code == 2 and "did you mean --accept foreign-network" in err


def test_means_over_the_network_leave_out_requested_places(stationpde, small_runs, tmp_path):
    (tmp_path / "peaks.csv").write_text("name,lat,lon,alt\na,48.0,5.0,1900\nb,47.0,7.0,1900\nc,46.0,9.0,1900\n")
    line = ["forecast", small_runs.first, "--obs", small_runs.store]
    _, alone, _ = stationpde(*line)
    code, beside, _ = stationpde(*line, "--stations", tmp_path / "peaks.csv")
    means = [[row for row in text.splitlines() if row.startswith("2023-")] for text in (alone, beside)]
    assert code == 0 and means[0] and means[0] == means[1]
    assert "12 stations" in beside and "without the places of --stations" in beside
