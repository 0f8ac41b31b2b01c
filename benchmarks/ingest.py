"""Measure ingest: megabytes a second of text, and the memory of a Weather2K-sized array.

``python -m benchmarks.ingest``.

The array is made here, with the shape of the hourly Weather2K release (7 GB) and weather-like content. Memory is the
process's own (``RssAnon``): pages of the mapped file belong to the system. Rates of text are given by wall clock and by
CPU time of two cores, because a shared machine's wall clock measures its other users.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

_STEPS_OF_DAY = 24
_CORES = 2
_FIRST_YEAR = 2004
_FOUR_YEARS = 1461 * 24


def measure(quick: bool) -> dict[str, Any]:
    """Measure all figures; ``quick`` shrinks every source."""
    with tempfile.TemporaryDirectory(prefix="ingest-") as scratch:
        folder = Path(scratch)
        text_mb = 80 if quick else 256  # long enough for the compiled parser
        return {
            "csv_long": _csv(folder, "long", text_mb),
            "csv_meteonet": _csv(folder, "meteonet", text_mb),
            "csv_ingest": _csv_ingest(folder, *((4096, 1) if quick else (_FOUR_YEARS, 4))),
            "weather2k": _weather2k(folder, *((200, 4096) if quick else (1866, 40_896))),
        }


# ---- sources ---------------------------------------------------------------------------------------------------


def network(stations: int) -> np.ndarray[Any, Any]:
    """Draw latitude, longitude, altitude of a synthetic network, [3, station]."""
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(22, 48, stations), rng.uniform(85, 128, stations)
    return np.stack([lat, lon, rng.gamma(1.2, 600.0, stations).clip(1, 4500)])


def weather(places: np.ndarray[Any, Any], first: int, count: int, step_hours: float) -> dict[str, np.ndarray[Any, Any]]:
    """Compute weather-like values [station, time]: seasons, days, passing waves, noise; hPa, degC, %, degrees, m/s."""
    lat, lon, alt = (row[:, None] for row in places)
    hour = (first + np.arange(count)) * step_hours
    rng = np.random.default_rng(first)
    noise = rng.normal(size=(lat.shape[0], count)).astype(np.float32)
    day = np.cos(2 * np.pi * ((hour + lon / 15) / 24 - 14 / 24))
    season = np.cos(2 * np.pi * (hour / 24 / 365.25 - 0.55))
    wave = np.sin(2 * np.pi * (hour / 96 + lon / 40 + lat / 50))
    t = 27 - 0.5 * (lat - 20) - 0.0065 * alt + 10 * season + 5 * day + 3 * wave + 0.5 * noise
    p = 1013.25 * (1 - 2.25577e-5 * alt) ** 5.2559 + 6 * wave - 4 * season + 0.3 * noise
    rh = np.clip(62 - 14 * day + 12 * wave + 3 * noise, 5, 100)
    speed = np.abs(2.5 + 1.5 * wave + 0.8 * noise)
    return {"p": p, "t": t, "rh": rh, "dd": (180 + 90 * wave + 20 * noise) % 360, "ff": speed}


def write_weather2k(path: Path, stations: int, count: int) -> None:
    """Write an array of the 23-channel release, station by station."""
    from numpy.lib.format import open_memmap

    places = network(stations)
    array = open_memmap(path, mode="w+", dtype=np.float32, shape=(stations, 23, count))
    for low in range(0, stations, 32):
        part = slice(low, low + 32)
        values = weather(places[:, part], 0, count, 1.0)
        array[part, :3] = places.T[part, :, None]
        for channel, name in ((3, "p"), (4, "t"), (8, "rh"), (15, "dd"), (16, "ff")):
            array[part, channel] = values[name]
    array.flush()


def write_csv(path: Path, kind: str, megabytes: int, steps: int = 1 << 30) -> None:
    """Write a long hourly table, or MeteoNet's columns every six minutes, in time order up to a size or step."""
    places = network(300)
    ids = [f"S{i:05d}" if kind == "long" else str(10_000_000 + i) for i in range(300)]
    spots = [f"{a:.4f},{b:.4f},{c:.1f}" for a, b, c in places.T]
    head = "station,time,lat,lon,alt,p,t,rh,dd,ff\n"
    if kind == "meteonet":
        head = "number_sta,lat,lon,height_sta,date,dd,ff,precip,hu,td,t,psl\n"
    hours = 1.0 if kind == "long" else 0.1
    with path.open("w") as out:
        out.write(head)
        for first in range(0, steps, 240):
            if out.tell() > megabytes * 1_000_000:
                return
            values = weather(places, first, 240, hours)
            for j in range(min(240, steps - first)):
                when = np.datetime64(f"{_FIRST_YEAR}-01-01") + np.timedelta64(round((first + j) * hours * 60), "m")
                out.write("".join(_row(kind, ids[i], spots[i], when, values, i, j) for i in range(300)))


def repeat_csv(path: Path, copies: int) -> None:
    """Append a long table of four years to itself, four years later each time: faster than to make the text."""
    with path.open("rb") as source, path.open("ab") as out:
        source.readline()
        first, end = source.tell(), path.stat().st_size
        for copy in range(1, copies):
            source.seek(first)
            while source.tell() < end:
                part = source.read(min(1 << 24, end - source.tell()))
                part += source.readline() if source.tell() < end else b""
                for year in range(_FIRST_YEAR, _FIRST_YEAR + 4):
                    part = part.replace(b",%d-" % year, b",<%d-" % (year + 4 * copy))
                out.write(part.replace(b",<", b","))


