"""`stationpde field`: lift, sample, cv and plot from the command line, and what they say when they cannot."""

import inspect
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from cli import field
from cli.main import app
from fields import store
from fields.lift import LiftSettings, PinnSettings, altitude_weight
from station_records import make_stations


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def stations(tmp_path_factory):
    return store.write_store(make_stations(48, 15), tmp_path_factory.mktemp("cli") / "in.zarr")


@pytest.fixture(scope="module")
def lifted(stations):
    target = stations.parent / "fields.zarr"
    outcome = run("field", "lift", stations, target, "--height", 8, "--json")
    assert outcome.exit_code == 0, outcome.stderr
    return target, json.loads(outcome.stdout)


def test_lift_writes_a_field_store_and_says_what_it_made(lifted):
    target, answer = lifted
    ds = store.open_store(target)
    assert answer["variables"] == ["u", "v", "p", "t", "rh"]
    assert ds.sizes["lat"] == 8 and ds.sizes["time"] == 48
    assert answer["grid"]["height"] == 8 and answer["path"] == str(target)


def test_lift_to_an_existing_store_exits_2_and_tells_of_force(lifted, stations):
    outcome = run("field", "lift", stations, lifted[0])
    assert outcome.exit_code == 2
    assert "--force" in outcome.stderr


def test_lift_takes_method_neighbours_relief_and_variables(stations, tmp_path):
    np.savez(tmp_path / "dem.npz", lat=np.arange(40.0, 54.0), lon=np.arange(-4.0, 12.0), elev_m=np.full((14, 16), 99.0))
    words = [
        "--method",
        "terrain_idw",
        "--k",
        4,
        "--w-alt",
        "5 m/m",
        "--dem",
        tmp_path / "dem.npz",
        "--variables",
        "t,p",
    ]
    outcome = run("field", "lift", stations, tmp_path / "o.zarr", "--height", 6, *words)
    assert outcome.exit_code == 0, outcome.stderr
    ds = store.open_store(tmp_path / "o.zarr")
    assert ds.attrs["method"] == "terrain_idw" and json.loads(ds.attrs["lift_settings"])["w_alt"] == 5.0
    assert "u" not in ds and float(ds["alt"].max()) == 99.0
    assert str(tmp_path / "o.zarr") in outcome.stdout


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["--method", "kriging"], 2, "no lift method 'kriging'"),
        (["--w-alt", "5"], 2, "w_alt needs a number"),
        (["--dem", "absent.npz"], 2, "there is no file"),
        (["--variables", "snow"], 2, "cannot be lifted"),
    ],
)
def test_lift_refuses_with_what_to_type(stations, tmp_path, words, code, what):
    outcome = run("field", "lift", stations, tmp_path / "o.zarr", *words)
    assert outcome.exit_code == code
    assert what in outcome.stderr
    assert not (tmp_path / "o.zarr").exists()


def test_lift_of_no_store_is_a_usage_error(tmp_path):
    assert run("field", "lift", tmp_path / "none.zarr", tmp_path / "o.zarr").exit_code == 2


def test_stations_near_the_pole_exit_3(tmp_path):
    ds = make_stations(3, 5)
    path = store.write_store(ds.assign_coords(lat=ds["lat"] + 39.0), tmp_path / "in.zarr")
    outcome = run("field", "lift", path, tmp_path / "o.zarr")
    assert outcome.exit_code == 3
    assert "projection" in outcome.stderr


@pytest.mark.parametrize("record", ["raw", "demo"])
def test_lift_and_cv_open_raw_files_and_the_made_up_network_as_every_command_does(tmp_path, record):
    source = "demo"
    if record == "raw":
        source = str(tmp_path / "mine.nc")
        make_stations(48, 15).to_netcdf(source)
    lifted = run("field", "lift", source, str(tmp_path / "f.zarr"), "--height", "6", "--variables", "t")
    scored = run("field", "cv", source, "--moments", "5", "--method", "idw")
    assert lifted.exit_code == 0 and scored.exit_code == 0, lifted.output + scored.output
    assert store.open_store(tmp_path / "f.zarr").sizes["time"] >= 48 and "all quality tests" in scored.stderr


def test_cv_prints_a_table_and_json_of_the_promised_form(stations):
    outcome = run("field", "cv", stations, "--moments", 12)
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stdout.split("\n")[0].split() == ["RMSE", "unit", "idw", "terrain_idw", "detrended"]
    scores = json.loads(run("field", "cv", stations, "--moments", 12, "--json").stdout)
    assert list(scores) == ["u", "v", "p", "t", "rh", "errors"]
    assert list(scores["t"]) == ["idw", "terrain_idw", "detrended"]
    assert scores["p"]["detrended"] < 0.5 * scores["p"]["idw"]


def test_cv_by_distance_and_by_method(stations):
    outcome = run("field", "cv", stations, "--moments", 6, "--block-km", 120, "--method", "idw", "--json")
    scores = json.loads(outcome.stdout)
    plain = json.loads(run("field", "cv", stations, "--moments", 6, "--method", "idw", "--json").stdout)
    assert list(scores["t"]) == ["idw"]
    assert scores["p"] != plain["p"]


def test_sample_writes_series_and_marks_places_outside(lifted, tmp_path):
    (tmp_path / "p.csv").write_text("name,lat,lon,alt\nhere,46,3,200\nfar,10,100,0\n")
    outcome = run("field", "sample", lifted[0], tmp_path / "p.csv", "-o", tmp_path / "s.csv")
    assert outcome.exit_code == 0, outcome.stderr
    assert "far" in outcome.stderr and str(tmp_path / "s.csv") in outcome.stdout
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 1 + 2 * 48
    assert run("field", "sample", lifted[0], tmp_path / "p.csv", "-o", tmp_path / "s.csv").exit_code == 2


def test_sample_as_json_needs_no_file(lifted, tmp_path):
    (tmp_path / "p.csv").write_text("lat,lon\n46,3\n")
    outcome = run("field", "sample", lifted[0], tmp_path / "p.csv", "--json")
    answer = json.loads(outcome.stdout)
    assert len(answer["series"]["t"][0]) == 48 and answer["points"][0]["inside"]
    assert run("field", "sample", lifted[0], tmp_path / "p.csv").exit_code == 2


def test_plot_draws_a_picture(lifted, tmp_path):
    outcome = run("field", "plot", lifted[0], "-o", tmp_path / "map.png", "--at", "2021-06-01T12:00")
    assert outcome.exit_code == 0, outcome.stderr
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert run("field", "plot", lifted[0], "-o", tmp_path / "map.png").exit_code == 2
    assert run("field", "plot", lifted[0], "-o", tmp_path / "m.png", "--at", "1999-01-01").exit_code == 3


@pytest.mark.parametrize("ending", ["xyz", "npz", "png.gz", ""])
def test_a_picture_with_an_unknown_ending_is_refused_with_those_that_are_known(lifted, tmp_path, ending):
    target = tmp_path / f"map.{ending}"
    outcome = run("field", "plot", lifted[0], "-o", target)
    assert outcome.exit_code == 2 and "SPDE-D093" in outcome.stderr and ".png, .svg, .pdf" in outcome.stderr
    assert not target.exists()


@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("PDF", b"%PDF"), ("png", b"\x89PNG")])
def test_a_picture_is_of_the_format_of_its_ending(lifted, tmp_path, ending, start):
    assert run("field", "plot", lifted[0], "-o", tmp_path / f"map.{ending}").exit_code == 0
    assert (tmp_path / f"map.{ending}").read_bytes().startswith(start)



def test_a_store_of_fields_is_validated_and_described_as_one(lifted, tmp_path):
    target, answer = lifted
    checked = run("data", "validate", target)
    assert (checked.exit_code, checked.stdout) == (0, f"{target}: ok\n")
    described = run("data", "info", target, "--json")
    card = json.loads(described.stdout)
    assert (card["method"], card["stations"], card["times"]) == ("detrended", 15, 48)
    assert card["grid"] == answer["grid"]
    assert 0.9 < card["ranges"]["t"][3] <= 1.0
    assert "fields lifted by detrended from 15 stations" in described.stderr
    assert run("data", "info", target, "--plot", tmp_path / "x.png").exit_code == 2


def test_a_flipped_bit_in_a_field_is_found(lifted, tmp_path):
    import shutil

    copy = tmp_path / "fields.zarr"
    shutil.copytree(lifted[0], copy)
    chunk = next(p for p in (copy / "t" / "c").rglob("*") if p.is_file())
    raw = bytearray(chunk.read_bytes())
    raw[len(raw) // 2] ^= 1
    chunk.write_bytes(raw)
    outcome = run("data", "validate", copy)
    assert outcome.exit_code == 5
    assert "chunk" in outcome.stdout and "`t`" in outcome.stdout


@pytest.mark.parametrize("command", [field.lift, field.cv])
def test_defaults_of_the_lift_are_those_of_the_library(command):
    options, library = inspect.signature(command).parameters, LiftSettings()
    assert options["k"].default == library.k
    assert altitude_weight(options["w_alt"].default) == library.w_alt


def test_lift_without_a_method_takes_that_of_the_library():
    assert inspect.signature(field.lift).parameters["method"].default == LiftSettings().method


def test_the_guided_lift_says_first_what_it_takes(stations, tmp_path):
    words = ("--method", "pinn", "--steps", 2, "--no-coriolis", "--height", 6)
    outcome = run("field", "lift", stations, tmp_path / "guided.zarr", *words)
    assert outcome.exit_code == 0, outcome.stderr
    note = outcome.stderr.index("pinn: 2 networks of")
    assert "GB of memory" in outcome.stderr and note >= 0
    about = json.loads(store.open_store(tmp_path / "guided.zarr").attrs["pinn_settings"])
    assert about["coriolis"] is False and about["steps"] == 2
    scored = run("field", "cv", stations, "--method", "idw", "--method", "pinn", "--steps", 1, "--json")
    assert set(json.loads(scored.stdout)["u"]) == {"idw", "pinn"}
    assert "5 folds of stations" in scored.stderr and "pinn: 5 networks" in scored.stderr


def test_options_of_the_guided_lift_are_refused_without_it(stations, tmp_path):
    for words in (("lift", stations, tmp_path / "x.zarr", "--no-coriolis"), ("cv", stations, "--steps", 9)):
        outcome = run("field", *words)
        assert outcome.exit_code == 2 and "--method pinn alone" in outcome.stderr
    assert inspect.signature(field.cv).parameters["steps"].default == PinnSettings().steps
    few = run("field", "cv", stations, "--method", "pinn", "--block-km", 9)
    assert few.exit_code == 2 and "--folds" in few.stderr
