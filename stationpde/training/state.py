"""The state of a training run, and writing it to and reading it from a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stationpde.errors import CorruptArtefactError
from stationpde.runs import (
    Checkpoint,
    SavedState,
    checkpoint_files,
    read_checkpoint,
    require_schema,
    weights_sha256,
    write_checkpoint,
    write_sealed,
)
from stationpde.training.averaging import WeightAverage
from stationpde.training.divergence import DivergenceGuard
from stationpde.training.optimiser import WEIGHT_DECAY, Optimiser
from stationpde.training.sampler import Plan

if TYPE_CHECKING:
    from stationpde.config import Config
    from stationpde.data import WindowSource
    from stationpde.model import Learner
    from stationpde.runs import RunDirectory
    from stationpde.training.distributed import World

__all__ = ["TrainingState", "take_weights"]


class TrainingState:
    """Learner, optimiser, average and plan, with the number of steps and validations that are done."""

    def __init__(self, learner: Learner, source: WindowSource, config: Config, world: World, device: str) -> None:
        self.learner, self.source, self.world, self.device = learner, source, world, device
        self.settings = config.train
        self.scored = tuple(
            name for name, seen in zip(source.series.variables, source.series.scored, strict=True)
            if seen and name in config.data.scored
        )  # fmt: skip
        self.plan = Plan.of(source, self.settings, world.rank, world.size)
        groups = learner.parameter_groups(WEIGHT_DECAY)
        self.optimiser = Optimiser(learner.module, groups, self.settings, self.plan.total)
        self.average = WeightAverage(learner.module, self.settings.average)
        self.guard = DivergenceGuard()
        self.step = 0
        self.validated = 0
        self.since_best = 0
        self.best: dict[str, Any] | None = None
        self.last_validation: dict[str, Any] = {}

    def note_validation(self, score: float, scores: dict[str, Any]) -> bool:
        """Store the scores of an epoch; return whether it is the best so far."""
        self.validated += 1
        self.last_validation = _plain(scores)
        better = math.isfinite(score) and (self.best is None or score < self.best["score"])
        if better:
            self.best = {
                "checkpoint": checkpoint_files.name_of(self.step),
                "step": self.step,
                "epoch": self.validated - 1,
                "score": score,
                "variables": self.last_validation,
            }
        self.since_best = 0 if better else self.since_best + 1
        return better

    # ---- to a checkpoint and back ---------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        """Return the weights to use: averaged where there is an average, with all buffers."""
        return {**module_tensors(self.learner.module), **self.average.tensors()}

    def checkpoint(self) -> Checkpoint:
        """Return the state as named tensors and plain values."""
        optim = self.optimiser.tensors()
        if self.average.tensors():
            optim |= {f"raw/{name}": p.detach() for name, p in self.learner.module.named_parameters()}
        state = {
            "step": self.step,
            "validated": self.validated,
            "since_best": self.since_best,
            "best": self.best,
            "last_validation": self.last_validation,
            "average_updates": self.average.updates,
            "rate_scale": self.optimiser.rate_scale,
            "in_a_row": self.guard.in_a_row,
            "skipped": self.guard.skipped,
            "rollbacks": self.guard.rollbacks,
        }
        return Checkpoint(self.step, self.weights(), optim, state)

    def write(self, run: RunDirectory, about: Mapping[str, Any]) -> None:
        """Write a checkpoint and the name of the best; keep the last two and the best."""
        write_checkpoint(run.checkpoints, self.checkpoint(), about)
        if self.best is not None and self.best["step"] == self.step:
            write_sealed(run.best_path, self.best)
        checkpoint_files.prune(run.checkpoints, keep=[self.best["checkpoint"]] if self.best else [])

    def rewrite_best(self, run: RunDirectory) -> None:
        """Write the name of the best checkpoint of the restored state, after a restart."""
        if self.best is not None:
            write_sealed(run.best_path, self.best)
        else:
            run.best_path.unlink(missing_ok=True)

    def restore(self, path: Path) -> None:
        """Restore the state from a checkpoint."""
        saved = read_checkpoint(path)
        require_schema(SavedState, saved.state, path / "state.json")
        if saved.state["step"] != saved.step:
            raise CorruptArtefactError(f"{path.name} holds the state of step {saved.state['step']}", where=str(path))
        take_weights(self.learner.module, saved.model, path)
        parameters = {name for name, _ in self.learner.module.named_parameters()}
        averaged = {name: tensor for name, tensor in saved.model.items() if name in parameters}
        if self.average.decay > 0:
            raw = {name.removeprefix("raw/"): t for name, t in saved.optim.items() if name.startswith("raw/")}
            take_weights(self.learner.module, {**saved.model, **raw}, path)
            self.average.load(averaged, int(saved.state["average_updates"]))
        self.optimiser.load(saved.optim)
        state = saved.state
        self.step, self.validated, self.since_best = state["step"], state["validated"], state["since_best"]
        self.best, self.last_validation = state["best"], state["last_validation"]
        self.optimiser.rate_scale = state["rate_scale"]
        self.guard.in_a_row, self.guard.skipped = state["in_a_row"], state["skipped"]
        self.guard.rollbacks = state["rollbacks"]

    def result(self, run: RunDirectory, stopped_early: bool) -> dict[str, Any]:
        """Return the content of ``result.json`` of a finished run."""
        best = self.best or {}
        return {
            "run": str(run.path),
            "checkpoint": str(run.checkpoints / checkpoint_files.name_of(self.step)),
            "best": str(run.checkpoints / best["checkpoint"]) if best else None,
            "steps": self.step,
            "epochs": self.validated,
            "weights_sha256": weights_sha256(self.weights()),
            "validation": best.get("variables", self.last_validation),
            "score": best.get("score"),
            "stopped_early": stopped_early,
            "skipped": self.guard.skipped,
            "rollbacks": self.guard.rollbacks,
        }


def module_tensors(module: torch.nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name: what a checkpoint holds.

    What coefficients count from (``_extra_state``) is no part: it follows from the configuration of the run.
    """
    tensors = module.state_dict()
    return {n: v for n, v in tensors.items() if isinstance(v, Tensor) and not n.endswith("_extra_state")}


