"""What commands share that measure a record and write a section of ``docs/results.md``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from cli._progress import ProgressDisplay
from fields.ingest import IngestOptions
from stationpde.data import load_series
from stationpde.evaluation import BenchmarkPlan, HorizonResults, contestant, run_benchmark, update_page

__all__ = ["PAGE", "ROOT", "computed", "default_record", "scored", "write_section"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"


def write_section(name: str, about: str | None, section: Callable[[Path], str]) -> None:
    """Read the command line of ``python -m benchmarks.NAME``, measure on one thread, and write the section."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("store", nargs="?", help="a store or raw files; inmet_south of the shared data by default")
    parser.add_argument("--page", type=Path, default=PAGE, help="page whose section is written anew")
    options = parser.parse_args()
    path = Path(options.store or default_record())
    torch.set_num_threads(1)
    update_page(options.page, f"{name}, w2k-like {path.parent.name}/{path.name}", section(path))
    print(options.page)


def default_record() -> Path:
    """Return the path of ``inmet_south`` in the shared data."""
    shared = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared"))
    return shared / "data" / "inmet_south" / "observations.npz"


def computed(plan: BenchmarkPlan, options: IngestOptions | None = None) -> tuple[HorizonResults | None, dict[str, str]]:
    """Compute the missing cells of a plan of one horizon; return the cells, and why others failed.

    ``options`` say how the record is read.
    """
    config = contestant("default").config(plan.tasks()[0])
    with ProgressDisplay() as display:
        series = load_series(
            plan.store, config.data, cache=plan.out, watcher=display, command="benchmark", quality="gross",
            options=options,
        )  # fmt: skip
        results, bench = run_benchmark(plan, series, display)
    failed = {name: problem.message for name, problem in bench.failed.items()}
    return results.horizons[0] if results.horizons else None, failed


def scored(plan: BenchmarkPlan) -> HorizonResults:
    """Return the cells of a plan of one horizon, computed where they are missing; end the command if one failed."""
    results, failed = computed(plan)
    if failed or results is None:
        sys.exit(f"{plan.out.name}: {', '.join(failed)} failed")
    return results
