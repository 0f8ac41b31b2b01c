"""Distributions of every model of a benchmark on the same windows, resumable cell by cell, as tables of their own."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields import atomic
from fields.progress import Tracker
from fields.times import DAY
from stationpde.baselines import require_blind, without_test
from stationpde.errors import FieldsError, Interrupted
from stationpde.evaluation.benchmark import Bench, BenchmarkPlan
from stationpde.evaluation.cells import data_facts
from stationpde.evaluation.contestants import Task, contestant
from stationpde.evaluation.distribution_sums import DistributionSums
from stationpde.evaluation.dressings import QUANTILES, dressings_of, put_on
from stationpde.evaluation.left_out import LeftOut
from stationpde.evaluation.protocols import protocol
from stationpde.evaluation.scoring import windows_to_score
from stationpde.evaluation.uncertain import add_scenarios, thresholds_of
from stationpde.evaluation.uncertainty_cells import (
    UncertaintyCell,
    cell_path,
    places_of,
    read_uncertainty_cell,
    settings_of,
    write_uncertainty_cell,
)
from stationpde.evaluation.uncertainty_tables import uncertainty_markdown, uncertainty_results
from stationpde.training import StopRequest
from stationpde.uncertainty import VARIABLES

if TYPE_CHECKING:
    from fields.windows import StationSeries

__all__ = ["UncertaintyBench", "run_uncertainty"]

log = logging.getLogger(__name__)

_BATCH = 16


@dataclass(eq=False)
class UncertaintyBench:
    """Computes the cells of distributions of a plan; models that were trained for its point scores are not again."""

    plan: BenchmarkPlan
    series: StationSeries
    watcher: Callable[[Any], None] | None = None
    stop: StopRequest | None = None
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bench = Bench(self.plan, self.series, self.watcher, self.stop)

    @property
    def folder(self) -> Path:
        """Folder of the cells, beside those of point scores."""
        return self.plan.cell_folder / "uncertainty"

    def kinds(self) -> list[tuple[Task, str]]:
        """List every cell."""
        tasks = self.plan.tasks()
        left_out = self.plan.leave_out > 0
        reasons = self.plan.unavailable()
        return [
            (task, kind) for task in tasks if task.model not in reasons
            for kind in dressings_of(contestant(task.model), left_out=left_out)
        ]  # fmt: skip

    def finished(self, task: Task, kind: str) -> UncertaintyCell | None:
        """Return the cell if it was computed before, on these data and with these settings; else None."""
        path = cell_path(self.folder, task, kind)
        if not path.exists():
            return None
        cell = read_uncertainty_cell(path)
        return cell if cell.settings == settings_of(task, kind, self.series.fingerprint) else None

    def compute(self, task: Task, kinds: list[str]) -> list[UncertaintyCell]:
        """Fit or load a model, dress it in several ways, check for leaks, score, and save the cells."""
        source = self.bench.source(task.hours)
        starts = windows_to_score(source, protocol(task.protocol).test_stride)
        split = LeftOut.of(source, task.leave_out) if task.leave_out else None
        blind = without_test(source if split is None else split.reporting)
        config, predictor, training = self.plan.config(contestant(task.model), task), None, {}
        if kinds != [QUANTILES]:
            fitted = self.bench.fitter.fit(task, blind)
            config, predictor, training = fitted.config, fitted.predictor, fitted.training
        scored = source if split is None else split.left_out
        cells = []
        for kind in kinds:
            dressing, copula = put_on(kind, predictor, blind, config, split)
            sample = scored.batch(starts[np.linspace(0, len(starts) - 1, min(4, len(starts))).astype(int)])
            require_blind(_Median(dressing), sample, f"{task.model} {kind}")
            sums = self._sums(dressing, copula, scored, source, starts, config)
            facts = data_facts(scored, self.plan.data_name, starts) | {"fingerprint": self.series.fingerprint}
            facts.pop("altitude_m")
            about = {
                "title": contestant(task.model).title, "data": facts,
                "training": {k: v for k, v in training.items() if k in ("cpu_seconds", "steps", "run")},
                **places_of(scored, None if split is None else split.reporting),
            }  # fmt: skip
            cell = UncertaintyCell(task, kind, settings_of(task, kind, self.series.fingerprint), about, sums)
            cells.append(read_uncertainty_cell(write_uncertainty_cell(self.folder, cell)))
        return cells

    def _sums(self, dressing: Any, copula: Any, scored: Any, source: Any, starts: Any, config: Any) -> DistributionSums:
        series = scored.series
        days = series.time[starts + config.data.history - 1] // DAY
        names = [name for name in VARIABLES if name in config.data.scored or name == "ff"]
        first = dressing.distributions(scored.batch(starts[:1]))
        names = [name for name in names if name in first.names]
        limits = thresholds_of(series, source.windows.split.val)
        sums = DistributionSums(
            series.stations.id,
            names,
            config.data.horizon,
            series.step_seconds,
            (int(days.min()), int(days.max())),
            limits,
        )
        for start in range(0, len(starts), _BATCH):
            if self.stop is not None and self.stop.reason is not None:
                raise self.stop.error(str(self.plan.out), start)
            batch = scored.batch(starts[start : start + _BATCH])
            distributions = dressing.distributions(batch)
            sums.add(distributions, batch)
            if copula is not None:
                add_scenarios(sums, distributions, copula, series.stations, batch)
        return sums


@dataclass(frozen=True, slots=True)
class _Median:
    """The medians of distributions as a point forecast, for the check of leaks."""

    dressing: Any

    def predict(self, batch: Any) -> Any:
        import torch

        distributions = self.dressing.distributions(batch)
        medians = [distributions.quantiles(name, (0.05, 0.5, 0.95)) for name in distributions.names]
        return torch.from_numpy(np.concatenate(medians, axis=-1))


def run_uncertainty(
    plan: BenchmarkPlan, series: StationSeries, watcher: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    """Compute every cell of distributions that is not there yet, and write ``uncertainty.json`` and ``.md``.

    Raises
    ------
    Interrupted
        After SIGTERM, Ctrl-C or the time limit; finished cells are saved.
    """
    atomic.write_probe(plan.out)
    with StopRequest(plan.max_seconds) as stop:
        bench = UncertaintyBench(plan, series, watcher, stop)
        requested = bench.kinds()
        done = {key: cell for key in requested if (cell := bench.finished(*key)) is not None}
        report = Tracker(watcher)
        report("uncertainty", len(done), len(requested), "cells")
        try:
            for task in dict.fromkeys(task for task, _ in requested):
                kinds = [kind for other, kind in requested if other == task and (other, kind) not in done]
                if not kinds:
                    continue
                if stop.reason is not None:
                    raise stop.error(str(plan.out), len(done))
                try:
                    cells = bench.compute(task, kinds)
                except Interrupted:
                    raise
                except FieldsError as problem:
                    log.warning("%s failed: %s", task.name, problem.message)
                    bench.failed[task.name] = problem.message
                    continue
                done |= {(task, cell.dressing): cell for cell in cells}
                report("uncertainty", len(done), len(requested), "cells")
        except Interrupted as problem:
            problem.message = (
                f"{problem.message.partition(' after ')[0]}; {len(done)} of {len(requested)} cells are finished"
            )
            _write(bench, requested, done)
            raise
    return _write(bench, requested, done)


def _write(bench: UncertaintyBench, requested: Any, done: Any) -> dict[str, Any]:
    plan = bench.plan
    cells = [done[key] for key in requested if key in done]
    results = uncertainty_results(cells, plan.models, command=plan.command, failed=bench.failed)
    with atomic.machine_faults(plan.out):
        plan.out.mkdir(parents=True, exist_ok=True)
        atomic.write_file(plan.out / "uncertainty.json", json.dumps(results, indent=1).encode())
        atomic.write_file(plan.out / "uncertainty.md", uncertainty_markdown(results).encode())
    return results
