"""`stationpde demo`: the first run, from a synthetic network to a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli._console import console
from cli._options import Force, Overrides, Preset, Seed
from cli._progress import ProgressDisplay
from cli._stopping import resumable

if TYPE_CHECKING:
    from stationpde.demo import StageOutput

__all__ = ["demo"]


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for everything that is written.")
    ] = Path("out/demo"),
    station_count: Annotated[
        int, typer.Option(min=8, max=500, metavar="N", help="Stations of the synthetic network.")
    ] = 64,
    days: Annotated[
        int, typer.Option(min=20, max=730, metavar="N", help="Days of the synthetic record, hourly.")
    ] = 90,
    seed: Seed = 0,
    preset: Preset = "demo",
    overrides: Overrides = None,
    force: Force = False,
) -> None:
    """Try everything on a synthetic network: ingest, lift, train, compare, report. Offline, within a minute.

    The same command, typed again, resumes an interrupted one.

    Example: stationpde demo -o out/demo
    """
    from cli._settings import configuration
    from stationpde.demo import Demo, run_demo

    config = configuration(preset, overrides=overrides)
    with resumable(), ProgressDisplay() as display:
        results = run_demo(Demo(output, config, station_count, days, seed, show=_show, watcher=display), force=force)
    console.result(results)


def _show(stage: StageOutput) -> None:
    console.text()
    console.text(stage.title)
    for line in stage.lines:
        console.text(f"  {line}".rstrip())
    if stage.heads:
        console.table([f"  {stage.heads[0]}", *stage.heads[1:]], [[f"  {row[0]}", *row[1:]] for row in stage.rows])
