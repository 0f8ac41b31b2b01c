"""`stationpde run`: list, check and clean run directories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console, shown
from cli._errors import ExitCode
from cli._options import Run

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Runs: list, verify, gc.")


@app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to search.")] = Path("runs"),
) -> None:
    """List the runs below a directory with their state and score.

    Example: stationpde run list runs
    """
    from stationpde.errors import UsageError
    from stationpde.runs import find_runs, summary

    if not folder.is_dir():
        raise UsageError(
            f"there is no directory {folder}", code="SPDE-T090", do="stationpde run list .   searches the present one"
        )
    summaries = [summary(run) for run in find_runs(folder)]
    columns = ("run", "state", "steps", "score", "variant", "seed")
    console.table(list(columns), [[shown(one[name]) for name in columns] for one in summaries], essential=3)
    console.result({"folder": str(folder), "runs": summaries})


@app.command()
def verify(run: Run) -> None:
    """Check every byte of a run's records and checkpoints; exit code 5 on damage.

    Example: stationpde run verify runs/demo-default
    """
    from stationpde.runs import inspect

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
    from stationpde.runs import collect

    gone = collect(_existing(run))
    console.text(f"{run}: " + (f"removed {', '.join(gone)}" if gone else "nothing to remove"))
    console.result({"run": str(run), "removed": gone})


def _existing(path: Path) -> Any:
    from stationpde.errors import UsageError
    from stationpde.runs import RunDirectory

    if not (path / "run.json").exists() and not (path / "checkpoints").is_dir():
        raise UsageError(
            f"{path} is no run", code="SPDE-T090", do="stationpde run list DIR   shows the runs below a directory"
        )
    return RunDirectory(path)
