"""A 24 h forecast of 1,866 stations on one thread: fused equations, compiled networks and programs against eager."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from pde_ops.benchmarking import interleaved
from stationpde.compiling import compile_networks
from stationpde.state import clipped

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
    """The exported programs with the loop outside."""
    from stationpde.export import Rollout, _load_onnx, _parts, _traceable, _write_programs

    parts = _parts(_traceable(model), history, issue)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder, torch.no_grad():
        _write_programs(model, parts, Path(folder), "onnx")
        programs = {name: _load_onnx(Path(folder) / f"{name}.onnx", list(part.inputs)) for name, part in parts.items()}
    rollout = Rollout(programs, model.config.data.horizon, model.config.substeps)
    return lambda: rollout(history, issue)
