"""`stationpde export`: a run as programs that run without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli._console import console
from cli._options import Checkpoint, Force, Run, Stations, choice

__all__ = ["export"]


def export(
    run: Run,
    kind: Annotated[str, typer.Option("--format", metavar="pt2|onnx", help="torch.export or ONNX.")] = "pt2",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Folder; RUN/export-FORMAT by default.")
    ] = None,
    stations: Stations = None,
    checkpoint: Checkpoint = "best",
    force: Force = False,
) -> None:
    """Export the analysis and one forecast step; the loop over leads stays outside.

    The programs forecast at the places of --stations, those of training by default. They are compared with the model
    before they appear: pt2 to 1e-4, onnx to 1e-3 of each variable's range.

    Example: stationpde export run --format onnx -o run-onnx
    """
    from stationpde.forecasting import export_run, read_stations
    from stationpde.runs import load_run

    chosen = choice(kind, "--format", ("pt2", "onnx"))
    console.note("tracing the model; this takes up to a minute")
    exported = export_run(
        load_run(run, checkpoint, backend="torch"),
        output or run / f"export-{chosen}",
        chosen,
        stations=read_stations(stations),
        force=force,
    )
    error = f"off by {exported.difference:.1e} (allowed {exported.tolerance:g})"
    console.text(f"{exported.path}: {', '.join(exported.files)}; {error}")
    console.result({"run": str(run), **exported.to_dict()})
