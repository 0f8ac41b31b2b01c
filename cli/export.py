"""`stationpde export`: a run as programs that run without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli._console import console
from cli.data import choice

__all__ = ["export"]


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run.")],
    kind: Annotated[str, typer.Option("--format", metavar="pt2|onnx", help="torch.export or ONNX.")] = "pt2",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Directory; RUN/export-FORMAT by default.")
    ] = None,
    stations: Annotated[
        Path | None, typer.Option(metavar="F.csv", help="Stations of the programs; those of training by default.")
    ] = None,
    checkpoint: Annotated[str, typer.Option(metavar="NAME", help="best, last or step-N.")] = "best",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing export.")] = False,
) -> None:
    """Export the analysis and one forecast step; the loop over leads stays outside.

    The programs are compared with the model before they appear: pt2 to 1e-4, onnx to 1e-3 of each variable's range.

    Example: stationpde export run --format onnx -o run-onnx
    """
    from stationpde.export import export_run
    from stationpde.forecasting import stations_from
    from stationpde.loading import load_run

    chosen = choice(kind, "--format", ("pt2", "onnx"))
    console.note("tracing the model; this takes up to a minute")
    made = export_run(
        load_run(run, checkpoint, backend="torch"),
        output or run / f"export-{chosen}",
        chosen,
        stations=stations_from(stations),
        force=force,
    )
    console.text(f"{made.path}: {', '.join(made.files)}; off by {made.difference:.1e} (allowed {made.tolerance:g})")
    console.result({"run": str(run), **made.to_dict()})
