"""``python -m benchmarks.field_alone``: what the equations are worth to the field without the guide.

The printed equations and the extended ones against the same model without a PDE branch, trained for as long and for as
many steps, one seed, half the cap. Finished cells are kept in ``benchmarks/cells/without_guide``; written into
``docs/results.md``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.section import ROOT, scored, write_section
from stationpde.equations import TERMS
from stationpde.evaluation.benchmark import CAP_SECONDS, BenchmarkPlan
from stationpde.evaluation.cells import Cell
from stationpde.evaluation.results import HorizonResults
from stationpde.evaluation.significance import Comparison, compare
from stationpde.evaluation.tables import LONG_NAMES, grid, shown_number

CELLS, OUT = ROOT / "benchmarks" / "cells" / "without_guide", ROOT / "out" / "field_alone"
# Epochs that no run reaches: the cap ends it.
ALONE = ("model.guide=none", "train.epochs=10")


@dataclass(frozen=True, slots=True)
class Case:
    """A model of the table; ``as_many_steps_as`` names the case whose steps it is given."""

    title: str
    model: str = "default"
    overrides: tuple[str, ...] = ()
    as_many_steps_as: str | None = None


CASES = {
    "printed": Case("printed equations"),
    "none-printed": Case("no PDE branch, as many steps", "default-no_pde", as_many_steps_as="printed"),
    "extended": Case("extended equations", overrides=(f"pde.terms={json.dumps(list(TERMS))}",)),
    "none-extended": Case("no PDE branch, as many steps", "default-no_pde", as_many_steps_as="extended"),
    "none-time": Case("no PDE branch, as much time", "default-no_pde"),
}


def section(path: Path) -> str:
    """The section as Markdown."""
    found: dict[str, HorizonResults] = {}
    for name, case in CASES.items():
        steps = () if case.as_many_steps_as is None else (f"train.max_steps={_steps(found[case.as_many_steps_as])}",)
        found[name] = _scored(name, case, path, (*ALONE, *case.overrides, *steps))
    variables = found["printed"].variables
    least = {v: min(_mse(one, v) for one in found.values()) for v in variables}
    rows = []
    for name, case in CASES.items():
        cell = _cell(found[name])
        shown = {v: shown_number(_mse(found[name], v)) for v in variables}
        values = [f"**{shown[v]}**" if _mse(found[name], v) == least[v] else shown[v] for v in variables]
        training = cell.about["training"]
        nmse = shown_number(found[name].nmse(cell.task.model))
        rows.append([case.title, f"{training['steps']:,}", f"{training['cpu_seconds']:.0f}", *values, nmse])
    head = ["", "steps", "CPU s", *(LONG_NAMES[v] for v in variables), "nMSE"]
    commits = sorted({str(_cell(one).about.get("commit")) for one in found.values()})
    parts = [
        "## What the equations are worth to the field alone",
        "Test MSE without the guide (`model.guide=none`), seed 0, half the cap; nothing was chosen by it.",
        grid(head, rows),
        "How much lower the MSE is with equations than without a PDE branch; *n.s.*: not significant at 5 % by a block "
        "bootstrap over weeks of issue days and by Diebold and Mariano.",
        grid(["", *(LONG_NAMES[v] for v in variables)], _gains(found)),
        f"`python -m benchmarks.field_alone`, commit {', '.join(commits)}.",
    ]
    return "\n\n".join(parts)


def _gains(found: dict[str, HorizonResults]) -> list[list[str]]:
    rows = []
    for ours in ("printed", "extended"):
        for without, label in ((f"none-{ours}", "at as many steps"), ("none-time", "in as much time")):
            gains = compare(_cell(found[ours]).statistics, _cell(found[without]).statistics)
            rows.append([f"{CASES[ours].title}, {label}", *map(_percent, gains.values())])
    return rows


def _percent(found: Comparison) -> str:
    return f"{100 * found.gain:+.1f}\N{NO-BREAK SPACE}%{'' if found.is_significant else ' n.s.'}"


def _cell(found: HorizonResults) -> Cell:
    return next(iter(found.cells.values()))[0]


def _steps(found: HorizonResults) -> int:
    return int(_cell(found).about["training"]["steps"])


def _mse(found: HorizonResults, variable: str) -> float:
    return float(_cell(found).about["scores"][variable]["mse"])


def _scored(name: str, case: Case, path: Path, overrides: tuple[str, ...]) -> HorizonResults:
    plan = BenchmarkPlan(
        store=str(path), protocol="w2k-like", models=(case.model,), out=OUT / name, cells=CELLS / name,
        overrides=overrides, cap=CAP_SECONDS / 2, command="python -m benchmarks.field_alone",
    )  # fmt: skip
    return scored(plan)


if __name__ == "__main__":
    write_section("field_alone", __doc__, section)
