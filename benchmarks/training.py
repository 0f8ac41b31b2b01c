"""A training step of Weather2K's shape: the fused equations and compiled networks against eager, memory, and parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pde_ops.benchmarking import interleaved
from stationpde.model import StationPDEModel, compile_networks, networks_of

from . import training_inmet
from .national import STATIONS, national_config, national_model, national_window

__all__ = ["measure"]

ROOT = Path(__file__).parents[1]
BATCH = 2


def measure(quick: bool) -> dict[str, Any]:
    """Return ratios of CPU time of forward and backward, of memory with recomputation, and the parts of a forward."""
    torch.set_num_threads(1)
    eager, fused, recomputed, compiled = (
        national_model(national_config(*words)).train()
        for words in (["pde.backend=torch"], [], ["train.recompute=true"], [])
    )
    steps = {"eager": _step(eager), "fused": _step(fused), "recompute": _step(recomputed)}
    if not quick:
        compile_networks(compiled)
        steps["compiled"] = _step(compiled)
        for _ in range(2):
            steps["compiled"]()
    seconds = interleaved(steps, rounds=3 if quick else 5)
    memory = {name: _peak(name == "recompute") for name in ("fused", "recompute")}
    return {
        "shape": f"{BATCH} windows of {STATIONS} stations, {list(eager.region.grid.shape)} cells, 16 to 8 steps",
        "step_vs_eager": {name: seconds["eager"] / seconds[name] for name in steps if name in ("fused", "compiled")},
        "seconds_a_window": {name: value / BATCH for name, value in seconds.items()},
        "recompute_time": seconds["recompute"] / seconds["fused"],
        "recompute_memory": memory["recompute"] / memory["fused"],
        "megabytes_of_a_step": {name: value / 1e6 for name, value in memory.items()},
        "share_of_a_forward": _parts(fused),
        "first_compiled_step": None if quick else _cold_start(),
        **training_inmet.measure(quick),
    }


def _step(model: StationPDEModel) -> Callable[[], None]:
    history, future, issue = national_window(model.config, BATCH)

    def run() -> None:
        model.zero_grad()
        forecast = model(history, issue).observed
        error = torch.where(torch.isfinite(future), forecast - future, 0.0) / forecast.detach().std(dim=(0, 1, 2))
        error.abs().mean().backward()

    return run


def _peak(recompute: bool) -> int:
    """Measure the resident bytes that a first step adds to its process."""
    return int(_in_a_new_process(PEAK, str(recompute).lower())["bytes"])


def _parts(model: StationPDEModel) -> dict[str, float]:
    """Measure shares of CPU time of one forward pass by part; the equations are the PDE branch without its closure."""
    spent: dict[str, float] = {}
    parts: dict[str, nn.Module] = {**networks_of(model), "lift": model.sites.lift, "readout": model.sites.readout}
    if model.pde_branch is not None:
        parts["equations"] = model.pde_branch
    hooks = [hook for name, module in parts.items() for hook in _timed(module, name, spent)]
    history, _, issue = national_window(model.config, BATCH)
    with torch.no_grad():
        model(history, issue)
        spent.clear()
        began = time.process_time()
        with training_inmet.timed_leads(spent):
            model(history, issue)
        whole = time.process_time() - began
    for hook in hooks:
        hook.remove()
    if "equations" in spent:
        spent["equations"] -= spent.get("closure", 0.0)
    shares = {name: value / whole for name, value in sorted(spent.items(), key=lambda item: -item[1])}
    return {**shares, "rest": 1.0 - sum(shares.values())}


def _timed(module: nn.Module, name: str, spent: dict[str, float]) -> list[Any]:
    began = [0.0]

    def enter(*_: Any) -> None:
        began[0] = time.process_time()

    def leave(*_: Any) -> None:
        spent[name] = spent.get(name, 0.0) + time.process_time() - began[0]

    return [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]


COLD = """
import json, os, resource, sys, time
import torch
torch.set_num_threads(1)
from benchmarks.national import national_config, national_model
from benchmarks.training import _step
from stationpde.model.compiling import compile_networks
model = national_model(national_config()).train()
compile_networks(model)
began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
_step(model)()
own = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
helpers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
print(json.dumps({"wall_seconds": time.perf_counter() - began, "cpu_seconds": own + helpers}))
"""


PEAK = """
import json, sys
import torch
torch.set_num_threads(1)
from benchmarks.national import national_config, national_model
from benchmarks.training import _step
from stationpde.training.estimate import peak_memory
run = _step(national_model(national_config(f"train.recompute={sys.argv[1]}")).train())
before = peak_memory()
run()
print(json.dumps({"bytes": peak_memory() - before}))
"""


def _cold_start() -> dict[str, float]:
    """Measure the first compiled step with empty caches; compilers that inductor starts are counted."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        return _in_a_new_process(COLD, TORCHINDUCTOR_CACHE_DIR=folder, TORCHINDUCTOR_COMPILE_THREADS="1")


def _in_a_new_process(script: str, *words: str, **environment: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", script, *words], env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured
