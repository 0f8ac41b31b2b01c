"""Every model on the same windows, cell by cell: each finished cell is a file, and the same command goes on."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields import atomic
from fields.errors import FieldsError
from fields.progress import Tracker
from stationpde.errors import Interrupted, StationPDEError, UsageError
from stationpde.evaluation.cells import Cell, data_facts, read_cell, write_cell
from stationpde.evaluation.contestants import Task, contestant
from stationpde.evaluation.fitting import Workshop
from stationpde.evaluation.left_out import LeftOut, left_out_numbers
from stationpde.evaluation.protocols import protocol
from stationpde.evaluation.results import Results
from stationpde.evaluation.scoring import score, windows_to_score
from stationpde.evaluation.tables import markdown
from stationpde.training.signals import StopRequest
from stationpde.training.source import WindowSource

if TYPE_CHECKING:
    from fields.series import StationSeries

__all__ = ["CAP_SECONDS", "Bench", "BenchmarkPlan", "run_benchmark"]

log = logging.getLogger(__name__)

CAP_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """What to run on what, and where to keep it.

    Attributes
    ----------
    store : a store, raw files, or the name of a dataset
    own_seeds, horizon_seeds : those of models, and of horizons, that are to be run from other seeds than the rest; a
        model's own come first
    cap : CPU seconds of each learned model, its search included; None without a limit
    cells : folder of finished cells; ``out/cells`` by default
    jobs : cells that are trained at once, each in a process with one thread
    leave_out : one station in so many is left out of training, and forecasts at those are scored; 0 for none
    quality : which values count, see `stationpde.data.load_series`; a target that was observed is scored even if it
        looks odd, as nobody knows so at the time of issue
    keep_stale : take finished cells whose settings have changed since, and say so
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
    quality: Any = "gross"
    command: str = ""

    @property
    def cell_folder(self) -> Path:
        """Where finished cells are."""
        return self.cells or self.out / "cells"

    @property
    def hours(self) -> tuple[int, ...]:
        """Horizons in hours."""
        return self.horizons or protocol(self.protocol).horizons[:1]

    @property
    def data_name(self) -> str:
        """What tables call the record."""
        path = Path(self.store)
        return f"{path.parent.name}/{path.name}" if path.is_file() and path.parent.name else path.name

    def tasks(self) -> list[Task]:
        """Every cell: what needs no training first, then seed by seed, so that an early table is a whole one."""
        made = []
        for model in dict.fromkeys(self.models):
            found = contestant(model)
            cap = self.cap if found.learns else None
            made += [
                Task(self.protocol, hours, model, seed, self.recipe, self.overrides, cap, self.leave_out)
                for hours in self.hours
                for seed in (self._seeds(model, hours) if found.is_seeded else (None,))
            ]
        # What combines others comes after them and finds them trained.
        order = {task: (bool(contestant(task.model).members), task.seed or 0, task.hours) for task in made}
        return sorted(made, key=lambda task: (contestant(task.model).learns, *order[task]))

    def _seeds(self, model: str, hours: int) -> tuple[int, ...]:
        return self.own_seeds.get(model, self.horizon_seeds.get(hours, self.seeds))

    def unavailable(self) -> dict[str, str]:
        """Models that cannot run here, and why; their finished cells count all the same."""
        reasons = {model: contestant(model).missing() for model in self.models}
        return {model: reason for model, reason in reasons.items() if reason}


