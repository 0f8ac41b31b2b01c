"""`stationpde evaluate`: the test scores of a run, beside references."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli._console import console, shown
from cli._options import (
    DEFAULT_CAP,
    Accept,
    Against,
    Cap,
    Checkpoint,
    Obs,
    Quality,
    Run,
    Windows,
    choice,
    names_in,
)
from cli._progress import ProgressDisplay
from cli._settings import cap_seconds
from cli._stopping import resumable

__all__ = ["evaluate"]


def evaluate(
    run: Run,
    obs: Obs = None,
    against: Against = "persistence",
    by: Annotated[str | None, typer.Option(metavar="lead,…", help="lead, station, elevation, hour.")] = None,
    significance: Annotated[bool, typer.Option("--significance", help="Test every comparison.")] = False,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Score the quantiles of a calibrated run as well.")
    ] = False,
    checkpoint: Checkpoint = "best",
    windows: Windows = 0,
    stride: Annotated[int, typer.Option(min=1, metavar="N", help="One test window in N.", hidden=True)] = 1,
    cap: Cap = DEFAULT_CAP,
    quality: Quality = None,
    accept: Accept = None,
) -> None:
    """Compute the test scores of a run, in physical units, beside those of references.

    Without --obs the record is used that training kept beside the run. A reference that learns is trained first.
    The record of a foreign network, or one whose test was trained on, is refused unless --accept foreign-network or
    seen-times insists.

    Example: stationpde evaluate runs/demo --obs demo --against persistence,ridge --by lead --significance
    """
    from stationpde.data import QUALITIES, load_series
    from stationpde.evaluation import EvaluationRequest, evaluate_run
    from stationpde.forecasting import accepted_names
    from stationpde.runs import load_run, observations_of_run

    request = EvaluationRequest(
        against=names_in(against), by=names_in(by), significance=significance, stride=stride, windows=windows or None,
        cap=cap_seconds(cap), quality=None if quality is None else choice(quality, "--quality", QUALITIES),
        accept=tuple(accepted_names(accept)), uncertainty=uncertainty,
    )  # fmt: skip
    loaded = load_run(run, checkpoint)
    record = observations_of_run(loaded) if obs is None else str(obs)
    with ProgressDisplay() as display, resumable():
        series = load_series(
            record, loaded.model.config.data, command="evaluate", watcher=display,
            quality=request.quality, trained=loaded.model.statistics.stations,
        )  # fmt: skip
        result = evaluate_run(loaded, series, request, display)
    trained_on = loaded.record.get("data_fingerprint")
    if trained_on and trained_on != series.fingerprint:
        other_flags = request.quality not in (None, loaded.model.config.data.quality)
        reason = f", or the same with other quality flags (--quality {request.quality})" if other_flags else ""
        console.note(f"warning: these are other data than the run was trained on{reason}")
    for sentence in result["warnings"]:
        console.note(f"warning: {sentence}")
    _show(result)
    if "extras" in result:
        _show_extras(result["extras"])
    if "uncertainty" in result:
        _show_uncertainty(result["uncertainty"])
    console.result(result)


def _show(result: dict[str, Any]) -> None:
    variables = [name for name, entry in result["scores"]["run"].items() if isinstance(entry, dict)]
    references = [name for name in result["scores"] if name != "run"]
    rows = []
    for name in variables:
        entry = result["scores"]["run"][name]
        tests = [result["compared"].get(r, {}).get(name) for r in references]
        skills = [_skill(entry["skill"][r], test) for r, test in zip(references, tests, strict=True)]
        errors = [shown(entry[key]) for key in ("mse", "mae", "bias")]
        rows.append([name, *errors, entry["unit"], f"{entry['count']:,}", *skills])
    from stationpde.data import describe_quality

    console.text(f"test scores; {describe_quality(result['quality'])}")
    console.table(["test", "MSE", "MAE", "bias", "unit", "targets", *(f"skill: {r}" for r in references)], rows)
    for group, parts in result["by"].items():
        console.text()
        rows = [
            [label, *(shown(entry[v]["mse"]) if v in entry else "none" for v in variables)]
            for label, entry in parts.items()
        ]
        console.table([f"MSE by {group}", *variables], rows)


def _show_extras(result: dict[str, Any]) -> None:
    from fields.variables import display_unit

    rows = []
    for name, entry in result.items():
        ours, unit = entry["run"], display_unit(name, difference=True)
        covered = entry["coverage"].get("0.8")
        skills = [shown(entry[reference]["skill"]) for reference in entry if reference not in ("run", "coverage")]
        share = "none" if covered is None else f"{covered:.1%}"
        errors = (shown(ours[key]) for key in ("mse", "mae", "bias"))
        rows.append([name, *errors, unit, f"{ours['count']:,}", *skills, share])
    heads = [f"skill: {reference}" for reference in next(iter(result.values())) if reference not in ("run", "coverage")]
    console.text()
    console.table(["beside the state", "MSE", "MAE", "bias", "unit", "targets", *heads, "in 80 %"], rows)


def _show_uncertainty(result: dict[str, Any]) -> None:
    from fields.variables import display_unit

    references = [name for name in result["scores"] if name != "run"]
    rows = []
    for name, entry in result["scores"]["run"].items():
        covered = [f"{100 * share:.1f}" for share in entry["coverage"].values()]
        gains = [_skill(result["compared"][r][name]["gain"], result["compared"][r][name]) for r in references]
        unit = display_unit(name, difference=True)
        rows.append([name, shown(entry["crps"]), unit, *covered, shown(entry["width"]["0.8"]), *gains])
    console.text()
    console.text("distributions; coverage of the intervals of 50, 80 and 90 %, width of that of 80 %")
    gain_heads = [f"CRPS gain: {r}" for r in references]
    console.table(["variable", "CRPS", "unit", "50 %", "80 %", "90 %", "width", *gain_heads], rows)
    console.text()
    named = [name for name in result["energy"] if name != "run"]
    rows = [
        [name, shown(entry["energy"]), *(shown(result["energy"][r][name]["energy"]) for r in named)]
        for name, entry in result["energy"].get("run", {}).items()
    ]
    console.table(["scenarios", "energy score", *(f"energy score: {r}" for r in named)], rows)
    console.text()
    rows = [
        [event, shown(entry["brier"]), shown(entry["skill"]) if entry["skill"] is not None else "none",
         *(shown(result["events"][r][event]["brier"]) for r in references)]
        for event, entry in result["events"]["run"].items()
    ]  # fmt: skip
    console.table(["event", "Brier score", "skill", *(f"Brier: {r}" for r in references)], rows)
    variables = list(result["scores"]["run"])
    for group, parts in result["by"].items():
        console.text()
        rows = [
            [label, *(_covered(entry[v]) if v in entry else "none" for v in variables)]
            for label, entry in parts.items()
        ]
        console.table([f"coverage of 80/90 % by {group}", *variables], rows)


def _covered(entry: dict[str, Any]) -> str:
    return f"{100 * entry['coverage']['0.8']:.1f}/{100 * entry['coverage']['0.9']:.1f}"


def _skill(value: float, test: dict[str, Any] | None) -> str:
    if test is None:
        return f"{value:.3f}"
    return f"{value:.3f}{'' if test['significant'] else ' (n.s.)'}"
