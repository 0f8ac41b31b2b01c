"""`stationpde train`: from raw files or a store to a trained run."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console, shown
from cli._progress import ProgressDisplay
from cli._settings import assembled, seeds_of, span_seconds
from cli._stopping import resumable
from cli.data import choice, pairs

__all__ = ["train"]

# Columns of a line of text that people read.
_WIDTH = 100


def train(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="weather2k, meteonet, demo, or a store.")],
    data: Annotated[Path | None, typer.Option(metavar="PATH", help="Where the raw files or the store lie.")] = None,
    run: Annotated[Path | None, typer.Option(metavar="DIR", help="Run directory; an existing one goes on.")] = None,
    config: Annotated[Path | None, typer.Option("-c", "--config", metavar="FILE", help="TOML on top.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key, e.g. train.epochs=3.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="weather2k, meteonet, demo or tiny; by the dataset.")] = None,
    variant: Annotated[str, typer.Option(help="default or paper.")] = "default",
    recipe: Annotated[str, typer.Option(help="Optimiser: default or paper.")] = "default",
    ablate: Annotated[list[str] | None, typer.Option(metavar="PART", help="Without a part, e.g. no_pde.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="0:5", help="One run directory for each seed.")] = None,
    max_time: Annotated[str | None, typer.Option(metavar="30min", help="Save and exit 75 after this.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    nproc: Annotated[int, typer.Option(min=1, metavar="N", help="Ranks on this machine, by torchrun.")] = 1,
    resume: Annotated[str, typer.Option(metavar="auto|never", help="Go on with an existing run, or refuse.")] = "auto",
    strict_resume: Annotated[bool, typer.Option(help="Refuse what would change the last bits.")] = False,
    fork: Annotated[bool, typer.Option(help="New run beside one whose settings or data changed.")] = False,
    init: Annotated[Path | None, typer.Option(metavar="RUN", help="First weights from another run.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Shapes, memory, Courant number, time; trains nothing.")] = False,
    tensorboard: Annotated[bool, typer.Option(help="Scalars for TensorBoard in the run directory.")] = False,
    start: Annotated[str | None, typer.Option(metavar="T", help="First time, where the file has none.")] = None,
    time_zone: Annotated[str | None, typer.Option(metavar="Z", help="Clock of the source: UTC, UTC+8.")] = None,
    missing: Annotated[
        list[str] | None, typer.Option(metavar="VAR=WHAT", help="Substitute: p=standard-atmosphere.")
    ] = None,
) -> None:
    """Train a model, or go on with a run that was stopped or killed.

    The same command, typed again, goes on exactly where it stopped. SIGTERM and --max-time save and exit 75, Ctrl-C
    saves and exits 130.

    Example: stationpde train demo --run runs/demo --set train.epochs=2
    """
    settings = assembled(
        preset or (dataset if dataset in ("weather2k", "meteonet", "demo") else "weather2k"),
        variant, recipe, config, overrides, ablate, pairs(missing, "--missing"),
    )  # fmt: skip
    name = dataset if data is None or dataset in ("weather2k", "meteonet", "demo") else str(data)
    target = run or Path("runs") / f"{Path(name).stem}-{variant}"
    job = Job(dataset, data, target, settings, start, time_zone)
    if dry_run:
        _show_dry_run(job, device)
        return
    from stationpde.training.session import TrainOptions

    options = TrainOptions(
        resume=choice(resume, "--resume", ("auto", "never")), strict=strict_resume, fork=fork, init=init, device=device,
        max_seconds=None if max_time is None else span_seconds(max_time, "--max-time"), tensorboard=tensorboard,
    )  # fmt: skip
    chosen = None if seeds is None else seeds_of(seeds)
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        _as_one_of_several(job, options, chosen)
    elif nproc > 1:
        _show(job, _launched(job, nproc), chosen is not None)
    else:
        _show(job, _trained(job, options, chosen), chosen is not None)


@dataclass(frozen=True, slots=True)
class Job:
    """What to train on what, and where to."""

    dataset: str
    data: Path | None
    run: Path
    settings: Any
    start: str | None
    time_zone: str | None

    def series(self, display: ProgressDisplay | None, cache: Path | None) -> Any:
        """The record; raw files are read into a store beside the run the first time."""
        from fields.errors import ProblemReport
        from fields.ingest import IngestOptions
        from fields.readers import ReadOptions
        from fields.readers.clock import parse_instant
        from stationpde.data import load_series

        start = None if self.start is None else parse_instant(self.start)
        options = IngestOptions(read=ReadOptions(zone=self.time_zone, start=start))
        report = ProblemReport()
        with resumable():
            found = load_series(
                self.dataset,
                self.settings.data,
                self.data,
                options=options,
                cache=cache,
                watcher=display,
                report=report,
            )
        if display is not None:
            for line in report.lines():
                console.note(line)
        return found

    def observations(self) -> Path | None:
        """A store to forecast from: the one that was trained on, or that was made of raw files beside the run."""
        from fields import store

        given = Path(self.dataset) if self.data is None else self.data
        found = [path for path in (given, *sorted(self.run.glob("*.zarr"))) if store.is_store(path)]
        return found[0] if found else None


def _trained(job: Job, options: Any, seeds: list[int] | None) -> dict[str, Any]:
    """Train one run, or one for each seed."""
    from stationpde.training.session import train as run_training

    began, made = time.monotonic(), []
    with ProgressDisplay() as display:
        series = job.series(display, job.run)
        for seed in [None] if seeds is None else seeds:
            settings = job.settings if seed is None else job.settings.with_overrides([f"train.seed={seed}"])
            target = job.run if seed is None else job.run / f"seed-{seed}"
            left = options.max_seconds
            if left is not None:
                left = max(0.0, left - (time.monotonic() - began))
            result = run_training(settings, series, target, options=replace(options, max_seconds=left), watcher=display)
            made.append(result.to_dict())
    return made[0] if seeds is None else {"runs": made}


def _launched(job: Job, nproc: int) -> dict[str, Any]:
    """Start torchrun with this same command line; the ranks find the data read already."""
    from stationpde.training.launch import launch

    with ProgressDisplay() as display:
        job.series(display, job.run)
    outcome = launch(["--module", "cli", *sys.argv[1:]], nproc)
    if "error" in outcome:
        raise RankError(outcome["error"], int(outcome["exit_code"]))
    return dict(outcome["result"])


def _as_one_of_several(job: Job, options: Any, seeds: list[int] | None) -> None:
    from cli._ranks import as_rank
    from stationpde.training.launch import launched_by

    if os.environ["RANK"] != "0":
        console.configure(replace(console.settings, verbosity=-1, json=False))
        console.start_logging()
    options = replace(options, guardian=launched_by())
    raise typer.Exit(as_rank(lambda: _trained(job, options, seeds)))


class RankError(Exception):
    """The error that ended all ranks, as one of them reported it."""

    def __init__(self, about: Mapping[str, Any], exit_code: int) -> None:
        super().__init__(about["message"])
        self.code, self.message, self.exit_code = about["code"], about["message"], exit_code
        self.where, self.do = about["where"], about["do"]


def _show(job: Job, result: dict[str, Any], several: bool) -> None:
    for one in result["runs"] if several else [result]:
        epochs = "1 epoch" if one["epochs"] == 1 else f"{one['epochs']} epochs"
        console.text(f"{one['run']}: {one['steps']:,} steps, {epochs}, best {one['best']}")
        rows = [
            [name, *(shown(score[key]) for key in ("mse", "persistence_mse", "skill", "mae")), score["unit"]]
            for name, score in one["validation"].items()
        ]
        console.table(["validation", "MSE", "persistence's", "skill", "MAE", "unit of MAE"], rows)
        one["learned"], caution = _learned(Path(one["run"]))
        rates = [f"{name} {value}" for name, value in one["learned"].items() if not name.startswith("gamma")]
        factors = [f"{name} {value}" for name, value in one["learned"].items() if name.startswith("gamma")]
        for head, named, remark in (("learned ", rates, caution), ("factors ", factors, "")):
            text = f"{head}{', '.join(named)}{remark}"
            for line in textwrap.wrap(text, _WIDTH, subsequent_indent=" " * len(head)) if named else ():
                console.text(line)
        console.text(f"weights {one['weights_sha256'][:16]}")
    known = job.observations()
    if known is not None:
        runs = f"{job.run}/seed-*" if several else str(job.run)
        console.note(f"next    stationpde forecast {runs} --obs {known} -o forecast.csv")
        if not several:
            console.note(f"        stationpde report {runs} --obs {known} -o report.html")
    console.result(result)


def _learned(run: Path) -> tuple[dict[str, str], str]:
    """The coefficients of the equations with their units, and what they may not be taken for."""
    from stationpde import StationPDE

    model = StationPDE.load(run)
    rule = model.config.pde.rule
    physical = rule in ("none", "limiter")
    caution = "" if physical else f"; no physical rates: the rule '{rule}' rescales every update"
    return {name: str(value) for name, value in model.physics().items()}, caution


def _show_dry_run(job: Job, device: str) -> None:
    from stationpde.training.dry_run import dry_run

    with ProgressDisplay() as display:
        # Nothing is left behind: raw files are read into a folder that goes away.
        series = job.series(display, None)
    console.note("a few steps are taken and timed; nothing of them is kept")
    found = dry_run(job.settings, series, device=device)
    for line in found.lines():
        console.text(line)
    console.result({"run": str(job.run), **found.to_dict()})
