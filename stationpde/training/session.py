"""Train a run from a configuration and a record: begin, resume, fork, or refuse."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from fields import atomic
from fields.variables import STATE_VARIABLES
from stationpde.data import WindowSource
from stationpde.errors import CorruptArtefactError, FieldsError, StationPDEError, UsageError
from stationpde.model import choose_mode
from stationpde.runs import MetricsLog, RunDirectory, RunLock, checkpoint_files, load_weights, write_sealed
from stationpde.seeding import seed_everything
from stationpde.training.device import resolve_device
from stationpde.training.distributed import World, join_world
from stationpde.training.facts import differences, facts
from stationpde.training.loop import Trainer
from stationpde.training.progress import Beginning
from stationpde.training.resources import process_faults
from stationpde.training.sampler import Plan
from stationpde.training.signals import StopRequest
from stationpde.training.state import TrainingState, module_tensors, take_weights
from stationpde.training.tensorboard import Board

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.config import Config
    from stationpde.model import Learner
    from stationpde.training.progress import TrainWatcher

__all__ = ["Build", "TrainOptions", "TrainResult", "default_build", "train"]

log = logging.getLogger(__name__)

# Ranks wait so long for each other before the one that does not answer is named; checkpoints take seconds.
COLLECTIVE_SECONDS = 300.0
Build = Callable[["Config", WindowSource], "Learner"]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """Options of a start, none of which changes what is computed.

    ``resume`` "never" refuses an existing run. ``strict`` refuses to resume under circumstances that change the last
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
    """Result of a run; ``validation`` is of the best epoch, ``weights_sha256`` of the last weights."""

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
        """Read what `to_dict` returns."""
        paths = {name: Path(values[name]) for name in ("run", "checkpoint")}
        best = Path(values["best"]) if values.get("best") else None
        # Files sort their keys; tables have the order of `STATE_VARIABLES`.
        scores = values["validation"]
        ordered = {name: scores[name] for name in STATE_VARIABLES if name in scores}
        fields = cls.__dataclass_fields__.keys() - {"details"}
        named = {name: value for name, value in values.items() if name in fields}
        return cls(**{**named, **paths, "best": best, "validation": ordered})

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready values."""
        named = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "details"}
        return {**named, "run": str(self.run), "checkpoint": str(self.checkpoint),
                "best": str(self.best) if self.best else None, **self.details}  # fmt: skip


def train(
    config: Config, series: StationSeries, run_dir: str | Path, *, build: Build | None = None,
    options: TrainOptions = TrainOptions(), watcher: TrainWatcher | None = None,  # noqa: B008 - frozen
) -> TrainResult:  # fmt: skip
    """Begin or resume the run in ``run_dir`` and train it to its end.

    Parameters
    ----------
    config : all settings that decide what is computed
    series : the observations, at the model's cadence
    run_dir : directory of the run
    build : function that builds the learner; the model of the paper by default
    options : options of this start
    watcher : function that is called with progress events

    Raises
    ------
    ConfigError, CorruptArtefactError
        If the run was begun with another configuration or other data, or all its checkpoints are damaged.
    LockedError
        If another process trains it.
    Interrupted
        After SIGTERM, Ctrl-C or the time limit; a checkpoint was saved.
    TrainingDivergedError, ResourceError
        If training diverged, or the machine lacks memory, space or access.
    """
    device = resolve_device(options.device)
    config = config.fitted_to(series.reference)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    # Outermost: memory may run out while the inner contexts are closed.
    with process_faults(config), ExitStack() as stack:
        stop = stack.enter_context(StopRequest(options.max_seconds, options.guardian))
        world = stack.enter_context(join_world(COLLECTIVE_SECONDS, device))
        source = WindowSource.of(series, config)
        mode = choose_mode(config.train.compile, _steps_of(config, source, world), torch.device(device).type)
        about = facts(
            config_hash=config.hash(), data_fingerprint=source.fingerprint, trained=source.seen_times,
            seed=config.train.seed, world=world.size, device=torch.device(device).type, networks=mode.name,
        )  # fmt: skip
        opened = _open(stack, config, Path(run_dir), about, options, world)
        run = RunDirectory(opened["run"])
        if opened["result"] is not None:
            return TrainResult.from_dict(opened["result"])
        stack.enter_context(_repeatable())
        if opened["networks"] != mode.name:
            mode = choose_mode(config.train.compile, 0, torch.device(device).type, before=opened["networks"])
        about["networks"] = mode.name
        log.info("networks by %s: %s", mode.name, mode.reason)
        beginning = Beginning(run.path, stop, watcher)
        state = _prepare(config, source, build or default_build, world, device, opened, beginning)
        if mode.name == "torch.compile" and config.train.compile == "auto" and hasattr(state.learner, "compile"):
            state.learner.compile()
        metrics = board = None
        if world.rank == 0:
            state.rewrite_best(run)
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


def _steps_of(config: Config, source: WindowSource, world: World) -> int:
    """Return the number of steps of a training."""
    return Plan.of(source, config.train, world.rank, world.size).total


def _open(
    stack: ExitStack, config: Config, path: Path, about: dict[str, Any], options: TrainOptions, world: World
) -> dict[str, Any]:
    """Take the lock and decide how to begin (rank 0), or wait for that decision (other ranks)."""
    if world.rank != 0:
        decision = json.loads(world.receive("opened"))
        if "error" in decision:
            error = StationPDEError(decision["error"], code=decision["code"])
            error.exit_code = decision["exit_code"]
            raise error
        return dict(decision)
    try:
        opened = _decide(stack, config, path, about, options)
    except (FieldsError, OSError) as problem:
        failure = {"error": str(problem), "code": getattr(problem, "code", "SPDE-X000")}
        world.publish("opened", json.dumps({**failure, "exit_code": getattr(problem, "exit_code", 1)}))
        raise
    world.publish("opened", json.dumps(opened))
    return opened


def _decide(
    stack: ExitStack, config: Config, path: Path, about: dict[str, Any], options: TrainOptions
) -> dict[str, Any]:
    run = RunDirectory(path)
    init = options.init
    other_run = _other_run(path)
    if run.exists:
        if options.resume == "never":
            raise UsageError(
                f"{path} is a run already", code="SPDE-T001", do=f"leave out --resume never to resume it{other_run}"
            )
        if options.fork:
            init, run = run.path, run.forks()
        else:
            run.require_same(config, about["data_fingerprint"], f"--fork begins a new run beside it{other_run}")
    atomic.write_probe(run.path)
    stack.enter_context(RunLock(run.path))
    if not run.record_path.exists():
        if checkpoint_files.listed(run.checkpoints):
            raise CorruptArtefactError("the run has checkpoints but no run.json", where=str(run.path))
        run.create(config, about)
    # Threads and intervals of checkpoints may change; a checkpoint names the configuration that the run was begun with.
    about["config_hash"] = run.record().get("config_hash", about["config_hash"])
    checkpoint_files.clear_scratch(run.checkpoints)
    newest = run.newest_valid()
    if newest is not None:
        manifest = run.verify(newest)
        if config.train.compile == "auto" and "torch.compile" in (manifest.get("networks"), about["networks"]):
            about["networks"] = manifest.get("networks", about["networks"])
        _compare(manifest, newest, about, options.strict)
        log.info("resuming from %s", newest)
    source = None if init is None else str(RunDirectory(init).checkpoint("best"))
    return {
        "run": str(run.path),
        "result": run.result(),
        "checkpoint": None if newest is None else str(newest),
        "init": source,
        "forked": options.fork,
        "networks": about["networks"],
    }


def _other_run(path: Path) -> str:
    return f", or choose another directory than --run {path}"


def _compare(manifest: dict[str, Any], checkpoint: Path, about: dict[str, Any], strict: bool) -> None:
    changed = differences(manifest, about)
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
    # A checkpoint holds the results of `prepare`, which are fitted before the first step.
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
    """Load parameters from another run; buffers, which are measured on the data, stay those of the new run."""
    learned = {name for name, _ in learner.module.named_parameters()}
    present = module_tensors(learner.module)
    weights = load_weights(checkpoint)
    if hasattr(learner, "adopt"):  # weights of a station are matched by its name
        weights = learner.adopt(weights)
    adopted = {name: value for name, value in weights.items() if name in learned}
    try:
        take_weights(
            learner.module, {**{n: v.clone() for n, v in present.items() if n not in learned}, **adopted}, checkpoint
        )
        log.info("weights of %s loaded", checkpoint)
    except CorruptArtefactError as problem:
        if must_fit:
            raise
        log.warning("%s; the new run begins with new weights", problem.message)


@contextmanager
def _repeatable() -> Iterator[None]:
    """Return a context in which torch uses deterministic operations where there is a choice."""
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
    """Build the model of the paper, with statistics of the training split."""
    from stationpde.model import ModelLearner

    return ModelLearner.of(config, source.series, source.windows.split)
