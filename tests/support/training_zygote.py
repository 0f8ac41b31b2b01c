"""A process that has imported everything and forks a real training process for each line that it reads.

The children are processes like any other, to be killed, stopped and interrupted; only the seconds that importing torch
takes are saved. Protocol: a line of JSON in (``steps``, ``run``, ``overrides`` …), a line ``{"pid"}`` out when the
child has started.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import training_learner as small
from cli._errors import explain
from stationpde.training.session import TrainOptions, train


class SlowLearner(small.LinearLearner):
    """Takes a while for each step, so that a signal meets it in mid-training; a hungry one asks for a terabyte."""

    def __init__(self, series: Any, seconds: float, hungry: bool) -> None:
        super().__init__(series)
        self.seconds, self.hungry = seconds, hungry

    def losses(self, batch: Any, reducer: Any) -> Any:
        time.sleep(self.seconds)
        if self.hungry:
            torch.ones(1 << 38)
        return super().losses(batch, reducer)


def run(job: dict[str, Any]) -> int:
    """Train as the job says; the exit code of the command line."""
    for limit, value in job.get("limits", {}).items():
        resource.setrlimit(getattr(resource, limit), (value, value))
    if job.get("user") and os.getuid() == 0:
        os.setegid(job["user"])
        os.seteuid(job["user"])

    def build(config: Any, source: Any) -> Any:
        return SlowLearner(source.series, job.get("sleep", 0.0), job.get("hungry", False))

    options = TrainOptions(**{k: Path(v) if k == "init" else v for k, v in job.get("options", {}).items()})
    try:
        series = small.small_series(seed=job.get("data_seed", 0))
        result = train(small.small_config(*job.get("overrides", [])), series, job["run"], build=build, options=options)
        sys.stdout.write(json.dumps(result.to_dict()))
        return 0
    except BaseException as problem:  # noqa: BLE001 - as the boundary of the command does
        failure = explain(problem)
        sys.stderr.write("\n".join(failure.lines()) + "\n")
        return int(failure.exit_code)


def child(job: dict[str, Any]) -> None:
    for number, name in ((1, "out"), (2, "err")):
        handle = os.open(f"{job['log']}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(handle, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, force=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    code = run(job)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    small.small_config()  # what it imports may be out of reach of the user that a child becomes
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if "wait" in job:
            _, status = os.waitpid(job["wait"], 0)
            print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            child(job)
        print(json.dumps({"pid": pid}), flush=True)


if __name__ == "__main__":
    main()
