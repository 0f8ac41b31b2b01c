"""A run on disk: its configuration, its checkpoints and its result, and the rules for resuming it.

``config.toml`` and ``run.json`` (what the run is), ``metrics.jsonl``, ``checkpoints/``, ``best.json`` (the name of the
best checkpoint), ``result.json`` (once training is done), ``lock``.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic
from stationpde.errors import ConfigError, CorruptArtefactError, UsageError
from stationpde.runs import checkpoint_files
from stationpde.runs.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["RunDirectory", "find_runs"]

log = logging.getLogger(__name__)

# Keys that may change between two starts of the same run: they do not change what is computed.
FREE_KEYS = ("train.threads", "train.checkpoint_every")


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.toml"
        self.record_path = self.path / "run.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.best_path = self.path / "best.json"
        self.result_path = self.path / "result.json"
        self.lock = self.path / "lock"

    @property
    def exists(self) -> bool:
        """Whether the directory holds a run.

        Raises
        ------
        UsageError
            If something else is in the directory.
        ResourceError
            If this user may not enter the directory or one above it.
        """
        with atomic.machine_faults(self.path):
            return self._exists()

    def _exists(self) -> bool:
        if self.record_path.exists() or checkpoint_files.listed(self.checkpoints):
            return True
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(
                f"{self.path} is no directory", code="SPDE-T001", do="choose another directory for the run"
            )
        # Files that a start leaves behind when it is killed early; `data` is the store of a raw file.
        ours = {"config.toml", "lock", "lock.json", "checkpoints", "metrics.jsonl"}
        foreign = [p.name for p in self.path.iterdir() if p.name not in ours] if self.path.is_dir() else []
        foreign = [name for name in foreign if not name.startswith((".", "data", "seed-"))]
        if foreign:
            raise UsageError(
                f"{self.path} exists and is no run (it holds {', '.join(sorted(foreign)[:3])})",
                code="SPDE-T001",
                do="choose another directory for the run",
            )
        return False

    def create(self, config: Config, about: Mapping[str, Any]) -> None:
        """Write the configuration and the record; ``run.json`` comes last and makes the directory a run."""
        with atomic.machine_faults(self.path):
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            atomic.write_file(self.config, config.to_toml().encode())
        write_sealed(self.record_path, {**about, "config": config.tree()})

    def record(self) -> dict[str, Any]:
        """Read the record: the configuration under ``config``, and the circumstances of the start."""
        return read_sealed(self.record_path)

    def stored_config(self) -> Config:
        """Read the configuration that the run was begun with."""
        from stationpde.config import Config

        return Config.from_saved(self.record()["config"], where=str(self.record_path))

    def require_same(self, config: Config, data_fingerprint: str, do: str) -> None:
        """Refuse to resume with another configuration or other data.

        Raises
        ------
        ConfigError
            With the difference, key by key.
        CorruptArtefactError
            If the data changed.
        """
        record = self.record()
        changed = [line for line in self.stored_config().diff(config) if line.partition(":")[0] not in FREE_KEYS]
        if changed:
            listed = "\n".join(f"  {line}" for line in changed)
            raise ConfigError(
                f"the run was begun with another configuration:\n{listed}",
                code="SPDE-C010",
                where=str(self.path),
                do=do,
            )
        if record["data_fingerprint"] != data_fingerprint:
            raise CorruptArtefactError(
                f"the run was begun with other data: fingerprint {record['data_fingerprint'][:12]} then, "
                f"{data_fingerprint[:12]} now",
                code="SPDE-T051",
                where=str(self.path),
                do=do,
            )

    def best(self) -> dict[str, Any] | None:
        """Read name, step and score of the best checkpoint; None before the first validation."""
        return read_sealed(self.best_path) if self.best_path.exists() else None

    def result(self) -> dict[str, Any] | None:
        """Read the result of the finished run; None while it is not finished."""
        return read_sealed(self.result_path) if self.result_path.exists() else None

    def checkpoint(self, which: str = "best") -> Path:
        """Return the checkpoint to use, verified: ``best`` (else the last), ``last``, or ``step-N``.

        Raises
        ------
        CorruptArtefactError
            If it is damaged or there is none.
        """
        path: Path | None
        if which == "best" and (best := self.best()) is not None:
            path = self.checkpoints / str(best["checkpoint"])
            try:
                checkpoint_files.verify(path)
            except CorruptArtefactError as problem:
                log.warning("the best checkpoint cannot be used (%s); taking the newest that can", problem.message)
                path = checkpoint_files.newest_valid(self.checkpoints)
        elif which.startswith("step-"):
            path = self.checkpoints / which
            checkpoint_files.verify(path)
        else:
            path = checkpoint_files.newest_valid(self.checkpoints)
        if path is None:
            raise CorruptArtefactError(
                "there is no checkpoint", where=str(self.path),
                do=f"stationpde train … --run {shlex.quote(str(self.path))}",
            )  # fmt: skip
        return path

    def forks(self) -> RunDirectory:
        """Return a directory beside this one that does not exist yet: ``NAME-2``, ``NAME-3`` …"""
        number = 2
        while (beside := self.path.with_name(f"{self.path.name}-{number}")).exists():
            number += 1
        return RunDirectory(beside)


def find_runs(folder: Path) -> list[RunDirectory]:
    """List the runs in a directory and up to two levels below it."""
    paths = {path.parent for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}run.json")}
    return [RunDirectory(path) for path in sorted(paths)]
