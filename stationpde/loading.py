"""From a run on disk to the model in it: every byte proven first, nothing unpickled."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fields.errors import FieldsError
from stationpde.config import Config
from stationpde.errors import ConfigError, CorruptArtefactError, UsageError
from stationpde.model import StationPDEModel
from stationpde.statistics import StateStatistics
from stationpde.training.checkpoint import load_weights
from stationpde.training.run_directory import RunDirectory

__all__ = ["LoadedRun", "load_run"]

_KEPT = "kept."


@dataclass(frozen=True, slots=True, eq=False)
class LoadedRun:
    """A model ready to forecast, and where it comes from."""

    model: StationPDEModel
    path: Path
    checkpoint: str
    record: Mapping[str, Any]

    def about(self) -> dict[str, Any]:
        """What a forecast says of its origin."""
        config = self.model.config
        return {
            "run": str(self.path),
            "checkpoint": self.checkpoint,
            "variant": config.variant,
            "config_hash": config.hash(),
            "seed": self.record.get("seed"),
        }


def load_run(
    run: str | Path, checkpoint: str = "best", *, backend: str | None = None, device: str = "cpu"
) -> LoadedRun:
    """The model of a run.

    Parameters
    ----------
    run : a directory that `train` wrote
    checkpoint : ``best`` (else the last), ``last``, or ``step-N``
    backend : of the equations, in place of the configured one; ``torch`` runs everywhere

    Raises
    ------
    UsageError
        If there is no run.
    CorruptArtefactError
        If anything of it is damaged, hostile, or not a model of this kind.
    """
    found = RunDirectory(run)
    if not found.path.is_dir():
        raise UsageError(
            f"there is no run at {found.path}", code="SPDE-T090", do="stationpde run list shows what there is"
        )
    record = found.record()
    config = _config_of(found, record, backend)
    folder = found.checkpoint(checkpoint)
    tensors = load_weights(folder)
    model = _model_of(config, tensors, folder).to(device).eval()
    model.requires_grad_(False)
    return LoadedRun(model, found.path, folder.name, record)


def _config_of(run: RunDirectory, record: Mapping[str, Any], backend: str | None) -> Config:
    try:
        config = Config.parse(record.get("config") or {}, where=str(run.record_path))
    except ConfigError as problem:
        # The file is as it was written: another version wrote it.
        raise CorruptArtefactError(
            f"the run's configuration cannot be read by this version: {problem.message}",
            code="SPDE-T053", where=str(run.record_path), do="use the version that trained it",
        ) from problem  # fmt: skip
    return config if backend is None else config.with_overrides([f"pde.backend={backend}"])


def _model_of(config: Config, tensors: Mapping[str, Tensor], folder: Path) -> StationPDEModel:
    kept = {name.removeprefix(_KEPT): tensor for name, tensor in tensors.items() if name.startswith(_KEPT)}
    if not {"ids", "lat", "lon", "alt", "table", "altitude"} <= kept.keys():
        raise CorruptArtefactError(
            "the checkpoint holds no station model", code="SPDE-T054", where=str(folder),
            do="forecast and export take runs of `stationpde train`",
        )  # fmt: skip
    # A run of before this was kept guesses about the climatology, however short its record.
    tensors = {f"{_KEPT}days": torch.tensor([math.inf], dtype=torch.float64), **tensors}
    try:
        return StationPDEModel.from_tensors(config, StateStatistics.ids_in(kept), tensors)
    # Sound files with a content that no training wrote: whatever shape or number is wrong, the answer is the same.
    except (KeyError, ValueError, TypeError, IndexError, RuntimeError, struct.error, FieldsError) as problem:
        if isinstance(problem, json.JSONDecodeError):
            reason = "its station names are unreadable"
        else:
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise CorruptArtefactError(
            f"the checkpoint does not fit its configuration: {reason}", code="SPDE-T054", where=str(folder),
            do="use it with the configuration that it was trained with",
        ) from problem  # fmt: skip
