"""`stationpde ops`: look at, check and time the registered operators, third parties' included."""

from __future__ import annotations

from typing import Annotated

import typer

from cli._console import console, shown
from cli._errors import ExitCode

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Operators: list, show, check, bench.")


@app.command("list")
def list_operators(
    pattern: Annotated[str, typer.Argument(help="Shell wildcard, e.g. 'advection*'.")] = "*",
) -> None:
    """List the operators with their units.

    Example: stationpde ops list 'advection*'
    """
    from stationpde import operator_cards

    found = operator_cards.cards(pattern)
    columns = ["name", "units", "what it is", "family", "backends", "owner"]
    rows = [[c.name, c.signature, c.summary, c.family, ", ".join(c.backends), c.owner] for c in found]
    if rows:
        console.table(columns, rows, essential=3)
    else:
        console.note(f"no operator matches '{pattern}'; `stationpde ops list` shows all")
    console.result({"operators": [c.to_json() for c in found]})


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of an operator, or of a system: surface, anomaly.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="Write a Markdown page instead.")] = False,
) -> None:
    """Show one operator: equation, units, properties, references, source; or the equations of the model.

    Example: stationpde ops show surface --markdown
    """
    from pde_ops import operators
    from stationpde import operator_cards, system_cards

    is_system = name in system_cards.SYSTEMS and name not in operators.list()
    chosen = system_cards.card(name) if is_system else operator_cards.card(name)
    console.text(chosen.to_markdown() if markdown else chosen.to_text())
    console.result(chosen.to_json())


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Names or wildcards; none means all.")] = None,
) -> None:
    """Run the generic test suite on operators.

    A failed check makes the exit code 1.

    Example: stationpde ops check 'advection*' my_operator
    """
    from stationpde import operator_cards

    report = operator_cards.check(
        names or [], progress=lambda name, wrong: console.note(f"{'FAIL' if wrong else 'ok':<5}{name}")
    )
    for failure in report.failed:
        console.text(f"{failure['operator']}: {failure['check']}: {failure['detail']}")
    console.text(f"{report.operators} operators, {report.checks} checks, {len(report.failed)} failed")
    console.result(report.to_json())
    if report.failed:
        raise typer.Exit(ExitCode.BUG)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds: a look, not a measurement.")] = False,
) -> None:
    """Time a step of the surface system on this machine.

    The figures are ratios against eager torch, measured side by side.

    Example: stationpde ops bench --quick --json
    """
    from pde_ops.benchmarking import pde_step_ratios

    console.note("measuring; this takes a while on a busy machine")
    ratios = pde_step_ratios(quick=quick)
    console.table(["quantity", "value"], [[key, shown(value)] for key, value in _flat(ratios)])
    console.result({"pde_step": ratios})


def _flat(values: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in values.items():
        pairs += _flat(value, f"{prefix}{key} › ") if isinstance(value, dict) else [(prefix + key, value)]
    return pairs
