"""`stationpde run`: look after run directories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console, shown
from cli._errors import ExitCode

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Runs: list, verify, gc.")

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]


@app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look.")] = Path("runs"),
) -> None:
    """List the runs below a directory: how far they are and how good.

    Example: stationpde run list runs
    """
    from stationpde.training.run_directory import find_runs
    from stationpde.training.run_summary import summary

    found = [summary(run) for run in find_runs(folder)]
    columns = ("run", "state", "steps", "score", "variant", "seed")
    console.table(list(columns), [[shown(one[name]) for name in columns] for one in found], essential=3)
    console.result({"folder": str(folder), "runs": found})


@app.command()
def verify(run: Run) -> None:
    """Prove every byte of a run's records and checkpoints; exit code 5 on damage.

    Example: stationpde run verify runs/demo-default
    """
    from stationpde.training.run_summary import inspect

    report: dict[str, Any] = inspect(_existing(run))
    for name, problem in report["files"].items():
        console.text(f"{name}: {problem or 'ok'}")
    console.result({"run": str(run), **report})
    if not report["ok"]:
        raise typer.Exit(ExitCode.ARTEFACT)


@app.command()
def gc(run: Run) -> None:
    """Remove unfinished checkpoints and all but the last two and the best.

    Example: stationpde run gc runs/demo-default
    """
    from stationpde.training.run_summary import collect

    gone = collect(_existing(run))
    console.text(f"{run}: {len(gone)} removed, {', '.join(gone) or 'nothing was left over'}")
    console.result({"run": str(run), "removed": gone})


def _existing(path: Path) -> Any:
    from stationpde.training.run_directory import RunDirectory

    if not (path / "run.json").exists() and not (path / "checkpoints").is_dir():
        raise typer.BadParameter(f"{path} is no run", param_hint="RUN")
    return RunDirectory(path)
