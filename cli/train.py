"""`stationpde train`: from raw files or a store to a trained run."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console, shown
from cli._options import (
    Ablate,
    ConfigFile,
    MaxTime,
    Missing,
    Obs,
    Overrides,
    PresetOrNone,
    Recipe,
    Resume,
    SeedsOrNone,
    Start,
    TimeZone,
    Variant,
    choice,
    pairs,
)
from cli._progress import ProgressDisplay
from cli._settings import configuration, seeds_of, span_seconds
from cli._stopping import resumable

__all__ = ["train"]

# Columns of a printed line.
_WIDTH = 100


def train(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="weather2k, meteonet, demo, or a store.")],
    obs: Obs = None,
    run: Annotated[Path | None, typer.Option(metavar="DIR", help="Run directory; an existing one is resumed.")] = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    preset: PresetOrNone = None,
    variant: Variant = "default",
    recipe: Recipe = "default",
    ablate: Ablate = None,
    seeds: SeedsOrNone = None,
    max_time: MaxTime = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or cuda:1.")] = "auto",
    stations_only: Annotated[
        bool, typer.Option("--stations-only", help="Forecast at stations alone, without a field: minutes, no maps.")
    ] = False,
    nproc: Annotated[int, typer.Option(min=1, metavar="N", help="Ranks on this machine, by torchrun.")] = 1,
    resume: Resume = "auto",
    strict_resume: Annotated[bool, typer.Option(help="Refuse what would change the last bits.")] = False,
    fork: Annotated[bool, typer.Option(help="New run beside one whose settings or data changed.")] = False,
    init: Annotated[Path | None, typer.Option(metavar="RUN", help="First weights from another run.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Shapes, memory, Courant number, time; trains nothing.")] = False,
    tensorboard: Annotated[bool, typer.Option(help="Scalars for TensorBoard in the run directory.")] = False,
    start: Start = None,
    time_zone: TimeZone = None,
    missing: Missing = None,
) -> None:
    """Train a model, or resume one that was stopped or killed.

    The same command, typed again, resumes exactly where it stopped. SIGTERM and --max-time save and exit 75, Ctrl-C
    saves and exits 130. A dataset that does not ship needs --obs, the raw files or the store. The preset is the
    dataset's own, else weather2k. With --seeds there is one run directory for each seed.

    Example: stationpde train demo --run runs/demo --set train.epochs=2
    """
    settings = configuration(
        preset or (dataset if dataset in ("weather2k", "meteonet", "demo") else "weather2k"),
        variant, recipe, config, overrides, ablate, pairs(missing, "--missing"),
    )  # fmt: skip
    if stations_only:
        settings = settings.for_stations_only()
    name = dataset if obs is None or dataset in ("weather2k", "meteonet", "demo") else str(obs)
    target = run or Path("runs") / f"{Path(name).stem}-{variant}"
    job = Job(dataset, obs, target, settings, start, time_zone)
    from stationpde.training import TrainOptions

    options = TrainOptions(
        resume=choice(resume, "--resume", ("auto", "never")), strict=strict_resume, fork=fork, init=init, device=device,
        max_seconds=None if max_time is None else span_seconds(max_time, "--max-time"), tensorboard=tensorboard,
    )  # fmt: skip
    chosen = None if seeds is None else seeds_of(seeds)
    if dry_run:
        if init is not None:
            from stationpde.runs import load_run

            load_run(init, backend="torch")  # what is wrong with it is said now
        _show_dry_run(job, device)
        return
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        _as_one_of_several(job, options, chosen)
    elif nproc > 1:
        _show(job, _launched(job, nproc), chosen is not None)
    else:
        _show(job, _trained(job, options, chosen), chosen is not None)


@dataclass(frozen=True, slots=True)
class Job:
    """Record to train on, settings of the model, and run directory."""

    dataset: str
    obs: Path | None
    run: Path
    settings: Any
    start: str | None
    time_zone: str | None

    def series(self, display: ProgressDisplay | None, cache: Path | None) -> Any:
        """Load the record; raw files are read into a store beside the run the first time."""
        from fields.errors import ProblemReport
        from fields.ingest import IngestOptions
        from fields.readers import ReadOptions
        from fields.times import parse_time
        from stationpde.data import load_series

        start = None if self.start is None else parse_time(self.start)
        options = IngestOptions(read=ReadOptions(zone=self.time_zone, start=start))
        report = ProblemReport()
        with resumable():
            record = load_series(
                self.dataset,
                self.settings.data,
                self.obs,
                options=options,
                cache=cache,
                watcher=display,
                report=report,
                complete=True,
            )
        if display is not None:
            for line in report.lines():
                console.note(line)
        return record

    def observations(self) -> Path | None:
        """Return a store to forecast from: that of training, or the one made from raw files beside the run."""
        from fields import store

        trained_on = Path(self.dataset) if self.obs is None else self.obs
        return next((path for path in (trained_on, *sorted(self.run.glob("*.zarr"))) if store.is_store(path)), None)


def _trained(job: Job, options: Any, seeds: list[int] | None) -> dict[str, Any]:
    """Train one run, or one for each seed."""
    from stationpde.training import train_seeds

    began = time.monotonic()
    was_finished = (job.run / "result.json").exists()
    with ProgressDisplay() as display:
        series = job.series(display, job.run)
        results = train_seeds(
            job.settings, series, job.run, seeds, options=options, watcher=display, began=began
        )  # fmt: skip
        if job.settings.data.extra and os.environ.get("RANK", "0") == "0":
            for result in results:
                _fit_extras(result.run, series, display)
        if job.settings.train.calibrate and os.environ.get("RANK", "0") == "0":
            for result in results:
                _calibrate(result.run, series, display)
    if seeds is None:
        if was_finished and results[0].run == job.run:
            console.note(f"{job.run} was finished before: this is its result; another --run trains anew")
        return results[0].to_dict()
    return {"runs": [result.to_dict() for result in results]}


def _fit_extras(run: Path, series: Any, display: ProgressDisplay) -> None:
    """Fit the variables of ``data.extra`` to a finished run that has none yet."""
    from stationpde.extras import extras_of, fit_extras
    from stationpde.runs import load_run

    loaded = load_run(run)
    extras = extras_of(loaded)
    if extras is None:
        extras = fit_extras(loaded, series, display)
    for name, one in ({} if extras is None else extras.fitted).items():
        console.note(f"{name}: {one.facts['gain']:.0%} less squared error on validation than the climatology")


def _calibrate(run: Path, series: Any, display: ProgressDisplay) -> None:
    """Fit the uncertainty of a finished run that has none yet; a record too short for it is told of, and no error."""
    from fields.errors import DataError
    from stationpde.runs import load_run
    from stationpde.uncertainty import CALIBRATION, calibrate_run

    if (run / CALIBRATION).exists():
        return
    try:
        calibrate_run(load_run(run), series, display)
    except DataError as problem:
        console.note(f"no quantiles of forecasts: {problem.message}")


def _launched(job: Job, nproc: int) -> dict[str, Any]:
    """Start torchrun with this same command line, after raw files have been read into a store."""
    from stationpde.training import launch

    with ProgressDisplay() as display:
        job.series(display, job.run)
    outcome = launch(["--module", "cli", *sys.argv[1:]], nproc)
    if "error" in outcome:
        raise RankError(outcome["error"], int(outcome["exit_code"]))
    return dict(outcome["result"])


def _as_one_of_several(job: Job, options: Any, seeds: list[int] | None) -> None:
    from cli._ranks import as_rank
    from stationpde.training import launched_by

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
    from stationpde.data import describe_quality

    for one in result["runs"] if several else [result]:
        epochs = "1 epoch" if one["epochs"] == 1 else f"{one['epochs']} epochs"
        console.text(f"{one['run']}: {one['steps']:,} steps, {epochs}, best {one['best']}")
        rows = [
            [name, *(shown(score[key]) for key in ("mse", "persistence_mse", "skill", "mae")), score["unit"]]
            for name, score in one["validation"].items()
        ]
        one["quality"] = job.settings.data.quality
        console.text(f"validation scores; {describe_quality(one['quality'])}")
        console.table(["validation", "MSE", "persistence's", "skill", "MAE", "unit of MAE"], rows)
        one["learned"], caution = _learned(Path(one["run"]))
        rates = [f"{name} {value}" for name, value in one["learned"].items() if not name.startswith("gamma")]
        factors = [f"{name} {value}" for name, value in one["learned"].items() if name.startswith("gamma")]
        for head, named, remark in (("learned ", rates, caution), ("factors ", factors, "")):
            text = f"{head}{', '.join(named)}{remark}"
            for line in textwrap.wrap(text, _WIDTH, subsequent_indent=" " * len(head)) if named else ():
                console.text(line)
        console.text(f"weights {one['weights_sha256'][:16]}")
    observations = job.observations()
    if observations is not None:
        directory, obs = shlex.quote(str(job.run)), shlex.quote(str(observations))
        runs = f"{directory}/seed-*" if several else directory
        console.note(f"next    stationpde forecast {runs} --obs {obs} -o forecast.csv")
        if not several:
            console.note(f"        stationpde report {runs} --obs {obs} -o report.html")
    console.result(result)


def _learned(run: Path) -> tuple[dict[str, str], str]:
    """Return the coefficients of the equations with their units, and a caution where they are no physical rates."""
    from stationpde import StationPDE

    model = StationPDE.load(run)
    rule = model.config.pde.rule
    physical = rule in ("none", "limiter")
    caution = "" if physical else f"; no physical rates: the rule '{rule}' rescales every update"
    return {name: str(value) for name, value in model.physics().items()}, caution


def _show_dry_run(job: Job, device: str) -> None:
    from stationpde.training import dry_run

    with ProgressDisplay() as display:
        # Nothing is left behind: raw files are read into a temporary folder.
        series = job.series(display, None)
    console.note("a few steps are taken and timed; nothing of them is kept")
    estimate = dry_run(job.settings, series, device=device)
    for line in estimate.lines():
        console.text(line)
    console.result({"run": str(job.run), **estimate.to_dict()})
