"""`stationpde ablate`: what each part of the model is worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console
from cli._settings import seeds_of, span_seconds
from cli.benchmark import measured, typed
from cli.data import choice

__all__ = ["ablate"]


def ablate(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A store, raw files, or demo.")],
    parts: Annotated[str | None, typer.Option(metavar="no_pde,…", help="Parts or operators; the paper's six.")] = None,
    seeds: Annotated[str, typer.Option(metavar="0:3", help="Seeds of every model.")] = "0:3",
    protocol: Annotated[str, typer.Option(help="w2k-like (3 h) or meteonet-like (1 h).")] = "w2k-like",
    variant: Annotated[str, typer.Option(help="default or paper.")] = "default",
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="DIR", help="Runs, cells and tables.")] = None,
    cells: Annotated[Path | None, typer.Option(metavar="DIR", help="Finished cells, if not in DIR/cells.")] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Cells trained at once, one thread each.")] = 1,
    cap: Annotated[str, typer.Option(metavar="7.5min|none", help="CPU time of each model.")] = "7.5min",
    recipe: Annotated[str, typer.Option(help="default or paper.")] = "default",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One key of the configuration, for all.")
    ] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE.md", help="Page whose section is written anew.")] = None,
    max_time: Annotated[str | None, typer.Option(metavar="2h", help="Stop and exit 75 after this.")] = None,
) -> None:
    """Train the model with and without each of its parts; resumable like `benchmark`.

    Writes ablation.md (the paper's Table 3), ablation.json and the figure of components.

    Example: stationpde ablate obs.zarr --parts no_pde,no_closure --seeds 0:3 -o out
    """
    from stationpde.ablations import PARTS, Ablation, ablation_models
    from stationpde.evaluation.benchmark import BenchmarkPlan

    asked = PARTS if parts is None else tuple(filter(None, (part.strip() for part in parts.split(","))))
    kind = choice(variant, "--variant", ("default", "paper"))
    name = Path(store).parent.name if Path(store).is_file() else Path(store).stem
    plan = BenchmarkPlan(
        store=store, protocol=protocol, models=ablation_models(asked, kind), seeds=tuple(seeds_of(seeds)),
        out=out or Path("runs") / f"ablation-{name}-{protocol}", cells=cells, jobs=jobs, command=typed(),
        recipe=choice(recipe, "--recipe", ("default", "paper")), overrides=tuple(overrides or ()),
        cap=None if cap == "none" else span_seconds(cap, "--cap"),
        max_seconds=None if max_time is None else span_seconds(max_time, "--max-time"),
    )  # fmt: skip
    found = Ablation(measured(plan), kind, plan.overrides)
    written = _written(found, plan.out)
    if page is not None:
        from stationpde.evaluation.page import update_page

        label = " with ".join([kind, *([", ".join(plan.overrides)] if plan.overrides else [])])
        update_page(page, f"parts of {label}, {protocol} {plan.data_name}", found.markdown())
    for path in written.values():
        console.text(path)
    console.result({**found.to_dict(), "files": written})


def _written(found: Any, out: Path) -> dict[str, str]:
    from fields import atomic
    from stationpde.plots.parts import draw_parts

    table, numbers = out / "ablation.md", out / "ablation.json"
    atomic.write_file(table, found.markdown().encode())
    atomic.write_file(numbers, json.dumps(found.to_dict()["ablation"], indent=1).encode())
    made = {"table": str(table), "numbers": str(numbers)}
    if found.parts:
        scores = {model: {v: s["mse"] for v, s in found.horizon.pooled(model).items()} for model in found.horizon.cells}
        made["figure"] = str(draw_parts(scores, out / "components.png", full=found.variant))
    return made
