"""Export: a run as programs that run without this package, one for the analysis and one for a forecast step.

``analysis``: history and issue time to the initial field and what the stations remember. ``step``: field, memory, issue
time and lead to the next field and the observed variables at the stations. The loop over leads stays outside: it is
short, any horizon fits, and the programs stay small. `Rollout` is that loop, for either format.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import stationpde
from fields import atomic
from fields.variables import STATE_VARIABLES, cf_attributes
from stationpde.errors import CorruptArtefactError, ResourceError, UsageError
from stationpde.forecasting import with_altitudes
from stationpde.loading import LoadedRun
from stationpde.model import Analysis, StationPDEModel
from stationpde.state import clipped, to_observed

__all__ = ["FORMATS", "TOLERANCES", "ExportResult", "Rollout", "export_run"]

Format = Literal["pt2", "onnx"]
FORMATS: tuple[Format, ...] = ("pt2", "onnx")
# Largest difference from the eager model that is let through, relative to the spread of each variable.
TOLERANCES = {"pt2": 1e-4, "onnx": 1e-3}
_ABOUT = "export.json"
_ANALYSIS, _STEP = "analysis", "step"
_PACKAGES = {"onnx": ("onnx", "onnxscript")}

Program = Callable[..., tuple[Tensor, ...]]


class AnalysisProgram(nn.Module):
    """``history, issue_time`` to ``field, departures`` and, with a station head, ``memory``."""

    def __init__(self, model: StationPDEModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, history: Tensor, issue_time: Tensor) -> tuple[Tensor, ...]:
        """One window ``[1, time, station, variable]``."""
        found = self.model.analyse(history, issue_time)
        return (found.field, found.departures, *(() if found.memory is None else (found.memory,)))


class StepProgram(nn.Module):
    """``issue_time, lead, field, departures[, memory]`` to ``field, observed``."""

    def __init__(self, model: StationPDEModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, issue_time: Tensor, lead: Tensor, field: Tensor, departures: Tensor, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """One forecast interval; ``lead`` is a whole number in a tensor without dimensions."""
        valid = issue_time + lead * self.model.config.data.step_seconds
        later, _ = self.model.step(field, valid, lead)
        state = self.model.read(later, Analysis(field, departures, memory), valid, lead)
        return later, clipped(to_observed(state, self.model.config.model.saturation))


class Rollout:
    """The exported programs and the loop over leads: observations in, forecasts out, as the model itself does it."""

    def __init__(self, analysis: Program, step: Program, horizon: int) -> None:
        self._analysis, self._step, self.horizon = analysis, step, horizon

    @classmethod
    def load(cls, folder: str | Path) -> Rollout:
        """Load what `export_run` wrote, after its checksums were proven.

        Raises
        ------
        CorruptArtefactError
            If a file is damaged or missing.
        ResourceError
            If the format's runtime is not installed.
        """
        path = Path(folder)
        about = read_about(path)
        load = _load_pt2 if about["format"] == "pt2" else _load_onnx
        analysis, step = (load(path / f"{name}.{about['format']}") for name in (_ANALYSIS, _STEP))
        return cls(analysis, step, int(about["horizon"]))

    def __call__(self, history: Tensor, issue_time: Tensor, horizon: int | None = None) -> Tensor:
        """Observed variables ``[1, lead, station, variable]`` in SI from a history ``[1, time, station, variable]``."""
        field, *rest = self._analysis(history, issue_time)
        leads = []
        for lead in range(1, (horizon or self.horizon) + 1):
            field, observed = self._step(issue_time, torch.tensor(lead), field, *rest)
            leads.append(observed)
        return torch.stack(leads, dim=1)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """Where the programs are, and how far they are from the eager model."""

    path: Path
    format: str
    difference: float
    tolerance: float
    files: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "path": str(self.path), "format": self.format, "difference": self.difference,
            "tolerance": self.tolerance, "files": list(self.files),
        }  # fmt: skip


def export_run(
    run: LoadedRun, output: str | Path, kind: Format = "pt2", *, stations: Any = None, force: bool = False
) -> ExportResult:
    """Write the programs of a run into a directory, which appears when they have passed.

    Parameters
    ----------
    run : loaded with ``backend="torch"``: the fused kernels are this machine's own
    output : a directory: ``analysis.pt2``, ``step.pt2`` (or ``.onnx``) and ``export.json``
    kind : ``pt2`` (`torch.export`) or ``onnx``
    stations : of the programs; those of training by default
    """
    target = Path(output)
    _refuse(target, kind, force)
    model = run.model if stations is None else run.model.at(with_altitudes(run.model, stations))
    history, issue = example_window(model)
    scratch = atomic.scratch_beside(target)
    with atomic.machine_faults(target), torch.no_grad():
        atomic.write_probe(target.parent)
        scratch.mkdir()
        try:
            _write_programs(model, history, issue, scratch, kind)
            _write_about(run, model, scratch, kind)
            difference = parity(model, Rollout.load(scratch), history, issue)
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
    """A plausible history with gaps at the model's stations, and its issue time."""
    data, sites = model.config.data, model.sites
    issue = model.statistics.climatology.origin + 30 * 86400
    times = issue + data.step_seconds * torch.arange(1 - data.history, 1)
    climate, _ = model.statistics.at(sites.stations)
    mean = torch.as_tensor(climate.climatology.at(times.numpy()))
    drawn = torch.Generator().manual_seed(seed)
    noise = 0.5 * torch.randn(mean.shape, generator=drawn) * torch.as_tensor(climate.station_std, dtype=mean.dtype)
    observed = clipped(to_observed((mean + noise).float(), model.config.model.saturation))
    silent = torch.rand(observed.shape[:-1], generator=drawn) < 0.1
    return observed.masked_fill(silent[..., None], torch.nan)[None], torch.tensor([issue])


