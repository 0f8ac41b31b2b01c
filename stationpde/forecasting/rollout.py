"""Rollout: exported programs and the loop over leads, for either format; in another language it is a dozen lines."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fields.atomic import NotRegularFileError, read_regular
from stationpde.errors import CorruptArtefactError, ResourceError
from stationpde.forecasting.programs import Format
from stationpde.forecasting.schemas import first_fault

__all__ = ["ABOUT", "Rollout", "read_about", "seal_of"]

ABOUT = "export.json"
"""File beside the programs that describes them."""

_ODD_PROGRAM = (
    zipfile.BadZipFile, OSError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError,
    RuntimeError, NotImplementedError, struct.error, zlib.error,
)  # fmt: skip
Runnable = Callable[..., tuple[Tensor, ...]]


class Rollout:
    """The exported programs and the loop over leads: observations in, forecasts out, as the model itself does it.

    Parameters
    ----------
    programs : by name: ``analysis``, ``step`` and, where there are equations, ``prepare`` and ``substep``
    horizon : number of leads by default
    substeps : K, of the equations in a forecast interval
    """

    def __init__(self, programs: Mapping[str, Runnable], horizon: int, substeps: int) -> None:
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
        about = read_about(Path(folder))
        inputs = {name: program["inputs"] for name, program in about["programs"].items()}
        return cls.from_files(Path(folder), about["format"], inputs, int(about["horizon"]), int(about["substeps"]))

    @classmethod
    def from_files(
        cls, folder: Path, kind: Format, inputs: Mapping[str, Sequence[str]], horizon: int, substeps: int
    ) -> Rollout:
        """Load program files of a format; ``inputs`` are the names of each program's inputs."""
        load = _load_pt2 if kind == "pt2" else _load_onnx
        return cls({name: load(folder / f"{name}.{kind}", inputs[name]) for name in inputs}, horizon, substeps)

    def __call__(self, history: Tensor, issue_time: Tensor, horizon: int | None = None) -> Tensor:
        """Run a forecast of observed variables, SI.

        Parameters
        ----------
        history : ``[1, time, station, variable]``, SI; NaN = missing
        issue_time : ``[1]``, time of the last step, seconds since 1970, UTC
        horizon : number of leads; that of the export by default. Beyond it the first guesses end, and values may jump

        Returns
        -------
        ``[1, lead, station, variable]``, SI
        """
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


def read_about(folder: Path) -> dict[str, Any]:
    """Read ``export.json`` of an export, and check it and the programs by their checksums.

    Raises
    ------
    CorruptArtefactError
        If a file is missing, damaged, a link out of the folder, or not what an export holds.
    """
    try:
        about: dict[str, Any] = json.loads(read_regular(folder / ABOUT))
        fault = first_fault(about)
        if fault is None and about.get("about_sha256") not in (None, seal_of(about)):
            fault = "its SHA-256 does not fit"
    except (OSError, NotRegularFileError, ValueError, RecursionError) as problem:
        raise _no_export(folder, "there is no whole export") from problem
    if fault is not None:
        raise _no_export(folder, f"there is no whole export: {ABOUT} is damaged, {fault}")
    for name, digest in about["sha256"].items():
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise _no_export(folder, f"there is no whole export: {name} leads out of it")
        try:
            content = read_regular(folder / name)
        except (OSError, NotRegularFileError) as problem:
            raise _no_export(folder, "there is no whole export") from problem
        if hashlib.sha256(content).hexdigest() != digest:
            raise CorruptArtefactError(f"{name} is damaged: its SHA-256 does not fit", where=str(folder))
    return about


def seal_of(about: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the content of ``export.json`` without its own."""
    content = {name: value for name, value in about.items() if name != "about_sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _no_export(folder: Path, what: str) -> CorruptArtefactError:
    return CorruptArtefactError(
        what, code="SPDE-T102", where=str(folder), do="stationpde export RUN -o DIR --force"
    )


def _load_pt2(path: Path, names: Sequence[str]) -> Runnable:
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise zipfile.BadZipFile(broken)
        loaded: Any = torch.export.load(path).module()
    # Intact files that no export wrote: what torch raises for them depends on the member that is odd.
    except _ODD_PROGRAM as problem:
        raise _no_export(path.parent, f"{path.name} is no exported program") from problem
    return lambda *inputs: tuple(loaded(*inputs))


def _load_onnx(path: Path, names: Sequence[str]) -> Runnable:
    if find_spec("onnxruntime") is None:
        raise ResourceError(
            "running an ONNX program needs onnxruntime", code="SPDE-T100", do="pip install 'stationpde[export]'"
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    # The compiled module has a class of its own for each fault, without a base.
    except _faults_of(onnxruntime) as problem:
        raise _no_export(path.parent, f"{path.name} is no exported program") from problem
    needed = [entry.name for entry in session.get_inputs()]

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip(names, inputs, strict=True))
        # A program drops inputs that its model does not need.
        return tuple(torch.from_numpy(x) for x in session.run(None, {name: named[name].numpy() for name in needed}))

    return run


def _faults_of(onnxruntime: Any) -> tuple[type[Exception], ...]:
    """Return the classes of errors that onnxruntime raises."""
    state = getattr(getattr(onnxruntime, "capi", None), "onnxruntime_pybind11_state", None)
    kinds = (value for value in vars(state).values()) if state is not None else ()
    compiled = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception))
    return (RuntimeError, ValueError, OSError, *compiled)
