"""``python -m benchmarks.field_alone``: skill of the equations in the field without the guide.

The printed equations, the extended ones and these with the latent upper layer against the same model without a PDE
branch, trained for as long and for as many steps, one seed, half the cap; and the upper layer against the extended
equations and a placebo that is steered by the wind of another day. Finished cells are kept in
``benchmarks/cells/without_guide``; written into ``docs/results.md``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.section import ROOT, scored, write_section
from stationpde.evaluation import (
    CAP_SECONDS,
    LONG_NAMES,
    BenchmarkPlan,
    Cell,
    Comparison,
    HorizonResults,
    compare,
    grid,
    shown_number,
)
from stationpde.physics import TERMS

CELLS, OUT = ROOT / "benchmarks" / "cells" / "without_guide", ROOT / "out" / "field_alone"
# Epochs that no run reaches: the cap ends it.
ALONE = ("model.guide=none", "model.simple_members=false", "train.epochs=10")


@dataclass(frozen=True, slots=True)
class Case:
    """A model of the table; ``as_many_steps_as`` names the case whose number of steps it takes."""

    title: str
    model: str = "default"
    overrides: tuple[str, ...] = ()
    as_many_steps_as: str | None = None


def _terms(*more: str) -> str:
    return f"pde.terms={json.dumps([*TERMS, *more])}"


CASES = {
    "printed": Case("printed equations"),
    "none-printed": Case("no PDE branch, as many steps", "default-no_pde", as_many_steps_as="printed"),
    "extended": Case("extended equations", overrides=(_terms(),)),
    "none-extended": Case("no PDE branch, as many steps", "default-no_pde", as_many_steps_as="extended"),
    "upper": Case("extended equations and upper layer", overrides=(_terms("upper_air"),)),
    "none-upper": Case("no PDE branch, as many steps", "default-no_pde", as_many_steps_as="upper"),
    "placebo": Case(
        "the same, steered by the wind of another day", overrides=(_terms("upper_air_placebo"),),
        as_many_steps_as="upper",
    ),
    "none-time": Case("no PDE branch, as much time", "default-no_pde"),
}  # fmt: skip
# Pairs of which the gain of the first over the second is shown.
PAIRS = {
    **{
        (ours, other): f"{CASES[ours].title}, {label}"
        for ours in ("printed", "extended", "upper")
        for other, label in ((f"none-{ours}", "at as many steps"), ("none-time", "in as much time"))
    },
    ("upper", "extended"): "upper layer, against the extended equations in as much time",
    ("upper", "placebo"): "upper layer, against its placebo at as many steps",
}


def section(path: Path) -> str:
    """Write the section as Markdown."""
    results: dict[str, HorizonResults] = {}
    for name, case in CASES.items():
        steps = () if case.as_many_steps_as is None else (f"train.max_steps={_steps(results[case.as_many_steps_as])}",)
        results[name] = _scored(name, case, path, (*ALONE, *case.overrides, *steps))
    variables = results["printed"].variables
    least = {v: min(_mse(one, v) for one in results.values()) for v in variables}
    rows = []
    for name, case in CASES.items():
        cell = _cell(results[name])
        shown = {v: shown_number(_mse(results[name], v)) for v in variables}
        values = [f"**{shown[v]}**" if _mse(results[name], v) == least[v] else shown[v] for v in variables]
        training = cell.about["training"]
        nmse = shown_number(results[name].nmse(cell.task.model))
        rows.append([case.title, f"{training['steps']:,}", f"{training['cpu_seconds']:.0f}", *values, nmse])
    head = ["", "steps", "CPU s", *(LONG_NAMES[v] for v in variables), "nMSE"]
    commits = sorted({str(_cell(one).about.get("commit")) for one in results.values()})
    parts = [
        "## Skill of the equations without the guide",
        "Test MSE without the guide (`model.guide=none`), seed 0, half the cap; nothing was chosen by it.",
        grid(head, rows),
        "How much lower the MSE is with equations than without a PDE branch, or than with what is named; *n.s.*: not "
        "significant at 5 % by a block bootstrap over weeks of issue days and by Diebold and Mariano.",
        grid(["", *(LONG_NAMES[v] for v in variables)], _gains(results)),
        f"`python -m benchmarks.field_alone`, commit {', '.join(commits)}.",
    ]
    return "\n\n".join(parts)


def _gains(results: dict[str, HorizonResults]) -> list[list[str]]:
    rows = []
    for (ours, other), title in PAIRS.items():
        gains = compare(_cell(results[ours]).statistics, _cell(results[other]).statistics)
        rows.append([title, *map(_percent, gains.values())])
    return rows


def _percent(comparison: Comparison) -> str:
    return f"{100 * comparison.gain:+.1f}\N{NO-BREAK SPACE}%{'' if comparison.is_significant else ' n.s.'}"


def _cell(results: HorizonResults) -> Cell:
    return next(iter(results.cells.values()))[0]


def _steps(results: HorizonResults) -> int:
    return int(_cell(results).about["training"]["steps"])


def _mse(results: HorizonResults, variable: str) -> float:
    return float(_cell(results).about["scores"][variable]["mse"])


def _scored(name: str, case: Case, path: Path, overrides: tuple[str, ...]) -> HorizonResults:
    plan = BenchmarkPlan(
        store=str(path), protocol="w2k-like", models=(case.model,), out=OUT / name, cells=CELLS / name,
        overrides=overrides, recipe="former", cap=CAP_SECONDS / 2, command="python -m benchmarks.field_alone",
    )  # fmt: skip
    return scored(plan)


if __name__ == "__main__":
    write_section("field_alone", __doc__, section)
