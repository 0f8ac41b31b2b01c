"""Export: a run as programs that run without this package, checked against the model before they appear.

`programs` has the programs and how they are traced; `rollout` the loop that runs them, for either format.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import stationpde
from fields import atomic
from fields.variables import STATE_VARIABLES, cf_attributes
from stationpde.errors import CorruptArtefactError, ResourceError, UsageError
from stationpde.forecasting.places import with_altitudes
from stationpde.forecasting.programs import Format, Program, programs_of, write_programs
from stationpde.forecasting.rollout import ABOUT, Rollout, seal_of
from stationpde.model import StationPDEModel
from stationpde.physics import DAY, clipped, to_observed
from stationpde.runs import LoadedRun

__all__ = ["FORMATS", "TOLERANCES", "ExportResult", "Rollout", "export_run"]

FORMATS: tuple[Format, ...] = ("pt2", "onnx")
# Largest difference from the eager model that is accepted, relative to the range of each variable.
TOLERANCES = {"pt2": 1e-4, "onnx": 1e-3}
_PACKAGES = {"onnx": ("onnx", "onnxscript")}
# Issue time of the example window, after the first time of the climatology.
_EXAMPLE_DAYS = 30


@dataclass(frozen=True, slots=True)
class ExportResult:
    """Folder and files of the programs, and their largest difference from the eager model."""

    path: Path
    format: str
    difference: float
    tolerance: float
    files: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "path": str(self.path), "format": self.format, "difference": self.difference,
            "tolerance": self.tolerance, "files": list(self.files),
        }  # fmt: skip


def export_run(
    run: LoadedRun, output: str | Path, kind: Format = "pt2", *, stations: Any = None, force: bool = False
) -> ExportResult:
    """Write the programs of a run into a directory, which appears when they agree with the model.

    Parameters
    ----------
    run : loaded with ``backend="torch"``: the fused kernels are compiled for this machine
    output : directory of four programs, ``analysis.pt2`` (or ``.onnx``) …, and ``export.json``, which describes them
    kind : ``pt2`` (`torch.export`) or ``onnx``
    stations : of the programs; those of training by default
    force : replace an export that is already at ``output``
    """
    target = Path(output)
    _refuse(target, kind, force)
    model = run.model if stations is None else run.model.at(with_altitudes(run.model, stations))
    history, issue_time = example_window(model)
    programs = programs_of(model, history, issue_time)
    scratch = atomic.scratch_beside(target)
    with atomic.machine_faults(target), torch.no_grad():
        atomic.write_probe(target.parent)
        scratch.mkdir()
        try:
            write_programs(programs, scratch, kind)
            _write_about(run, model, programs, scratch, kind)
            difference = parity(model, Rollout.load(scratch), history, issue_time)
            if not difference <= TOLERANCES[kind]:
                raise CorruptArtefactError(
                    f"the exported program is off by {difference:.1e} (allowed {TOLERANCES[kind]:g})",
                    code="SPDE-T101", where=str(target), do="use the other format, or report this with the versions",
                )  # fmt: skip
            files = tuple(sorted(p.name for p in scratch.iterdir()))
            atomic.fsync_tree(scratch)
            atomic.publish(scratch, target, replace=force)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return ExportResult(target, kind, difference, TOLERANCES[kind], files)


def example_window(model: StationPDEModel, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw a plausible history with gaps at the model's stations; also return its issue time."""
    data, sites = model.config.data, model.sites
    issue_time = model.statistics.climatology.origin + _EXAMPLE_DAYS * int(DAY)
    times = issue_time + data.step_seconds * torch.arange(1 - data.history, 1)
    statistics, _ = model.statistics.at(sites.stations)
    mean = torch.as_tensor(statistics.climatology.at(times.numpy()))
    drawn = torch.Generator().manual_seed(seed)
    noise = 0.5 * torch.randn(mean.shape, generator=drawn) * torch.as_tensor(statistics.station_std, dtype=mean.dtype)
    observed = clipped(to_observed((mean + noise).float()))
    missing = torch.rand(observed.shape[:-1], generator=drawn) < 0.1
    return observed.masked_fill(missing[..., None], torch.nan)[None], torch.tensor([issue_time])


def parity(model: StationPDEModel, rollout: Rollout, history: Tensor, issue_time: Tensor) -> float:
    """Return the largest difference of a rollout from the model, relative to the range of each variable."""
    expected = clipped(model(history, issue_time).observed)
    difference = (rollout(history, issue_time) - expected).abs()
    size = (expected.amax(dim=(0, 1, 2)) - expected.amin(dim=(0, 1, 2))).clamp(min=1e-6)
    return float((difference / size).max())


def _refuse(target: Path, kind: str, force: bool) -> None:
    if kind not in FORMATS:
        raise UsageError(f"no format '{kind}'", code="SPDE-T099", do=f"--format {' or '.join(FORMATS)}")
    if target.exists() and not (target / ABOUT).is_file():
        raise UsageError(f"{target} exists and is no export, --force does not replace it", code="SPDE-T098",
                         do="choose another output")  # fmt: skip
    if target.exists() and not force:
        raise UsageError(f"{target} exists", code="SPDE-T098", do="add --force (in Python: force=True) to replace it")
    missing = [name for name in _PACKAGES.get(kind, ()) if find_spec(name) is None]
    if missing:
        raise ResourceError(
            f"the format {kind} needs {', '.join(missing)}", code="SPDE-T100", do="pip install 'stationpde[export]'"
        )


def _write_about(
    run: LoadedRun, model: StationPDEModel, programs: Mapping[str, Program], folder: Path, kind: str
) -> None:
    data, stations = model.config.data, model.sites.stations
    about = {
        "format": kind,
        "stationpde": stationpde.__version__,
        "torch": str(torch.__version__),
        **{name: value for name, value in run.about().items() if name != "run"},
        "step_seconds": data.step_seconds,
        "history": data.history,
        "horizon": data.horizon,
        "substeps": model.config.substeps,
        "programs": {
            name: {"inputs": list(program.inputs), "outputs": list(program.outputs)}
            for name, program in programs.items()
        },
        "variables": {name: cf_attributes(name)["units"] for name in STATE_VARIABLES},
        "stations": {
            "id": list(stations.id),
            **{name: np.asarray(getattr(stations, name)).tolist() for name in ("lat", "lon", "alt")},
        },
        "sha256": {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())},
    }
    sealed = {**about, "about_sha256": seal_of(json.loads(json.dumps(about)))}
    (folder / ABOUT).write_text(json.dumps(sealed, indent=1), encoding="utf-8")
