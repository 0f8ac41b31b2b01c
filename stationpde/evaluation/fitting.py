"""Fit the forecaster of a cell: at once, or by training after a short search on validation.

What each kind of model may cost, and what follows where that is spent: `stationpde.evaluation.cap`.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from threadpoolctl import threadpool_limits

from fields import atomic
from stationpde.errors import ResourceError
from stationpde.evaluation.budget import (
    BudgetSpent,
    Ledger,
    Pace,
    has_flattened,
    steps_that_fit,
    validation_windows_that_fit,
)
from stationpde.evaluation.contestants import Contestant, Task, contestant
from stationpde.evaluation.preparations import Preparations
from stationpde.model import coefficients_of
from stationpde.runs import RunDirectory, checkpoint_files, load_weights, read_metrics
from stationpde.seeding import seed_everything
from stationpde.training import (
    Beginning,
    Build,
    StopRequest,
    TrainOptions,
    TrainResult,
    take_weights,
    train,
)

if TYPE_CHECKING:
    from stationpde.baselines import Predictor
    from stationpde.config import Config
    from stationpde.data import WindowSource

__all__ = ["Fitted", "ModelFitter"]

# Share of the cap for the choice of learning rate and switches, and the windows that a choice is judged on: a number
# prime to the steps of a day, so that all hours are among them.
_SEARCH_SHARE = 0.2
_SEARCH_WINDOWS = 101
# The score of a choice that diverged, or that had no validation in its time.
_WORST = 1e30
_TOO_SHORT = "SPDE-B011"


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A forecaster, with CPU seconds, epochs, choices, and whether its validation curve had flattened."""

    predictor: Predictor
    config: Config
    training: dict[str, Any] = field(default_factory=dict)


