"""`stationpde demo`: the first run, from a made-up network to a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli._console import console
from cli._progress import ProgressDisplay
from cli._stopping import resumable

if TYPE_CHECKING:
    from stationpde.demo import Told

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where everything is written.")] = Path("out/demo"),
    stations: Annotated[int, typer.Option(min=8, max=500, help="Stations of the made-up network.")] = 64,
    days: Annotated[int, typer.Option(min=20, max=730, help="Days of its record, hourly.")] = 90,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same network.")] = 0,
    preset: Annotated[str, typer.Option(help="Settings of the model: demo or tiny.")] = "demo",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key, e.g. train.max_steps=200.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a finished demo.")] = False,
) -> None:
    """Try everything on a synthetic network: ingest, lift, train, compare, report. Offline, within a minute.

    The same command, typed again, goes on where an interrupted one stopped.

    Example: stationpde demo --out out/demo
    """
    from cli._settings import assembled
    from stationpde.demo import Demo, run_demo

    config = assembled(preset, overrides=overrides)
    with resumable(), ProgressDisplay() as display:
        found = run_demo(Demo(out, config, stations, days, seed, tell=_show, watcher=display), force=force)
    console.result(found)


def _show(told: Told) -> None:
    console.text()
    console.text(told.title)
    for line in told.lines:
        console.text(f"  {line}".rstrip())
    if told.heads:
        console.table([f"  {told.heads[0]}", *told.heads[1:]], [[f"  {row[0]}", *row[1:]] for row in told.rows])
