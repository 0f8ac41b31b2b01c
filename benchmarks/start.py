"""Seconds from an empty process with the package imported to the first gradient: cold, and with a warm cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["start_seconds"]

ROOT = Path(__file__).parents[1]
SCRIPT = """
import json, sys, time
import torch
from pde_ops.benchmarking import make_problem, surface_system
torch.set_num_threads(1)
problem = make_problem(4, 32, 48)
started = time.perf_counter()
module = surface_system().compile(problem.grid, backend=sys.argv[1])
module.advance(problem.state, problem.closures, problem.dt).sum().backward()
print(json.dumps(time.perf_counter() - started))
"""


def start_seconds(backend: str) -> dict[str, float]:
    """Return ``cold`` (empty caches) and ``warm`` (the caches that the cold start left) wall seconds."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        caches = {
            "STATIONPDE_CACHE": folder,
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "NUMBA_CACHE_DIR": folder,
        }
        environment = {**os.environ, **caches, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return {kind: _run(backend, environment) for kind in ("cold", "warm")}


def _run(backend: str, environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", SCRIPT, backend]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))