class ModelFitter:
    """Fits forecasters on one record; trained ones are runs in ``folder/runs`` and resume where they were stopped.

    Parameters
    ----------
    folder : folder of the runs
    watcher : function that is called with progress events
    seconds_left : function that returns the seconds until the whole benchmark stops; None without a limit
    configure : function that returns the configuration of a cell; that of its protocol by default
    """

    def __init__(
        self, folder: Path, watcher: Callable[[Any], None] | None = None,
        seconds_left: Callable[[], float | None] = lambda: None,
        configure: Callable[[Contestant, Task], Config] = Contestant.config,
    ) -> None:  # fmt: skip
        self.folder, self.watcher, self.seconds_left, self.configure = folder, watcher, seconds_left, configure

    def fit(self, task: Task, source: WindowSource) -> Fitted:
        """Fit or train the forecaster of a cell.

        Raises
        ------
        Interrupted
            If training was told to stop; it resumes from a checkpoint next time.
        """
        model = contestant(task.model)
        config = self.configure(model, task).fitted_to(source.series.reference)
        torch.set_num_threads(config.train.threads)
        members = {name: self.fit(task.of(name), source) for name in model.members}
        if model.kind in ("ours", "trained"):
            return self._trained(model, task, config, source)
        if model.kind == "iterated":
            return self._iterated(model, task, config, source)
        arguments = {"members": {name: member.predictor for name, member in members.items()}} if members else {}
        began = time.process_time()
        seed_everything(config.train.seed, "init")
        # Waiting threads of a matrix library spin and use CPU time, which is charged.
        with threadpool_limits(config.train.threads or None, user_api="blas"):
            predictor = model.builder(**arguments)(config, source)
        training: dict[str, Any] = {"cpu_seconds": time.process_time() - began}
        if members:
            training["cpu_seconds"] += sum(member.training["cpu_seconds"] for member in members.values())
            training["members"] = {name: member.training for name, member in members.items()}
            flat = [member.training["flattened"] for member in members.values() if "flattened" in member.training]
            training |= {"flattened": all(flat)} if flat else {}
        return Fitted(predictor, config, training)

    def run_of(self, task: Task, source: WindowSource) -> Path:
        """Return the run directory of a cell; other settings or data have another directory."""
        model = contestant(task.model)
        settings = model.settings(task, source.fingerprint)
        # A run directory belongs to one configuration. The flags that count are not among `settings`; runs of before
        # they were a key of the configuration have no such ending.
        quality = self.configure(model, task).data.quality
        return self.folder / "runs" / f"{task.name}-{settings[:8]}{'' if quality == 'full' else f'-{quality}'}"

    def _iterated(self, model: Contestant, task: Task, config: Config, source: WindowSource) -> Fitted:
        """Fit a forecaster that fits itself; parts that an earlier start finished are read from its folder."""
        run = self.run_of(task, source)
        ledger = Ledger(run / ".spent.json")
        seed_everything(config.train.seed, "init")

        def seconds_left() -> float:
            return max(1.0, (task.cap or 0.0) - ledger.tick())

        with ledger.charging("train"), StopRequest(self.seconds_left()) as stop:
            predictor: Any = model.builder()(config, source)
            report = Beginning(run, stop, ledger.watcher(None, self.watcher), stage="fit")
            facts = predictor.fit(source, run / "parts", None if task.cap is None else seconds_left, report)
        return Fitted(predictor, config, {"cpu_seconds": sum(ledger.spent.values()), **facts, "run": run.name})

    # ---- learned models -------------------------------------------------------------------------------------

    def _trained(self, model: Contestant, task: Task, config: Config, source: WindowSource) -> Fitted:
        run = self.run_of(task, source)
        ledger = Ledger(run / ".spent.json")
        choices = self._chosen(model, task, config, source, run, ledger)
        lr, switches = choices.pop("lr", None), choices
        build = model.builder(**switches)
        if lr is not None:
            config = config.with_overrides([f"train.lr={lr!r}"])
        cap, prepared = task.cap, build
        if cap is not None:
            with ledger.charging("pace"):
                pace = Pace.read_or_measure(run / ".pace.json", lambda: Pace.measure(config, source, build))
            prepared = self._prepared(config, source, run, build, ledger, cap)
            cap = max(1.0, cap - sum(ledger.spent.get(what, 0.0) for what in ("search", "pace", "prepare")))
            planned = _saved_plan(run / ".plan.json") or _planned(pace, cap)
            _write(run / ".plan.json", planned)
            most = planned["steps"] if config.train.max_steps is None else min(planned["steps"], config.train.max_steps)
            config = config.with_overrides([f"train.max_steps={most}"])
            if planned.get("windows", pace.validation_windows) < pace.validation_windows:
                config = config.with_overrides([f"train.validate_windows={planned['windows']}"])
        result = self._train(config, source, run, prepared, ledger, cap)
        learner = build(config, source)
        take_weights(learner.module, load_weights(RunDirectory(run).checkpoint("best")), run)
        learner.module.eval().requires_grad_(False)
        facts = _facts(run, result, ledger, config)
        facts["chosen"] = {**({} if lr is None else {"lr": lr}), **switches}
        facts["parameters"] = sum(p.numel() for p in learner.module.parameters())
        if config.loss.residual > 0.0:
            learned: Any = learner if hasattr(learner, "physics") else learner.module
            if hasattr(learned, "physics"):
                facts["physics"] = {
                    name: {"value": number.value, "unit": number.unit}
                    for name, number in coefficients_of(learned).items() if name.startswith(("lambda_", "force_"))
                }  # fmt: skip
        return Fitted(learner, config, facts)

    def _prepared(
        self, config: Config, source: WindowSource, run: Path, build: Build, ledger: Ledger, cap: float
    ) -> Build:
        """Prepare the learner and return a function that builds it, so that steps are planned for the remaining time.

        The checkpoint of a run that has begun holds the results of the preparation.
        """
        if checkpoint_files.listed(RunDirectory(run).checkpoints):
            return build
        seed_everything(config.train.seed, "init")
        learner = build(config, source)
        if not hasattr(learner, "prepare"):
            return build
        preparations = Preparations(self.folder / "runs" / ".prepared")
        cpu_seconds = preparations.restore(learner, source)
        if cpu_seconds is not None:
            ledger.charge("prepare", cpu_seconds)
            return lambda config, source: learner
        with ledger.charging("prepare"), StopRequest(self.seconds_left()) as stop:
            try:
                learner.prepare(source, Beginning(run, stop, ledger.watcher(cap, self.watcher)))
            except BudgetSpent:
                raise _too_short(cap, run) from None
        preparations.save(learner, source, ledger.spent["prepare"])
        return lambda config, source: learner

    def _chosen(
        self, model: Contestant, task: Task, config: Config, source: WindowSource, run: Path, ledger: Ledger
    ) -> dict[str, Any]:
        """Return the learning rate and switches with the best validation score after a short training each."""
        peer = model.peer
        if peer is None:
            return {}
        first = {name: values[0] for name, values in peer.switches.items()}
        if task.recipe == "paper":
            return first
        saved = (atomic.read_table(run / ".search.json") or {}).get("chosen")
        if isinstance(saved, dict):
            return dict(saved)
        rates = peer.rates or (config.train.lr,)
        tries = len(rates) + sum(len(values) - 1 for values in peer.switches.values())
        if tries == 1:
            return {"lr": rates[0], **first}
        trial = _Trial(self, model, config, source, run, ledger, None if task.cap is None else task.cap / tries)
        best = min(({"lr": rate, **first} for rate in rates), key=trial.score)
        for name, values in peer.switches.items():
            best = min(({**best, name: value} for value in values), key=trial.score)
        _write(run / ".search.json", {"chosen": best, "tried": trial.table()})
        shutil.rmtree(run / ".search", ignore_errors=True)
        return best

    def _train(
        self, config: Config, source: WindowSource, run: Path, build: Build, ledger: Ledger, cap: float | None,
        what: str = "train",
    ) -> TrainResult | None:  # fmt: skip
        """Train to the end; return None if the cap ended it."""
        options = TrainOptions(device="cpu", max_seconds=self.seconds_left())
        with ledger.charging(what):
            try:
                watch = ledger.watcher(cap, self.watcher)
                return train(config, source.series, run, build=build, options=options, watcher=watch)
            except BudgetSpent:
                if RunDirectory(run).best() is None:
                    raise _too_short(cap, run) from None
                return None


