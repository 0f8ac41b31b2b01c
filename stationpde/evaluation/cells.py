"""Finished cells as small files: model, data, cost, and the sums from which every score follows."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

import stationpde
from fields import atomic
from fields.times import format_time
from stationpde.errors import CorruptArtefactError
from stationpde.evaluation.contestants import Task, contestant
from stationpde.evaluation.error_sums import ErrorStatistics
from stationpde.evaluation.metrics import mean_over, normalised_mse, scores_by, station_scales
from stationpde.evaluation.schemas import CellFile, require_agreement

if TYPE_CHECKING:
    from stationpde.config import Config
    from stationpde.data import WindowSource

__all__ = ["Cell", "commit", "data_facts", "read_cell", "versions", "write_cell"]

_KIND, _SCHEMA = "benchmark cell", 1
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One model under one protocol from one seed, with all facts that tables show.

    ``settings_sha256`` (``settings`` in the file) is the hash of the settings by which a finished cell is recognised.
    """

    task: Task
    settings_sha256: str
    about: Mapping[str, Any]
    statistics: ErrorStatistics

    @classmethod
    def of(
        cls, task: Task, source: WindowSource, config: Config, statistics: ErrorStatistics, training: Mapping[str, Any],
        data: Mapping[str, Any],
    ) -> Cell:  # fmt: skip
        """Build a cell from its statistics, training facts and data facts."""
        model = contestant(task.model)
        nmse = normalised_mse(statistics, station_scales(source.series, source.windows.split))
        scores = {
            n: {**s.to_dict(), "nmse": nmse[n]} for n, s in scores_by(statistics.total, statistics.variables).items()
        }
        about = {
            "title": model.title,
            "model_kind": model.kind,
            "data": dict(data),
            "scores": scores,
            "nmse": mean_over(nmse),
            "training": dict(training),
            "versions": versions(),
            "commit": commit(),
            "machine": platform.machine(),
        }
        return cls(task, model.settings(task, data["fingerprint"]), about, statistics)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the file of the cell."""
        head = {"kind": _KIND, "schema_version": _SCHEMA, **self.task.to_dict(), "settings": self.settings_sha256}
        return {**head, **self.about, "statistics": self.statistics.to_dict()}


def write_cell(folder: Path, cell: Cell) -> Path:
    """Write a cell completely or not at all; the numbers of a group are on one line."""
    path = folder / f"{cell.task.name}.json"
    content = cell.to_dict()
    sums = content.pop("statistics")
    head = json.dumps(_plain(content), indent=1, allow_nan=False)
    lines = ",\n".join(f"  {json.dumps(name)}: {_compact(value)}" for name, value in sums.items())
    text = f'{head[:-2]},\n "statistics": {{\n{lines}\n }}\n}}\n'
    with atomic.machine_faults(path):
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_file(path, text.encode())
    return path


def read_cell(path: Path) -> Cell:
    """Read a cell that `write_cell` wrote.

    Raises
    ------
    CorruptArtefactError
        If the file is not a valid cell.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("too large")
        content = json.loads(atomic.read_regular(path))
        _require_schema(content)
        del content["kind"], content["schema_version"]
        # Cells of versions without `leave_out` score all stations.
        fields = {"leave_out": 0, **{name: content.pop(name) for name in Task.__dataclass_fields__ if name in content}}
        task = Task(**{**fields, "overrides": tuple(fields["overrides"])})
        statistics = ErrorStatistics.from_dict(content.pop("statistics"))
        require_agreement(statistics, content["scores"])
        return Cell(task, content.pop("settings"), content, statistics)
    except (OSError, atomic.NotRegularFileError, ValueError, RecursionError) as problem:
        raise CorruptArtefactError(
            f"{path.name} is no finished cell of a benchmark: {problem}", code="SPDE-B012", where=str(path),
            do="remove it: the same command computes it again",
        ) from None  # fmt: skip


def _require_schema(content: Any) -> None:
    try:
        CellFile.model_validate(content)
    except ValidationError as problem:
        error = problem.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"`{'.'.join(str(part)[:80] for part in error['loc'])}`: {error['msg']}") from None


def data_facts(source: WindowSource, name: str, starts: Any) -> dict[str, Any]:
    """Return the facts of the record and its split that tables show."""
    series, split = source.series, source.windows.split
    borders = {part: [format_time(int(series.time[i])) for i in _ends(split.bounds(part))] for part in
               ("train", "val", "test")}  # fmt: skip
    return {
        "name": name,
        "fingerprint": source.fingerprint,
        "stations": len(series.stations),
        "steps": len(series),
        "step_seconds": series.step_seconds,
        "split": borders,
        "shares": list(split.shares),
        "windows": {**source.windows.counts(), "test": len(starts)},
        "altitude_m": [float(f"{x:.6g}") for x in np.asarray(series.stations.alt)],
    }


def _ends(bounds: tuple[int, int]) -> tuple[int, int]:
    return bounds[0], max(bounds[0], bounds[1] - 1)


def versions() -> dict[str, str]:
    """Return the versions of packages that the numbers depend on."""
    versions = {"stationpde": stationpde.__version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scipy", "scores", "neuralforecast", "lightgbm"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@lru_cache(maxsize=1)
def commit() -> str | None:
    """Return the commit of the source tree, with ``+`` if it was changed since; None outside a git tree."""
    git, here = shutil.which("git"), Path(stationpde.__file__).resolve().parents[1]
    if git is None or not (here / ".git").exists():
        return None
    commands = (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "stationpde", "fields", "pde_ops"])
    try:
        outputs = [_output_of([git, "-C", str(here), *words]) for words in commands]
    except (OSError, subprocess.SubprocessError):
        return None
    return outputs[0].strip() + ("+" if outputs[1].strip() else "")


def _output_of(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.9g}") if np.isfinite(value) else None
    return value
