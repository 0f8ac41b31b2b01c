"""A training step on `inmet_south`, without equations, with the printed and with the extended ones: CPU time, parts.

The same three models at Weather2K's size (`national`), forward and backward, for their ratio to another version.

``STATIONPDE_BEFORE`` names a checkout of another version: both are then measured in one run, in processes of their own
that take turns, and the ratios are those of steps a few seconds apart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

__all__ = ["MODELS", "measure", "timed_leads"]

ROOT = Path(__file__).parents[1]
BEFORE = "STATIONPDE_BEFORE"
TERMS = 'pde.terms=["surroundings", "memory", "relaxation", "radiation"]'
MODELS: Mapping[str, tuple[str, ...]] = {
    "without_pde": ("model.pde_branch=false",),
    "printed": (),
    "extended": (TERMS,),
}
BATCH = 8


def measure(quick: bool, rounds: int | None = None) -> dict[str, Any]:
    """Return CPU milliseconds of a step (batch of 8, one thread), their parts, and ratios to the version before."""
    record = _record()
    if not record.is_file():
        return {"inmet_south": None}
    before = os.environ.get(BEFORE)
    trees = {"now": ROOT, **({"before": Path(before)} if before else {})}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(_worker(tree)) for name, tree in trees.items()}
        seconds: dict[str, dict[str, list[float]]] = {name: {model: [] for model in MODELS} for name in workers}
        national: dict[str, dict[str, list[float]]] = {name: {model: [] for model in MODELS} for name in workers}
        rounds = rounds or (4 if quick else 12)
        for number in range(rounds):
            for model in MODELS:
                for name, ask in workers.items():
                    seconds[name][model].append(ask(f"step {model}"))
                    if "before" in workers and number % 2 == 0:
                        national[name][model].append(ask(f"national {model}"))
        parts = {model: workers["now"](f"parts {model}") for model in MODELS}
        memory = {name: {model: ask(f"memory {model}") for model in MODELS} for name, ask in workers.items()}
    result: dict[str, Any] = {
        "load_average": round(os.getloadavg()[0], 1),
        "shape": f"{BATCH} windows of inmet_south, 16 to 8 steps, AdamW included",
        "milliseconds": {model: 1e3 * median(values) for model, values in seconds["now"].items()},
        "milliseconds_of_parts": parts,
        "megabytes_kept": {model: value / 1e6 for model, value in memory["now"].items()},
    }
    plain = result["milliseconds"]["without_pde"]
    result["equations_add"] = {name: value / plain - 1.0 for name, value in result["milliseconds"].items()}
    del result["equations_add"]["without_pde"]
    if "before" in seconds:
        result["times_as_fast"] = _ratios(seconds)
        result["times_as_fast_at_weather2k_size"] = _ratios(national)
        result["memory_to_before"] = {model: memory["now"][model] / memory["before"][model] for model in MODELS}
    return {"inmet_south": result}


def _ratios(seconds: Mapping[str, Mapping[str, list[float]]]) -> dict[str, float]:
    """Return the median ratio of steps that followed each other, by model."""
    pairs = {model: zip(seconds["before"][model], seconds["now"][model], strict=True) for model in MODELS}
    return {model: median(old / new for old, new in values) for model, values in pairs.items()}


def _record() -> Path:
    shared = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared"))
    return shared / "data" / "inmet_south" / "observations.npz"


@contextmanager
def _worker(tree: Path) -> Iterator[Callable[[str], Any]]:
    """Start this file with the packages of a checkout; the callable sends an order and returns the answer."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), str(_record())],
        env=environment, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    orders, answers = process.stdin, process.stdout

    def ask(order: str) -> Any:
        print(order, file=orders, flush=True)
        return json.loads(answers.readline())

    with process:
        try:
            yield ask
        finally:
            orders.close()


