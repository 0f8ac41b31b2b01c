"""Several ranks train as one process would, and survive kills and hangs: real processes under torchrun."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import training_rank
from stationpde.runs import checkpoint_files
from stationpde.runs.metrics_log import read_metrics
from stationpde.training.distributed import LocalWorld
from training_learner import small_config
from training_processes import wait_until

RANK = Path(__file__).parents[2] / "support" / "training_rank.py"
LAUNCH = """
import json, sys
from stationpde.training.launcher import launch
print(json.dumps(launch([{rank!r}, *sys.argv[2:]], int(sys.argv[1]))))
"""
pytestmark = pytest.mark.timeout(300)


def launched(nproc: int, *words: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LAUNCH.format(rank=str(RANK)), str(nproc), *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip


def outcome(process: subprocess.Popen[str]) -> dict:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return json.loads(out)


def gradients(path: Path, nproc: int, *overrides: str, model: bool) -> tuple[np.ndarray, np.ndarray]:
    """The gradient in this process, and over several ranks."""
    torch.manual_seed(0)
    alone = training_rank.gradients(small_config(*overrides), LocalWorld(), model)
    environment = {"LEARNER": "model"} if model else {}
    outcome(launched(nproc, "unused", *overrides, GRADIENTS=str(path), **environment))
    loss, shared = json.loads(path.read_text())
    assert loss == pytest.approx(alone[0], rel=1e-6)  # float32 sums in another order
    return np.array(alone[1]), np.array(shared)


def test_gradients_of_two_ranks_equal_those_of_one_process(tmp_path):
    # A batch of seven: the ranks have parts of different size, and different counts of missing targets.
    alone, shared = gradients(tmp_path / "g.json", 2, "train.batch=7", "train.station_dropout=0", model=True)
    assert np.abs(shared - alone).max() <= 1e-5 * np.abs(alone).max()


@pytest.mark.slow
@pytest.mark.parametrize("nproc", [3, 4])
def test_gradients_of_more_ranks_equal_those_of_one_process(tmp_path, nproc):
    alone, shared = gradients(tmp_path / "g.json", nproc, "train.batch=7", model=False)
    assert np.abs(shared - alone).max() <= 1e-5 * np.abs(alone).max()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run = tmp_path_factory.mktemp("ranks") / "run"
    return outcome(launched(2, run))["result"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_rank_is_started_again_a_hanging_one_is_named_and_no_bit_changes(undisturbed, tmp_path):
    # Rank 0, which holds the lock and writes, is killed; after the restart rank 1 stops and does not answer.
    run = tmp_path / "run"
    orders = "0:10:SIGKILL:0,1:9:SIGSTOP:1"
    found = outcome(launched(2, run, STOP_AT=orders, COLLECTIVE_SECONDS="4"))
    assert found["exit_code"] == 7 and "rank 1 did not answer" in found["error"]["message"]
    again = outcome(launched(2, run))
    assert again["result"]["weights_sha256"] == undisturbed["weights_sha256"]
    steps = [r["step"] for r in read_metrics(run / "metrics.jsonl", "step")]
    assert steps == list(range(1, undisturbed["steps"] + 1))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_rank_0_that_dies_while_it_saves_leaves_the_checkpoint_before(undisturbed, tmp_path):
    run = tmp_path / "run"
    found = outcome(launched(2, run, DIE_SAVING="0:0"))
    assert found["result"]["weights_sha256"] == undisturbed["weights_sha256"]
    assert not list((run / "checkpoints").glob("*.tmp-*"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_killed_ranks_change_no_bit(undisturbed, tmp_path):
    run = tmp_path / "run"
    rng = np.random.default_rng(0)
    kills = 0
    while kills < 10:
        # Three restarts for each launch: the fourth kill ends it, and the next launch resumes.
        orders = [f"{rng.integers(2)}:{rng.integers(5, 8)}:SIGKILL:{attempt}" for attempt in range(min(4, 10 - kills))]
        process = launched(2, run, "train.epochs=9", STOP_AT=",".join(orders))
        process.communicate(timeout=300)
        kills += len(orders)
    assert outcome(launched(2, run, "train.epochs=9"))["exit_code"] == 0
    alone = outcome(launched(2, tmp_path / "alone", "train.epochs=9"))["result"]
    assert json.loads((run / "result.json").read_text())["content"]["weights_sha256"] == alone["weights_sha256"]


@pytest.mark.slow
def test_sigterm_to_the_launcher_saves_once_and_exits_75(undisturbed, tmp_path):
    run = tmp_path / "run"
    process = launched(2, run, SLEEP="0.05")
    wait_until(lambda: len(read_metrics(run / "metrics.jsonl")) >= 5, 120)
    process.send_signal(signal.SIGTERM)
    found = outcome(process)
    assert found["exit_code"] == 75 and "SIGTERM" in found["error"]["message"]
    newest = checkpoint_files.newest_valid(run / "checkpoints")
    assert checkpoint_files.step_of(newest) == read_metrics(run / "metrics.jsonl", "step")[-1]["step"]
    assert outcome(launched(2, run))["result"]["weights_sha256"] == undisturbed["weights_sha256"]


def test_a_term_that_every_rank_shares_counts_once():
    """What `Reducer.share` promises, without processes: half of the gradient on each of two ranks."""
    from stationpde.training.distributed import _Share

    weight = torch.ones(3, requires_grad=True)
    _Share.apply(weight.square().sum(), 2).backward()
    assert weight.grad.tolist() == [1.0, 1.0, 1.0]
