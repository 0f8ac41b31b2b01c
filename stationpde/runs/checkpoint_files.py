"""Checkpoints as directories: naming, listing, verifying and removing, without reading a tensor.

``checkpoints/step-120/`` holds ``model.safetensors`` (the weights to use), ``optim.safetensors`` (what training needs
besides), ``state.json`` and ``manifest.json``, which has size and SHA-256 of the others. It appears by one rename.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from fields.atomic import open_regular
from stationpde.errors import CorruptArtefactError
from stationpde.runs.ownership import FOREIGN
from stationpde.runs.sealed import read_sealed

__all__ = [
    "FILES",
    "MANIFEST",
    "SCHEMA_VERSION",
    "clear_scratch",
    "file_hash",
    "is_checkpoint_name",
    "listed",
    "name_of",
    "newest_valid",
    "prune",
    "step_of",
    "verify",
]

log = logging.getLogger(__name__)

FILES = ("model.safetensors", "optim.safetensors", "state.json")
MANIFEST = "manifest.json"
SCHEMA_VERSION = 1
_NAME = re.compile(r"step-([0-9]{1,15})")


def name_of(step: int) -> str:
    """Return the directory name of a checkpoint after ``step`` steps."""
    return f"step-{step}"


def is_checkpoint_name(name: str) -> bool:
    """Return whether a name is one that checkpoints have: ``step-N``."""
    return _NAME.fullmatch(name) is not None


def step_of(path: Path) -> int:
    """Read the step from the name of a checkpoint."""
    match = _NAME.fullmatch(path.name)
    if not match:
        raise CorruptArtefactError(f"'{path.name}' is not the name of a checkpoint", where=str(path))
    return int(match[1])


def listed(folder: Path) -> list[Path]:
    """List the checkpoints of a run, oldest step first; the order is by step, never by time."""
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir()), key=step_of)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path) -> dict[str, Any]:
    """Verify every byte of a checkpoint and return its manifest.

    Raises
    ------
    CorruptArtefactError
        With the name of the file that is damaged, missing or not expected, or the version that cannot be read.
    """
    from stationpde.runs.schemas import CheckpointManifest, require_schema

    manifest = read_sealed(path / MANIFEST)
    version, versions = manifest.get("schema_version"), manifest.get("versions")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        needed = str(versions.get("stationpde")) if isinstance(versions, dict) else ""
        needed = needed if re.fullmatch(r"[0-9][0-9a-z.+]{0,40}", needed) else ""
        raise CorruptArtefactError(
            f"{path.name} has schema version {version}, this stationpde reads up to {SCHEMA_VERSION}",
            code="SPDE-T053",
            where=str(path),
            do=f"install stationpde {needed} or later" if needed else "pip install --upgrade stationpde",
        )
    require_schema(CheckpointManifest, manifest, path / MANIFEST)
    if manifest["step"] != step_of(path):
        raise CorruptArtefactError(f"{path.name} holds step {manifest.get('step')}", where=str(path))
    if {entry.name for entry in path.iterdir()} != {MANIFEST, *FILES}:
        raise CorruptArtefactError(f"{path.name} does not hold the files of a checkpoint", where=str(path))
    for name in FILES:
        about = manifest["files"].get(name)
        if about is None:
            raise CorruptArtefactError(f"the manifest of {path.name} does not list {name}", where=str(path))
        if not (path / name).is_file():
            raise CorruptArtefactError(f"{name} of {path.name} is no regular file", where=str(path / name))
        size = (path / name).stat().st_size
        if size != about["bytes"]:
            raise CorruptArtefactError(
                f"{name} of {path.name} has {size:,} bytes instead of {about['bytes']:,}", where=str(path / name)
            )
        if file_hash(path / name) != about["sha256"]:
            raise CorruptArtefactError(
                f"{name} of {path.name} is damaged: its SHA-256 does not fit", where=str(path / name)
            )
    return manifest


def newest_valid(folder: Path, check: Callable[[Path], Any] = verify) -> Path | None:
    """Return the newest intact checkpoint, with a warning for every newer damaged one; None if there is none.

    Parameters
    ----------
    folder : directory of the checkpoints of a run
    check : raises for a checkpoint that cannot be used

    Raises
    ------
    CorruptArtefactError
        If there are checkpoints and all of them are damaged, or one of them is of another run.
    """
    checkpoints = listed(folder)
    for path in reversed(checkpoints):
        try:
            check(path)
        except CorruptArtefactError as problem:
            if problem.code == FOREIGN:
                raise
            log.warning("%s: %s; going back to the one before", path, problem.message)
            continue
        return path
    if checkpoints:
        raise CorruptArtefactError(
            f"all {len(checkpoints)} checkpoints are damaged", where=str(folder),
            do="restore one from a copy, or start a new run in another directory",
        )  # fmt: skip
    return None


def clear_scratch(folder: Path) -> None:
    """Remove unfinished directories that a killed writer left beside the checkpoints."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if ".tmp-" in path.name and path.is_dir():
            log.info("removing the unfinished %s", path)
            shutil.rmtree(path, ignore_errors=True)


def prune(folder: Path, keep_last: int = 2, keep: Collection[str] = ()) -> list[Path]:
    """Remove all but the newest checkpoints and those named in ``keep``; return the removed paths."""
    removed = [path for path in listed(folder)[:-keep_last] if path.name not in keep]
    for path in removed:
        # Under another name first: a kill in mid-removal must not leave something that looks like a damaged checkpoint.
        aside = path.with_name(f"{path.name}.tmp-removed")
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    return removed
