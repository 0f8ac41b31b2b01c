"""`stationpde benchmark`: every model on the same windows, as one table."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console, shown
from cli._options import (
    DEFAULT_CAP,
    CapOrNone,
    Cells,
    Jobs,
    MaxTime,
    OutputFolder,
    Overrides,
    Page,
    Protocol,
    Quality,
    Recipe,
    Record,
    Resume,
    Seeds,
    choice,
)
from cli._progress import ProgressDisplay
from cli._settings import cap_seconds, seeds_of, span_seconds
from cli._stopping import resumable

__all__ = ["benchmark"]


def benchmark(
    store: Record,
    protocol: Protocol = "w2k-like",
    models: Annotated[
        str, typer.Option(metavar="A,B|all", help="Names, or all; also default-no_pde, dlinear@0:2.")
    ] = "all",
    seeds: Seeds = "0",
    horizons: Annotated[
        str | None, typer.Option(metavar="24,48,96", help="Hours ahead; 24 by default; also 24@0:3,96.")
    ] = None,
    output: OutputFolder = None,
    cells: Cells = None,
    jobs: Jobs = 1,
    cap: CapOrNone = None,
    recipe: Recipe = "default",
    overrides: Overrides = None,
    max_time: MaxTime = None,
    resume: Resume = "auto",
    quality: Quality = "gross",
    page: Page = None,
    leave_out: Annotated[
        int, typer.Option(min=0, metavar="N", help="Leave one station in N out of training; score those.")
    ] = 0,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Score distributions of all models, in tables of their own.")
    ] = False,
    keep_stale: Annotated[bool, typer.Option(help="Take finished cells of other settings, marked.")] = False,
) -> None:
    """Compare models on the same windows; the same command, typed again, resumes where it was stopped.

    Finished cells are small files in OUTPUT/cells; results.json, results.md and pictures of the errors by lead
    (errors-24h.png) are written beside them. Seeds are those of models that draw random numbers, keys that --set
    changes are changed for all models. The cap is 15min by default; the recipe paper (AdamW 1e-4, 10 epochs) has one
    only if --cap is given. paper:recipe_paper and paper:ten_epochs are trained so beside the others, without a cap,
    default:recipe_former with the default of before and the cap of the others.

    With --uncertainty, distributions are put about the forecasts of every model and scored: uncertainty.json and
    uncertainty.md, from cells of their own in OUTPUT/cells/uncertainty. No model is trained twice for it.

    Example: stationpde benchmark obs.zarr --models default,ridge_nb --seeds 0:3 -o out
    """
    from stationpde.config import RECIPES
    from stationpde.evaluation import BenchmarkPlan, draw_results, write_results_section

    name = Path(store).parent.name if Path(store).is_file() else Path(store).stem
    target = output or Path("runs") / f"benchmark-{name}-{protocol}"
    chosen = choice(recipe, "--recipe", RECIPES)
    names, model_seeds = _models(models)
    hours, horizon_seeds = _hours(horizons)
    plan = BenchmarkPlan(
        store=store, protocol=protocol, models=names, out=target, seeds=tuple(seeds_of(seeds)), own_seeds=model_seeds,
        horizons=hours, horizon_seeds=horizon_seeds, recipe=chosen, overrides=tuple(overrides or ()),
        cap=_cap(cap, chosen), cells=cells, jobs=jobs, keep_stale=keep_stale,
        leave_out=leave_out, quality=choice(quality, "--quality", ("gross", "full")), command=typed(),
        max_seconds=None if max_time is None else span_seconds(max_time, "--max-time"),
    )  # fmt: skip
    never = choice(resume, "--resume", ("auto", "never")) == "never"
    if never and (plan.out / "results.json").exists():
        raise typer.BadParameter(f"{plan.out} holds a benchmark already", param_hint="--resume")
    results = measured(plan)
    distributions = distributions_of(plan) if uncertainty else None
    pictures = draw_results(results, target)
    for path in pictures.values():
        console.text(str(path))
    if page is not None:
        section = f"{protocol} {plan.data_name}{f' left out {leave_out}' if leave_out else ''}"
        write_results_section(results, page, section)
        console.text(str(page))
    files = {**_files(plan), "pictures": [str(path) for path in pictures.values()]}
    about = {} if distributions is None else {"uncertainty": distributions}
    console.result({**results.to_dict(), **about, "files": files})


def _cap(typed_cap: str | None, recipe: str) -> float | None:
    """Return the CPU seconds of each learned model: what was typed, else the default of the recipe."""
    if typed_cap is None:
        return None if recipe == "paper" else cap_seconds(DEFAULT_CAP)
    return cap_seconds(typed_cap)


def measured(plan: Any, command: str = "benchmark") -> Any:
    """Run a plan with progress on the screen; print its table and the paths of its files."""
    from stationpde.data import load_series
    from stationpde.evaluation import Task, contestant, run_benchmark

    first = Task(plan.protocol, plan.hours[0], "default", 0, plan.recipe, plan.overrides)
    for model in plan.models:
        contestant(model)  # an unknown name is refused before anything is read
    with ProgressDisplay() as display:
        with resumable():
            settings = contestant("default").config(first).data
            series = load_series(
                plan.store, settings, cache=plan.out, watcher=display, command=command, quality=plan.quality,
                complete=True,
            )  # fmt: skip
        results, bench = run_benchmark(plan, series, display)
    _show(results)
    for path in _files(plan).values():
        console.text(path)
    if bench.failed:
        name, problem = next(iter(bench.failed.items()))
        problem.message = f"{len(bench.failed)} cells failed; the first, {name}: {problem.message}"
        raise problem
    return results


def distributions_of(plan: Any) -> dict[str, Any]:
    """Compute scores of the distributions of a plan's models; print the CRPS and the paths of the tables."""
    from stationpde.data import load_series
    from stationpde.evaluation import Task, contestant, run_uncertainty

    first = Task(plan.protocol, plan.hours[0], "default", 0, plan.recipe, plan.overrides)
    settings = contestant("default").config(first).data
    with ProgressDisplay() as display, resumable():
        series = load_series(
            plan.store, settings, cache=plan.out, watcher=display, command="benchmark", quality=plan.quality
        )
        results: dict[str, Any] = run_uncertainty(plan, series, display)
    for hours, part in results["horizons"].items():
        names = list(next(iter(part["models"].values()))["scores"])
        rows = [
            [model, *(shown(entry["scores"][v]["crps"]) if v in entry["scores"] else "none" for v in names),
             *(f"{100 * entry['scores'][v]['coverage']['0.8']:.1f}" if v in entry["scores"] else "none" for v in names)]
            for model, entry in part["models"].items()
        ]  # fmt: skip
        console.text()
        console.text(f"{plan.protocol}, {hours} h: CRPS, and coverage of the intervals of 80 %")
        console.table(["model", *(f"CRPS {v}" for v in names), *(f"80 % {v}" for v in names)], rows)
    for name, why in results["failed"].items():
        console.note(f"not computed: {name}: {why}")
    for ending in ("json", "md"):
        console.text(str(plan.out / f"uncertainty.{ending}"))
    return results


