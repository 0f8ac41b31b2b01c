"""Benchmark: every model on the same windows. Each finished cell is a file, and the same command resumes."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields import atomic
from fields.errors import require_processes
from fields.progress import Tracker
from stationpde.data import Quality, WindowSource
from stationpde.errors import FieldsError, Interrupted, UsageError
from stationpde.evaluation.cap import CAP_SECONDS
from stationpde.evaluation.cells import Cell, data_facts, read_cell, write_cell
from stationpde.evaluation.contestants import Contestant, Task, contestant
from stationpde.evaluation.fitting import ModelFitter
from stationpde.evaluation.left_out import LeftOut, left_out_numbers
from stationpde.evaluation.protocols import protocol
from stationpde.evaluation.results import Results
from stationpde.evaluation.scoring import score, windows_to_score
from stationpde.evaluation.tables import markdown
from stationpde.training import StopRequest

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.config import Config

__all__ = ["Bench", "BenchmarkPlan", "run_benchmark"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """Models, protocol, record and output of a benchmark.

    Attributes
    ----------
    store : a store, raw files, or the name of a dataset
    own_seeds, horizon_seeds : seeds of models, and of horizons, that are run from other seeds than the rest; those
        of a model take precedence
    cap : CPU seconds of each learned model, its search included; None without a limit
    cells : folder of finished cells; ``out/cells`` by default
    jobs : cells that are trained at once, each in a process with one thread
    leave_out : one station in so many is left out of training, and forecasts at those are scored; 0 for none
    quality : quality flags that count; it becomes ``data.quality`` of every cell. By default a target is scored that
        only a test with hindsight would reject, which cannot be known at the time of issue
    keep_stale : use finished cells whose settings have changed since, and list them in the table
    """

    store: str
    protocol: str
    models: tuple[str, ...]
    out: Path
    seeds: tuple[int, ...] = (0,)
    own_seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    horizon_seeds: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    horizons: tuple[int, ...] = ()
    recipe: Any = "default"
    overrides: tuple[str, ...] = ()
    cap: float | None = CAP_SECONDS
    cells: Path | None = None
    jobs: int = 1
    max_seconds: float | None = None
    keep_stale: bool = False
    leave_out: int = 0
    quality: Quality = "gross"
    command: str = ""

    def __post_init__(self) -> None:
        if any(pair.partition("=")[0].strip() == "data.quality" for pair in self.overrides):
            raise UsageError(
                "data.quality is set for all models by an option of its own", code="SPDE-B007",
                do="leave it out, and add --quality full or --quality gross",
            )  # fmt: skip

    def config(self, model: Contestant, task: Task) -> Config:
        """Return the configuration that a cell is trained with: the contestant's, and the flags that count.

        They are no part of what a cell is recognised by: the fingerprint of the record identifies its values.
        """
        return model.config(task).with_overrides([f"data.quality={self.quality}"])

    @property
    def cell_folder(self) -> Path:
        """Folder of finished cells."""
        return self.cells or self.out / "cells"

    @property
    def hours(self) -> tuple[int, ...]:
        """Horizons in hours."""
        return self.horizons or protocol(self.protocol).horizons[:1]

    @property
    def data_name(self) -> str:
        """Name of the record in tables."""
        path = Path(self.store)
        return f"{path.parent.name}/{path.name}" if path.is_file() and path.parent.name else path.name

    def tasks(self) -> list[Task]:
        """List every cell: models without training first, then seed by seed, so that an early table has all models."""
        tasks = []
        for model in dict.fromkeys(self.models):
            entrant = contestant(model)
            cap = self.cap if entrant.learns else None
            tasks += [
                entrant.task(Task(self.protocol, hours, model, seed, self.recipe, self.overrides, cap, self.leave_out))
                for hours in self.hours
                for seed in (self._seeds(model, hours) if entrant.is_seeded else (None,))
            ]
        # Models that combine others come after them, when those are trained.
        order = {task: (bool(contestant(task.model).members), task.seed or 0, task.hours) for task in tasks}
        return sorted(tasks, key=lambda task: (contestant(task.model).learns, *order[task]))

    def _seeds(self, model: str, hours: int) -> tuple[int, ...]:
        return self.own_seeds.get(model, self.horizon_seeds.get(hours, self.seeds))

    def unavailable(self) -> dict[str, str]:
        """Return models that cannot run here with the reason; their finished cells are still used."""
        reasons = {model: contestant(model).missing() for model in self.models}
        return {model: reason for model, reason in reasons.items() if reason}


@dataclass(eq=False)
class Bench:
    """Computes the cells of a benchmark on one record, saves them, and builds the result."""

    plan: BenchmarkPlan
    series: StationSeries
    watcher: Callable[[Any], None] | None = None
    stop: StopRequest | None = None
    deadline: float | None = None
    failed: dict[str, FieldsError] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sources: dict[int, WindowSource] = {}
        self.fitter = ModelFitter(self.plan.out, self.watcher, self._seconds_left, self.plan.config)

    def source(self, hours: int) -> WindowSource:
        """Return the windows of a horizon."""
        if hours not in self._sources:
            task = Task(self.plan.protocol, hours, "default", 0, self.plan.recipe, self.plan.overrides)
            self._sources[hours] = WindowSource.of(self.series, contestant("default").config(task))
        return self._sources[hours]

    def finished(self, task: Task) -> Cell | None:
        """Return the cell if it was computed before, on these data and with these settings; else None.

        Raises
        ------
        UsageError
            If it was computed on other data.
        """
        path = self.plan.cell_folder / f"{task.name}.json"
        if not path.exists():
            return None
        # The same training may have been asked for as a model's own or as that of a whole table.
        cell = read_cell(path)
        cell = replace(cell, task=task, about={**cell.about, "title": contestant(task.model).title})
        if cell.about["data"].get("fingerprint") != self.series.fingerprint:
            raise UsageError(
                f"{path.name} is of other data ({cell.about['data'].get('name')})", code="SPDE-B002", where=str(path),
                do="choose another -o, or another --cells",
            )  # fmt: skip
        if cell.settings_sha256 == contestant(task.model).settings(task, self.series.fingerprint):
            return cell
        if self.plan.keep_stale:
            self.stale.append(task.name)
            return cell
        log.warning("%s was computed with other settings and is computed again", task.name)
        return None

    def compute(self, task: Task) -> Cell:
        """Fit or train, check for leaks, score, and save the cell."""
        from stationpde.baselines import require_blind, without_test

        source = self.source(task.hours)
        starts = windows_to_score(source, protocol(task.protocol).test_stride)
        split = LeftOut.of(source, task.leave_out) if task.leave_out else None
        fitted = self.fitter.fit(task, without_test(source if split is None else split.reporting))
        predictor = fitted.predictor
        if split is not None:
            source, predictor = split.left_out, split.forecaster(predictor)
        sample = starts[np.linspace(0, len(starts) - 1, min(4, len(starts))).astype(int)]
        require_blind(predictor, source.batch(sample), task.model)
        sums = score(predictor, source, fitted.config, starts, name=task.model, progress=self._check_stop)
        facts = data_facts(source, self.plan.data_name, starts) | {"fingerprint": self.series.fingerprint}
        if split is not None:
            facts["kept"] = len(split.reporting.series.stations)
        cell = Cell.of(task, source, fitted.config, sums.statistics(), fitted.training, facts)
        # Read from its file, so that a table is the same whether its cells were computed now or before.
        return read_cell(write_cell(self.plan.cell_folder, cell))

    def results(self, cells: list[Cell], unfinished: int = 0) -> Results:
        """Build the result of the finished cells and write it as ``results.json`` and ``results.md``."""
        plan = self.plan
        results = Results.of(
            cells, list(dict.fromkeys(plan.models)), protocol=plan.protocol, recipe=plan.recipe, cap=plan.cap,
            command=plan.command, quality=plan.quality, skipped=self.skipped, stale=tuple(self.stale),
            unfinished=unfinished, failed={name: problem.message for name, problem in self.failed.items()},
        )  # fmt: skip
        with atomic.machine_faults(plan.out):
            plan.out.mkdir(parents=True, exist_ok=True)
            atomic.write_file(plan.out / "results.json", json.dumps(_finite(results.to_dict()), indent=1).encode())
            atomic.write_file(plan.out / "results.md", markdown(results).encode())
        return results

    def _seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def _check_stop(self, done: int, total: int) -> None:
        """Raise `Interrupted` between batches when the benchmark is to stop."""
        if self.stop is not None and self.stop.reason is not None:
            raise self.stop.error(str(self.plan.out), done)


def run_benchmark(
    plan: BenchmarkPlan, series: StationSeries, watcher: Callable[[Any], None] | None = None
) -> tuple[Results, Bench]:
    """Compute every cell that is not there yet; the result is written whenever a cell is finished.

    Raises
    ------
    Interrupted
        After SIGTERM, Ctrl-C or the time limit; finished cells are saved.
    """
    if plan.leave_out:
        left_out_numbers(series.stations, plan.leave_out)  # refuse an impossible share before anything is computed
    require_processes(plan.jobs, "--jobs")
    atomic.write_probe(plan.out)
    with StopRequest(plan.max_seconds) as stop:
        deadline = None if plan.max_seconds is None else time.monotonic() + plan.max_seconds
        bench = Bench(plan, series, watcher, stop, deadline)
        requested, reasons = plan.tasks(), plan.unavailable()
        done = {task: cell for task in requested if (cell := bench.finished(task)) is not None}
        tasks = [task for task in requested if task in done or task.model not in reasons]
        bench.skipped = {task.model: reasons[task.model] for task in requested if task not in tasks}
        open_tasks = [task for task in tasks if task not in done]
        report = Tracker(watcher)
        report("benchmark", len(done), len(tasks), "cells")
        try:
            for task, cell in _computed(bench, open_tasks):
                if cell is not None:
                    done[task] = cell
                report("benchmark", len(done) + len(bench.failed), len(tasks), "cells")
        except Interrupted as problem:
            left = len(tasks) - len(done) - len(bench.failed)
            bench.results(_ordered(tasks, done), left)
            problem.message = (
                f"{problem.message.partition(' after ')[0]}; {len(done)} of {len(tasks)} cells are finished"
            )
            problem.where = str(plan.out)
            raise
    return bench.results(_ordered(tasks, done)), bench


def _computed(bench: Bench, tasks: list[Task]) -> Iterator[tuple[Task, Cell | None]]:
    """Yield cells as they are finished; models that train run in other processes if several are allowed."""
    here = [task for task in tasks if bench.plan.jobs == 1 or not contestant(task.model).learns]
    for task in here:
        bench._check_stop(0, 1)
        try:
            yield task, bench.compute(task)
        except Interrupted:
            raise
        except FieldsError as problem:
            log.warning("%s failed: %s", task.name, problem.message)
            bench.failed[task.name] = problem
            yield task, None
    there = [task for task in tasks if task not in here]
    if there:
        from stationpde.evaluation.workers import computed_in_workers

        yield from computed_in_workers(bench, there)


def _ordered(tasks: list[Task], done: dict[Task, Cell]) -> list[Cell]:
    return [done[task] for task in tasks if task in done]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