def _row(kind: str, name: str, spot: str, when: Any, values: dict[str, Any], i: int, j: int) -> str:
    p, t, rh, dd, ff = (float(values[k][i, j]) for k in ("p", "t", "rh", "dd", "ff"))
    if kind == "long":
        return f"{name},{when},{spot},{p:.1f},{t:.1f},{rh:.0f},{dd:.0f},{ff:.1f}\n"
    date = f"{str(when)[:10].replace('-', '')} {str(when)[11:16]}"
    psl = "101320.0" if i % 3 == 0 else ""
    return f"{name},{spot},{date},{dd:.1f},{ff:.1f},0.0,{rh:.1f},{t + 268:.2f},{t + 273.15:.2f},{psl}\n"


# ---- measuring -------------------------------------------------------------------------------------------------


class Memory:
    """Largest anonymous memory of this process while the context lasts, in bytes."""

    peak = 0

    def __enter__(self) -> Memory:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.peak = max(self.peak, _anonymous())


def _anonymous() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def _csv(folder: Path, kind: str, megabytes: int) -> dict[str, Any]:
    """Measure the way from text to sorted rows on disk: all that depends on the size of the text."""
    path = folder / f"{kind}.csv"
    write_csv(path, kind, megabytes)
    figures = _in_process("gather", str(path), kind)
    path.unlink()
    return figures


def _csv_ingest(folder: Path, steps: int, copies: int) -> dict[str, Any]:
    """Measure a whole ingest of a table: in full sixteen years of 300 stations, 3 GB."""
    path = folder / "whole.csv"
    write_csv(path, "long", 1 << 20, steps)
    repeat_csv(path, copies)
    figures = _in_process("ingest_csv", str(path), str(folder / "whole.zarr"))
    path.unlink()
    return figures


def _weather2k(folder: Path, stations: int, count: int) -> dict[str, Any]:
    path = folder / "data.npy"
    write_weather2k(path, stations, count)
    figures = _in_process("ingest", str(path), str(folder / "out.zarr"))
    return {"stations": stations, "steps": count, **figures}


def _in_process(*words: str) -> dict[str, Any]:
    """Run a part in a separate process, so that memory is measured for it alone."""
    command = [sys.executable, "-m", "benchmarks.ingest", "--part", *words]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def part_gather(path: str, kind: str) -> dict[str, Any]:
    """Measure one pass over a table, best of three."""
    from fields.readers import ReadOptions, Workspace, gather, shipped_map, without_absent_columns

    column_map = without_absent_columns(shipped_map("tidy" if kind == "long" else "meteonet"), Path(path))
    size = Path(path).stat().st_size / 1e6
    best_cpu = best_wall = float("inf")
    rows = 0
    before = _anonymous()
    with Memory() as memory:
        for _ in range(3):
            with tempfile.TemporaryDirectory(dir=Path(path).parent) as scratch:
                wall, cpu = time.perf_counter(), time.process_time()
                rows = gather(Path(path), column_map, ReadOptions(), Workspace(Path(scratch))).spool.rows
                best_wall = min(best_wall, time.perf_counter() - wall)
                best_cpu = min(best_cpu, time.process_time() - cpu)
    return {
        "megabytes": round(size), "rows_kept": rows, "mb_per_s_wall": round(size / best_wall),
        "mb_per_s_of_two_cores": round(_CORES * size / best_cpu),
        "peak_mb": round(memory.peak / 1e6), "peak_mb_beyond_imports": round((memory.peak - before) / 1e6),
    }  # fmt: skip


def part_ingest(path: str, output: str) -> dict[str, Any]:
    """Measure a whole ingest of an array, quality control included."""
    from fields.readers import ReadOptions
    from fields.times import parse_time

    return _whole(path, output, ReadOptions(start=parse_time("2017-01-01"), step=3600, zone="UTC"))


def part_ingest_csv(path: str, output: str) -> dict[str, Any]:
    """Measure a whole ingest of a table, quality control included."""
    from fields.readers import ReadOptions

    return _whole(path, output, ReadOptions())


def _whole(path: str, output: str, read: Any) -> dict[str, Any]:
    from fields.ingest import IngestOptions, ingest_files

    wall, cpu = time.perf_counter(), time.process_time()
    with Memory() as memory:
        result = ingest_files(path, output, IngestOptions(read=read))
    size = Path(path).stat().st_size / 1e6
    stored = sum(p.stat().st_size for p in result.path.rglob("*") if p.is_file()) / 1e6
    return {
        "megabytes": round(size), "stored_megabytes": round(stored),
        "seconds_wall": round(time.perf_counter() - wall, 1),
        "seconds_cpu": round(time.process_time() - cpu, 1), "peak_mb": round(memory.peak / 1e6),
    }  # fmt: skip


PARTS = {"gather": part_gather, "ingest": part_ingest, "ingest_csv": part_ingest_csv}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sources, for a first impression")
    parser.add_argument("--part", nargs=3, metavar=("NAME", "PATH", "WHAT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        name, path, what = options.part
        print(json.dumps(PARTS[name](path, what)))
    else:
        print(json.dumps(measure(options.quick), indent=2))


if __name__ == "__main__":
    main()
