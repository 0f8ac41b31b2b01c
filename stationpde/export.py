"""Export: a run as programs that run without this package, with the loops outside.

``analysis``: history and issue time to the initial field and what the stations remember. Then for each lead
``prepare``: the state and what drives it; ``substep``, K times: the equations; ``step``: data-driven branch, router and
readout, to the next field and the observed variables at the stations. Loops stay outside: any horizon fits, and the
programs stay small, where a whole interval of thirty stable parts would be a graph of thousands of nodes. `Rollout` is
the loop, for either format; in another language it is a dozen lines.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import stationpde
from fields import atomic
from fields.torch_data import ClimatologyTable
from fields.variables import STATE_VARIABLES, cf_attributes
from stationpde.errors import CorruptArtefactError, ResourceError, UsageError
from stationpde.forecasting import with_altitudes
from stationpde.loading import LoadedRun
from stationpde.model import Analysis, StationPDEModel
from stationpde.state import STATE, clipped, to_observed

__all__ = ["FORMATS", "TOLERANCES", "ExportResult", "Rollout", "export_run"]

Format = Literal["pt2", "onnx"]
FORMATS: tuple[Format, ...] = ("pt2", "onnx")
# Largest difference from the eager model that is let through, relative to the spread of each variable.
TOLERANCES = {"pt2": 1e-4, "onnx": 1e-3}
_ABOUT = "export.json"
_PACKAGES = {"onnx": ("onnx", "onnxscript")}

Program = Callable[..., tuple[Tensor, ...]]


class AnalysisProgram(nn.Module):
    """``history, issue_time`` to ``field, departures``, with a station head ``memory`` and with a guide ``guided``."""

    def __init__(self, model: StationPDEModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, history: Tensor, issue_time: Tensor) -> tuple[Tensor, ...]:
        """One window ``[1, time, station, variable]``."""
        found = self.model.analyse(history, issue_time)
        kept = [found.departures, found.memory, found.guided, found.tendencies]
        return (found.field, *(tensor for tensor in kept if tensor is not None))


class PrepareProgram(nn.Module):
    """``issue_time, lead, field`` and the analysis to ``state`` in SI and what drives it: ``base``, ``drive``.

    ``drive`` is the closure of the interval, or the conditions that it is computed from at every sub-step.
    """

    def __init__(self, model: StationPDEModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, issue_time: Tensor, lead: Tensor, field: Tensor, *remembered: Tensor) -> tuple[Tensor, ...]:
        """The start of one forecast interval; ``lead`` is a whole number in a tensor without dimensions."""
        model, branch = self.model, self.model.pde_branch
        assert branch is not None
        seconds = model.config.data.step_seconds
        valid = issue_time + lead * seconds
        conditions = model.conditions.step(valid, lead)
        found = [model.scaling.inverse(field)]
        if model.base is not None and branch.bases:
            found.append(model.base(valid - seconds).movedim(-1, -2).reshape(-1, *field.shape[1:]))
        if branch.driven:
            every = branch.every_substep
            past = remembered[-1] if branch.extended is not None else None
            sources = branch.sources(found[0], conditions, model.scaling, past, lead)
            found.append(conditions if every else torch.stack(list(sources.values()), dim=1))
        return tuple(found)


class SubstepProgram(nn.Module):
    """``state[, base][, drive]`` to ``state``: one sub-step of the equations."""

    def __init__(self, model: StationPDEModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, state: Tensor, *driving: Tensor) -> tuple[Tensor]:
        """K of these are an interval."""
        branch, given, source = self.model.pde_branch, {}, {}
        assert branch is not None
        rest = list(driving)
        if self.model.base is not None and branch.bases:
            base = rest.pop(0)
            given = {name: base[:, STATE.index(name[:-2])] for name in branch.bases}
        if branch.driven:
            drive = rest.pop(0)
            if branch.every_substep:
                source = branch.sources(state, drive, self.model.scaling)
            else:
                source = dict(zip(branch.driven, drive.unbind(1), strict=True))
        return (branch._advance(state, given, source),)


class StepProgram(nn.Module):
    """``issue_time, lead, field[, state]`` and the analysis to ``field_later, observed``."""

    def __init__(self, model: StationPDEModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, issue_time: Tensor, lead: Tensor, field: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        """The end of one forecast interval."""
        model, given = self.model, list(rest)
        valid = issue_time + lead * model.config.data.step_seconds
        conditions = model.conditions.step(valid, lead)
        physics = model.scaling(given.pop(0)) if model.pde_branch is not None else None
        data = model.data_branch(field, conditions) if model.data_branch is not None else None
        if model.router is not None:
            later, _ = model.router(data, physics, conditions)
        else:
            later = data if physics is None else physics
        departures, memory = given.pop(0), given.pop(0) if model.head is not None else None
        guided = given.pop(0) if model.guide is not None else None
        state = model.read(later, Analysis(field, departures, memory, guided), valid, lead)
        return later, clipped(to_observed(state, model.config.model.saturation))


class Rollout:
    """The exported programs and the loop over leads: observations in, forecasts out, as the model itself does it."""

    def __init__(self, programs: Mapping[str, Program], horizon: int, substeps: int) -> None:
        self._programs, self.horizon, self.substeps = programs, horizon, substeps

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
        programs = {n: load(path / f"{n}.{about['format']}", io["inputs"]) for n, io in about["programs"].items()}
        return cls(programs, int(about["horizon"]), int(about["substeps"]))

    def __call__(self, history: Tensor, issue_time: Tensor, horizon: int | None = None) -> Tensor:
        """Observed variables ``[1, lead, station, variable]`` in SI from a history ``[1, time, station, variable]``."""
        programs = self._programs
        field, *remembered = programs["analysis"](history, issue_time)
        leads = []
        for number in range(1, (horizon or self.horizon) + 1):
            lead, physics = torch.tensor(number), []
            if "substep" in programs:
                state, *driving = programs["prepare"](issue_time, lead, field, *remembered)
                for _ in range(self.substeps):
                    (state,) = programs["substep"](state, *driving)
                physics = [state]
            field, observed = programs["step"](issue_time, lead, field, *physics, *remembered)
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
    output : a directory: four programs, ``analysis.pt2`` (or ``.onnx``) …, and ``export.json``, which describes them
    kind : ``pt2`` (`torch.export`) or ``onnx``
    stations : of the programs; those of training by default
    """
    target = Path(output)
    _refuse(target, kind, force)
    model = run.model if stations is None else run.model.at(with_altitudes(run.model, stations))
    history, issue = example_window(model)
    parts = _parts(_traceable(model), history, issue)
    scratch = atomic.scratch_beside(target)
    with atomic.machine_faults(target), torch.no_grad():
        atomic.write_probe(target.parent)
        scratch.mkdir()
        try:
            _write_programs(model, parts, scratch, kind)
            _write_about(run, model, parts, scratch, kind)
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