@torch.no_grad()
def take_weights(module: torch.nn.Module, weights: Mapping[str, Tensor], where: Path) -> None:
    """Load weights into a module that they fit exactly.

    Raises
    ------
    CorruptArtefactError
        With the name of the first that is missing, unexpected, or of another shape.
    """
    for prefix, part in module.named_modules():
        # The size of what was fitted before the first step may have been chosen by the fit.
        if hasattr(part, "adapt_buffers"):
            start = f"{prefix}." if prefix else ""
            part.adapt_buffers({n.removeprefix(start): t for n, t in weights.items() if n.startswith(start)})
    tensors = module_tensors(module)
    odd = sorted(tensors.keys() ^ weights.keys())
    if odd:
        what = "lacks" if odd[0] in tensors else "has"
        raise CorruptArtefactError(
            f"the checkpoint {what} `{odd[0]}`, the model {'has it' if odd[0] in tensors else 'does not'}",
            code="SPDE-T054", where=str(where), do="use it with the configuration that it was trained with",
        )  # fmt: skip
    for name, value in tensors.items():
        saved = weights[name]
        if saved.shape != value.shape or saved.dtype != value.dtype:
            raise CorruptArtefactError(
                f"`{name}` is {tuple(saved.shape)} {saved.dtype} in the checkpoint, {tuple(value.shape)} {value.dtype} "
                "in the model",
                code="SPDE-T054", where=str(where), do="use it with the configuration that it was trained with",
            )  # fmt: skip
        value.copy_(saved)


def _plain(value: Any) -> Any:
    """Replace numbers that are not finite by None, so that JSON can hold them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
