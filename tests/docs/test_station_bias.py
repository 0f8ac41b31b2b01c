"""The constant error of single stations, printed from cells, and the figures that the decisions quote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.station_bias import lines_of

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "benchmarks" / "cells"


@pytest.mark.parametrize(
    ("cell", "share"), [("paper-recipe_paper", "59 %"), ("paper", "26 %"), ("paper-ten_epochs", "4 %")]
)
def test_the_share_of_constant_errors_of_pressure_is_what_the_decisions_say(cell, share):
    title, *lines = lines_of(CELLS / f"w2k-like-24h-{cell}-seed0.json")
    assert title.startswith("StationPDE (as printed") and [line.split()[0] for line in lines] == [*"uvpt", "rh"]
    pressure = next(line for line in lines if line.split()[0] == "p")
    printed = re.search(r"constant +(\d+)%", pressure)
    assert printed is not None and f"{printed[1]} %" == share
    decisions = (ROOT / "docs" / "design-decisions.md").read_text("utf-8")
    part = decisions.partition("**Where the printed model's pressure error comes from")[2].partition("\n\n")[0]
    assert share in part
