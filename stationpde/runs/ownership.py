"""Whether a checkpoint is of the run in whose folder it lies: its place, configuration, data and seed."""

from __future__ import annotations

import copy
import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stationpde.errors import ConfigError, CorruptArtefactError

__all__ = ["FOREIGN", "require_inside", "require_own", "require_own_calibration"]

FOREIGN = "SPDE-T056"
"""Code of a checkpoint that is intact and of another run: it is refused, never skipped."""

_NAMES = {"config_hash": "configuration", "data_fingerprint": "data", "seed": "seed"}
# `train.checkpoint_every` up to which manifests of resumed runs are recognised that hold a hash of their own.
_MOST_EVERY = 1000


def require_inside(checkpoint: Path, run: Path) -> None:
    """Refuse a checkpoint that is a link out of its run, or holds one.

    Raises
    ------
    CorruptArtefactError
    """
    home = run.resolve()
    for path in (checkpoint, *(checkpoint.iterdir() if checkpoint.is_dir() else ())):
        if not path.resolve().is_relative_to(home):
            raise CorruptArtefactError(
                f"{path.relative_to(run)} leads out of the run, to {path.resolve()}", code="SPDE-T056", where=str(path),
                do=f"{_verify(run)}   names what is not the run's; put the files themselves there",
            )  # fmt: skip


def require_own(manifest: Mapping[str, Any], record: Mapping[str, Any], checkpoint: Path, run: Path) -> None:
    """Refuse a checkpoint whose configuration, data or seed is not the run's; facts that are in one alone count not.

    Raises
    ------
    CorruptArtefactError
    """
    for key, name in _NAMES.items():
        here, there = record.get(key), manifest.get(key)
        if here is None or there is None or here == there or (key == "config_hash" and _is_resumed(manifest, record)):
            continue
        raise CorruptArtefactError(
            f"{checkpoint.name} is of another run: {name} {str(there)[:12]}, that of this run is {str(here)[:12]}",
            code="SPDE-T056", where=str(checkpoint),
            do=f"{_verify(run)}   names what is not the run's; move that away",
        )  # fmt: skip


def require_own_calibration(content: Mapping[str, Any], record: Mapping[str, Any], path: Path, do: str) -> None:
    """Refuse a calibration of another run: one whose configuration, data or seed is not that of ``run.json``.

    Raises
    ------
    CorruptArtefactError
    """
    facts = content.get("facts")
    for key, name in _NAMES.items():
        here, there = record.get(key), facts.get(key) if isinstance(facts, Mapping) else None
        if here is not None and there is not None and here != there:
            raise CorruptArtefactError(
                f"{path.name} is of another run: its {name} is not that of run.json", code="SPDE-Q002",
                where=str(path), do=do,
            )  # fmt: skip


def _verify(run: Path) -> str:
    return f"stationpde run verify {shlex.quote(str(run))}"


def _is_resumed(manifest: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Return whether a hash is that of the run's configuration but for the keys that may change at a resumption.

    Versions before 0.1 wrote the hash of the configuration that a run was resumed with.
    """
    from stationpde.config import Config

    try:
        identity = Config.from_saved(record["config"]).identity()
    except (ConfigError, KeyError):
        return False
    return any(digest == manifest["config_hash"] for digest in _hashes(identity, manifest.get("threads")))


def _hashes(identity: dict[str, Any], threads: Any) -> Iterator[str]:
    tree = copy.deepcopy(identity)
    train = tree["train"]
    every_saved = train["checkpoint_every"]
    for count in dict.fromkeys((train["threads"], threads, 0)):
        for every in (every_saved, *range(1, _MOST_EVERY)):
            train["threads"], train["checkpoint_every"] = count, every
            yield hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
