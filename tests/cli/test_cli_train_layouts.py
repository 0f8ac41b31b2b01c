"""`train` on real observations in the layouts of the two published data sets, from the raw file, as a user types it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# The whole model with narrow networks on few cells; history, horizon and sub-steps are those of the presets.
SMALL = ["grid.height=8", "model.hidden=8", "model.encoder_hidden=8", "model.head_hidden=32", "model.guide_networks=0",
         "model.dilations=[1,2,4]",
         "train.batch=4", "train.validate_windows=40", "train.threads=1"]  # fmt: skip


def train(*words: object, steps: int, run: Path) -> subprocess.CompletedProcess:
    settings = [part for pair in (*SMALL, f"train.max_steps={steps}") for part in ("--set", pair)]
    return subprocess.run(
        [sys.executable, "-m", "cli", "train", *map(str, words), "--run", str(run), *settings, "--json"],
        capture_output=True, encoding="utf-8", check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_stations_in_the_layout_of_weather2k_are_trained_on_and_beat_persistence(shared_data, tmp_path):
    (array,) = (shared_data / "weather2k_layout").glob("*.npy")
    done = train("weather2k", "--obs", array, "--start", "2023-01-01", "--time-zone", "UTC", steps=40,
                 run=tmp_path / "run")  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"] == 40 and result["validation"]["t"]["mse"] < result["validation"]["t"]["persistence_mse"]


def test_an_array_without_its_times_exits_3_and_prints_the_command(shared_data, tmp_path):
    (array,) = (shared_data / "weather2k_layout").glob("*.npy")
    done = train("weather2k", "--obs", array, steps=1, run=tmp_path / "run")
    assert done.returncode == 3
    advice = json.loads(done.stdout)["error"]["do"]
    assert advice.startswith(f"stationpde train weather2k --obs {array} --start 2023-01-01 --time-zone UTC")
    assert list((tmp_path / "run").glob("*")) == []  # the place was tried, and nothing is left in it


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_stations_in_the_layout_of_meteonet_are_trained_on_and_beat_persistence(shared_data, tmp_path):
    (table,) = (shared_data / "meteonet_layout").glob("*.csv")
    done = train("meteonet", "--obs", table, steps=60, run=tmp_path / "run")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result["validation"]) == {"u", "v", "t", "rh"}  # pressure stands in and is not scored
    assert result["validation"]["t"]["mse"] < result["validation"]["t"]["persistence_mse"]
