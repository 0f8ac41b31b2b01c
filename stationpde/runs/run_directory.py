"""A run on disk: its configuration, its checkpoints and its result, and the rules for resuming it.

``config.toml`` and ``run.json`` (what the run is), ``metrics.jsonl``, ``checkpoints/``, ``best.json`` (the name of the
best checkpoint), ``result.json`` (once training is done), ``calibration.json`` (once it is calibrated), ``lock``.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic
from stationpde.errors import ConfigError, CorruptArtefactError, UsageError
from stationpde.runs import checkpoint_files, ownership
from stationpde.runs.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["RunDirectory", "find_runs"]

log = logging.getLogger(__name__)

# Keys that may change between two starts of the same run: they do not change what is computed.
FREE_KEYS = ("train.threads", "train.checkpoint_every", "train.calibrate")


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = atomic.as_path(path)
        self.config = self.path / "config.toml"
        self.record_path = self.path / "run.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.best_path = self.path / "best.json"
        self.result_path = self.path / "result.json"
        self.calibration_path = self.path / "calibration.json"
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
        from stationpde.runs.schemas import RunRecord, require_schema

        record = read_sealed(self.record_path)
        require_schema(RunRecord, record, self.record_path)
        return record

    def stored_config(self) -> Config:
        """Read the configuration that the run was begun with.

        Raises
        ------
        ConfigError
            If this version cannot read it.
        CorruptArtefactError
            If it is not the one whose hash and seed the record holds.
        """
        from stationpde.config import Config

        record = self.record()
        config = Config.from_saved(record["config"], where=str(self.record_path))
        facts = {"config_hash": config.hash(), "seed": config.train.seed}
        for name, value in facts.items():
            if record.get(name) not in (None, value):
                raise CorruptArtefactError(
                    f"run.json contradicts itself: `{name}` is not that of its configuration", code="SPDE-T057",
                    where=str(self.record_path),
                    do="restore it from a copy, or train the run again in another directory",
                )  # fmt: skip
        return config

    def warn_of_edited_config(self) -> None:
        """Tell of a ``config.toml`` that differs from the record, which alone counts."""
        from stationpde.config import leaves, read_toml, without_none

        recorded = dict(leaves(without_none(self.record()["config"])))
        try:
            written = dict(leaves(read_toml(self.config)))
        except ConfigError as problem:
            log.warning("%s: %s; run.json has the configuration and is used", self.config, problem.message)
            return
        keys = sorted(key for key in {*recorded, *written} if recorded.get(key) != written.get(key))
        if keys:
            log.warning(
                "%s was edited (%s) and does not count: the run has the configuration of run.json; "
                "train in another directory with the edited file as -c", self.config, ", ".join(keys[:5]),
            )  # fmt: skip

    def require_same(self, config: Config, data_fingerprint: str, do: str) -> None:
        """Refuse to resume with another configuration or other data.

        Raises
        ------
        ConfigError
            With the difference, key by key.
        CorruptArtefactError
            If the data changed.
        """
        self.warn_of_edited_config()
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
        from stationpde.runs.schemas import BestRecord, require_schema

        if not self.best_path.exists():
            return None
        best = read_sealed(self.best_path)
        require_schema(BestRecord, best, self.best_path)
        return best

    def result(self) -> dict[str, Any] | None:
        """Read the result of the finished run, with paths where the run now is; None while it is not finished."""
        from stationpde.runs.schemas import ResultRecord, require_schema

        if not self.result_path.exists():
            return None
        result = read_sealed(self.result_path)
        require_schema(ResultRecord, result, self.result_path)
        best = self.best()
        if best is not None and result["best"] is not None:
            same = best["checkpoint"] == Path(result["best"]).name and best["score"] == result["score"]
            if not same or best.get("variables") != result["validation"]:
                raise CorruptArtefactError(
                    "result.json is not the result of the checkpoint that best.json names", code="SPDE-T057",
                    where=str(self.result_path), do=f"stationpde run verify {shlex.quote(str(self.path))}",
                )  # fmt: skip
        here = {key: self.checkpoints / Path(result[key]).name for key in ("checkpoint", "best") if result[key]}
        return {**result, "run": str(self.path), **{key: str(path) for key, path in here.items()}}

    def verify(self, path: Path) -> dict[str, Any]:
        """Verify a checkpoint: inside the run, whole, and of the run's configuration, data and seed.

        Returns
        -------
        Its manifest.

        Raises
        ------
        CorruptArtefactError
            If it is damaged, elsewhere, or of another run.
        """
        return self._verified(path, self.record())

    def _verified(self, path: Path, record: Mapping[str, Any]) -> dict[str, Any]:
        ownership.require_inside(path, self.path)
        manifest = checkpoint_files.verify(path)
        ownership.require_own(manifest, record, path, self.path)
        return manifest

    def newest_valid(self) -> Path | None:
        """Return the newest intact checkpoint, with a warning for every newer damaged one; None if there is none.

        Raises
        ------
        CorruptArtefactError
            If all checkpoints are damaged, or one that was looked at is of another run.
        """
        if not checkpoint_files.listed(self.checkpoints):
            return None
        record = self.record()
        return checkpoint_files.newest_valid(self.checkpoints, lambda path: self._verified(path, record))

    def checkpoint(self, which: str = "best") -> Path:
        """Return the checkpoint to use, verified: ``best`` (else the last), ``last``, or ``step-N``.

        Raises
        ------
        UsageError
            If there is no checkpoint of that name.
        CorruptArtefactError
            If it is damaged, of another run, or there is none.
        """
        if which not in ("best", "last"):
            path = self._named(which)
            self.verify(path)
            return path
        best = self.best() if which == "best" else None
        newest = self.newest_valid() if best is None else self._best_valid(best)
        if newest is None:
            raise CorruptArtefactError(
                "there is no checkpoint", where=str(self.path),
                do=f"stationpde train … --run {shlex.quote(str(self.path))}",
            )  # fmt: skip
        return newest

    def _best_valid(self, best: Mapping[str, Any]) -> Path | None:
        """Return the best checkpoint, or the newest with a warning where the best is damaged."""
        path = self.checkpoints / str(best["checkpoint"])
        record = self.record()
        try:
            self._verified(path, record)
        except CorruptArtefactError as problem:
            if problem.code == ownership.FOREIGN:
                raise
            log.warning("the best checkpoint cannot be used (%s); taking the newest that can", problem.message)
            return self.newest_valid()
        self.require_best(best)
        return path

    def require_best(self, best: Mapping[str, Any]) -> None:
        """Refuse a best.json that is not what the checkpoint holds that it names; one that is damaged holds nothing.

        Raises
        ------
        CorruptArtefactError
        """
        state = atomic.read_json(self.checkpoints / str(best["checkpoint"]) / "state.json")
        if isinstance(state, dict) and state.get("best") != best:
            raise CorruptArtefactError(
                f"best.json is not what {best['checkpoint']} holds as the best", code="SPDE-T057",
                where=str(self.best_path), do=f"stationpde run verify {shlex.quote(str(self.path))}",
            )  # fmt: skip

    def _named(self, which: str) -> Path:
        """Return the checkpoint of a name that is in the run's folder."""
        names = [path.name for path in checkpoint_files.listed(self.checkpoints)]
        listed = ", ".join(["best", "last", *names])
        if not isinstance(which, str) or not checkpoint_files.is_checkpoint_name(which):
            raise UsageError(
                f"'{which}' is no name of a checkpoint; this run has {listed}", code="SPDE-T058",
                where=str(self.path), do="--checkpoint best",
            )  # fmt: skip
        if which not in names:
            raise CorruptArtefactError(
                f"there is no checkpoint {which}; this run has {listed}", where=str(self.path), do="--checkpoint best"
            )
        return self.checkpoints / which

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
