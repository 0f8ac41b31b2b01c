"""A command that measures one record and writes one section of ``docs/results.md``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import torch

from stationpde.evaluation.page import update_page

__all__ = ["write_section"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"


def write_section(name: str, about: str | None, section: Callable[[Path], str]) -> None:
    """Read the command line of ``python -m benchmarks.NAME``, measure on one thread, and write the section."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("store", nargs="?", help="a store or raw files; inmet_south of the shared data by default")
    parser.add_argument("--page", type=Path, default=PAGE, help="page whose section is written anew")
    options = parser.parse_args()
    shared = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared"))
    path = Path(options.store or shared / "data" / "inmet_south" / "observations.npz")
    torch.set_num_threads(1)
    update_page(options.page, f"{name}, w2k-like {path.parent.name}/{path.name}", section(path))
    print(options.page)
