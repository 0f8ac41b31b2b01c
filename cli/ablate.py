"""`stationpde ablate`: what each part of the model is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli._console import console
from cli._options import (
    Cap,
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
    Seeds,
    Variant,
    choice,
    names_in,
)
from cli._settings import cap_seconds, seeds_of, span_seconds
from cli.benchmark import measured, typed

__all__ = ["ablate"]


def ablate(
    store: Record,
    parts: Annotated[str | None, typer.Option(metavar="no_pde,…", help="Parts or operators; all by default.")] = None,
    seeds: Seeds = "0:3",
    protocol: Protocol = "w2k-like",
    variant: Variant = "default",
    output: OutputFolder = None,
    cells: Cells = None,
    jobs: Jobs = 1,
    cap: Cap = "7.5min",
    recipe: Recipe = "default",
    overrides: Overrides = None,
    quality: Quality = "gross",
    page: Page = None,
    max_time: MaxTime = None,
) -> None:
    """Train the model with and without each of its parts; resumable like `benchmark`.

    Writes ablation.md (the paper's Table 3), ablation.json and the figure of components. Keys that --set changes
    are changed for all models.

    Example: stationpde ablate obs.zarr --parts no_pde,no_closure --seeds 0:3 -o out
    """
    from stationpde.config import VARIANTS
    from stationpde.evaluation import Ablation, BenchmarkPlan, ablation_models, parts_of, write_ablation

    kind = choice(variant, "--variant", VARIANTS)
    chosen = parts_of(kind) if parts is None else names_in(parts)
    name = Path(store).parent.name if Path(store).is_file() else Path(store).stem
    plan = BenchmarkPlan(
        store=store, protocol=protocol, models=ablation_models(chosen, kind), seeds=tuple(seeds_of(seeds)),
        out=output or Path("runs") / f"ablation-{name}-{protocol}", cells=cells, jobs=jobs, command=typed(),
        recipe=choice(recipe, "--recipe", ("default", "paper")), overrides=tuple(overrides or ()),
        cap=cap_seconds(cap), quality=choice(quality, "--quality", ("gross", "full")),
        max_seconds=None if max_time is None else span_seconds(max_time, "--max-time"),
    )  # fmt: skip
    ablation = Ablation(measured(plan, "ablate"), kind, plan.overrides)
    files = write_ablation(ablation, plan.out, page=page, data_name=plan.data_name)
    for path in files.values():
        console.text(path)
    console.result({**ablation.to_dict(), "files": files})
