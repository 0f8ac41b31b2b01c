"""The training loop: steps, skipped steps, roll-backs, validation, checkpoints, and an orderly end.

A step depends on the last checkpoint and the number of the step alone. A process that is killed at any time therefore
repeats the lost steps exactly when it is started again.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from fields import atomic
from stationpde.errors import TrainingDivergedError
from stationpde.model import logged_terms
from stationpde.runs import checkpoint_files
from stationpde.seeding import seed_everything
from stationpde.training.divergence import locate_fault
from stationpde.training.progress import StepReporter
from stationpde.training.validation import ValidationSums, total_score

if TYPE_CHECKING:
    from fields.windows import Batch
    from stationpde.runs import MetricsLog, RunDirectory
    from stationpde.training.signals import StopRequest
    from stationpde.training.state import TrainingState
    from stationpde.training.tensorboard import Board

__all__ = ["CALIBRATION_SHARE", "Trainer"]

log = logging.getLogger(__name__)

# Two of five windows of validation: no multiple of five is a day, so that all hours of issue are among them.
_CALIBRATION_STRIDE, _CALIBRATION_PHASES = 5, (0, 2)
CALIBRATION_SHARE = len(_CALIBRATION_PHASES) / _CALIBRATION_STRIDE
# Reasons to stop, in the order of the flags that ranks exchange.
_REASONS = ("SIGINT", "SIGTERM", "SIGUSR1", "time", "orphaned")


class Trainer:
    """Trains a `TrainingState` to its last step, or until it is told to stop.

    Parameters
    ----------
    state : learner, optimiser, plan and position; already restored from a checkpoint when there was one
    run : where everything is written; by rank 0 alone
    about : facts for the manifests of checkpoints
    stop : source of requests to stop
    metrics : log of steps and validations; None on ranks other than 0
    board : TensorBoard writer; None without one
    watcher : function that is called with progress events
    """

    def __init__(
        self, state: TrainingState, run: RunDirectory, about: Mapping[str, Any], *, stop: StopRequest,
        metrics: MetricsLog | None, board: Board | None = None, watcher: Any = None,
    ) -> None:  # fmt: skip
        self.state, self.run, self.about, self.stop = state, run, about, stop
        self.settings, self.world, self.plan = state.settings, state.world, state.plan
        self.metrics, self.board = metrics, board
        self.report = StepReporter(watcher, self.plan.total)
        self.saving_seconds = 0.0

    def fit(self) -> dict[str, Any]:
        """Train to the end and return the result."""
        if self.state.step == 0 and not checkpoint_files.listed(self.run.checkpoints):
            self.save()
        while True:
            if self.plan.epochs_done(self.state.step) > self.state.validated:
                self._close_epoch()
            if self.state.step >= self.plan.total or self._has_stalled():
                return self.state.result(self.run, stopped_early=self.state.step < self.plan.total)
            self._run_epoch()

    def _has_stalled(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.state.since_best >= patience

    # ---- steps ----------------------------------------------------------------------------------------------

    def _run_epoch(self) -> None:
        """Run the steps up to the end of the epoch, or to a roll-back."""
        state = self.state
        epoch, _ = self.plan.locate(state.step)
        end = self.plan.end_of(epoch)
        state.learner.module.train()
        for batch in self._batches(state.step, end):
            verdict, reason = self._step(batch, epoch)
            if verdict == "roll_back":
                self._roll_back()
                return
            if reason is not None:
                self._stop(reason)
            if state.step % self.settings.checkpoint_every == 0 and state.step < end:
                self.save()

    def _batches(self, first: int, end: int) -> Iterator[Batch]:
        starts = (self.plan.windows(step) for step in range(first, end))
        for batch in map(self.state.source.batch, starts):
            yield batch.to(self.state.device)

    def _step(self, batch: Batch, epoch: int) -> tuple[str, str | None]:
        state, began = self.state, time.perf_counter()
        step, optimiser = state.step, state.optimiser
        seed = (self.settings.seed, "step", epoch, step, self.world.rank)
        seed_everything(*seed)
        self.world.note_step(step)
        optimiser.zero_grad()
        terms = state.learner.losses(batch, self.world.reducer)
        terms.total.backward()
        values = {name: float(value.detach()) for name, value in logged_terms(terms).items()}
        request = self.stop.reason
        flags = [float(not math.isfinite(values["total"])), *(float(request == reason) for reason in _REASONS)]
        bad, *requests = self.world.combine(optimiser.parameters, flags)
        norm = optimiser.clip()
        verdict = state.guard.judge(not bad and math.isfinite(norm))
        if verdict == "give_up":
            self._give_up(batch, seed)
        if verdict == "good":
            optimiser.step(step)
            state.average.update()
        state.step = step + 1
        values |= {"grad_norm": norm, "lr": optimiser.rate(step)}
        self._log(epoch, verdict, values, time.perf_counter() - began)
        return verdict, next((reason for reason, requested in zip(_REASONS, requests, strict=True) if requested), None)

    def _log(self, epoch: int, verdict: str, values: dict[str, float], seconds: float) -> None:
        step = self.state.step
        if verdict != "good":
            log.warning("step %d: loss or gradient is not finite; the step is skipped", step)
        if self.metrics is not None:
            record = {"kind": "step", "step": step, "epoch": epoch, **values, "skipped": verdict != "good"}
            self.metrics.add({**record, "seconds": round(seconds, 6)})
        if self.board is not None:
            self.board.add("train", values, step)
        self.report(step, epoch, values)

    # ---- faults and requests --------------------------------------------------------------------------------

    def _roll_back(self) -> None:
        guard = self.state.guard
        skipped, rollbacks, scale = guard.skipped, guard.rollbacks, self.state.optimiser.rate_scale
        newest = self.run.newest_valid()
        assert newest is not None, "step 0 was saved"
        bad = self.state.step
        self.state.restore(newest)
        guard.skipped, guard.rollbacks, guard.in_a_row = skipped, rollbacks, 0
        self.state.optimiser.rate_scale = scale / 2
        log.warning("step %d: three bad steps in a row; back to %s with half the learning rate", bad, newest.name)
        if self.metrics is not None:
            self.metrics.drop_after(self.state.step, self.state.validated)

    def _give_up(self, batch: Batch, seed: tuple[Any, ...]) -> NoReturn:
        state = self.state
        fault = locate_fault(state.learner, batch, self.world.reducer, seed)
        path = self.run.path / f"diverged-step-{state.step}.json"
        content = {
            "step": state.step,
            "epoch": self.plan.locate(state.step)[0],
            "windows": self.plan.whole_batch(state.step).tolist(),
            "issue_times": batch.issue_time.tolist(),
            "skipped": state.guard.skipped,
            "rollbacks": state.guard.rollbacks,
            "learning_rate": state.optimiser.rate(state.step),
            **fault,
        }
        if self.world.rank == 0:
            with atomic.machine_faults(path):
                atomic.write_file(path, json.dumps(content, indent=2).encode())
        culprits = fault["parameters"][:1] or [fault["module"] or fault["operation"] or "the loss"]
        raise TrainingDivergedError(
            f"training diverged at step {state.step:,} after {state.guard.rollbacks} roll-backs; "
            f"first not finite: {culprits[0]}",
            where=str(path),
            do="begin another run with a smaller train.lr, or look at the windows that the file names; "
            "the last good checkpoint is kept",
        )

    def _stop(self, reason: str) -> NoReturn:
        self.save()
        raise self.stop.error(str(self.run.path), self.state.step, reason)

    # ---- validation and checkpoints -------------------------------------------------------------------------

    def _close_epoch(self) -> None:
        state, began = self.state, time.perf_counter()
        sums = self._validate()
        scores = sums.scores()
        score = total_score(scores)
        epoch = state.validated
        better = state.note_validation(score, {name: s.to_dict() for name, s in scores.items()})
        seconds = time.perf_counter() - began
        self.report.validation(state.step, epoch, scores, better)
        if self.metrics is not None:
            record = {"kind": "validation", "step": state.step, "epoch": epoch, "score": score, "best": better}
            self.metrics.add({**record, "variables": state.last_validation, "seconds": round(seconds, 6)})
        if self.board is not None:
            self.board.add("validation", {f"{n}_mse": s.mse for n, s in scores.items()} | {"score": score}, state.step)
        self.save()

    @torch.no_grad()
    def _validate(self) -> ValidationSums:
        state, world = self.state, self.world
        starts = state.source.part("val", self.settings.validate_windows)
        sums = ValidationSums(state.scored, len(state.source.series.stations))
        size = self.settings.batch
        requests = torch.zeros(len(_REASONS))
        state.learner.module.eval()
        with state.average.applied():
            self._calibrate(starts)
            for first in range(0, len(starts), size * world.size):
                mine = starts[first : first + size * world.size][world.rank :: world.size]
                if len(mine):
                    batch = state.source.batch(mine).to(state.device)
                    sums.add(state.learner.predict(batch), batch)
                request = self.stop.reason
                requests = world.sum(torch.tensor([float(request == reason) for reason in _REASONS]))
                if requests.any():
                    break
        if requests.any():
            self._stop(_REASONS[int(requests.argmax())])
        sums.sums = world.sum(sums.sums)
        return sums

    def _calibrate(self, starts: Any) -> None:
        calibrate = getattr(self.state.learner, "calibrate", None)
        if calibrate is None:
            return
        chosen = np.isin(np.arange(len(starts)) % _CALIBRATION_STRIDE, _CALIBRATION_PHASES)
        mine = starts[chosen][self.world.rank :: self.world.size]
        parts = (mine[first : first + self.settings.batch] for first in range(0, len(mine), self.settings.batch))
        calibrate((self.state.source.batch(part).to(self.state.device) for part in parts), self.world.sum)

    def save(self) -> None:
        """Write a checkpoint, then the name of the best one, then remove checkpoints that are no longer needed."""
        if self.metrics is None:  # not rank 0
            return
        began = time.perf_counter()
        self.metrics.sync()
        self.state.write(self.run, self.about)
        self.saving_seconds += time.perf_counter() - began
