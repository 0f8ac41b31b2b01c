"""Compute cells in worker processes, a few at a time: each reads its task from stdin and writes a finished cell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fields import atomic
from stationpde.errors import FieldsError, Interrupted, ResourceError, StationPDEError
from stationpde.evaluation.cells import Cell, read_cell
from stationpde.evaluation.contestants import Task, contestant

if TYPE_CHECKING:
    from stationpde.evaluation.benchmark import Bench, BenchmarkPlan

__all__ = ["computed_in_workers"]

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 60.0
_STOPPED = (75, 130)


@dataclass(eq=False)
class _Worker:
    task: Task
    process: subprocess.Popen[bytes]
    log: BinaryIO
    answer: Path

    def end(self) -> FieldsError | None:
        """Wait for the process; return its error, or None."""
        code = self.process.wait()
        self.log.close()
        if code == 0:
            return None
        failure: dict[str, Any] = atomic.read_table(self.answer) or {}
        if not {"message", "code"} <= failure.keys():
            return ResourceError(
                f"the process of a cell ended with code {code}", code="SPDE-B013", where=self.log.name,
                do="read the end of its log; the same command resumes",
            )  # fmt: skip
        problem = StationPDEError(failure["message"], code=failure["code"], where=self.log.name, do=failure.get("do"))
        problem.exit_code = int(failure.get("exit_code", 1))
        return problem


def computed_in_workers(bench: Bench, tasks: list[Task]) -> Iterator[tuple[Task, Cell | None]]:
    """Yield cells in the order in which they are finished; models that combine others wait until these are done.

    Raises
    ------
    Interrupted
        When the bench is told to stop: the workers save what they have first.
    """
    single = [task for task in tasks if not contestant(task.model).members]
    combined = [task for task in tasks if contestant(task.model).members]
    for wave in (single, combined):
        yield from _wave(bench, list(wave))


def _wave(bench: Bench, waiting: list[Task]) -> Iterator[tuple[Task, Cell | None]]:
    running: list[_Worker] = []
    try:
        while waiting or running:
            while waiting and len(running) < bench.plan.jobs:
                running.append(_start(bench, waiting.pop(0)))
            bench._check_stop(0, 1)
            for worker in [one for one in running if one.process.poll() is not None]:
                running.remove(worker)
                problem = worker.end()
                if problem is not None and problem.exit_code in _STOPPED:
                    raise Interrupted("a worker was stopped", where=str(bench.plan.out))
                if problem is not None:
                    bench.failed[worker.task.name] = problem
                    yield worker.task, None
                else:
                    yield worker.task, read_cell(bench.plan.cell_folder / f"{worker.task.name}.json")
            time.sleep(_POLL_SECONDS)
    finally:
        _stop_all(running)


def _start(bench: Bench, task: Task) -> _Worker:
    """Start a process for one cell; it stops when its parent ends, and Ctrl-C reaches it through the parent alone."""
    plan = bench.plan
    folder = plan.out / "logs"
    with atomic.machine_faults(folder):
        folder.mkdir(parents=True, exist_ok=True)
        log = (folder / f"{task.name}.log").open("wb")
    answer = folder / f"{task.name}.error.json"
    answer.unlink(missing_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "stationpde.evaluation.workers"], stdin=subprocess.PIPE, stdout=log, stderr=log,
        env=environment, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    left = bench._seconds_left()
    job = {"plan": _plain(plan), "task": task.to_dict(), "answer": str(answer), "left": left, "parent": os.getpid()}
    process.stdin.write(json.dumps(job).encode())
    process.stdin.close()
    return _Worker(task, process, log, answer)


def _stop_all(running: list[_Worker]) -> None:
    for worker in running:
        worker.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + _GRACE_SECONDS
    for worker in running:
        try:
            worker.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        worker.log.close()


def _plain(plan: BenchmarkPlan) -> dict[str, Any]:
    return {**asdict(plan), "out": str(plan.out), "cells": None if plan.cells is None else str(plan.cells)}


def _work(job: dict[str, Any]) -> int:
    """Compute one cell in this process; return the exit code."""
    from stationpde.data import load_series
    from stationpde.evaluation.benchmark import Bench, BenchmarkPlan
    from stationpde.training import StopRequest

    settings = job["plan"]
    lists = {name: tuple(settings[name]) for name in ("models", "seeds", "horizons", "overrides")}
    places = {"out": Path(settings["out"]), "cells": None if settings["cells"] is None else Path(settings["cells"])}
    plan = BenchmarkPlan(**{**settings, **lists, **places})
    task = Task(**{**job["task"], "overrides": tuple(job["task"]["overrides"])})
    deadline = None if job["left"] is None else time.monotonic() + job["left"]
    try:
        with StopRequest(job["left"], job["parent"]) as stop:
            config = contestant(task.model).config(task)
            series = load_series(
                plan.store, config.data, cache=plan.out, command="benchmark", quality=plan.quality, complete=True
            )
            Bench(plan, series, None, stop, deadline).compute(task)
    except FieldsError as problem:
        about = {"code": problem.code, "message": problem.message, "do": problem.do, "exit_code": problem.exit_code}
        atomic.write_file(Path(job["answer"]), json.dumps(about).encode())
        return int(problem.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(_work(json.load(sys.stdin)))
