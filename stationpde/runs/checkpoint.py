"""Write and read checkpoints: staged, made durable, read back and verified, then renamed into place as a whole."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fields import atomic
from stationpde.errors import CorruptArtefactError
from stationpde.runs import checkpoint_files as files
from stationpde.runs.sealed import read_plain, sealed
from stationpde.runs.tensor_file import encode, read_tensors

__all__ = ["Checkpoint", "load_weights", "read_checkpoint", "weights_sha256", "write_checkpoint"]


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """All that training needs to resume.

    Attributes
    ----------
    step : number of steps that were trained
    model : the weights to use, averaged where there is an average, and all buffers
    optim : tensors of the optimiser; where there is an average also the weights that are being trained, as ``raw/NAME``
    state : plain values: counters of steps and validations, the best one, scale of the rate, tally of skipped steps
    """

    step: int
    model: Mapping[str, Tensor]
    optim: Mapping[str, Tensor]
    state: Mapping[str, Any]


def weights_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 over names, types, shapes and bytes of tensors, in order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # A scalar has no last dimension to split into bytes.
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def write_checkpoint(folder: Path, content: Checkpoint, about: Mapping[str, Any]) -> Path:
    """Write ``folder/step-N``; on any failure the older checkpoints stay and the unfinished one is removed.

    Parameters
    ----------
    folder : directory of the checkpoints of a run
    content : weights, further tensors and plain values to write
    about : facts for the manifest: versions, threads, world, seed, configuration and data
    """
    contents = {
        "model.safetensors": encode(content.model),
        "optim.safetensors": encode(content.optim),
        "state.json": json.dumps(dict(content.state), sort_keys=True, allow_nan=False).encode(),
    }
    entries = {name: {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()} for name, raw in contents.items()}
    manifest = {
        **about,
        "kind": "checkpoint",
        "schema_version": files.SCHEMA_VERSION,
        "step": content.step,
        "files": entries,
    }
    contents[files.MANIFEST] = sealed(manifest)
    target = folder / files.name_of(content.step)
    scratch = atomic.scratch_beside(target)
    needed = sum(map(len, contents.values()))
    try:
        with atomic.machine_faults(target, needed):
            _write_staged(scratch, target, contents)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _write_staged(scratch: Path, target: Path, contents: Mapping[str, bytes]) -> None:
    scratch.mkdir(parents=True)
    for name, raw in contents.items():
        (scratch / name).write_bytes(raw)
    atomic.fsync_tree(scratch)
    for name, raw in contents.items():
        if files.file_hash(scratch / name) != hashlib.sha256(raw).hexdigest():
            raise CorruptArtefactError(
                f"{name} was not stored as it was written; the disk is at fault", where=str(target)
            )
    atomic.publish(scratch, target, replace=True)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint after every byte is verified.

    Raises
    ------
    CorruptArtefactError
        If a file is damaged, malicious or missing.
    """
    files.verify(path)
    state = read_plain(path / "state.json")
    model, optim = (read_tensors(path / f"{name}.safetensors") for name in ("model", "optim"))
    return Checkpoint(files.step_of(path), model, optim, state)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights to use of a checkpoint after it is verified: averaged ones where there is an average."""
    files.verify(path)
    return read_tensors(path / "model.safetensors")
