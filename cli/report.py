"""`stationpde report`: a run as one page that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli._console import console

__all__ = ["report"]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="F.html", help="The page; RUN/report.html by default.")
    ] = None,
    obs: Annotated[
        Path | None, typer.Option("--obs", metavar="STORE", help="Observations; those of training if they are found.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Issue time (UTC) of the forecast shown; the last tested.")
    ] = None,
    against: Annotated[
        str, typer.Option(metavar="A,B", help="Baselines without training to score beside it.")
    ] = "persistence,climatology",
    windows: Annotated[int, typer.Option(min=0, help="At most so many test windows; 0 takes all.")] = 160,
    dem: Annotated[Path | None, typer.Option(metavar="F", help="Elevation model for the map.")] = None,
    checkpoint: Annotated[str, typer.Option(metavar="NAME", help="best, last or step-N.")] = "best",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False,
) -> None:
    """Write a run as one HTML page: map, series, errors, router, physics, data. It needs no network to be read.

    Example: stationpde report runs/w2k --obs mine.zarr -o report.html
    """
    from stationpde.loading import load_run
    from stationpde.report import check_page, look, write_page

    target = check_page(output if output is not None else run / "report.html", force)
    names = [name for name in against.split(",") if name]
    loaded = load_run(run, checkpoint)
    view = look(loaded, obs, at=at, windows=windows or None, against=names, dem=dem, progress=_tell)
    for note in view.notes:
        console.note(note)
    made = write_page(view, target)
    console.text(f"report: {made} ({made.stat().st_size / 1e6:.1f} MB)")
    console.result({"report": str(made), "bytes": made.stat().st_size, "notes": list(view.notes)})


def _tell(name: str, done: int, total: int) -> None:
    if done == total:
        console.note(f"scored {name} on {total:,} windows")
