"""Programs of an export: thin modules around the model's own steps, with the loops outside.

``analysis``: history and issue time to the initial field and what the stations contribute. Then for each lead
``prepare``: the state and its forcing; ``substep``, K times: the equations; ``step``: data-driven branch, router and
readout, to the next field and the observed variables at the stations. Loops stay outside: any horizon fits, and the
programs stay small, where a whole interval of thirty stable parts would be a graph of thousands of nodes.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from fields.windows import ClimatologyTable
from stationpde.model import SAVED_STATISTICS, Analysis, StationPDEModel
from stationpde.physics import clipped, to_observed

__all__ = ["Format", "Program", "programs_of", "write_programs"]

Format = Literal["pt2", "onnx"]


class AnalysisProgram(nn.Module):
    """``history, issue_time`` to the tensors of an `Analysis`."""

    def __init__(self, model: StationPDEModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, history: Tensor, issue_time: Tensor) -> tuple[Tensor, ...]:
        """Analyse one window ``[1, time, station, variable]``."""
        return tuple(self.model.analyse(history, issue_time).tensors().values())


class PrepareProgram(nn.Module):
    """``issue_time, lead, field`` and the rest of the analysis to ``state`` in SI and its forcing: ``base``, ``drive``.

    ``drive`` are the driven terms of the interval, or the conditions that they are computed from at every sub-step.
    """

    def __init__(self, model: StationPDEModel, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, issue_time: Tensor, lead: Tensor, field: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """Start one forecast interval; ``lead`` is a whole number in a tensor without dimensions."""
        return tuple(self.outputs(issue_time, lead, field, *rest).values())

    def outputs(self, issue_time: Tensor, lead: Tensor, field: Tensor, *rest: Tensor) -> dict[str, Tensor]:
        """Return the outputs of `forward` by name."""
        model, branch = self.model, self.model.pde_branch
        assert branch is not None
        tendencies = dict(zip(self.names, rest, strict=True)).get("tendencies")
        valid_time = model.valid_time(issue_time, lead)
        state, base = model.interval_start(field, valid_time)
        conditions = model.conditions.step(valid_time, lead)
        forcing = branch.forcing(state, base, conditions, model.carried, tendencies, lead)
        return {"state": state, **forcing.tensors()}


class SubstepProgram(nn.Module):
    """``state[, base][, drive]`` to ``state``: one sub-step of the equations."""

    def __init__(self, model: StationPDEModel, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, state: Tensor, *forcing: Tensor) -> tuple[Tensor]:
        """Advance the state by one sub-step; K of these are an interval."""
        branch = self.model.pde_branch
        assert branch is not None
        named = dict(zip(self.names, forcing, strict=True))
        return (branch.substep(state, branch.forcing_from(named), self.model.carried),)


class StepProgram(nn.Module):
    """``issue_time, lead, field[, state]`` and the rest of the analysis to ``field_later, observed``."""

    def __init__(self, model: StationPDEModel, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, issue_time: Tensor, lead: Tensor, field: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        """End one forecast interval and read the forecast at the stations."""
        model = self.model
        state, rest = (None, rest) if model.pde_branch is None else (rest[0], rest[1:])
        # The names are those of tensors: a history is not among them.
        analysis = Analysis(field, **dict(zip(self.names, rest, strict=True)))  # type: ignore[arg-type]
        valid_time = model.valid_time(issue_time, lead)
        physics = None if state is None else model.carried(state)
        later, _ = model.interval_end(field, physics, model.conditions.step(valid_time, lead))
        return later, clipped(to_observed(model.read(later, analysis, valid_time, lead)))


@dataclass(frozen=True, slots=True)
class Program:
    """A module to export, with an example of its inputs, by name, and the names of its outputs."""

    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]


@torch.no_grad()
def programs_of(model: StationPDEModel, history: Tensor, issue_time: Tensor) -> dict[str, Program]:
    """Return the programs of a model by name, each with the example that follows from one window."""
    model = _traceable(model)
    analysis = model.eval().analyse(history, issue_time).tensors()
    inputs = {"history": history, "issue_time": issue_time}
    programs = {"analysis": Program(AnalysisProgram(model), inputs, tuple(analysis))}
    start = {"issue_time": issue_time, "lead": torch.tensor(1), "field": analysis.pop("field")}
    state: dict[str, Tensor] = {}
    if model.pde_branch is not None:
        prepare = PrepareProgram(model, list(analysis))
        inputs = {**start, **analysis}
        prepared = prepare.outputs(*inputs.values())
        programs["prepare"] = Program(prepare, inputs, tuple(prepared))
        substep = SubstepProgram(model, [name for name in prepared if name != "state"])
        programs["substep"] = Program(substep, prepared, ("state_later",))
        state = {"state": prepared["state"]}
    step = StepProgram(model, list(analysis))
    programs["step"] = Program(step, {**start, **state, **analysis}, ("field_later", "observed"))
    return programs


def write_programs(programs: Mapping[str, Program], folder: Path, kind: Format) -> None:
    """Trace programs and write them into a folder as ``NAME.pt2`` (`torch.export`) or ``NAME.onnx``."""
    for name, program in programs.items():
        with torch.no_grad(), _quiet():
            traced = torch.export.export(program.module.eval(), tuple(program.inputs.values()))
            if kind == "pt2":
                torch.export.save(traced, folder / f"{name}.pt2")
            else:
                torch.onnx.export(
                    traced, (), folder / f"{name}.onnx", dynamo=True, external_data=False, verbose=False,
                    input_names=list(program.inputs), output_names=list(program.outputs),
                )  # fmt: skip


def _traceable(model: StationPDEModel) -> StationPDEModel:
    """Copy a model without the saved statistics, and with empty tables as plain attributes: no bytes to save."""
    copied = copy.deepcopy(model)
    delattr(copied, SAVED_STATISTICS)
    for module in copied.modules():
        if isinstance(module, ClimatologyTable) and module.waves.numel() == 0:
            empty = module._buffers.pop("waves")
            assert empty is not None
            module.waves = empty
    return copied


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' messages about their internals."""
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
