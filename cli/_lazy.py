"""Commands by name. The module of a command is imported when the command is used, so that `--help` stays quick."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

__all__ = ["COMMANDS", "LazyGroup"]


class Entry(NamedTuple):
    """Module of a command, and the line that `--help` shows for it."""

    module: str
    summary: str


COMMANDS = {
    "demo": Entry("cli.demo", "Try everything on a synthetic network in a minute."),
    "doctor": Entry("cli.doctor", "Show what is installed and whether it works here."),
    "data": Entry("cli.data", "Data: ingest, map, synth, validate, info, where, qc-score."),
    "field": Entry("cli.field", "Fields: lift, sample, cv, plot."),
    "train": Entry("cli.train", "Train a model, or resume a stopped run."),
    "calibrate": Entry("cli.calibrate", "Fit the uncertainty of a run's forecasts."),
    "forecast": Entry("cli.forecast", "Compute a forecast from the latest observations."),
    "evaluate": Entry("cli.evaluate", "Score a run on the test part of its record."),
    "report": Entry("cli.report", "Write a report of a run as one HTML page."),
    "plot": Entry("cli.plot", "Draw pictures of a run, a benchmark or a field."),
    "benchmark": Entry("cli.benchmark", "Score models on the same windows of a store."),
    "ablate": Entry("cli.ablate", "Score the model with and without its parts."),
    "export": Entry("cli.export", "Export one forecast step as pt2 or ONNX."),
    "run": Entry("cli.run", "Runs: list, verify, gc."),
    "config": Entry("cli.config", "Configuration: init, show, validate, schema, page."),
    "ops": Entry("cli.ops", "Operators: list, show, check, bench."),
}


class LazyGroup(TyperGroup):
    """The root group: lists `COMMANDS` from their names and summaries alone."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the names in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and build the command `cmd_name`; None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _build(cmd_name)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of a line; for a misspelt one build all, so that the nearest name can be offered."""
        if args and args[0] not in COMMANDS:
            for name in COMMANDS:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the section "Commands" of `--help` without importing a single command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


def _build(name: str) -> Any:
    module = import_module(COMMANDS[name].module)
    group = getattr(module, "app", None)
    if group is not None:
        command: Any = get_group(group)
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(getattr(module, name))
        command = get_command(single)
    command.name = name
    return command