class _Step:
    """A model in training on one batch of the record, with its optimiser."""

    def __init__(self, record: str, overrides: tuple[str, ...]) -> None:
        import torch

        from stationpde.config import Config
        from stationpde.data import WindowSource, load_series
        from stationpde.model import LocalReducer, ModelLearner

        torch.set_num_threads(1)
        config = Config.preset("weather2k").with_overrides(list(overrides))
        series = load_series(record, config.data, quality="gross")
        self.source = WindowSource.of(series, config)
        torch.manual_seed(0)
        self.learner = ModelLearner.of(config, series, self.source.windows.split)
        self.model = self.learner.model.train()
        with torch.no_grad():  # last layers start as zero
            for parameter in self.model.parameters():
                if parameter.ndim > 1:
                    parameter.add_(0.02 * torch.randn_like(parameter))
        self.optimiser = torch.optim.AdamW(self.learner.parameter_groups(1e-4), lr=1e-4, fused=True)
        self.clip = partial(torch.nn.utils.clip_grad_norm_, list(self.model.parameters()), 1.0)
        self.starts, self.reducer = self.source.epoch(0)[:BATCH], LocalReducer()

    def __call__(self) -> dict[str, float]:
        """Take a step; return CPU seconds of its three stages."""
        began = time.process_time()
        self.optimiser.zero_grad()
        losses = self.learner.losses(self.source.batch(self.starts), self.reducer)
        forward = time.process_time()
        losses.total.backward()
        backward = time.process_time()
        self.clip()
        self.optimiser.step()
        end = time.process_time()
        return {"forward": forward - began, "backward": backward - forward, "optimiser": end - backward}

    def parts(self, repeats: int = 5) -> dict[str, float]:
        """Return CPU milliseconds of the stages of a step and of the parts of its forward pass."""
        from stationpde.model import networks_of

        model, spent = self.model, {}
        modules = {**networks_of(model), "lift": model.sites.lift, "readout": model.sites.readout}
        modules["surroundings"] = model.sites.surroundings
        if model.pde_branch is not None:
            modules["equations"] = model.pde_branch
        hooks = [hook for name, module in modules.items() for hook in _timed(module, name, spent)]
        with timed_leads(spent):
            stages = [self() for _ in range(repeats)]
        for hook in hooks:
            hook.remove()
        if "equations" in spent:
            spent["equations"] -= spent.get("closure", 0.0)
        rest = sum(stage["forward"] for stage in stages) - sum(spent.values())
        whole = {name: 1e3 * median(stage[name] for stage in stages) for name in stages[0]}
        return whole | {name: 1e3 * value / repeats for name, value in {**spent, "rest_of_forward": rest}.items()}

    def memory(self) -> int:
        """Return the bytes that a step keeps for its backward pass, each storage counted once."""
        from torch import Tensor
        from torch.autograd.graph import saved_tensors_hooks

        sizes: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        with saved_tensors_hooks(note, lambda tensor: tensor):
            self()
        return sum(sizes.values())


def _timed(module: Any, name: str, spent: dict[str, float]) -> list[Any]:
    began = [0.0]

    def enter(*_: Any) -> None:
        began[0] = time.process_time()

    def leave(*_: Any) -> None:
        spent[name] = spent.get(name, 0.0) + time.process_time() - began[0]

    return [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]


@contextmanager
def timed_leads(spent: dict[str, float]) -> Iterator[None]:
    """Add up the CPU seconds of equations and router where they are one function."""
    from stationpde.model.lead_kernel import LeadProgram

    plain, name = LeadProgram.__call__, "equations_and_router"

    def timed(*arguments: Any) -> Any:
        began = time.process_time()
        result = plain(*arguments)
        spent[name] = spent.get(name, 0.0) + time.process_time() - began
        return result

    with patch.object(LeadProgram, "__call__", timed):
        yield


def _national_seconds(model: str, steps: dict[str, Callable[[], None]]) -> float:
    """Return CPU seconds of forward and backward at Weather2K's size, by the benchmark of the worker's own version."""
    if model not in steps:
        import torch

        from benchmarks.national import national_config, national_model
        from benchmarks.training import _step

        torch.set_num_threads(1)
        steps[model] = _step(national_model(national_config(*MODELS[model])).train())
        steps[model]()
    began = time.process_time()
    steps[model]()
    return time.process_time() - began


def _serve(record: str) -> None:
    """Answer orders from standard input: ``step MODEL``, ``parts MODEL``, ``memory MODEL``, ``national MODEL``."""
    steps: dict[str, _Step] = {}
    nationals: dict[str, Callable[[], None]] = {}
    for order in sys.stdin:
        what, model = order.split()
        if what == "national":
            print(json.dumps(_national_seconds(model, nationals)), flush=True)
            continue
        if model not in steps:
            steps[model] = _Step(record, MODELS[model])
            steps[model]()
            steps[model]()
        step = steps[model]
        answers = {"step": lambda step=step: sum(step().values()), "parts": step.parts, "memory": step.memory}
        print(json.dumps(answers[what]()), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
