"""Estimate shapes, memory, parameters and time of a run from a few real steps, without writing anything."""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch

from fields.times import format_duration
from stationpde.config import absences
from stationpde.data import WindowSource
from stationpde.seeding import seed_everything
from stationpde.training.device import resolve_device
from stationpde.training.distributed import LocalWorld
from stationpde.training.resources import process_faults
from stationpde.training.state import TrainingState

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.config import Config
    from stationpde.training.session import Build

__all__ = ["DryRun", "dry_run", "peak_memory"]

_TIMED_STEPS = 3
# Share of the free memory that a trial step may take; beyond it the need is extrapolated from smaller batches.
_SAFE_SHARE = 0.7
_LABELS = {
    "cell_km": "cell [km]",
    "parts_of_a_substep": "parts of a sub-step",
    "substeps": "sub-steps of a step",
    "courant_at_20_m_s": "Courant at 20 m/s",
    "largest_wind_m_s": "largest wind [m/s]",
    "grid": "grid cells",
}


@dataclass(frozen=True, slots=True)
class DryRun:
    """Estimate of a run; ``memory_bytes`` is the peak of the whole process, seconds are of this machine at present."""

    stations: int
    variables: int
    batch: dict[str, list[int]]
    windows: dict[str, int]
    steps_per_epoch: int
    steps: int
    parameters: int
    memory_bytes: int
    memory_measured: bool
    free_bytes: int
    checkpoint_bytes: int
    seconds_per_step: float
    seconds_per_epoch: float
    seconds: float
    seconds_of_first_guess: float
    courant: float | None
    model: dict[str, Any]
    not_observed: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON-ready values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the estimate as lines of text."""
        shapes = ", ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in self.batch.items())
        how = "measured" if self.memory_measured else "extrapolated"
        fits = "" if self.memory_bytes < self.free_bytes else "  MORE THAN IS FREE"
        facts = {
            "data": f"{self.stations} stations, {self.windows['train']:,} training and {self.windows['val']:,} "
            "validation windows",
            "batch": shapes,
            "parameters": f"{self.parameters:,}",
            "memory": f"{self.memory_bytes / 1e9:.2f} GB ({how}), {self.free_bytes / 1e9:.1f} GB free{fits}",
            "checkpoint": f"{self.checkpoint_bytes / 1e6:.1f} MB, up to three are kept",
            "time": f"{self.seconds_per_step:.3g} s a step, {format_duration(self.seconds_per_epoch)} an epoch of "
            f"{self.steps_per_epoch:,} steps, at most {format_duration(self.seconds)} in all"
            + (
                f", {format_duration(self.seconds_of_first_guess)} of it the first guess"
                if self.seconds_of_first_guess
                else ""
            ),
        }
        if self.courant is not None:
            facts["Courant"] = f"{self.courant:.3g} (largest of the first batch's forecast)"
        facts |= {
            _LABELS.get(name, name.replace("_", " ")): " × ".join(map(str, value)) if isinstance(value, list) else value
            for name, value in self.model.items()
            if name not in ("parameters", "stations", "history", "horizon")  # shown above, in the batch
        }
        rows = [*facts.items(), *(("not observed", text) for text in self.not_observed)]
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}  {text}" for name, text in rows]


def dry_run(config: Config, series: StationSeries, *, build: Build | None = None, device: str = "auto") -> DryRun:
    """Estimate a run without beginning it; nothing is written.

    Memory is the process's peak in real steps at the real batch where that is safe, else extrapolated from batches of
    one and two, to which it is linear.
    """
    from stationpde.training.session import default_build

    config = config.fitted_to(series.reference)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    source = WindowSource.of(series, config)
    seed_everything(config.train.seed, "init")
    learner = (build or default_build)(config, source)
    device = resolve_device(device)
    learner.module.to(device)
    state = TrainingState(learner, source, config, LocalWorld(), device)
    with process_faults(config):
        trial = _Trial(state)
        memory, measured = trial.memory()
        step, validation = trial.seconds(measured)
        first_guess, needed = trial.preparation()
    first = state.plan.whole_batch(0)
    batch = source.batch(first)
    content = state.checkpoint()
    tensors = [*content.model.values(), *content.optim.values()]
    checkpoint = sum(t.numel() * t.element_size() for t in tensors)
    per_epoch = state.plan.end_of(0)
    windows = {"train": len(source.epoch(0)), "val": len(source.part("val", config.train.validate_windows))}
    epoch = step * per_epoch + validation * windows["val"]
    return DryRun(
        stations=len(series.stations),
        variables=len(series.variables),
        batch={"history": list(batch.history.shape), "future": list(batch.future.shape)},
        windows=windows,
        steps_per_epoch=per_epoch,
        steps=state.plan.total,
        parameters=sum(p.numel() for p in learner.module.parameters()),
        # A checkpoint is copied out before it is written.
        memory_bytes=max(memory + 2 * checkpoint, needed),
        memory_measured=measured,
        free_bytes=_free(device),
        checkpoint_bytes=checkpoint,
        seconds_per_step=step,
        seconds_per_epoch=epoch,
        seconds=first_guess + step * state.plan.total + validation * windows["val"] * state.plan.epochs,
        seconds_of_first_guess=first_guess,
        courant=trial.courant,
        model=dict(learner.describe()),
        not_observed=tuple(absences(config.data)),
    )


class _Trial:
    """A few steps of training whose result is discarded."""

    def __init__(self, state: TrainingState) -> None:
        self.state, self.on_cpu = state, not state.device.startswith("cuda")
        self.courant: float | None = None
        self._step_seconds: dict[int, float] = {}

    def memory(self) -> tuple[int, bool]:
        """Return the peak memory of a step [bytes], and whether it was measured at the real batch size."""
        full = len(self.state.plan.whole_batch(0))
        sizes = sorted({1, min(2, full)})
        peaks = [self._peak_of(size) for size in sizes]
        slope = max(0, peaks[-1] - peaks[0])
        expected = peaks[0] + slope * (full - 1)
        if full in sizes:
            return peaks[sizes.index(full)], True
        if expected - peaks[0] > _SAFE_SHARE * _free(self.state.device):
            return expected, False
        return max(self._peak_of(full) for _ in range(_TIMED_STEPS)), True

    def seconds(self, measured: bool) -> tuple[float, float]:
        """Return the seconds of a step at the real batch size, and of validating one window."""
        full = len(self.state.plan.whole_batch(0))
        size = full if measured else max(self._step_seconds)
        began = time.perf_counter()
        starts = self.state.source.part("val")[:size]
        self.state.learner.module.eval()
        with torch.no_grad():
            self.state.learner.predict(self.state.source.batch(starts).to(self.state.device))
        validation = (time.perf_counter() - began) / len(starts)
        return self._step_seconds[size] * full / size, validation

    def preparation(self) -> tuple[float, int]:
        """Return the seconds of what a learner fits before its first step, and the peak memory of that [bytes]."""
        if not hasattr(self.state.learner, "preparation_cost"):
            return 0.0, 0
        gc.collect()
        self._reset()
        cost = self.state.learner.preparation_cost(self.state.source)
        return cost.seconds, (peak_memory() if self.on_cpu else torch.cuda.max_memory_allocated()) + cost.further_bytes

    def _peak_of(self, size: int) -> int:
        gc.collect()
        self._reset()
        state = self.state
        batch = state.source.batch(state.plan.whole_batch(0)[:size]).to(state.device)
        state.learner.module.train()
        began = time.perf_counter()
        state.optimiser.zero_grad()
        terms = state.learner.losses(batch, state.world.reducer)
        terms.total.backward()
        state.optimiser.clip()
        state.optimiser.step(0)
        took = time.perf_counter() - began
        # The first step builds kernels: the fastest is the estimate for the others.
        self._step_seconds[size] = min(took, self._step_seconds.get(size, took))
        courant = getattr(terms, "courant", None)
        self.courant = self.courant if courant is None else float(courant)
        return peak_memory() if self.on_cpu else torch.cuda.max_memory_allocated()

    def _reset(self) -> None:
        if not self.on_cpu:
            torch.cuda.reset_peak_memory_stats()
        elif os.access("/proc/self/clear_refs", os.W_OK):  # only Linux can reset the peak
            Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Return the largest resident memory of this process, bytes.

    psutil has no peak. On Linux `getrusage` includes the peak of the parent process at the time of the fork, and
    writing to ``clear_refs`` does not reset it: there the kernel's own high-water mark is read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _free(device: str) -> int:
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available)
