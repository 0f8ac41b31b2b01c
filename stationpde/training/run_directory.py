"""A run on disk: what was asked for, what came of it, and how to go on.

``config.toml`` and ``run.json`` (what the run is), ``metrics.jsonl``, ``checkpoints/``, ``best.json`` (the name of the
best checkpoint), ``result.json`` (once training is done), ``lock``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic
from stationpde.errors import ConfigError, CorruptArtefactError, UsageError
from stationpde.training import checkpoint_files
from stationpde.training.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["RunDirectory", "find_runs"]

log = logging.getLogger(__name__)

# May change between two starts of the same run: they decide how it computes, not what.
FREE_KEYS = ("train.workers", "train.threads", "train.checkpoint_every", "train.collective_timeout")


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
        """Whether a run was begun here.

        Raises
        ------
        UsageError
            If something else is in the directory.
        ResourceError
            If the directory, or the way to it, is closed to this user.
        """
        with atomic.machine_faults(self.path):
            return self._exists()

    def _exists(self) -> bool:
        if self.record_path.exists() or checkpoint_files.listed(self.checkpoints):
            return True
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is no directory", do="choose another --run")
        # What a start that was killed early leaves behind; `data` is the store of a raw file.
        ours = {"config.toml", "lock", "lock.json", "checkpoints", "metrics.jsonl"}
        foreign = [p.name for p in self.path.iterdir() if p.name not in ours] if self.path.is_dir() else []
        foreign = [name for name in foreign if not name.startswith((".", "data", "seed-"))]
        if foreign:
            raise UsageError(
                f"{self.path} exists and is no run (it holds {', '.join(sorted(foreign)[:3])})",
                do="choose another --run",
            )
        return False

    def create(self, config: Config, about: Mapping[str, Any]) -> None:
        """Write down what the run is; ``run.json`` comes last and makes it one."""
        with atomic.machine_faults(self.path):
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            atomic.write_file(self.config, config.to_toml().encode())
        write_sealed(self.record_path, {**about, "config": config.tree()})

    def record(self) -> dict[str, Any]:
        """What the run is: its configuration under ``config``, and the circumstances of its start."""
        return read_sealed(self.record_path)

    def stored_config(self) -> Config:
        """The configuration that the run was begun with."""
        from stationpde.config import Config

        return Config.parse(self.record()["config"], where=str(self.record_path))

    def require_same(self, config: Config, data_fingerprint: str, do: str) -> None:
        """Refuse to go on with another configuration or other data.

        Raises
        ------
        ConfigError
            With the difference, key by key.
        CorruptArtefactError
            If the data changed.
        """
        before = self.record()
        changed = [line for line in self.stored_config().diff(config) if line.partition(":")[0] not in FREE_KEYS]
        if changed:
            listed = "\n".join(f"  {line}" for line in changed)
            raise ConfigError(
                f"the run was begun with another configuration:\n{listed}",
                code="SPDE-C010",
                where=str(self.path),
                do=do,
            )
        if before["data_fingerprint"] != data_fingerprint:
            raise CorruptArtefactError(
                f"the run was begun with other data: fingerprint {before['data_fingerprint'][:12]} then, "
                f"{data_fingerprint[:12]} now",
                code="SPDE-T051",
                where=str(self.path),
                do=do,
            )

    def best(self) -> dict[str, Any] | None:
        """Name, step and score of the best checkpoint; None before the first validation."""
        return read_sealed(self.best_path) if self.best_path.exists() else None

    def result(self) -> dict[str, Any] | None:
        """What the finished run gave; None while it is not finished."""
        return read_sealed(self.result_path) if self.result_path.exists() else None

    def checkpoint(self, which: str = "best") -> Path:
        """The checkpoint to use: ``best`` (else the last), ``last``, or ``step-N``; proven.

        Raises
        ------
        CorruptArtefactError
            If it is damaged or there is none.
        """
        found: Path | None
        if which == "best" and (best := self.best()) is not None:
            found = self.checkpoints / str(best["checkpoint"])
            try:
                checkpoint_files.verify(found)
            except CorruptArtefactError as problem:
                log.warning("the best checkpoint cannot be used (%s); taking the newest that can", problem.message)
                found = checkpoint_files.newest_valid(self.checkpoints)
        elif which.startswith("step-"):
            found = self.checkpoints / which
            checkpoint_files.verify(found)
        else:
            found = checkpoint_files.newest_valid(self.checkpoints)
        if found is None:
            raise CorruptArtefactError(
                "there is no checkpoint", where=str(self.path), do=f"stationpde train … --run {self.path}"
            )
        return found

    def forks(self) -> RunDirectory:
        """A directory beside this one that does not exist yet: ``NAME-2``, ``NAME-3`` …"""
        number = 2
        while (beside := self.path.with_name(f"{self.path.name}-{number}")).exists():
            number += 1
        return RunDirectory(beside)


def find_runs(folder: Path) -> list[RunDirectory]:
    """The runs in a directory and in the directories right below it and below those."""
    found = {path.parent for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}run.json")}
    return [RunDirectory(path) for path in sorted(found)]