class _Trial:
    """Validation scores of choices, each trained for its share of the time of the search."""

    def __init__(
        self, fitter: ModelFitter, model: Contestant, config: Config, source: WindowSource, run: Path, ledger: Ledger,
        share: float | None,
    ) -> None:  # fmt: skip
        self.fitter, self.model, self.config, self.source = fitter, model, config, source
        self.run, self.ledger = run, ledger
        self.seconds = None if share is None else _SEARCH_SHARE * share
        self.scores: dict[str, float] = {}

    def score(self, choice: dict[str, Any]) -> float:
        """Return the validation score of a choice; 1e30 if it diverged or had no validation in its time."""
        key = json.dumps(choice, sort_keys=True)
        if key not in self.scores:
            self.scores[key] = self._trained(choice, len(self.scores))
        return self.scores[key]

    def table(self) -> list[dict[str, Any]]:
        """Return the choices that were tried with their scores."""
        return [{**json.loads(key), "score": score} for key, score in self.scores.items()]

    def _trained(self, choice: dict[str, Any], number: int) -> float:
        from stationpde.errors import TrainingDivergedError

        switches = {name: value for name, value in choice.items() if name != "lr"}
        build = self.model.builder(**switches)
        folder = self.run / ".search" / str(number)
        changed = [f"train.lr={choice['lr']!r}", f"train.validate_windows={_SEARCH_WINDOWS}", "train.patience=none"]
        config = self.config.with_overrides(changed)
        if self.seconds is not None:
            with self.ledger.charging("pace"):
                path = folder.with_name(f"{number}.pace.json")
                pace = Pace.read_or_measure(path, lambda: Pace.measure(config, self.source, build))
            config = config.with_overrides([f"train.max_steps={steps_that_fit(pace, self.seconds)}"])
        else:
            config = config.with_overrides(["train.epochs=1"])
        # The ledger counts the whole search: this choice may take its share on top of those before it.
        cap = None if self.seconds is None else self.ledger.spent.get("search", 0.0) + self.seconds
        try:
            self.fitter._train(config, self.source, folder, build, self.ledger, cap, what="search")
        except TrainingDivergedError:
            return _WORST
        except ResourceError as problem:
            if problem.code != _TOO_SHORT:
                raise
            return _WORST
        best_score = (RunDirectory(folder).best() or {}).get("score")
        return _WORST if best_score is None else float(best_score)


def _saved_plan(path: Path) -> dict[str, int] | None:
    """Read a plan that `_planned` made; None if the file holds none."""
    plan = atomic.read_table(path)
    if not plan or "steps" not in plan or any(type(number) is not int or number < 1 for number in plan.values()):
        return None
    return plan


def _planned(pace: Pace, seconds: float) -> dict[str, int]:
    windows = validation_windows_that_fit(pace, seconds)
    return {"steps": steps_that_fit(pace, seconds, windows), "windows": windows}


def _too_short(cap: float | None, run: Path) -> ResourceError:
    return ResourceError(
        f"{cap:.0f} CPU seconds were not enough for one validation", code="SPDE-B011", where=str(run),
        do="--cap with a longer time",
    )  # fmt: skip


def _facts(run: Path, result: TrainResult | None, ledger: Ledger, config: Config) -> dict[str, Any]:
    directory = RunDirectory(run)
    validations = read_metrics(directory.metrics, "validation")
    scores = [record["score"] for record in validations if record.get("score") is not None]
    best = directory.best() or {}
    stopped = bool(result is not None and result.stopped_early)
    return {
        "cpu_seconds": sum(ledger.spent.values()),
        "search_cpu_seconds": ledger.spent.get("search", 0.0),
        "steps": result.steps if result is not None else max((r["step"] for r in validations), default=0),
        "epochs": len(validations),
        "best_epoch": best.get("epoch", -1) + 1,
        "validation_score": best.get("score"),
        "validation_scores": scores,
        "stopped_early": stopped,
        "capped": result is None or (config.train.max_steps is not None and result.steps == config.train.max_steps),
        "flattened": has_flattened(scores, stopped),
        "run": run.name,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    with atomic.machine_faults(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_file(path, json.dumps(content).encode())
