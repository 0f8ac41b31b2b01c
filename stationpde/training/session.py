"""From a configuration and a record to a trained run: begin, go on, fork, or refuse."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from fields import atomic
from fields.errors import FieldsError
from fields.variables import STATE_VARIABLES
from stationpde.config_sections import seconds_of
from stationpde.errors import CorruptArtefactError, StationPDEError, UsageError
from stationpde.training import checkpoint_files
from stationpde.training.checkpoint import load_weights
from stationpde.training.distributed import World, join_world
from stationpde.training.facts import differences, facts
from stationpde.training.lock import RunLock
from stationpde.training.loop import Trainer
from stationpde.training.metrics_log import MetricsLog
from stationpde.training.progress import Beginning
from stationpde.training.resources import process_faults
from stationpde.training.run_directory import RunDirectory
from stationpde.training.sealed import write_sealed
from stationpde.training.seeding import seed_everything
from stationpde.training.signals import StopRequest
from stationpde.training.source import WindowSource
from stationpde.training.state import TrainingState, take_weights
from stationpde.training.tensorboard import Board

if TYPE_CHECKING:
    from fields.series import StationSeries
    from stationpde.config import Config
    from stationpde.training.learner import Learner
    from stationpde.training.progress import TrainWatcher

__all__ = ["Build", "TrainOptions", "TrainResult", "chosen_device", "default_build", "train"]

log = logging.getLogger(__name__)

Build = Callable[["Config", WindowSource], "Learner"]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How to run, none of which changes what is computed.

    ``resume`` "never" refuses an existing run. ``strict`` refuses to go on under circumstances that change the last
    bits. ``fork`` begins a new run beside one whose configuration or data changed. ``init`` takes the first weights
    from another run.
    """

    resume: Literal["auto", "never"] = "auto"
    strict: bool = False
    fork: bool = False
    init: Path | None = None
    device: str = "auto"
    max_seconds: float | None = None
    tensorboard: bool = False
    guardian: int | None = None


@dataclass(frozen=True, slots=True)
class TrainResult:
    """What came of a run; ``validation`` is of the best epoch, ``weights_sha256`` of the last weights."""

    run: Path
    checkpoint: Path
    best: Path | None
    steps: int
    epochs: int
    weights_sha256: str
    validation: dict[str, dict[str, Any]]
    score: float | None
    stopped_early: bool = False
    skipped: int = 0
    rollbacks: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainResult:
        """The inverse of `to_dict`."""
        paths = {name: Path(values[name]) for name in ("run", "checkpoint")}
        best = Path(values["best"]) if values.get("best") else None
        # Files sort their keys; people and tables have an order of their own.
        scores = values["validation"]
        ordered = {name: scores[name] for name in STATE_VARIABLES if name in scores}
        return cls(**{**values, **paths, "best": best, "validation": ordered})

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        named = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "details"}
        return {**named, "run": str(self.run), "checkpoint": str(self.checkpoint),
                "best": str(self.best) if self.best else None, **self.details}  # fmt: skip


def train(
    config: Config, series: StationSeries, run_dir: str | Path, *, build: Build | None = None,
    options: TrainOptions = TrainOptions(), watcher: TrainWatcher | None = None,  # noqa: B008 - frozen
) -> TrainResult:  # fmt: skip
    """Train, or go on with, the run in ``run_dir``.

    Parameters
    ----------
    config : everything that decides what is computed
    series : the record, at the model's cadence
    build : makes the learner; the model of the paper by default
    options, watcher : how to run; what to tell about progress

    Raises
    ------
    ConfigError, CorruptArtefactError
        If the run was begun with another configuration or other data, or all its checkpoints are damaged.
    LockedError
        If another process trains it.
    Interrupted
        After SIGTERM, Ctrl-C or the time limit; a checkpoint was saved.
    DivergedError, ResourceError
        If it cannot go on.
    """
    device = chosen_device(options.device)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    # Outermost: a worker's death may be thrown into the closing of what lies within.
    with process_faults(config), ExitStack() as stack:
        stop = stack.enter_context(StopRequest(options.max_seconds, options.guardian))
        world = stack.enter_context(join_world(seconds_of(config.train.collective_timeout), device))
        source = WindowSource.of(series, config)
        about = facts(
            config_hash=config.hash(), data_fingerprint=source.fingerprint, seed=config.train.seed,
            world=world.size, device=torch.device(device).type,
        )  # fmt: skip
        opened = _open(stack, config, Path(run_dir), about, options, world)
        run = RunDirectory(opened["run"])
        if opened["result"] is not None:
            return TrainResult.from_dict(opened["result"])
        stack.enter_context(_repeatable())
        beginning = Beginning(run.path, stop, watcher)
        state = _prepare(config, source, build or default_build, world, device, opened, beginning)
        metrics = board = None
        if world.rank == 0:
            state.mend_best(run)
            metrics = MetricsLog(run.metrics, state.step, state.validated)
            stack.callback(metrics.close)
            if options.tensorboard:
                board = Board(run.path / "tensorboard", state.step)
                stack.callback(board.close)
        trainer = Trainer(state, run, about, stop=stop, metrics=metrics, board=board, watcher=watcher)
        result = trainer.fit()
        log.info("checkpoints took %.2f s", trainer.saving_seconds)
        if world.rank == 0:
            write_sealed(run.result_path, result)
        return TrainResult.from_dict(result)