@dataclass(eq=False)
class Bench:
    """A record on the bench: computes cells, keeps them, and makes the result."""

    plan: BenchmarkPlan
    series: StationSeries
    watcher: Callable[[Any], None] | None = None
    stop: StopRequest | None = None
    deadline: float | None = None
    failed: dict[str, StationPDEError | FieldsError] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sources: dict[int, WindowSource] = {}
        self.shop = Workshop(self.plan.out, self.watcher, self._seconds_left)

    def source(self, hours: int) -> WindowSource:
        """The windows of a horizon."""
        if hours not in self._sources:
            task = Task(self.plan.protocol, hours, "default", 0, self.plan.recipe, self.plan.overrides)
            self._sources[hours] = WindowSource.of(self.series, contestant("default").config(task))
        return self._sources[hours]

    def finished(self, task: Task) -> Cell | None:
        """The cell if it was computed before, on these data and with these settings.

        Raises
        ------
        UsageError
            If it was computed on other data.
        """
        path = self.plan.cell_folder / f"{task.name}.json"
        if not path.exists():
            return None
        cell = read_cell(path)
        if cell.about["data"].get("fingerprint") != self.series.fingerprint:
            raise UsageError(
                f"{path.name} is of other data ({cell.about['data'].get('name')})", code="SPDE-B002", where=str(path),
                do="choose another -o, or another --cells",
            )  # fmt: skip
        if cell.settings == contestant(task.model).settings(task, self.series.fingerprint):
            return cell
        if self.plan.keep_stale:
            self.stale.append(task.name)
            return cell
        log.warning("%s was computed with other settings and is computed again", task.name)
        return None

    def compute(self, task: Task) -> Cell:
        """Fit or train, check for leaks, score, and keep the cell."""
        from stationpde.baselines.leakage import require_blind, without_test

        source = self.source(task.hours)
        starts = windows_to_score(source, protocol(task.protocol).test_stride)
        split = LeftOut.of(source, task.leave_out) if task.leave_out else None
        fitted = self.shop.fitted(task, without_test(source if split is None else split.kept))
        predictor = fitted.predictor
        if split is not None:
            source, predictor = split.asked, split.forecaster(predictor)
        some = starts[np.linspace(0, len(starts) - 1, min(4, len(starts))).astype(int)]
        require_blind(predictor, source.batch(some), task.model)
        found = score(predictor, source, fitted.config, starts, name=task.model, progress=self._look_up)
        facts = data_facts(source, self.plan.data_name, starts) | {"fingerprint": self.series.fingerprint}
        if split is not None:
            facts["kept"] = len(split.kept.series.stations)
        cell = Cell.of(task, source, fitted.config, found.statistics(), fitted.training, facts)
        # As its file has it, so that a table is the same whether its cells were computed now or before.
        return read_cell(write_cell(self.plan.cell_folder, cell))

    def results(self, cells: list[Cell], unfinished: int = 0) -> Results:
        """The result so far, written as ``results.json`` and ``results.md``."""
        plan = self.plan
        made = Results.of(
            cells, list(dict.fromkeys(plan.models)), protocol=plan.protocol, recipe=plan.recipe, cap=plan.cap,
            command=plan.command, skipped=self.skipped, stale=tuple(self.stale), unfinished=unfinished,
            failed={name: problem.message for name, problem in self.failed.items()},
        )  # fmt: skip
        with atomic.machine_faults(plan.out):
            plan.out.mkdir(parents=True, exist_ok=True)
            atomic.write_file(plan.out / "results.json", json.dumps(_finite(made.to_dict()), indent=1).encode())
            atomic.write_file(plan.out / "results.md", markdown(made).encode())
        return made

    def _seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def _look_up(self, done: int, total: int) -> None:
        """Stop between batches when asked to."""
        if self.stop is not None and self.stop.reason is not None:
            raise self.stop.error(str(self.plan.out), done)


def run_benchmark(
    plan: BenchmarkPlan, series: StationSeries, watcher: Callable[[Any], None] | None = None
) -> tuple[Results, Bench]:
    """Compute every cell that is not there yet; the result is written whenever a cell is finished.

    Raises
    ------
    Interrupted
        After SIGTERM, Ctrl-C or the time limit, with what is finished kept.
    """
    if plan.leave_out:
        left_out_numbers(series.stations, plan.leave_out)  # what cannot be is told before anything is computed
    atomic.write_probe(plan.out)
    with StopRequest(plan.max_seconds) as stop:
        deadline = None if plan.max_seconds is None else time.monotonic() + plan.max_seconds
        bench = Bench(plan, series, watcher, stop, deadline)
        asked, reasons = plan.tasks(), plan.unavailable()
        done = {task: cell for task in asked if (cell := bench.finished(task)) is not None}
        tasks = [task for task in asked if task in done or task.model not in reasons]
        bench.skipped = {task.model: reasons[task.model] for task in asked if task not in tasks}
        open_tasks = [task for task in tasks if task not in done]
        told = Tracker(watcher)
        told("benchmark", len(done), len(tasks), "cells")
        try:
            for task, cell in _computed(bench, open_tasks):
                if cell is not None:
                    done[task] = cell
                told("benchmark", len(done) + len(bench.failed), len(tasks), "cells")
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
    """Cells as they come; what trains goes to other processes when several may run."""
    here = [task for task in tasks if bench.plan.jobs == 1 or not contestant(task.model).learns]
    for task in here:
        bench._look_up(0, 1)
        try:
            yield task, bench.compute(task)
        except Interrupted:
            raise
        except (StationPDEError, FieldsError) as problem:
            log.warning("%s failed: %s", task.name, problem.message)
            bench.failed[task.name] = problem
            yield task, None
    there = [task for task in tasks if task not in here]
    if there:
        from stationpde.evaluation.workers import computed_elsewhere

        yield from computed_elsewhere(bench, there)


def _ordered(tasks: list[Task], done: dict[Task, Cell]) -> list[Cell]:
    return [done[task] for task in tasks if task in done]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
