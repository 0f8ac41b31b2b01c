"""`demo`, `report` and `plot` as commands: what they write, what they refuse, how they resume."""

import io
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from cli.main import app
from fields import store

TINY = ["--preset", "tiny", "--station-count", "8", "--days", "40"]
TINY += ["--set", "train.max_steps=2", "--set", "train.validate_windows=4", "--set", "train.batch=2"]
TINY += ["--set", "pde.backend=torch", "--set", "pde.max_wind=25"]
FILES = ("report.html", "map.png", "forecast.zarr", "data.zarr")


@pytest.fixture(scope="module")
def tiny_demo(tmp_path_factory) -> tuple[Path, dict, str]:
    """Run a tiny demo; return its folder, its JSON, and what people read."""
    out = tmp_path_factory.mktemp("demo") / "out"
    shown, printed = io.StringIO(), io.StringIO()
    with redirect_stdout(shown), redirect_stderr(printed), pytest.raises(SystemExit) as ended:
        app(["demo", "--output", str(out), *TINY, "--json"])
    assert not ended.value.code, printed.getvalue()
    return out, json.loads(shown.getvalue()), printed.getvalue()


def test_the_demo_says_that_it_is_synthetic_and_shows_every_stage(tiny_demo):
    _, results, printed = tiny_demo
    assert results["synthetic"] is True and "synthetic" in printed
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
        assert f"\n{stage}" in printed, stage


def test_the_demo_writes_report_map_forecast_and_checkpoint(tiny_demo):
    out, results, _ = tiny_demo
    assert all((out / name).exists() for name in FILES)
    assert Path(results["files"]["checkpoint"]).is_dir() and len(results["next"]) == 3
    assert store.verify_store(out / "forecast.zarr").ok and store.verify_store(out / "data.zarr").ok
    assert (out / "map.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_has_four_models_with_units_skill_and_significance(tiny_demo):
    _, results, printed = tiny_demo
    assert list(results["scores"]) == ["u", "v", "p", "t", "rh"]
    row = results["scores"]["t"]
    assert list(row["mse"]) == ["persistence", "climatology", "dlinear", "stationpde"] and row["unit"] == "K"
    assert row["skill"] == pytest.approx(1 - row["mse"]["stationpde"] / row["mse"]["persistence"])
    assert {"p", "gain", "significant"} <= set(row["significance"]["dlinear"])
    assert "DLinear" in printed and "K²" in printed


def test_learned_physics_have_units_and_the_audit_is_there(tiny_demo):
    _, results, printed = tiny_demo
    assert results["physics"]["kappa_u"]["unit"] == "km²/h" and results["audit"]["finite"] is True
    assert set(results["router"]) == {"u", "v", "p", "theta", "q"} and "km²/h" in printed


def test_a_finished_demo_is_not_written_over(tiny_demo, stationpde):
    before = (tiny_demo[0] / "report.html").stat().st_mtime_ns
    code, _, err = stationpde("demo", "--output", tiny_demo[0], *TINY)
    assert code == 2 and "--force" in err and (tiny_demo[0] / "report.html").stat().st_mtime_ns == before


def test_a_folder_of_somebody_else_is_left_alone_even_with_force(tmp_path, stationpde):
    (tmp_path / "thesis.tex").write_text("years of work")
    code, _, err = stationpde("demo", "--output", tmp_path, "--force", *TINY)
    assert code == 2 and "thesis.tex" in err and [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_interrupted_demo_resumes_where_it_stopped(tiny_demo, tmp_path, stationpde):
    out = tmp_path / "demo"
    shutil.copytree(tiny_demo[0], out)
    mark = json.loads((out / "demo.json").read_text())
    (out / "demo.json").write_text(json.dumps({"state": "begun", "recipe": mark["recipe"]}))
    for name in ("report.html", "map.png"):
        (out / name).unlink()
    shutil.rmtree(out / "forecast.zarr")
    trained = {p: p.stat().st_mtime_ns for p in (out / "run").rglob("*") if p.is_file() and "lock" not in p.name}
    code, shown, err = stationpde("demo", "--output", out, *TINY, "--json")
    assert code == 0, err
    assert json.loads(shown)["weights_sha256"] == tiny_demo[1]["weights_sha256"]
    assert json.loads(shown)["scores"] == tiny_demo[1]["scores"]
    assert {p: p.stat().st_mtime_ns for p in trained} == trained
    assert all((out / name).exists() for name in FILES)


def test_another_demo_in_the_same_place_is_refused_until_forced(tiny_demo, tmp_path, stationpde):
    out = tmp_path / "demo"
    out.mkdir()
    mark = json.loads((tiny_demo[0] / "demo.json").read_text())
    (out / "demo.json").write_text(json.dumps({"state": "begun", "recipe": {**mark["recipe"], "seed": 9}}))
    code, _, err = stationpde("demo", "--output", out, *TINY)
    assert code == 2 and "another demo" in err


def test_report_writes_a_page_and_refuses_to_replace_it(tiny_demo, tmp_path, stationpde):
    run, data = tiny_demo[0] / "run", tiny_demo[0] / "data.zarr"
    line = ("report", run, "--obs", data, "-o", tmp_path / "r.html", "--windows", 4)
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
        ("report {run} --obs nothing.zarr -o {tmp}/r.html", 2, "neither a dataset nor a store or file"),
        ("report {run} --obs {data} --against dlinear -o {tmp}/r.html", 2, "must be trained first"),
        ("plot series {run} --obs {data} --station SY0O1 -o {tmp}/s.png", 2, "did you mean"),
        ("plot map {run} --obs {data} --variable q -o {tmp}/m.png", 2, "one of u, v, p, t, rh"),
        ("plot map {run} --obs {data} --lead 99 -o {tmp}/m.png", 2, "leads run from 1 to 4"),
        ("plot physics {run} -o {tmp}/p.gif", 2, ".png, .svg, .pdf"),
        ("plot parts {data} -o {tmp}/p.png", 3, "no table"),
    ],
)
def test_a_wrong_line_is_answered_with_its_exit_code(line, code, says, tiny_demo, stationpde, tmp_path):
    words = line.format(run=tiny_demo[0] / "run", data=tiny_demo[0] / "data.zarr", tmp=tmp_path).split()
    exit_code, _, err = stationpde(*words)
    assert (exit_code, says in err) == (code, True), err
    assert list(tmp_path.iterdir()) == []


