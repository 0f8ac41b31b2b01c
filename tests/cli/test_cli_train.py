"""`train`, `run` and `config` as commands: exit codes, JSON, messages; each in this process unless a signal is due."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from stationpde.runs.metrics_log import read_metrics

FAST = ["train.checkpoint_every=2", "train.validate_windows=4", "train.batch=2", "data.history=4",
        "data.horizon=2"]  # fmt: skip


def words(*line: object, steps: int = 3) -> list[str]:
    pairs = [*FAST, f"train.max_steps={steps}"]
    return [*map(str, line), *(part for pair in pairs for part in ("--set", pair))]


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    from fields.synthetic.network import write_network

    return write_network(tmp_path_factory.mktemp("net") / "net.zarr", stations=8, days=20)


@pytest.fixture(scope="module")
def trained(network, tmp_path_factory) -> tuple[Path, dict]:
    run = tmp_path_factory.mktemp("runs") / "run"
    outcome = subprocess.run(
        [sys.executable, "-m", "cli", *words("train", network, "--preset", "tiny", "--run", run, "--json")],
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    return run, json.loads(outcome.stdout)


def test_train_prints_one_object_with_run_checkpoint_steps_hash_and_scores(trained):
    run, result = trained
    assert result["run"] == str(run) and result["steps"] == 3
    assert Path(result["checkpoint"]).name == "step-3" and len(result["weights_sha256"]) == 64
    assert {"mse", "mae"} <= set(result["validation"]["t"]) and list(result["validation"]) == ["u", "v", "p", "t", "rh"]
    assert result["learned"]["kappa_u"].endswith("km²/h") and result["learned"]["lambda_c"].endswith("1/h")
    assert tomllib.loads((run / "config.toml").read_text())["train"]["max_steps"] == 3


def test_the_same_command_again_gives_the_same_answer(trained, network, stationpde):
    code, out, _ = stationpde(*words("train", network, "--preset", "tiny", "--run", trained[0], "--json"))
    assert code == 0 and json.loads(out) == trained[1]


def test_people_are_told_rates_factors_and_what_to_type_next(trained, network, stationpde):
    line = words("train", network, "--preset", "tiny", "--run", trained[0])
    code, out, err = stationpde(*line)
    assert code == 0 and "learned kappa_u " in out and "factors gamma_u " in out
    assert "validation scores; values: all quality tests" in out and trained[1]["quality"] == "full"
    assert f"stationpde forecast {trained[0]} --obs {network} -o forecast.csv" in err
    assert "stationpde report" in err and "stationpde report" not in stationpde("-q", *line)[2]


def test_a_changed_key_exits_4_with_the_difference(trained, network, stationpde):
    line = words("train", network, "--preset", "tiny", "--run", trained[0])
    code, _, err = stationpde(*line, "--set", "train.lr=0.5")
    assert code == 4 and "train.lr: 0.002 -> 0.5" in err and "--fork" in err


def test_other_data_exit_5(trained, tmp_path, stationpde):
    from fields.synthetic.network import write_network

    other = write_network(tmp_path / "other.zarr", stations=8, days=20, seed=3)
    code, _, err = stationpde(*words("train", other, "--preset", "tiny", "--run", trained[0]))
    assert code == 5 and "other data" in err


def test_data_that_are_not_there_exit_3_and_tell_where_they_are(stationpde, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = stationpde("train", "weather2k")
    assert code == 3 and "bycnfz/weather2k" in err
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_answers_and_writes_nothing(network, stationpde, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = stationpde(*words("train", network, "--preset", "tiny", "--dry-run", "--json"))
    estimate = json.loads(out)
    assert code == 0, out
    assert estimate["steps"] == 3 and estimate["memory_bytes"] > 1e8
    assert list(tmp_path.iterdir()) == []


def test_each_seed_has_a_run_of_its_own(network, stationpde, tmp_path):
    line = words("train", network, "--preset", "tiny", "--run", tmp_path / "runs", "--seeds", "0:2", "--json", steps=1)
    code, out, _ = stationpde(*line)
    runs = json.loads(out)["runs"]
    assert code == 0 and [Path(run["run"]).name for run in runs] == ["seed-0", "seed-1"]
    assert runs[0]["weights_sha256"] != runs[1]["weights_sha256"]
    code, out, _ = stationpde("run", "list", tmp_path / "runs", "--json")
    assert [(run["state"], run["seed"]) for run in json.loads(out)["runs"]] == [("done", 0), ("done", 1)]


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("train demo --seeds 5:0", 2, "0 seeds"),
        ("train demo --seeds x", 2, "not of the form"),
        ("train demo --max-time soon", 2, "not a span of time"),
        ("train demo --set train.epoch=1", 4, "did you mean 'train.epochs'"),
        ("train demo --variant papers", 4, "did you mean 'paper'"),
        ("train demo -c missing.toml", 4, "no file"),
        ("train nothing.zarr", 2, "neither a dataset nor a store"),
        ("train demo --missing p=guess", 4, "p"),
        ("train demo --preset tiny --device cuda:7", 2, "no device"),
        ("config validate missing.toml", 4, "no file"),
        ("config validate .", 4, "is a directory"),
        ("train demo --preset tiny --dry-run --init nowhere", 2, "there is no run at nowhere"),
        ("train demo --preset zzz", 4, "choose one of weather2k"),
        ("run verify nowhere", 2, "is no run"),
        ("report . -o page.html", 2, "is not a run"),
        ("report nowhere -o page.html", 2, "stationpde run list DIR"),
    ],
)
def test_a_wrong_line_is_answered_with_its_exit_code(line, code, says, stationpde, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exit_code, _, err = stationpde(*line.split())
    assert (exit_code, says in err) == (code, True), err


def test_sigterm_saves_exits_75_and_the_same_command_ends_as_undisturbed(trained, network, tmp_path):
    run = tmp_path / "run"
    line = [sys.executable, "-m", "cli", *words("train", network, "--preset", "tiny", "--run", run, "--json")]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    while not read_metrics(run / "metrics.jsonl"):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    if process.returncode == 75:  # else it had been faster
        assert json.loads(out)["error"]["exit_code"] == 75
        out = subprocess.run(line, capture_output=True, encoding="utf-8", check=True).stdout
    assert json.loads(out)["weights_sha256"] == trained[1]["weights_sha256"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_ranks_train_through_the_command(network, tmp_path):
    line = words("train", network, "--preset", "tiny", "--run", tmp_path / "run", "--nproc", 2, "--json")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    outcome = subprocess.run(
        [sys.executable, "-m", "cli", *line], capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout)["steps"] == 3
    changed = subprocess.run(
        [sys.executable, "-m", "cli", *line, "--set", "train.lr=0.1"],
        capture_output=True, encoding="utf-8", env=environment, check=False,
    )  # fmt: skip
    assert changed.returncode == 4 and json.loads(changed.stdout)["error"]["code"] == "SPDE-C010"


# ---- run and config --------------------------------------------------------------------------------------------


def test_run_verify_finds_damage_with_exit_code_5(trained, stationpde, tmp_path):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    assert stationpde("run", "verify", run)[0] == 0
    (run / "checkpoints" / "step-3" / "state.json").write_text("{}")
    code, out, _ = stationpde("run", "verify", run, "--json")
    report = json.loads(out)
    assert code == 5 and not report["ok"] and "state.json" in report["files"]["step-3"]


def test_run_gc_removes_what_a_killed_writer_left(trained, stationpde, tmp_path):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    shutil.copytree(run / "checkpoints" / "step-3", run / "checkpoints" / "step-9.tmp-abc")
    code, out, _ = stationpde("run", "gc", run, "--json")
    assert code == 0 and json.loads(out)["removed"] == ["step-9.tmp-abc"]


def test_config_show_prints_what_train_would_take(stationpde):
    code, out, _ = stationpde("config", "show", "--preset", "tiny", "--variant", "paper", "--set", "train.epochs=7")
    tree = tomllib.loads(out)
    assert code == 0 and tree["variant"] == "paper" and tree["train"]["epochs"] == 7


def test_config_init_writes_once_and_validate_lists_changes(stationpde, tmp_path):
    path = tmp_path / "mine.toml"
    assert stationpde("config", "init", path, "--preset", "tiny")[0] == 0
    assert stationpde("config", "init", path)[0] == 2
    path.write_text(path.read_text().replace("\nepochs = 1", "\nepochs = 4"))
    code, out, _ = stationpde("config", "validate", path, "--preset", "tiny", "--json")
    assert code == 0 and json.loads(out)["changes"] == ["train.epochs: 1 -> 4"]
    path.write_text("[train]\nepoch = 3\n")
    code, _, err = stationpde("config", "validate", path)
    assert code == 4 and "did you mean 'train.epochs'" in err
    path.write_text('[pde]\nwithout = ["laplacien"]\n')
    code, _, err = stationpde("config", "validate", path)
    assert code == 4 and "pde.without" in err and "laplacian" in err
    path.write_text('[pde]\nwithout = ["laplacian"]\n')
    assert stationpde("config", "validate", path)[0] == 0


def test_config_schema_describes_every_section(stationpde):
    code, out, _ = stationpde("config", "schema")
    assert code == 0 and {"data", "grid", "model", "pde", "loss", "train"} <= set(json.loads(out)["properties"])


def test_a_folder_of_runs_is_no_run_and_its_runs_are_named(stationpde, tmp_path):
    run = tmp_path / "my runs" / "first"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    exit_code, _, err = stationpde("report", str(run.parent), "-o", str(tmp_path / "page.html"))
    assert (exit_code, f"name a run below it: '{run}'" in err) == (2, True), err
    exit_code, _, err = stationpde("report", str(run), "-o", str(tmp_path / "page.html"))
    assert exit_code == 5, "a run with a damaged record is damage, not usage"


def test_paths_with_spaces_are_quoted_in_advised_commands(tmp_path):
    from stationpde.demo import next_commands

    forecast, train, _ = next_commands(tmp_path / "my demo")
    assert shlex.split(forecast)[2] == str(tmp_path / "my demo" / "run")
    assert shlex.split(train)[2] == str(tmp_path / "my demo" / "data.zarr")