def parity(model: StationPDEModel, rollout: Rollout, history: Tensor, issue: Tensor) -> float:
    """Largest difference of a rollout from the model, relative to the range of each variable in the forecast."""
    expected = clipped(model(history, issue).observed)
    found = rollout(history, issue)
    size = (expected.amax(dim=(0, 1, 2)) - expected.amin(dim=(0, 1, 2))).clamp(min=1e-6)
    return float(((found - expected).abs() / size).max())


def read_about(folder: Path) -> dict[str, Any]:
    """``export.json`` of an export whose files have their checksums."""
    try:
        about: dict[str, Any] = json.loads((folder / _ABOUT).read_bytes())
        for name, digest in about["sha256"].items():
            if hashlib.sha256((folder / Path(name).name).read_bytes()).hexdigest() != digest:
                raise CorruptArtefactError(f"{name} is damaged: its SHA-256 does not fit", where=str(folder))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CorruptArtefactError(
            "there is no whole export", code="SPDE-T102", where=str(folder), do="stationpde export RUN -o DIR --force"
        ) from problem
    return about


def _refuse(target: Path, kind: str, force: bool) -> None:
    if kind not in FORMATS:
        raise UsageError(f"no format '{kind}'", code="SPDE-T099", do=f"--format {' or '.join(FORMATS)}")
    if target.exists() and not force:
        raise UsageError(f"{target} exists", code="SPDE-T098", do="add --force to replace it")
    if target.exists() and not (target / _ABOUT).is_file():
        raise UsageError(f"{target} is no export, --force does not replace it", code="SPDE-T098")
    missing = [name for name in _PACKAGES.get(kind, ()) if not _is_installed(name)]
    if missing:
        raise ResourceError(
            f"the format {kind} needs {', '.join(missing)}", code="SPDE-T100", do="pip install 'stationpde[export]'"
        )


def _is_installed(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def _write_programs(model: StationPDEModel, history: Tensor, issue: Tensor, folder: Path, kind: Format) -> None:
    first = AnalysisProgram(model)
    analysed = first(history, issue)
    parts = [(_ANALYSIS, first, (history, issue)), (_STEP, StepProgram(model), (issue, torch.tensor(1), *analysed))]
    names = {_ANALYSIS: ["history", "issue_time"], _STEP: ["issue_time", "lead", "field", "departures", "memory"]}
    results = {_ANALYSIS: ["field", "departures", "memory"][: len(analysed)], _STEP: ["field_later", "observed"]}
    for name, module, inputs in parts:
        with _quiet():
            program = torch.export.export(module.eval(), inputs)
            if kind == "pt2":
                torch.export.save(program, folder / f"{name}.pt2")
            else:
                torch.onnx.export(
                    program, (), folder / f"{name}.onnx", dynamo=True, external_data=False, verbose=False,
                    input_names=names[name][: len(inputs)], output_names=results[name],
                )  # fmt: skip


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporters talk about their own internals."""
    import logging
    import warnings

    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "torch.fx")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _write_about(run: LoadedRun, model: StationPDEModel, folder: Path, kind: str) -> None:
    data, stations = model.config.data, model.sites.stations
    about = {
        "format": kind,
        "stationpde": stationpde.__version__,
        "torch": str(torch.__version__),
        **{name: value for name, value in run.about().items() if name != "run"},
        "step_seconds": data.step_seconds,
        "history": data.history,
        "horizon": data.horizon,
        "variables": {name: cf_attributes(name)["units"] for name in STATE_VARIABLES},
        "stations": {
            "id": list(stations.id),
            **{name: np.asarray(getattr(stations, name)).tolist() for name in ("lat", "lon", "alt")},
        },
        "sha256": {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())},
    }
    (folder / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")


def _load_pt2(path: Path) -> Program:
    loaded: Any = torch.export.load(path).module()
    return lambda *inputs: tuple(loaded(*inputs))


def _load_onnx(path: Path) -> Program:
    if not _is_installed("onnxruntime"):
        raise ResourceError(
            "running an ONNX program needs onnxruntime", code="SPDE-T100", do="pip install 'stationpde[export]'"
        )
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        # A program drops inputs that its model does not need.
        given = dict(zip(_given_names(path), inputs, strict=False))
        return tuple(torch.from_numpy(x) for x in session.run(None, {n: given[n].numpy() for n in names}))

    return run


def _given_names(path: Path) -> list[str]:
    return ["history", "issue_time"] if path.stem == _ANALYSIS else [
        "issue_time", "lead", "field", "departures", "memory"
    ]  # fmt: skip
