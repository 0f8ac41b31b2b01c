"""`stationpde evaluate`: the test scores of a run, beside references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console, shown
from cli._progress import ProgressDisplay
from cli._settings import span_seconds
from cli._stopping import resumable
from cli.data import choice

__all__ = ["evaluate"]


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A directory that train wrote.")],
    data: Annotated[str | None, typer.Option(metavar="STORE", help="Its record, if the run keeps none.")] = None,
    against: Annotated[str, typer.Option(metavar="A,B", help="References, e.g. persistence,ridge_nb.")] = "persistence",
    by: Annotated[str | None, typer.Option(metavar="lead,…", help="lead, station, elevation, hour.")] = None,
    significance: Annotated[bool, typer.Option("--significance", help="Test every comparison.")] = False,
    checkpoint: Annotated[str, typer.Option(metavar="best|last|step-N", help="Which weights.")] = "best",
    stride: Annotated[int, typer.Option(min=1, metavar="N", help="One test window in N.")] = 1,
    cap: Annotated[str, typer.Option(metavar="15min", help="CPU time of each reference that learns.")] = "15min",
    quality: Annotated[str, typer.Option(help="Values as train used them: full, or gross (benchmark).")] = "full",
) -> None:
    """Score a run on the test part of its record, in physical units.

    Example: stationpde evaluate runs/demo --data demo --against persistence,ridge --by lead --significance
    """
    from stationpde.data import load_series
    from stationpde.evaluation.evaluate import EvaluationRequest, data_of_run, evaluate_run
    from stationpde.loading import load_run

    asked = EvaluationRequest(
        against=_names(against), by=_names(by or ""), significance=significance, stride=stride,
        cap=span_seconds(cap, "--cap"),
    )  # fmt: skip
    found = load_run(run, checkpoint)
    record = data or data_of_run(run)
    with ProgressDisplay() as display, resumable():
        series = load_series(
            record, found.model.config.data, command="evaluate", watcher=display,
            quality=choice(quality, "--quality", ("full", "gross")),
        )  # fmt: skip
        result = evaluate_run(found, series, asked, display)
    known = found.record.get("data_fingerprint")
    if known and known != series.fingerprint:
        console.note("these are other data than the run was trained on")
    _show(result)
    console.result(result)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))


def _show(result: dict[str, Any]) -> None:
    variables = [name for name, entry in result["scores"]["run"].items() if isinstance(entry, dict)]
    references = [name for name in result["scores"] if name != "run"]
    rows = []
    for name in variables:
        own = result["scores"]["run"][name]
        tests = [result["compared"].get(r, {}).get(name) for r in references]
        skills = [_skill(own["skill"][r], test) for r, test in zip(references, tests, strict=True)]
        rows.append(
            [name, *(shown(own[key]) for key in ("mse", "mae", "bias")), own["unit"], f"{own['count']:,}", *skills]
        )
    console.table(["test", "MSE", "MAE", "bias", "unit", "targets", *(f"skill: {r}" for r in references)], rows)
    for group, parts in result["by"].items():
        console.text()
        rows = [
            [label, *(shown(entry[v]["mse"]) if v in entry else "none" for v in variables)]
            for label, entry in parts.items()
        ]
        console.table([f"MSE by {group}", *variables], rows)


def _skill(value: float, test: dict[str, Any] | None) -> str:
    if test is None:
        return f"{value:.3f}"
    return f"{value:.3f}{'' if test['significant'] else ' (n.s.)'}"
