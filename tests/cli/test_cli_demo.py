"""`demo`, `report` and `plot` as commands: what they write, what they refuse, how they go on."""

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from cli.main import app
from fields import store

TINY = ["--preset", "tiny", "--stations", "8", "--days", "40"]
TINY += ["--set", "train.max_steps=2", "--set", "train.validate_windows=4", "--set", "train.batch=2"]
TINY += ["--set", "pde.backend=torch", "--set", "pde.max_wind=25"]
FILES = ("report.html", "map.png", "forecast.zarr", "data.zarr")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, dict, str]:
    """A tiny demo: its folder, its JSON, and what people read."""
    out = tmp_path_factory.mktemp("demo") / "out"
    shown, told = io.StringIO(), io.StringIO()
    with redirect_stdout(shown), redirect_stderr(told), pytest.raises(SystemExit) as ended:
        app(["demo", "--out", str(out), *TINY, "--json"])
    assert not ended.value.code, told.getvalue()
    return out, json.loads(shown.getvalue()), told.getvalue()


def test_the_demo_says_that_it_is_synthetic_and_shows_every_stage(made):
    _, found, told = made
    assert found["synthetic"] is True and "synthetic" in told
    for stage in (
        "Data",
        "Lift",
        "Training",
        "Forecasts compared",
        "Learned physics",
        "Physics audit",
        "Files",
        "Next",
    ):
        assert f"\n{stage}" in told, stage


def test_the_demo_writes_report_map_forecast_and_checkpoint(made):
    out, found, _ = made
    assert all((out / name).exists() for name in FILES)
    assert Path(found["files"]["checkpoint"]).is_dir() and len(found["next"]) == 3
    assert store.verify(out / "forecast.zarr").ok and store.verify(out / "data.zarr").ok
    assert (out / "map.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_has_four_models_with_units_skill_and_significance(made):
    _, found, told = made
    assert list(found["scores"]) == ["u", "v", "p", "t", "rh"]
    row = found["scores"]["t"]
    assert list(row["mse"]) == ["persistence", "climatology", "dlinear", "stationpde"] and row["unit"] == "K"
    assert row["skill"] == pytest.approx(1 - row["mse"]["stationpde"] / row["mse"]["persistence"])
    assert {"p", "gain", "significant"} <= set(row["significance"]["dlinear"])
    assert "DLinear" in told and "K²" in told


def test_learned_physics_have_units_and_the_audit_is_there(made):
    _, found, told = made
    assert found["physics"]["kappa_u"]["unit"] == "km²/h" and found["audit"]["finite"] is True
    assert set(found["router"]) == {"u", "v", "p", "theta", "q"} and "km²/h" in told


def test_a_finished_demo_is_not_written_over(made, stationpde):
    before = (made[0] / "report.html").stat().st_mtime_ns
    code, _, err = stationpde("demo", "--out", made[0], *TINY)
    assert code == 2 and "--force" in err and (made[0] / "report.html").stat().st_mtime_ns == before


def test_a_folder_of_somebody_else_is_left_alone_even_with_force(tmp_path, stationpde):
    (tmp_path / "thesis.tex").write_text("years of work")
    code, _, err = stationpde("demo", "--out", tmp_path, "--force", *TINY)
    assert code == 2 and "thesis.tex" in err and [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_interrupted_demo_goes_on_where_it_stopped(made, tmp_path, stationpde):
    out = tmp_path / "demo"
    shutil.copytree(made[0], out)
    mark = json.loads((out / "demo.json").read_text())
    (out / "demo.json").write_text(json.dumps({"state": "begun", "recipe": mark["recipe"]}))
    for name in ("report.html", "map.png"):
        (out / name).unlink()
    shutil.rmtree(out / "forecast.zarr")
    trained = {p: p.stat().st_mtime_ns for p in (out / "run").rglob("*") if p.is_file() and "lock" not in p.name}
    code, shown, err = stationpde("demo", "--out", out, *TINY, "--json")
    assert code == 0, err
    assert json.loads(shown)["weights_sha256"] == made[1]["weights_sha256"]
    assert json.loads(shown)["scores"] == made[1]["scores"]
    assert {p: p.stat().st_mtime_ns for p in trained} == trained
    assert all((out / name).exists() for name in FILES)


def test_another_demo_in_the_same_place_is_refused_until_forced(made, tmp_path, stationpde):
    out = tmp_path / "demo"
    out.mkdir()
    mark = json.loads((made[0] / "demo.json").read_text())
    (out / "demo.json").write_text(json.dumps({"state": "begun", "recipe": {**mark["recipe"], "seed": 9}}))
    code, _, err = stationpde("demo", "--out", out, *TINY)
    assert code == 2 and "another demo" in err


def test_report_writes_a_page_and_refuses_to_replace_it(made, tmp_path, stationpde):
    line = ("report", made[0] / "run", "--obs", made[0] / "data.zarr", "-o", tmp_path / "r.html", "--windows", 4)
    code, out, err = stationpde(*line, "--json")
    assert code == 0, err
    assert json.loads(out)["bytes"] == (tmp_path / "r.html").stat().st_size
    code, _, err = stationpde(*line)
    assert code == 2 and "SPDE-R002" in err


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("report nowhere -o {tmp}/r.html", 2, "no run"),
        ("report {run} -o {tmp}/r.pdf", 2, ".html"),
        ("report {run} --obs nothing.zarr -o {tmp}/r.html", 3, "no file"),
        ("report {run} --obs {data} --against dlinear -o {tmp}/r.html", 2, "must be trained first"),
        ("plot series {run} --obs {data} --station SY0O1 -o {tmp}/s.png", 2, "did you mean"),
        ("plot map {run} --obs {data} --variable q -o {tmp}/m.png", 2, "one of u, v, p, t, rh"),
        ("plot map {run} --obs {data} --lead 99 -o {tmp}/m.png", 2, "leads run from 1 to 4"),
        ("plot physics {run} -o {tmp}/p.gif", 2, ".png, .svg, .pdf"),
        ("plot parts {data} -o {tmp}/p.png", 3, "no table"),
    ],
)
def test_a_wrong_line_is_answered_with_its_exit_code(line, code, says, made, stationpde, tmp_path):
    words = line.format(run=made[0] / "run", data=made[0] / "data.zarr", tmp=tmp_path).split()
    found, _, err = stationpde(*words)
    assert (found, says in err) == (code, True), err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_demo_fits_into_its_budget_and_beats_persistence(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [sys.executable, "-m", "cli", "demo", "--out", str(tmp_path / "demo"), "--json"]
    done = subprocess.run(line, capture_output=True, encoding="utf-8", check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_maxrss < 1.5e6  # kB
    if os.environ.get("OMP_NUM_THREADS") == "1":  # threads that wait for a busy core count as work
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 75.0
    assert all(row["skill"] > 0 for row in json.loads(done.stdout)["scores"].values())
    assert (tmp_path / "demo" / "report.html").stat().st_size < 3e6


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_demo_stopped_while_training_exits_75_and_ends_as_undisturbed(made, tmp_path):
    out = tmp_path / "demo"
    line = [sys.executable, "-m", "cli", "demo", "--out", str(out), *TINY, "--json"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    end = time.monotonic() + 120
    while not (out / "run" / "metrics.jsonl").exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.005)
    process.terminate()
    shown, _ = process.communicate(timeout=120)
    if process.returncode == 75:  # else it had been faster
        shown = subprocess.run(line, capture_output=True, encoding="utf-8", check=True).stdout
    assert json.loads(shown)["weights_sha256"] == made[1]["weights_sha256"]
