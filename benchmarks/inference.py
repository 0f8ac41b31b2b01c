"""A 24 h forecast of 1,866 stations on one thread: fused equations, compiled networks and programs against eager."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from pde_ops.benchmarking import interleaved
from stationpde.model import compile_networks
from stationpde.physics import clipped

from .national import STATIONS, national_config, national_model, national_window

__all__ = ["measure"]


def measure(quick: bool) -> dict[str, Any]:
    """Return CPU seconds of a forecast and their ratio to eager, and how far the results are apart."""
    torch.set_num_threads(1)
    eager, fused, compiled = (
        national_model(national_config(f"pde.backend={name}")).eval() for name in ("torch", "fused", "fused")
    )
    history, _, issue = national_window(eager.config)
    ways: dict[str, Any] = {"eager": lambda: eager(history, issue).observed}
    ways["fused"] = lambda: fused(history, issue).observed
    if not quick:
        compile_networks(compiled)
        ways["fused_compiled"] = lambda: compiled(history, issue).observed
        if find_spec("onnxruntime") is not None:
            ways["onnx"] = _onnx(eager, history, issue)
    with torch.inference_mode():
        expected = ways["eager"]()
        apart = {
            # Exported programs give relative humidity within its range.
            name: float(((clipped(way()) - clipped(expected)).abs() / expected.std(dim=(0, 1, 2))).max())
            for name, way in ways.items()
            if name != "eager"
        }
        seconds = interleaved(ways, rounds=5 if quick else 15)
    return {
        "stations": STATIONS,
        "forecast_vs_eager": {name: seconds[name] / seconds["eager"] for name in apart},
        "seconds": seconds,
        "largest_difference_in_standard_deviations": apart,
    }


def _onnx(model: Any, history: torch.Tensor, issue: torch.Tensor) -> Any:
    """Return a forecast by exported programs with the loop outside."""
    from stationpde.forecasting import Rollout, programs_of, write_programs

    programs = programs_of(model, history, issue)
    inputs = {name: list(program.inputs) for name, program in programs.items()}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        write_programs(programs, Path(folder), "onnx")
        horizon, substeps = model.config.data.horizon, model.config.substeps
        rollout = Rollout.from_files(Path(folder), "onnx", inputs, horizon, substeps)
    return lambda: rollout(history, issue)
