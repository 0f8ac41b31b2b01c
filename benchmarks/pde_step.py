"""The step of the surface system: backends against eager torch, the memory bound, and other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pde_ops.benchmarking import SIZES, interleaved, make_problem, pde_step_ratios
from pde_ops.benchmarking.ratios import compiled

from . import languages, py_pde_step
from .start import start_seconds

__all__ = ["measure"]

UNBATCHED = "1x512x768"


def measure(quick: bool, languages_python: Path | None = None) -> dict[str, Any]:
    """Return everything that ``results.json`` holds under ``pde_step``."""
    torch.set_num_threads(1)
    figures: dict[str, Any] = {"compared": "the least of many rounds"}
    figures |= pde_step_ratios(quick, inductor=not quick)
    others = (
        languages.measure(quick) if languages_python is None else languages.measure_elsewhere(languages_python, quick)
    )
    figures["languages"] = others
    for name, sizes in others.items():
        ratios = None if sizes is None else {size: line["raw"] / line["fused"] for size, line in sizes.items()}
        figures[f"vs_{name}_per_cell"] = ratios
    py_pde = None if quick else _py_pde()
    figures["py_pde"] = py_pde
    figures["vs_py_pde_per_cell"] = None if py_pde is None else {s: line["ratio"] for s, line in py_pde.items()}
    figures["start_seconds"] = {name: start_seconds(name) for name in ("fused", *(() if quick else ("inductor",)))}
    return figures


def _py_pde() -> dict[str, dict[str, float]]:
    """Time py-pde without a batch: it has none, and a sample of 32 x 48 cells would measure our overhead."""
    problem = make_problem(*SIZES[UNBATCHED])
    ours = compiled(problem, "fused")
    calls = {"py_pde": py_pde_step.prepare(problem), "fused": lambda: _forward(ours, problem)}
    per_cell = {name: 1e9 * value / problem.cells for name, value in interleaved(calls, rounds=15).items()}
    return {UNBATCHED: {**per_cell, "ratio": per_cell["py_pde"] / per_cell["fused"]}}


def _forward(module: Any, problem: Any) -> None:
    with torch.no_grad():
        module.advance(problem.state, problem.closures, problem.dt)
