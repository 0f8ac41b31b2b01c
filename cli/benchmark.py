"""`stationpde benchmark`: every model on the same windows, as one table."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console, shown
from cli._progress import ProgressDisplay
from cli._settings import seeds_of, span_seconds
from cli._stopping import resumable
from cli.data import choice

__all__ = ["benchmark"]


def benchmark(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A store, raw files, or demo.")],
    protocol: Annotated[str, typer.Option(help="w2k-like (3 h) or meteonet-like (1 h).")] = "w2k-like",
    models: Annotated[
        str, typer.Option(metavar="A,B|all", help="Names, or all; also default-no_pde, dlinear@0:2.")
    ] = "all",
    seeds: Annotated[str, typer.Option(metavar="0:5", help="Of models that draw random numbers.")] = "0",
    horizons: Annotated[
        str | None, typer.Option(metavar="24,48,96", help="Hours ahead; 24 by default; also 24@0:3,96.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="DIR", help="Runs, cells and tables.")] = None,
    cells: Annotated[Path | None, typer.Option(metavar="DIR", help="Finished cells, if not in DIR/cells.")] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Cells trained at once, one thread each.")] = 1,
    cap: Annotated[str, typer.Option(metavar="15min|none", help="CPU time of each learned model.")] = "15min",
    recipe: Annotated[str, typer.Option(help="default, or paper: AdamW 1e-4, 10 epochs, for all.")] = "default",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One key of the configuration, for all.")
    ] = None,
    max_time: Annotated[str | None, typer.Option(metavar="2h", help="Stop and exit 75 after this.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with what DIR holds, or refuse to.")] = True,
    quality: Annotated[
        str, typer.Option(help="Values to use: all that can be (gross), or tested ones (full).")
    ] = "gross",
    page: Annotated[Path | None, typer.Option(metavar="FILE.md", help="Page whose section is written anew.")] = None,
    leave_out: Annotated[
        int, typer.Option(min=0, metavar="N", help="Leave one station in N out of training; score those.")
    ] = 0,
    keep_stale: Annotated[bool, typer.Option(help="Take finished cells of other settings, marked.")] = False,
) -> None:
    """Score models on the same windows; the same command, typed again, goes on where it was stopped.

    Finished cells are small files in DIR/cells; results.json, results.md and pictures of the errors by lead
    (errors-24h.png) are written beside them.

    Example: stationpde benchmark obs.zarr --models default,ridge_nb --seeds 0:3 -o out
    """
    from stationpde.evaluation.benchmark import BenchmarkPlan

    name = Path(store).parent.name if Path(store).is_file() else Path(store).stem
    target = out or Path("runs") / f"benchmark-{name}-{protocol}"
    chosen = choice(recipe, "--recipe", ("default", "paper"))
    names, own_seeds = _models(models)
    hours, horizon_seeds = _hours(horizons)
    plan = BenchmarkPlan(
        store=store, protocol=protocol, models=names, out=target, seeds=tuple(seeds_of(seeds)), own_seeds=own_seeds,
        horizons=hours, horizon_seeds=horizon_seeds, recipe=chosen, overrides=tuple(overrides or ()),
        cap=_cap(cap, chosen), cells=cells, jobs=jobs, keep_stale=keep_stale, leave_out=leave_out,
        quality=choice(quality, "--quality", ("gross", "full")), command=typed(),
        max_seconds=None if max_time is None else span_seconds(max_time, "--max-time"),
    )  # fmt: skip
    if not resume and (plan.out / "results.json").exists():
        raise typer.BadParameter(f"{plan.out} holds a benchmark already", param_hint="--no-resume")
    results = measured(plan)
    pictures = _drawn(results, target, "errors")
    for path in pictures.values():
        console.text(str(path))
    if page is not None:
        from stationpde.evaluation.page import slug, update_page
        from stationpde.evaluation.tables import markdown

        section = f"{protocol} {plan.data_name}{f' left out {leave_out}' if leave_out else ''}"
        beside = _drawn(results, page.parent / "images", slug(section))
        update_page(page, section, markdown(results, {h: f"images/{path.name}" for h, path in beside.items()}))
        console.text(str(page))
    files = {**_files(plan), "pictures": [str(path) for path in pictures.values()]}
    console.result({**results.to_dict(), "files": files})


def measured(plan: Any) -> Any:
    """Run a plan with progress on the screen, print its table and where everything is."""
    from stationpde.data import load_series
    from stationpde.evaluation.benchmark import run_benchmark
    from stationpde.evaluation.contestants import Task, contestant

    first = Task(plan.protocol, plan.hours[0], "default", 0, plan.recipe, plan.overrides)
    for model in plan.models:
        contestant(model)  # an unknown name is told before anything is read
    with ProgressDisplay() as display:
        with resumable():
            settings = contestant("default").config(first).data
            series = load_series(
                plan.store, settings, cache=plan.out, watcher=display, command="benchmark", quality=plan.quality
            )
        results, bench = run_benchmark(plan, series, display)
    _show(results)
    for path in _files(plan).values():
        console.text(path)
    if bench.failed:
        name, problem = next(iter(bench.failed.items()))
        problem.message = f"{len(bench.failed)} cells failed; the first, {name}: {problem.message}"
        raise problem
    return results


def typed() -> str:
    """The command line, as it can be typed again."""
    return shlex.join(["stationpde", *sys.argv[1:]])


def _drawn(results: Any, folder: Path, name: str) -> dict[int, Path]:
    """Errors by lead, a picture for each horizon."""
    from stationpde.plots.errors import draw_benchmark

    return {found.hours: draw_benchmark(found, folder / f"{name}-{found.hours}h.png") for found in results.horizons}


def _files(plan: Any) -> dict[str, str]:
    return {
        "results": str(plan.out / "results.json"),
        "table": str(plan.out / "results.md"),
        "cells": str(plan.cell_folder),
    }


def _show(results: Any) -> None:
    for found in results.horizons:
        units = results.units()
        rows = []
        for model in found.cells:
            pooled = found.pooled(model)
            cells = [shown(pooled[v]["mse"]) for v in found.variables]
            cpu = results.model_facts()[model]["horizons"][str(found.hours)]["cpu_seconds"]
            rows.append(
                [model, *cells, shown(found.nmse(model)), f"{cpu:.1f}", str(pooled[found.variables[0]]["seeds"])]
            )
        console.text(f"{results.protocol}, {found.hours} h: MSE")
        console.table(["model", *(f"{v} {units[v]}" for v in found.variables), "nMSE", "CPU s", "seeds"], rows)
    for name, why in results.skipped.items():
        console.note(f"not run: {name}: {why}")


def _models(text: str) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
    """Names, and the seeds of those that have their own: ``dlinear@0:2``."""
    from stationpde.evaluation.contestants import known_models

    if text == "all":
        return tuple(known_models()), {}
    parts = [part.strip().partition("@") for part in text.split(",") if part.strip()]
    if not parts:
        raise typer.BadParameter("name at least one model", param_hint="--models")
    own = {name: tuple(seeds_of(seeds, "--models")) for name, at, seeds in parts if at}
    return tuple(dict.fromkeys(name for name, _, _ in parts)), own


def _hours(text: str | None) -> tuple[tuple[int, ...], dict[int, tuple[int, ...]]]:
    """Hours ahead, and the seeds of those that have their own: ``24@0:3,48``."""
    if text is None:
        return (), {}
    parts = [part.partition("@") for part in text.split(",")]
    try:
        hours = [int(number) for number, _, _ in parts]
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not of the form 24,48,96", param_hint="--horizons") from None
    own = {int(number): tuple(seeds_of(seeds, "--horizons")) for number, at, seeds in parts if at}
    return tuple(sorted(set(hours))), own


def _cap(text: str, recipe: str) -> float | None:
    """Seconds; the paper's recipe is a number of epochs and has no cap."""
    return None if text == "none" or recipe == "paper" else span_seconds(text, "--cap")
