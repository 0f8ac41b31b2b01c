"""`stationpde report`: a run as one page that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli._console import console
from cli._options import Accept, Against, At, Checkpoint, Dem, Force, Obs, Run, Windows, is_typed, names_in

__all__ = ["report"]


def report(
    context: typer.Context,
    run: Run,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="F.html", help="The page; RUN/report.html by default.")
    ] = None,
    obs: Obs = None,
    at: At = None,
    against: Against = "persistence,climatology",
    windows: Windows = 160,
    dem: Dem = None,
    checkpoint: Checkpoint = "best",
    accept: Accept = None,
    force: Force = False,
) -> None:
    """Write a report of a run as one HTML page: map, series, errors, router, physics, data.

    The page is read without a network. Without --obs the record is used that training kept beside the run. References
    are baselines that need no training. The forecast shown is that of --at, by default the last of the test.
    Observations of a foreign network are refused unless --accept foreign-network insists.

    Example: stationpde report runs/w2k --obs mine.zarr -o report.html
    """
    from fields.atomic import refuse_input
    from stationpde.errors import UsageError
    from stationpde.report import build_run_view, check_page, write_page
    from stationpde.runs import load_run

    refuse_input(output, obs, dem, run)
    target = check_page(output if output is not None else run / "report.html", force)
    loaded = load_run(run, checkpoint)
    view = build_run_view(
        loaded, obs, at=at, windows=windows or None, against=names_in(against), dem=dem, progress=_note_scored,
        accept=accept or (), distributions="all",
    )  # fmt: skip
    idle = [f"--{name}" for name in ("at", "against", "windows", "dem", "accept") if is_typed(context, name)]
    if view.data is None and idle:
        raise UsageError(
            f"the run does not hold its observations, without which {', '.join(idle)} would not count",
            code="SPDE-B004", where=str(run), do="add --obs STORE with the store that it was trained on",
        )  # fmt: skip
    for note in view.notes:
        console.note(note)
    page = write_page(view, target)
    console.text(f"report: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    console.result({"report": str(page), "bytes": page.stat().st_size, "notes": list(view.notes)})


def _note_scored(name: str, done: int, total: int) -> None:
    if done == total:
        console.note(f"scored {name} on {total:,} windows")