def chosen_device(name: str) -> str:
    """``auto`` is the first GPU if there is one; under torchrun each rank has its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"there is no device '{name}' here", do="--device cpu")
    if name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return name


def _open(
    stack: ExitStack, config: Config, path: Path, about: dict[str, Any], options: TrainOptions, world: World
) -> dict[str, Any]:
    """Rank 0 takes the lock and decides how to begin; the others hear of it."""
    if world.rank != 0:
        told = json.loads(world.hear("opened"))
        if "error" in told:
            error = StationPDEError(told["error"], code=told["code"])
            error.exit_code = told["exit_code"]
            raise error
        return dict(told)
    try:
        opened = _decide(stack, config, path, about, options)
    except (StationPDEError, FieldsError, OSError) as problem:
        said = {"error": str(problem), "code": getattr(problem, "code", "SPDE-X000")}
        world.tell("opened", json.dumps({**said, "exit_code": getattr(problem, "exit_code", 1)}))
        raise
    world.tell("opened", json.dumps(opened))
    return opened


def _decide(
    stack: ExitStack, config: Config, path: Path, about: dict[str, Any], options: TrainOptions
) -> dict[str, Any]:
    run = RunDirectory(path)
    init = options.init
    again = _typed(path)
    if run.exists:
        if options.resume == "never":
            raise UsageError(f"{path} is a run already", do=f"leave out --resume never to go on with it{again}")
        if options.fork:
            init, run = run.path, run.forks()
        else:
            run.require_same(config, about["data_fingerprint"], f"--fork begins a new run beside it{again}")
    atomic.write_probe(run.path)
    stack.enter_context(RunLock(run.path))
    if not run.record_path.exists():
        if checkpoint_files.listed(run.checkpoints):
            raise CorruptArtefactError("the run has checkpoints but no run.json", where=str(run.path))
        run.create(config, about)
    checkpoint_files.clear_scratch(run.checkpoints)
    newest = checkpoint_files.newest_valid(run.checkpoints)
    if newest is not None:
        _compare(newest, about, options.strict)
        log.info("going on from %s", newest)
    source = None if init is None else str(RunDirectory(init).checkpoint("best"))
    return {
        "run": str(run.path),
        "result": run.result(),
        "checkpoint": None if newest is None else str(newest),
        "init": source,
        "forked": options.fork,
    }


def _typed(path: Path) -> str:
    return f", or choose another directory than --run {path}"


def _compare(checkpoint: Path, about: dict[str, Any], strict: bool) -> None:
    changed = differences(checkpoint_files.verify(checkpoint), about)
    if not changed:
        return
    text = f"other circumstances than before: {'; '.join(changed)}"
    if strict:
        raise CorruptArtefactError(
            f"{text}; the result would not be bit-exact", code="SPDE-T055", where=str(checkpoint),
            do="restore them, or leave out --strict-resume",
        )  # fmt: skip
    log.warning("%s; the result will not be bit-exact", text)


def _prepare(
    config: Config, source: WindowSource, build: Build, world: World, device: str, opened: dict[str, Any],
    beginning: Beginning,
) -> TrainingState:  # fmt: skip
    seed_everything(config.train.seed, "init")
    learner = build(config, source)
    # A checkpoint holds what was fitted before the first step.
    if opened["checkpoint"] is None and hasattr(learner, "prepare"):
        learner.prepare(source, beginning)
    learner.module.to(device)
    if opened["checkpoint"] is None and opened["init"] is not None:
        _begin_from(learner, Path(opened["init"]), must_fit=not opened["forked"])
    state = TrainingState(learner, source, config, world, device)
    if opened["checkpoint"] is not None:
        state.restore(Path(opened["checkpoint"]))
    return state


def _begin_from(learner: Learner, checkpoint: Path, must_fit: bool) -> None:
    """Parameters from another run; what was measured on the data (buffers) is the new run's own."""
    learned = {name for name, _ in learner.module.named_parameters()}
    own = {n: v for n, v in learner.module.state_dict().items() if isinstance(v, torch.Tensor)}
    found = load_weights(checkpoint)
    if hasattr(learner, "adopt"):  # what is learned for each station is found by the station's name
        found = learner.adopt(found)
    given = {name: value for name, value in found.items() if name in learned}
    try:
        take_weights(
            learner.module, {**{n: v.clone() for n, v in own.items() if n not in learned}, **given}, checkpoint
        )
        log.info("weights of %s taken over", checkpoint)
    except CorruptArtefactError as problem:
        if must_fit:
            raise
        log.warning("%s; the new run begins with weights of its own", problem.message)


@contextmanager
def _repeatable() -> Iterator[None]:
    """Operations that give the same bits each time, where there is a choice."""
    settings: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), settings.fill_uninitialized_memory
    # `use_deterministic_algorithms` does the same and imports the whole compiler, two seconds of every start.
    torch.set_deterministic_debug_mode("warn")
    settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        settings.fill_uninitialized_memory = before[1]


def default_build(config: Config, source: WindowSource) -> Learner:
    """The model of the paper, with statistics of the training split."""
    from stationpde.learner import ModelLearner

    return ModelLearner.of(config, source.series, source.windows.split)