def typed() -> str:
    """Return the command line as it can be typed again."""
    return shlex.join(["stationpde", *sys.argv[1:]])


def _files(plan: Any) -> dict[str, str]:
    return {
        "results": str(plan.out / "results.json"),
        "table": str(plan.out / "results.md"),
        "cells": str(plan.cell_folder),
    }


def _show(results: Any) -> None:
    from stationpde.data import describe_quality

    for horizon in results.horizons:
        units = results.units()
        rows = []
        for model in horizon.cells:
            pooled = horizon.pooled(model)
            cells = [shown(pooled[v]["mse"]) for v in horizon.variables]
            cpu = results.model_facts()[model]["horizons"][str(horizon.hours)]["cpu_seconds"]
            rows.append(
                [model, *cells, shown(horizon.nmse(model)), f"{cpu:.1f}", str(pooled[horizon.variables[0]]["seeds"])]
            )
        console.text(f"{results.protocol}, {horizon.hours} h: MSE; {describe_quality(results.quality)}")
        console.table(["model", *(f"{v} {units[v]}" for v in horizon.variables), "nMSE", "CPU s", "seeds"], rows)
    for name, why in results.skipped.items():
        console.note(f"not run: {name}: {why}")


def _models(text: str) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
    """Parse the names of models, and the seeds of those that have seeds of their own: ``dlinear@0:2``."""
    from stationpde.evaluation import known_models

    if text == "all":
        return tuple(known_models()), {}
    parts = [part.strip().partition("@") for part in text.split(",") if part.strip()]
    if not parts:
        raise typer.BadParameter("name at least one model", param_hint="--models")
    model_seeds = {name: tuple(seeds_of(seeds, "--models")) for name, at, seeds in parts if at}
    return tuple(dict.fromkeys(name for name, _, _ in parts)), model_seeds


def _hours(text: str | None) -> tuple[tuple[int, ...], dict[int, tuple[int, ...]]]:
    """Parse hours ahead, and the seeds of those that have seeds of their own: ``24@0:3,48``."""
    if text is None:
        return (), {}
    parts = [part.partition("@") for part in text.split(",")]
    try:
        hours = [int(number) for number, _, _ in parts]
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not of the form 24,48,96", param_hint="--horizons") from None
    horizon_seeds = {int(number): tuple(seeds_of(seeds, "--horizons")) for number, at, seeds in parts if at}
    return tuple(sorted(set(hours))), horizon_seeds
