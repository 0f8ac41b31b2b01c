"""Keep rows of any order on disk as sorted runs and read them back by time.

A table of any length is written as runs of about a million rows, each sorted by time. A block of time is then a slice
of every run, found by bisection in the mapped files: memory depends on the block, never on the table. After a kill
the finished runs are kept, and reading resumes behind them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fields import atomic

__all__ = ["Records", "Spool"]

Array = np.ndarray[Any, Any]
RUN_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Records:
    """Rows: time [s UTC, int64], station (number), and values [variable, row] as float32."""

    time: Array
    station: Array
    values: Array

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def joined(cls, parts: Sequence[Records], variables: int) -> Records:
        """Concatenate rows."""
        if not parts:
            return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty((variables, 0), np.float32))
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([p.time for p in parts]),
            np.concatenate([p.station for p in parts]),
            np.concatenate([p.values for p in parts], axis=1),
        )

    def sorted(self) -> Records:
        """Sort by time; rows of equal time stay in the order of the source."""
        if np.all(self.time[1:] >= self.time[:-1]):
            return self
        order = np.argsort(self.time, kind="stable")
        return Records(self.time[order], self.station[order], self.values[:, order])


class Spool:
    """Sorted runs in a folder, with a state that says how far the source was read."""

    def __init__(self, folder: Path, variables: int, identity: str, run_rows: int = RUN_ROWS) -> None:
        self.folder = folder
        self.variables = variables
        self.identity = identity
        self.run_rows = run_rows
        self.runs: list[int] = []
        self.state: dict[str, Any] = {}
        self.is_complete = False
        self._waiting: list[Records] = []
        self._rows = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._restore()

    # ---- writing --------------------------------------------------------------------------------------------

    def add(self, records: Records) -> bool:
        """Add rows; return whether enough wait for a run: then call `flush` with the state behind them."""
        if len(records):
            self._waiting.append(records)
            self._rows += len(records)
        return self._rows >= self.run_rows

    def flush(self, state: dict[str, Any], *, complete: bool = False) -> None:
        """Write the waiting rows as a run and the state that belongs to it."""
        if self._rows:
            rows = Records.joined(self._waiting, self.variables).sorted()
            with self._file(len(self.runs)).open("wb") as out:
                rows.time.astype(np.int64, copy=False).tofile(out)
                rows.station.astype(np.int32, copy=False).tofile(out)
                rows.values.astype(np.float32, copy=False).tofile(out)
            self.runs.append(len(rows))
            self._waiting, self._rows = [], 0
        self.state, self.is_complete = state, complete
        saved = {"identity": self.identity, "runs": self.runs, "complete": complete, "state": state}
        atomic.write_file(self.folder / "state.json", json.dumps(saved).encode())

    def _file(self, run: int) -> Path:
        return self.folder / f"run-{run:06d}.bin"

    def _size(self, rows: int) -> int:
        return rows * (8 + 4 + 4 * self.variables)

    def _restore(self) -> None:
        saved = atomic.read_json(self.folder / "state.json")
        usable = isinstance(saved, dict) and saved.get("identity") == self.identity and _is_state(saved)
        if usable:
            files = [(self._file(i), self._size(rows)) for i, rows in enumerate(saved["runs"])]
            usable = all(path.is_file() and path.stat().st_size == size for path, size in files)
        if usable:
            self.runs, self.state, self.is_complete = list(saved["runs"]), saved["state"], bool(saved["complete"])
        else:
            for path in self.folder.glob("run-*.bin"):
                path.unlink()

    # ---- reading --------------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Number of rows in all runs."""
        return sum(self.runs)

    def _run(self, index: int) -> Records:
        rows, path = self.runs[index], self._file(index)
        time = np.memmap(path, np.int64, "r", 0, (rows,))
        station = np.memmap(path, np.int32, "r", 8 * rows, (rows,))
        values = np.memmap(path, np.float32, "r", 12 * rows, (self.variables, rows))
        return Records(time, station, values)

    def distinct_times(self) -> tuple[Array, Array]:
        """Return every time at which there is a row, sorted, and the number of rows at each."""
        times, counts = np.empty(0, np.int64), np.empty(0, np.int64)
        for index in range(len(self.runs)):
            time = self._run(index).time
            first = np.flatnonzero(np.concatenate([[True], time[1:] != time[:-1]]))
            rows = np.diff([*first, len(time)])
            joined, place = np.unique(np.concatenate([times, time[first]]), return_inverse=True)
            counts = np.bincount(place, weights=np.concatenate([counts, rows])).astype(np.int64)
            times = joined
        return times, counts

    def rows_off(self, step: int, phase: int, stations: int) -> Array:
        """Count for each station the rows whose time does not have this phase of a step."""
        counts = np.zeros(stations, np.int64)
        for index in range(len(self.runs)):
            run = self._run(index)
            off = np.asarray(run.time) % step != phase
            counts += np.bincount(np.asarray(run.station)[off], minlength=stations)
        return counts

    def read(self, begin: int, end: int) -> Records:
        """Read rows with ``begin <= time < end``, those of equal time in the order of the source."""
        parts = []
        for index in range(len(self.runs)):
            run = self._run(index)
            low, high = np.searchsorted(run.time, [begin, end])
            if high > low:
                part = slice(int(low), int(high))
                parts.append(
                    Records(np.array(run.time[part]), np.array(run.station[part]), np.array(run.values[:, part]))
                )
        return Records.joined(parts, self.variables)


def _is_state(saved: dict[str, Any]) -> bool:
    """Return whether a table is one that `Spool` wrote."""
    runs, state = saved.get("runs"), saved.get("state")
    counts = isinstance(runs, list) and all(type(rows) is int and rows >= 0 for rows in runs)
    parts = isinstance(state, dict) and (not state or {"position", "roster", "tally"} <= state.keys())
    return counts and parts and isinstance(saved.get("complete"), bool)
