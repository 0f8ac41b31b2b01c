"""One rank of a training run, started by torchrun: ``training_rank.py RUN [section.key=value …]``.

``STOP_AT=RANK:STEP:SIGNAL:ATTEMPT`` (several with commas) makes a rank send itself a signal. ``GRADIENTS=FILE`` writes
the gradient of one whole batch instead of training. ``COLLECTIVE_SECONDS`` is how long ranks wait for each other.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

import training_learner as small
from cli._ranks import as_rank
from fields import atomic
from stationpde.data.window_source import WindowSource
from stationpde.training import session
from stationpde.training.distributed import join_world
from stationpde.training.launcher import launched_by
from stationpde.training.sampler import Plan
from stationpde.training.session import TrainOptions, train

session.COLLECTIVE_SECONDS = float(os.environ.get("COLLECTIVE_SECONDS", session.COLLECTIVE_SECONDS))


class FragileLearner(small.LinearLearner):
    """Does something to its own process in a given step of the first attempt."""

    calls = 0

    def losses(self, batch: Any, reducer: Any) -> Any:
        self.calls += 1
        time.sleep(float(os.environ.get("SLEEP", "0")))
        for order in filter(None, os.environ.get("STOP_AT", "").split(",")):
            rank, step, name, attempt = order.split(":")
            here = os.environ["RANK"], self.calls, os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            if here == (rank, int(step), attempt):
                os.kill(os.getpid(), getattr(signal, name))
        return super().losses(batch, reducer)


def gradients(config: Any, world: Any, model: bool = False) -> tuple[float, list[float]]:
    """Loss of the first whole batch and its gradient, added up over the ranks."""
    source = WindowSource.of(small.small_series(), config)
    torch.manual_seed(0)
    if model:
        from stationpde.model.task import ModelLearner

        learner: Any = ModelLearner.of(config, source.series, source.windows.split)
    else:
        learner = small.LinearLearner(source.series, dropout=0.0)
    plan = Plan(source.epoch, 1, config.train.batch, 0, world.rank, world.size)
    terms = learner.losses(source.batch(plan.windows(0)), world.reducer)
    terms.total.backward()
    parameters = [p for p in learner.module.parameters() if p.requires_grad]
    world.combine(parameters, [0.0])
    return float(terms.total.detach()), torch.cat([p.grad.reshape(-1) for p in parameters]).tolist()


def build(config: Any, source: Any) -> Any:
    if os.environ.get("DIE_SAVING") == f"{os.environ['RANK']}:{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}":
        die_in_the_third_checkpoint()
    return FragileLearner(source.series)


def die_in_the_third_checkpoint() -> None:
    """Everything is written under another name, and the process is killed before it gets its own."""
    publish, calls = atomic.publish, iter(range(99))

    def fatal(*given: Any, **named: Any) -> None:
        if next(calls) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        publish(*given, **named)

    atomic.publish = fatal


def main(run: str, *overrides: str) -> int:
    torch.set_num_threads(1)
    config = small.small_config(*overrides)

    def work() -> dict[str, Any]:
        if "GRADIENTS" in os.environ:
            with join_world(60) as world:
                found = gradients(config, world, os.environ.get("LEARNER") == "model")
                if world.rank == 0:
                    Path(os.environ["GRADIENTS"]).write_text(json.dumps(found))
            return {}
        options = TrainOptions(guardian=launched_by())
        return train(config, small.small_series(), run, build=build, options=options).to_dict()

    return as_rank(work)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
