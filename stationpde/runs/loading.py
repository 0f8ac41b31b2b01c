"""Load the model of a run: every byte is verified first, nothing is unpickled."""

from __future__ import annotations

import json
import math
import shlex
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stationpde.config import Config
from stationpde.errors import ConfigError, CorruptArtefactError, FieldsError, StationPDEError, UsageError
from stationpde.model import SAVED_STATISTICS, StateStatistics, StationPDEModel, saved_statistics
from stationpde.runs.checkpoint import load_weights
from stationpde.runs.run_directory import RunDirectory, find_runs

__all__ = ["LoadedRun", "load_run"]



@dataclass(frozen=True, slots=True, eq=False)
class LoadedRun:
    """A model ready to forecast, with the run, checkpoint and record it was read from."""

    model: StationPDEModel
    path: Path
    checkpoint: str
    record: Mapping[str, Any]

    def about(self) -> dict[str, Any]:
        """Return the attributes by which a forecast names its run."""
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
    """Load the model of a run.

    Parameters
    ----------
    run : a directory that `train` wrote
    checkpoint : ``best`` (else the last), ``last``, or ``step-N``
    backend : backend of the equations, in place of the configured one; ``torch`` runs everywhere
    device : device that the model is moved to

    Raises
    ------
    UsageError
        If there is no run, or the directory is none.
    CorruptArtefactError
        If a file of it is damaged, malicious, or not a model of this kind.
    """
    directory = RunDirectory(run)
    if not directory.path.is_dir():
        raise UsageError(
            f"there is no run at {directory.path}",
            code="SPDE-T090",
            do="stationpde run list DIR   shows the runs below a directory",
        )
    _refuse_foreign(directory)
    record = directory.record()
    config = _config_of(directory, backend)
    directory.warn_of_edited_config()
    folder = directory.checkpoint(checkpoint)
    tensors = load_weights(folder)
    model = _model_of(config, tensors, folder).to(_device(device)).eval()
    model.requires_grad_(False)
    return LoadedRun(model, directory.path, folder.name, record)


def _device(name: object) -> torch.device:
    """Return the device of a name, if there is such a one here."""
    try:
        if not isinstance(name, str | torch.device):
            raise RuntimeError("it is no name")
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, ValueError):
        raise UsageError(
            f"there is no device {str(name)[:80]!r} here", code="SPDE-T001", do="give cpu as the device"
        ) from None
    return device


def _refuse_foreign(directory: RunDirectory) -> None:
    """Refuse a directory without any file of a run, and name a run below it; a damaged run is left to its reader."""
    if directory.record_path.exists() or directory.checkpoints.is_dir():
        return
    below = ", ".join(shlex.quote(str(run.path)) for run in find_runs(directory.path)[:5])
    remedy = f"name a run below it: {below}" if below else "stationpde run list DIR   shows the runs below a directory"
    raise UsageError(
        f"{directory.path} is not a run: it holds neither run.json nor checkpoints",
        code="SPDE-T090", do=remedy,
    )  # fmt: skip


def _config_of(run: RunDirectory, backend: str | None) -> Config:
    try:
        config = run.stored_config()
    except ConfigError as problem:
        # The file is intact, so another version wrote it.
        raise CorruptArtefactError(
            f"the run's configuration cannot be read by this version: {problem.message}",
            code="SPDE-T053", where=str(run.record_path), do="use the version that trained it",
        ) from problem  # fmt: skip
    return config if backend is None else config.with_overrides([f"pde.backend={backend}"])


def _model_of(config: Config, tensors: Mapping[str, Tensor], folder: Path) -> StationPDEModel:
    saved = saved_statistics(tensors)
    if not {"ids", "lat", "lon", "alt", "table", "altitude"} <= saved.keys():
        raise CorruptArtefactError(
            "the checkpoint holds no station model", code="SPDE-T054", where=str(folder),
            do="forecast and export take runs of `stationpde train`",
        )  # fmt: skip
    # Runs of versions that did not save the length of the record count as longer than any.
    tensors = {f"{SAVED_STATISTICS}.days": torch.tensor([math.inf], dtype=torch.float64), **tensors}
    try:
        model = StationPDEModel.from_tensors(config, StateStatistics.ids_in(saved), tensors)
        _require_types(model, tensors)
        return model
    except StationPDEError:
        raise
    # Intact files whose content no training wrote: any wrong shape or number leads to the same error.
    except (LookupError, ValueError, TypeError, ArithmeticError, RuntimeError, struct.error, FieldsError) as problem:
        if isinstance(problem, json.JSONDecodeError):
            reason = "its station names are unreadable"
        else:
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise CorruptArtefactError(
            f"the checkpoint does not fit its configuration: {reason}", code="SPDE-T054", where=str(folder),
            do="use it with the configuration that it was trained with",
        ) from problem  # fmt: skip


def _require_types(model: StationPDEModel, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors of another type than the model's, which torch would convert."""
    for name, value in model.state_dict().items():
        if name in tensors and value.dtype != tensors[name].dtype:
            raise TypeError(f"`{name}` is {tensors[name].dtype}, the model has {value.dtype}")