@dataclass(frozen=True, slots=True)
class _Part:
    """A module with an example of its inputs, all named."""

    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]


def _parts(model: StationPDEModel, history: Tensor, issue: Tensor) -> dict[str, _Part]:
    lead, found = torch.tensor(1), {}

    def add(name: str, module: nn.Module, inputs: dict[str, Tensor], outputs: Sequence[str]) -> dict[str, Tensor]:
        made = module.eval()(*inputs.values())
        kept = tuple(outputs)[: len(made)]
        found[name] = _Part(module, inputs, kept)
        return dict(zip(kept, made, strict=True))

    at = {"issue_time": issue, "lead": lead}
    first = {"history": history, "issue_time": issue}
    kept = ["memory"] * (model.head is not None) + ["guided"] * (model.guide is not None)
    kept += ["tendencies"] * (model.pde_branch is not None and model.pde_branch.extended is not None)
    analysed = add("analysis", AnalysisProgram(model), first, ("field", "departures", *kept))
    start, state = {**at, "field": analysed["field"]}, {}
    remembered = {name: tensor for name, tensor in analysed.items() if name != "field"}
    branch = model.pde_branch
    if branch is not None:
        names = ["state"] + ["base"] * bool(model.base is not None and branch.bases)
        names += ["drive"] * bool(branch.driven)
        driving = add("prepare", PrepareProgram(model), {**start, **remembered}, names)
        add("substep", SubstepProgram(model), driving, ("state_later",))
        state = {"state": driving["state"]}
    add("step", StepProgram(model), {**start, **state, **remembered}, ("field_later", "observed"))
    return found


def _write_programs(model: StationPDEModel, parts: Mapping[str, _Part], folder: Path, kind: Format) -> None:
    for name, part in parts.items():
        with _quiet():
            program = torch.export.export(part.module, tuple(part.inputs.values()))
            if kind == "pt2":
                torch.export.save(program, folder / f"{name}.pt2")
            else:
                torch.onnx.export(
                    program, (), folder / f"{name}.onnx", dynamo=True, external_data=False, verbose=False,
                    input_names=list(part.inputs), output_names=list(part.outputs),
                )  # fmt: skip


def _traceable(model: StationPDEModel) -> StationPDEModel:
    """A copy without what no program needs; empty tables stay, but are no longer stored: they have no bytes to save."""
    made = copy.deepcopy(model)
    del made.kept
    for module in made.modules():
        if isinstance(module, ClimatologyTable) and module.waves.numel() == 0:
            empty = module._buffers.pop("waves")
            assert empty is not None
            module.waves = empty
    return made


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


def _write_about(run: LoadedRun, model: StationPDEModel, parts: Mapping[str, _Part], folder: Path, kind: str) -> None:
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
            name: {"inputs": list(part.inputs), "outputs": list(part.outputs)} for name, part in parts.items()
        },
        "variables": {name: cf_attributes(name)["units"] for name in STATE_VARIABLES},
        "stations": {
            "id": list(stations.id),
            **{name: np.asarray(getattr(stations, name)).tolist() for name in ("lat", "lon", "alt")},
        },
        "sha256": {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())},
    }
    (folder / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")


def _load_pt2(path: Path, names: Sequence[str]) -> Program:
    loaded: Any = torch.export.load(path).module()
    return lambda *inputs: tuple(loaded(*inputs))


def _load_onnx(path: Path, names: Sequence[str]) -> Program:
    if not _is_installed("onnxruntime"):
        raise ResourceError(
            "running an ONNX program needs onnxruntime", code="SPDE-T100", do="pip install 'stationpde[export]'"
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = [entry.name for entry in session.get_inputs()]

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(names, inputs, strict=True))
        # A program drops inputs that its model does not need.
        return tuple(torch.from_numpy(x) for x in session.run(None, {n: given[n].numpy() for n in wanted}))

    return run
