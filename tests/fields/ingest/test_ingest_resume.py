"""SIGKILL at any moment costs nothing: no store appears half, and the next run goes on and gives the same store."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from fields import store
from fields.ingest.pipeline import ingest_files
from forked_writers import Writer, Zygote
from reader_files import Weather, write_npz, write_rows

# Small blocks and runs, so that there is much to interrupt.
SCRIPT = """
import sys, time
import fields.ingest.pipeline as pipeline
from fields.readers import gathering, spool
pipeline.block_rows = lambda stations, count: 100
spool.Spool.__init__.__defaults__ = (400,)
gathering.blocks.__defaults__ = (16384,)
plain_blocks, pause = gathering.blocks, float(sys.argv[4])

def unhurried_blocks(*arguments):
    for block in plain_blocks(*arguments):
        time.sleep(pause)
        yield block

gathering.blocks = unhurried_blocks
print("ready", flush=True)
result = pipeline.ingest_files(sys.argv[1], sys.argv[2], pipeline.IngestOptions(quality=sys.argv[3] == "1"))
print(result.fingerprint, flush=True)
"""


def start(writers: Zygote, source: Path, output: Path, quality: bool = False, pause: float = 0.0) -> Writer:
    process = writers.start(SCRIPT, source, output, int(quality), pause)
    assert process.stdout.readline() == "ready\n", process.err
    return process


def finished(process: Writer) -> str:
    printed = process.output()
    assert process.returncode == 0, process.err
    return printed.strip()


def scratch_of(output: Path) -> list[Path]:
    """Runs of rows and files of a store under construction; others may vanish while they are listed."""
    names = [name for _, _, files in os.walk(output.parent) for name in files]
    return [Path(name) for name in names if name.endswith((".bin", ".json")) and name != "owner.json"]


def kill_when(process: Writer, output: Path, pieces: int) -> bool:
    """Kill once that many pieces of work are on disk; false if it was done before."""
    while process.poll() is None:
        if len(scratch_of(output)) >= pieces:
            process.signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.005)
    return False


def sources(tmp_path: Path) -> dict[str, Path]:
    weather = Weather(10, 400)
    return {
        "table": write_rows(tmp_path / "obs.csv", weather.rows()),
        "arrays": write_npz(tmp_path / "obs.npz", weather),
    }


def kills(writers: Zygote, tmp_path: Path, kind: str, count: int, seed: int, quality: bool = False) -> None:
    source = sources(tmp_path)[kind]
    (tmp_path / "calm").mkdir()
    (tmp_path / "storm").mkdir()
    expected = finished(start(writers, source, tmp_path / "calm" / "o.zarr", quality))
    output = tmp_path / "storm" / "o.zarr"
    rng = random.Random(seed)
    killed = 0
    for _ in range(count):
        process = start(writers, source, output, quality)
        if not kill_when(process, output, len(scratch_of(output)) + rng.randint(1, 6)):
            finished(process)
            break
        killed += 1
        assert not output.exists()
    assert killed >= min(count, 2)
    if not output.exists():
        assert finished(start(writers, source, output, quality)) == expected
    assert store.fingerprint(output) == expected
    assert store.verify_store(output).ok
    assert sorted(p.name for p in output.parent.iterdir()) == ["o.zarr"]


@pytest.mark.parametrize(("kind", "count"), [("table", 3), ("arrays", 2)])
def test_kills_while_reading_and_writing_cost_nothing(writers, tmp_path, kind, count):
    kills(writers, tmp_path, kind, count, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["table", "arrays"])
def test_many_kills_with_quality_control_cost_nothing(writers, tmp_path, kind, seed):
    kills(writers, tmp_path, kind, 12, seed=seed, quality=True)


def test_parsed_rows_are_not_parsed_again(writers, tmp_path):
    source, output = sources(tmp_path)["table"], tmp_path / "o.zarr"
    process = start(writers, source, output)
    assert kill_when(process, output, 6)
    runs = run_times(tmp_path)
    assert len(runs) >= 3
    process = start(writers, source, output)
    later: dict[str, int] = {}
    while process.poll() is None:
        later |= run_times(tmp_path)
        time.sleep(0.005)
    # The last run may have been torn by the kill and written again; those before it stand.
    finished_runs = sorted(runs)[:-1]
    assert [later.get(name) for name in finished_runs] == [runs[name] for name in finished_runs]


def run_times(folder: Path) -> dict[str, int]:
    times = {}
    for base, _, files in os.walk(folder / ".o.zarr.gather"):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                times[name] = (Path(base) / name).stat().st_mtime_ns
    return {name: when for name, when in times.items() if name.startswith("run-")}


def test_a_source_that_changed_meanwhile_is_read_from_the_start(writers, tmp_path):
    source, output = sources(tmp_path)["table"], tmp_path / "o.zarr"
    assert kill_when(start(writers, source, output), output, 5)
    weather = Weather(10, 400)
    weather.t += 1.0
    write_rows(source, weather.rows())
    finished(start(writers, source, output))
    stored = store.open_store(output)["t"].values
    assert abs(stored[:, 3] - 273.15 - weather.t[:, 3]).max() < 1e-3


def test_an_interrupt_keeps_what_was_done(writers, tmp_path):
    source, output = sources(tmp_path)["table"], tmp_path / "o.zarr"
    process = start(writers, source, output, pause=0.3)  # slow enough to be met in the middle on any machine
    while process.poll() is None and len(scratch_of(output)) < 4:
        time.sleep(0.005)
    process.signal(signal.SIGINT)
    process.wait()
    assert process.returncode != 0
    assert list((tmp_path / ".o.zarr.gather").rglob("run-*.bin"))
    assert ingest_files(source, output).steps == 400
