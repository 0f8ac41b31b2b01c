"""SIGTERM and Ctrl-C during the long commands, sent to real processes: exit codes, and nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fields.ingest.pipeline as pipeline
import fields.lift.record as lifting
from cli._stopping import resumable
from cli.main import app
from fields import store
from reader_files import Weather, write_npz
from station_records import make_stations

# Short blocks that take their time, so that the signal meets the work in the middle on any machine.
SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
import fields.ingest.pipeline as pipeline
import fields.lift.record as lifting
from fields.store.staging import BlockWriter
pipeline.block_rows = lambda *_: 16
lifting._block_length = lambda *_: 4
plain = BlockWriter.write

def unhurried(self, block, region):
    plain(self, block, region)
    time.sleep(0.3)

BlockWriter.write = unhurried
sys.argv = ["stationpde", *sys.argv[1:]]
from cli.main import main
main()
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    write_npz(folder / "obs.npz", Weather(8, 160))
    store.write_store(make_stations(40, 8), folder / "in.zarr")
    return folder


def line_of(kind: str, sources: Path, output: Path) -> list[str]:
    if kind == "ingest":
        return ["data", "ingest", str(sources / "obs.npz"), "-o", str(output), "--no-qc"]
    extra = ["--workers", "1"] if kind == "lift on dask" else []
    return ["field", "lift", str(sources / "in.zarr"), str(output), "--height", "6", "--k", "4", *extra]


def stopped(line: list[str], output: Path, number: int) -> tuple[int, str]:
    """Run the command, signal it once two blocks are journalled, and give exit code and what it stderr."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
    )
    while process.poll() is None and len(list(output.parent.glob("*.tmp-*/journal/*.json"))) < 2:
        time.sleep(0.01)
    os.kill(process.pid, number)
    stderr = process.communicate(timeout=100)[1]
    return process.returncode, stderr


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("kind", "number", "exit_code"),
    [
        ("ingest", signal.SIGTERM, 75),
        ("lift", signal.SIGINT, 130),
        # Both signals and both commands are above; here they change places.
        pytest.param("ingest", signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param("lift", signal.SIGTERM, 75, marks=pytest.mark.slow),
        pytest.param("lift on dask", signal.SIGTERM, 75, marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_the_command_with_its_code_and_the_same_command_resumes(
    sources, tmp_path, monkeypatch, kind, number, exit_code
):
    output = tmp_path / "o.zarr"
    line = line_of(kind, sources, output)
    code, stderr = stopped(line, output, number)
    assert code == exit_code, stderr
    assert "Traceback" not in stderr
    assert not output.exists()
    assert ("error SPDE-X006: stopped by SIGTERM" in stderr) is (exit_code == 75)
    assert "the same command" in stderr
    assert len(list(tmp_path.glob("*.tmp-*/journal/*.json"))) >= 2
    monkeypatch.setattr(pipeline, "block_rows", lambda *_: 16)
    monkeypatch.setattr(lifting, "_block_length", lambda *_: 4)
    again = CliRunner().invoke(app, line)
    assert again.exit_code == 0, again.stderr
    assert "resumed" in again.stdout or "blocks were there" in again.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["o.zarr"]
    assert store.verify_store(output).ok
    calm = line_of(kind.removesuffix(" on dask"), sources, tmp_path / "calm.zarr")
    assert CliRunner().invoke(app, calm).exit_code == 0
    assert store.fingerprint(output) == store.fingerprint(tmp_path / "calm.zarr")


def test_the_handler_is_gone_when_the_work_is_over():
    before = signal.getsignal(signal.SIGTERM)
    with resumable():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
