"""``metrics.jsonl``: one line for each step and each validation, every step once, also after the process was killed."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fields import atomic
from fields.errors import counted

__all__ = ["MetricsLog", "damaged_lines", "read_metrics"]

log = logging.getLogger(__name__)


class MetricsLog:
    """Appends records; each line is passed to the system at once, and to the disk with every checkpoint."""

    def __init__(self, path: Path, step: int = 0, validated: int = 0) -> None:
        self.path = path
        self._file = -1
        self.drop_after(step, validated)

    def drop_after(self, step: int, validated: int) -> None:
        """Remove steps and validations that will be computed again, and a line that a kill cut short."""
        self.close()
        lines = [
            line
            for line, record in _records(self.path)
            if record["step"] <= step and (record.get("kind") != "validation" or record.get("epoch", 0) < validated)
        ]
        with atomic.machine_faults(self.path):
            if self.path.exists() and b"".join(lines) != self.path.read_bytes():
                atomic.write_file(self.path, b"".join(lines))
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(self, record: Mapping[str, Any]) -> None:
        """Write one record; numbers that are not finite become null."""
        line = json.dumps(_finite(record), allow_nan=False).encode() + b"\n"
        with atomic.machine_faults(self.path):
            os.write(self._file, line)

    def sync(self) -> None:
        """Make the written records durable."""
        with atomic.machine_faults(self.path):
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_metrics(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Read the records of a run, all or those of one kind (``step``, ``validation``); each step once, the last wins.

    Lines that are no records are left out with a warning; the last one may be that of a process that was killed.
    """
    records: dict[tuple[Any, Any], dict[str, Any]] = {}
    damaged = damaged_lines(path)
    if damaged:
        log.warning("%s: %s cannot be read and left out", path, counted(damaged, "line"))
    for _, record in _records(path):
        if kind is None or record.get("kind") == kind:
            records[record.get("kind"), record["step"]] = record
    return list(records.values())


def damaged_lines(path: Path) -> int:
    """Count the whole lines that are no records."""
    return sum(record is None and line.endswith(b"\n") for line, record in _lines(path))


def _records(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    return ((line, record) for line, record in _lines(path) if record is not None)


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yield every line with its record; None where it is none."""
    from pydantic import ValidationError

    from stationpde.runs.schemas import MetricsRecord

    if not path.exists():
        return
    for line in atomic.read_regular(path).splitlines(keepends=True):
        try:
            record = json.loads(line)
            MetricsRecord.model_validate(record)
        except (ValueError, RecursionError, ValidationError):
            record = None
        yield line, record if line.endswith(b"\n") else None


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