MEASURE = """
import resource, subprocess, sys
with open(sys.argv[1], "wb") as shown:
    code = subprocess.call(sys.argv[2:], stdout=shown)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print([used.ru_maxrss, used.ru_utime + used.ru_stime])
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_demo_fits_into_its_budget_and_beats_persistence(tmp_path):
    line = [sys.executable, "-m", "cli", "demo", "--output", str(tmp_path / "demo"), "--json"]
    shown = tmp_path / "shown.json"
    # By a small process of its own: a child counts the memory of whoever starts it as its own largest.
    measured = subprocess.run([sys.executable, "-S", "-c", MEASURE, str(shown), *line], capture_output=True, text=True)
    assert measured.returncode == 0, measured.stderr
    kilobytes, cpu_seconds = json.loads(measured.stdout)
    assert kilobytes < 1.5e6
    if os.environ.get("OMP_NUM_THREADS") == "1":  # threads that wait for a busy core count as work
        assert cpu_seconds < 75.0
    assert all(row["skill"] > 0 for row in json.loads(shown.read_text("utf-8"))["scores"].values())
    assert (tmp_path / "demo" / "report.html").stat().st_size < 3e6


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_demo_stopped_while_training_exits_75_and_ends_as_undisturbed(tiny_demo, tmp_path):
    out = tmp_path / "demo"
    line = [sys.executable, "-m", "cli", "demo", "--output", str(out), *TINY, "--json"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    end = time.monotonic() + 120
    while not (out / "run" / "metrics.jsonl").exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.005)
    process.terminate()
    shown, _ = process.communicate(timeout=120)
    if process.returncode == 75:  # else it had been faster
        shown = subprocess.run(line, capture_output=True, encoding="utf-8", check=True).stdout
    assert json.loads(shown)["weights_sha256"] == tiny_demo[1]["weights_sha256"]
