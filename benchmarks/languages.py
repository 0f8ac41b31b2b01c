"""The forward step in other languages, in turns with the fused backend: Devito, GT4Py.

They may live in another environment: ``python -m benchmarks --languages-python PATH`` runs this module there, which
needs torch, numpy and pint beside them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from pde_ops.benchmarking import SIZES, interleaved, make_problem
from pde_ops.benchmarking.problem import Problem
from pde_ops.benchmarking.ratios import compiled

from . import devito_step, gt4py_step

__all__ = ["measure", "measure_elsewhere"]

ROOT = Path(__file__).parents[1]
MODULES = {"devito": devito_step, "gt4py": gt4py_step}


def measure(quick: bool) -> dict[str, Any]:
    """Return, by language, nanoseconds a cell of its raw kernel, of its call, and of ours; None if not installed."""
    torch.set_num_threads(1)
    timings: dict[str, Any] = {}
    for name, module in MODULES.items():
        timings[name] = None
        if importlib.util.find_spec(name) is not None:
            rounds = 7 if quick else 25
            timings[name] = {
                size: _against_fused(module, make_problem(*shape), rounds) for size, shape in SIZES.items()
            }
    return timings


def measure_elsewhere(python: Path, quick: bool) -> dict[str, Any]:
    """Run :func:`measure` with another interpreter."""
    command = [str(python), "-m", "benchmarks.languages", *(["--quick"] if quick else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _against_fused(module: Any, problem: Problem, rounds: int) -> dict[str, float]:
    prepared = module.prepare(problem)
    ours, raw = compiled(problem, "fused"), []

    def foreign() -> None:
        prepared["step"]()
        raw.append(prepared["raw"]())

    def fused() -> None:
        with torch.no_grad():
            ours.advance(problem.state, problem.closures, problem.dt)

    seconds = interleaved({"call": foreign, "fused": fused}, rounds)
    # Their kernels are timed by their own wall clocks, which a busy machine lengthens: the shortest is taken for them,
    # or the CPU time of the whole call where even that is shorter.
    seconds["raw"] = min(*raw, seconds["call"])
    per_cell = {name: 1e9 * value / problem.cells for name, value in seconds.items()}
    per_cell["difference"] = _difference(prepared["result"](), ours, problem)
    return per_cell


def _difference(result: Any, ours: Any, problem: Problem) -> float:
    """Return the largest difference inside the border, relative to the largest increment of the field."""
    inside = (..., slice(1, -1), slice(1, -1))
    with torch.no_grad():
        after = ours.advance(problem.state, problem.closures, problem.dt)
    gap = (torch.as_tensor(result) - after)[inside].abs().amax((0, 2, 3))
    return float((gap / (after - problem.state).abs().amax((0, 2, 3))).max())


if __name__ == "__main__":
    print(json.dumps(measure("--quick" in sys.argv)))
