"""The batch script of the documentation, run by a shell: it saves, asks to be queued again, and ends when done."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "slurm" / "train.sbatch"
LINE = ["demo", "--preset", "tiny", "--set", "train.max_steps=60", "--set", "train.validate_windows=4",
        "--set", "data.step='1h'", "--run"]  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    """Set up a queue that records its requests, and the command as it is installed."""
    tools = folder / "bin"
    tools.mkdir()
    for name, body in {
        "scontrol": f'echo "$@" >> {folder}/asked',
        "stationpde": f'exec {sys.executable} -m cli "$@"',
    }.items():
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "17", "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_that_is_stopped_is_queued_again_and_one_that_is_done_is_not(tmp_path):
    run, settings = tmp_path / "run", environment(tmp_path)
    line = ["bash", str(SCRIPT), *LINE, str(run)]
    job = subprocess.Popen(line, env=settings, cwd=tmp_path)
    metrics = run / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
        assert job.poll() is None
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=120) == 75
    assert (tmp_path / "asked").read_text() == "requeue 17\n"
    assert subprocess.run(line, env=settings, cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "asked").read_text() == "requeue 17\n" and (run / "result.json").exists()


def test_the_script_is_one_that_a_shell_reads():
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
